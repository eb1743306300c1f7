"""Views, joining and splitting, copies: ops that move elements and compute nothing."""

from __future__ import annotations

from fastgrad.native.contracts import integers
from fastgrad.native.contracts.element_types import BOOL, SUPPORTED_DTYPES
from fastgrad.native.contracts.frames import filling, matrices
from fastgrad.native.contracts.ops import (
    EVERY_GRADIENT,
    HALVES_ON_GPUS,
    IN_FLOAT32,
    NOT_DIFFERENTIABLE,
    SHAPE_CAST,
    SHAPE_CAT,
    SHAPE_CLONE,
    SHAPE_DIAGONAL_BACKWARD,
    SHAPE_FLIP,
    SHAPE_NARROW_BACKWARD,
    SHAPE_NONE,
    SHAPE_PLACE_STRIDED,
    SHAPE_RESHAPE,
    SHAPE_RESHAPE_TO,
    SHAPE_SELECT_BACKWARD,
    SHAPE_SLICE_BACKWARD,
    SHAPE_SPLIT,
    SHAPE_SPLIT_BACKWARD,
    SHAPE_STACK,
    SHAPE_SUM_TO,
    SHAPE_TAKE_STRIDED,
    SHAPE_TRIANGLE,
    SHAPE_UNBIND,
    SHAPE_UNBIND_BACKWARD,
    SHAPE_UNFOLD_BACKWARD,
    SHAPE_ZERO_STRIDED,
    SHAPE_ZEROS,
    STRUCTURED,
    TAKES_CONJUGATES,
    VIEW,
    VIEW_ALIAS,
    VIEW_AS_DTYPE,
    VIEW_AS_STRIDED,
    VIEW_DIAGONAL,
    VIEW_EXPAND,
    VIEW_EXPAND_TO,
    VIEW_NARROW,
    VIEW_PERMUTE,
    VIEW_RESHAPE,
    VIEW_SELECT,
    VIEW_SLICE,
    VIEW_SQUEEZE,
    VIEW_TRANSPOSE,
    VIEW_UNFOLD,
    VIEW_UNSQUEEZE,
)
from fastgrad.ops.call import invoke
from fastgrad.ops.kernel_table import Kernel
from fastgrad.ops.registry import Op

# --- copies and casts ------------------------------------------------------------------------------------------

# The layout of a copy: nothing (like the operand), a memory format, or `GIVEN_STRIDES` and strides.
clone = Op("clone", STRUCTURED, ("x",), ("*layout",), forward=SHAPE_CLONE, flags=TAKES_CONJUGATES)
clone.identity("x")

cast = Op(
    "cast",
    STRUCTURED,
    ("x",),
    (*integers.AS_DTYPE.names, "*layout"),
    forward=SHAPE_CAST,
    flags=TAKES_CONJUGATES,
    node="ToCopyBackward0",
    called="to",
)
cast.identity("x")  # the sweep casts a gradient to the dtype of its input

sum_to = Op(
    "sum_to", STRUCTURED, ("x",), ("*target",), forward=SHAPE_SUM_TO, flags=IN_FLOAT32 | HALVES_ON_GPUS,
    node="SumBackward1",
)  # fmt: skip
expand_to = Op(
    "expand_to", VIEW, ("x",), ("*target",), forward=VIEW_EXPAND_TO, node="ExpandBackward0", called="expand"
)
expand_to.identity("x")
zeros_of = Op("zeros_of", STRUCTURED, ("x",), ("*target",), forward=SHAPE_ZEROS, flags=NOT_DIFFERENTIABLE)


flip = Op("flip", STRUCTURED, ("x",), integers.REVERSED.names, forward=SHAPE_FLIP)


@flip.vjp("x")
def _(g, dims):
    return invoke(flip, (g,), dims)


@sum_to.vjp("x")
def _(g, sizes):
    return invoke(expand_to, (g,), sizes)


# --- views -----------------------------------------------------------------------------------------------------

view = Op("view", VIEW, ("x",), ("*shape",), forward=VIEW_RESHAPE)
reshape_copy = Op(
    "reshape_copy",
    STRUCTURED,
    ("x",),
    ("*shape",),
    forward=SHAPE_RESHAPE,
    node="UnsafeViewBackward0",
    called="reshape",
)
reshape_to = Op(
    "reshape_to",
    STRUCTURED,
    ("x",),
    ("*target",),
    forward=SHAPE_RESHAPE_TO,
    node="ReshapeBackward0",
    called="reshape",
)
expand = Op("expand", VIEW, ("x",), ("*shape",), forward=VIEW_EXPAND)
expand.identity("x")  # the sweep sums a gradient down to the sizes of its input
permute = Op("permute", VIEW, ("x",), (*integers.PERMUTED.names, "*dims"), forward=VIEW_PERMUTE)
transpose = Op("transpose", VIEW, ("x",), integers.TRANSPOSED.names, forward=VIEW_TRANSPOSE)
t = Op("t", VIEW, ("x",), integers.TRANSPOSED.names, forward=VIEW_TRANSPOSE)
slice_ = Op("slice", VIEW, ("x",), integers.SLICED.names, forward=VIEW_SLICE)
select = Op("select", VIEW, ("x",), integers.SELECTED.names, forward=VIEW_SELECT)
squeeze = Op("squeeze", VIEW, ("x",), integers.ALONG.names, forward=VIEW_SQUEEZE)
unsqueeze = Op("unsqueeze", VIEW, ("x",), integers.ALONG.names, forward=VIEW_UNSQUEEZE)
diagonal = Op("diagonal", VIEW, ("x",), integers.DIAGONAL.names, forward=VIEW_DIAGONAL)
alias = Op("alias", VIEW, ("x",), forward=VIEW_ALIAS)
alias.identity("x")
as_strided = Op("as_strided", VIEW, ("x",), ("*part",), forward=VIEW_AS_STRIDED)


unfold = Op("unfold", VIEW, ("x",), integers.UNFOLDED.names, forward=VIEW_UNFOLD)
unfold_backward = Op(
    "unfold_backward",
    STRUCTURED,
    ("x",),
    (*integers.UNFOLDED.names, "*target"),
    forward=SHAPE_UNFOLD_BACKWARD,
)
as_dtype = Op(
    "as_dtype", VIEW, ("x",), integers.AS_DTYPE.names, forward=VIEW_AS_DTYPE, flags=NOT_DIFFERENTIABLE,
    called="view",
)  # fmt: skip


@unfold.vjp("x")
def _(g, dim, size, step, sizes):
    return invoke(unfold_backward, (g,), dim, size, step, sizes)


@unfold_backward.vjp("x")
def _(g, dim, size, step):
    return invoke(unfold, (g,), dim, size, step)


def _reshape_back(g, sizes):
    return invoke(reshape_to, (g,), sizes)


for _op in (view, reshape_copy, reshape_to, squeeze, unsqueeze):
    _op.vjp("x")(_reshape_back)


view.variant("squeezed", "SqueezeBackward2")
view.variant("strided", "ReshapeAliasBackward0")
squeeze.variant("dim", "SqueezeBackward1")
reshape_copy.variant("squeezed", "SqueezeBackward4")

unpermute = Op(
    "unpermute",
    VIEW,
    ("x",),
    (*integers.PERMUTED.names, "*dims"),
    forward=VIEW_PERMUTE,
    node="PermuteBackward0",
)


@permute.vjp("x")
def _(g, dims):
    return invoke(unpermute, (g,), 1, dims)


@unpermute.vjp("x")
def _(g, dims):
    return invoke(permute, (g,), 0, dims)


def _transpose_back(g, dim0, dim1):
    return invoke(transpose, (g,), dim0, dim1)


transpose.vjp("x")(_transpose_back)
t.vjp("x")(_transpose_back)


# The gradient of a view that leaves elements out: zeros of the input's sizes around the gradient. The integers are
# those of the view, then the sizes.
slice_backward = Op(
    "slice_backward", STRUCTURED, ("x",), (*integers.SLICED.names, "*target"),
    forward=SHAPE_SLICE_BACKWARD,
)  # fmt: skip
select_backward = Op(
    "select_backward",
    STRUCTURED,
    ("x",),
    (*integers.SELECTED.names, "*target"),
    forward=SHAPE_SELECT_BACKWARD,
)
diagonal_backward = Op(
    "diagonal_backward", STRUCTURED, ("x",), (*integers.DIAGONAL.names, "*target"),
    forward=SHAPE_DIAGONAL_BACKWARD,
)  # fmt: skip


@slice_.vjp("x")
def _(g, dim, start, end, step, sizes):
    return invoke(slice_backward, (g,), dim, start, end, step, sizes)


@slice_backward.vjp("x")
def _(g, dim, start, end, step):
    return invoke(slice_, (g,), dim, start, end, step)


@select.vjp("x")
def _(g, dim, index, sizes):
    return invoke(select_backward, (g,), dim, index, sizes)


@select_backward.vjp("x")
def _(g, dim, index):
    return invoke(select, (g,), dim, index)


@diagonal.vjp("x")
def _(g, offset, dim1, dim2, sizes):
    return invoke(diagonal_backward, (g,), offset, dim1, dim2, sizes)


@diagonal_backward.vjp("x")
def _(g, offset, dim1, dim2):
    return invoke(diagonal, (g,), offset, dim1, dim2)


# --- histories of views that were changed in place -------------------------------------------------------------
# A part says how a view lies in its base; see `native.shapes.parts`.

copy_slices = Op(
    "copy_slices",
    STRUCTURED,
    ("x", "source"),
    ("*part",),
    forward=SHAPE_NONE,
    node="torch::autograd::CopySlices",
)
zero_strided = Op("zero_strided", STRUCTURED, ("x",), ("*part",), forward=SHAPE_ZERO_STRIDED)
take_strided = Op("take_strided", STRUCTURED, ("x",), ("*part",), forward=SHAPE_TAKE_STRIDED)
place_strided = Op("place_strided", STRUCTURED, ("x",), ("*placed",), forward=SHAPE_PLACE_STRIDED)


@copy_slices.vjp("x")
def _(g, part):
    return invoke(zero_strided, (g,), part)


@copy_slices.vjp("source")
def _(g, part):
    return invoke(take_strided, (g,), part)


@zero_strided.vjp("x")
def _(g, part):
    return invoke(zero_strided, (g,), part)


def _place(g, part, sizes):
    return invoke(place_strided, (g,), part, sizes)


as_strided.vjp("x")(_place)
take_strided.vjp("x")(_place)


@place_strided.vjp("x")
def _(g, placed):
    return invoke(take_strided, (g,), placed)


# --- many outputs, many inputs ---------------------------------------------------------------------------------

unbind = Op("unbind", STRUCTURED, ("x",), integers.ALONG.names, forward=SHAPE_UNBIND, flags=TAKES_CONJUGATES)
split = Op(
    "split",
    STRUCTURED,
    ("x",),
    (*integers.ALONG.names, "*lengths"),
    forward=SHAPE_SPLIT,
    flags=TAKES_CONJUGATES,
    node="SplitBackward0",
)
unbind_backward = Op(
    "unbind_backward",
    STRUCTURED,
    ("*xs?",),
    (*integers.ALONG.names, "*target"),
    forward=SHAPE_UNBIND_BACKWARD,
    node="StackBackward0",
)
split_backward = Op(
    "split_backward",
    STRUCTURED,
    ("*xs?",),
    (*integers.ALONG.names, "*parts"),
    forward=SHAPE_SPLIT_BACKWARD,
    node="CatBackward0",
)
cat = Op(
    "cat", STRUCTURED, ("*xs",), (*integers.ALONG.names, "*each"), forward=SHAPE_CAT, flags=EVERY_GRADIENT
)
stack = Op("stack", STRUCTURED, ("*xs",), integers.ALONG.names, forward=SHAPE_STACK, flags=EVERY_GRADIENT)


@unbind.vjp("x")
def _(gs, dim, sizes):
    return invoke(unbind_backward, (gs,), dim, sizes)


@unbind_backward.vjp("xs")
def _(g, dim, position):
    return invoke(select, (g,), dim, position)


@split.vjp("x")
def _(gs, dim, lengths, sizes):
    return invoke(split_backward, (gs,), dim, lengths, sizes)


narrow = Op("narrow", VIEW, ("x",), integers.NARROWED.names, forward=VIEW_NARROW, node="SliceBackward0")


split.variant("sizes", "SplitWithSizesBackward0")


@split_backward.vjp("xs")
def _(g, dim, before, own):
    return invoke(narrow, (g,), dim, before, own)


@cat.vjp("xs")
def _(g, dim, before, own):
    return invoke(narrow, (g,), dim, before, own)


@stack.vjp("xs")
def _(g, dim, position):
    return invoke(select, (g,), dim, position)


narrow_backward = Op(
    "narrow_backward", STRUCTURED, ("x",), (*integers.NARROWED.names, "*target"),
    forward=SHAPE_NARROW_BACKWARD, node="SliceBackward0",
)  # fmt: skip


@narrow.vjp("x")
def _(g, dim, start, length, sizes):
    return invoke(narrow_backward, (g,), dim, start, length, sizes)


@narrow_backward.vjp("x")
def _(g, dim, start, length):
    return invoke(narrow, (g,), dim, start, length)


# --- triangles -------------------------------------------------------------------------------------------------

tril = Op(
    "tril",
    STRUCTURED,
    ("x",),
    integers.AT_OFFSET.names,
    kernel=Kernel("tril", "memory:triangle", frame=matrices.TRIANGLE, dtypes=SUPPORTED_DTYPES, upper=False),
    forward=SHAPE_TRIANGLE,
)
triu = Op(
    "triu",
    STRUCTURED,
    ("x",),
    integers.AT_OFFSET.names,
    kernel=Kernel("triu", "memory:triangle", frame=matrices.TRIANGLE, dtypes=SUPPORTED_DTYPES, upper=True),
    forward=SHAPE_TRIANGLE,
)


@tril.vjp("x")
def _(g, offset):
    return invoke(tril, (g,), offset)


@triu.vjp("x")
def _(g, offset):
    return invoke(triu, (g,), offset)


# The first four count bytes, whatever the dtype.
ZERO_FILL = Kernel("zero_fill", "memory:zero", frame=filling.ZERO, dtypes=(BOOL,))
UPLOAD = Kernel("upload", "memory:transfer", frame=filling.TRANSFER, dtypes=(BOOL,))
DOWNLOAD = Kernel("download", "memory:transfer", frame=filling.TRANSFER, dtypes=(BOOL,))
PEER_COPY = Kernel("peer_copy", "memory:transfer", frame=filling.TRANSFER, dtypes=(BOOL,))
CONSTANT = Kernel("constant", "memory:constant", frame=filling.CONSTANT, dtypes=SUPPORTED_DTYPES)
