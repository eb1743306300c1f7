"""A classifier with scikit-learn's interface."""

import numpy as np
import torch
from skorch import NeuralNetClassifier
from torch import nn


class Net(nn.Module):
    def __init__(self, hidden=8):
        super().__init__()
        self.dense, self.output = nn.Linear(4, hidden), nn.Linear(hidden, 2)
        with torch.no_grad():
            for i, p in enumerate(self.parameters()):
                p.copy_((torch.arange(p.numel(), dtype=torch.float32) + i).sin().view_as(p) * 0.5)

    def forward(self, X):
        return torch.softmax(self.output(torch.relu(self.dense(X))), dim=-1)


X = np.sin(np.arange(160, dtype=np.float32) * 1.3).reshape(40, 4)
y = (X.sum(1) > 0).astype(np.int64)
net = NeuralNetClassifier(
    Net,
    max_epochs=5,
    lr=0.5,
    optimizer=torch.optim.SGD,
    iterator_train__shuffle=False,
    train_split=None,
    verbose=0,
)
net.fit(X, y)
print(
    [round(float(row["train_loss"]), 4) for row in net.history],
    net.predict(X)[:8],
    net.predict_proba(X)[:2].round(4),
)
