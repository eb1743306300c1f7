"""Modules of ``torch.nn`` that fastgrad has no use for."""
