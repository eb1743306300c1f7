"""Older names of ``torch.optim``."""
