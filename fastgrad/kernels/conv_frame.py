"""The frame of a convolution's kernel: what each word is.

Addresses of x, w and y; that of the bias of what is computed, or 0; that of the scratch, or 0, and its bytes; the sizes
of x (N, C, H, W), the channels and size of y, the size of the weights; strides, padding and dilation, down and across;
the number of groups.

Note [Scratch]: a launch without scratch only writes to the frame how much it needs. So what is computed how, which
decides on that, is known to the kernels alone.
"""

from __future__ import annotations

(
    X, WEIGHT, Y, BIAS, SCRATCH, BYTES,
    N, C, H, W, O, OH, OW, KH, KW, SH, SW, PH, PW, DH, DW, GROUPS,
) = range(22)  # fmt: skip
