"""Custom functions within `vmap`: by the rule that they define, or by one that follows from their `forward`."""

from __future__ import annotations

from typing import Any, NamedTuple

from fastgrad.autograd.function import Function, FunctionCtx, set_apply_batched
from fastgrad.func.batched import Batched, Level, batched, entered, levels, outside, value_at
from fastgrad.func.trees import leaves_of, mapped, rebuilt, spread
from fastgrad.functions.shape import movedim
from fastgrad.native.build.loader import TensorBase


class VmapInfo(NamedTuple):
    """What the `vmap` of a custom function is told."""

    batch_size: int
    randomness: str


def _apply_batched(cls: type[Function], args: tuple[Any, ...]) -> Any:
    """Call a custom function on arguments of which some are batched."""
    has_rule = cls.vmap is not Function.vmap
    if has_rule and cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overriden vmap "
            "staticmethod. Please set generate_vmap_rule=False or delete the overriden vmap staticmethod to avoid "
            "ambiguity."
        )
    if not has_rule and not cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement "
            "the vmap staticmethod or set generate_vmap_rule=True."
        )
    level = max((x._level for x in leaves_of(args) if type(x) is Batched), key=lambda found: found.depth)
    if level not in levels():
        raise RuntimeError("a tensor of vmap was used outside of the function that got it")
    with outside(level):
        return _by_its_rule(cls, args, level) if has_rule else _generated(cls, args, level)


def _is_at(x: Any, level: Level) -> bool:
    return type(x) is Batched and x._level is level


def _by_its_rule(cls: type[Function], args: tuple[Any, ...], level: Level) -> Any:
    in_dims = mapped(lambda x: 0 if _is_at(x, level) else None, args)
    values = mapped(lambda x: x._value if _is_at(x, level) else x, args)
    returned = cls.vmap(VmapInfo(level.size, level.randomness), in_dims, *values)
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise RuntimeError(
            f"Expected the vmap staticmethod of {cls.__name__} to return a tuple of (output, out_dims), but got "
            f"{type(returned).__name__}"
        )
    output, out_dims = returned
    dims = spread(out_dims, output)
    if dims is None:
        raise RuntimeError(
            f"The vmap staticmethod of {cls.__name__} returned out_dims {out_dims!r}, which "
            "do not have the form of its "
            "output"
        )
    made = [
        x if d is None or not isinstance(x, TensorBase) else batched(movedim(x, d, 0) if d else x, level)
        for x, d in zip(leaves_of(output), dims, strict=True)
    ]
    return rebuilt(output, made)


class _Context(FunctionCtx):
    """The context of a call for one element of the batch."""

    _to_save: Any = ()
    _dirty: Any = None
    _non_differentiable: Any = None
    saved_tensors: Any = ()
    needs_input_grad: Any = ()


class _Generated(Function):
    """A custom function over a batch: `forward` and `backward` of the other one run within `vmap`."""

    @staticmethod
    def forward(ctx: Any, cls: Any, own: Any, level: Any, *values: Any) -> Any:
        """The outputs, with the batch in front."""
        inner = _Context()
        with entered(level.size, level.randomness) as here:
            args = tuple(batched(v, here) if mine else v for v, mine in zip(values, own, strict=True))
            if cls.setup_context is not Function.setup_context:
                out = cls.forward(*args)
                cls.setup_context(inner, args, out)
            else:
                out = cls.forward(inner, *args)
            outputs = out if isinstance(out, tuple) else (out,)
            if inner._dirty:
                raise RuntimeError(
                    f"vmap over {cls.__name__}: inputs that forward changes in place are not supported"
                )
            saved = tuple(inner._to_save or ())
            with outside(here):
                made = tuple(value_at(o, here) if isinstance(o, TensorBase) else o for o in outputs)
                kept = [(_is_at(t, here), t._value if _is_at(t, here) else t) for t in saved]
        ctx.save_for_backward(*(t for _, t in kept))
        ctx.batched_saved = [mine for mine, _ in kept]
        ctx.cls, ctx.own, ctx.level, ctx.inner = cls, own, level, inner
        constant = [
            m
            for m, o in zip(made, outputs, strict=True)
            if any(o is n for n in inner._non_differentiable or ())
        ]
        ctx.mark_non_differentiable(*constant)
        return made if isinstance(out, tuple) else made[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """The gradients of the values: of what is the same for all elements, the sum."""
        cls, inner = ctx.cls, ctx.inner
        inner.needs_input_grad = ctx.needs_input_grad[3:]
        with entered(ctx.level.size, ctx.level.randomness) as here:
            pairs = zip(ctx.saved_tensors, ctx.batched_saved, strict=True)
            inner.saved_tensors = tuple(
                batched(t, here) if mine and t is not None else t for t, mine in pairs
            )
            found = cls.backward(inner, *(None if g is None else batched(g, here) for g in grads))
            inner.saved_tensors = ()
            found = found if isinstance(found, tuple) else (found,)
            if len(found) != len(ctx.own):
                raise RuntimeError(
                    f"function {cls.__name__}Backward returned an incorrect number of gradients (expected "
                    f"{len(ctx.own)}, got {len(found)})"
                )
            with outside(here):
                made: list[Any] = []
                for g, mine in zip(found, ctx.own, strict=True):
                    if g is None:
                        made.append(None)
                    else:
                        value = value_at(g, here)
                        made.append(value if mine else value.sum(0))
        return None, None, None, *made


def _generated(cls: type[Function], args: tuple[Any, ...], level: Level) -> Any:
    own = [_is_at(x, level) for x in args]
    values = [x._value if mine else x for x, mine in zip(args, own, strict=True)]
    out = _Generated.apply(cls, own, level, *values)
    return mapped(lambda x: batched(x, level) if isinstance(x, TensorBase) else x, out)


set_apply_batched(_apply_batched)
