"""Kernels as declared, and the native table that launches read.

`Kernel` is a row of the kernel table: something that can be compiled for a dtype, a device and a layout class, on first
use.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from fastgrad.kernels.keys import need_values
from fastgrad.native.build.loader import WORDS, runtime_set
from fastgrad.native.contracts.element_types import (
    BOOL,
    COMPLEX,
    DTYPES,
    FLOAT16,
    FLOAT32,
    INT64,
    REAL,
    SELDOM,
)
from fastgrad.native.contracts.frame import AS_COMPLEX, MAX_REACHES, STATUS, UPDATE, Frame
from fastgrad.native.contracts.frames.elementwise import FLAT, FORMULA_FRAMES, INPLACE
from fastgrad.native.contracts.limits import FIRST_GPU, MAX_INPUTS, MAX_KERNELS, N_LAYOUTS, SPLIT_WORDS
from fastgrad.native.contracts.records import RUNTIME
from fastgrad.native.contracts.split import encoded

Builder = Callable[["Kernel", int, int], "tuple[Callable[..., None], dict[str, Any]]"]
KERNELS: list[Kernel] = []
"""The table: a kernel's number is its index."""


class Kernel:
    """A row of the kernel table.

    Parameters
    ----------
    name : str
        Its name, unique; part of the names of cached files.
    builder : str
        ``module:function`` of `fastgrad.kernels.cpu` that makes the Python function to compile for a dtype and a
        layout class, and the options to compile it with; imported on the first compilation only. What else it
        gives goes to `native.build.compiler.compile_unit`, which runs `within` a context.
    formula : callable, optional
        What the builder pastes into the loop. It may read numbers, strings, tuples of them and functions; their values
        are part of the cache's key.
    frame : Frame, optional
        The declaration of what the kernel gets; that of a formula follows from its operands.
    inputs : tuple of str
        Names of a formula's operands.
    elements : dict, optional
        Dtype codes of what lies behind addresses, by the names of their fields or operands, where that is not of the
        kernel's dtype and the frame leaves it open.
    dtypes : tuple of int
        For which dtypes there is such a kernel.
    gpu_dtypes : tuple of int
        For which there is one on GPUs besides.
    cpu_dtypes : tuple of int
        For which there is one on the CPU besides, but none on GPUs.
    forms : tuple of int
        Layout classes in which it is launched.
    hint : str, optional
        What to do where there is none for a dtype.
    listed : bool
        Whether it gets a row; one without is only compiled, to see whether that can be done.
    requires : str, optional
        ``module:function`` to call before the kernel's code is loaded: it makes the symbols visible that the code
        uses, and what it returns is part of the cache's key.
    """

    def __init__(
        self,
        name: str,
        builder: str,
        formula: Callable[..., Any] | None = None,
        *,
        frame: Frame | None = None,
        inputs: tuple[str, ...] = (),
        elements: dict[str, int] | None = None,
        dtypes: tuple[int, ...] = REAL,
        gpu_dtypes: tuple[int, ...] = (),
        cpu_dtypes: tuple[int, ...] = (),
        forms: tuple[int, ...] = (FLAT,),
        hint: str = "",
        requires: str = "",
        listed: bool = True,
        **options: Any,
    ) -> None:
        if listed and len(KERNELS) >= MAX_KERNELS:
            raise RuntimeError(f"kernel table is full ({MAX_KERNELS} rows)")
        if (frame is None) == (formula is None):
            raise TypeError(f"kernel {name!r} needs either a formula or the declaration of its frame")
        if len(inputs) > MAX_INPUTS:
            raise ValueError(
                f"kernel {name!r} has {len(inputs)} operands, but at most {MAX_INPUTS} can be passed"
            )
        self.name = name
        self.builder = builder
        self.formula = formula
        self.inputs = inputs
        self.elements = elements or {}
        self.dtypes = dtypes + cpu_dtypes
        self.gpu_dtypes = gpu_dtypes
        self.cpu_dtypes = cpu_dtypes
        self.forms = forms
        self.hint = hint
        self.requires = requires
        self.options = options
        self._frame = frame
        if formula is not None and _checking:
            check_formula(name, formula)
        self.id = len(KERNELS)
        self._described: set[int] = set()
        if not listed:
            return
        KERNELS.append(self)
        if frame is not None:  # its extents are read by shape rules, before anything is launched
            for form in forms:
                self._describe_extents(form)

    def describe(self, form: int) -> None:
        """Tell the runtime what the words of a frame are: addresses, how far they reach, what may be divided.

        That happens before anything is launched.
        """
        if form in self._described:
            return
        self._describe_extents(form)
        frame = self.frame(form)
        at = self.id * N_LAYOUTS + form
        runtime_set("addresses", _bits_of_addresses(frame), at)
        runtime_set("draws", _word_of_seed(frame), self.id)
        runtime_set("floats", frame.floats, at)
        runtime_set("splits", _place_of_splits(_encoded(frame)), at)
        self._described.add(form)

    def _describe_extents(self, form: int) -> None:
        frame = self.frame(form)
        runtime_set("reports", _place_of_report(frame), self.id)
        for k, reach in enumerate(_reaches(frame)):
            runtime_set("reaches", reach, (self.id * N_LAYOUTS + form) * MAX_REACHES + k)

    def cells(self, device: int = 0) -> list[tuple[int, int]]:
        """All dtypes and layout classes for which it is ever asked on a device."""
        cells = [(dtype, form) for dtype in self.dtypes_on(device) for form in self.forms]
        if "out" in self.elements:  # the result can be written only over an element of its dtype
            result = self.frame().element
            cells = [
                (dtype, form) for dtype, form in cells if form != INPLACE or result("out", dtype) == dtype
            ]
        return cells

    def frame(self, form: int = FLAT) -> Frame:
        """The declaration of what the kernel gets in a layout class."""
        return _frame(self._frame, form, self.inputs, tuple(self.elements.items()))

    def dtypes_on(self, device: int) -> tuple[int, ...]:
        """The dtypes that the kernel exists for on a device."""
        if device < FIRST_GPU:
            return self.dtypes
        there = (code for code in self.dtypes if self._not_on_gpus(code) is None)
        return (*there, *self.gpu_dtypes)

    def _not_on_gpus(self, dtype: int) -> str | None:
        """What it reads or writes, where it is for a dtype, that GPUs have no such kernels for."""
        lacking = (*SELDOM, *self.cpu_dtypes)
        return next((DTYPES[code] for code in (dtype, *self.elements.values()) if code in lacking), None)

    def takes(self, dtype: int, device: int = 0) -> bool:
        """Whether the kernel exists for a dtype on a device."""
        return dtype in self.dtypes_on(device)

    def is_complex(self, dtype: int) -> bool:
        """Whether it reads or writes complex numbers where it is for a dtype."""
        return not {dtype, *self.elements.values()}.isdisjoint((*COMPLEX, AS_COMPLEX))

    def only_wide(self) -> bool:
        """Whether it computes with floats, but has none for halves: see Note [Halves]."""
        return FLOAT32 in self.dtypes and FLOAT16 not in self.dtypes

    def inputs_updated(self) -> set[str]:
        """The operands, by the names in its frame, that it changes."""
        inputs = self.frame().declared.get("inputs")
        return {n for n, f in inputs.singles.items() if f.role == UPDATE} if inputs else set()

    def advice(self, dtype: int, device: int = 0) -> str:
        """What to do with a tensor of a dtype that the kernel does not take."""
        kind = self._not_on_gpus(dtype) if device >= FIRST_GPU and dtype in self.dtypes else None
        if kind is not None:
            return f"GPUs have no {self._such_kernels(dtype)} for {kind}: move the operands to the CPU with .cpu()"
        return self.hint or _conversion(dtype, self.dtypes)

    def _such_kernels(self, dtype: int) -> str:
        return f"kernel {self.name}" if dtype in self.cpu_dtypes else "kernels"

    def need(self, dtype: int, form: int, device: int = 0) -> None:
        """Raise where there is no such kernel: NotImplementedError if it lacks the dtype."""
        if not self.takes(dtype, device):
            raise NotImplementedError(self.advice(dtype, device))
        if (dtype, form) not in self.cells(device):
            raise RuntimeError(f"kernel {self.name!r} is not declared for layout class {form}")


# Many kernels get frames that are alike, and all of this happens while the library is imported.


@functools.cache
def _frame(
    declared: Frame | None, form: int, inputs: tuple[str, ...], elements: tuple[tuple[str, int], ...]
) -> Frame:
    """The declaration of what a kernel gets: that of the kernel, or of a formula with operands of these names."""
    frame = declared
    if frame is None:
        frame = FORMULA_FRAMES[form]
        frame = frame.named(frame.name, splits=frame.splits, inputs=" ".join(inputs))
    return frame.with_elements(dict(elements))


@functools.cache
def _reaches(frame: Frame) -> tuple[int, ...]:
    return tuple(frame.reaches())


@functools.cache
def _encoded(frame: Frame) -> tuple[int, ...]:
    return tuple(encoded(frame))


def _bits_of_addresses(frame: Frame) -> int:
    """A word with a bit for each word of a frame that is an address."""
    bits = sum(1 << place for place in frame.addresses)
    return bits - (1 << 64) if bits >> 63 else bits


@functools.cache
def _place_of_report(frame: Frame) -> int:
    """Which word of a frame is the address of the report; 0 if it reports nothing."""
    return next((frame.place(name) for name, field in frame.declared.items() if field.role == STATUS), 0)


def _word_of_seed(frame: Frame) -> int:
    """Which word is the seed of random numbers, counted from one, before the offset; 0 if there is none."""
    if "seed" not in frame.fields:
        return 0
    if frame.place("offset") != frame.place("seed") + 1:
        raise ValueError(f"frame {frame.name}: the offset has to follow the seed")
    return frame.place("offset")


_next_split_word = itertools.count(1)


@functools.cache
def _place_of_splits(words: tuple[int, ...]) -> int:
    """Where the runtime finds these ways to divide a launch, counted from one; 0 if there are none."""
    places = [next(_next_split_word) for _ in words]
    if not places:
        return 0
    if places[-1] > SPLIT_WORDS:
        raise RuntimeError(f"the ways to divide launches have more than {SPLIT_WORDS} words")
    first = RUNTIME.fields["split_words"][0] - 1
    for place, word in zip(places, words, strict=True):
        WORDS[first + place] = word
    return places[0]


_checking = False  # a test does, for the formulas of this package: it would take a fiftieth of the import


def check_from_now_on() -> None:
    """Refuse formulas whose values no key can hold where they are declared, not where they are compiled."""
    global _checking
    _checking = True


def check_formula(name: str, formula: Any) -> None:
    """Raise TypeError for a formula that reads what no key can hold."""
    try:
        need_values(formula)
    except TypeError as error:
        raise TypeError(
            f"the key of kernel {name!r} cannot hold the value of its formula, {error}: "
            "it may read numbers, strings, tuples of them, functions, and the vocabulary `m` and `c`"
        ) from None


def _conversion(dtype: int, dtypes: tuple[int, ...]) -> str:
    """What to do with a tensor of a dtype that is not among `dtypes`."""
    for other in (INT64, FLOAT32) if dtype == BOOL else (FLOAT32,):
        if other in dtypes:
            return f"convert the operand with .to(fastgrad.{DTYPES[other]}) first"
    return ""
