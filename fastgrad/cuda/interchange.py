"""Memory of GPUs that other libraries share with tensors, and tensors with them: DLPack, and the CUDA array interface.

Note [Order of streams]: who takes memory names the stream that will use it, and who gives it lets that stream wait for
what the memory still waits for. Nobody waits on the host. Memory of another library's is given back when all that uses
it here is done, as an event says (`later`).
"""

from __future__ import annotations

import contextlib
import ctypes
import operator
import sys
from functools import partial
from typing import Any

from fastgrad import capsules, dtypes
from fastgrad.cuda import later
from fastgrad.cuda.gpus import Gpu
from fastgrad.cuda.selection import gpu_of, index_of
from fastgrad.cuda.streams import Stream, stream_on
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.limits import FIRST_GPU, MAX_DIMS
from fastgrad.native.contracts.records import TENSOR

_DEVICE, _DTYPE, _DATA, _NUMEL = (TENSOR.fields[n][0] for n in ("device", "dtype", "data", "numel"))
_LEGACY, _PER_THREAD = 1, 2  # the driver's streams of these numbers; the protocols have the same ones
_LIMIT = 1 << 63
_DEVICE_OF_POINTER = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL

# --- giving ----------------------------------------------------------------------------------------------------


def dlpack(tensor: Any, stream: Any) -> Any:
    """A capsule with the memory of a tensor of a GPU, for the one who works on a stream.

    Parameters
    ----------
    tensor : Tensor
        Without history.
    stream : int or None
        The stream's address; None or 1 for the legacy default stream, 2 for the one of the thread, -1 for no order.

    Raises
    ------
    TypeError, ValueError
        If `stream` is none of these.
    """
    gpu = _gpu_under(tensor)
    order(gpu, stream)
    return capsules.give(tensor, (capsules.CUDA, gpu.index))


def order(gpu: Gpu, stream: Any) -> None:
    """Let another library's stream wait for the current one; see `dlpack` for how it is named."""
    if isinstance(stream, bool) or not isinstance(stream, (int, type(None))):
        raise TypeError(f"__dlpack__(): argument 'stream' must be int or None, not {type(stream).__name__}")
    if stream == 0 or (stream is not None and not -1 <= stream < _LIMIT):
        raise ValueError(
            f"__dlpack__(): expected stream to be -1, 1, 2 or the address of a stream, but got {stream}"
        )
    gpu.raise_failure("__dlpack__()")
    here = stream_on(gpu)
    if stream not in (-1, here.cuda_stream):
        Stream._over(gpu, _LEGACY if stream is None else stream).wait_stream(here)


def array_interface(tensor: Any) -> dict[str, Any]:
    """What `__cuda_array_interface__` of a tensor is.

    Raises
    ------
    AttributeError
        If the tensor is not on a GPU, or of a dtype that NumPy does not know.
    RuntimeError
        If it requires grad.
    """
    if rt.field(tensor, _DEVICE) < FIRST_GPU:
        raise AttributeError(
            "Can't get __cuda_array_interface__ on non-CUDA tensor type: this one is on the CPU; move it with .cuda()"
        )
    dtype = dtypes.of_code(rt.field(tensor, _DTYPE))
    if dtype.numpy is None:
        raise AttributeError(f"__cuda_array_interface__ has no {dtype.name}; use DLPack")
    if tensor.requires_grad:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't required, use "
            "var.detach() to get Variable that doesn't require grad."
        )
    if tensor.is_conj() or tensor.is_neg():
        raise RuntimeError("Can't get __cuda_array_interface__ on a view of conjugates; resolve it first")
    gpu = _gpu_under(tensor)
    contiguous = tensor.is_contiguous()
    return {
        "typestr": dtype.numpy.str,
        "shape": tuple(rt.sizes(tensor)),
        "strides": None if contiguous else tuple(s * dtype.itemsize for s in rt.steps(tensor)),
        "data": (rt.field(tensor, _DATA) if rt.field(tensor, _NUMEL) else 0, False),
        "version": 3,
        "stream": stream_on(gpu).cuda_stream,
    }


def _gpu_under(tensor: Any) -> Gpu:
    return gpu_of(rt.field(tensor, _DEVICE) - FIRST_GPU)


# --- taking ----------------------------------------------------------------------------------------------------


class _Owner:
    """Keeps memory of another library's, and what gives it back: called with an argument when all here is done."""

    __slots__ = ("_argument", "_give_back", "_uses")

    def __init__(self, uses: set[tuple[Gpu, int]], give_back: Any, argument: Any) -> None:
        self._uses, self._give_back, self._argument = uses, give_back, argument

    def __del__(self, finalizing: Any = sys.is_finalizing) -> None:
        if not finalizing():
            uses = self._uses | {(gpu, stream_on(gpu).cuda_stream) for gpu, _ in self._uses}
            later.after(uses, partial(self._give_back, self._argument))


def from_object(obj: Any, index: int) -> Any:
    """A tensor over memory of a GPU that an object gives by DLPack."""
    gpu = gpu_of(index)
    later.settle()
    return from_capsule(obj.__dlpack__(stream=stream_on(gpu).cuda_stream), gpu)


def from_capsule(capsule: Any, gpu: Gpu | None = None) -> Any:
    """A tensor over the memory of a GPU in a capsule, which the current stream may use.

    Raises
    ------
    BufferError
        If the memory is not a GPU's, or lies in a way that tensors do not.
    TypeError
        If it is no such capsule, or the dtype is not supported.
    """
    if not capsules.is_capsule(capsule):
        raise TypeError(f"from_dlpack(): expected a fresh DLPack capsule, but got {capsule!r}")
    found = capsules.inside(capsule).tensor
    if found.device_type != capsules.CUDA:
        raise BufferError(
            f"from_dlpack(): expected memory of a GPU, but its device type is {found.device_type}"
        )
    if gpu is None:
        gpu = gpu_of(found.device_id)
    name = next((n for n, c in capsules.CODES.items() if c == (found.code, found.bits)), None)
    dtype = _supported(
        "from_dlpack", name if found.lanes == 1 else None, (found.code, found.bits, found.lanes)
    )
    sizes, steps, start = found.sizes(), found.steps(), (found.data or 0) + found.byte_offset
    _need_layout("from_dlpack", sizes, steps)
    uses = {(gpu, stream_on(gpu).cuda_stream)}
    return _over(dtype, gpu, sizes, steps, start, _Owner(uses, *capsules.take(capsule)))


def from_array_interface(obj: Any, device: Any = None) -> Any:
    """A tensor over memory of a GPU that an object gives by ``__cuda_array_interface__``.

    Raises
    ------
    TypeError, ValueError
        If what it says is no such interface.
    BufferError
        If the memory lies in a way that tensors do not.
    """
    import numpy as np

    said = obj.__cuda_array_interface__
    try:
        kind, shape, (address, _) = np.dtype(said["typestr"]), said["shape"], said["data"]
        sizes = tuple(operator.index(s) for s in shape)
        address = operator.index(address or 0)
        strides = said.get("strides")
        steps = None if strides is None else tuple(operator.index(s) for s in strides)
        stream = said.get("stream", None if said.get("version", 0) >= 3 else _LEGACY)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TypeError(
            f"as_tensor(): __cuda_array_interface__ is not as the protocol has it: {error}"
        ) from error
    if said.get("mask") is not None:
        raise BufferError("as_tensor(): masked arrays are not supported")
    if stream is not None and (isinstance(stream, bool) or not isinstance(stream, int) or stream <= 0):
        raise ValueError(
            f"as_tensor(): expected the stream of __cuda_array_interface__ to be None or positive, but got {stream!r}"
        )
    gpu = gpu_of(_owner_of(address) if device is None and address else device)
    dtype = _supported("as_tensor", None if kind.byteorder == ">" else kind.name, said["typestr"])
    if steps is None:
        steps = capsules.in_rows(sizes)
    elif len(steps) != len(sizes) or any(s % dtype.itemsize for s in steps):
        raise ValueError(f"as_tensor(): strides {steps} do not fit sizes {sizes} and dtype {dtype.name}")
    else:
        steps = tuple(s // dtype.itemsize for s in steps)
    _need_layout("as_tensor", sizes, steps)
    later.settle()
    here = stream_on(gpu)
    if stream is not None and stream != here.cuda_stream:
        here.wait_stream(Stream._over(gpu, stream))
    return _over(dtype, gpu, sizes, steps, address, _Owner({(gpu, here.cuda_stream)}, capsules.nothing, obj))


def _owner_of(address: int) -> int:
    """The number of the GPU that has the memory at an address; the current one where the driver does not know."""
    gpu, found = gpu_of(), ctypes.c_int(index_of(None))
    with contextlib.suppress(RuntimeError):
        gpu.make_current()
        gpu.driver.call("cuPointerGetAttribute", ctypes.addressof(found), _DEVICE_OF_POINTER, address)
    return found.value


def _supported(name: str, dtype: str | None, said: Any) -> dtypes.dtype:
    found = next((d for d in dtypes.SUPPORTED if d.name == dtype), None)
    if found is None:
        known = ", ".join(d.name for d in dtypes.SUPPORTED)
        raise TypeError(f"{name}(): the dtype {said} is not supported; known are {known}")
    return found


def _need_layout(name: str, sizes: tuple[int, ...], steps: tuple[int, ...]) -> None:
    if len(sizes) > MAX_DIMS:
        raise BufferError(
            f"{name}(): a tensor has at most {MAX_DIMS} dimensions, but the memory has {len(sizes)}"
        )
    if any(s < 0 for s in (*sizes, *steps)):
        raise BufferError(f"{name}(): sizes {sizes} and strides {steps} must not be negative")


def _over(
    dtype: dtypes.dtype, gpu: Gpu, sizes: tuple[int, ...], steps: tuple[int, ...], address: int, owner: Any
) -> Any:
    return capsules.tensor_over(owner, dtype, FIRST_GPU + gpu.index, sizes, steps, address)
