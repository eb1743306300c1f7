"""``__torch_function__`` of classes: each program runs with fastgrad, and with PyTorch where that is asked for."""

from __future__ import annotations

import copy
import io
import pickle
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from fastgrad import overrides


@pytest.fixture(params=["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
def lib(request: pytest.FixtureRequest) -> ModuleType:
    module = pytest.importorskip(request.param)
    if module is fg:
        overrides.install()
    else:
        pytest.importorskip("torch.overrides")
    return module


def kinds(*results: Any) -> list[str]:
    return [type(r).__name__ for r in results]


def plain_class(lib: ModuleType) -> type:
    class Plain(lib.Tensor):
        pass

    return Plain


def logging_class(lib: ModuleType) -> Any:
    class Logging(lib.Tensor):
        seen: list[Any] = []

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            cls.seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    return Logging


def made(lib: ModuleType, kind: type, values: Any = (1.0, 2.0)) -> Any:
    return lib.tensor(values).as_subclass(kind)


# --- results -----------------------------------------------------------------------------------------------------

RESULTS = {
    "x + p": lambda lib, x, p: x + p, "p + x": lambda lib, x, p: p + x, "2 - x": lambda lib, x, p: 2 - x,
    "x @ p": lambda lib, x, p: x @ p, "-x": lambda lib, x, p: -x, "x == p": lambda lib, x, p: x == p,
    "2 ** x": lambda lib, x, p: 2**x, "x[0]": lambda lib, x, p: x[0], "x[None]": lambda lib, x, p: x[None],
    "sum": lambda lib, x, p: x.sum(), "sum()": lambda lib, x, p: lib.sum(x), "exp": lambda lib, x, p: lib.exp(x),
    "add": lambda lib, x, p: lib.add(p, x), "stack": lambda lib, x, p: lib.stack([p, x]),
    "cat": lambda lib, x, p: lib.cat((x, p)), "where": lambda lib, x, p: lib.where(p > 1, p, x),
    "relu": lambda lib, x, p: lib.nn.functional.relu(x), "softmax": lambda lib, x, p: x.softmax(0),
    "linear": lambda lib, x, p: lib.nn.functional.linear(x, p[None]), "norm": lambda lib, x, p: lib.linalg.norm(x),
    "layer": lambda lib, x, p: lib.nn.Linear(2, 3)(x), "module": lambda lib, x, p: lib.nn.ReLU()(x),
    "T": lambda lib, x, p: x[None].mT, "data": lambda lib, x, p: x.data, "detach": lambda lib, x, p: x.detach(),
    "clone": lambda lib, x, p: x.clone(), "double": lambda lib, x, p: x.double(),
    "view": lambda lib, x, p: x.view(2, 1),
    "zeros_like": lambda lib, x, p: lib.zeros_like(x), "new_zeros": lambda lib, x, p: x.new_zeros(2),
    "p.mul(x)": lambda lib, x, p: p.mul(x), "p.where": lambda lib, x, p: p.where(p > 1, x),
    "row": lambda lib, x, p: next(iter(x)),
    "p += x": lambda lib, x, p: p.clone().add_(x), "x += p": lambda lib, x, p: x.clone().add_(p),
    "max": lambda lib, x, p: x.max(0)[0], "split": lambda lib, x, p: x.split(1)[1],
    "topk": lambda lib, x, p: x.topk(1).values,
    "shape": lambda lib, x, p: x.shape, "tolist": lambda lib, x, p: x.tolist(),
    "item": lambda lib, x, p: x.sum().item(),
    "p * p": lambda lib, x, p: p * p, "exp(p)": lambda lib, x, p: lib.exp(p), "dim": lambda lib, x, p: x.dim(),
    "grad": lambda lib, x, p: x.grad, "bool": lambda lib, x, p: bool(x[0] > 0), "len": lambda lib, x, p: len(x),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_the_class_of_results(lib: ModuleType, name: str):
    p = lib.tensor([1.0, 2.0])
    result = RESULTS[name](lib, made(lib, plain_class(lib)), p)
    others = {
        "shape": "Size", "tolist": "list", "item": "float", "p * p": "Tensor", "exp(p)": "Tensor", "dim": "int",
        "grad": "NoneType", "bool": "bool", "len": "int",
    }  # fmt: skip
    assert type(result).__name__ == others.get(name, "Plain")
    if isinstance(result, lib.Tensor):
        assert result.tolist() == RESULTS[name](lib, p, p).tolist() or name == "layer"


def test_named_tuples_stay_what_they_are(lib: ModuleType):
    found = made(lib, plain_class(lib)).max(0)
    assert kinds(found.values, found.indices) == ["Plain", "Plain"]


def test_gradients_flow_through(lib: ModuleType):
    kind = plain_class(lib)
    w = lib.tensor([1.0, 2.0], requires_grad=True)
    x = w.as_subclass(kind)
    loss = (x * x).sum()
    assert kinds(x, loss) == ["Plain", "Plain"]
    loss.backward()
    assert w.grad.tolist() == [2, 4]
    leaf = made(lib, kind).requires_grad_()
    assert leaf.is_leaf
    (leaf * 3).sum().backward()
    assert leaf.grad.tolist() == [3, 3]


def test_changes_in_place(lib: ModuleType):
    x = made(lib, plain_class(lib))
    first = x
    x += 1
    x[0] = 7
    x.mul_(2)
    assert first is x
    assert x.tolist() == [14, 6]


def test_as_subclass_shares_memory(lib: ModuleType):
    p = lib.zeros(2)
    x = p.as_subclass(plain_class(lib))
    x[0] = 1
    assert p.tolist() == [1, 0]
    with pytest.raises(TypeError):
        p.as_subclass(int)
    with pytest.raises(TypeError):
        p.as_subclass(None)
    assert type(lib.Tensor._make_subclass(plain_class(lib), p, True)).__name__ == "Plain"


# --- what is asked -----------------------------------------------------------------------------------------------


def test_which_functions_are_seen(lib: ModuleType):
    kind = logging_class(lib)
    x, p = made(lib, kind), lib.tensor([1.0, 2.0])
    calls = [
        lambda: x + p, lambda: p + x, lambda: 1 + x, lambda: 2 - x, lambda: x * 2, lambda: x / 2, lambda: x // 2,
        lambda: x % 2, lambda: x**2, lambda: x @ p, lambda: -x, lambda: abs(x), lambda: x == p, lambda: x != p,
        lambda: x < p, lambda: x[0], lambda: x.sum(), lambda: lib.sum(x), lambda: lib.nn.functional.relu(x),
        lambda: x.shape, lambda: len(x), lambda: x.add_(1), lambda: lib.stack([p, x]), lambda: x.requires_grad,
        lambda: lib.nn.functional.linear(p, x[None]), lambda: x.__setitem__(0, 1), lambda: repr(x)[:0],
    ]  # fmt: skip
    expected = [
        "add", "add", "add", "__rsub__", "mul", "div", "floor_divide", "remainder", "pow", "matmul", "neg", "abs",
        "__eq__", "ne", "lt", "__getitem__", "sum", "sum", "relu", "__get__", "__len__", "add_", "stack", "__get__",
        "__getitem__ linear", "__setitem__", "__repr__",
    ]  # fmt: skip
    seen = []
    for call in calls:
        kind.seen.clear()
        call()
        seen.append(" ".join(kind.seen))
    # PyTorch asks for `x // 2` and `x ** 2` under names of Python's functions, and reads attributes to print.
    seen = [
        {"__floordiv__": "floor_divide", "__pow__": "pow"}.get(s, "__repr__" if s[:8] == "__repr__" else s)
        for s in seen
    ]
    assert seen == expected


def test_methods_that_call_those_of_tensor(lib: ModuleType):
    class Doubling(lib.Tensor):
        def sum(self, *args: Any) -> Any:
            return 2 * super().sum(*args)

        def __add__(self, other: Any) -> Any:
            return super().__add__(other) * 10

    x = made(lib, Doubling)
    assert kinds(x.sum(), x + 1) == ["Doubling", "Doubling"]
    assert x.sum().item() == 6
    assert (x + 1).tolist() == [20, 30]


def test_tables_of_functions(lib: ModuleType):
    """The program of PyTorch's documentation: functions by what they are called with."""
    handled: dict[Any, Any] = {lib.mean: lambda x: "mean"}

    class Table(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in handled:
                return handled[func](*args, **(kwargs or {}))
            return super().__torch_function__(func, types, args, kwargs)

    handled[lib.add] = lambda x, y: "add"
    handled[lib.Tensor.mul] = lambda x, y: "mul"
    handled[lib.Tensor.shape.__get__] = lambda x: "shape"
    x = made(lib, Table)
    assert [lib.mean(x), lib.add(1, x), x * 2, x.shape] == ["mean", "add", "mul", "shape"]
    assert lib.exp(x).tolist() == pytest.approx([np.e, np.e**2])


def test_classes_that_do_not_inherit_from_tensor(lib: ModuleType):
    class Scalar:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func.__name__, [t.__name__ for t in types], len(args), sorted(kwargs or {})

    s, p = Scalar(), lib.ones(2)
    assert lib.mean(s) == ("mean", ["Scalar"], 1, [])
    assert lib.add(p, s, alpha=2) == ("add", ["Scalar"], 2, ["alpha"])
    assert lib.cat([p, s]) == ("cat", ["Scalar"], 1, [])
    assert p.add(s)[:2] == ("add", ["Scalar"])


def test_who_is_asked_first(lib: ModuleType):
    asked = []

    def logging(name: str, *bases: type, answer: Any = NotImplemented) -> Any:
        def ask(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append(cls.__name__)
            return answer

        return type(name, bases, {"__torch_function__": classmethod(ask)})

    first = logging("First", lib.Tensor)
    second = logging("Second", lib.Tensor)
    deep = logging("Deep", first)
    x, y, z = (made(lib, kind) for kind in (first, second, deep))
    with pytest.raises(
        TypeError, match=r"(?s)(no implementation found|dispatch failed) for .*add.*First.*Second"
    ):
        lib.add(x, y)
    assert asked == ["First", "Second"]
    asked.clear()
    with pytest.raises(TypeError):
        lib.stack([x, y, z, x])
    assert asked == ["Deep", "First", "Second"]


def test_disabled_classes(lib: ModuleType):
    disabled = lib.nn.Parameter.__torch_function__

    class Quiet(lib.Tensor):
        __torch_function__ = disabled

    x = made(lib, Quiet)
    assert kinds(x, x + 1, lib.exp(x)) == ["Quiet", "Tensor", "Tensor"]
    assert kinds(lib.nn.Parameter(lib.ones(1)) + 1) == ["Tensor"]


def test_classes_are_not_asked_for_a_time(lib: ModuleType):
    disable = overrides.DisableTorchFunctionSubclass if lib is fg else lib._C.DisableTorchFunctionSubclass
    x = made(lib, plain_class(lib))
    with disable():
        assert kinds(x + 1, lib.exp(x), x.T if x.dim() == 2 else x.mul(1)) == ["Tensor"] * 3
    assert kinds(x + 1) == ["Plain"]


def test_parameters_of_a_subclass(lib: ModuleType):
    p = lib.nn.Parameter(made(lib, plain_class(lib)))
    assert isinstance(p, lib.nn.Parameter)
    assert kinds(p, p + 1) == ["Plain", "Plain"]
    assert p.requires_grad


def test_attributes_and_constructors(lib: ModuleType):
    class Named(lib.Tensor):
        @staticmethod
        def __new__(cls: Any, data: Any, label: str) -> Any:
            return lib.as_tensor(data).as_subclass(cls)

        def __init__(self, data: Any, label: str) -> None:
            self.label = label

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = super().__torch_function__(func, types, args, kwargs)
            if isinstance(out, cls):
                out.label = next(a.label for a in args if isinstance(a, cls))
            return out

    x = Named([1.0, 2.0], "weights")
    assert (x * 2).label == "weights"
    assert (x * 2).tolist() == [2, 4]


class Picklable(fg.Tensor):
    pass


def test_pickles_and_files():
    x = made(fg, Picklable)
    x.tag = 3
    assert type(copy.deepcopy(x)) is Picklable
    back = pickle.loads(pickle.dumps(x))
    assert (type(back), back.tolist(), back.tag) == (Picklable, [1, 2], 3)
    file = io.BytesIO()
    fg.save(x, file)
    file.seek(0)
    with fg.serialization.safe_globals([Picklable]):
        assert type(fg.load(file)) is Picklable


def test_what_a_class_raises_comes_out(lib: ModuleType):
    class Broken(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise KeyError("broken")

    x = made(lib, Broken)
    for call in (lambda: x + 1, lambda: lib.exp(x), lambda: x.shape, lambda: len(x)):
        with pytest.raises(KeyError, match="broken"):
            call()


def test_two_bases():
    class Mixin:
        def twice(self) -> Any:
            return self + self

    class Both(Mixin, fg.Tensor):
        pass

    class Deeper(Both, fg.Tensor):
        pass

    x = made(fg, Deeper)
    assert kinds(x.twice(), x.as_subclass(Both) + x) == ["Deeper", "Deeper"]


def test_vmap_grad_and_compile_still_see_plain_tensors():
    plain_class(fg)
    assert fg.vmap(lambda x: (x * 2).sum())(fg.ones(2, 3)).tolist() == [6, 6]
    assert fg.func.grad(lambda x: (x * x).sum())(fg.tensor([3.0])).tolist() == [6]
    step = fg.compile(lambda x: fg.exp(x).sum() + fg.nn.functional.relu(x).sum())
    assert [step(fg.zeros(2)).item() for _ in range(4)] == [2.0] * 4


def test_classes_that_lie():
    class Odd(fg.Tensor):
        __torch_function__ = 5

    with pytest.raises(TypeError):
        made(fg, Odd) + 1

    class Instead:
        __torch_function__ = None

    with pytest.raises(TypeError, match="must be Tensor, not Instead"):
        fg.exp(Instead())


@pytest.mark.parity
def test_tensors_of_pytorch_are_not_asked():
    torch = pytest.importorskip("torch")
    fg.overrides.install()

    class Theirs(torch.Tensor):
        pass

    ours, theirs = fg.ones(2), torch.ones(2)
    for other in (theirs, torch.nn.Parameter(theirs), theirs.as_subclass(Theirs)):
        assert fg.from_dlpack(other.detach()).tolist() == [1.0, 1.0]
        for call in (
            lambda: fg.add(ours, other),  # noqa: B023
            lambda: torch.add(other, ours),  # noqa: B023
            lambda: torch.nn.functional.relu(ours),
            lambda: torch.nn.functional.softmax(ours, 0),
            lambda: torch.ones(2).__setitem__(0, ours),
            lambda: torch.ones(2).__getitem__((ours,)),
            lambda: torch.ops.aten.add(ours, other),  # noqa: B023
        ):
            with pytest.raises(TypeError):
                call()


@pytest.mark.parity
def test_what_pytorch_says_for_our_classes_is_not_asked():
    torch = pytest.importorskip("torch")
    functions = (
        torch.nn.Parameter.__torch_function__,
        torch.Tensor.__torch_function__,
        classmethod(torch.Tensor.__torch_function__.__func__),
    )
    for function in functions:
        kind = type("Theirs", (fg.Tensor,), {"__torch_function__": function})
        assert kinds(made(fg, kind) + 1, fg.exp(made(fg, kind))) == ["Tensor", "Tensor"]


@pytest.mark.parity
def test_subclasses_are_printed_by_their_names():
    torch = pytest.importorskip("torch")
    found = []
    for lib in (fg, torch):

        class Named(lib.Tensor):
            pass

        class Weight(lib.nn.Parameter):
            pass

        x = lib.ones(2, 2).as_subclass(Named)
        found.append([repr(x), repr(x[0, 0]), repr(lib.nn.Parameter(x)), repr(lib.nn.Parameter(lib.ones(1)))])
        found[-1].append(repr(lib.nn.Buffer(lib.ones(1))))
        found[-1].append(repr(Weight(lib.ones(1))))
    assert found[0] == found[1]
