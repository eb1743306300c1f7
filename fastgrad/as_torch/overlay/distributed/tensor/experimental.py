"""What changes how operators take tensors that several processes share, of which there are none."""

from __future__ import annotations

from fastgrad.as_torch.absent import what_pytorch_has

__all__ = ["implicit_replication"]


def implicit_replication() -> None:
    """Refuse: programs import this at their start, and call it for tensors that do not exist here.

    Raises
    ------
    NotImplementedError
        Always.
    """
    raise NotImplementedError(
        what_pytorch_has("torch.distributed.tensor.experimental", "implicit_replication")
    )
