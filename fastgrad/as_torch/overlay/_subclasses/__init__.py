"""Tensors without values, by PyTorch's names. Here these are tensors on the device ``meta``."""
