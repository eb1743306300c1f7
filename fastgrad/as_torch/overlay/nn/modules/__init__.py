"""Names of ``torch.nn.modules`` that fastgrad has no use for."""
