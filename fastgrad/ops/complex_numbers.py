"""Ops of complex numbers that real ones do not have, or have with other results.

Note [Complex gradients]: the gradient of a real L by ``z = a + bi`` is ``dL/da + i dL/db``, as in PyTorch; where L
falls fastest is against it. Through a holomorphic f it is ``g * conj(f'(z))``. The rule of an op says ``g * f'(z)``,
over real numbers and over complex ones, and is linear in g. So whoever runs a rule over complex numbers gives it the
conjugate of the gradient, and conjugates what it gives:

    conj(rule(conj(g))) = conj(conj(g) * f'(z)) = g * conj(f'(z))

That happens in three places: in the kernels of derivatives, where these are generated (`kernels.cpu.elementwise`); in
the sweep, around rules that are programs (`native.backward.derivatives`); around rules on tensors
(`autograd.recorded_rules`). An op says with `over_complex` or `HOLOMORPHIC` that its rules want it. Ops that only move
or add elements need it not, for these rules conjugates may change places with. Those below are not holomorphic, and say
all of their rules themselves; so do decompositions whose names end in ``.complex``.

Where a real operand has a complex result, its gradient is the real part: `fit` casts each gradient to the dtype of
what it belongs to, and the cast of a complex number is its real part. No rule mentions it.
"""

from __future__ import annotations

from fastgrad.native.contracts.element_types import COMPLEX, WIDE
from fastgrad.native.contracts.formats import CONTIGUOUS_FORMAT
from fastgrad.native.contracts.ops import (
    NOT_DIFFERENTIABLE,
    OUT_BOOL,
    OUT_COMPLEX,
    OUT_REAL,
    VIEW,
    VIEW_AS_COMPLEX,
    VIEW_AS_REAL,
    VIEW_CONJUGATE,
)
from fastgrad.ops.call import invoke
from fastgrad.ops.registry import Op, elementwise
from fastgrad.ops.shape import clone
from fastgrad.ops.vocabulary import m

COMPLEX_ONLY = "this is for complex tensors"

# --- parts -----------------------------------------------------------------------------------------------------

view_as_real = Op("view_as_real", VIEW, ("x",), forward=VIEW_AS_REAL)
view_as_complex = Op("view_as_complex", VIEW, ("x",), forward=VIEW_AS_COMPLEX)


@view_as_real.vjp("x")
def _(g):
    return invoke(view_as_complex, (invoke(clone, (g,), CONTIGUOUS_FORMAT),))


@view_as_complex.vjp("x")
def _(g):
    return invoke(view_as_real, (g,))


@elementwise("conj_physical", dtypes=COMPLEX)
def conj_physical(x):
    return m.conj(x)


@conj_physical.vjp("x")
def _(g):
    return invoke(conj_physical, (g,))


# Views that hold conjugates, and the negatives of real numbers: Note [Conjugates] in `native.launch.elementwise`.
conj = Op("conj", VIEW, ("x",), forward=VIEW_CONJUGATE)
neg_view = Op("neg_view", VIEW, ("x",), forward=VIEW_CONJUGATE)


@conj.vjp("x")
def _(g):
    return invoke(conj_physical, (g,))


@neg_view.vjp("x")
def _(g):
    return -g


@elementwise("real_part", dtypes=COMPLEX, flags=OUT_REAL, called="real")
def real_part(x):
    return m.real(x)


real_part.identity("x")


@elementwise("imag_part", dtypes=COMPLEX, flags=OUT_REAL, called="imag")
def imag_part(x):
    return m.imag(x)


@imag_part.vjp("x")
def _(g):
    return g * 1j


@elementwise("complex", dtypes=WIDE, flags=OUT_COMPLEX)
def join(real, imag):
    return m.make(real, imag)


@join.vjp("real")
def _(g):
    return invoke(real_part, (g,))


@join.vjp("imag")
def _(g):
    return invoke(imag_part, (g,))


@elementwise("isreal", dtypes=COMPLEX, flags=NOT_DIFFERENTIABLE | OUT_BOOL)
def isreal(x):
    return m.imag(x) == 0


# --- length and direction --------------------------------------------------------------------------------------


@elementwise("sgn", dtypes=COMPLEX, node="SgnBackward0")
def sgn(x):
    return m.sgn(x)


@elementwise("abs.complex", dtypes=COMPLEX, flags=OUT_REAL, node="AbsBackward0")
def absolute(x):
    return m.abs(x)


@absolute.vjp("x")
def _(g, x):
    return g * invoke(sgn, (x,))


# What changes the length does not change the direction: of g / |x| the part across x is left.


@sgn.vjp("x")
def _(g, x, y):
    size = invoke(absolute, (x,))
    along = invoke(real_part, (g * invoke(conj_physical, (y,)),)) * y
    return m.where(m.eq(size, 0.0), 0.0, (g - along) / size)


@elementwise("polar", dtypes=WIDE, flags=OUT_COMPLEX)
def polar(size, angle):
    return m.make(size * m.cos(angle), size * m.sin(angle))


@polar.vjp("size")
def _(g, y):
    return invoke(real_part, (invoke(conj_physical, (g,)) * invoke(sgn, (y,)),))


@polar.vjp("angle")
def _(g, y):
    return invoke(real_part, (invoke(conj_physical, (g,)) * (y * 1j),))


@elementwise("angle", dtypes=COMPLEX, flags=OUT_REAL, node="AngleBackward0")
def angle(x):
    return m.angle(x)


@angle.vjp("x")
def _(g, x):
    return m.where(m.eq(x, 0.0), 0.0, (g * 1j) / invoke(conj_physical, (x,)))
