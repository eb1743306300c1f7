"""The argument ``out``: results that go to tensors which are there already.

One rule for all functions that PyTorch gives it (`WITH_OUT`): what they compute without it is written to `out`, which
gets its sizes and keeps its dtype. Nothing is recorded, and gradients cannot be asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fastgrad import dtypes, return_types
from fastgrad.functions.argument_names import between
from fastgrad.functions.plans import planned, unplanned, warn
from fastgrad.native.build.loader import Planned, TensorBase, rt
from fastgrad.native.contracts.flags import GRAD_ENABLED
from fastgrad.native.contracts.records import TENSOR

_DTYPE, _DEVICE, _NUMEL = (TENSOR.fields[name][0] for name in ("dtype", "device", "numel"))

_CREATING = "arange empty eye full linspace logspace ones rand randint randn randperm zeros"
CREATING = frozenset(_CREATING.split())
"""Those that make a tensor of numbers: of the dtype of `out`, and on its device."""

ADDING_UP = frozenset(("sum", "nansum", "prod", "cumsum", "cumprod"))
"""Those that compute in the dtype of `out`, where no other one is asked for."""

_OTHERS = """
    abs acos acosh add addbmm addcdiv addcmul addmm addmv addr alias_copy all amax amin aminmax any argmax argmin
    as_strided_copy asin asinh atan atan2 atanh baddbmm bernoulli bitwise_and bitwise_left_shift bitwise_not bitwise_or
    bitwise_right_shift bitwise_xor bmm bucketize cat ceil clamp clamp_max clamp_min column_stack copysign cos cosh
    cross cummax cummin cumprod cumsum deg2rad diag diagonal_copy diff digamma div dot dstack eq erf erfc erfinv exp
    exp2 expand_copy expm1 float_power floor floor_divide fmax fmin fmod frac gather gcd ge ger gt heaviside histc
    histogram hstack hypot i0 index_add index_copy index_select inner isin isneginf isposinf kron kthvalue lcm ldexp le
    lerp lgamma log log10 log1p log2 log_softmax logaddexp logaddexp2 logcumsumexp logical_and logical_not logical_or
    logical_xor logit logsumexp lt masked_select matmul matrix_power max maximum mean min minimum mm mode msort mul
    multinomial mv mvlgamma nan_to_num nanmean nanquantile nansum ne neg nonzero norm normal outer permute_copy
    polygamma pow prod quantile rad2deg reciprocal remainder renorm round rsqrt scatter scatter_add scatter_reduce
    searchsorted sigmoid sign signbit sin sinc sinh softmax sort split_with_sizes_copy sqrt square squeeze_copy stack
    std sub sum t_copy take take_along_dim tan tanh tensordot topk transpose_copy tril triu true_divide trunc
    unbind_copy unfold_copy unsqueeze_copy var vdot view_copy vstack where xlogy
"""
WITH_OUT = CREATING.union(_OTHERS.split())
"""The functions of the package that take ``out``."""


@between
def taking_out(function: Any) -> Any:
    """A function that also takes ``out``, a tensor or as many as there are results.

    The function itself is called where nothing is given.
    """
    if "out" in (
        getattr(function, "__kwdefaults__", None) or {}
    ):  # one of those that follow from an op's declaration
        return function
    if isinstance(function, Planned):
        return planned(taking_out(function.__wrapped__))  # type: ignore[attr-defined]

    @functools.wraps(function)
    def with_out(*operands: Any, out: Any = None, **named: Any) -> Any:
        if out is None:
            return function(*operands, **named)
        return into(out, function, operands, named)

    return with_out


def into(out: Any, function: Callable[..., Any], operands: Iterable[Any], named: Mapping[str, Any]) -> Any:
    """What a function computes, written to `out`.

    Raises
    ------
    TypeError
        If `out` is no tensor, or not as many as there are results.
    RuntimeError
        If gradients are on and a tensor requires one, or the dtype of `out` cannot hold the result.
    """
    unplanned()
    name, outs = function.__name__, out if isinstance(out, (tuple, list)) else (out,)
    for t in outs:
        if not isinstance(t, TensorBase):
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(t).__name__}")
    if rt.get_mode() & GRAD_ENABLED and _any_requires_grad((*operands, *named.values(), *outs)):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    if name in CREATING:
        named = {**named, **_kind_of(name, outs[0], named)}
    elif name in ADDING_UP:
        named = {"dtype": outs[0].dtype, **named}
    found = function(*operands, **named)  # without a history, as nothing asks for one
    results = (found,) if isinstance(found, TensorBase) else tuple(found)
    if len(results) != len(outs):
        raise TypeError(
            f"{name}(): argument 'out' must be {len(results)} tensor(s), one for each result, but got {len(outs)}"
        )
    for t, result in zip(outs, results, strict=True):
        _need_room(name, t, result)
    for t, result in zip(outs, results, strict=True):
        _write(t, result)
    if isinstance(found, TensorBase):
        return outs[0]
    kind = return_types.OUT.get(type(found))
    return kind._make(outs) if kind else tuple(outs)


def _any_requires_grad(values: Iterable[Any]) -> bool:
    """Whether a tensor among arguments, or in a list of them, requires a gradient."""
    for value in values:
        if isinstance(value, TensorBase):
            if value.requires_grad:  # type: ignore[attr-defined]
                return True
        elif isinstance(value, (tuple, list)) and _any_requires_grad(value):
            return True
    return False


def _kind_of(name: str, out: Any, named: Mapping[str, Any]) -> dict[str, Any]:
    """The dtype and the device of what is made to be written to `out`."""
    wanted = named.get("dtype")
    if wanted is not None and wanted is not out.dtype:
        raise RuntimeError(
            f"{name}(): dtype {wanted.type_name if isinstance(wanted, dtypes.dtype) else wanted} does not match "
            f"dtype of out parameter ({out.dtype.type_name})"
        )
    return {"dtype": out.dtype, "device": out.device}


def _need_room(name: str, out: Any, result: Any) -> None:
    """Raise where a result cannot be written to `out`, before anything is."""
    if rt.field(out, _DEVICE) != rt.field(result, _DEVICE):
        raise RuntimeError(
            f"{name}(): Expected all tensors to be on the same device, but out is on {out.device}, the result on "
            f"{result.device}; move it with .to(device)"
        )
    if not dtypes.can_cast(result.dtype, out.dtype):
        raise RuntimeError(
            f"{name}(): result type {result.dtype.type_name} can't be cast to the desired output type "
            f"{out.dtype.type_name}"
        )


def _write(out: Any, result: Any) -> None:
    """Write a result to `out`, which gets its sizes."""
    if rt.sizes(out) != rt.sizes(result):
        if rt.field(out, _NUMEL):
            warn(
                f"An output with one or more elements was resized since it had shape {list(out.shape)}, which does not "
                f"match the required output shape {list(result.shape)}. This behavior is deprecated, and in a future "
                "release outputs will not be resized unless they have zero elements. You can explicitly reuse an out "
                "tensor t by resizing it, inplace, to zero elements with t.set_().",
                stacklevel=4,
            )
        out.set_(rt.new(rt.field(out, _DTYPE), rt.field(out, _DEVICE), rt.sizes(result)))
    out.copy_(result)
