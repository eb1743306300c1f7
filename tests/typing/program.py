"""A program that uses all parts of the library, for type checkers at their strictest; it also runs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad import Tensor, nn, optim
from fastgrad.utils.data import DataLoader, TensorDataset

# --- tensors --------------------------------------------------------------------------------------------------


def tensors() -> Tensor:
    a = fg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    b: Tensor = fg.zeros(2, 2, dtype=fg.float32) + fg.ones((2, 2)) * 2
    c = (a @ b).relu() - a / 2 + 3 * a**2
    rows: fg.Size = c.shape
    n: int = c.numel() + rows.numel() + c.dim() + len(c)
    largest = c.max(dim=1)
    values: Tensor = largest.values
    position: int = int(largest.indices[0])
    top: Tensor = c.max()
    kind: fg.dtype = c.dtype
    place: fg.device = c.device
    assert (n, position) == (4 + 4 + 2 + 2, 1)
    assert kind is fg.float32
    assert place.type == "cpu"
    number: float = float(top) + top.item()
    print(number, bool((values > 0).all()))
    return c.sum()


def views_and_indices(x: Tensor) -> Tensor:
    flat = x.reshape(-1).unsqueeze(0).expand(2, -1)
    parts: tuple[Tensor, ...] = fg.split(flat, 2, dim=1)
    joined = fg.cat([*parts], dim=1)
    picked = joined[0, 1:3].index_select(0, fg.tensor([0, 1]))
    where = fg.where(picked > 1, picked, -picked)
    ordered, places = where.sort(descending=True)
    return ordered.gather(0, places).contiguous()


def arrays(x: Tensor) -> np.ndarray[Any, Any]:
    array = x.detach().numpy()
    back: Tensor = fg.from_numpy(array)
    assert fg.equal(back, x)
    return array


# --- hooks and passes -----------------------------------------------------------------------------------------


def double(gradient: Tensor) -> Tensor:
    return gradient * 2


def passes() -> None:
    x = fg.randn(3, requires_grad=True)
    handle = x.register_hook(double)
    y = (x.sin() * x).sum()
    y.backward(retain_graph=True)
    handle.remove()
    assert x.grad is not None
    shape: fg.Size = x.grad.shape
    assert shape == (3,)
    gradients: tuple[Any, ...] = fg.autograd.grad(y, [x])
    assert len(gradients) == 1
    with fg.no_grad():
        x.add_(1)
        x.zero_()
    with fg.enable_grad():
        assert fg.is_grad_enabled()


class Cube(fg.autograd.Function):
    """``x ** 3``, with a derivative of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        result: Tensor = 3 * x * x * gradient
        return result


# --- modules --------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """A convolution, its norm, what follows."""

    def __init__(self, channels: int, *, p: float = 0.1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.drop = nn.Dropout(p)
        self.scale = nn.Parameter(fg.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.norm(self.conv(x))
        pooled = F.max_pool2d(F.gelu(h), 2)
        dropped: Tensor = self.drop(pooled)
        return dropped * self.scale


class Classifier(nn.Module):
    """Blocks, then a linear layer."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Block(4), nn.ReLU())
        self.head = nn.Linear(4 * 2 * 2, classes)

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.blocks(x)
        logits: Tensor = self.head(features.flatten(1))
        return logits


def observed(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
    print(type(module).__name__, len(args), type(output).__name__)


def batches(n: int) -> Iterator[tuple[Tensor, Tensor]]:
    inputs, labels = fg.rand(n, 1, 4, 4), fg.randint(0, 3, (n,))
    yield from DataLoader(TensorDataset(inputs, labels), batch_size=4, shuffle=True)


def train(epochs: int = 1) -> float:
    model = Classifier()
    handle = model.head.register_forward_hook(observed)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    schedule = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    last = 0.0
    for _ in range(epochs):
        for x, y in batches(8):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            last = loss.item()
        schedule.step()
    handle.remove()
    keep(model)
    return last


def keep(model: nn.Module) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        state: dict[str, Tensor] = dict(model.state_dict())
        fg.save(state, path)
        loaded = fg.load(path)
        model.load_state_dict(loaded)
    model.eval()
    assert not model.training


# --- functions ------------------------------------------------------------------------------------------------


def functions() -> Tensor:
    q = fg.randn(1, 2, 4, 8)
    attended = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    normal = F.layer_norm(attended, (8,), eps=1e-6)
    pooled, indices = F.max_pool2d(normal, 2, return_indices=True)
    padded = F.pad(pooled, (1, 1), mode="constant", value=0.0)
    product = fg.einsum("bhij,bhkj->bhik", padded, padded)
    special = fg.special.erf(product) + fg.linalg.vector_norm(product)
    assert indices.dtype is fg.int64
    return fg.stack([special, fg.logsumexp(product, dim=-1, keepdim=True) + product]).mean()


@fg.no_grad()
def evaluate(x: Tensor) -> Tensor:
    return Cube.apply(x).abs().clamp(min=0.1, max=2.0)  # type: ignore[no-any-return]


def main() -> None:
    fg.manual_seed(0)
    fg.set_num_threads(1)
    total = tensors()
    total.backward()
    picked = views_and_indices(total.detach() + fg.arange(4.0))
    arrays(picked)
    passes()
    print(train(), functions().item(), evaluate(picked))


if __name__ == "__main__":
    main()
