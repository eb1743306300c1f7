"""The launches of a tape as fusion sees them: what each one needs, makes, and can be."""

from __future__ import annotations

import dis
import functools
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastgrad.compiler.fusion.accesses import (
    Operand,
    Range,
    Reduced,
    is_injective,
    mapping_of,
    operands,
    ranges,
    reduced,
)
from fastgrad.compiler.fusion.codes import can_compile
from fastgrad.kernels.programs import REDUCTIONS
from fastgrad.kernels.schedules import CHEAP
from fastgrad.native.contracts.element_types import (
    BOOL,
    DTYPES,
    FLOAT32,
    FLOATS,
    HALVES,
    INT32,
    INT64,
    UINT8,
    WIDE,
)
from fastgrad.native.contracts.frames import STRIDED
from fastgrad.native.host import devices
from fastgrad.native.host.tape import ReadValue
from fastgrad.ops.dropout import APPLIED

ELEMENTWISE, REDUCTION, COLUMNS, FILL, OTHER, NOTHING = (
    "elementwise",
    "reduction",
    "columns",
    "fill",
    "other",
    "nothing",
)
"""What a launch is: `REDUCTION` one of rows, `COLUMNS` one of columns; `NOTHING` touches no memory."""

FUSIBLE = (ELEMENTWISE, REDUCTION, COLUMNS)

ALONE, SHARE = 1 << 17, 1 << 16
"""Elements from which on a reduction is not fused that threads could not share: one of columns that is not made by
blocks, or one whose rows are more than `SHARE` long and fewer than `FEW_ROWS`; on a GPU, one to fewer
results than `FEW_ROWS_ON_GPU`, or `FEW_COLUMNS_ON_GPU` of columns."""
FEW_ROWS, FEW_ROWS_ON_GPU, FEW_COLUMNS_ON_GPU = 8, 32, 256

REGISTERS = (BOOL, UINT8, INT32, INT64, *FLOATS)
"""Dtypes that fused kernels compute with."""

GPU_RESULTS = (*WIDE, BOOL)
"""Dtypes of what formulas give in fused kernels of GPUs."""
MOST_ON_GPU = (1 << 31) - 1

WHOLE = (BOOL, UINT8, INT32, INT64)
"""Dtypes whose sums are integers of 64 bits."""

LITERALS = (INT32, INT64, *WIDE)
"""Dtypes whose numbers stand in frames as they are in memory."""

ZEROS = -1
"""In place of the dtype of a fill: its bytes are zero."""

_BUILDERS = ("elementwise:build", "copies:build")
_DROPOUTS = ("dropout:forward", "dropout:again")


class Entry:
    """A launch of a tape.

    Attributes
    ----------
    number : int
        Its place on the tape, calls of hooks counted.
    device : int
    what : str
    why : str
        Of `OTHER`, why it cannot be fused.
    ranges : list of Range or None
        Memory that it reads and writes; None where it may be any.
    is_barrier : bool
        Whether what stands before and behind it has to stay there.
    out : Operand
    ins : list of Operand
        Of those that can be fused.
    numel : int
        How many elements an elementwise launch runs over, or a reduction reads.
    length : int
        Of a reduction, how many elements a row has.
    grain : int
        Of a reduction of columns, how many rows become one.
    value : tuple of int
        Of a fill, dtype and bits as in the frame's numbers.
    is_expensive : bool
        Whether its formula is long.
    literals : dict
        Which operands are known numbers by the time, and the number of the fill that wrote them.
    formula : Kernel
        Of an elementwise launch, the row whose formula it computes.
    scale : tuple of int
        Of a dropout, the number that its formula takes besides: dtype and bits as in the frame's numbers.
    mask : Operand or None
        Of a dropout, what it draws before it is computed.
    """

    def __init__(self, number: int, launch: Any) -> None:
        self.number = number
        self.what, self.why = OTHER, ""
        self.ranges: list[Range] | None = None
        self.out: Operand = Operand(0, 0, ())
        self.ins: list[Operand] = []
        self.numel = self.length = self.grain = 0
        self.value = (0, 0)
        self.literals: dict[int, int] = {}
        self.is_expensive = False
        self.scale: tuple[int, int] | None = None
        self.mask: Operand | None = None
        self.device = 0
        self.name, self.is_barrier = "a hook", launch is None
        if launch is None:
            self.why = "a hook is called"
            return
        if isinstance(launch, ReadValue):
            self.name, self.why, self.is_barrier = "a value", "Python reads a value", True
            self.ranges = [Range(launch.address, launch.address + launch.nbytes, True, False)]
            return
        self.kernel, self.form, self.words = launch.kernel, launch.layout_class, launch.words
        self.formula = self.kernel
        self.name = self.kernel.name
        self.dtype = DTYPES.index(launch.dtype)
        self.device = devices.number_named(launch.device)
        self.ranges = ranges(self.kernel, self.dtype, self.form, self.words)
        if self.ranges == []:
            self.what = NOTHING
        elif self.ranges is None:
            self.why = "how far its operands reach is not known"
        elif self.kernel.builder in _DROPOUTS and not launch.code:
            self._dropout()
        elif launch.code or launch.drew:
            self.why = "it draws random numbers" if launch.drew else "it is fused already"
        else:
            self._classify()

    def _classify(self) -> None:
        kernel = self.kernel
        if kernel.name == "constant":
            n, address, value = self.words[:3]
            self._fill(address, n, self.dtype, value)
        elif kernel.name == "zero_fill":
            address, n = self.words[:2]
            self._fill(address, n, ZEROS, 0)
        elif kernel.builder == "reduce:build":
            self._reduction()
        elif kernel.formula is not None and kernel.builder in _BUILDERS:
            self._elementwise()
        else:
            self.why = "it is no elementwise operation and no reduction of rows"

    def _fill(self, address: int, n: int, dtype: int, value: int) -> None:
        self.what, self.value, self.numel = FILL, (dtype, value), n
        self.out = Operand(address, BOOL if dtype == ZEROS else dtype, mapping_of([(n, 1)]))

    def _elementwise(self) -> None:
        out, *ins = operands(self.kernel, self.dtype, self.form, self.words)
        numel = 1
        for size, _ in out.mapping:
            numel *= size
        if self.form == STRIDED and any(o.mapping and o.mapping[0][1] not in (0, 1) for o in (out, *ins)):
            self.why = "neighbours of an operand do not lie side by side"
        elif (out.mapping and out.mapping[0][1] != 1) or not is_injective(out.mapping):
            self.why = "elements of the result do not lie side by side"
        elif any(o.dtype not in REGISTERS for o in (out, *ins)):
            self.why = "no fused kernel computes with its dtype"
        elif self.device and (why := self._why_not_on_gpu(out, ins, numel)):
            self.why = why
        else:
            self.what, self.out, self.ins, self.numel = ELEMENTWISE, out, ins, numel
            self.is_expensive = cost_of(self.kernel) >= EXPENSIVE

    def _dropout(self) -> None:
        """A dropout whose mask is drawn before, or exists."""
        frame = self.kernel.frame()
        draws = self.kernel.builder == "dropout:forward"
        numel = self.words[frame.place("x") + 1]
        mapping = mapping_of([(numel, 1)])
        out, x, mask = (
            Operand(self.words[frame.place(name)], dtype, mapping)
            for name, dtype in (("out", self.dtype), ("x", self.dtype), ("mask", BOOL))
        )
        if draws and out.address == 0:
            self.why = "it draws random numbers"
        elif self.dtype not in WIDE:
            self.why = f"no fused kernel computes dropout of {DTYPES[self.dtype]}"
        elif self.device and (why := self._why_not_compiled(numel)):
            self.why = why
        else:
            self.what, self.out, self.ins, self.numel = ELEMENTWISE, out, [x, mask], numel
            self.formula, self.scale = APPLIED, (self.dtype, self.words[frame.place("scale")])
            self.mask = mask if draws else None

    def _why_not_on_gpu(self, out: Operand, ins: list[Operand], numel: int) -> str:
        """Why no fused kernel of a GPU does what an elementwise launch does, or empty."""
        if out.dtype not in GPU_RESULTS or any(o.dtype in HALVES for o in ins):
            return f"no fused kernel of a GPU computes {DTYPES[out.dtype]} of {DTYPES[ins[0].dtype if ins else 0]}"
        return self._why_not_compiled(numel)

    def _reduction(self) -> None:
        name = self.kernel.options["reduction"]
        whole = name == "sum" and self.dtype in WHOLE
        if name not in REDUCTIONS or not (self.dtype in WIDE or whole):
            self.why = f"no fused kernel computes {name} of {DTYPES[self.dtype]}"
            return
        found: Reduced | None = reduced(self.kernel, self.dtype, self.form, self.words)
        if found is None:
            self.why = "what is reduced lies neither in rows nor in columns"
            return
        frame = self.kernel.frame()
        results, count = (self.words[frame.place(field)] for field in ("results", "count"))
        if self.device and (why := self._why_not_reduced_on_gpu(found, results, count)):
            self.why = why
        elif not found.grain and results < FEW_ROWS and results * count >= ALONE and count > SHARE:
            self.why = "its rows are too few for threads to share them"
        elif found.grain and whole:
            self.why = "no fused kernel adds up columns of integers"
        elif found.grain and name not in ("sum", "mean"):
            self.why = f"no fused kernel computes {name} of columns"
        elif found.grain and not self.device and results == found.length and results * count >= ALONE:
            self.why = "its columns are long and not divided into blocks"
        else:
            self.what = COLUMNS if found.grain else REDUCTION
            self.out, self.ins, self.length, self.grain = found.out, [found.x], found.length, found.grain
            self.numel = results * count

    def _why_not_reduced_on_gpu(self, found: Reduced, results: int, count: int) -> str:
        """Why no fused kernel of a GPU does what a reduction does, or empty."""
        if results < (FEW_COLUMNS_ON_GPU if found.grain else FEW_ROWS_ON_GPU) and results * count >= ALONE:
            what = "columns" if found.grain else "rows"
            return f"its {what} are too few for the blocks of a GPU to share them"
        return self._why_not_compiled(results * count)

    def _why_not_compiled(self, numel: int) -> str:
        """Why no fused kernel of a GPU runs over so many elements, or empty."""
        if numel > MOST_ON_GPU:
            return "fused kernels of GPUs count elements in 32 bits"
        return (
            ""
            if can_compile()
            else "fused kernels of GPUs are compiled by numba-cuda, which is not installed"
        )


EXPENSIVE = 2 * CHEAP
"""Instructions from which on a formula makes a loop that has to be long to be worth it."""


_COSTS = {"maximum": 1, "minimum": 1, "where": 1, "abs": 1, "of_dtype": 1, "logical_and": 1, "whole_power": 1}
"""What functions of formulas cost; others `EXPENSIVE`."""


@functools.cache
def cost_of(kernel: Any) -> int:
    """About how many instructions a formula takes."""
    cost = 1 if kernel.options.get("times_g") else 0
    for step in dis.get_instructions(kernel.formula):
        if step.opname.startswith("BINARY") and step.argrepr in ("/", "//", "%", "**"):
            cost += 8
        elif step.opname.startswith(("BINARY", "UNARY", "COMPARE")):
            cost += 1
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            cost += _COSTS.get(str(step.argval), EXPENSIVE)
        elif step.opname == "LOAD_GLOBAL" and step.argval not in ("m", "c"):
            cost += EXPENSIVE
    return cost


def over_rows(operand: Operand, length: int) -> Operand:
    """An operand with a place for each row, over the elements of rows of a length."""
    return operand._replace(mapping=mapping_of([(length, 0), *operand.mapping]))


def literal_of(fill: Entry, operand: Operand) -> tuple[int, int] | None:
    """The number that an operand over the memory of a fill is, as a dtype and bits; None if it is not known."""
    dtype, bits = fill.value
    if operand.dtype in LITERALS and dtype in (operand.dtype, ZEROS):
        return operand.dtype, bits
    return None


def cast_of(entry: Entry, fill: Entry) -> tuple[int, int] | None:
    """The number that a cast makes of that of a fill, as `Entry.value`; None if it is not known."""
    number = literal_of(fill, entry.ins[0])
    dtype = entry.out.dtype
    if number is None or dtype not in LITERALS:
        return None
    if number[0] not in WIDE and dtype in WIDE:
        value = float(np.float32(number[1]) if dtype == FLOAT32 else np.float64(number[1]))
        (bits,) = struct.unpack("<q", struct.pack("<d", value))
        return dtype, bits
    return (dtype, number[1]) if number[0] in WIDE and dtype in WIDE else None


def entries_of(launches: Sequence[Any]) -> list[Entry]:
    """The launches of a tape, in order."""
    return [Entry(number, launch) for number, launch in enumerate(launches)]
