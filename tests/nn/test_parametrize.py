"""Parametrizations, on both libraries."""

from __future__ import annotations

import copy
import importlib
import pickle
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad as fg


@pytest.fixture
def parametrize(lib: ModuleType) -> ModuleType:
    return importlib.import_module(f"{lib.__name__}.nn.utils.parametrize")


@pytest.fixture
def ready(lib: ModuleType) -> ModuleType:
    return importlib.import_module(f"{lib.__name__}.nn.utils.parametrizations")


def classes(lib: ModuleType) -> dict[str, Any]:
    class Symmetric(lib.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).T

    class Scaled(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0
            self.factor = lib.nn.Parameter(lib.tensor(2.0, dtype=lib.float64))

        def forward(self, x: Any) -> Any:
            self.calls += 1
            return x * self.factor

        def right_inverse(self, x: Any) -> Any:
            return x / self.factor

    class Sum(lib.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x + y * y

        def right_inverse(self, z: Any) -> Any:
            return z - 1, lib.ones_like(z)

    class Whole(lib.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.sum()

    class Wider(lib.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.float()

    class Odd(lib.nn.Module):
        def forward(self, x: Any) -> Any:
            return [x]

    class Cannot(lib.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 3

        def right_inverse(self, x: Any) -> Any:
            raise NotImplementedError

    return {k.__name__: k for k in (Symmetric, Scaled, Sum, Whole, Wider, Odd, Cannot)}


def layer(lib: ModuleType, n: int = 3, m: int = 3) -> Any:
    made = lib.nn.Linear(m, n, dtype=lib.float64)
    with lib.no_grad():
        made.weight.copy_(lib.tensor(np.sin(np.arange(1.0, n * m + 1)).reshape(n, m)))
        made.bias.copy_(lib.tensor(np.cos(np.arange(1.0, n + 1))))
    return made


def test_one_tensor(lib: ModuleType, parametrize: ModuleType):
    module = layer(lib)
    weight, kind = module.weight, type(module)
    symmetric = classes(lib)["Symmetric"]()
    assert parametrize.register_parametrization(module, "weight", symmetric) is module
    assert module.parametrizations.weight.original is weight
    assert type(module).__name__ == "ParametrizedLinear"
    assert parametrize.type_before_parametrizations(module) is kind
    assert isinstance(module, kind)
    assert parametrize.is_parametrized(module)
    assert parametrize.is_parametrized(module, "weight")
    assert not parametrize.is_parametrized(module, "bias")
    assert list(module.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert [n for n, _ in module.named_parameters()] == ["bias", "parametrizations.weight.original"]
    assert [n for n, _ in module.named_modules()] == [
        "", "parametrizations", "parametrizations.weight", "parametrizations.weight.0"
    ]  # fmt: skip
    assert "weight" in dir(module)
    expected = weight.triu() + weight.triu(1).T
    assert module.weight.tolist() == expected.tolist()
    module(lib.ones(2, 3, dtype=lib.float64)).sum().backward()
    np.testing.assert_array_equal(
        weight.grad.numpy(), np.triu(np.full((3, 3), 2.0)) + np.triu(np.full((3, 3), 2.0), 1)
    )
    with pytest.raises(RuntimeError, match="Symmetric does not implement right_inverse"):
        module.weight = lib.ones(3, 3, dtype=lib.float64)
    with pytest.raises(AttributeError):
        del module.weight
    assert parametrize.remove_parametrizations(module, "weight") is module
    assert type(module) is kind
    assert module.weight is weight
    assert weight.tolist() == expected.tolist()
    assert list(module.state_dict()) == ["bias", "weight"]
    assert not hasattr(module, "parametrizations")


def test_several_parametrizations_and_tensors(lib: ModuleType, parametrize: ModuleType):
    made, module = classes(lib), layer(lib)
    weight, bias = module.weight.tolist(), module.bias.tolist()
    parametrize.register_parametrization(module, "weight", made["Scaled"]())
    parametrize.register_parametrization(module, "weight", made["Cannot"]())
    parametrize.register_parametrization(module, "bias", made["Sum"]())
    assert list(module.state_dict()) == [
        "parametrizations.weight.original", "parametrizations.weight.0.factor", "parametrizations.bias.original0",
        "parametrizations.bias.original1",
    ]  # fmt: skip
    np.testing.assert_allclose(module.weight.tolist(), np.multiply(weight, 3), rtol=1e-15)
    np.testing.assert_allclose(module.bias.tolist(), bias, rtol=1e-14)
    assert module.parametrizations.bias.original1.requires_grad
    with pytest.raises(ValueError, match="sequence of tensors"):
        parametrize.remove_parametrizations(module, "bias", leave_parametrized=False)
    parametrize.remove_parametrizations(module, "bias")
    np.testing.assert_allclose(module.bias.tolist(), bias, rtol=1e-14)
    assert isinstance(module.bias, lib.nn.Parameter)
    assert parametrize.is_parametrized(module)
    original = module.parametrizations.weight.original
    parametrize.remove_parametrizations(module, "weight", leave_parametrized=False)
    assert module.weight is original
    np.testing.assert_allclose(module.weight.tolist(), np.divide(weight, 2), rtol=1e-15)
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(module, "weight")


def test_assigning(lib: ModuleType, parametrize: ModuleType):
    made, module = classes(lib), layer(lib)
    parametrize.register_parametrization(module, "weight", made["Scaled"]())
    module.weight = lib.ones(3, 3, dtype=lib.float64) * 4
    assert module.weight.tolist() == [[4.0] * 3] * 3
    assert module.parametrizations.weight.original.tolist() == [[2.0] * 3] * 3
    for bad in (lib.ones(3, 3),):
        with pytest.raises(ValueError, match="has dtype"):
            module.weight = bad
    parametrize.register_parametrization(module, "bias", made["Sum"]())
    module.bias = lib.zeros(3, dtype=lib.float64)
    assert module.bias.tolist() == [0.0] * 3
    with pytest.raises(KeyError, match="already exists"):
        module.weight = lib.nn.Parameter(lib.ones(3, 3))


def test_caches(lib: ModuleType, parametrize: ModuleType):
    made, module = classes(lib), layer(lib)
    scaled = made["Scaled"]()
    parametrize.register_parametrization(module, "weight", scaled)
    scaled.calls = 0
    assert module.weight is not module.weight
    with parametrize.cached():
        first = module.weight
        with parametrize.cached():
            assert module.weight is first
        assert module.weight is first
        assert scaled.calls == 3
    assert module.weight is not first


def test_hooks_run_in_order(lib: ModuleType, parametrize: ModuleType):
    made, module, log = classes(lib), layer(lib), []
    parametrize.register_parametrization(module, "weight", made["Scaled"]())
    parametrize.register_parametrization(module, "weight", made["Cannot"]())
    for name, each in module.named_modules():
        each.register_forward_pre_hook(lambda m, a, name=name: log.append(f"pre {name}"))
        each.register_forward_hook(lambda m, a, o, name=name: log.append(f"post {name}"))
    module(lib.ones(1, 3, dtype=lib.float64))
    inner = [f"{w} parametrizations.weight.{k}" for k in (0, 1) for w in ("pre", "post")]
    assert log == ["pre ", "pre parametrizations.weight", *inner, "post parametrizations.weight", "post "]


def test_modes_buffers_and_conversion(lib: ModuleType, parametrize: ModuleType):
    made = classes(lib)
    module = layer(lib).eval()
    scaled = made["Cannot"]()
    parametrize.register_parametrization(module, "weight", scaled)
    assert not scaled.training
    module.train()
    assert scaled.training
    module.register_buffer("mean", lib.ones(2))
    parametrize.register_parametrization(module, "mean", made["Cannot"]())
    assert [n for n, _ in module.named_buffers()] == ["parametrizations.mean.original"]
    assert module.mean.tolist() == [3.0, 3.0]
    module.float()
    assert module.weight.dtype == lib.float32
    parametrize.remove_parametrizations(module, "mean")
    assert [n for n, _ in module.named_buffers()] == ["mean"]
    assert module.mean.tolist() == [3.0, 3.0]


def test_copies(lib: ModuleType, parametrize: ModuleType):
    made, module = classes(lib), layer(lib)
    parametrize.register_parametrization(module, "weight", made["Scaled"]())
    again = copy.deepcopy(module)
    with lib.no_grad():
        module.parametrizations.weight.original.zero_()
    assert bool((again.weight != 0).all())
    again.load_state_dict(module.state_dict())
    assert bool((again.weight == 0).all())
    for function in (pickle.dumps, copy.copy):
        with pytest.raises(RuntimeError, match="only supported through state_dict"):
            function(module)


def test_copies_keep_their_parametrizations():
    """In PyTorch copies share one class, so that removing from one breaks the other."""
    made, module, p = classes(fg), layer(fg), fg.nn.utils.parametrize
    p.register_parametrization(module, "weight", made["Scaled"]())
    again = copy.deepcopy(module)
    p.register_parametrization(module, "bias", made["Cannot"]())
    assert isinstance(again.bias, fg.nn.Parameter)
    p.remove_parametrizations(module, "weight")
    assert again.weight.tolist() == again.parametrizations.weight().tolist()


def test_transfer(lib: ModuleType, parametrize: ModuleType):
    made, source, target = classes(lib), layer(lib), layer(lib)
    transfer = parametrize.transfer_parametrizations_and_params
    assert transfer(source, target) is target
    assert not parametrize.is_parametrized(target)
    parametrize.register_parametrization(source, "weight", made["Scaled"]())
    parametrize.register_parametrization(source, "bias", made["Sum"]())
    transfer(source, target)
    assert target.parametrizations.weight.original is source.parametrizations.weight.original
    assert target.parametrizations.bias.original1 is source.parametrizations.bias.original1
    assert target.parametrizations.weight[0] is source.parametrizations.weight[0]
    empty = lib.nn.Module()
    transfer(source, empty, "weight")
    assert empty.weight.tolist() == source.weight.tolist()
    assert not hasattr(empty, "bias")


BAD: dict[str, tuple[type[Exception], str]] = {
    "Whole": (ValueError, "may not change the shape"),
    "Wider": (ValueError, "may not change the dtype"),
    "Odd": (ValueError, "must return a tensor. Got list"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("further", [False, True])
def test_what_does_not_fit(lib: ModuleType, parametrize: ModuleType, name: str, further: bool):
    kind, text = BAD[name]
    made, module = classes(lib), layer(lib)
    if further:
        parametrize.register_parametrization(module, "weight", made["Scaled"]())
    before = module.weight.tolist()
    with pytest.raises(kind, match=text):
        parametrize.register_parametrization(module, "weight", made[name]())
    assert module.weight.tolist() == before
    parametrize.register_parametrization(module, "weight", made[name](), unsafe=True)
    if name == "Whole":
        assert module.weight.shape == ()


@pytest.mark.parametrize("value", [lambda lib: 4, lambda lib: [lib.ones(2), 3], lambda lib: lib.ones(3, 3)])
def test_inverses_that_do_not_fit(lib: ModuleType, parametrize: ModuleType, value: Any):
    class Bad(lib.nn.Module):
        def forward(self, *x: Any) -> Any:
            return x[0]

        def right_inverse(self, x: Any) -> Any:
            return value(lib)

    module = layer(lib)
    weight = module.weight
    with pytest.raises(ValueError, match="right_inverse"):
        parametrize.register_parametrization(module, "weight", Bad())
    assert module.weight is weight
    assert type(module) is lib.nn.Linear


def test_wrong_arguments(lib: ModuleType, parametrize: ModuleType):
    module = layer(lib)
    for name in ("nothing", "in_features"):
        with pytest.raises(ValueError, match="does not have a parameter"):
            parametrize.register_parametrization(module, name, classes(lib)["Scaled"]())
    with pytest.raises(ValueError, match="one or more"):
        parametrize.ParametrizationList([], module.weight)
    assert not parametrize.is_parametrized(lib.nn.Module())


def test_what_is_no_module():
    p = fg.nn.utils.parametrize
    for arguments in ((3, "weight", fg.nn.ReLU()), (fg.nn.Linear(1, 1), "weight", fg.relu)):
        with pytest.raises(TypeError, match="must be Module"):
            p.register_parametrization(*arguments)
    with pytest.raises(ValueError, match="is None"):
        p.register_parametrization(fg.nn.Linear(1, 1, bias=False), "bias", fg.nn.ReLU())


def test_a_failed_registration_changes_nothing():
    """PyTorch has put the inverse into the tensor by then."""

    class Bad(fg.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.sum()

        def right_inverse(self, x: Any) -> Any:
            return x * 0

    module = layer(fg)
    before = module.weight.tolist()
    with pytest.raises(ValueError, match="shape"):
        fg.nn.utils.parametrize.register_parametrization(module, "weight", Bad())
    assert module.weight.tolist() == before


def test_compiled_functions():
    module = layer(fg)
    fg.nn.utils.parametrize.register_parametrization(module, "weight", classes(fg)["Scaled"]())
    x = fg.ones(2, 3, dtype=fg.float64)
    compiled = fg.compile(lambda x: module(x).sum())
    for _ in range(3):
        assert compiled(x).item() == module(x).sum().item()
        with fg.no_grad():
            module.parametrizations.weight.original.mul_(2)


# --- those that are ready -----------------------------------------------------------------------------------------


@pytest.mark.parity
def test_weight_norm_as_torch():
    torch = pytest.importorskip("torch")
    for sizes, dim in (((4, 3), 0), ((4, 3), 1), ((4, 3), None), ((4, 3), -1)):
        found = []
        for lib in (torch, fg):
            module = layer(lib, *sizes)
            before = module.weight.detach().numpy().copy()
            assert lib.nn.utils.parametrizations.weight_norm(module, dim=dim) is module
            np.testing.assert_allclose(module.weight.detach().numpy(), before, rtol=1e-14)
            (module(lib.ones(2, 3, dtype=lib.float64)) ** 3).sum().backward()
            values = {k: v.numpy() for k, v in module.state_dict().items()}
            found.append((values, [p.grad.numpy() for p in module.parameters()], repr(module)))
        assert list(found[0][0]) == list(found[1][0])
        assert found[0][2] == found[1][2]
        for a, b in zip(
            [*found[0][0].values(), *found[0][1]], [*found[1][0].values(), *found[1][1]], strict=True
        ):
            np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-13)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_weight_norm_reads_states_of_the_older_form(lib: ModuleType, ready: ModuleType):
    old = lib.nn.utils.weight_norm(layer(lib))
    new = ready.weight_norm(lib.nn.Linear(3, 3, dtype=lib.float64))
    assert str(new.load_state_dict(old.state_dict())) == "<All keys matched successfully>"
    assert new.weight.tolist() == old.weight.tolist()


@pytest.mark.parity
@pytest.mark.parametrize("older", [False, True])
def test_spectral_norm_as_torch(older: bool):
    torch = pytest.importorskip("torch")
    cases = [
        (lambda lib: layer(lib, 4, 3), (4, 3), {}),
        (lambda lib: layer(lib, 4, 3), (4, 3), {"dim": 1, "n_power_iterations": 3}),
        (lambda lib: lib.nn.Conv2d(3, 2, 3, dtype=lib.float64), (1, 3, 4, 4), {}),
        (lambda lib: lib.nn.ConvTranspose1d(3, 2, 2, dtype=lib.float64), (1, 3, 4), {"eps": 1e-6}),
    ]
    for make, sizes, options in cases:
        found, state = [], None
        for lib in (torch, fg):
            where = lib.nn.utils if older else lib.nn.utils.parametrizations
            module = where.spectral_norm(make(lib), **options)
            values = {k: v.numpy().copy() for k, v in module.state_dict().items()}
            state = state or values
            assert list(state) == list(values)
            assert {k: v.shape for k, v in values.items()} == {k: v.shape for k, v in state.items()}
            module.load_state_dict({k: lib.tensor(v) for k, v in state.items()})
            x = lib.tensor(np.cos(np.arange(float(np.prod(sizes)))).reshape(sizes), requires_grad=True)
            y, z = module(x), module(2 * x)
            module.eval()
            (y**3 + z + module(x)).sum().backward()
            arrays = [v.numpy() for v in module.state_dict().values()]
            found.append(
                (y.detach().numpy(), x.grad.numpy(), *(p.grad.numpy() for p in module.parameters()), *arrays)
            )
            assert older or repr(module) == str(module)
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-11)


def test_removing_spectral_norm(lib: ModuleType):
    module = lib.nn.utils.spectral_norm(layer(lib)).eval()
    expected = module(lib.ones(3, dtype=lib.float64)).tolist()
    with pytest.raises(RuntimeError, match="two spectral_norm hooks"):
        lib.nn.utils.spectral_norm(module)
    assert lib.nn.utils.remove_spectral_norm(module) is module
    assert [n for n, _ in module.named_parameters()] == ["bias", "weight"]
    np.testing.assert_allclose(module(lib.ones(3, dtype=lib.float64)).tolist(), expected, rtol=1e-14)
    assert not module._forward_pre_hooks
    assert not module._state_dict_hooks
    with pytest.raises(ValueError, match="not found"):
        lib.nn.utils.remove_spectral_norm(module)


def test_spectral_norm_marks_its_states(lib: ModuleType):
    module = lib.nn.utils.spectral_norm(layer(lib))
    state = module.state_dict()
    assert state._metadata[""]["spectral_norm"] == {"weight.version": 1}
    again = pickle.loads(pickle.dumps(module))
    again.load_state_dict(state)
    assert again.weight_u.tolist() == module.weight_u.tolist()
    with pytest.raises(RuntimeError, match=r"Missing key.*weight_u"):
        module.load_state_dict({k: v for k, v in state.items() if k != "weight_u"})


def test_spectral_norms_are_one(ready: ModuleType, lib: ModuleType):
    module = ready.spectral_norm(layer(lib, 4, 3), n_power_iterations=30)
    assert abs(np.linalg.norm(module.weight.detach().numpy(), 2) - 1) < 1e-9
    flat = lib.nn.Module()
    flat.weight = lib.nn.Parameter(lib.tensor([3.0, 4.0]))
    np.testing.assert_allclose(ready.spectral_norm(flat).weight.tolist(), [0.6, 0.8], rtol=1e-6)


def test_wrong_arguments_of_norms(lib: ModuleType, ready: ModuleType):
    for call, kind in (
        (lambda: ready.spectral_norm(layer(lib), "nothing"), ValueError),
        (lambda: ready.spectral_norm(layer(lib), n_power_iterations=0), ValueError),
        (lambda: ready.spectral_norm(layer(lib), dim=2), IndexError),
        (lambda: lib.nn.utils.spectral_norm(layer(lib), "nothing"), KeyError),
        (lambda: lib.nn.utils.spectral_norm(layer(lib), n_power_iterations=-1), ValueError),
        (lambda: lib.nn.utils.spectral_norm(lib.nn.Linear(2, 2, bias=False), "bias"), ValueError),
        (lambda: ready.weight_norm(layer(lib), "nothing"), ValueError),
        (lambda: ready.orthogonal(layer(lib), "bias"), ValueError),
        (lambda: ready.orthogonal(layer(lib), "nothing"), ValueError),
        (lambda: ready.orthogonal(layer(lib), orthogonal_map="other"), ValueError),
    ):
        with pytest.raises(kind):
            call()


@pytest.mark.parametrize("name", ["matrix_exp", "cayley", "householder"])
def test_orthogonal_matrices(name: str):
    make = fg.nn.utils.parametrizations.orthogonal
    for sizes, trivial in (((3, 3), True), ((4, 3), True), ((3, 4), True), ((3, 3), False)):
        module = layer(fg, *sizes)
        make(module, orthogonal_map=name, use_trivialization=trivial)
        q = module.weight.detach().numpy()
        q = q if sizes[0] >= sizes[1] else q.T
        np.testing.assert_allclose(q.T @ q, np.eye(q.shape[1]), atol=1e-12)
