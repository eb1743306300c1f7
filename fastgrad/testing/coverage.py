"""How much of PyTorch's own table of ops, and of its names, works here: ``python -m fastgrad.testing.coverage``.

Needs PyTorch (and expecttest, which its table imports). Each op of the table runs on its samples, here and there:
values, and gradients where the op has them. An op is complete if all its samples agree.

``--write`` keeps the totals in a file, ``--baseline`` fails where one is lower than there, and ``--readme`` writes the
table of a file of totals into a page, between two comments.
"""

from __future__ import annotations

import argparse
import builtins
import dataclasses
import functools
import importlib
import json
import multiprocessing
import sys
import types
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import fastgrad as fg
from fastgrad.functions.creation import tensor
from fastgrad.module_names import is_torch
from fastgrad.native.host.threads import usable_processors
from fastgrad.testing.comparison import assert_close

MOST_SAMPLES = 24
"""Of an op: of more, as many are taken, evenly."""
_SPACES = (
    "",
    "Tensor",
    "nn",
    "nn.functional",
    "linalg",
    "special",
    "fft",
    "optim",
    "nn.init",
    "nn.utils",
    "autograd",
)
_LEFT_OUT = ("_", "torch.ops", "jiterator", "sparse.", "to_sparse", "masked.")
_REFLECTED = "__"
_TABLES = "torch.testing._internal"
_UNSETTLED = (
    "empty", "rand", "bernoulli", "multinomial", "normal", "dropout", "rrelu", "fractional", "uniform",
    "scaled_dot_product_attention", "multi_head_attention_forward",
)  # fmt: skip
"""Words in names of ops whose values are random, or not set: only sizes and dtypes are compared."""
_DRAWN = ("cauchy", "exponential", "geometric")
"""Whole names of such ops."""
_FEW_DIGITS = ("special.bessel_", "special.airy_ai")
"""Beginnings of names of ops whose values PyTorch itself has in seven digits."""
SLACK = {"samples": 25, "gradients": 10, "ops that are right on all samples": 5}
"""By how much totals may be lower than a baseline: signs of singular vectors, for one, depend on the processor."""
_BEGIN, _END = "<!-- what of PyTorch there is: written by fastgrad.testing.coverage -->", "<!-- end -->"

Totals = dict[str, tuple[int, int]]
"""Of each count, how many there are here, and how many there are in PyTorch (for kernels: on the CPU)."""


class Outcome(NamedTuple):
    """What became of an op.

    Attributes
    ----------
    name : str
        That of the table, with its variant.
    exists : bool
    samples, right : int
        How many samples ran in PyTorch, and how many gave the same here.
    gradients, right_gradients : int
        The same of gradients.
    why : str
        What the first sample that failed said.
    """

    name: str
    exists: bool
    samples: int = 0
    right: int = 0
    gradients: int = 0
    right_gradients: int = 0
    why: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether all that ran was right."""
        return self.exists and self.samples == self.right and self.gradients == self.right_gradients


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise SystemExit(
            "fastgrad.testing.coverage: PyTorch is needed to compare with: pip install torch"
        ) from None


def table() -> list[Any]:
    """PyTorch's table of ops, without private, sparse and masked ones and those of GPUs alone."""
    _torch()
    try:
        module = importlib.import_module("torch.testing._internal.common_methods_invocations")
    except ImportError as error:
        raise SystemExit(f"fastgrad.testing.coverage: PyTorch's table needs more: {error}") from None
    found = module.op_db
    return [op for op in found if op.name.startswith(_REFLECTED) or not op.name.startswith(_LEFT_OUT)]


# --- from there to here ----------------------------------------------------------------------------------------


def function_of(name: str) -> Any:
    """The function of a name of the table here, None if there is none."""
    place: Any = fg
    for part in name.split("."):
        place = getattr(place, part, None)
        if place is None:
            break
    return place if callable(place) else getattr(fg.Tensor, name, None)


def call_of(op: Any) -> Any:
    """How an op of the table is called here, None if it does not exist.

    Where the table holds a function of Python's that calls PyTorch, as it does for methods and for other orders of
    arguments, that is the same function, with fastgrad in the place of PyTorch; where it holds a native function,
    that of `fastgrad.ops`.
    """
    named = function_of(op.name) or function_of(f"{op.name}_")
    if isinstance(op.op, types.FunctionType) and op.op.__module__.startswith(_TABLES):
        return _translated(op.op) if named or _native(op.name) else None
    return named if named and not op.name.endswith("_backward") else _native(op.name)


def _native(name: str) -> Any:
    """The function of ``fastgrad.ops.aten`` of a name, None if there is none."""
    return getattr(fg.ops.aten, name, None)


def _translated(value: Any) -> Any:
    """A module or a function of PyTorch's table, with fastgrad in the place of PyTorch; anything else as it is."""
    if isinstance(value, types.ModuleType) and is_torch(value.__name__):
        return functools.reduce(getattr, value.__name__.split(".")[1:], fg)
    if isinstance(value, functools.partial):
        return functools.partial(_translated(value.func), *value.args, **value.keywords)
    if not isinstance(value, types.FunctionType) or not value.__module__.startswith(_TABLES):
        return value
    known = {name: value.__globals__[name] for name in _names_in(value.__code__) if name in value.__globals__}
    cells = tuple(types.CellType(_translated(cell.cell_contents)) for cell in value.__closure__ or ())
    scope = {"__builtins__": builtins, **{name: _translated(found) for name, found in known.items()}}
    made = types.FunctionType(value.__code__, scope, value.__name__, value.__defaults__, cells)
    made.__kwdefaults__ = value.__kwdefaults__
    return made


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names_in(inner)


def here(value: Any, requires_grad: bool) -> Any:
    """An argument of PyTorch's as one of fastgrad's: with its own memory, and tensors as leaves."""
    torch = _torch()
    if isinstance(value, torch.Tensor):
        made: Any = _tensor_here(value.detach())
        return made.requires_grad_(True) if requires_grad and value.requires_grad else made
    if isinstance(value, torch.dtype):
        return getattr(fg, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, (torch.memory_format, torch.layout)):
        return getattr(fg, str(value).removeprefix("torch."))
    if isinstance(value, torch.Size):
        return fg.Size(value)
    if isinstance(value, (list, tuple)):
        items = [here(item, requires_grad) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: here(item, requires_grad) for key, item in value.items()}
    if isinstance(value, torch.nn.Module):  # a distance, without parameters
        return getattr(fg.nn, type(value).__name__)()
    if dataclasses.is_dataclass(value) and type(value).__module__.startswith("torch.nn"):
        options = {f.name: here(getattr(value, f.name), False) for f in dataclasses.fields(value)}
        return getattr(fg.nn, type(value).__name__)(**options)
    return value


def _tensor_here(t: Any) -> Any:
    dtype = getattr(fg, str(t.dtype).removeprefix("torch."))
    wide = t.float() if str(t.dtype) in ("torch.bfloat16", "torch.float16") else t
    strides = wide.stride()
    dense: Any = tensor(wide.contiguous().resolve_conj().numpy().copy()).to(dtype)
    order = sorted(range(t.dim()), key=lambda d: -strides[d])
    if order != list(range(t.dim())) and 0 not in strides:  # in memory as there
        back = [order.index(d) for d in range(t.dim())]
        dense = dense.permute(*order).contiguous().permute(*back)
    return dense


def _floats(value: Any) -> Iterator[Any]:
    """The floating tensors in arguments or results, as they come."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _floats(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _floats(item)
    elif hasattr(value, "requires_grad"):
        yield value


def _plain(value: Any) -> Any:
    """Results of either library as NumPy's arrays and Python's values."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if hasattr(value, "detach"):
        wide = value.detach().float() if "float16" in str(value.dtype) else value.detach()
        return wide.contiguous().resolve_conj().resolve_neg().numpy(force=True).copy()
    return (
        str(value).replace("torch.", "fastgrad.")
        if not isinstance(value, (int, float, bool, type(None)))
        else value
    )


def _sizes(value: Any) -> Any:
    """Results without what they hold."""
    if isinstance(value, (list, tuple)):
        return [_sizes(item) for item in value]
    return list(value.shape) if hasattr(value, "shape") else type(value).__name__


# --- one op ----------------------------------------------------------------------------------------------------


def _dtype_for(op: Any) -> Any:
    torch = _torch()
    kinds = (torch.float64, torch.float32, torch.complex128, torch.int64, torch.bool)
    return next((d for d in kinds if d in op.dtypes), None)


def _samples(op: Any, dtype: Any, grads: bool) -> list[Any]:
    found = list(op.sample_inputs("cpu", dtype, requires_grad=grads))
    step = max(len(found) / MOST_SAMPLES, 1)
    return [found[int(k * step)] for k in range(min(len(found), MOST_SAMPLES))]


def run(op: Any) -> Outcome:
    """Run an op of the table on its samples."""
    torch = _torch()
    function = call_of(op)
    if function is None:
        return Outcome(op.full_name, exists=False)
    dtype = _dtype_for(op)
    if dtype is None:
        return Outcome(op.full_name, exists=True, why="no dtype that exists here")
    grads = bool(op.supports_autograd) and (dtype.is_floating_point or dtype.is_complex)
    counts, why = [0, 0, 0, 0], ""
    for sample in _samples(op, dtype, grads):
        torch.manual_seed(0)
        try:
            wanted = op(sample.input, *sample.args, **sample.kwargs)
        except Exception:  # noqa: BLE001 - a sample that PyTorch itself refuses says nothing
            continue
        counts[0] += 1
        arguments = (sample.input, *sample.args)
        ours, more = here(arguments, grads), here(sample.kwargs, grads)
        try:
            found = function(*ours, **more)
            wanted, found = _settled(sample, wanted, found)
            ours_plain, theirs_plain = _plain(found), _plain(wanted)
            if _is_unsettled(op.name, sample.kwargs):
                ours_plain, theirs_plain = _sizes(ours_plain), _sizes(theirs_plain)
            atol = 1e-5 if op.name.startswith(_FEW_DIGITS) else 1e-7
            assert_close(ours_plain, theirs_plain, rtol=1e-6, atol=atol, equal_nan=True, check_dtype=False)
            counts[1] += 1
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is what is asked for
            why = why or _said(error)
            continue
        if grads and not _is_unsettled(op.name, sample.kwargs):
            tried, right, said = _gradients(wanted, found, (arguments, sample.kwargs), (ours, more))
            counts[2] += tried
            counts[3] += right
            why = why or said
    return Outcome(op.full_name, True, counts[0], counts[1], counts[2], counts[3], why)


def _is_unsettled(name: str, named: dict[str, Any]) -> bool:
    """Whether values are random; those of low rank are where what is subtracted (`M`) leaves more than that rank."""
    drawn = name in _DRAWN or (name == "svd_lowrank" and named.get("M") is not None)
    return drawn or any(word in name for word in _UNSETTLED)


def _settled(sample: Any, wanted: Any, found: Any) -> tuple[Any, Any]:
    """What the table compares of results: of vectors whose signs are free, for one, what does not depend on them."""
    settle = sample.output_process_fn_grad
    if not isinstance(settle, types.FunctionType):
        return wanted, found
    return settle(wanted), _translated(settle)(found)


def _said(error: Exception) -> str:
    """What an error says, in one line."""
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


def _gradients(wanted: Any, found: Any, there: Any, ours: Any) -> tuple[int, int, str]:
    """Whether gradients of a result are the same: how many were tried, how many right, and what was wrong."""
    torch = _torch()
    outs = [t for t in _floats(wanted) if t.requires_grad]
    leaves = [t for t in _floats(there) if t.requires_grad]
    if not outs or not leaves:
        return 0, 0, ""
    seeds = [_seed(t) for t in outs]
    try:
        right = torch.autograd.grad(outs, leaves, seeds, allow_unused=True)
    except RuntimeError:
        return 0, 0, ""
    try:
        mine = [t for t in _floats(found) if t.requires_grad]
        own_leaves = [t for t in _floats(ours) if t.requires_grad]
        got = fg.autograd.grad(mine, own_leaves, [_tensor_here(s) for s in seeds], allow_unused=True)
        assert_close(_plain(list(got)), _plain(list(right)), rtol=1e-5, atol=1e-6, equal_nan=True)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is what is asked for
        return 1, 0, f"gradient: {_said(error)}"
    return 1, 1, ""


def _seed(t: Any) -> Any:
    """A gradient for a tensor of PyTorch's, other for each element."""
    torch = _torch()
    ramp = torch.linspace(0.5, 1.5, t.numel(), dtype=t.real.dtype).reshape(t.shape)
    return torch.complex(ramp, 2 - ramp) if t.is_complex() else ramp


def _run_number(k: int) -> Outcome:
    warnings.simplefilter("ignore")
    return run(table()[k])


def _one_thread() -> None:
    _torch().set_num_threads(1)
    fg.set_num_threads(1)


def run_all(only: str = "", jobs: int | None = None) -> list[Outcome]:
    """Run the ops of the table whose names hold a text, in several processes."""
    numbers = [k for k, op in enumerate(table()) if only in op.full_name]
    jobs = min(jobs or len(usable_processors()), len(numbers))
    if jobs <= 1:
        return [_run_number(k) for k in numbers]
    with multiprocessing.get_context("spawn").Pool(jobs, _one_thread) as pool:
        return pool.map(_run_number, numbers, chunksize=4)


# --- names -----------------------------------------------------------------------------------------------------


def names() -> dict[str, tuple[int, int]]:
    """Of each namespace, how many of PyTorch's public names exist here, and how many there are."""
    torch = _torch()
    found = {}
    for space in _SPACES:
        there, ours = torch, fg
        for part in filter(None, space.split(".")):
            there, ours = getattr(there, part), getattr(ours, part, None)  # type: ignore[assignment]
        public = [n for n in dir(there) if not n.startswith("_")]
        found[space or "torch"] = sum(hasattr(ours, n) for n in public), len(public)
    return found


def kernels() -> tuple[int, int]:
    """How many of the declared kernels exist for GPUs, and how many there are."""
    from fastgrad.kernels.cuda.compile import lacking
    from fastgrad.ops.kernel_table import KERNELS

    return len(KERNELS) - len(lacking(KERNELS)), len(KERNELS)


def summary(outcomes: list[Outcome]) -> Totals:
    """Totals, as a baseline holds them."""
    return {
        "ops that exist": (sum(o.exists for o in outcomes), len(outcomes)),
        "ops that are right on all samples": (sum(o.is_complete for o in outcomes), len(outcomes)),
        "samples": (sum(o.right for o in outcomes), sum(o.samples for o in outcomes)),
        "gradients": (sum(o.right_gradients for o in outcomes), sum(o.gradients for o in outcomes)),
        "kernels for GPUs": kernels(),
        **{f"names of {space}": counts for space, counts in names().items()},
    }


def main(argv: list[str] | None = None) -> int:
    """Print the table; with a baseline, 1 if a total is lower than there."""
    parser = argparse.ArgumentParser(
        prog="python -m fastgrad.testing.coverage", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--only", default="", help="ops whose name holds this text")
    parser.add_argument("--missing", action="store_true", help="list ops that do not exist")
    parser.add_argument("--wrong", action="store_true", help="list ops with samples that differ, and why")
    parser.add_argument("--jobs", type=int, help="processes; by default one for each core")
    parser.add_argument("--baseline", type=Path, help="a file of totals: none may be lower")
    parser.add_argument("--write", type=Path, help="write the totals to a file")
    parser.add_argument("--readme", type=Path, help="write the table of --baseline into a page; runs nothing")
    options = parser.parse_args(argv)
    if options.readme:
        if not options.baseline:
            parser.error("--readme needs --baseline, the file of totals that it writes of")
        options.readme.write_text(with_table(options.readme.read_text(), _read(options.baseline)))
        return 0
    outcomes = run_all(options.only, options.jobs)
    for o in outcomes:
        if options.missing and not o.exists:
            print(f"missing  {o.name}")
        if options.wrong and o.exists and not o.is_complete:
            counts = f"{o.right}/{o.samples} values, {o.right_gradients}/{o.gradients} gradients"
            print(f"differs  {o.name}: {counts}; {o.why}")
    totals = summary(outcomes)
    for name, (there, of) in totals.items():
        print(f"{name}: {there} of {of}")
    if options.write:
        options.write.write_text(json.dumps(totals, indent=1) + "\n")
    lower = _lower(totals, _read(options.baseline)) if options.baseline else []
    for line in lower:
        print(line, file=sys.stderr)
    return int(bool(lower))


def _read(file: Path) -> Totals:
    return {name: (there, of) for name, (there, of) in json.loads(file.read_text()).items()}


def _lower(totals: Totals, kept: Totals) -> list[str]:
    """What is lower than a baseline says."""
    found = {name: totals.get(name, (0, 0))[0] for name in kept}
    least = {name: n - SLACK.get(name, 0) for name, (n, _) in kept.items()}
    return [f"{name}: {found[name]}, was {n}" for name, (n, _) in kept.items() if found[name] < least[name]]


def with_table(page: str, totals: Totals) -> str:
    """A page with the table of some totals in the place that its comments mark; ValueError if it has none."""
    rows = [f"| {name} | {there:,} of {of:,} |" for name, (there, of) in totals.items()]
    return with_lines(page, _BEGIN, ["| | |", "| --- | --- |", *rows])


def with_lines(page: str, mark: str, lines: Sequence[str]) -> str:
    """A page with lines between a comment that marks the place and the next one that ends it.

    Raises
    ------
    ValueError
        If the page has no such place.
    """
    before, begin, rest = page.partition(mark)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"the page has no place for the table: {mark} and {_END}")
    return "\n".join([before + begin, *lines, end + after])


if __name__ == "__main__":
    sys.exit(main())
