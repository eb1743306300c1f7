"""The processor that code is compiled for: its name and features as LLVM knows them, and how wide loops are.

Note [Full-width vectors]: on Intel's processors with AVX-512, LLVM makes loops with vectors of half a register. Ours
are long and full of arithmetic, and faster with whole ones: 1.2 to 1.75 times on Emerald Rapids. So for what stands in
`FULL_WIDTH` LLVM's preference is taken back; elsewhere LLVM decides. Not in the table are

- skylake-avx512, cascadelake and cooperlake, whose clock falls by a good part for wide multiplications, and stays there
  for longer than most kernels take, so that what runs between them would pay. Some of them also have but one multiplier
  for a whole vector, beside two for halves. Nobody has measured our loops there.
- cannonlake, of which few were sold, and x86-64-v4, the common level, which stands for all of these.

Tiles (`kernels.cpu.micro`) are written in whole registers and stay so everywhere: they are multiplications from one
end to the other, for which BLAS takes whole registers, too. See `docs/decisions/0009-full-width-vectors.md`.
"""

from __future__ import annotations

import functools
import os
import platform
from typing import NamedTuple

import llvmlite.binding as llvm

FULL_WIDTH = frozenset({
    # With the core of these the clock came to depend on the width hardly or not at all. LLVM also gives the first two
    # names to processors that it does not know, by their features.
    "icelake-client", "tigerlake", "rocketlake",
    "icelake-server", "sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d", "diamondrapids",
})  # fmt: skip
"""Processors whose loops use vectors of 512 bits though LLVM would halve them; see Note [Full-width vectors]."""


class Processor(NamedTuple):
    """A processor: LLVM's name for it, and what it can do and how it is tuned, as in ``+avx2,-avx512f``."""

    name: str
    features: str

    def has(self, feature: str) -> bool:
        """Whether it has a feature."""
        return f"+{feature}" in self.features.split(",")


def named(name: str, features: str) -> Processor:
    """The processor of a name and with these features, tuned as we want it."""
    return Processor(name, f"{features},-prefer-256-bit" if name in FULL_WIDTH else features)


@functools.cache
def host() -> Processor:
    """The processor that code is made for: the one that this runs on, with all its features.

    As for all code of Numba's, ``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` name another one. A name stands for
    features, too: those that this one lacks are taken out.

    Raises
    ------
    RuntimeError
        If the features are not written as LLVM's, or this processor lacks one of them.
    """
    name, features = os.environ.get("NUMBA_CPU_NAME"), os.environ.get("NUMBA_CPU_FEATURES")
    here = llvm.get_host_cpu_features()
    if name is not None and name.lower() == "generic" and features is None:
        return named(name, "")
    if features is None:
        features = here.flatten()
    else:
        asked = [feature for feature in features.split(",") if feature]
        _check_features(asked, here)
        lacking = [f"-{f}" for f, has in sorted(here.items()) if not has] if name else []
        features = ",".join([*asked, *(f for f in lacking if f not in asked)])
    return named(name or llvm.get_host_cpu_name(), features)


def _check_features(asked: list[str], here: dict[str, bool]) -> None:
    for feature in asked:
        if feature[0] not in "+-" or not feature[1:].strip():
            raise RuntimeError(
                f"NUMBA_CPU_FEATURES: expected features as in '+avx2,-avx512f', got {feature!r}; "
                "write each with its sign, or unset the variable"
            )
        if feature[0] == "+" and here.get(feature[1:]) is False:
            raise RuntimeError(
                f"NUMBA_CPU_FEATURES asks for {feature!r}, which this processor ({llvm.get_host_cpu_name()}) lacks; "
                "leave it out, or unset the variable"
            )


def is_arm() -> bool:
    """Whether it is one of ARM's with registers of 64 bits."""
    return platform.machine().lower() in ("aarch64", "arm64")


def fuses() -> bool:
    """Whether it multiplies and adds in one instruction: what LLVM contracts, and `fmuladd`."""
    return host().has("fma") or is_arm()


def divides_slowly() -> bool:
    """Whether a division of whole vectors of floats takes several times as long as conversions to double and back.

    These processors have one divider, half as wide as their vectors.
    """
    return host().name in FULL_WIDTH


def wide_tiles() -> bool:
    """Whether there are registers for tiles of 8 rows by two whole vectors of 512 bits (`kernels.cpu.micro`)."""
    return host().has("avx512f")
