"""Names of ``torch.nn`` that fastgrad has no use for."""

from fastgrad.as_torch.overlay.nn.parallel import DataParallel

__all__ = ["DataParallel"]
