"""A variational autoencoder, with noise that is computed instead of drawn."""

import torch
from torch import nn, optim
from torch.nn import functional as F

BATCH, PIXELS, HIDDEN, CODE = 16, 36, 20, 4
calls = 0


def wave(*sizes):
    global calls
    calls += 1
    n = 1
    for size in sizes:
        n *= size
    return torch.sin(torch.arange(n, dtype=torch.float32) * 1.7 + calls).view(*sizes)


class VAE(nn.Module):
    def __init__(self):
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(PIXELS, HIDDEN)
        self.fc21 = nn.Linear(HIDDEN, CODE)
        self.fc22 = nn.Linear(HIDDEN, CODE)
        self.fc3 = nn.Linear(CODE, HIDDEN)
        self.fc4 = nn.Linear(HIDDEN, PIXELS)
        for p in self.parameters():
            p.data = wave(*p.shape) * 0.2

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + wave(*std.shape) * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, PIXELS))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    bce = F.binary_cross_entropy(recon_x, x.view(-1, PIXELS), reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = VAE().to(device)
optimizer = optim.Adam(model.parameters(), lr=1e-2)
images = (wave(8, BATCH, 1, 6, 6) > 0.2).float()
for epoch in range(3):
    model.train()
    train_loss = 0.0
    for data in images:
        optimizer.zero_grad()
        loss = loss_function(*((lambda r, m, v: (r, data, m, v))(*model(data))))
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    print(f"====> Epoch: {epoch} Average loss: {train_loss / len(images) / BATCH:.4f}")
with torch.no_grad():
    sample = model.decode(wave(3, CODE).to(device)).cpu()
    print(sample.view(3, 1, 6, 6).mean(dim=(1, 2, 3)))
