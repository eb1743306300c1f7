"""Memory formats: numbers for the order in which a tensor's elements lie in memory."""

from __future__ import annotations

CONTIGUOUS_FORMAT, PRESERVE_FORMAT, CHANNELS_LAST, CHANNELS_LAST_3D = range(4)

FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")

GIVEN_STRIDES = len(FORMATS)
"""In place of a format: the strides follow."""

FORMAT_DIMS = (0, 0, 4, 5)
"""How many dimensions a tensor in each of the formats has; 0 if any number."""
