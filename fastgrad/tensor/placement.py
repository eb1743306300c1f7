"""On which device a tensor is, and getting it to another one."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from fastgrad import capsules
from fastgrad.cuda import interchange, pinned
from fastgrad.cuda.selection import index_of
from fastgrad.cuda.streams import Stream, need
from fastgrad.dtypes import bfloat16
from fastgrad.functions import dlpack
from fastgrad.functions.arguments import as_truth
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.formats import PRESERVE_FORMAT
from fastgrad.native.contracts.limits import FIRST_GPU, META
from fastgrad.native.contracts.records import STORAGE, TENSOR
from fastgrad.ops.conjugates import is_turned
from fastgrad.places import as_device
from fastgrad.places import device as Device  # noqa: N812
from fastgrad.tensor.methods import Methods

if TYPE_CHECKING:
    from fastgrad.tensor import Tensor

_DEVICE, _DTYPE = TENSOR.fields["device"][0], TENSOR.fields["dtype"][0]
_DATA = STORAGE.fields["data"][0]
_field = rt.field
_CPU = (capsules.CPU, 0)  # to DLPack


class Placement(Methods):
    """Where a tensor is."""

    __slots__ = ()

    @property
    def is_cuda(self) -> builtins.bool:
        """Whether it is on a GPU."""
        return builtins.bool(_field(self, _DEVICE) >= FIRST_GPU)

    @property
    def is_cpu(self) -> builtins.bool:
        """Whether it is on the CPU."""
        return builtins.bool(_field(self, _DEVICE) == 0)

    @property
    def is_meta(self) -> builtins.bool:
        """Whether it is on the meta device, without elements."""
        return builtins.bool(_field(self, _DEVICE) == META)

    def get_device(self) -> int:
        """The number of its GPU, -1 on the CPU."""
        return max(-1, _field(self, _DEVICE) - FIRST_GPU)

    def cuda(
        self, device: Any = None, non_blocking: builtins.bool = False, memory_format: Any = None
    ) -> Tensor:
        """The tensor on a GPU; itself if it is there.

        Parameters
        ----------
        device : device, str, int or None
            The current GPU by default.
        non_blocking : bool
            See `to`.
        memory_format : memory_format, optional
            In which order the elements of a copy lie in memory.

        Raises
        ------
        RuntimeError
            If the device is no GPU, or there is no such GPU.
        """
        here = _field(self, _DEVICE)
        where = as_device("cuda" if device is None else device, "cuda")
        if where.type != "cuda":
            raise RuntimeError("Invalid device, must be cuda device")
        if memory_format is None and where.code == here:
            return self  # type: ignore[return-value]
        options = {} if memory_format is None else {"memory_format": memory_format}
        return self.to(device=where, non_blocking=as_truth("cuda", "non_blocking", non_blocking), **options)

    def pin_memory(self, device: Any = None) -> Tensor:
        """A copy in memory of the host's that is locked in its place; itself if it is there.

        From there a GPU copies by itself: with ``non_blocking=True``, `to` does not wait for it.

        Parameters
        ----------
        device : device, str, int or None
            Whose driver locks the memory; it is locked for all GPUs.

        Raises
        ------
        RuntimeError
            If it is not the CPU's, or there is no GPU.
        """
        index_of(device)
        return pinned.pin(self, device)  # type: ignore[no-any-return]

    def is_pinned(self, device: Any = None) -> builtins.bool:
        """Whether it lies in memory that `pin_memory` locked."""
        if device is not None:
            index_of(device)
        return pinned.is_pinned(self)

    def share_memory_(self) -> Tensor:
        """Move the elements into memory that processes share, where they change for all; the tensor stays the same.

        If it is a view, the tensor that it is a view of moves along.

        It is shared with processes that are forked afterwards, and with those that get it through
        `fastgrad.multiprocessing`.

        Returns
        -------
        Tensor
            This one.

        Raises
        ------
        NotImplementedError
            If it is on a GPU.
        RuntimeError
            If more tensors lie in the same memory, such as views of this one: they would not move with it.

        Examples
        --------
        >>> import fastgrad as fg
        >>> fg.ones(2).share_memory_().is_shared()
        True
        """
        from fastgrad.functions.shared_memory import share  # brings what most programs do without

        return share(self)  # type: ignore[return-value]

    def is_shared(self) -> builtins.bool:
        """Whether it lies in memory that processes share."""
        from fastgrad.functions.shared_memory import block_of

        return block_of(self) is not None

    def record_stream(self, stream: Stream) -> None:
        """Say that a stream uses the tensor, which was made on another one.

        When the tensor is gone, its memory is given out again only after all that the stream has been given by then.

        Parameters
        ----------
        stream : fastgrad.cuda.Stream

        Raises
        ------
        TypeError
            If it is no stream.
        RuntimeError
            If the tensor is not on the GPU of the stream.
        """
        need(stream, Stream, "record_stream", "s")
        if self.get_device() != stream.device_index:
            raise RuntimeError(
                f"record_stream(): expected a tensor on {stream.device}, the GPU of the stream, but it is on "
                f"{self.device}"
            )
        stream._gpu.record_use(rt.storage_field(self, _DATA), stream.cuda_stream)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return interchange.array_interface(self)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: builtins.bool | None = None,
    ) -> Any:
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if is_turned(self):
            bit = "conjugate" if self.is_complex() else "negative"
            raise BufferError(f"Can't export tensors with the {bit} bit set")
        if self.is_meta:
            raise BufferError("__dlpack__(): Cannot pack tensors on meta: there is no memory to give")
        if not _field(self, _DEVICE):
            # DLPack of a bool array is exported by NumPy as such; read-only memory never arises here.
            options = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
            options = {k: v for k, v in options.items() if v is not None}
            return (
                dlpack.exported(self, **options)
                if self.dtype is bfloat16
                else self.numpy().__dlpack__(**options)
            )
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            if tuple(dl_device) == _CPU and copy is not False:
                return self.cpu().__dlpack__(max_version=max_version)
            raise BufferError(f"__dlpack__(): {self.device} cannot give memory of device {tuple(dl_device)}")
        return interchange.dlpack(self.clone() if copy else self, stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        if self.is_meta:
            raise ValueError("__dlpack_device__(): Unknown device type meta for Dlpack")
        return _CPU if not _field(self, _DEVICE) else (capsules.CUDA, self.get_device())


def move(x: Any, target: Device, non_blocking: builtins.bool) -> Any:
    """A copy of a tensor on another device, without history."""
    code = target.code
    if non_blocking and not code and _field(x, _DEVICE) >= FIRST_GPU:
        return pinned.to_host(x)
    out = rt.like(x, _field(x, _DTYPE), code, PRESERVE_FORMAT)
    pinned.copy(out, rt.detach(x), wait=not non_blocking)
    return out
