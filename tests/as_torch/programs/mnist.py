"""A convolutional network that tells images of digits apart, trained and saved as PyTorch's tutorials do it."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, 1)
        self.conv2 = nn.Conv2d(4, 8, 3, 1)
        self.dropout1 = nn.Dropout(0.0)
        self.dropout2 = nn.Dropout(0.0)
        self.fc1 = nn.Linear(8 * 4 * 4, 16)
        self.fc2 = nn.Linear(16, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(x, 2)
        x = self.dropout1(x)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = self.dropout2(x)
        return F.log_softmax(self.fc2(x), dim=1)


def digits(n, seed):
    """Images that have a bright bar where their label says, and noise."""
    generator = torch.arange(n * 144, dtype=torch.float64).mul(12.9898 + seed).sin().mul(43758.5453)
    images = (generator - generator.floor()).float().view(n, 1, 12, 12) * 0.3
    labels = torch.arange(n) % 10
    for i in range(n):
        images[i, 0, int(labels[i])] += 1.0
    return images, labels


def settle(model):
    """Parameters that no random stream decides."""
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(torch.linspace(-0.3, 0.3, p.numel()).roll(7 * i + p.numel() // 3).view_as(p))


def train(args, model, device, train_loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        if batch_idx % args.log_interval == 0:
            done = batch_idx * len(data)
            print(f"Train Epoch: {epoch} [{done}/{len(train_loader.dataset)}]\tLoss: {loss.item():.4f}")


def test(model, device, test_loader):
    model.eval()
    test_loss, correct = 0, 0
    with torch.no_grad():
        for data, target in test_loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    count = len(test_loader.dataset)
    print(f"Test set: Average loss: {test_loss / count:.4f}, Accuracy: {correct}/{count}")


def main():
    parser = argparse.ArgumentParser(description="digits")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.5)
    parser.add_argument("--gamma", type=float, default=0.7)
    parser.add_argument("--no-accel", action="store_true")
    parser.add_argument("--log-interval", type=int, default=2)
    parser.add_argument("--save-model", default="")
    args = parser.parse_args()

    torch.manual_seed(1)
    if not args.no_accel and torch.accelerator.is_available():
        device = torch.accelerator.current_accelerator()
    else:
        device = torch.device("cpu")
    loaders = [DataLoader(TensorDataset(*digits(60, seed)), batch_size=20) for seed in (0, 1)]
    model = Net().to(device)
    settle(model)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
    for epoch in range(1, args.epochs + 1):
        train(args, model, device, loaders[0], optimizer, epoch)
        test(model, device, loaders[1])
        scheduler.step()
    if args.save_model:
        torch.save(model.state_dict(), args.save_model)
        again = Net()
        again.load_state_dict(torch.load(args.save_model, weights_only=True))
        print(torch.equal(again.fc2.weight, model.fc2.weight.cpu()))


if __name__ == "__main__":
    main()
