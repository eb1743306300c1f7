"""Helpers around parameters and their gradients."""

from fastgrad.nn.utils.weight_norm import remove_weight_norm, weight_norm

__all__ = ["remove_weight_norm", "weight_norm"]
