"""Fourier transforms of rows: of complex numbers, and between real numbers and the half that determines the rest.

With ``w = exp(-2 pi i / n)`` the ops compute ``y[k] = scale * sum_j x[j] w**(jk)``, or with ``1 / w`` the inverse. As a
real linear map each has as derivative its adjoint, which is another one of them: rules take g as it is.

Of real numbers only a half is computed, and mirrored where the whole is wanted.

A half holds frequencies 0 to n/2. All but the first, and the last where n is even, stand for two of n. So the adjoint
of `rfft` counts them half, and that of `irfft` twice.
"""

from __future__ import annotations

from fastgrad.native.contracts.element_types import COMPLEX, WIDE
from fastgrad.native.contracts.frames.framed import FFT, FFT_FROM_HALF, FFT_OF_REALS, FFT_TO_HALF
from fastgrad.native.contracts.ops import OUT_COMPLEX, OUT_REAL, SHAPE_FRAMED, STRUCTURED
from fastgrad.ops.call import invoke
from fastgrad.ops.complex_numbers import real_part
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op

_NODES = {"fft": "FftC2CBackward0", "rfft": "FftR2CBackward0", "irfft": "FftC2RBackward0"}


def _transform(name, builder, frame, dtypes, node, flags=0, **options):
    kernel = Kernel(
        name, f"fft:{builder}", frame=frame, dtypes=dtypes, requires="fft:find_pocketfft", **options
    )  # fmt: skip
    integers = (*frame.names_of("integers"), "*target")
    return Op(name, STRUCTURED, ("x",), integers, kernel=kernel, forward=SHAPE_FRAMED, flags=flags, node=node)


def _of_reals(name, back):
    """The op whose adjoint is the real part of another one."""
    op = _transform(
        name, "of_reals", FFT_OF_REALS, WIDE, _NODES["rfft"], OUT_COMPLEX, inverse=name.startswith("i")
    )  # fmt: skip
    op.vjp("x")(
        lambda g, rows, length, first, passes, scale, sizes: invoke(
            real_part, (invoke(back, (g,), rows, length, first, passes, scale, sizes),)
        )
    )
    return op


def _half(name, weight):
    return _transform(name, "to_half", FFT_TO_HALF, WIDE, _NODES["rfft"], OUT_COMPLEX, weight=weight)


def _whole_of_half(name, weight):
    return _transform(name, "from_half", FFT_FROM_HALF, COMPLEX, _NODES["irfft"], OUT_REAL, weight=weight)


fft = _transform("fft", "whole", FFT, COMPLEX, _NODES["fft"], loop="fft")
ifft = _transform("ifft", "whole", FFT, COMPLEX, _NODES["fft"], loop="ifft")
fft_of_reals, ifft_of_reals = _of_reals("fft_of_reals", ifft), _of_reals("ifft_of_reals", fft)
rfft, rfft_doubled = _half("rfft", 1), _half("rfft_doubled", 2)
irfft, irfft_halved = _whole_of_half("irfft", 1), _whole_of_half("irfft_halved", 0.5)


def _adjoints(one, other):
    """Say that each of two ops is the derivative of the other one."""
    for op, back in ((one, other), (other, one)):
        op.vjp("x")(_through(back) if "half" not in op.attrs else _through_half(back))


def _through(back):
    return lambda g, rows, length, first, passes, scale, sizes: invoke(
        back, (g,), rows, length, first, passes, scale, sizes
    )


def _through_half(back):
    return lambda g, rows, length, half, scale, sizes: invoke(back, (g,), rows, length, half, scale, sizes)


_adjoints(fft, ifft)
_adjoints(rfft, irfft_halved)
_adjoints(irfft, rfft_doubled)
