"""What compiled functions answer: status codes, and what a sweep hands back."""

from __future__ import annotations

# What a sweep hands back to Python, unless an exception is set.
DONE, AT_APPLY, FAILED = range(3)
RAISED = -1  # the answer of what calls Python: an exception is set

# Status codes (negative results of entries). Python turns each into an exception: see `errors`.
(
    OK, NO_MEMORY, NO_KERNEL, BAD_BROADCAST, BAD_DIM, BAD_INDEX, BAD_SIZE, BAD_DTYPE, BAD_MATMUL, TOO_MANY_DIMS,
    LEAF_INPLACE, SAVED_MODIFIED, FREED_GRAPH, BAD_HANDLE, BAD_VIEW, BAD_RESULT_CAST, BAD_OUTPUT_SHAPE,
    DEVICE_MISMATCH, NOT_RECORDABLE, EMPTY_REDUCTION, BAD_GRADIENT, OVERLAP, BAD_ARGUMENT, INFERENCE_SAVED,
    BAD_TARGET, DUPLICATE_DIM, NO_RULE, MULTI_VIEW_INPLACE, NO_GRAD_VIEW_INPLACE, INFERENCE_INPLACE,
    PYTHON_RAISED, BAD_WINDOW, BAD_CALL,
) = range(33)  # fmt: skip
