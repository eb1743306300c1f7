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

from fastgrad.native.contracts.limits import SAVED_SLOTS

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
ELEMENTWISE, REDUCTION, ROWWISE, VIEW, STRUCTURED = 1, 2, 3, 4, 5

# Views (`opinfo.forward` of an op of kind VIEW); `contracts.integers` declares the integers they take.
(
    VIEW_RESHAPE,  # sizes, one of which may be -1
    VIEW_EXPAND,  # sizes, -1 keeps one
    VIEW_PERMUTE,  # then dims
    VIEW_TRANSPOSE,
    VIEW_SLICE,
    VIEW_SELECT,
    VIEW_SQUEEZE,  # MAX_DIMS stands for all
    VIEW_UNSQUEEZE,
    VIEW_DIAGONAL,
    VIEW_AS_STRIDED,  # ndim, sizes, strides, elements from the operand's first one; more in the history of a view
    VIEW_ALIAS,
    VIEW_NARROW,
    VIEW_EXPAND_TO,  # rank, sizes
    VIEW_AS_REAL,
    VIEW_AS_COMPLEX,
    VIEW_UNFOLD,
    VIEW_AS_DTYPE,
    VIEW_CONJUGATE,
) = range(18)

# Shape rules written by hand in `native.shapes` (`opinfo.forward` of an op of kind STRUCTURED).
(
    SHAPE_MATMUL, SHAPE_CAST, SHAPE_CLONE, SHAPE_SUM_TO, SHAPE_CAT, SHAPE_STACK, SHAPE_SLICE_BACKWARD,
    SHAPE_SELECT_BACKWARD, SHAPE_DIAGONAL_BACKWARD, SHAPE_NARROW_BACKWARD, SHAPE_UNBIND_BACKWARD,
    SHAPE_SPLIT_BACKWARD, SHAPE_GATHER, SHAPE_SCATTER_ADD, SHAPE_INDEX, SHAPE_INDEX_PUT, SHAPE_NLL,
    SHAPE_NLL_BACKWARD, SHAPE_ZEROS, SHAPE_UNBIND, SHAPE_SPLIT, SHAPE_RESHAPE, SHAPE_EXPAND_META,
    SHAPE_INDEX_BACKWARD, SHAPE_EACH, SHAPE_EXPAND_MEAN, SHAPE_REDUCE_LIKE, SHAPE_TRIANGLE, SHAPE_SELECT_ROWS,
    SHAPE_PLACE_ROWS, SHAPE_RESHAPE_TO, SHAPE_NONE, SHAPE_ZERO_STRIDED, SHAPE_TAKE_STRIDED, SHAPE_PLACE_STRIDED,
    SHAPE_EXPAND_BACK, SHAPE_EXPAND_MEAN_BACK, SHAPE_MV, SHAPE_DOT, SHAPE_REDUCED, SHAPE_FRAMED, SHAPE_ADDMM,
    SHAPE_NUMBER, SHAPE_VAR, SHAPE_STD, SHAPE_LENGTH, SHAPE_CONV, SHAPE_CONV_INPUT, SHAPE_CONV_WEIGHT,
    SHAPE_MAX_POOL, SHAPE_AVG_POOL, SHAPE_ADAPTIVE_POOL, SHAPE_POOL_SCATTER, SHAPE_POOL_GATHER, SHAPE_PAD,
    SHAPE_PAD_BACKWARD, SHAPE_ATTENTION, SHAPE_ATTENTION_BACKWARD, SHAPE_RESTORE, SHAPE_GIVEN, SHAPE_EXTREMES,
    SHAPE_SORT, SHAPE_NORM, SHAPE_NORM_GRADIENTS, SHAPE_PANELS,
    SHAPE_FLIP, SHAPE_NONZERO, SHAPE_FILLED, SHAPE_SEQUENCE, SHAPE_RANDOM,
    SHAPE_PROBABILITIES, SHAPE_INDEX_ONTO, SHAPE_SCATTER_INTO, SHAPE_UNFOLD_BACKWARD,
) = range(74)  # fmt: skip

# Kinds of gradients. A program is a list of op calls; a joint gradient one call that gives those of all inputs; a
# summed one has a program for each output.
# See `native.backward.derivatives`.
NO_GRAD, IDENTITY, FUSED, PROGRAM, JOINT, SUMMED = range(6)

# Where a program's instruction takes an integer from.
SOURCE_CONST, SOURCE_ATTR, SOURCE_ATTRS, SOURCE_META, SOURCE_INPUT, SOURCE_PREFIX, SOURCE_INDEXED = range(7)

# Slots of a program's environment: gradients of the outputs, what was saved by places, nothing, results.
ENV_GRADS, ENV_SAVED, ENV_ABSENT, ENV_RESULTS, ENV_WORDS = 0, 2, 2 + SAVED_SLOTS, 3 + SAVED_SLOTS, 64
ALL_GRADS = -1

# Op flags.
NOT_DIFFERENTIABLE = 2
OUT_BOOL = 4
REDUCES = 16  # a rowwise op whose dimension goes
WITH_INDICES = 32  # a second output holds indices
ACCUMULATES_INT = 128  # sums of integers are int64
FLOAT_ONLY = 256
ONE_DIFFERENTIABLE = 2048  # of several outputs only the first has a gradient
EVERY_GRADIENT = 16384  # post-hooks see the gradients of all inputs, also of those that need none
NOT_EMPTY = 1024  # has no value over no elements
NO_BOOL = 4096  # refuses bool operands, even where promotion would take them in
FILLS = 8192  # writes one value everywhere: what shares memory does no harm
ROWS_OF_CHANNELS = 32768  # a normalisation whose kernel takes images with channels last as they lie
AS_OPERANDS = 65536  # results lie in memory as those of elementwise ops do
BY_COLUMNS = 131072  # a product of matrices; ops for factors that lie by columns stand behind it in the table
GRADIENT_LAST = 262144  # a result lies in memory as the operands behind the first do, before that is asked
IN_ROWS = 524288  # a result lies row by row
DRAWS = 1048576  # the first two integers of the kernel are a seed and an offset, and are drawn when it runs
IN_FLOAT32 = 1 << 21  # beside halves: operands are converted to float32, and results back (Note [Halves])
KEEPS_FLOAT32 = 1 << 22  # of the results that come from halves only the first is one, others are statistics
TAKES_FLOAT32 = 1 << 23  # float32 operands may stand beside halves
HALVES_ON_GPUS = 1 << 24  # but on GPUs operands stay halves, if all but statistics are
FLOAT32_IN_AUTOCAST = 1 << 25  # on GPUs, where programs call it, over halves: `ops.autocasting`
HOLOMORPHIC = (
    1 << 26
)  # over complex numbers rules get the conjugate of the gradient, and give that of the result
OUT_REAL = 1 << 27  # results of complex operands are real: Note [Complex gradients] in `ops.complex_numbers`
OUT_COMPLEX = 1 << 28  # results of real operands are complex
TAKES_CONJUGATES = 1 << 30  # operands may hold conjugates: Note [Conjugates] in `launch.elementwise`
CUBIC = 1 << 29  # a kernel over matrices, whose work is their elements times the length of a row
ZEROED = 1 << 30  # what a kernel described by integers adds to: its outputs are zeros when it begins
MASK_LAST = 8  # the last input is a condition: bool, and no part of promotion

# Flags of an optimizer's step.
NESTEROV, MAXIMIZE, FIRST_STEP, DECOUPLED = 1, 2, 4, 8

# Rules for the dtype in which an elementwise op computes.
PROMOTE, PROMOTE_FLOAT, FIRST = 0, 1, 2
