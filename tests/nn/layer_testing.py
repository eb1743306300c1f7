"""One layer in fastgrad and in torch, with the same parameters: outputs, gradients, gradients of these, buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class LayerCase:
    """A layer with its options and the inputs of a call; arrays become tensors, floating ones want gradients."""

    name: str
    inputs: tuple[np.ndarray, ...]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    training: bool = True
    calls: int = 1
    second: bool = True  # whether PyTorch has second derivatives of it

    def __str__(self) -> str:
        options = [str(a) for a in self.args] + [
            f"{k}={'array' if isinstance(v, np.ndarray) else v}" for k, v in self.kwargs.items()
        ]
        shapes = " ".join("x".join(map(str, x.shape)) for x in self.inputs)
        return f"{self.name}({', '.join(options)}) {shapes} {'training' if self.training else 'eval'}"


def converted(lib: Any, value: Any) -> Any:
    return lib.tensor(value) if isinstance(value, np.ndarray) else value


def build(lib: Any, case: LayerCase) -> Any:
    layer = getattr(lib.nn, case.name)(
        *(converted(lib, a) for a in case.args), **{k: converted(lib, v) for k, v in case.kwargs.items()}
    )
    return layer.double().train(case.training)


def state_for(layer: Any) -> dict[str, np.ndarray]:
    """The state of a layer with noise, so that weights of one and biases of zero hide nothing."""
    rng = np.random.default_rng(3)
    state = {}
    for name, tensor in layer.state_dict().items():
        array = tensor.detach().numpy().copy()
        state[name] = array + 0.1 * rng.random(array.shape) if array.dtype.kind == "f" else array
    return state


def weights(lib: Any, tensor: Any) -> Any:
    return lib.tensor(np.cos(np.arange(tensor.numel(), dtype=np.float64)).reshape(tuple(tensor.shape)))


def as_array(tensor: Any) -> Any:
    return (
        None if tensor is None else (tensor.detach() + 0).numpy().copy()
    )  # torch's zeros without memory get some


def results(lib: Any, case: LayerCase, state: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What calls of the layer give, as arrays."""
    layer = build(lib, case)
    layer.load_state_dict({k: lib.tensor(v) for k, v in state.items()})
    inputs = [lib.tensor(x) for x in case.inputs]
    leaves = [x.requires_grad_() for x in inputs if x.dtype == lib.float64]
    for _ in range(case.calls):
        out = layer(*inputs)
    leaves += [p for p in layer.parameters() if p.requires_grad]
    found = {"repr": repr(layer), "names": [n for n, _ in layer.named_parameters()], "out": as_array(out)}
    if leaves:
        first = lib.autograd.grad(
            (out * weights(lib, out)).sum(), leaves, create_graph=True, allow_unused=True
        )
        found["first"] = [as_array(g) for g in first]
        squares = [(g * g).sum() for g in first if g is not None and g.requires_grad]
        found["second"] = [None] * len(leaves)
        if squares and case.second:
            total = squares[0]
            for s in squares[1:]:
                total = total + s
            second = lib.autograd.grad(total, leaves, allow_unused=True)
            found["second"] = [as_array(g) for g in second]
    found["state"] = {k: as_array(v) for k, v in layer.state_dict().items()}
    return found


def assert_alike(ours: Any, theirs: Any, path: str = "") -> None:
    """Nested results, within rounding; a gradient that is not there is one of zeros."""
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs), path
        for key in theirs:
            assert_alike(ours[key], theirs[key], f"{path}.{key}")
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs), path
        for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            assert_alike(a, b, f"{path}[{k}]")
    elif isinstance(theirs, np.ndarray) or isinstance(ours, np.ndarray):
        a, b = (np.zeros_like(other) if x is None else x for x, other in ((ours, theirs), (theirs, ours)))
        assert a.shape == b.shape, path
        assert a.dtype == b.dtype, path
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10, err_msg=path)
    else:
        assert ours == theirs, path
