"""Tensors of `vmap`: one that a function sees, and the one that is computed with.

Note [Batched tensors]: within `vmap` a function gets *batched* tensors. Such an object is a tensor of the sizes,
strides and dtype that one element of the batch has: its record is a view of the first. So whatever asks for sizes and
dtypes, checks arguments and works out integers, in Python or compiled, does for one element what it always does.
Beside the record the object has the *value*, the tensor of all elements with the batch in front, and the *level*, the
call of `vmap` that it belongs to. A value may be batched itself, at a level further out.

Ops are where they differ. Compiled code tells batched tensors by their class, computes with none, and hands the call
of an op on some to `apply_batched`; entries that read or write elements refuse them. So no other tensor pays for them,
and no element is mistaken for the batch. `apply_batched` takes the values of the innermost level, changes the integers
of the call by the rule of the op (`func.rules`), calls the op again and makes batched tensors of the results. An op
without a rule runs for each element, and the user is told.

Values have the history: their ops are recorded as those of any tensor, so a pass over what a function computed for all
elements is an ordinary one, in compiled code. Where a transform differentiates within `vmap`, its inputs are expanded
to the levels around it first: then the gradient of the sum over the batch is the gradient of each element.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

from fastgrad.autograd import engine
from fastgrad.autograd.aliases import note
from fastgrad.autograd.tangents import opened
from fastgrad.functions.creation import zeros
from fastgrad.functions.likeness import ones_like
from fastgrad.native.build.loader import rt, runtime_set_object
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply
from fastgrad.tensor import Tensor
from fastgrad.tensor.subclasses import disabled_torch_function

_SELECT, _UNSQUEEZE, _EXPAND, _ALIAS = (BY_NAME[n].id for n in ("select", "unsqueeze", "expand", "alias"))
_sizes, _choose = rt.sizes, rt.choose_devices


class Level:
    """One call of `vmap` that is under way.

    Attributes
    ----------
    size : int
        How many elements the batch has.
    randomness : str
        What ops that draw random numbers do: "error", "different" or "same".
    depth : int
        How many calls are around this one.
    """

    __slots__ = ("depth", "randomness", "size")

    def __init__(self, size: int, randomness: str, depth: int) -> None:
        self.size, self.randomness, self.depth = size, randomness, depth


class _Levels(threading.local):
    def __init__(self) -> None:
        self.stack: list[Level] = []


_levels = _Levels()


def levels() -> list[Level]:
    """The calls of `vmap` that are under way in this thread, the outermost first."""
    return _levels.stack


class entered:  # noqa: N801 - a context manager
    """A block in which a call of `vmap` is under way.

    A signal may interrupt entering it, so whatever was done is undone there. No level is on the stack without its
    count: one count too many costs plans, one too few would run functions by plans within `vmap`.
    """

    def __init__(self, size: int, randomness: str) -> None:
        self.level = Level(size, randomness, len(_levels.stack))

    def __enter__(self) -> Level:
        counted = False
        try:
            counted = _choose(1) is None  # no function runs by its plan, which knows nothing of randomness
            _levels.stack.append(self.level)
        except BaseException:
            if counted and len(_levels.stack) == self.level.depth:
                _choose(-1)
            leave(self.level.depth)
            raise
        return self.level

    def __exit__(self, *_: object) -> None:
        leave(self.level.depth)


def leave(depth: int) -> None:
    """End the calls of `vmap` from a depth on that are under way; none if they ended before."""
    stack = _levels.stack
    n = len(stack) - depth
    if n > 0:
        del stack[depth:]
        _choose(-n)


class outside:  # noqa: N801 - a context manager
    """A block in which the innermost calls of `vmap`, from a level on, are not under way."""

    __slots__ = ("_depth", "_rest")

    def __init__(self, level: Level) -> None:
        self._depth = level.depth

    def __enter__(self) -> None:
        stack = _levels.stack
        self._rest = stack[self._depth :]
        del stack[self._depth :]
        _choose(-len(self._rest))

    def __exit__(self, *_: object) -> None:
        _choose(len(self._rest))
        _levels.stack += self._rest


def need_randomness(value: Any) -> None:
    """Raise unless a value says what ops that draw random numbers do."""
    if value not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {value}"
        )


def refused(what: str) -> RuntimeError:
    """The error for what cannot be done with a batched tensor."""
    return RuntimeError(
        f"vmap: {what} needs the elements of a tensor, which is not supported within vmap: rewrite it with other "
        "operations, or do it outside of the function"
    )


class Batched(Tensor):
    """A tensor of a function that `vmap` calls; see Note [Batched tensors]."""

    __slots__ = ("_level", "_value")
    __torch_function__ = disabled_torch_function

    _level: Level
    _value: Any

    def __new__(cls, data: Any = ()) -> Batched:
        raise RuntimeError("batched tensors are made by vmap alone")

    # --- history: that of the value ---

    @property
    def requires_grad(self) -> bool:
        return self._value.requires_grad  # type: ignore[no-any-return]

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        self._value.requires_grad_(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        return self._value.is_leaf  # type: ignore[no-any-return]

    @property
    def grad_fn(self) -> Any:  # type: ignore[override]
        return self._value.grad_fn

    @property
    def grad(self) -> Any:
        found = self._value.grad
        return None if found is None else batched(found, self._level)

    @grad.setter
    def grad(self, value: Any) -> None:
        raise RuntimeError("grad of a tensor within vmap cannot be set")

    @property
    def _version(self) -> int:
        return self._value._version  # type: ignore[no-any-return]

    @property
    def data(self) -> Any:
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        raise refused("data")

    def detach(self) -> Any:
        return batched(self._value.detach(), self._level)

    def detach_(self) -> Any:
        self._value.detach_()
        return self

    def retain_grad(self) -> None:
        self._value.retain_grad()

    def register_hook(self, hook: Any) -> Any:  # type: ignore[override]
        level = self._level

        def call(grad: Any) -> Any:
            new = hook(batched(grad, level))
            return None if new is None else value_at(new, level)

        return self._value.register_hook(call)

    def register_post_accumulate_grad_hook(self, hook: Any) -> Any:
        raise refused("register_post_accumulate_grad_hook")

    def backward(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            "backward() called inside a transform. This is not supported, please use fastgrad.func.grad or "
            "fastgrad.func.vjp instead or call backward() outside of transforms."
        )

    # --- layout: what one element of the batch has is no view of anything ---

    @property
    def _base(self) -> Any:
        return None

    def is_shared(self) -> bool:
        return False

    # --- elements ---

    def item(self) -> Any:
        raise RuntimeError(
            "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a "
            "Tensor, please try to rewrite what you're doing with other operations."
        )

    def __bool__(self) -> Any:  # type: ignore[override]
        raise RuntimeError(
            "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't "
            "support that: use where, or do it outside of the function."
        )

    def _holds_somewhere(self) -> bool:
        return self._value._holds_somewhere()  # type: ignore[no-any-return]

    __float__ = __int__ = __index__ = __complex__ = item  # type: ignore[assignment]

    def _no_elements(self, *_: Any, **__: Any) -> Any:
        raise refused("reading or writing memory")

    tolist = numpy = __array__ = __dlpack__ = data_ptr = untyped_storage = storage = _no_elements
    set_ = resize_ = share_memory_ = pin_memory = __reduce_ex__ = __reduce__ = _no_elements
    __cuda_array_interface__ = property(_no_elements)

    def __deepcopy__(self, memo: Any) -> Any:
        return self.detach().clone()

    def __repr__(self, *_: Any, **__: Any) -> str:  # type: ignore[override]
        inner = repr(self._value).replace("\n", "\n    ")
        return f"BatchedTensor(lvl={self._level.depth + 1}, bdim=0, value=\n    {inner}\n)"

    __str__ = __repr__

    def _repr_html_(self) -> None:
        """Nothing but the text."""

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __iter__(self) -> Any:
        if not _sizes(self):
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))


def batched(value: Any, level: Level) -> Any:
    """The tensor that a function sees of a value whose first dimension is the batch of a level."""
    record = rt.detach(value)
    if level.size:
        sample = apply(_SELECT, 1, 0, record, 0, 0)
    else:
        sample = zeros(_sizes(value)[1:], dtype=value.dtype, device=value.device)
    out = rt.adopt(Batched, sample)
    out._value, out._level = value, level
    return out


def is_at(x: Any, level: Level) -> bool:
    """Whether a tensor is batched at a level."""
    return type(x) is Batched and x._level is level


def expanded(x: Any, size: int) -> Any:
    """A tensor repeated in a new first dimension, without a copy."""
    return apply(_EXPAND, 1, 0, apply(_UNSQUEEZE, 1, 0, x, 0), size, *_sizes(x))


def value_at(x: Any, level: Level) -> Any:
    """The value of a tensor at a level: repeated in the first dimension if it is the same for all of the batch."""
    return x._value if is_at(x, level) else expanded(x, level.size)


def levels_of(x: Any) -> list[Level]:
    """The levels at which a tensor is batched, the outermost first."""
    found = []
    while type(x) is Batched:
        found.append(x._level)
        x = x._value
    return found[::-1]


def laid_bare(x: Any, wanted: Sequence[Level]) -> Any:
    """The plain tensor below a tensor, with a dimension in front for each of `wanted`, which has all of its levels."""
    own = levels_of(x)
    while type(x) is Batched:
        x = x._value
    if len(own) == len(wanted):
        return x
    logical = _sizes(x)[len(own) :]
    for k, level in enumerate(wanted):
        if level not in own:
            x = apply(_UNSQUEEZE, 1, 0, x, k)
    return apply(_EXPAND, 1, 0, x, *(level.size for level in wanted), *logical)


def dressed(x: Any, its_levels: Sequence[Level]) -> Any:
    """The batched tensor of a plain one that has a dimension in front for each of the levels."""
    for level in its_levels:
        x = batched(x, level)
    return x


def differentiated(x: Any) -> Any:
    """An alias of a tensor that requires grad, batched at all levels under way; see Note [One graph]."""
    around = levels()
    plain = laid_bare(x, around)
    own = apply(_ALIAS, 1, 0, plain) if plain.requires_grad else note(plain.detach().requires_grad_())
    return dressed(own, around)


def changeable(x: Any) -> Any:
    """What `differentiated` gives as a function sees it that may change it in place, unless it has a history."""
    own = plain(x)
    return dressed(opened(own), levels()) if own.is_leaf else x


def plain(x: Any) -> Any:
    """The tensor below all levels."""
    while type(x) is Batched:
        x = x._value
    return x


def one_hot(x: Any, index: int) -> Any:
    """Zeros in the sizes of a tensor, with a one at an element."""
    sizes = _sizes(x)
    out = zeros(sizes, dtype=x.dtype, device=x.device)
    out.view(-1)[index] = 1
    return out


def _grad_of_batched(
    outputs: Sequence[Any], inputs: Sequence[Any], grads: Sequence[Any], keep: bool, create_graph: bool
) -> tuple[Any, ...] | None:
    """What `autograd.grad` asks for: gradients where a tensor is batched, None where none is."""
    if not any(type(t) is Batched for t in (*outputs, *inputs, *grads)):
        return None
    made = []
    for o, g in zip(outputs, grads, strict=True):
        if not o.requires_grad:
            raise RuntimeError("element of tensors does not require grad and does not have a grad_fn")
        if g is None and _sizes(o) and math.prod(_sizes(o)) != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        made.append(ones_like(o.detach()) if g is None else g)
    return pull(outputs, inputs, made, keep=keep, create_graph=create_graph)


engine.set_grad_of_batched(_grad_of_batched)


def pull(
    outputs: Sequence[Any],
    inputs: Sequence[Any],
    grads: Sequence[Any],
    *,
    keep: bool = True,
    create_graph: bool = False,
) -> tuple[Any, ...]:
    """The gradients of outputs with regard to inputs, batched ones as well; None where an input is not used.

    Inputs are batched at all levels that outputs have. Where `grads` have further ones, there is a pass for each
    element of these.
    """
    pairs = [(o, g) for o, g in zip(outputs, grads, strict=True) if plain(o).requires_grad]
    if not pairs or not inputs:
        return (None,) * len(inputs)
    if not any(type(t) is Batched for t in (*inputs, *(t for pair in pairs for t in pair))):
        return engine.grad(  # type: ignore[no-any-return]
            [o for o, _ in pairs], list(inputs), [g for _, g in pairs], keep, create_graph, allow_unused=True
        )
    known = {level for t in (*(o for o, _ in pairs), *inputs) for level in levels_of(t)}
    further = [level for _, g in pairs for level in levels_of(g) if level not in known]
    if further:
        return _one_by_one(pairs, inputs, max(further, key=lambda level: level.depth), keep, create_graph)
    bare_outputs, bare_grads = [], []
    for o, g in pairs:
        own = levels_of(o)
        missing = [level for level in levels_of(g) if level not in own]
        own = sorted({*own, *missing}, key=lambda level: level.depth)
        bare_outputs.append(laid_bare(o, own))
        bare_grads.append(laid_bare(g, own))
    found = engine.grad(
        bare_outputs, [plain(t) for t in inputs], bare_grads, keep, create_graph, allow_unused=True
    )
    return tuple(None if g is None else dressed(g, levels_of(t)) for g, t in zip(found, inputs, strict=True))


def _one_by_one(
    pairs: Sequence[tuple[Any, Any]], inputs: Sequence[Any], level: Level, keep: bool, create_graph: bool
) -> tuple[Any, ...]:
    """A pass for each element of a level of the gradients that neither outputs nor inputs have."""
    outputs = [o for o, _ in pairs]
    values = [value_at(g, level) for _, g in pairs]
    rows = []
    for k in range(level.size):
        grads = [apply(_SELECT, 1, 0, v, 0, k) for v in values]
        rows.append(pull(outputs, inputs, grads, keep=keep or k + 1 < level.size, create_graph=create_graph))
    return tuple(
        None if any(g is None for g in column) else batched(stacked(column), level)
        for column in zip(*rows, strict=True)
    ) or (None,) * len(inputs)


def stacked(tensors: Sequence[Any]) -> Any:
    """Tensors of one size in a new first dimension."""
    return apply(BY_NAME["stack"].id, len(tensors), 0, *tensors, 0)


runtime_set_object("batched_type", Batched)
