"""What compiled functions answer, and the table of reasons why they fail: exception, message, facts.

Note [Results]: what a native function answers is a handle, an address, a number, or OK where there is nothing to give.
If it failed, it is a reason of the table below, each a negative number: ``failed(answer)`` asks. The facts that the
message needs lie in `runtime.error`; ``fail(reason, a, b)`` puts them there, in the order in which the table names
them, and returns the reason. What answers with a Python object follows Python: zero where an exception is set.

A fact is ``name`` (a number) or ``name:kind``, and stands in the text as ``{name}``. Kinds: ``dtype`` and ``type``, the
code of a dtype, as ``float32`` and ``Float``; ``tensor``, a handle, as its sizes; ``layout``, a handle, as sizes and
dtype; ``view``, a handle and then whether its base has changed, as what is wrong; ``saved``, a handle, as type, sizes
and origin; ``kernel``, a cell of the kernel table, as what to do without it; ``place``, a number, as the name of that
place in the groups of tensors of an op; ``sizes``, several.
Besides, a text may ask for what the failed call was given: ``{operands}``, ``{first}`` and ``{others}`` (sizes),
``{types}`` (of elements), ``{devices}``, ``{ints}``, ``{place0}``, ``{live_bytes}``. A call that a pass makes is given
by the pass: it leaves them in `runtime.failed_call` (``noted``).
"""

from __future__ import annotations

from typing import NamedTuple

from fastgrad.native.contracts.limits import MAX_DIMS, MAX_NESTED

OK = 0


class Fact(NamedTuple):
    """A number that a failure leaves for its message, or several of them."""

    name: str
    kind: str
    word: int


class Reason(NamedTuple):
    """Why a native function failed.

    Parameters
    ----------
    exception : type
        What Python raises.
    text : str
        The message, with the names of facts in braces.
    facts : tuple of Fact
    """

    exception: type[BaseException]
    text: str
    facts: tuple[Fact, ...]


SIZES_WORDS = 1 + MAX_DIMS
"""Words of a fact of kind ``sizes``."""
ERROR_WORDS = 2 * SIZES_WORDS + 4
"""Words of the facts of a failure."""

NOTED_OPERANDS, NOTED_INTS = 4, 2 * MAX_DIMS
OPERAND_WORDS = 1 + SIZES_WORDS
NOTED_WORDS = 2 + NOTED_OPERANDS * OPERAND_WORDS + NOTED_INTS
"""What is noted of a failed call of a derivative: the numbers of operands and integers; of each operand its dtype, -1
where there is none, and its sizes; the integers. Of longer calls only the first of them."""

REASONS: dict[int, Reason] = {}
"""The table, by the negative numbers that name the reasons."""


def _reason(exception: type[BaseException], text: str, facts: str = "") -> int:
    """Add a row to the table; returns its number."""
    found: list[Fact] = []
    word = 0
    for fact in facts.split():
        name, _, kind = fact.partition(":")
        found.append(Fact(name, kind or "number", word))
        word += SIZES_WORDS if kind == "sizes" else 1
    number = -1 - len(REASONS)
    REASONS[number] = Reason(exception, text, tuple(found))
    return number


NOT_FOUND = _reason(SystemError, "there is none of these")
"""The answer of what looks for something that need not be there."""
UNUSUAL = _reason(SystemError, "this is left to Python")
"""The answer of what leaves unusual arguments to Python."""
RAISED = _reason(SystemError, "an exception is set")
"""The answer where an exception is set."""

# --- calls ------------------------------------------------------------------------------------------------------

NO_MEMORY = _reason(MemoryError, "not enough memory for the result; {live_bytes} bytes are in use")
DEVICE_FAILED = _reason(RuntimeError, "device {device} reports {code}", "device code")
"""What is said, and raised, is the device's own affair: see `host.devices.Routines`."""
NO_KERNEL = _reason(NotImplementedError, "not implemented for {types}{advice}", "advice:kernel")
BAD_HANDLE = _reason(TypeError, "expected Tensor arguments")
BAD_CALL = _reason(TypeError, "operands and integers do not fit the op")
WIDE_INTEGER = _reason(
    ValueError,
    "Overflow when unpacking long long: one of the integers {ints} has more than 64 bits",
)
WIDE_NUMBER = _reason(OverflowError, "operand {k} is a Python int that is too large for int64", "k")
INTERNAL = _reason(RuntimeError, "invalid argument ({a}, {b}) of a compiled function", "a b")
DEVICE_MISMATCH = _reason(
    RuntimeError,
    "Expected all tensors to be on the same device, but found at least two devices, {devices}! Move them with "
    ".to(device)",
)
TOO_MANY_DIMS = _reason(RuntimeError, f"{{ndim}} dimensions; fastgrad supports at most {MAX_DIMS}", "ndim")
MISFIT = _reason(
    RuntimeError,
    "the sizes, dtypes or settings of the operands {operands} do not fit each other",
)

# --- dtypes -----------------------------------------------------------------------------------------------------

DTYPE_REFUSED = _reason(NotImplementedError, "not implemented for '{got}'", "got:type")
CONDITION_DTYPE = _reason(
    RuntimeError,
    "expected condition to be a boolean tensor, but got a tensor with dtype {got}",
    "got:type",
)
MEAN_DTYPE = _reason(
    RuntimeError,
    "could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {got}",
    "got:type",
)
MIXED_DTYPES = _reason(
    RuntimeError,
    "expected all floating-point operands to have the same dtype, but got {got} beside {expected}; convert "
    "one with .to(dtype)",
    "got:dtype expected:dtype",
)
RESULT_CAST = _reason(
    RuntimeError,
    "result type {result} can't be cast to the desired output type {output}",
    "result:type output:type",
)
NO_COMMON_DTYPE = _reason(
    RuntimeError,
    "Promotion for uint64 beside signed integers is not supported: no integer dtype holds both; convert one with "
    ".to(dtype)",
)
INDEX_DTYPE = _reason(RuntimeError, "Expected dtype int64 for index, but got {got}", "got:dtype")
SOURCE_DTYPE = _reason(
    RuntimeError,
    "Expected self.dtype to be equal to src.dtype, but src is {got}",
    "got:dtype",
)
TARGET_DTYPE = _reason(
    RuntimeError,
    "expected scalar type Long (int64) for argument 'target', but found {got}",
    "got:type",
)
PRODUCT_DTYPES = _reason(RuntimeError, "expected all operands to have the same dtype, but got {types}")

# --- sizes ------------------------------------------------------------------------------------------------------

NO_BROADCAST = _reason(
    RuntimeError,
    "the sizes of the operands {operands} do not broadcast: {a} against {b} at dimension {dim} of the "
    "result; sizes must be equal or 1",
    "a b dim",
)
OUTPUT_SIZES = _reason(
    RuntimeError,
    "output with shape {first} doesn't match the broadcast shape with {others}",
)
SEVERAL_UNKNOWN = _reason(
    RuntimeError,
    "only one dimension can be inferred as -1, and none can be negative otherwise, but the sizes are {sizes}",
    "sizes:sizes",
)
NEGATIVE_SIZE = _reason(
    RuntimeError, "invalid shape dimension {size} at position {k} of {sizes}", "sizes:sizes size k"
)
NO_PAIRS = _reason(
    RuntimeError,
    "view_as_complex(): the last dimension must hold pairs of numbers side by side, at even distances from each other "
    "and from where the memory begins; call .contiguous() first",
)
NO_ARRAY_OF_CONJUGATES = _reason(
    RuntimeError,
    "there is no array over the memory of a tensor that holds conjugates, or negatives, of what lies there; "
    "resolve_conj() and resolve_neg() make tensors that have one",
)
CONJUGATES_AS_REAL = _reason(
    RuntimeError,
    "view_as_real doesn't work on unresolved conjugated tensors: their parts do not lie in memory as they are. "
    "resolve_conj() makes a tensor that does, in memory of its own",
)
CONJUGATES_AS_DTYPE = _reason(
    RuntimeError,
    "view(): a view of another dtype is not supported for conjugate views and negative views, whose elements do not "
    "lie in memory as they are. resolve_conj() and resolve_neg() make tensors that do",
)
NEGATIVES_AS_COMPLEX = _reason(
    RuntimeError,
    "view_as_complex doesn't work on unresolved negated tensors, whose elements do not lie in memory as they are. "
    "resolve_neg() makes a tensor that does",
)
AMBIGUOUS_SIZE = _reason(
    RuntimeError,
    "cannot reshape tensor of 0 elements into shape {sizes} because the unspecified dimension size -1 can "
    "be any value and is ambiguous",
    "sizes:sizes",
)
RESHAPE_SIZES = _reason(
    RuntimeError, "shape '{sizes}' is invalid for input of size {numel}", "sizes:sizes numel"
)
EXPAND_DIMS = _reason(
    RuntimeError,
    "the number of sizes provided ({n}) must be greater or equal to the number of dimensions in the tensor "
    "({ndim}): sizes {ints} for a tensor of sizes {first}",
    "n ndim",
)
EXPAND_LEADING = _reason(
    RuntimeError,
    "the expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {k}",
    "k",
)
EXPAND_SIZE = _reason(
    RuntimeError,
    "The expanded size of the tensor ({size}) must match the existing size at non-singleton dimension {k}. "
    " Target sizes: {ints}.  Tensor sizes: {first}",
    "size k",
)
SLICE_STEP = _reason(ValueError, "slice step must be positive, but got {step}", "step")
NEGATIVE_DIM = _reason(
    RuntimeError,
    "Trying to create tensor with negative dimension {size}: {sizes}",
    "size sizes:sizes",
)
BYTES_MISFIT = _reason(
    ValueError, "{nbytes} bytes do not fill a contiguous tensor of {target}", "nbytes target:layout"
)
STORAGE_OVERFLOW = _reason(
    RuntimeError,
    "Storage size calculation overflowed with sizes={sizes}",
    "sizes:sizes",
)
NUMEL_OVERFLOW = _reason(
    RuntimeError,
    "numel: integer multiplication overflow with sizes={sizes}",
    "sizes:sizes",
)
SORT_LENGTH = _reason(RuntimeError, "a row of {length} elements is too long to be sorted", "length")
NARROW_LENGTH = _reason(
    RuntimeError,
    "start ({start}) + length ({length}) exceeds dimension size ({size})",
    "start length size",
)
NEGATIVE_STRIDED = _reason(RuntimeError, "sizes, strides and offset must not be negative")
BEYOND_STORAGE = _reason(
    RuntimeError,
    "sizes and strides reach beyond the {nbytes} bytes of the storage",
    "nbytes",
)
VIEW_STRIDES = _reason(
    RuntimeError,
    "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
    "two contiguous subspaces). Use .reshape(...) instead.",
)
CAT_DIMS = _reason(
    RuntimeError,
    "all tensors must have the same number of dimensions: tensor 0 has {expected}, tensor {k} has {got}",
    "k got expected",
)
CAT_SIZES = _reason(
    RuntimeError,
    "Sizes of tensors must match except in dimension {dim}. Expected size {expected} but got size {got} "
    "for tensor number {k} in the list.",
    "k got expected dim",
)
STACK_SIZES = _reason(
    RuntimeError,
    "expected each tensor to be equal size, but got {first} at entry 0 and {got} at entry {k}",
    "k got:tensor",
)
INDEX_DIMS = _reason(
    RuntimeError,
    "the index tensor must have the same number of dimensions as the other tensors; got {operands}",
)
INDEX_SIZES = _reason(
    RuntimeError,
    "the index tensor must have sizes no larger than those of the other tensors; got {operands}",
)
REPLAY_RANGE = _reason(
    IndexError,
    "replay(): index {index} is out of bounds for size {size}; the launches behind that one did not run",
    "index size",
)
REPLAY_PROBABILITY = _reason(
    RuntimeError,
    "replay(): expected all elements to lie in [0, 1]; the launches behind that one did not run",
)
TAPE_EDITION = _reason(
    ValueError,
    "this is no edition of the tape: it has to name launches of the tape by their numbers, only dropouts as masks, and "
    "fused launches by their code, work and frame (word {word} does not fit)",
    "word",
)
OTHER_VALUE = _reason(
    RuntimeError, "replay(): a value that Python read during the capture is another one by now; record again"
)
TAPE_BUSY = _reason(RuntimeError, "a tape cannot be edited while it records or is replayed")
CAPTURE_COPY = _reason(
    RuntimeError,
    "operation not permitted when a stream is capturing: it copies between the host and a GPU, which has computed "
    "nothing yet; copy into tensors that the graph reads before replay(), and read results after it",
)
NATIVE_HOOK_RAISED = _reason(RuntimeError, "the native hook {code} raised {info}", "info:raised code:hook")
USER_RAISED = _reason(RuntimeError, "the function of a user's op raised {info}", "info:raised")
STRAY_ADDRESS = _reason(
    RuntimeError,
    "word {word} of the frame of kernel {kernel} is no address in the memory of a tensor, or reaches out of it",
    "kernel word",
)
OPERAND_LENGTH = _reason(
    RuntimeError,
    "input {k} has another number of elements than the sizes of the call say",
    "k",
)
NOT_ONE_ELEMENT = _reason(
    RuntimeError,
    "a Tensor with {numel} elements cannot be converted to Scalar",
    "numel",
)
OPERAND_DTYPE = _reason(
    RuntimeError,
    "input {k} is {got}, but the call reads {expected}",
    "k got:dtype expected:dtype",
)
UNLIKE_FIRST = _reason(
    RuntimeError,
    "expected {place} to have {first_of_group}, as {place0} has, but it has {got}",
    "place:place got:layout first_of_group:layout",
)
NOT_A_NUMBER = _reason(
    RuntimeError,
    "expected {place} to have one element of a floating dtype, the same for all such numbers, but it has {got}",
    "place:place got:layout",
)
MATRIX_NEEDED = _reason(
    RuntimeError,
    "input tensor must have at least 2 dimensions, but it has {ndim}",
    "ndim",
)
PRODUCT_DIMS = _reason(
    RuntimeError,
    "expected two 2D tensors or two 3D tensors, but got tensors of sizes {operands}",
)
VECTOR_DIMS = _reason(
    RuntimeError,
    "expected a {ndim}D tensor and a 1D tensor, but got tensors of sizes {operands}",
    "ndim",
)
PRODUCT_SIZES = _reason(
    RuntimeError,
    "mat1 and mat2 shapes cannot be multiplied ({m}x{k} and {l}x{n}): the sizes are {operands}",
    "m k l n",
)
BATCH_SIZES = _reason(
    RuntimeError,
    "batch1 and batch2 must have the same batch size and matching inner sizes, but got {operands}",
)
VECTOR_SIZE = _reason(
    RuntimeError,
    "size mismatch, got {a} and {b} elements to multiply: the sizes are {operands}",
    "a b",
)
ADDED_SIZES = _reason(
    RuntimeError,
    "The expanded size of the tensor ({n}) must match the existing size: what is added has sizes {first}, "
    "the product has [{m}, {n}]",
    "m n",
)
TARGET_SIZES = _reason(
    ValueError,
    "expected input batch_size ({inputs}) to match target batch_size ({targets}), input of shape (N, C)",
    "inputs targets",
)
EMPTY_TENSOR = _reason(
    RuntimeError,
    "Expected reduction dim to be specified for input.numel() == 0: the tensor has sizes {first} and so no "
    "elements to choose from. Specify the reduction dim with the 'dim' argument.",
)
EMPTY_DIM = _reason(
    IndexError,
    "Expected reduction dim to have non-zero size: the tensor has sizes {first} and so no elements to "
    "choose from",
)

# --- dimensions and indices -------------------------------------------------------------------------------------

DIM_RANGE = _reason(
    IndexError,
    "dimension out of range (expected to be in range of [{low}, {high}], but got {dim})",
    "dim low high",
)
NO_DIMS = _reason(IndexError, "cannot be applied to a 0-dim tensor")
NARROW_SCALAR = _reason(RuntimeError, "cannot be applied to a 0-dim tensor")
PERMUTE_DIMS = _reason(
    RuntimeError,
    "number of dimensions in the tensor input does not match the length of the desired ordering of "
    "dimensions i.e. input.dim() = {ndim} is not equal to len(dims) = {n}",
    "ndim n",
)
DUPLICATE_DIM = _reason(RuntimeError, "dim {dim} appears more than once in the list of dims", "dim")
INDEX_RANGE = _reason(
    IndexError,
    "index {index} is out of bounds for dimension {dim} with size {size}",
    "index size dim",
)
ELEMENT_RANGE = _reason(
    RuntimeError,
    "index {index} is out of bounds for dimension {dim} with size {size}",
    "index size dim",
)
INDICES_RANGE = _reason(
    IndexError,
    "index {index} is out of bounds for one of the dimensions {dim} to {last} with size {size}",
    "index size dim last",
)
START_RANGE = _reason(
    IndexError,
    "start {start} is out of range for dimension {dim} with size {size}",
    "start size dim",
)
PLACE_RANGE = _reason(
    RuntimeError,
    "index {index} is out of bounds for planes of {size} elements",
    "index size",
)
ROW_RANGE = _reason(
    IndexError,
    "index out of range in self: index {index}, but the table has {size} rows",
    "index size",
)
NO_PROBABILITY = _reason(RuntimeError, "expected all probabilities to lie in [0, 1]")
TARGET_RANGE = _reason(
    IndexError,
    "target {target} is out of bounds: there are {size} classes, and a target is at least 0 and less than "
    "that, or ignore_index",
    "target size",
)

# --- graph ------------------------------------------------------------------------------------------------------

LEAF_INPLACE = _reason(
    RuntimeError,
    "a leaf Variable that requires grad is being used in an in-place operation. Change it under "
    "fastgrad.no_grad(), or use the form that returns a new tensor.",
)
LEAF_VIEW_INPLACE = _reason(
    RuntimeError,
    "a view of a leaf Variable that requires grad is being used in an in-place operation. Change it under "
    "fastgrad.no_grad(), or use the form that returns a new tensor.",
)
MULTI_VIEW_INPLACE = _reason(
    RuntimeError,
    "{view} This view is the output of a function that returns multiple views. Such functions do not allow "
    "the output views to be modified inplace. You should replace the inplace operation by an out-of-place "
    "one.",
    "view:view done",
)
FUNCTION_VIEW_INPLACE = _reason(
    RuntimeError,
    "{view} This view was created inside a custom Function (or because an input was returned as-is) and the "
    "autograd logic to handle view+inplace would override the custom backward associated with the custom "
    "Function, leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the "
    "output of the custom Function.",
    "view:view done",
)
NO_GRAD_VIEW_INPLACE = _reason(
    RuntimeError,
    "{view} Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your "
    "code by moving both the view and the inplace either both inside the no_grad block (if you don't want "
    "the inplace to be tracked) or both outside (if you want the inplace to be tracked).",
    "view:view done",
)
INFERENCE_VIEW_INPLACE = _reason(
    RuntimeError,
    "{view} Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your "
    "code by moving both the view and the inplace either both inside the inference_mode block (if you "
    "don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked).",
    "view:view done",
)
INFERENCE_INPLACE = _reason(
    RuntimeError,
    "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get "
    "a normal tensor before doing inplace update.",
)
INFERENCE_SAVED = _reason(
    RuntimeError,
    "Inference tensors cannot be saved for backward. To work around you can make a clone to get a normal "
    "tensor and use it in autograd.",
)
OVERLAP = _reason(
    RuntimeError,
    "unsupported operation: more than one element of the written-to tensor refers to a single memory "
    "location. Please clone() the tensor before performing the operation.",
)
PARTIAL_OVERLAP = _reason(
    RuntimeError,
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
    "memory location. Please clone() the tensor before performing the operation.",
)
NOT_RECORDABLE = _reason(
    RuntimeError,
    "this form of the operation cannot be recorded; use it under fastgrad.no_grad()",
)
SAVED_TWICE = _reason(
    RuntimeError, "the tensors of a custom function are saved once, when its forward has returned"
)
FINISHED_TWICE = _reason(
    RuntimeError, "a call of a custom function gets its outputs once, when its forward has returned"
)
SAVED_MODIFIED = _reason(
    RuntimeError,
    "one of the variables needed for gradient computation has been modified by an inplace operation: "
    "{saved} is at version {version}; expected version {expected} instead. Hint: enable anomaly detection "
    "to find the operation that failed to compute its gradient, with "
    "fastgrad.autograd.set_detect_anomaly(True).",
    "saved:saved version expected",
)
SAVED_DETACHED = _reason(
    RuntimeError,
    "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(). This is not "
    "supported, please use out-of-place `.detach()` instead",
)
FREED_GRAPH = _reason(
    RuntimeError,
    "Trying to backward through the graph a second time (or directly access saved tensors after they have "
    "already been freed). Saved intermediate values of the graph are freed when you call .backward() or "
    "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or "
    "if you need to access saved tensors after calling backward.",
)
BAD_GRADIENT = _reason(
    RuntimeError,
    "Function {op} returned an invalid gradient at index {input} - got {got} but expected shape compatible "
    "with {expected}",
    "input got:sizes expected:sizes",
)
NESTED_TOO_DEEP = _reason(RecursionError, f"more than {MAX_NESTED} passes within each other on one thread")
NO_RULE = _reason(
    NotImplementedError,
    "the derivative with regard to input {input} is not implemented",
    "input",
)

# --- the table for compiled code --------------------------------------------------------------------------------

_TENSORS = ("tensor", "layout", "view", "saved")  # kinds of facts that are handles


def _words(reason: Reason) -> int:
    ends = [fact.word + (SIZES_WORDS if fact.kind == "sizes" else 1) for fact in reason.facts]
    if max(ends, default=0) > ERROR_WORDS:
        raise ValueError(f"the facts of {reason.text!r} have {max(ends)} words: more than {ERROR_WORDS}")
    return max(ends, default=0)


FACT_WORDS = tuple(_words(REASONS[-1 - k]) for k in range(len(REASONS)))
FACT_TENSORS = tuple(
    sum(1 << fact.word for fact in REASONS[-1 - k].facts if fact.kind in _TENSORS)
    for k in range(len(REASONS))
)
"""For reason ``-1 - k`` how many words of facts it has, and by bits which of them are handles of tensors."""
