"""The ops that compute in float32 on GPUs while `fastgrad.autocast` is on: what of PyTorch's list is one op here.

Dispatch converts their operands (`dispatch.call.in_autocast`). What several ops make, and what the CPU's list has as
well, says it by a decorator (`functions.autocasting`).
"""

from __future__ import annotations

from fastgrad.native.contracts.ops import FLOAT32_IN_AUTOCAST
from fastgrad.ops.registry import BY_NAME

NAMES = (
    "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "pow", "pow.number", "rpow", "softplus",
    "sum", "sum.dim", "cumsum", "softmax", "log_softmax", "logsumexp",
    "layer_norm", "layer_norm.plain", "group_norm", "group_norm.plain", "rms_norm", "rms_norm.plain",
)  # fmt: skip


def declare() -> None:
    """Tell the runtime which ops these are."""
    for name in NAMES:
        BY_NAME[name].add_flags(FLOAT32_IN_AUTOCAST)
