"""Another name of `distributed.tensor.experimental`."""

from fastgrad.as_torch.overlay.distributed.tensor.experimental import implicit_replication

__all__ = ["implicit_replication"]
