"""Names of ``torch.utils.data`` that fastgrad has no use for."""
