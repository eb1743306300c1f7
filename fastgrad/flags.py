"""Switches read from the environment, once, when fastgrad is imported.

FASTGRAD_DEBUG=1
    Check the handle of every tensor that Python passes in, poison freed memory, and put guard words around
    buffers.
FASTGRAD_CACHE=<folder>
    Where compiled code is kept; by default a folder of the user's cache.
FASTGRAD_NUM_THREADS=<number>
    On how many threads kernels over many elements run; by default on as many as there are cores.
FASTGRAD_CUDA_SYNC=1
    Wait after each launch on a GPU, so that what goes wrong is raised where it does.
FASTGRAD_PROGRESS_THREAD=0
    Without the thread that makes progress with calls between processes while a program computes.
FASTGRAD_SHARED_MEMORY=0
    Let all that ranks of one machine tell each other go by MPI's messages, also what memory they share would do faster.
"""

from __future__ import annotations

import os


def _is_on(name: str, default: str = "0") -> bool:
    return os.environ.get(name, default) not in ("", "0")


DEBUG: bool = _is_on("FASTGRAD_DEBUG")
CUDA_SYNC: bool = _is_on("FASTGRAD_CUDA_SYNC")
PROGRESS_THREAD: bool = _is_on("FASTGRAD_PROGRESS_THREAD", "1")
SHARED_MEMORY: bool = _is_on("FASTGRAD_SHARED_MEMORY", "1")
CACHE: str | None = os.environ.get("FASTGRAD_CACHE") or None


def _positive(name: str) -> int | None:
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name} must be a positive number, but is {text!r}")
    return int(text)


NUM_THREADS: int | None = _positive("FASTGRAD_NUM_THREADS")
