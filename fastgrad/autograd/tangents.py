"""Tangents: how tensors change with others, in the direction of those that were given.

Note [Tangents]: a *dual* is an alias of a tensor with a tangent, in a level. Nothing is computed beside the graph,
which records what duals are used for, as it does for any tensor that requires grad; so an op outside of a level costs
what it always did. The tangent of a tensor is computed when it is asked for, by two passes backward (Note [Twice
backward] in `fastgrad/func/derivatives.py`) from it to the duals that it depends on. What is changed in place, views
and hooks are those of the graph. Passes end at a leaf beside the dual, as no leaf may be changed in place; where the
tensor has a history, they end at the dual itself, and a change of it is refused.

Over complex numbers it is the same. Gradients are those by both parts (Note [Complex gradients] in
`ops.complex_numbers`), so a pass is the adjoint of the Jacobian of the parts, with the product ``Re(conj(a) * b)``;
the adjoint of that is the Jacobian again. The tangent of f is ``df/da * Re(t) + df/db * Im(t)``, for a holomorphic f
that is ``f'(z) * t``, without a conjugate, as in PyTorch.

A custom function with a `jvp` of its own is called with tangents when it is called; its outputs become duals with
the tangents that it gives, and the way to duals before them ends there.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from fastgrad.autograd.aliases import note
from fastgrad.autograd.engine import grad
from fastgrad.autograd.function import Function, apply_directly, set_apply_forward
from fastgrad.autograd.modes import enable_grad, is_grad_enabled
from fastgrad.functions.complex_numbers import real_dtype
from fastgrad.functions.likeness import zeros_like
from fastgrad.native.build.loader import TensorBase, rt


class Level:
    """Duals that belong together.

    Attributes
    ----------
    is_cut : bool
        Whether a pass is under way that ends at duals.
    is_watched : bool
        Whether a dual leads to something before it, or a tangent requires grad.
    """

    def __init__(self) -> None:
        self.is_cut = False
        self._duals: list[tuple[Any, Any]] = []
        self.is_watched = False

    def add(self, dual: Any, tangent: Any, watched: bool) -> None:
        """Let a tensor that requires grad be a dual; `watched` if it leads to something before it."""
        self._duals.append((dual, tangent))
        self.is_watched = self.is_watched or watched or tangent.requires_grad

    def add_all(self, duals: Sequence[Any], tangents: Sequence[Any]) -> None:
        """Let tensors that require grad be duals."""
        self._duals += zip(duals, tangents, strict=True)

    def leads_beyond(self, x: Any) -> bool:
        """Whether the graph behind a tensor has an end that is no dual."""
        leaves = tuple(d for d, _ in self._duals if d.is_leaf)
        return self.is_watched or bool(rt.leads_elsewhere((x,), leaves))

    def tangents_of(self, outputs: Sequence[Any]) -> list[Any]:
        """The tangents of tensors; None for those that depend on no dual."""
        found: list[Any] = [None] * len(outputs)
        places = [k for k, o in enumerate(outputs) if o.requires_grad]
        if not places or not self._duals:
            return found
        chosen = [outputs[k] for k in places]
        duals = [d for d, _ in self._duals]
        with enable_grad():
            seeds = [
                note(o.detach().clone().requires_grad_()) for o in chosen
            ]  # of whatever values: all is linear in them
            self.is_cut = True
            try:
                pulled = grad(chosen, duals, seeds, True, True, allow_unused=True)
            finally:
                self.is_cut = False
        if all(p is None for p in pulled):
            return found
        # What a pass gives may not depend on what it begins with: of a step function, say, it is zero.
        pairs = [
            (p, t) for p, (_, t) in zip(pulled, self._duals, strict=True) if p is not None and p.requires_grad
        ]
        if not pairs:
            return [None if k not in places else zeros_like(outputs[k].detach()) for k in range(len(outputs))]
        recorded = is_grad_enabled() and any(map(self.leads_beyond, chosen))
        pushed = grad([p for p, _ in pairs], seeds, [t for _, t in pairs], True, recorded, allow_unused=True)
        for k, t in zip(places, pushed, strict=True):
            found[k] = t
        return found


def fitted(primal: Any, tangent: Any) -> Any:
    """A tangent in the dtype of what it belongs to, which real tangents of complex tensors are brought to.

    Raises
    ------
    RuntimeError
        If the sizes or the dtypes differ otherwise.
    ValueError
        If the dtype is neither floating point nor complex.
    """
    for name, x in (("primal", primal), ("tangent", tangent)):
        if not x.dtype.inexact:
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {x.dtype}")
    if primal.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(primal.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )
    if primal.dtype is tangent.dtype:
        return tangent
    if primal.is_complex() and tangent.dtype is real_dtype(primal):
        return tangent.to(primal.dtype)
    raise RuntimeError(
        "Trying to set a forward gradient that has a different dtype than that of the original Tensor: "
        f"{primal.dtype} and {tangent.dtype}. Convert it with .to({primal.dtype})"
    )


class _Levels(threading.local):
    def __init__(self) -> None:
        self.stack: list[Level] = []


_levels = _Levels()
_lock = threading.Lock()
_open = [0]  # levels of all threads


def enter(level: Level) -> None:
    """Begin a level: custom functions of this thread that have a `jvp` are called with tangents."""
    _levels.stack.append(level)
    with _lock:
        _open[0] += 1
        set_apply_forward(_apply)


def leave(level: Level) -> None:
    """End a level."""
    _levels.stack.remove(level)
    with _lock:
        _open[0] -= 1
        if not _open[0]:
            set_apply_forward(None)


class Dual(Function):
    """A dual of a tensor that has a history: gradients go on to that, but for passes from tangents to duals."""

    @staticmethod
    def forward(ctx: Any, x: Any, level: Any) -> Any:
        """An alias."""
        ctx.level = level
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """The gradient, unless it is one of a tangent."""
        return (None if ctx.level.is_cut else grads[0]), None


class Primal(Function):
    """What programs see of a leaf that passes end at: over its memory, but no leaf, so they may change it in place."""

    @staticmethod
    def forward(ctx: Any, leaf: Any, memory: Any) -> Any:
        """An alias of the memory, which is no view of the leaf."""
        return memory.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """The gradient."""
        return grads[0], None


def opened(leaf: Any) -> Any:
    """A leaf as programs see it that may change it in place."""
    with enable_grad():
        return Primal.apply(leaf, leaf.detach())


def dual_of(x: Any, level: Level) -> tuple[Any, Any, bool]:
    """An alias of a tensor that requires grad, what passes for its tangent end at, whether that leads beyond itself."""
    if x.requires_grad and is_grad_enabled():
        dual = Dual.apply(x, level)
        return dual, dual, True
    leaf = note(x.detach().requires_grad_())
    return opened(leaf), leaf, False


class _Context:
    """The context of a call as `jvp` sees it: `saved_tensors` are what `save_for_forward` kept."""

    def __init__(self, ctx: Any) -> None:
        object.__setattr__(self, "_ctx", ctx)

    @property
    def saved_tensors(self) -> Any:
        """What was kept for `jvp`."""
        kept = getattr(self._ctx, "_for_forward", None)
        return self._ctx.saved_tensors if kept is None else kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._ctx, name, value)


def _apply(cls: type[Function], args: tuple[Any, ...]) -> Any:
    """Call a custom function that has a `jvp`, in the levels under way."""
    levels = list(_levels.stack)
    inputs = [a for a in args if isinstance(a, TensorBase)]
    known = [(level, level.tangents_of(inputs)) for level in levels]
    known = [(level, tangents) for level, tangents in known if any(t is not None for t in tangents)]
    result = apply_directly(cls, args)
    if not known:
        return result
    outputs = result if isinstance(result, tuple) else (result,)
    node = next(
        (
            o.grad_fn
            for o in outputs
            if isinstance(o, TensorBase) and isinstance(o.grad_fn, cls._backward_cls)
        ),  # type: ignore[attr-defined]
        None,
    )
    if node is None:
        raise NotImplementedError(
            f"{cls.__name__}: the jvp of a custom function whose outputs have no history of its own is not supported"
        )
    for level, tangents in known:
        outputs = _with_tangents(cls, node, level, args, iter(tangents), outputs)
    return outputs if isinstance(result, tuple) else outputs[0]


def _with_tangents(
    cls: type[Function],
    node: Any,
    level: Level,
    args: tuple[Any, ...],
    tangents: Any,
    outputs: tuple[Any, ...],
) -> tuple[Any, ...]:
    """The outputs as duals with the tangents that `jvp` gives."""
    given = []
    for a in args:
        t = next(tangents) if isinstance(a, TensorBase) else None
        if t is None and isinstance(a, TensorBase) and node.materialize_grads:
            t = zeros_like(a.detach())  # type: ignore[attr-defined]
        given.append(t)
    found = cls.jvp(_Context(node), *given)
    made = found if isinstance(found, tuple) else (found,)
    if len(made) != len(outputs):
        raise RuntimeError(
            f"{cls.__name__}.jvp returned an incorrect number of forward gradients (expected {len(outputs)}, got "
            f"{len(made)})"
        )
    duals = []
    for o, t in zip(outputs, made, strict=True):
        if not isinstance(o, TensorBase) or not o.requires_grad:  # type: ignore[attr-defined]
            duals.append(o)
            continue
        dual = Dual.apply(o, level)
        if t is not None:
            if not isinstance(t, TensorBase) or t.shape != o.shape:  # type: ignore[attr-defined]
                raise RuntimeError(
                    f"{cls.__name__}.jvp: expected a tangent of shape {list(o.shape)}, but got {t!r}"
                )  # type: ignore[attr-defined]
            level.add(dual, t, True)
        duals.append(dual)
    return tuple(duals)
