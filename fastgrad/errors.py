"""Failures become exceptions: of PyTorch's class, naming op, argument, what was expected and what came.

What is said of which failure stands in the table of `native.contracts.status`; here it is filled in.
"""

from __future__ import annotations

import ctypes
import pickle
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from fastgrad import dtypes
from fastgrad.native.build.loader import NodeBase, TensorBase, rt, runtime_get, runtime_set_object
from fastgrad.native.contracts.entries import ARGUMENTS
from fastgrad.native.contracts.entry_table import ENTRIES
from fastgrad.native.contracts.flags import INFERENCE_VIEW, IS_VIEW, NO_GRAD_VIEW, VIEW_ORIGIN
from fastgrad.native.contracts.ops import ELEMENTWISE
from fastgrad.native.contracts.python_types import HELD, KIND_NAMES
from fastgrad.native.contracts.record import Record
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.contracts.status import (
    BAD_CALL,
    BAD_HANDLE,
    DEVICE_FAILED,
    INTERNAL,
    NOTED_OPERANDS,
    OPERAND_WORDS,
    REASONS,
    USER_RAISED,
    Fact,
)
from fastgrad.native.host import devices
from fastgrad.native.host.tables import BY_NAME, NUMBERS, OPS

NO_NAME = "the runtime"  # of an entry that stands for no op


class Operand(NamedTuple):
    """What is known of an operand of a call that a pass made."""

    dtype: int
    sizes: tuple[int, ...]


def noted_call(words: Sequence[int]) -> tuple[list[Operand], list[int]]:
    """The operands and the integers of a call, from what was noted of it; see `native.contracts.status`."""
    n, n_ints, *rest = words
    places = [rest[k * OPERAND_WORDS :][:OPERAND_WORDS] for k in range(n)]
    operands = [Operand(dtype, tuple(sizes[:ndim])) for dtype, ndim, *sizes in places if dtype >= 0]
    return operands, rest[NOTED_OPERANDS * OPERAND_WORDS :][:n_ints]


def shape_text(t: Any) -> str:
    """The sizes of a tensor, or of an operand of a call of a pass, as messages show them."""
    return str(list(t.sizes if isinstance(t, Operand) else rt.sizes(t)))


def raise_status(
    status: int, name: str, operands: Sequence[Any] = (), attrs: Sequence[int] = (), facts: Sequence[Any] = ()
) -> NoReturn:
    """Raise the exception that a status of op `name` stands for."""
    raise error_of(status, name, operands, attrs, facts)


def error_of(
    status: int, name: str, operands: Sequence[Any] = (), attrs: Sequence[int] = (), facts: Sequence[Any] = ()
) -> BaseException:
    """The exception that a status of op `name` stands for."""
    reason = REASONS[status]
    if status == DEVICE_FAILED:
        return devices.error_of(facts[0], facts[1], "" if name == NO_NAME else f"{name}()")
    if status == USER_RAISED:
        error, where = exception_of_code(facts[0])
        error.add_note(f"raised by the function of {name} ({where})")
        return error
    tensors = [t for t in operands if isinstance(t, (TensorBase, Operand))]
    text = reason.text.format_map(_Facts(reason.facts, facts, name, tensors, attrs))
    says_what = "{op}" in reason.text or reason.text.startswith("{view}")
    if name == NO_NAME or says_what:
        return reason.exception(text)
    return reason.exception(f"{name}(): {text}" if name.isidentifier() else f"{name}: {text}")


def renamed(error: BaseException, name: str) -> BaseException:
    """An exception of an op in the name of the function that called the op on behalf of its caller."""
    op, mark, text = str(error).partition("(): ")
    return type(error)(f"{name}(): {text}") if mark and op.isidentifier() else error


class _Facts(dict[str, str]):
    """What a message may ask for, found when it asks: see Note [Results] in `native.contracts.status`."""

    def __init__(
        self, facts: Sequence[Fact], values: Sequence[Any], op: str, tensors: list[Any], ints: Sequence[int]
    ) -> None:
        super().__init__()
        self._facts = {fact.name: fact for fact in facts}
        self._values = values
        self._op = op
        self._tensors = tensors
        self._ints = ints

    def __missing__(self, name: str) -> str:
        fact = self._facts.get(name)
        if fact is None:
            return str(getattr(self, name)())
        value = self._values[fact.word]
        if value is None:
            return "a tensor that is gone"
        if fact.kind == "place":
            return self._place(value)
        if fact.kind == "view":
            return _view(value, self._values[fact.word + 1])
        if fact.kind == "sizes":
            return str(list(self._values[fact.word + 1 :][:value]))
        return _KINDS[fact.kind](value)

    def _place(self, k: int) -> str:
        op: Any = BY_NAME[self._op]
        return str(op.tensors[k])

    def place0(self) -> str:
        return self._place(0)

    def op(self) -> str:
        return self._op

    def ints(self) -> list[int]:
        return list(self._ints)

    def first(self) -> str:
        return shape_text(self._tensors[0]) if self._tensors else "of the operand"

    def others(self) -> str:
        return ", ".join(shape_text(t) for t in self._tensors[1:]) or "the operands"

    def operands(self) -> str:
        return " and ".join(shape_text(t) for t in self._tensors) or "of the call"

    def types(self) -> str:
        return ", ".join(f"'{_dtype(t).type_name}'" for t in self._tensors) or "these arguments"

    def devices(self) -> str:
        found = [
            devices.name_of(rt.field(t, TENSOR_DEVICE)) for t in self._tensors if isinstance(t, TensorBase)
        ]
        if len(set(found)) < 2:
            return "of the operands"
        return f"{found[0]} and {next(name for name in found if name != found[0])}"

    def live_bytes(self) -> int:
        return runtime_get("live_bytes")


def _dtype(t: Any) -> dtypes.dtype:
    return dtypes.of_code(t.dtype if isinstance(t, Operand) else rt.field(t, TENSOR_DTYPE))


def _layout(t: Any) -> str:
    return f"sizes {shape_text(t)} and dtype {_dtype(t).name}"


def _op_of(node: Any) -> str:
    """What messages call the op of a node: its name without the part that all names have."""
    return re.sub(r"Backward0?(?=\d*$)", "", node.name())


def _view(view: Any, done: int) -> str:
    """A view that cannot follow its base: it is about to change, or (`done`) its base has changed."""
    origin = rt.field(view, TENSOR_FLAGS) & VIEW_ORIGIN
    what = "its base or another view of its base has been" if done else "is being"
    output = ""
    if rt.field(view, TENSOR_NODE):
        output = f"Output {rt.field(view, OUTPUT_NR)} of {_op_of(rt.current_node(view))} is a view"
        if not origin & (NO_GRAD_VIEW | INFERENCE_VIEW):
            return f"{output} and {what} modified inplace."
    made = f"{output} of a view which was created in" if output else "A view was created in"
    if origin & INFERENCE_VIEW:
        return f"{made} inference mode and {what} modified inplace in normal mode."
    return f"{made} no_grad mode and {what} modified inplace with grad mode enabled."


def _saved(saved: Any) -> str:
    producer = ""
    # A view would catch up with its base, whose new history may hold the view.
    node = None if rt.field(saved, TENSOR_FLAGS) & IS_VIEW else rt.grad_fn(saved)
    if node is not None:
        producer = f", which is output {rt.field(saved, OUTPUT_NR)} of {_op_of(node)},"
    return f"[fastgrad.{_dtype(saved).type_name}Tensor {shape_text(saved)}]{producer}"


def _advice(cell: int) -> str:
    text = devices.advice(cell)
    return f"; {text}" if text else ""


HOOKS_BY_CODE: dict[int, str] = {}
"""Names of native hooks by the addresses of what was compiled for them."""


def exception_of_code(address: int) -> tuple[BaseException, str]:
    """What compiled code raised, from the address of Numba's description of it, and where it stands in the source."""
    if not address:
        return RuntimeError("of which nothing is known"), "compiled code"
    data = ctypes.c_void_p.from_address(address).value
    size = ctypes.c_int32.from_address(address + ctypes.sizeof(ctypes.c_void_p)).value
    kind, args, place = pickle.loads(ctypes.string_at(data, size))  # type: ignore[arg-type]
    where = f"line {place[2]} of {place[1]}" if place else "compiled code"
    try:
        return kind(*(args or ())), where
    except Exception as error:  # noqa: BLE001 - whatever a class of the user's raises when it is made
        return error, where


def _raised(address: int) -> str:
    error, where = exception_of_code(address)
    return f"{type(error).__name__}: {error} ({where})"


_KINDS: dict[str, Callable[[Any], str]] = {
    "number": str,
    "dtype": lambda code: dtypes.of_code(code).name,
    "type": lambda code: dtypes.of_code(code).type_name,
    "tensor": shape_text,
    "layout": _layout,
    "saved": _saved,
    "kernel": _advice,
    "raised": _raised,
    "hook": lambda code: repr(HOOKS_BY_CODE.get(code, "<unknown>")),
}


def _fields(record: Record, name: str) -> int:
    return record.fields[name][0]


TENSOR_DTYPE = _fields(TENSOR, "dtype")
TENSOR_DEVICE = _fields(TENSOR, "device")
TENSOR_FLAGS = _fields(TENSOR, "flags")
TENSOR_NODE = _fields(TENSOR, "node")
OUTPUT_NR = _fields(TENSOR, "output_nr")


def op_failed(_: int, status: int, facts: tuple[Any, ...], arguments: tuple[Any, ...]) -> NoReturn:
    """Called by a failing `rt.apply` with facts and its arguments; raises what the status stands for."""
    if len(arguments) < 3 or not all(isinstance(a, int) for a in arguments[:3]):
        raise TypeError("a call of an op begins with three integers")
    number, n, n_outs, *rest = arguments
    if not 0 <= number < len(OPS):
        raise TypeError(f"there is no op of number {number}")
    op, operands, attrs = OPS[number], rest[:n], rest[n:]
    if status == BAD_HANDLE:
        raise _not_a_tensor(op, operands, n_outs == _IN_PLACE)
    name = _called(op, n_outs == _IN_PLACE)
    if status in (BAD_CALL, INTERNAL):
        raise REASONS[status].exception(
            f"{name}(): {n} operands and the integers {attrs} do not fit {op!r}; call it by a function of fastgrad"
        )
    raise_status(status, name, operands, attrs, facts)


_IN_PLACE = -1


def _called(op: Any, in_place: bool) -> str:
    """What programs call an op; some write in place alone, and have a name that says so."""
    return f"{op.called.rstrip('_')}_" if in_place else str(op.called)


def _not_a_tensor(op: Any, operands: Sequence[Any], in_place: bool) -> TypeError:
    """The error for operands of an op among which one is missing or no tensor."""
    beside = op.kind == ELEMENTWISE and any(isinstance(x, TensorBase) for x in operands)  # then numbers fit
    fits = [
        isinstance(x, TensorBase) or (x is None and op.may_lack(k))
        or (beside and type(x) in NUMBERS and not (in_place and k == 0))
        for k, x in enumerate(operands)
    ]  # fmt: skip
    k = fits.index(False) if False in fits else None
    name = _called(op, in_place)
    if k is None:
        return TypeError(f"{name}(): a tensor among the arguments was never made, or is gone")
    kind = type(operands[k]).__name__
    if in_place and k == 0:
        return TypeError(
            f"descriptor '{name}' for 'fastgrad.Tensor' objects doesn't apply to a '{kind}' object"
        )
    place = k if in_place else k + 1
    return TypeError(f"{name}(): argument '{op.argument(k)}' (position {place}) must be Tensor, not {kind}")


def entry_failed(number: int, status: int, facts: tuple[Any, ...], arguments: tuple[Any, ...]) -> NoReturn:
    """Called by any other failing entry with facts and its arguments; raises what the status stands for."""
    first = arguments[0] if arguments else None
    name = ENTRIES[number].called or NO_NAME
    if isinstance(first, NodeBase):
        name = first.name()  # type: ignore[attr-defined]
    elif isinstance(first, type):
        name = first.__name__
    raise_status(status, name, arguments, facts=facts)


def wrong_argument(number: int, k: int, value: Any) -> NoReturn:
    """Called for an argument of an entry that is not of its kind or, for -1, for a wrong number of them."""
    entry = ENTRIES[number]
    name = entry.called or entry.name
    if k < 0:
        raise TypeError(f"{name}() takes {len(entry.arguments)} arguments, but got {value}")
    kind = entry.arguments[k].kind
    if kind == "pass":
        raise RuntimeError("this backward pass has ended")
    if kind == "index":
        raise IndexError(f"{name}(): argument {k + 1} is out of range: {value}")
    got = type(value).__name__
    method = _method_of(value)
    if method:
        raise TypeError(
            f"descriptor '{method}' for 'fastgrad.Tensor' objects doesn't apply to a '{got}' object"
        )
    if isinstance(value, TensorBase) and kind in ("tensor", "tensor?", "elements"):
        got = "one that was never made, or is gone, or one of vmap"
    raise TypeError(f"{name}(): argument {k + 1} must be {ARGUMENTS[kind]}, but got {got}")


def _method_of(value: Any) -> str:
    """The method of `Tensor` that hands its own `self` on, which is no tensor: it was called as a function."""
    frame = sys._getframe(2)  # who called the entry
    names = frame.f_code.co_varnames
    called = (
        names[:1] == ("self",) and frame.f_locals.get("self") is value and not isinstance(value, TensorBase)
    )
    return frame.f_code.co_name if called else ""


def wrong_kind(which: int, value: Any) -> NoReturn:
    """Called for an object in a place where compiled code reads another kind of objects."""
    held = HELD[which]
    raise TypeError(f"{held.name} must be a {KIND_NAMES[held.kind]} or None, but got {type(value).__name__}")


runtime_set_object("wrong_kind", wrong_kind)
runtime_set_object("wrong_argument", wrong_argument)
runtime_set_object("op_failed", op_failed)
runtime_set_object("entry_failed", entry_failed)
