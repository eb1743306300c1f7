"""Modes that see every call, and what programs ask about functions that can be overridden."""

from __future__ import annotations

import importlib
import threading
from types import ModuleType
from typing import Any

import pytest

import fastgrad as fg
from fastgrad import overrides
from fastgrad.overrides.asking import Overridable, original


@pytest.fixture(params=["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
def lib(request: pytest.FixtureRequest) -> ModuleType:
    module = pytest.importorskip(request.param)
    importlib.import_module(f"{request.param}.overrides")
    if module is fg:
        overrides.install()
    return module


def logging(lib: ModuleType) -> Any:
    class Logging(lib.overrides.TorchFunctionMode):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    return Logging()


def test_a_mode_sees_calls_with_plain_tensors(lib: ModuleType):
    x, mode = lib.ones(2), logging(lib)
    with mode as entered:
        assert entered is mode
        y = lib.zeros(2) + x
        y = lib.nn.functional.relu(lib.exp(y).sum())
        y.add_(1)
        assert y.shape == ()
    x + 1
    assert mode.seen == ["zeros", "add", "exp", "sum", "relu", "add_", "__get__"]
    assert type(lib.Tensor.sum).__name__ != "Overridable"


def test_a_mode_changes_results(lib: ModuleType):
    class Ones(lib.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return lib.ones(1) if func is lib.zeros else func(*args, **(kwargs or {}))

    with Ones():
        assert lib.zeros(3).tolist() == [1]
    assert lib.zeros(1).tolist() == [0]


def test_modes_within_modes(lib: ModuleType):
    outer, inner = logging(lib), logging(lib)
    x = lib.ones(2)
    with outer:
        with inner:
            x * 2
        x.sum()
    assert (outer.seen, inner.seen) == (["mul", "sum"], ["mul"])


def test_a_mode_is_off_while_it_runs_and_on_after_an_error(lib: ModuleType):
    class Counting(lib.overrides.TorchFunctionMode):
        calls = 0

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.calls += 1
            args[0] + 1 if isinstance(args[0], lib.Tensor) else None
            if self.calls == 2:
                raise KeyError("second")
            return func(*args, **(kwargs or {}))

    mode, x = Counting(), lib.ones(1)
    with mode:
        x * 2
        with pytest.raises(KeyError):
            x * 2
        x * 2
    assert mode.calls == 3


def test_modes_and_classes(lib: ModuleType):
    class Sub(lib.Tensor):
        pass

    class Passing(lib.overrides.TorchFunctionMode):
        types: Any = None

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.types = types
            return func(*args, **(kwargs or {}))

    x, mode = lib.ones(2).as_subclass(Sub), Passing()
    with mode:
        y = lib.exp(x)
    assert mode.types == (Sub,)
    assert type(y) is Sub
    with lib.overrides.BaseTorchFunctionMode():
        assert type(x + 1) is Sub


def test_modes_in_layers(lib: ModuleType):
    model, mode = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.ReLU()), logging(lib)
    with mode:
        model(lib.ones(1, 2))
    assert [name for name in mode.seen if name in ("linear", "relu")] == ["linear", "relu"]


def test_a_mode_without_an_answer():
    class Nothing(overrides.TorchFunctionMode):
        pass

    with Nothing(), pytest.raises(NotImplementedError, match=r"Nothing\.__torch_function__ is not defined"):
        fg.ones(1)

    class Refusing(overrides.TorchFunctionMode):
        def __torch_function__(self, *args: Any) -> Any:
            return NotImplemented

    with Refusing(), pytest.raises(TypeError, match=r"no implementation found for 'fastgrad\.ones'.*in mode"):
        fg.ones(1)


def test_modes_belong_to_threads():
    mode, found = logging(fg), []
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        inside.wait(10)
        found.append((fg.ones(2) + 1).tolist())
        leave.set()

    thread = threading.Thread(target=other)
    thread.start()
    with mode:
        inside.set()
        leave.wait(10)
    thread.join()
    assert found == [[2, 2]]
    assert mode.seen == []


def test_after_a_mode_methods_are_what_they_were():
    before = {
        name: getattr(fg.Tensor, name)
        for name in ("__add__", "add", "shape", "__eq__", "__getitem__", "exp_")
    }
    own = dict(fg.Tensor.__dict__)
    with logging(fg):
        assert getattr(fg.Tensor, "add") == before["add"]  # noqa: B009 - the other object is equal
    assert {name: getattr(fg.Tensor, name) for name in before} == before
    assert dict(fg.Tensor.__dict__) == own
    assert (fg.ones(1) == 1).item()
    assert hash(fg.ones(1))


def test_what_a_program_puts_into_tensor_stays(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fg.Tensor, "sum", lambda self: "mine")
    x, mode = fg.ones(2), logging(fg)
    with mode:
        assert x.sum() == "mine"
        monkeypatch.setattr(fg.Tensor, "mean", lambda self: "mine too")
    assert x.sum() == "mine"
    assert x.mean() == "mine too"
    monkeypatch.undo()
    if isinstance(vars(fg.Tensor).get("mean"), Overridable):  # what `monkeypatch` found in the mode
        fg.Tensor.mean = fg.Tensor.mean.function
    assert x.mean().item() == 1


def test_all_is_off_for_a_time():
    class Sub(fg.Tensor):
        pass

    mode, x = logging(fg), fg.ones(1).as_subclass(Sub)
    with mode, overrides.DisableTorchFunction():
        assert type(x + 1) is fg.Tensor
    assert mode.seen == []


# --- what programs ask -----------------------------------------------------------------------------------------------


def test_what_asks(lib: ModuleType):
    class Like:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return "asked", func.__name__, types, args, kwargs

    asked, p, o = lib.overrides, lib.ones(1), Like()
    assert [asked.has_torch_function(a) for a in ((p,), (o,), (p, o), (1, None), ())] == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert [asked.has_torch_function_unary(a) for a in (p, o)] == [False, True]
    assert asked.has_torch_function_variadic(p, 1, o)
    assert not asked.has_torch_function((lib.nn.Parameter(p),))
    assert [asked.is_tensor_like(a) for a in (p, o, 1, lib.nn.Parameter(p))] == [True, True, False, True]

    @asked.wrap_torch_function(lambda a, b=None: (a, b))
    def mine(a: Any, b: Any = None) -> Any:
        return "mine"

    assert mine(p) == "mine"
    assert mine(p, b=o)[:2] == ("asked", "mine")
    assert asked.handle_torch_function(mine, (o,), o, k=1)[3:] == ((o,), {"k": 1})


def test_names_of_functions(lib: ModuleType):
    name = lib.__name__
    asked = lib.overrides
    functions = {
        f"{name}.Tensor.add": lib.Tensor.add, f"{name}.nn.functional.relu": lib.nn.functional.relu,
        f"{name}.linalg.det": lib.linalg.det,
    }  # fmt: skip
    assert [asked.resolve_name(f) for f in functions.values()] == list(functions)
    assert [asked.is_tensor_method_or_property(f) for f in (lib.Tensor.add, lib.Tensor.shape.__get__, lib.add)] == [
        True, True, False,
    ]  # fmt: skip
    found = asked.get_overridable_functions()
    assert lib.Tensor.add in found[lib.Tensor]
    assert lib.nn.functional.relu in found[lib.nn.functional]
    assert lib.add in found[lib]


def test_names_of_functions_that_were_imported_before():
    relu = fg.nn.functional.relu
    for function in (relu, original(relu)):
        assert overrides.resolve_name(function) == "fastgrad.nn.functional.relu"


def test_what_no_function_is():
    with pytest.raises(TypeError, match=r"no implementation found for .*len"):
        overrides.handle_torch_function(len, (fg.ones(1),), fg.ones(1))
    assert overrides.resolve_name(len) is None
    assert overrides.resolve_name(fg.Tensor.shape.__get__) == "fastgrad.Tensor.shape.__get__"


def test_functions_that_a_program_imported_before():
    """Its names are replaced, too, and are equal to what they were."""
    import sys

    module = ModuleType("a_program")
    module.exp = function = original(fg.exp)
    sys.modules["a_program"] = module
    try:
        overrides.install.cache_clear()
        overrides.install()
        assert isinstance(module.exp, Overridable) or module.exp is function
        assert fg.exp == function
        assert {fg.exp: 1}[function] == {function: 1}[fg.exp] == 1
        assert fg.exp != fg.log
    finally:
        del sys.modules["a_program"]


def test_pickles_of_functions():
    import copy
    import pickle

    overrides.install()
    for function in (fg.exp, fg.sum, fg.nn.functional.relu, fg.special.airy_ai, fg.nn.init.ones_):
        assert pickle.loads(pickle.dumps(function)) == function
        assert copy.deepcopy(function) == function
    with (
        logging(fg),
        pytest.raises(pickle.PicklingError),
    ):  # no name leads to operators that are compiled code
        pickle.dumps(fg.Tensor.__add__)


def test_keywords_that_come_late():
    class Sub(fg.Tensor):
        pass

    x = fg.ones(2).as_subclass(Sub)
    assert type(fg.add(fg.ones(2), other=x)) is Sub
    assert type(fg.sum(input=x)) is Sub
    assert type(fg.clamp(fg.ones(2), min=x)) is Sub


def test_a_mode_that_was_not_entered():
    mode = fg.overrides.TorchFunctionMode()
    with pytest.raises(RuntimeError, match="trying to pop from empty mode stack"):
        mode.__exit__(None, None, None)
    assert (fg.ones(2) + 1).tolist() == [2.0, 2.0]


def test_names_of_functions_are_those_that_the_program_imports(monkeypatch):
    monkeypatch.setattr("fastgrad.module_names.shown", "torch")
    assert fg.overrides.resolve_name(fg.nn.functional.relu) == "torch.nn.functional.relu"
    assert fg.overrides.resolve_name(fg.Tensor.add) == "torch.Tensor.add"
    assert fg.overrides.resolve_name(len) is None
