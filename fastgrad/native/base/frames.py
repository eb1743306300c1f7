"""Frames in compiled code: for each declaration a function of its name that casts the address of a frame.

``f = frames.rows(frame)``, then ``f.length`` is a word, ``f.kept`` a part with fields of its own, and a field of
several words the pointer to the first.
"""

from __future__ import annotations

from fastgrad.native.base.intrinsics import caster
from fastgrad.native.contracts.frame import REPORT
from fastgrad.native.contracts.frames import FRAMES

vars().update((frame.name, caster(frame)) for frame in (*FRAMES, REPORT))
