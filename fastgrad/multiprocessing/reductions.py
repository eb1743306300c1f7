"""How tensors get to other processes: as memory that both have."""

from __future__ import annotations

from multiprocessing import context, reduction
from typing import Any

from fastgrad.functions import shared_memory
from fastgrad.functions.storage import Storage
from fastgrad.tensor import Tensor

SMALL = 1 << 16
"""Of how many bytes on a memory that is not shared is copied into a block; fewer go along with the rest."""


def init_reductions() -> None:
    """Let `multiprocessing` send tensors so, wherever it pickles: in queues, pipes and arguments of processes."""
    reduction.register(Tensor, _reduced)
    reduction.register(Storage, reduced_storage)


def need_data(tensor: Any) -> None:
    """Refuse a tensor with a history, which stays in its process.

    Raises
    ------
    RuntimeError
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor before "
            "serializing (e.g., putting it on the queue)."
        )


def need_host(storage: Storage) -> None:
    """Refuse memory of a GPU.

    Raises
    ------
    NotImplementedError
    """
    if storage.device.type != "cpu":
        raise NotImplementedError(
            f"a tensor on {storage.device} cannot be sent to another process; send a copy of it, t.cpu()"
        )


def _reduced(tensor: Tensor) -> Any:
    need_data(tensor)
    return tensor.__reduce_ex__(2)


def reduced_storage(storage: Storage) -> Any:
    """What `multiprocessing` pickles of the memory of tensors: its block, or that of a copy."""
    need_host(storage)
    block = shared_memory.block_of(storage.flat)
    if block is None:
        if storage.nbytes() < SMALL:
            return storage.__reduce__()
        block = shared_memory.shared_copy(storage)
    popen = context.get_spawning_popen()
    if popen is not None:  # takes descriptors as they are, when it starts: the block has to stay
        popen.__dict__.setdefault("fastgrad_blocks", []).append(block)
    return rebuild_storage, (reduction.DupFd(block.descriptor), block.nbytes, storage.dtype)


def rebuild_storage(descriptor: Any, nbytes: int, dtype: Any) -> Storage:
    """The memory that `reduced_storage` sent."""
    block = shared_memory.Block(descriptor.detach(), nbytes, keep=True)
    return shared_memory.storage_over(block, dtype, nbytes // dtype.itemsize)
