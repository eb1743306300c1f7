"""Sine waves that two LSTM cells continue, fitted with LBFGS in float64."""

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1 = nn.LSTMCell(1, 7)
        self.lstm2 = nn.LSTMCell(7, 7)
        self.linear = nn.Linear(7, 1)

    def forward(self, input, future=0):
        outputs = []
        h_t = torch.zeros(input.size(0), 7, dtype=torch.double)
        c_t = torch.zeros(input.size(0), 7, dtype=torch.double)
        h_t2, c_t2 = torch.zeros_like(h_t), torch.zeros_like(h_t)
        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        for _ in range(future):
            h_t, c_t = self.lstm1(output, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        return torch.cat(outputs, dim=1)


if __name__ == "__main__":
    np.random.seed(0)
    x = np.array(range(20)) + np.random.randint(-20, 20, 6).reshape(6, 1)
    data = np.sin(x / 1.0 / 5).astype("float64")
    input, target = torch.from_numpy(data[2:, :-1]), torch.from_numpy(data[2:, 1:])
    test_input, test_target = torch.from_numpy(data[:2, :-1]), torch.from_numpy(data[:2, 1:])
    seq = Sequence()
    seq.double()
    with torch.no_grad():
        for i, p in enumerate(seq.parameters()):
            p.copy_(torch.from_numpy(np.cos(np.arange(p.numel()) + i)).view_as(p) * 0.3)
    criterion = nn.MSELoss()
    optimizer = optim.LBFGS(seq.parameters(), lr=0.8, max_iter=5)
    for step in range(2):

        def closure():
            optimizer.zero_grad()
            loss = criterion(seq(input), target)
            loss.backward()
            return loss

        print("STEP:", step, f"loss: {optimizer.step(closure).item():.6f}")
        with torch.no_grad():
            pred = seq(test_input, future=4)
            loss = criterion(pred[:, :-4], test_target)
            print(f"test loss: {loss.item():.6f}", np.round(pred.detach().numpy()[0, -4:], 4))
