"""What the table of ops says of an op: kinds, views, functions, gradients, flags, what is saved and in which order.

Note [Saved places]: a node keeps what it saved in numbered places: its first `SAVED_INPUTS` inputs, then its first
`SAVED_OUTPUTS` outputs. Masks have a bit for each place: `opinfo.save` says for each input with a derivative what a
node saves if that input requires grad, `opinfo.reads` what a derivative that is one call takes behind the gradient.

Note [One order]: as in PyTorch, a node packs and unpacks what it saves, and computes its gradients, in the alphabetical
order of PyTorch's names: inputs, then outputs. `opinfo.saved_order` holds the numbers of the places in this order, four
bits each, the first in the lowest. `opinfo.order` holds the numbers of inputs in this order likewise, once for each
number of edges that a node may have: 16 bits for one edge, the next 16 for two, and so on. What has more edges
takes them as they come.
"""

from __future__ import annotations

from fastgrad.native.contracts.limits import SAVED_INPUTS, SAVED_SLOTS

ANY_NUMBER = 1 << 40
"""Of operands: an op that takes a list of tensors."""

# The operators of Python that have a slot of their own in the tensor type; `runtime.operators` holds their ops.
BINARY_OPERATORS = (
    "add",
    "subtract",
    "multiply",
    "true_divide",
    "floor_divide",
    "remainder",
    "and",
    "or",
    "xor",
)
INPLACE_OPERATORS = ("add", "subtract", "multiply", "true_divide")
UNARY_OPERATORS = ("negative", "absolute", "invert")
COMPARISONS = ("lt", "le", "eq", "ne", "gt", "ge")  # in the order of Py_LT .. Py_GE
OPERATORS = (
    *BINARY_OPERATORS,
    *("inplace_" + name for name in INPLACE_OPERATORS),
    *UNARY_OPERATORS,
    *COMPARISONS,
)

# Kinds of ops: how the result's shape follows from the inputs, and which frame the kernel gets.
ELEMENTWISE, REDUCTION, ROWWISE, VIEW, FUNCTION = 1, 2, 3, 4, 5

# Views (`opinfo.forward` of an op of kind VIEW) and the integers they take.
(
    VIEW_RESHAPE,  # sizes, one of which may be -1
    VIEW_EXPAND,  # sizes, -1 keeps one
    VIEW_PERMUTE,  # 1 for the inverse, then dims
    VIEW_TRANSPOSE,  # two dims
    VIEW_SLICE,  # dim, start, end, step
    VIEW_SELECT,  # dim, index
    VIEW_SQUEEZE,  # dim, or MAX_DIMS for all
    VIEW_UNSQUEEZE,  # dim
    VIEW_DIAGONAL,  # offset, dim1, dim2
    VIEW_AS_STRIDED,  # ndim, sizes, strides, offset in elements; more in the history of a view
    VIEW_ALIAS,
    VIEW_NARROW,  # dim, start, length
    VIEW_EXPAND_TO,  # rank, sizes
) = range(13)

# Functions (`opinfo.forward` of an op of kind FUNCTION): shape rules written by hand in `native.shapes`.
(
    FN_MATMUL, FN_CAST, FN_CLONE, FN_SUM_TO, FN_CAT, FN_STACK, FN_VIEW_BACKWARD, FN_UNBIND_BACKWARD,
    FN_SPLIT_BACKWARD, FN_GATHER, FN_SCATTER_ADD, FN_INDEX, FN_INDEX_PUT, FN_NLL, FN_NLL_BACKWARD, FN_ZEROS,
    FN_UNBIND, FN_SPLIT, FN_RESHAPE, FN_EXPAND_META, FN_INDEX_BACKWARD, FN_EACH,
    FN_EXPAND_MEAN, FN_REDUCE_LIKE, FN_TRIANGLE, FN_SELECT_ROWS, FN_PLACE_ROWS, FN_RESHAPE_TO,
    FN_NONE, FN_ZERO_STRIDED, FN_TAKE_STRIDED, FN_PLACE_STRIDED,
    FN_EXPAND_BACK, FN_EXPAND_MEAN_BACK, FN_MV, FN_DOT, FN_REDUCED,
    FN_FRAMED, FN_ADDMM, FN_NUMBER, FN_VAR, FN_STD, FN_LENGTH,
    FN_CONV, FN_CONV_INPUT, FN_CONV_WEIGHT, FN_MAX_POOL, FN_AVG_POOL, FN_ADAPTIVE_POOL, FN_POOL_SCATTER, FN_POOL_GATHER,
    FN_PAD, FN_PAD_BACKWARD, FN_ATTENTION, FN_ATTENTION_BACKWARD, FN_RESTORE,
) = range(56)  # fmt: skip

# Kinds of gradients. A program is a list of op calls; a joint gradient one call that gives those of all inputs; a
# summed one has a program for each output.
# See `native.backward.derivatives`.
NO_GRAD, IDENTITY, FUSED, PROGRAM, JOINT, SUMMED = range(6)

# Where a program's instruction takes an integer from.
SOURCE_CONST, SOURCE_ATTR, SOURCE_ATTRS, SOURCE_META, SOURCE_INPUT, SOURCE_PREFIX, SOURCE_INDEXED = range(7)

# Slots of a program's environment: gradients of the outputs, what was saved by places, results.
ENV_GRADS, ENV_SAVED, ENV_WORDS = 0, 2, 64
ENV_INPUTS, ENV_OUTPUTS, ENV_RESULTS = ENV_SAVED, ENV_SAVED + SAVED_INPUTS, ENV_SAVED + SAVED_SLOTS
ALL_GRADS = -1

# Op flags.
NOT_DIFFERENTIABLE = 2
OUT_BOOL = 4
REDUCES = 16  # a rowwise op whose dimension goes
WITH_INDICES = 32  # a second output holds indices
OUT_INT64 = 64
WITH_MASK = 512  # a second output is a mask
ACCUMULATES_INT = 128  # sums of integers are int64
FLOAT_ONLY = 256
ONE_DIFFERENTIABLE = 2048  # of several outputs only the first has a gradient
EVERY_GRADIENT = 16384  # post-hooks see the gradients of all inputs, also of those that need none
NOT_EMPTY = 1024  # has no value over no elements
NO_BOOL = 4096  # refuses bool operands, even where promotion would take them in
FILLS = 8192  # writes one value everywhere: what shares memory does no harm
MASK_LAST = 8  # the last input is a condition: bool, and no part of promotion

# Flags of an optimizer's step.
NESTEROV, MAXIMIZE, FIRST_STEP, DECOUPLED = 1, 2, 4, 8

# Rules for the dtype in which an elementwise op computes.
PROMOTE, PROMOTE_FLOAT, FIRST = 0, 1, 2
