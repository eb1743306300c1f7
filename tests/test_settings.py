"""What programs say for the whole process, ask about objects, and write in place of Python's control flow."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fastgrad as fg

DETERMINISTIC = "are_deterministic_algorithms_enabled", "is_deterministic_algorithms_warn_only_enabled"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    for lib in (fg, sys.modules.get("torch")):
        if lib is not None:
            lib.use_deterministic_algorithms(False)
            lib.set_warn_always(False)
            lib.set_default_dtype(lib.float32)


def outcome(call: Callable[[Any], Any], lib: Any) -> Any:
    """What a call gives, or the exception that PyTorch's users would catch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = call(lib)
        except (TypeError, ValueError, AssertionError, RuntimeError) as error:
            kinds = (TypeError, ValueError, AssertionError, NotImplementedError, RuntimeError)
            return next(kind for kind in kinds if isinstance(error, kind))
    return repr(found).replace("torch.", "fastgrad.")


def state(lib: Any) -> tuple[Any, ...]:
    return (lib.get_deterministic_debug_mode(), *(getattr(lib, name)() for name in DETERMINISTIC))


SETTINGS: list[Callable[[Any], Any]] = [
    lambda lib: (lib.use_deterministic_algorithms(True), state(lib)),
    lambda lib: (lib.use_deterministic_algorithms(True, warn_only=True), state(lib)),
    lambda lib: (lib.use_deterministic_algorithms(False, warn_only=True), state(lib)),
    lambda lib: lib.use_deterministic_algorithms(1),
    lambda lib: lib.use_deterministic_algorithms("yes"),
    lambda lib: lib.use_deterministic_algorithms(True, warn_only=None),
    *((lambda lib, m=m: (lib.set_deterministic_debug_mode(m), state(lib)))
      for m in (0, 1, 2, "default", "warn", "error", 3, -1, "x", None, 1.5, True)),
    lambda lib: (lib.set_warn_always(True), lib.is_warn_always_enabled()),
    lambda lib: lib.set_warn_always(1),
    lambda lib: lib.set_num_interop_threads("a"),
    lambda lib: lib.set_num_interop_threads(0),
    lambda lib: lib.set_num_interop_threads(-1),
    lambda lib: lib.set_flush_denormal(3),
    lambda lib: (lib.set_default_tensor_type(lib.DoubleTensor), lib.ones(1).dtype),
    lambda lib: (lib.set_default_tensor_type("torch.DoubleTensor"), lib.ones(1).dtype),
    lambda lib: lib.set_default_tensor_type(lib.LongTensor),
    lambda lib: lib.set_default_tensor_type(lib.float32),
    lambda lib: lib.set_default_tensor_type(None),
]  # fmt: skip


@pytest.mark.parity
@pytest.mark.parametrize("k", range(len(SETTINGS)))
def test_settings(k: int):
    torch = pytest.importorskip("torch")
    assert outcome(SETTINGS[k], fg) == outcome(SETTINGS[k], torch)


def test_threads_between_ops():
    before = fg.get_num_interop_threads()
    fg.set_num_interop_threads(3)
    assert fg.get_num_interop_threads() == 3
    fg.set_num_interop_threads(before)
    assert fg.set_flush_denormal(True) is False


def test_types_that_do_not_exist():
    for name in ("torch.NoTensor", "torch.cuda.FloatTensor"):
        with pytest.raises(TypeError, match="set_default_device"):
            fg.set_default_tensor_type(name)


OBJECTS: list[Callable[[Any], Any]] = [
    lambda lib: lib.typename(lib.ones(1)),
    lambda lib: lib.typename(lib.ones(1, dtype=lib.int64)),
    lambda lib: (lib.typename(3), lib.typename(None), lib.typename(int), lib.typename([])),
    lambda lib: lib.typename(lib.nn.Linear(1, 1)),
    lambda lib: (
        lib.is_storage(3),
        lib.is_storage(lib.ones(1)),
        lib.is_storage(lib.ones(1).untyped_storage()),
    ),
    lambda lib: lib.is_distributed(lib.ones(1)),
    lambda lib: lib.get_device_module("cpu").__name__,
    lambda lib: lib.get_device_module(lib.device("cuda")).__name__,
    lambda lib: lib.get_device_module().__name__,
    lambda lib: lib.get_device_module("meta"),
    lambda lib: lib.get_device_module("nonsense"),
    lambda lib: lib.get_device_module(3),
    lambda lib: lib.get_file_path("nn", "x.py").rpartition("/nn/")[2],
    lambda lib: lib.get_file_path(3),
]


@pytest.mark.parity
@pytest.mark.parametrize("k", range(len(OBJECTS)))
def test_questions_about_objects(k: int):
    torch = pytest.importorskip("torch")
    assert outcome(OBJECTS[k], fg) == outcome(OBJECTS[k], torch)


NUMBERS = (3, 2.5, -2.7, True, "x", None, [1], 0)
ARITHMETIC: list[Callable[[Any], Any]] = [
    *((lambda lib, f=f, a=a: getattr(lib, f)(a))
      for f in ("sym_int", "sym_float", "sym_not", "sym_sqrt") for a in NUMBERS),
    *((lambda lib, f=f, a=a, b=b: getattr(lib, f)(a, b))
      for f in ("sym_max", "sym_min") for a in (1, 2.5, True, "a") for b in (2, 1.0, 3.5, None)),
    lambda lib: lib.sym_sum([1, 2, 3]), lambda lib: lib.sym_sum(1, 2), lambda lib: lib.sym_sum(()),
    lambda lib: lib.sym_sum([1.5, 2]), lambda lib: lib.sym_ite(True, 1, 2), lambda lib: lib.sym_ite(False, 1, 2),
    lambda lib: lib.sym_ite(1, 1, 2), lambda lib: lib.sym_ite(True, 1, 2.0), lambda lib: lib.sym_fresh_size(3),
]  # fmt: skip


@pytest.mark.parity
@pytest.mark.parametrize("k", range(len(ARITHMETIC)))
def test_arithmetic(k: int):
    torch = pytest.importorskip("torch")
    assert outcome(ARITHMETIC[k], fg) == outcome(ARITHMETIC[k], torch)


def grows(x: Any) -> Any:
    return x + 1


def falls(x: Any) -> Any:
    return x - 1


CONTROL: dict[str, Callable[[Any], Any]] = {
    "tensor": lambda lib: lib.cond(lib.tensor(True), grows, falls, (lib.ones(2),)),
    "bool": lambda lib: lib.cond(False, grows, falls, [lib.ones(2)]),
    "number": lambda lib: lib.cond(1.5, grows, falls, (lib.ones(2),)),
    "one element": lambda lib: lib.cond(lib.tensor([0.0]), grows, falls, (lib.ones(2),)),
    "no operands": lambda lib: lib.cond(True, lambda: lib.ones(1), lambda: lib.zeros(1)),
    "text": lambda lib: lib.cond("a", grows, falls, (lib.ones(2),)),
    "nothing": lambda lib: lib.cond(None, grows, falls, (lib.ones(2),)),
    "two elements": lambda lib: lib.cond(lib.ones(2), grows, falls, (lib.ones(2),)),
    "no function": lambda lib: lib.cond(lib.tensor(True), 3, falls, (lib.ones(2),)),
    "no tuple": lambda lib: lib.cond(lib.tensor(True), grows, falls, lib.ones(2)),
    "no tensors": lambda lib: lib.cond(lib.tensor(True), grows, falls, ("a",)),
    "numbers": lambda lib: lib.cond(lib.tensor(True), lambda x, y: x, lambda x, y: x, (lib.ones(1), 3)),
    "loop": lambda lib: lib.while_loop(
        lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (lib.tensor(0), lib.ones(2))
    ),
    "loop over an int": lambda lib: lib.while_loop(
        lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (0, lib.ones(2))
    ),
    "loop over a list": lambda lib: lib.while_loop(lambda i: i < 3, lambda i: [i + 1], [lib.tensor(0)]),
    "one value": lambda lib: lib.while_loop(lambda i: i < 3, lambda i: i + 1, (lib.tensor(0),)),
    "loop without a condition": lambda lib: lib.while_loop(3, lambda i: (i + 1,), (lib.tensor(0),)),
    "more values": lambda lib: lib.while_loop(
        lambda i: i < 3, lambda i: (i + 1, i.clone()), (lib.tensor(0),)
    ),
    "two conditions": lambda lib: lib.while_loop(lambda i: lib.ones(2), lambda i: (i + 1,), (lib.tensor(0),)),
    "another dtype": lambda lib: lib.while_loop(
        lambda i: i < 3, lambda i: ((i + 1).float(),), (lib.tensor(0),)
    ),
    "another shape": lambda lib: lib.while_loop(
        lambda x: x.sum() < 3, lambda x: (lib.cat([x, x]),), (lib.ones(1),)
    ),
    "text in a loop": lambda lib: lib.while_loop(lambda i: i < 3, lambda i: (i + 1,), ("a",)),
}


@pytest.mark.parity
@pytest.mark.parametrize("case", CONTROL)
def test_control_flow(case: str):
    torch = pytest.importorskip("torch")
    assert outcome(CONTROL[case], fg) == outcome(CONTROL[case], torch)


def test_gradients_through_control_flow():
    x = fg.tensor([1.0, 2.0], requires_grad=True)
    fg.cond(x.sum() > 0, lambda x: x * 3, lambda x: x, (x,)).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    _, y = fg.while_loop(lambda k, y: k < 3, lambda k, y: (k + 1, y * y), (0, x))
    assert fg.autograd.grad(y.sum(), x)[0].tolist() == [8.0, 8.0 * 2**7]
    with pytest.raises(RuntimeError, match="bool or a tensor"):
        fg.while_loop(lambda k: 3, lambda k: (k,), (0,))
    with pytest.raises(RuntimeError, match="tuple or list"):
        fg.while_loop(lambda k: k < 1, lambda k: (k,), fg.ones(1))


def test_there_is_no_cache_of_autocast():
    with fg.autocast("cpu"):
        fg.clear_autocast_cache()
        assert fg.is_autocast_enabled("cpu")
