"""Convolutions whose operands and settings are checked: the ops on them, complex ones by those on real numbers."""

from __future__ import annotations

from typing import Any

from fastgrad.functions.complex_numbers import complex as complex_of
from fastgrad.functions.shape import cat
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.element_types import COMPLEX, FLOAT64
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host.tables import BY_NAME
from fastgrad.ops.call import apply

_NAMES = [f"{kind}{rank}d" for kind in ("conv", "conv_transpose") for rank in (1, 2, 3)]
_OPS = {name: BY_NAME[name].id for name in _NAMES} | {"conv_tbc": BY_NAME["conv1d"].id}
_field = rt.field
_NDIM, _DTYPE = TENSOR.fields["ndim"][0], TENSOR.fields["dtype"][0]


def convolved(
    name: str, rank: int, x: Any, weight: Any, bias: Any, settings: tuple[int, ...], sizes: tuple[int, ...]
) -> Any:
    """The op on a batch; one image is a batch of one."""
    if _field(x, _NDIM) == rank + 1:
        return convolved(name, rank, x.unsqueeze(0), weight, bias, settings, sizes).squeeze(0)
    if _field(x, _DTYPE) in COMPLEX:
        return _of_complex(name, rank, x, weight, bias, settings, sizes)
    last = rt.channels_last(weight) or (rank > 1 and rt.channels_last(x))  # of signals, as in PyTorch
    if rank == 3 and _field(x, _DTYPE) == FLOAT64:  # which has no kernel for that in PyTorch
        last = False
    return apply(_OPS[name], 3, 0, x, weight, bias, *settings, int(last), rank + 2, rt.sizes(x)[0], *sizes)


def _of_complex(
    name: str, rank: int, x: Any, weight: Any, bias: Any, settings: tuple[int, ...], sizes: tuple[int, ...]
) -> Any:
    """Both parts of the images are one batch, for the real parts of the weights and for the imaginary ones."""
    n = x.shape[0]
    parts = cat([x.real, x.imag])
    by_real, by_imag = (
        convolved(name, rank, parts, w, None, settings, sizes) for w in (weight.real, weight.imag)
    )
    out = complex_of(by_real[:n] - by_imag[n:], by_real[n:] + by_imag[:n])
    return out if bias is None else out + bias.reshape(-1, *(1,) * rank)
