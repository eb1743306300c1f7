"""What the compiler makes of optimizer steps for GPUs: an element is computed alike wherever it lies."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from cuda_compiling import assembled, facts, needs_compiler

from fastgrad.kernels.cuda.optim import AT_ONCE, EACH
from fastgrad.native.contracts.element_types import DTYPES, FLOAT32, FLOAT64
from fastgrad.native.contracts.frames.elementwise import FLAT
from fastgrad.ops.kernel_table import KERNELS

STEPS = [kernel.name for kernel in KERNELS if kernel.builder == "optim:step"]
OTHERS = ("norm_part", "scale", "unscale", "clip")
DEPTH = 8  # of the expressions that are compared


def ptx_of(name: str, dtype: int = FLOAT32) -> str:
    text = assembled(name, dtype, FLAT, "sm_90").ptx
    return text[text.index(".visible .entry") :]


def expressions(ptx: str) -> Counter[str]:
    """How elements that are stored were computed from what was loaded, and how often so."""
    operations, loaded = {}, set()
    for name, target, arguments in re.findall(r"([a-z][\w.]+)\s+(%f\d+|\{[^}]*\}), (.*);", ptx):
        if name.startswith("ld."):
            loaded.update(re.findall(r"%f\d+", target))
        else:
            operations.setdefault(target, (name, arguments))

    def text(register: str, depth: int) -> str:
        if register in loaded or not re.fullmatch(r"%f\d+", register):
            return "x" if register in loaded else "p"
        name, arguments = operations[register]
        if depth == 0:
            return name
        texts = [text(a.strip(), depth - 1) for a in arguments.split(",")]
        if name.startswith(("mul", "fma")):
            texts[:2] = sorted(texts[:2])
        return f"{name}({', '.join(texts)})"

    stored = re.findall(r"st\.global\.v[24]\.f32\s+\[.*\], \{(.*)\};", ptx) + re.findall(
        r"st\.global\.f32\s+\[.*\], (%f\d+);", ptx
    )
    return Counter(text(r, DEPTH) for group in stored for r in re.findall(r"%f\d+", group))


@needs_compiler
@pytest.mark.parametrize("name", [name for name in STEPS if name != "asgd_rate"])
def test_an_element_is_computed_alike_wherever_it_lies(name):
    # By accesses of 16 bytes, by single ones, and alone: each expression stands in the code as often as that.
    each = EACH + AT_ONCE + 1
    found = {text: n for text, n in expressions(ptx_of(name)).items() if "(" in text and "f64" not in text}
    counting = {"add.f32(x, p)"}  # the number of steps, which is a float32 as well
    assert found
    assert {text: n for text, n in found.items() if n % each and text not in counting} == {}


@needs_compiler
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=DTYPES.__getitem__)
def test_reads_of_16_bytes_are_under_way_together(dtype):
    ptx, kind = ptx_of("adam_step", dtype), {FLOAT32: "v4.f32", FLOAT64: "v2.f64"}[dtype]
    accesses = [m.group() for m in re.finditer(rf"(ld|st)\.global\.{kind}", ptx)]
    runs = re.findall(rf"(?:ld\.global\.{kind} )+", " ".join(accesses) + " ")
    assert [run.count("ld") for run in runs] == [AT_ONCE * 4, AT_ONCE * 5] or [
        run.count("ld") for run in runs
    ] == [AT_ONCE * 5, AT_ONCE * 4]


@needs_compiler
def test_groups_are_found_among_the_parameters():
    ptx = ptx_of("scale")
    assert re.search(r"\.param \.align 8 \.b8 fastgrad_scale_param_\d+\[\d+\]", ptx)
    assert ".local" not in ptx


@needs_compiler
@pytest.mark.parametrize("name", [*STEPS, *OTHERS])
def test_nothing_is_spilled_in_float64(name):
    found = facts(assembled(name, FLOAT64, FLAT, "sm_90"))
    assert (found.stack, found.spilled, found.divisions, found.external) == (0, 0, 0, 0)
