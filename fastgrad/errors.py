"""Status codes become exceptions: of PyTorch's class, naming op, argument, what was expected and what came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from fastgrad import dtypes
from fastgrad.native.build.loader import NodeBase, TensorBase, rt, runtime_get, runtime_set_object
from fastgrad.native.contracts.flags import IS_VIEW, MULTI_VIEW
from fastgrad.native.contracts.limits import MAX_DIMS
from fastgrad.native.contracts.record import Record
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.contracts.status import (
    BAD_ARGUMENT,
    BAD_BROADCAST,
    BAD_CALL,
    BAD_DIM,
    BAD_DTYPE,
    BAD_GRADIENT,
    BAD_HANDLE,
    BAD_INDEX,
    BAD_MATMUL,
    BAD_OUTPUT_SHAPE,
    BAD_RESULT_CAST,
    BAD_SIZE,
    BAD_TARGET,
    BAD_VIEW,
    BAD_WINDOW,
    DEVICE_MISMATCH,
    DUPLICATE_DIM,
    EMPTY_REDUCTION,
    FREED_GRAPH,
    INFERENCE_INPLACE,
    INFERENCE_SAVED,
    LEAF_INPLACE,
    MULTI_VIEW_INPLACE,
    NO_GRAD_VIEW_INPLACE,
    NO_KERNEL,
    NO_MEMORY,
    NO_RULE,
    NOT_RECORDABLE,
    OVERLAP,
    SAVED_MODIFIED,
    TOO_MANY_DIMS,
)
from fastgrad.native.host import devices

FREED_MESSAGE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
    "saved tensors after calling backward."
)


NO_NAME = "the runtime"  # of an entry that stands for no op


def fact(index: int) -> int:
    """A number that the runtime left for the message."""
    return runtime_get("error", index)


def shape_text(t: Any) -> str:
    """The sizes of a tensor as messages show them."""
    return str(list(rt.sizes(t)))


def raise_status(status: int, name: str, operands: Sequence[Any] = (), attrs: Sequence[int] = ()) -> NoReturn:
    """Raise the exception that a status of op `name` stands for."""
    raise _exception(status, name, [t for t in operands if isinstance(t, TensorBase)], attrs)


def renamed(error: BaseException, name: str) -> BaseException:
    """An exception of an op in the name of the function that called the op on behalf of its caller."""
    op, mark, text = str(error).partition("(): ")
    return type(error)(f"{name}(): {text}") if mark and op.isidentifier() else error


# What programs call the ops whose names they never see.
_CALLED = {
    "add_scaled": "add", "assign": "copy", "cast": "to", "clamp_max": "clamp", "clamp_min": "clamp",
    "div_floor": "div", "div_trunc": "div",
    "expand_to": "expand", "max_dim": "max", "min_dim": "min", "reshape_copy": "reshape", "reshape_to": "reshape",
    "rpow": "pow", "rsub": "sub", "sub_scaled": "sub",
}  # fmt: skip


def called(op: str) -> str:
    """The name under which programs call an op."""
    name = op.partition(".")[0]
    return _CALLED.get(name, name)


Cause = tuple[type[BaseException], str]
"""Class and text of an exception, without the name that goes before."""


def _exception(status: int, name: str, tensors: list[Any], attrs: Sequence[int]) -> BaseException:
    if status == NO_KERNEL and devices.failures:
        failure = devices.failures.pop()
        devices.failures.clear()
        if isinstance(failure, (KeyboardInterrupt, SystemExit)):
            return failure
        error: BaseException = NotImplementedError(f"{name}(): {_no_kernel(tensors, failure)}")
        error.__cause__ = None if isinstance(failure, NotImplementedError) else failure
        return error
    make = _MAKERS.get(status)
    kind, text = make(name, tensors, attrs) if make else (RuntimeError, f"failed with status {status}")
    if name == NO_NAME or status == BAD_GRADIENT:  # its text begins with the name
        return kind(text)
    return kind(f"{name}(): {text}" if name.isidentifier() else f"{name}: {text}")


def _no_kernel(tensors: list[Any], failure: BaseException) -> str:
    kinds = ", ".join(f"'{dtypes.of_code(rt.field(t, TENSOR_DTYPE)).type_name}'" for t in tensors)
    hint = f"; {failure}" if isinstance(failure, NotImplementedError) and str(failure) else ""
    return f"not implemented for {kinds or 'these arguments'}{hint}"


def _no_memory(name: str, tensors: list[Any], attrs: Sequence[int]) -> Cause:
    return MemoryError, f"not enough memory for the result; {runtime_get('live_bytes')} bytes are in use"


def _broadcast(name: str, tensors: list[Any], attrs: Sequence[int]) -> Cause:
    if fact(0) == -1:
        return RuntimeError, (
            f"the number of sizes provided ({fact(1)}) must be greater or equal to the number of dimensions in the "
            f"tensor ({len(rt.sizes(tensors[0]))}): sizes {list(attrs)} for a tensor of sizes {shape_text(tensors[0])}"
        )
    if fact(0) == -2:
        return RuntimeError, (
            f"The expanded size of the tensor ({fact(1)}) must match the existing size at non-singleton dimension "
            f"{fact(2)}.  Target sizes: {list(attrs)}.  Tensor sizes: {shape_text(tensors[0])}"
        )
    shapes = " and ".join(shape_text(t) for t in tensors)
    return RuntimeError, (
        f"the sizes of the operands {shapes} do not broadcast: {fact(0)} against {fact(1)} at dimension {fact(2)} of "
        "the result; sizes must be equal or 1"
    )


def _bad_dim(name: str, tensors: list[Any], attrs: Sequence[int]) -> Cause:
    dim, ndim = fact(0), fact(1)
    if name in ("permute", "unpermute") and dim == -1:
        return RuntimeError, (
            "number of dimensions in the tensor input does not match the length of the desired ordering of dimensions "
            f"i.e. input.dim() = {len(rt.sizes(tensors[0]))} is not equal to len(dims) = {ndim}"
        )
    if ndim == 0 and name in ("select", "slice", "narrow", "cat", "split", "unbind"):
        return RuntimeError if name == "narrow" else IndexError, "cannot be applied to a 0-dim tensor"
    bound = max(ndim, 1)
    return (
        IndexError,
        f"dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})",
    )


def _bad_index(name: str, tensors: list[Any], attrs: Sequence[int]) -> Cause:
    index, size = fact(0), fact(1)
    if name == "select":
        return IndexError, f"index {index} is out of bounds for dimension {fact(2)} with size {size}"
    if name in ("index", "index_put_"):
        first = attrs[0]
        last = first + rt.sizes(tensors[-1])[0] - 1  # the indices are stacked
        dims = f"dimension {first}" if first == last else f"one of the dimensions {first} to {last}"
        return IndexError, f"index {index} is out of bounds for {dims} with size {size}"
    if name == "narrow":
        return IndexError, f"start {index} is out of range for dimension {fact(2)} with size {size}"
    if name.startswith("embedding"):
        return IndexError, f"index out of range in self: index {index}, but the table has {size} rows"
    if name.startswith("nll_loss"):
        return IndexError, (
            f"target {index} is out of bounds: there are {size} classes, so that targets are 0 to {size - 1}, or "
            "ignore_index"
        )
    return (
        RuntimeError,
        f"index {index} is out of bounds for dimension {attrs[0] if attrs else 0} with size {size}",
    )


_SIZE_TEXTS = {
    -2: "only one dimension can be inferred as -1, and none can be negative otherwise, but the sizes are {attrs}",
    -3: "cannot reshape tensor of 0 elements into shape {attrs} because the unspecified dimension size -1 can be any "
    "value and is ambiguous",
    -4: "the expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {b}",
    -6: "sizes, strides and offset must not be negative",
    -7: "sizes and strides reach beyond the {b} bytes of the storage",
    -13: "input {b} has another number of elements than the sizes of the call say",
    -12: "start ({c}) + length ({b}) exceeds dimension size",
}


def _bad_size(name: str, tensors: list[Any], attrs: Sequence[int]) -> Cause:
    a, b = fact(0), fact(1)
    if a == -1:
        return RuntimeError, f"shape '{list(attrs)}' is invalid for input of size {b}"
    if a == -5:
        return ValueError, f"slice step must be positive, but got {b}"
    if a == -8:
        return RuntimeError, (
            f"all tensors must have the same number of dimensions: tensor 0 has {len(rt.sizes(tensors[0]))}, tensor "
            f"{fact(2)} has {b}"
        )
    if a == -9:
        if name == "stack":
            return RuntimeError, (
                f"expected each tensor to be equal size, but got {shape_text(tensors[0])} at entry 0 and "
                f"{shape_text(tensors[fact(2)])} at entry {fact(2)}"
            )
        return RuntimeError, (
            f"Sizes of tensors must match except in dimension {attrs[0]}. Expected size "
            f"{rt.sizes(tensors[0])[fact(3)]} but got size {b} for tensor number {fact(2)} in the list."
        )
    if a == -13:
        return _unlike(name, rt.borrow(b), rt.borrow(fact(2)), fact(3))
    if a in (-10, -11):
        shapes = " and ".join(shape_text(t) for t in tensors)
        what = "the same number of dimensions as" if a == -10 else "sizes no larger than those of"
        return RuntimeError, f"the index tensor must have {what} the other tensors; got {shapes}"
    if a in _SIZE_TEXTS:
        return RuntimeError, _SIZE_TEXTS[a].format(b=b, c=fact(2), attrs=list(attrs))
    return RuntimeError, f"invalid size {a} at position {b}"


def _unlike(name: str, got: Any, first: Any, k: int) -> Cause:
    """The k-th tensor of a group does not fit the first."""
    from fastgrad.ops.registry import BY_NAME

    op: Any = BY_NAME[name]
    single = op.single >> k & 1
    expected = "one element of a floating dtype" if single else f"{_layout(first)}, as {op.tensors[0]} has"
    return RuntimeError, f"expected {op.tensors[k]} to have {expected}, but it has {_layout(got)}"


def _layout(t: Any) -> str:
    return f"sizes {shape_text(t)} and dtype {dtypes.of_code(rt.field(t, TENSOR_DTYPE)).name}"


def _bad_dtype(name: str, tensors: list[Any], attrs: Sequence[int]) -> Cause:
    got = dtypes.of_code(fact(0))
    kind = fact(1)
    if kind == 1:
        return RuntimeError, f"Expected dtype int64 for index, but got {got.name}"
    if kind == 2:
        return RuntimeError, f"Expected self.dtype to be equal to src.dtype, but src is {got.name}"
    if kind == 3:
        return (
            RuntimeError,
            f"expected scalar type Long (int64) for argument 'target', but found {got.type_name}",
        )
    if kind == 4:
        return RuntimeError, (
            f"expected all floating-point operands to have the same dtype, but got {got.name} beside "
            f"{dtypes.of_code(rt.field(tensors[0], TENSOR_DTYPE)).name}; convert one with .to(dtype)"
        )
    if name == "where":
        return (
            RuntimeError,
            f"expected condition to be a boolean tensor, but got a tensor with dtype {got.type_name}",
        )
    if name == "mean":
        return RuntimeError, (
            "could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {got.type_name}"
        )
    return NotImplementedError, f"not implemented for '{got.type_name}'"


def _bad_matmul(name: str, tensors: list[Any], attrs: Sequence[int]) -> Cause:
    if len(tensors) < 2:  # inside of a derivative, which was given something else than was saved
        return RuntimeError, "the sizes or dtypes of the operands of a matrix product do not fit"
    a, b = tensors[-2:]
    kind = fact(0)
    shapes = f"{shape_text(a)} and {shape_text(b)}"
    if kind == 1:
        names = [dtypes.of_code(rt.field(t, TENSOR_DTYPE)).type_name for t in tensors]
        return (
            RuntimeError,
            f"expected all operands to have the same dtype, but got {' and '.join(names)}",
        )
    if kind in (2, 3):
        x, y = rt.sizes(a), rt.sizes(b)
        if len(x) == 3:
            return RuntimeError, (
                f"batch1 and batch2 must have the same batch size and matching inner sizes, but got {shapes}"
            )
        return RuntimeError, (
            f"mat1 and mat2 shapes cannot be multiplied ({x[0]}x{x[1]} and {y[0]}x{y[1]}): the sizes are {shapes}"
        )
    if kind == 4:
        return RuntimeError, (
            f"The expanded size of the tensor ({rt.sizes(b)[1]}) must match the existing size: what is added has sizes "
            f"{shape_text(tensors[0])}, the product of {shapes} has [{rt.sizes(a)[0]}, {rt.sizes(b)[1]}]"
        )
    return (
        RuntimeError,
        f"expected two {'3D' if name == 'bmm' else '2D'} tensors, but got tensors of sizes {shapes}",
    )


def _leaf_inplace(name: str, tensors: list[Any], attrs: Sequence[int]) -> Cause:
    what = "a view of a leaf Variable" if fact(0) == 1 else "a leaf Variable"
    return RuntimeError, (
        f"{what} that requires grad is being used in an in-place operation. Change it under "
        "fastgrad.no_grad(), or use "
        "the form that returns a new tensor."
    )


def _view_inplace(name: str, tensors: list[Any], attrs: Sequence[int]) -> Cause:
    view = rt.borrow(fact(0))
    node = rt.current_node(view)
    which = "The tensor"
    if node is not None:
        which = f"Output {rt.field(view, OUTPUT_NR)} of {node.name().removesuffix('Backward')}"
    what = "its base or another view of its base has been" if fact(1) else "is being"
    start = f"{which} is a view and {what} modified inplace."
    if rt.field(view, TENSOR_FLAGS) & MULTI_VIEW:
        return RuntimeError, (
            f"{start} This view is the output of a function that returns multiple views. Such functions do not allow "
            "the output views to be modified inplace. You should replace the inplace operation by an out-of-place one."
        )
    return RuntimeError, (
        f"{start} This view was created inside a custom Function (or because an input was returned as-is), and the "
        "change would bypass the function's own backward. Clone the output of the function first."
    )


def _saved_modified(name: str, tensors: list[Any], attrs: Sequence[int]) -> Cause:
    handle, now, expected = fact(0), fact(1), fact(2)
    saved = rt.borrow(handle)
    kind = dtypes.of_code(rt.field(saved, TENSOR_DTYPE)).type_name
    producer = ""
    # A view would catch up with its base, whose new history may hold the view.
    node = None if rt.field(saved, TENSOR_FLAGS) & IS_VIEW else rt.grad_fn(saved)
    if node is not None:
        producer = f", which is output {rt.field(saved, OUTPUT_NR)} of {node.name()},"
    return RuntimeError, (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[fastgrad.{kind}Tensor {shape_text(saved)}]{producer} is at version {now}; expected version {expected} "
        "instead. Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
        "fastgrad.autograd.set_detect_anomaly(True)."
    )


def _result_cast(name: str, tensors: list[Any], attrs: Sequence[int]) -> Cause:
    a, b = dtypes.of_code(fact(0)).type_name, dtypes.of_code(fact(1)).type_name
    return RuntimeError, f"result type {a} can't be cast to the desired output type {b}"


def _output_shape(name: str, tensors: list[Any], attrs: Sequence[int]) -> Cause:
    shapes = ", ".join(shape_text(t) for t in tensors[1:])
    return RuntimeError, (
        f"output with shape {shape_text(tensors[0])} doesn't match the broadcast shape with {shapes or 'the operands'}"
    )


def _empty(name: str, tensors: list[Any], attrs: Sequence[int]) -> Cause:
    what = f"the tensor has sizes {shape_text(tensors[0])} and so no elements to choose from"
    if name in ("amax", "amin", "max", "min") and len(attrs) < 2:
        return RuntimeError, (
            f"Expected reduction dim to be specified for input.numel() == 0: {what}. Specify the reduction dim "
            "with the "
            "'dim' argument."
        )
    return IndexError, f"Expected reduction dim to have non-zero size: {what}"


def _bad_gradient(name: str, tensors: list[Any], attrs: Sequence[int]) -> Cause:
    got, expected = ([fact(at + 1 + k) for k in range(fact(at))] for at in (1, 2 + MAX_DIMS))
    return RuntimeError, (
        f"Function {name} returned an invalid gradient at index {fact(0)} - got {got} but expected shape compatible "
        f"with {expected}"
    )


def _simple(kind: type[BaseException], text: str) -> Any:
    return lambda name, tensors, attrs: (kind, text.format(a=fact(0), b=fact(1)))


_MAKERS: dict[int, Any] = {
    NO_MEMORY: _no_memory,
    NO_KERNEL: _simple(RuntimeError, "no kernel"),
    BAD_BROADCAST: _broadcast,
    BAD_DIM: _bad_dim,
    BAD_INDEX: _bad_index,
    BAD_SIZE: _bad_size,
    BAD_DTYPE: _bad_dtype,
    BAD_MATMUL: _bad_matmul,
    TOO_MANY_DIMS: _simple(RuntimeError, f"{{a}} dimensions; fastgrad supports at most {MAX_DIMS}"),
    LEAF_INPLACE: _leaf_inplace,
    SAVED_MODIFIED: _saved_modified,
    FREED_GRAPH: _simple(RuntimeError, FREED_MESSAGE),
    BAD_HANDLE: _simple(TypeError, "expected Tensor arguments"),
    BAD_VIEW: _simple(
        RuntimeError,
        "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
        "contiguous subspaces). Use .reshape(...) instead.",
    ),
    BAD_RESULT_CAST: _result_cast,
    BAD_OUTPUT_SHAPE: _output_shape,
    DEVICE_MISMATCH: _simple(
        RuntimeError, "expected all tensors to be on the same device; move them with .to(device)"
    ),
    NOT_RECORDABLE: _simple(
        RuntimeError, "this form of the operation cannot be recorded; use it under fastgrad.no_grad()"
    ),
    EMPTY_REDUCTION: _empty,
    BAD_GRADIENT: _bad_gradient,
    BAD_ARGUMENT: _simple(RuntimeError, "invalid argument ({a}, {b})"),
    INFERENCE_SAVED: _simple(
        RuntimeError,
        "Inference tensors cannot be saved for backward. To work around you can make a clone to get a normal tensor "
        "and use it in autograd.",
    ),
    INFERENCE_INPLACE: _simple(
        RuntimeError,
        "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get "
        "a normal "
        "tensor before doing inplace update.",
    ),
    BAD_TARGET: _simple(
        ValueError, "expected input batch_size ({b}) to match target batch_size ({a}), input of shape (N, C)"
    ),
    BAD_WINDOW: _simple(RuntimeError, "the sizes, dtypes or settings of the operands do not fit each other"),
    OVERLAP: _simple(
        RuntimeError,
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
        "Please clone() the tensor before performing the operation.",
    ),
    MULTI_VIEW_INPLACE: _view_inplace,
    NO_GRAD_VIEW_INPLACE: _simple(
        RuntimeError,
        "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use "
        "case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view "
        "and the "
        "inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or both "
        "outside (if "
        "you want the inplace to be tracked).",
    ),
    NO_RULE: _simple(NotImplementedError, "the derivative with regard to input {a} is not implemented"),
    DUPLICATE_DIM: _simple(RuntimeError, "dim {a} appears more than once in the list of dims"),
}


def _fields(record: Record, name: str) -> int:
    return record.fields[name][0]


TENSOR_FLAGS = _fields(TENSOR, "flags")
TENSOR_DTYPE = _fields(TENSOR, "dtype")
TENSOR_FLAGS = _fields(TENSOR, "flags")
OUTPUT_NR = _fields(TENSOR, "output_nr")


def op_failed(*arguments: Any) -> NoReturn:
    """Called by a failing `rt.apply` with its arguments; raises what the status stands for."""
    from fastgrad.ops.registry import OPS

    status = runtime_get("status")
    if len(arguments) < 3 or not all(isinstance(a, int) for a in arguments[:3]):
        raise TypeError("a call of an op begins with three integers")
    number, n, n_outs, *rest = arguments
    if not 0 <= number < len(OPS):
        raise TypeError(f"there is no op of number {number}")
    op, operands, attrs = OPS[number], rest[:n], rest[n:]
    if status == BAD_HANDLE:
        raise _not_a_tensor(op, operands, n_outs == _IN_PLACE)
    name = called(op.name) + ("_" if n_outs == _IN_PLACE else "")
    if status == BAD_CALL:
        raise TypeError(f"{name}(): {n} operands and {len(attrs)} integers do not fit {op!r}")
    raise_status(status, name, operands, attrs)


_IN_PLACE = -1


def _not_a_tensor(op: Any, operands: Sequence[Any], in_place: bool) -> TypeError:
    """The error for operands of an op among which one is missing or no tensor."""
    fits = [isinstance(x, TensorBase) or (x is None and op.may_lack(k)) for k, x in enumerate(operands)]
    k = fits.index(False) if False in fits else None
    name = called(op.name) + ("_" if in_place else "")
    if k is None:
        return TypeError(f"{name}(): a tensor among the arguments was never made, or is gone")
    kind = type(operands[k]).__name__
    if in_place and k == 0:
        return TypeError(f"descriptor '{name}' for 'fastgrad.Tensor' objects doesn't apply to a '{kind}' object")
    place = k if in_place else k + 1
    return TypeError(f"{name}(): argument '{op.argument(k)}' (position {place}) must be Tensor, not {kind}")


def entry_failed(*arguments: Any) -> NoReturn:
    """Called by any other failing entry with its arguments; raises what the status stands for."""
    status = runtime_get("status")
    if status == BAD_HANDLE:
        wrong = [a for a in arguments if not isinstance(a, (int, float, TensorBase))]
        if wrong or not arguments or not isinstance(arguments[0], int):
            kind = type(wrong[0]).__name__ if wrong else "a tensor that was never made, or is gone"
            raise TypeError(f"expected a Tensor as argument, but got {kind}")
        raise RuntimeError("this backward pass has ended")
    raise_status(status, _subject(arguments), arguments)


def _subject(arguments: Sequence[Any]) -> str:
    """What a message names for an entry that is no op: the node, or the type of node to be, that comes first."""
    first = arguments[0] if arguments else None
    if isinstance(first, NodeBase):
        return first.name()  # type: ignore[no-any-return, attr-defined]
    return first.__name__ if isinstance(first, type) else NO_NAME


runtime_set_object("op_failed", op_failed)
runtime_set_object("entry_failed", entry_failed)
