"""The compiled code of calls of MPI, and where it is called."""

from __future__ import annotations

import functools

from fastgrad.native.build.routines import load_routines

PROGRESS = dict.fromkeys(
    ("set_up", "hand_over", "take_back", "look", "settle", "depart_by_python", "want", "close", "drive"),
    "progress",
)
HALVES = dict.fromkeys(
    (f"{kind}_{name}" for kind in ("float16", "bfloat16") for name in ("sum", "prod", "min", "max")), "halves"
)
OPERATION = """
declare i32 @{symbol}(ptr, ptr, i64, i64, i64, i64)
define void @fastgrad_{name}(i64 %given, i64 %kept, i64 %count, i64 %kind) {{
  %result = alloca ptr
  %info = alloca ptr
  %code = call i32 @{symbol}(ptr %result, ptr %info, i64 %given, i64 %kept, i64 %count, i64 %kind)
  ret void
}}"""
"""A function of an operation of MPI's around a compiled one."""


@functools.cache
def progress_routines() -> dict[str, int]:
    """The addresses of the functions of Note [Progress] in this process: ``void(int64)``."""
    return load_routines("messages", "the progress of MPI", PROGRESS)


@functools.cache
def half_routines() -> dict[str, int]:
    """The addresses of what combines halves, as MPI calls it."""
    return load_routines("messages", "the halves of MPI", HALVES, ("iiii", OPERATION))
