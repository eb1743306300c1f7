"""The integers of a call in compiled code: for each declaration a function of its name that casts a pointer to them.

``of = integers.sliced(attrs)``, then ``of.step`` is a word, and ``of.rest`` the pointer to what stands behind those
that have names.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from fastgrad.native.base.intrinsics import RecordType
from fastgrad.native.contracts.integers import INTEGERS, Integers


def _caster(record: Integers) -> Any:
    named = RecordType(record)

    def cast(context: Any, attrs: Any) -> Any:
        def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.ptrtoint(args[0], ir.IntType(64))

        return named(attrs), codegen

    cast.__name__ = record.name
    return intrinsic(cast)


vars().update((record.name.rpartition(".")[2], _caster(record)) for record in INTEGERS)
