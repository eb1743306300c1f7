"""Compare training steps of the examples' networks, and of their parts, with PyTorch's: with the same weights.

    python tools/compare_models.py                    # every piece of work, on one thread
    python tools/compare_models.py cnn gpt adam_small
    python tools/compare_models.py --threads default lstm  # as many threads as each library takes by itself
    python tools/compare_models.py --beside torch,torch.compile,jax cnn gpt lstm

They take turns in one process; what is printed is the median time of each and, for those beside fastgrad, the
median of the ratios of neighbouring rounds to fastgrad and to its compiled steps, so that a busy machine cancels out.
`examples/models.py` is read once for each library; `models_in_jax.py` has the networks for JAX, whose own threads are
not counted: run it on as many cores (`taskset -c 0`).
"""

from __future__ import annotations

import os
import sys

THREADS = sys.argv[sys.argv.index("--threads") + 1] if "--threads" in sys.argv[:-1] else "1"
for _name in (
    "FASTGRAD_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS",
):  # fmt: skip
    if THREADS == "default":
        os.environ.pop(_name, None)
    else:
        os.environ[_name] = THREADS

import argparse
import importlib
import statistics
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Step = Callable[[], Any]
Wrap = Callable[[Any], Any]
"""From a model to what is called in its place."""
MODELS = Path(__file__).parent.parent / "examples" / "models.py"


def written_for(name: str, path: Path) -> types.ModuleType:
    """A module of programs for fastgrad, read as if it were written for library `name`."""
    found = types.ModuleType(f"{path.stem}_for_{name}")
    found.__file__ = str(path)
    sys.modules[found.__name__] = found
    text = path.read_text(encoding="utf-8").replace("fastgrad", name)
    exec(compile(text, str(path), "exec"), found.__dict__)
    return found


def models_of(name: str) -> types.ModuleType:
    """The examples' networks, written for library `name`."""
    return written_for(name, MODELS)


def copied(lib: Any, model: Any, weights: dict[str, np.ndarray] | None) -> dict[str, np.ndarray]:
    """Load weights into a model; without any, give those that it has."""
    if weights is not None:
        model.load_state_dict({k: lib.tensor(v) for k, v in weights.items()})
        return weights
    return {k: v.detach().numpy().copy() for k, v in model.state_dict().items()}


WEIGHTS: dict[str, dict[str, np.ndarray]] = {}
DATA: dict[str, tuple[np.ndarray, np.ndarray]] = {}


def as_it_is(model: Any) -> Any:
    """What wraps a model in nothing."""
    return model


def training(
    name: str, lib: Any, model: Any, inputs: np.ndarray, targets: np.ndarray, optimizer: Any, wrap: Wrap
) -> Step:
    """One step of training a classifier."""
    WEIGHTS[name] = copied(lib, model, WEIGHTS.get(name))
    model = wrap(model)
    DATA[name] = inputs, targets
    x, y = lib.tensor(inputs), lib.tensor(targets)
    functional = lib.nn.functional

    def step() -> Any:
        optimizer.zero_grad()
        logits = model(x)
        loss = functional.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))
        loss.backward()
        optimizer.step()
        return loss

    return step


def cnn(lib: Any, wrap: Wrap = as_it_is) -> Step:
    """A step of the examples' CNN on 64 digits, Adam."""
    rng = np.random.default_rng(0)
    model = models_of(lib.__name__).CNN()
    model.classifier[3].p = 0.0
    images = rng.standard_normal((64, 1, 28, 28)).astype(np.float32)
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-4)
    return training("cnn", lib, model, images, rng.integers(0, 10, 64), optimizer, wrap)


def lstm(lib: Any, wrap: Wrap = as_it_is) -> Step:
    """A step of the examples' LSTM on 64 digits, Adam."""
    rng = np.random.default_rng(0)
    model = models_of(lib.__name__).RowLSTM()
    images = rng.standard_normal((64, 1, 28, 28)).astype(np.float32)
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-4)
    return training("lstm", lib, model, images, rng.integers(0, 10, 64), optimizer, wrap)


def gpt(lib: Any, wrap: Wrap = as_it_is) -> Step:
    """A step of the examples' GPT, 16 pieces of 128 characters, AdamW."""
    rng = np.random.default_rng(0)
    model = models_of(lib.__name__).GPT(96)
    indices = rng.integers(0, 96, (16, 129))
    return training(
        "gpt", lib, model, indices[:, :-1], np.ascontiguousarray(indices[:, 1:]),
        lib.optim.AdamW(model.parameters(), lr=1e-4), wrap,
    )  # fmt: skip


def _adam(lib: Any, shapes: list[tuple[int, ...]], **options: Any) -> Step:
    rng = np.random.default_rng(0)
    parameters = [lib.tensor(rng.standard_normal(s).astype(np.float32), requires_grad=True) for s in shapes]
    for p in parameters:
        p.grad = lib.tensor(rng.standard_normal(tuple(p.shape)).astype(np.float32))
    return lib.optim.Adam(parameters, lr=1e-4, **options).step


def adam_small(lib: Any) -> Step:
    """Adam over 200 parameters of 32 x 32, as each library does it by default."""
    return _adam(lib, [(32, 32)] * 200)


def adam_large(lib: Any) -> Step:
    """Adam over 10 million elements in four parameters; PyTorch's fused one."""
    return _adam(lib, [(2500, 1000)] * 4, **({"fused": True} if lib.__name__ == "torch" else {}))


def conv(lib: Any) -> Step:
    """conv2d 3 x 3 forward and backward, (32, 64, 16, 16) to 128 channels."""
    rng = np.random.default_rng(0)
    x = lib.tensor(rng.standard_normal((32, 64, 16, 16)).astype(np.float32), requires_grad=True)
    w = lib.tensor(rng.standard_normal((128, 64, 3, 3)).astype(np.float32) / 24, requires_grad=True)

    def step() -> None:
        x.grad = w.grad = None
        lib.nn.functional.conv2d(x, w, padding=1).sum().backward()

    return step


def attention(lib: Any) -> Step:
    """Causal attention forward and backward, (8, 8, 128, 64)."""
    rng = np.random.default_rng(0)
    q = [
        lib.tensor(rng.standard_normal((8, 8, 128, 64)).astype(np.float32), requires_grad=True)
        for _ in range(3)
    ]

    def step() -> None:
        for t in q:
            t.grad = None
        lib.nn.functional.scaled_dot_product_attention(*q, is_causal=True).sum().backward()

    return step


def layer_norm(lib: Any) -> Step:
    """layer_norm forward and backward, (2048, 128)."""
    rng = np.random.default_rng(0)
    x = lib.tensor(rng.standard_normal((2048, 128)).astype(np.float32), requires_grad=True)
    w = lib.tensor(np.ones(128, np.float32), requires_grad=True)
    b = lib.tensor(np.zeros(128, np.float32), requires_grad=True)

    def step() -> None:
        x.grad = w.grad = b.grad = None
        lib.nn.functional.layer_norm(x, (128,), w, b).sum().backward()

    return step


WORK: dict[str, Callable[..., Step]] = {
    f.__name__: f for f in (cnn, gpt, lstm, adam_small, adam_large, conv, attention, layer_norm)
}


def beside_torch(name: str) -> Step:
    """As PyTorch runs it."""
    return WORK[name](importlib.import_module("torch"))


def beside_torch_compile(name: str) -> Step:
    """The whole step by `torch.compile`."""
    return importlib.import_module("torch").compile(beside_torch(name))


def beside_jax(name: str) -> Step:
    """The whole step by `jax.jit`, with the weights and the data of the others; of the networks alone."""
    models = importlib.import_module("models_in_jax")
    if not hasattr(models, name):
        sys.exit(f"{name} is not written in JAX: leave it out, or jax")
    decay = 0.01 if name == "gpt" else 0.0
    return models.training(getattr(models, name), WEIGHTS[name], *DATA[name], decay)


BESIDE: dict[str, Callable[[str], Step]] = {
    "torch": beside_torch,
    "torch.compile": beside_torch_compile,
    "jax": beside_jax,
}


def seconds(step: Step, at_least: float) -> float:
    """The mean time of a call over calls that take this long together."""
    n, start = 0, time.perf_counter()
    while True:
        step()
        n += 1
        took = time.perf_counter() - start
        if took >= at_least:
            return took / n


def main() -> None:
    """Print a row for each piece of work."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("work", nargs="*", metavar="WORK", help=f"of {', '.join(WORK)}; all without any")
    parser.add_argument("--beside", default="torch", help=f"of {', '.join(BESIDE)}, with commas")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.3, help="length of a round of one library")
    parser.add_argument(
        "--threads", default="1", help="how many, or default: what each library takes by itself"
    )
    given = parser.parse_args()
    if unknown := set(given.work) - set(WORK):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(WORK)}")
    beside = given.beside.split(",")
    if unknown := set(beside) - set(BESIDE):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(BESIDE)}")
    fastgrad, torch = (importlib.import_module(name) for name in ("fastgrad", "torch"))
    if THREADS != "default":
        torch.set_num_threads(int(THREADS))
    print(f"fastgrad: {fastgrad.get_num_threads()} threads, torch: {torch.get_num_threads()} threads")
    columns = ["fastgrad", "compiled", *beside]
    ratios = [(other, own) for other in beside for own in columns[:2]]
    print(f"{'work':12}", *(f"{c + ' us':>16}" for c in columns), *(f"{f'{a} / {b}':>25}" for a, b in ratios))
    for name in given.work or WORK:
        steps = {"fastgrad": WORK[name](fastgrad), "compiled": fastgrad.compile(WORK[name](fastgrad))}
        steps.update((other, BESIDE[other](name)) for other in beside)
        for step in [*steps.values()] * 4:
            step()
        rounds = [
            {c: seconds(step, given.seconds) * 1e6 for c, step in steps.items()} for _ in range(given.rounds)
        ]
        print(
            f"{name:12}",
            *(f"{statistics.median(r[c] for r in rounds):16.1f}" for c in columns),
            *(f"{statistics.median(r[a] / r[b] for r in rounds):25.2f}" for a, b in ratios),
            flush=True,
        )


if __name__ == "__main__":
    main()
