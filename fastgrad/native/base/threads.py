"""Threads of the operating system, and memory that they share. None of them ever touches an object of Python's."""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from fastgrad.native.base.intrinsics import I64, extern, native, stack_small, words

INT = types.int32
_LL64 = ir.IntType(64)

thread_create = extern("pthread_create", INT, I64, I64, I64, I64)
thread_join = extern("pthread_join", INT, I64, I64)
thread_signals = extern("pthread_sigmask", INT, INT, I64, I64)
mutex_init = extern("pthread_mutex_init", INT, I64, I64)
mutex_lock = extern("pthread_mutex_lock", INT, I64)
mutex_unlock = extern("pthread_mutex_unlock", INT, I64)
condition_init = extern("pthread_cond_init", INT, I64, I64)
condition_wait = extern("pthread_cond_wait", INT, I64, I64)
condition_wake_all = extern("pthread_cond_broadcast", INT, I64)
sched_yield = extern("sched_yield", INT)

SIGNAL_SET_WORDS = 16  # of a sigset_t, or more
BLOCK = 1 if platform.system() == "Darwin" else 0  # SIG_BLOCK


def start_routine(name: str) -> Any:
    """The address of a function that a thread may begin with: an entry of kind ``thread``."""

    @intrinsic
    def address(context: Any) -> Any:
        def codegen(_context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
            kind = ir.FunctionType(_LL64, [_LL64])
            function = cgutils.get_or_insert_function(builder.module, kind, f"fastgrad_{name}")
            return builder.ptrtoint(function, _LL64)

        return I64(), codegen

    return address


@native
def block_signals():
    """Leave all signals to the other threads: Python handles them in its main thread."""
    everything = stack_small()
    for k in range(SIGNAL_SET_WORDS):
        words(everything)[k] = -1
    thread_signals(BLOCK, everything, 0)


# --- atomics: all in one order that every thread sees ---------------------------------------------------------


def _word(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, _LL64.as_pointer())


@intrinsic
def atomic_load(context: Any, address: Any) -> Any:
    """The word at an address."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.load_atomic(_word(builder, args[0]), "seq_cst", 8)

    return I64(I64), codegen


@intrinsic
def atomic_store(context: Any, address: Any, value: Any) -> Any:
    """Write the word at an address."""

    def codegen(inner: Any, builder: Any, _signature: Any, args: Any) -> Any:
        builder.store_atomic(args[1], _word(builder, args[0]), "seq_cst", 8)
        return inner.get_dummy_value()

    return types.void(I64, I64), codegen


@intrinsic
def atomic_add(context: Any, address: Any, value: Any) -> Any:
    """Add to the word at an address; what it was before."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _word(builder, args[0]), args[1], "seq_cst")

    return I64(I64, I64), codegen


@intrinsic
def atomic_take(context: Any, address: Any) -> Any:
    """Make the word at an address 1; what it was before."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("xchg", _word(builder, args[0]), ir.Constant(_LL64, 1), "seq_cst")

    return I64(I64), codegen


@intrinsic
def pause(context: Any) -> Any:
    """Wait a moment in a loop that looks for a change, without standing in the way of the core's other thread."""

    def codegen(inner: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        arm = platform.machine().lower() in ("aarch64", "arm64")
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(32)] if arm else [])
        name = "llvm.aarch64.hint" if arm else "llvm.x86.sse2.pause"
        builder.call(
            cgutils.get_or_insert_function(builder.module, kind, name), [kind.args[0](1)] if arm else []
        )
        return inner.get_dummy_value()

    return types.void(), codegen
