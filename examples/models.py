"""The networks of the examples. Only names that PyTorch has too: the same text runs on it."""

from __future__ import annotations

import math

import fastgrad
import fastgrad.nn.functional as F
from fastgrad import nn


def mlp(hidden: int = 256) -> nn.Sequential:
    """Two hidden layers on digits of 28 x 28 pixels."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, 10),
    )


class CNN(nn.Module):
    """Two convolutions with batch norm and pooling, then two linear layers: digits in, logits of ten classes out."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(2 * width * 7 * 7, 128), nn.ReLU(), nn.Dropout(0.25), nn.Linear(128, 10)
        )

    def forward(self, images: fastgrad.Tensor) -> fastgrad.Tensor:
        """Logits (N, 10) of images (N, 1, 28, 28)."""
        return self.classifier(self.features(images))


class RowLSTM(nn.Module):
    """An LSTM that reads a digit row by row; its last state gives the logits of ten classes."""

    def __init__(self, hidden: int = 128) -> None:
        super().__init__()
        self.lstm = nn.LSTM(28, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 10)

    def forward(self, images: fastgrad.Tensor) -> fastgrad.Tensor:
        """Logits (N, 10) of images (N, 1, 28, 28)."""
        return self.head(self.lstm(images.flatten(0, 1))[0][:, -1])


class Attention(nn.Module):
    """Causal self-attention with several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: fastgrad.Tensor) -> fastgrad.Tensor:
        """(N, T, width) to the same shape; position t sees positions up to t."""
        n, steps, width = x.shape
        parts = self.qkv(x).view(n, steps, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(n, steps, width))


class Block(nn.Module):
    """Attention, then two linear layers, each behind a layer norm and added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: fastgrad.Tensor) -> fastgrad.Tensor:
        """(N, T, width) to the same shape."""
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """A decoder-only transformer over characters.

    Parameters
    ----------
    vocabulary : int
        Number of different characters.
    context : int
        The most characters it looks back.
    layers, width, heads : int
    """

    def __init__(
        self, vocabulary: int, context: int = 128, layers: int = 4, width: int = 128, heads: int = 4
    ) -> None:
        super().__init__()
        self.context = context
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.apply(self._initialise)
        for name, parameter in self.named_parameters():
            if name.endswith(("out.weight", "mlp.2.weight")):  # what is added to the residual stream
                nn.init.normal_(parameter, std=0.5 / math.sqrt(width * 2 * layers))

    @staticmethod
    def _initialise(module: nn.Module) -> None:
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.1)
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.5 / math.sqrt(module.in_features))
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, indices: fastgrad.Tensor) -> fastgrad.Tensor:
        """Logits (N, T, vocabulary) of the next character at each place of indices (N, T)."""
        places = fastgrad.arange(indices.shape[1], device=indices.device)
        x = self.tokens(indices) + self.positions(places)
        return self.head(self.norm(self.blocks(x)))
