"""Attention with masks and scores that are functions, of which there is none. The classes are missing."""

from __future__ import annotations

from fastgrad.as_torch.absent import absent_function

_MODULE = "torch.nn.attention.flex_attention"
_NAMES = ("create_block_mask", "create_mask", "create_nested_block_mask", "flex_attention", "noop_mask")
globals().update({name: absent_function(_MODULE, name) for name in _NAMES})
_DEFAULT_SPARSE_BLOCK_SIZE = 128

__all__ = list(_NAMES)
