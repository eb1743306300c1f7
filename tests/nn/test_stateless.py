"""Calls with other parameters, fusing, modules without initial values, on both libraries."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad as fg


def call(lib: ModuleType, *args: Any, **kwargs: Any) -> Any:
    with pytest.warns(FutureWarning, match="functional_call"):
        return lib.nn.utils.stateless.functional_call(*args, **kwargs)


def tied(lib: ModuleType) -> Any:
    class Tied(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = lib.nn.Parameter(lib.ones(1))
            self.second = self.first
            self.register_buffer("steps", lib.zeros(1))
            self.within = lib.nn.Linear(1, 1)

        def forward(self, x: Any, *, more: float = 0.0) -> Any:
            self.steps = self.steps + 1
            return x + self.first + 10 * self.second + more

    return Tied()


def test_other_parameters(lib: ModuleType):
    module = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Linear(2, 1))
    weight, kept = lib.full((2, 2), 3.0, requires_grad=True), module[0].weight
    given = {"0.weight": weight, "0.bias": lib.zeros(2), "1.weight": lib.ones(1, 2), "1.bias": lib.zeros(1)}
    out = call(lib, module, given, lib.ones(2))
    assert out.tolist() == [12.0]
    assert call(lib, module, given, (lib.ones(2),), strict=True).tolist() == [12.0]
    out.backward()
    assert weight.grad.tolist() == [[1.0, 1.0]] * 2
    assert kept.grad is None
    assert module[0].weight is kept
    assert given["0.weight"] is weight


def test_tied_tensors_and_what_the_call_assigns(lib: ModuleType):
    module, x = tied(lib), lib.zeros(1)
    given = {"first": lib.full((1,), 2.0), "steps": lib.full((1,), 5.0)}
    assert call(lib, module, given, x).tolist() == [22.0]
    assert given["steps"].tolist() == [6.0]
    assert module.steps.tolist() == [0.0]
    assert list(given) == ["first", "steps"]
    assert call(lib, module, {"first": given["first"]}, x, tie_weights=False).tolist() == [12.0]
    both = {"first": lib.full((1,), 2.0), "second": lib.full((1,), 3.0)}
    with pytest.raises(ValueError, match=r"multiple values for keys \['first', 'second'\]"):
        call(lib, module, both, x)
    assert call(lib, module, both, x, tie_weights=False).tolist() == [32.0]
    assert call(lib, module, {}, x, {"more": 0.5}).tolist() == [11.5]
    assert module.first is module.second


def test_errors_leave_the_module(lib: ModuleType):
    module = tied(lib)
    first = module.first
    for given, kind, text in (
        ({"nothing.weight": lib.ones(1)}, AttributeError, "has no attribute"),
        ({"first": 3}, TypeError, "not an instance"),
        ({"training": lib.ones(1)}, TypeError, "not an instance"),
        ({"first": lib.ones(1), "within.bias": "x"}, TypeError, "not an instance"),
    ):
        with pytest.raises(kind, match=text):
            call(lib, module, given, lib.ones(1))
        assert module.first is first
        assert module.training is True
    with pytest.raises(
        RuntimeError, match=r"Unexpected key\(s\): 'x'\.\n\tMissing key\(s\): .*'within.bias'"
    ):
        call(lib, module, {"x": lib.ones(1), "first": lib.ones(1)}, lib.ones(1), strict=True)
    with pytest.raises(TypeError):
        call(lib, module, {"first": lib.full((1,), 2.0)}, lib.ones(1), {"other": 3})
    assert module.first is first
    assert sorted(n for n, _ in module.named_parameters()) == ["first", "within.bias", "within.weight"]


def test_what_cannot_be_called():
    for arguments in ((None, {}), (fg.nn.Linear(1, 1), None), (fg.nn.Linear(1, 1), {3: fg.ones(1)})):
        with pytest.raises(TypeError, match=r"functional_call\(\)"):
            call(fg, *arguments, fg.ones(1))


# --- fusing -------------------------------------------------------------------------------------------------------


def normalisation(lib: ModuleType, name: str, n: int, **options: Any) -> Any:
    bn = getattr(lib.nn, name)(n, dtype=lib.float64, **options).eval()
    for k, t in enumerate(t for t in (bn.running_mean, bn.running_var, bn.weight, bn.bias) if t is not None):
        with lib.no_grad():
            t.copy_(lib.tensor(1.5 + np.sin(np.arange(n) + k)))
    return bn


def fuse_cases(lib: ModuleType) -> list[Any]:
    nn, f64 = lib.nn, lib.float64
    return [
        (nn.Conv1d(2, 3, 2, dtype=f64), normalisation(lib, "BatchNorm1d", 3), (1, 2, 5), False),
        (
            nn.Conv2d(2, 3, 2, bias=False, dtype=f64),
            normalisation(lib, "BatchNorm2d", 3, affine=False),
            (1, 2, 3, 3),
            0,
        ),
        (nn.ConvTranspose2d(2, 3, 2, dtype=f64), normalisation(lib, "BatchNorm2d", 3), (1, 2, 3, 3), True),
        (nn.Linear(2, 3, dtype=f64), normalisation(lib, "BatchNorm1d", 3), (4, 2), None),
        (nn.Linear(2, 3, bias=False, dtype=f64), normalisation(lib, "BatchNorm1d", 3), (4, 2), None),
    ]


def test_fused_layers_do_the_same(lib: ModuleType):
    for layer, bn, sizes, transpose in fuse_cases(lib):
        layer.eval()
        layer.weight.requires_grad_(False)
        x = lib.tensor(np.cos(np.arange(float(np.prod(sizes)))).reshape(sizes))
        if transpose is None:
            fused = lib.nn.utils.fuse_linear_bn_eval(layer, bn)
        else:
            fused = lib.nn.utils.fuse_conv_bn_eval(layer, bn, bool(transpose))
        assert type(fused) is type(layer)
        assert fused is not layer
        assert isinstance(fused.bias, lib.nn.Parameter)
        assert not fused.weight.requires_grad
        assert fused.bias.requires_grad == (layer.bias is not None)
        np.testing.assert_allclose(
            fused(x).detach().numpy(), bn(layer(x)).detach().numpy(), rtol=1e-10, atol=1e-12
        )


def test_what_cannot_be_fused(lib: ModuleType):
    nn, utils = lib.nn, lib.nn.utils
    for call in (
        lambda: utils.fuse_conv_bn_eval(nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3).eval()),
        lambda: utils.fuse_linear_bn_eval(nn.Linear(2, 3).eval(), nn.BatchNorm1d(3)),
        lambda: utils.fuse_linear_bn_eval(nn.Linear(2, 3).eval(), nn.BatchNorm1d(2).eval()),
        lambda: utils.fuse_conv_bn_eval(
            nn.Conv1d(2, 3, 2).eval(), nn.BatchNorm1d(3, track_running_stats=False).eval()
        ),
    ):
        with pytest.raises(AssertionError):
            call()


# --- initial values, memory formats ---------------------------------------------------------------------------------


def test_modules_without_initial_values(lib: ModuleType):
    lib.manual_seed(0)
    expected = lib.rand(3).tolist()
    lib.manual_seed(0)
    for make in (
        lambda: lib.nn.utils.skip_init(lib.nn.Linear, 5, 1),
        lambda: lib.nn.utils.skip_init(lib.nn.Conv2d, 2, 3, kernel_size=2, dtype=lib.float64),
        lambda: lib.nn.utils.skip_init(lib.nn.MultiheadAttention, 4, 2, device="cpu"),
    ):
        module = make()
        assert all(p.device.type == "cpu" and p.requires_grad for p in module.parameters())
    assert lib.rand(3).tolist() == expected
    assert bool((lib.nn.Linear(50, 1).weight != 0).any())
    for bad in (int, lib.nn.ReLU, lib.nn.Sequential):
        with pytest.raises(RuntimeError, match=r"Expected a Module|support a 'device' arg"):
            lib.nn.utils.skip_init(bad)


def test_weights_of_convolutions_in_another_format(lib: ModuleType):
    model = lib.nn.Sequential(
        lib.nn.Conv2d(4, 2, 3), lib.nn.Sequential(lib.nn.ConvTranspose2d(2, 4, 2), lib.nn.Conv1d(4, 2, 2))
    )
    before = [p.detach().clone() for p in model.parameters()]
    weight = model[0].weight
    assert lib.nn.utils.convert_conv2d_weight_memory_format(model, lib.channels_last) is model
    assert model[0].weight is weight
    assert weight.stride() == (36, 1, 12, 4)
    assert model[1][0].weight.stride() == (16, 1, 8, 4)
    assert all(bool((a == b).all()) for a, b in zip(before, model.parameters(), strict=True))
    assert lib.nn.utils.convert_conv3d_weight_memory_format(model, lib.channels_last_3d) is model


def test_deprecated_clipping(lib: ModuleType):
    w = lib.tensor([3.0, 4.0], requires_grad=True)
    (w * w).sum().backward()
    with pytest.warns(FutureWarning, match="clip_grad_norm_"):
        assert lib.nn.utils.clip_grad_norm([w], 1.0).item() == 10.0
    np.testing.assert_allclose(w.grad.tolist(), [0.6, 0.8], rtol=1e-5)


def test_names_are_found_without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in fg.nn.utils.__all__:
            assert getattr(fg.nn.utils, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        fg.nn.utils.nothing


def test_a_module_under_two_names_gets_its_own_tensors_back():
    layer = fg.nn.Linear(2, 2)
    model, weight = fg.nn.Sequential(layer, fg.nn.Tanh(), layer), layer.weight
    x, other = fg.ones(1, 2), fg.eye(2)
    found = fg.func.functional_call(model, {"0.weight": other}, x)
    assert layer.weight is weight
    assert fg.equal(found, fg.tanh(x + layer.bias) + layer.bias)


@pytest.mark.parametrize("name", ["", "0."])
def test_a_name_that_ends_in_nothing_is_refused(name):
    layers = fg.nn.Sequential(fg.nn.Linear(1, 1))
    with pytest.raises(KeyError, match="tensor name can't be empty string"):
        fg.func.functional_call(layers, {name: fg.ones(1)}, fg.ones(1))
