"""The layout of native memory: every record, flag, code and limit, declared once.

Plain Python without Numba, so that a warm start can read it cheaply. Compiled code sees a record as
``tensor(handle).ndim`` (see `intrinsics`), Python as ``peek(TENSOR, handle, "ndim")`` (see `loader`).
Each field is one or more 8-byte words; a handle is the address of a record.
"""

from __future__ import annotations

MAX_DIMS = 8
"""Largest number of dimensions of a tensor."""

MAX_INPUTS = 4
"""Largest number of tensor inputs of an op with elementwise kernels (other ops take any number)."""

DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
"""Codes of the element types, in order of promotion; the tables have room for all of them."""

BOOL, UINT8, INT8, INT16, INT32, INT64, FLOAT16, BFLOAT16, FLOAT32, FLOAT64, COMPLEX64, COMPLEX128 = range(12)
ITEMSIZES = (1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16)
SUPPORTED_DTYPES = (BOOL, UINT8, INT32, INT64, FLOAT32, FLOAT64)

N_DTYPES = 16  # width of the kernel table, a power of two
N_DEVICES = 4
N_LAYOUTS = 4
MAX_KERNELS = 512
MAX_OPS = 512

# Layout classes of a kernel.
FLAT, STRIDED, INPLACE = 0, 1, 2

# Words of an elementwise kernel's frame. FLAT and INPLACE: n, then one address per operand, output first.
# STRIDED: number of dimensions, sizes from the innermost, then per operand an address and its strides.
OPERAND_WORDS = 1 + MAX_DIMS
STRIDED_WORDS = 1 + MAX_DIMS + (MAX_INPUTS + 1) * OPERAND_WORDS
FRAME_WORDS = 64
WALK_STACK = 512  # words of the stack of a walk along the graph

# Words of the frame of an op that is one kernel over contiguous operands (`native.functions.framed`): the
# addresses of outputs and of inputs (0 where there is none), the inputs' numbers of elements, the address of a
# status, integers.
MAX_FRAME_INPUTS = 6
FRAME_OUTPUTS = 0
FRAME_INPUTS = 2
FRAME_NUMELS = FRAME_INPUTS + MAX_FRAME_INPUTS
FRAME_STATUS = FRAME_NUMELS + MAX_FRAME_INPUTS
FRAME_INTS = FRAME_STATUS + 1

ALL_DIMS = 1 << 62
"""In place of a dimension of an op over rows: the tensor is one row."""

ATTR_WORDS = 18
"""Integers that an op call may carry (sizes, dimensions, bit patterns of floats)."""

META_WORDS = 3 + MAX_DIMS  # dtype, device, ndim, shape: what a node knows of one of its outputs
SAVED_SLOTS = 6  # inputs 0..3, outputs 0..1
IS_PACKED = -1  # in place of the version of a saved tensor: a saved-tensor hook holds it
INLINE_EDGES = 3


class Record:
    """A fixed layout of words with names.

    Parameters
    ----------
    name : str
        Name of the record; compiled code casts a handle with a function of the same name.
    **fields : int
        Number of words of each field, in order.
    """

    def __init__(self, name: str, **fields: int) -> None:
        self.name = name
        self.fields: dict[str, tuple[int, int]] = {}
        words = 0
        for field, length in fields.items():
            self.fields[field] = (words, length)
            words += length
        self.words = (words + 7) // 8 * 8

    def offset(self, field: str) -> int:
        """Offset of `field` in bytes."""
        return self.fields[field][0] * 8


# Every reference-counted record starts alike: compiled code frees them by one loop.
_HEADER = {"magic": 1, "generation": 1, "refs": 1, "link": 1, "mark": 1}

STORAGE = Record("storage", **_HEADER, data=1, nbytes=1, bin=1, version=1, device=1, owner=1, dtype=1)

TENSOR = Record(
    "tensor", **_HEADER,
    storage=1, data=1, dtype=1, device=1, ndim=1, numel=1, flags=1,
    node=1, output_nr=1, grad=1, accumulator=1, base=1, pyobj=1, retain_next=1, history=1,
    n_joint=1, views=1, view_next=1, view_prev=1,
    shape=MAX_DIMS, strides=MAX_DIMS,
)  # fmt: skip

NODE = Record(
    "node", **_HEADER,
    op=1, seq=1, flags=1, n_in=1, n_out=1, owner=1, slot=1, pyobj=1, variable=1, retains=1,
    edges=1, metas=1, attrs=1, n_saved=1, n_attrs=1, saved=1, n_places=1,
    inline_saved=2 * SAVED_SLOTS, inline_edges=2 * INLINE_EDGES, inline_meta=META_WORDS, inline_attrs=ATTR_WORDS,
)  # fmt: skip

TASK = Record(
    "task", **_HEADER,
    id=1, flags=1, state=1, previous=1, thread=1, status=1,
    slots=1, n_slots=1, cap_slots=1, heap=1, n_heap=1, cap_heap=1,
    table=1, n_table=1, cap_table=1, captures=1, n_captures=1, cap_captures=1,
    node=1, slot=1, grads=1, n_grads=1, results=1, n_results=1, cap_results=1,
    had_posts=1, n_roots=1, hook_changes=1,
)  # fmt: skip

SLOT_WORDS = 8
SLOT = Record("slot", node=1, deps=1, needed=1, capture=1, grads=1, inline=2, pad=1)

CAPTURE_WORDS = 4
CAPTURE = Record("capture", node=1, output_nr=1, result=1, next=1)

OPINFO = Record(
    "opinfo",
    kind=1, n_in=1, n_out=1, flags=1, kernel=1, dtype_rule=1, forward=1, id=1,
    grad_kind=4, grad=4, save=4, numbered=1, reflected=1, prepared=1, n_ints=1,
)  # fmt: skip

TAPE = Record(
    "tape", **_HEADER, words=1, n_words=1, cap_words=1, n_launches=1, kept=1, n_kept=1, cap_kept=1,
)  # fmt: skip

# The frame of the kernels of attention. An operand's words are its address and the distances, in elements, between
# batches, heads and rows; the address of an absent mask is zero. Queries share keys and values in groups of heads.
ATTENTION = Record(
    "attention", lse=1, scratch=1, batch=1, heads=1, group=1, queries=1, keys=1, width=1, causal=1, scale=1,
    q=4, k=4, v=4, mask=4, out=4, grad_out=4, grad_q=4, grad_k=4, grad_v=4,
)  # fmt: skip
ATTENTION_QUERIES, ATTENTION_KEYS = 64, 128
"""Scores that these kernels compute at a time."""

N_BINS = 256

RUNTIME = Record(
    "runtime",
    free=8, live=8, quarantine=8, quarantine_tail=8, quarantine_n=8,
    live_bytes=1, peak_bytes=1, cached_bytes=1, limit_bytes=1,
    seq=1, task_id=1, current_task=1, thread=1, mode=1, modes=1, n_modes=1, cap_modes=1,
    status=1, error=24, dead=1, draining=1,
    resolve=1, wrap_error=1, operator_fallback=1, finalizer=1,
    tensor_type=1, tensor_base=1, tuple_type=1, node_type=1, node_base=1, handle_type=1, dict_type=1,
    hooks_name=1, post_accumulate_name=1, backward_name=1,
    walk=1, collection=1, promoting=1, shared=1, n_shared=1, cap_shared=1, hook_changes=1, restore_saved_hooks=1,
    check_replacement=1, check_tuple=1, check_post_accumulate=1, check_gradients=1, check_nan=1,
    finish_function=1, save_others=1, pack_saved=1, unpack_saved=1, node_created=1, before_mutation=1,
    note_hook=1, hook_id=1, node_objects=1, measuring=1, function_op=1, boundary_op=1,
    operators=32, tape=1, launches=1, default_dtype=1, copy_kernel=1, add_op=1, sum_op=1, mean_op=1, div_op=1,
    clone_op=1, cast_op=1, sqrt_op=1, sum_to_op=1, as_strided_op=1, copy_slices_op=1,
    gather_op=1, scatter_op=1, gemm_kernel=1, zero_kernel=1, accumulate_op=1,
    bins=N_BINS,
    ops=MAX_OPS * 24,
    kernels=MAX_KERNELS * N_DEVICES * N_DTYPES * N_LAYOUTS,
)  # fmt: skip
assert OPINFO.words == 24
assert SLOT.words == SLOT_WORDS

RECORDS = (STORAGE, TENSOR, NODE, TASK, SLOT, CAPTURE, OPINFO, TAPE, ATTENTION, RUNTIME)

# Kinds of records: the index of their free list; the magic word of a live record is MAGIC + kind.
STORAGE_KIND, TENSOR_KIND, NODE_KIND, TASK_KIND, TAPE_KIND = range(5)
KIND_NAMES = ("storages", "tensors", "nodes", "tasks", "tapes")
MAGIC = 0x6661_7374_0000
FREED = 0xDEAD_BEEF
GUARD = 0x6775_6172_6442_7974
POISON = 0xCBCB_CBCB_CBCB_CBCB - (1 << 64)
QUARANTINE = 1024  # freed records wait this long before reuse in debug mode

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

# Tensor flags.
REQUIRES_GRAD = 1
WRAPPED_NUMBER = 2  # made from a Python scalar: takes part in promotion by category only
RETAINS_GRAD = 4
HAS_PYTHON = 8  # a leaf whose object has hooks: Python is told before the object goes
IS_VIEW = 16
INFERENCE = 32
MULTI_VIEW = 64  # one of several views made by one op: never changed in place under autograd
NO_GRAD_VIEW = 128  # a view made while gradients were off
CONTIGUOUS = 256
LEAF_HOOKS = 512  # a leaf with tensor hooks
LEAF_POST_HOOKS = 1024  # a leaf with post-accumulate hooks
FUNCTION_VIEW = 2048  # a view that a custom function returned: it has a history of its own
COPY_ON_WRITE = 8192  # a gradient that a hook sees and that others hold: a change in place makes a copy first
UNTRACKED = 16384  # made by `.data`: its changes are not counted
OUTPUT_ALIAS = 4096  # stands for an output that its own node saved

# Node flags: each says that Python is due at some point of the sweep.
TENSOR_HOOKS = 1
PRE_HOOKS = 2
POST_HOOKS = 4
POST_ACCUMULATE = 8
PYTHON_APPLY = 16  # the node of a custom function
SAVED_FREED = 32
QUEUED = 64  # the node waits on the list of the dead
IN_VIEW = 256  # the node of a change of a view: as in PyTorch it does not run for an undefined gradient
PASS_THROUGH = 512  # a boundary: gradients go through it as they are
PACKED = 128  # saved-tensor hooks hold some of what it saved

# What the node of a custom function notes of each argument of the call.
NO_TENSOR, A_TENSOR, NEEDS_GRAD = 0, 1, 3

# Task flags.
KEEP_GRAPH = 1
CREATE_GRAPH = 2
FILTERED = 4  # only what leads to the requested captures runs
ACCUMULATE = 8  # backward(): gradients of leaves are accumulated
CHECK_NAN = 16  # no node may give NaN

# Modes of a thread.
GRAD_ENABLED = 1
INFERENCE_MODE = 2
SAVED_HOOKS = 4  # saved-tensor hooks are in force
NODE_HOOKS = 8  # somebody wants to know of new nodes
MUTATION_HOOKS = 16  # somebody wants to know before tensors change in place

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

# Functions (`opinfo.forward` of an op of kind FUNCTION): shape rules written by hand in `native.functions`.
(
    FN_MATMUL, FN_CAST, FN_CLONE, FN_SUM_TO, FN_CAT, FN_STACK, FN_VIEW_BACKWARD, FN_UNBIND_BACKWARD,
    FN_SPLIT_BACKWARD, FN_GATHER, FN_SCATTER_ADD, FN_INDEX, FN_INDEX_PUT, FN_NLL, FN_NLL_BACKWARD, FN_ZEROS,
    FN_UNBIND, FN_SPLIT, FN_RESHAPE, FN_EXPAND_META, FN_INDEX_BACKWARD, FN_EACH,
    FN_EXPAND_MEAN, FN_REDUCE_LIKE, FN_TRIANGLE, FN_SELECT_ROWS, FN_PLACE_ROWS, FN_RESHAPE_TO,
    FN_NONE, FN_ZERO_STRIDED, FN_TAKE_STRIDED, FN_PLACE_STRIDED,
    FN_EXPAND_BACK, FN_EXPAND_MEAN_BACK, FN_MV, FN_DOT, FN_REDUCED,
    FN_FRAMED, FN_ADDMM, FN_NUMBER, FN_VAR, FN_STD, FN_LENGTH,
    FN_CONV, FN_CONV_INPUT, FN_CONV_WEIGHT, FN_MAX_POOL, FN_AVG_POOL, FN_ADAPTIVE_POOL, FN_POOL_SCATTER, FN_POOL_GATHER,
    FN_PAD, FN_PAD_BACKWARD, FN_ATTENTION, FN_ATTENTION_BACKWARD,
) = range(55)  # fmt: skip

# Kinds of gradients. A program is a list of op calls; a joint gradient one call that gives those of all inputs.
# See `native.programs`.
NO_GRAD, IDENTITY, FUSED, PROGRAM, JOINT = 0, 1, 2, 3, 4

# Where a program's instruction takes an integer from.
SOURCE_CONST, SOURCE_ATTR, SOURCE_ATTRS, SOURCE_META, SOURCE_INPUT, SOURCE_PREFIX, SOURCE_INDEXED = range(7)

# Slots of a program's environment: gradients of the outputs, saved inputs, saved outputs, results.
ENV_GRADS, ENV_INPUTS, ENV_OUTPUTS, ENV_RESULTS, ENV_WORDS = 0, 2, 6, 8, 64
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
NOT_EMPTY = 1024  # has no value over no elements
NO_BOOL = 4096  # refuses bool operands, even where promotion would take them in
MASK_LAST = 8  # the last input is a condition: bool, and no part of promotion

# Flags of an optimizer's step.
NESTEROV, MAXIMIZE, FIRST_STEP, DECOUPLED = 1, 2, 4, 8

# Rules for the dtype in which an elementwise op computes.
PROMOTE, PROMOTE_FLOAT, FIRST = 0, 1, 2

# What a sweep hands back to Python, unless an exception is set.
DONE, AT_APPLY, FAILED = range(3)
RAISED = -1  # the answer of what calls Python: an exception is set

# Status codes (negative results of entries). Python turns each into an exception: see `errors`.
(
    OK, NO_MEMORY, NO_KERNEL, BAD_BROADCAST, BAD_DIM, BAD_INDEX, BAD_SIZE, BAD_DTYPE, BAD_MATMUL, TOO_MANY_DIMS,
    LEAF_INPLACE, SAVED_MODIFIED, FREED_GRAPH, BAD_HANDLE, BAD_VIEW, BAD_RESULT_CAST, BAD_OUTPUT_SHAPE,
    DEVICE_MISMATCH, NOT_RECORDABLE, EMPTY_REDUCTION, BAD_GRADIENT, OVERLAP, BAD_ARGUMENT, INFERENCE_SAVED,
    BAD_TARGET, DUPLICATE_DIM, NO_RULE, MULTI_VIEW_INPLACE, NO_GRAD_VIEW_INPLACE, INFERENCE_INPLACE,
    PYTHON_RAISED, BAD_WINDOW,
) = range(32)  # fmt: skip
