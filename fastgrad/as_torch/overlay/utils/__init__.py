"""Names of ``torch.utils`` that fastgrad has no use for."""
