"""Layers that get their sizes from the first input, and parameters without sizes, on both libraries."""

from __future__ import annotations

import copy
import pickle
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad as fg

CASES: dict[str, tuple[tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = {
    "LazyLinear": ((3,), {}, (2, 5)),
    "LazyLinear bias=False": ((3, False), {}, (4,)),
    "LazyConv1d": ((4, 2), {"stride": 2, "groups": 2, "padding": 1}, (2, 6, 5)),
    "LazyConv2d": ((4, (2, 1)), {"bias": False, "padding_mode": "circular", "padding": (1, 0)}, (2, 3, 4, 4)),
    "LazyConv2d unbatched": ((4, 2), {"dilation": 2}, (3, 4, 4)),
    "LazyConvTranspose1d": ((4, 2, 2, 0, 1, 2), {"dilation": 2}, (2, 6, 5)),
    "LazyConvTranspose2d": ((4, 2), {"output_padding": 1, "stride": 2}, (2, 3, 4, 4)),
    "LazyConv3d": ((4, (1, 2, 1)), {"bias": False, "padding": (0, 1, 0)}, (2, 3, 3, 4, 3)),
    "LazyConvTranspose3d": ((4, 2), {"stride": 2}, (2, 3, 3, 2, 3)),
    "LazyBatchNorm1d": ((), {}, (4, 3)),
    "LazyBatchNorm1d plain": ((1e-3, None), {"affine": False}, (4, 3, 2)),
    "LazyBatchNorm2d": ((), {"bias": False}, (2, 3, 4, 4)),
    "LazyBatchNorm3d": ((), {"track_running_stats": False}, (2, 3, 2, 2, 2)),
    "LazyInstanceNorm1d": ((), {}, (2, 3, 4)),
    "LazyInstanceNorm2d": ((), {"affine": False}, (2, 3, 4, 4)),
    "LazyInstanceNorm3d": ((), {"track_running_stats": False}, (2, 3, 2, 2, 2)),
}


def make(lib: ModuleType, case: str, **more: Any) -> Any:
    args, kwargs, _ = CASES[case]
    return getattr(lib.nn, case.split()[0])(*args, **kwargs, **more)


def value(lib: ModuleType, case: str) -> Any:
    sizes = CASES[case][2]
    return lib.tensor(np.sin(np.arange(float(np.prod(sizes)))).reshape(sizes))


def test_all_are_tried():
    assert {case.split()[0] for case in CASES} == {
        name for name in fg.nn.__all__ if name.startswith("Lazy")
    } - {"LazyModuleMixin"}


@pytest.mark.parity
@pytest.mark.parametrize("case", CASES)
def test_as_torch(case: str):
    torch = pytest.importorskip("torch")
    found, state = [], None
    for lib in (torch, fg):
        layer, x = make(lib, case, dtype=lib.float64), value(lib, case)
        seen: list[Any] = [repr(layer), list(layer.state_dict()), layer.has_uninitialized_params()]
        seen += [[n for n, _ in layer.named_parameters()], len(layer._forward_pre_hooks)]
        seen += [{k: type(v).__name__ for k, v in layer._parameters.items()}]
        layer(x)
        seen += [
            repr(layer),
            type(layer).__name__,
            len(layer._forward_pre_hooks),
            len(layer._load_state_dict_pre_hooks),
        ]
        seen += [{k: tuple(v.shape) for k, v in layer.state_dict().items()}, hasattr(layer, "_load_hook")]
        state = state or {k: v.numpy().copy() for k, v in layer.state_dict().items()}
        layer.load_state_dict({k: lib.tensor(v) for k, v in state.items()})
        x.requires_grad_()
        out = layer(x)
        (out**3).sum().backward()
        arrays = [out.detach(), x.grad, *(p.grad for p in layer.parameters()), *layer.state_dict().values()]
        found.append((seen, [a.numpy() for a in arrays]))
    assert found[0][0] == found[1][0]
    for a, b in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_states_of_all_kinds(lib: ModuleType, case: str):
    done = make(lib, case, dtype=lib.float64)
    done(value(lib, case))
    with lib.no_grad():
        for p in done.parameters():
            p.fill_(0.5)
    state = done.state_dict()
    fresh = make(lib, case, dtype=lib.float64)
    assert str(fresh.load_state_dict(state)) == "<All keys matched successfully>"
    assert {k: v.tolist() for k, v in fresh.state_dict().items()} == {k: v.tolist() for k, v in state.items()}
    if lib is fg or "InstanceNorm" not in case:  # PyTorch's have no features then
        fresh(value(lib, case))
        assert type(fresh) is type(done)
    assert all(bool((p == 0.5).all()) for p in fresh.parameters())
    empty = make(lib, case, dtype=lib.float64)
    if not empty.has_uninitialized_params():
        return
    another = make(lib, case, dtype=lib.float64)
    another.load_state_dict(empty.state_dict())
    assert another.has_uninitialized_params()
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized"):
        done.load_state_dict(empty.state_dict())
    another.load_state_dict(pickle.loads(pickle.dumps(empty)).state_dict())


def test_pickles_copies_and_conversion(lib: ModuleType):
    layer = lib.nn.LazyLinear(2)
    for again in (pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)):
        assert again.has_uninitialized_params()
        assert again(lib.ones(3)).shape == (2,)
        assert again.weight.shape == (2, 3)
        assert not again._forward_pre_hooks
    assert layer.has_uninitialized_params()
    assert len(layer._forward_pre_hooks) == 1
    assert layer.double() is layer
    assert layer.weight.dtype == lib.float64
    assert layer(lib.ones(3, dtype=lib.float64)).dtype == lib.float64
    assert pickle.loads(pickle.dumps(layer)).weight.tolist() == layer.weight.tolist()


def test_parameters_stay_the_same_objects(lib: ModuleType):
    layer = lib.nn.LazyLinear(2)
    weight = layer.weight
    optimizer = lib.optim.SGD(layer.parameters(), lr=0.1)
    layer(lib.ones(3)).sum().backward()
    assert layer.weight is weight
    assert type(weight) is lib.nn.Parameter
    assert weight.requires_grad
    before = weight.tolist()
    optimizer.step()
    np.testing.assert_allclose(weight.tolist(), np.subtract(before, 0.1), rtol=1e-5)


def test_hooks_around_the_first_call(lib: ModuleType):
    layer, log = lib.nn.LazyLinear(2), []

    def note(name: str, replace: Any = None) -> Any:
        def hook(module: Any, args: Any, *output: Any) -> Any:
            log.append((name, type(module).__name__, args[0].shape[-1]))
            return replace

        return hook

    layer.register_forward_pre_hook(note("ahead", (lib.ones(1, 5),)), prepend=True)
    layer.register_forward_pre_hook(note("behind"))
    layer.register_forward_hook(note("after"))
    layer(lib.ones(1, 3))
    assert log == [("ahead", "LazyLinear", 3), ("behind", "Linear", 5), ("after", "Linear", 5)]
    log.clear()
    layer(lib.ones(1, 3))
    assert [name for name, _, _ in log] == ["ahead", "behind", "after"]


def test_within_other_modules(lib: ModuleType):
    model = lib.nn.Sequential(
        lib.nn.LazyConv1d(4, 2), lib.nn.LazyBatchNorm1d(), lib.nn.Flatten(), lib.nn.LazyLinear(2)
    )
    assert model(lib.ones(2, 3, 5)).shape == (2, 2)
    assert [type(m).__name__ for m in model] == ["Conv1d", "BatchNorm1d", "Flatten", "Linear"]
    model(lib.ones(2, 3, 5)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_modules_of_ones_own(lib: ModuleType):
    mixin = pytest.importorskip(f"{lib.__name__}.nn.modules.lazy").LazyModuleMixin

    class Scale(mixin, lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = lib.nn.UninitializedParameter()
            self.register_buffer("steps", lib.nn.UninitializedBuffer(persistent=False))

        def initialize_parameters(self, x: Any, *, half: bool = False) -> None:
            with lib.no_grad():
                if type(self.factor) is lib.nn.UninitializedParameter:
                    self.factor.materialize(x.shape)
                    self.factor.fill_(3.0)
                if not half:
                    self.steps.materialize(())

        def forward(self, x: Any, *, half: bool = False) -> Any:
            return x * self.factor

    module = Scale()
    with pytest.raises(RuntimeError, match="module Scale has not been fully initialized"):
        module(lib.ones(2), half=True)
    assert module.has_uninitialized_params()
    assert module(lib.ones(2)).tolist() == [3.0, 3.0]
    assert type(module) is Scale
    assert type(module.steps) is lib.Tensor
    assert not module._forward_pre_hooks

    class Lacking(mixin, lib.nn.Module):
        pass

    with pytest.raises(NotImplementedError, match="initialize_parameters is not implemented for Lacking"):
        Lacking()(lib.ones(1))


def test_wrong_inputs(lib: ModuleType):
    nn = lib.nn
    for layer, x, kind, text in (
        (
            nn.LazyConv1d(4, 2),
            lib.ones(3),
            RuntimeError,
            r"Expected 2D \(unbatched\) or 3D \(batched\) input to LazyConv1d",
        ),
        (
            nn.LazyConv2d(4, 2, groups=2),
            lib.ones(1, 3, 4, 4),
            ValueError,
            "in_channels must be divisible by groups",
        ),
    ):
        with pytest.raises(kind, match=text):
            layer(x)
        assert layer.has_uninitialized_params()
        assert len(layer._forward_pre_hooks) == 1


def test_instance_norms_of_one_sample():
    """PyTorch takes the wrong dimension."""
    layer = fg.nn.LazyInstanceNorm1d()
    assert layer(fg.randn(3, 5)).shape == (3, 5)
    assert layer.num_features == 3


# --- parameters without sizes -------------------------------------------------------------------------------------


def test_parameters_without_sizes(lib: ModuleType):
    for make in (lib.nn.UninitializedParameter, lib.nn.UninitializedBuffer):
        p = make(dtype=lib.float64)
        assert repr(p) == f"<{make.__name__}>"
        assert p.dtype == lib.float64
        assert p.requires_grad == (make is lib.nn.UninitializedParameter)
        for use in (
            lambda p: p + 1, lambda p: 1 - p, lambda p: lib.ones(2) * p, lambda p: p @ p, lambda p: -p,
            lambda p: p.sum(), lambda p: p.detach(), lambda p: p.view(1), lambda p: p[0], lambda p: p == 1,
            lambda p: bool(p), lambda p: p.zero_(), lambda p: p.tolist(), lambda p: len(p), lambda p: p < 2,
        ):  # fmt: skip
            with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter in"):
                use(p)
        with pytest.raises(RuntimeError, match="Can't access the shape"):
            p.shape
        with pytest.raises(RuntimeError, match="share memory"):
            p.share_memory_()
        assert isinstance({p: 1}, dict)
        again = pickle.loads(pickle.dumps(p))
        assert type(again) is make
        assert again.dtype in (lib.float64, lib.float32)
        p.materialize((2, 3))
        assert p.shape == (2, 3)
        assert p.dtype == lib.float64
        assert type(p) is (lib.nn.Parameter if make is lib.nn.UninitializedParameter else lib.Tensor)
        q = make()
        q.materialize([1], dtype=lib.float64)
        assert q.dtype == lib.float64
    assert isinstance(lib.nn.UninitializedParameter(), lib.nn.Parameter)
    assert not lib.nn.UninitializedParameter(requires_grad=False).requires_grad
    assert not lib.nn.UninitializedBuffer(persistent=False).persistent


def test_sizes_that_there_cannot_be():
    for bad in ((-1,), ("a",), None, (2**62, 2**62)):
        p = fg.nn.UninitializedParameter()
        with pytest.raises((RuntimeError, TypeError, ValueError, MemoryError)):
            p.materialize(bad)
        assert type(p) is fg.nn.UninitializedParameter
