"""Two convolutional networks against each other: one makes images, the other one tells them from given ones."""

import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
import torch.optim as optim

cudnn.benchmark = True
nz, ngf, ndf, nc = 6, 4, 4, 1
device = torch.device("cpu")


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        w = m.weight
        nn.init.constant_(w, 0.0)
        w.data += torch.cos(torch.arange(w.numel(), dtype=w.dtype)).view_as(w) * 0.1
    elif classname.find("BatchNorm") != -1:
        nn.init.ones_(m.weight)
        nn.init.zeros_(m.bias)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf, nc, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, input):
        if input.is_cuda:
            return nn.parallel.data_parallel(self.main, input, range(1))
        return self.main(input)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(nc, ndf, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ndf * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, input):
        return self.main(input).view(-1, 1).squeeze(1)


netG, netD = Generator().to(device), Discriminator().to(device)
netG.apply(weights_init)
netD.apply(weights_init)
criterion = nn.BCELoss()
optimizerD = optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
for i in range(3):
    real = torch.sin(torch.arange(4 * 256, dtype=torch.float32) * (0.1 + i)).view(4, nc, 16, 16)
    netD.zero_grad()
    label = torch.full((4,), 1, dtype=real.dtype, device=device)
    output = netD(real)
    errD_real = criterion(output, label)
    errD_real.backward()
    noise = torch.cos(torch.arange(4 * nz, dtype=torch.float32) + i).view(4, nz, 1, 1)
    fake = netG(noise)
    label.fill_(0)
    output = netD(fake.detach())
    errD_fake = criterion(output, label)
    errD_fake.backward()
    D_G_z1 = output.mean().item()
    errD = errD_real + errD_fake
    optimizerD.step()
    netG.zero_grad()
    label.fill_(1)
    output = netD(fake)
    errG = criterion(output, label)
    errG.backward()
    optimizerG.step()
    print(
        f"[{i}] Loss_D: {errD.item():.4f} Loss_G: {errG.item():.4f} D(G(z)): {D_G_z1:.4f} / {output.mean():.4f}"
    )
