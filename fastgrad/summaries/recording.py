"""Running a model once to see what it does, and leaving it as it was."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fastgrad import dtypes as dtypes_
from fastgrad.autograd.modes import inference_mode, no_grad
from fastgrad.functions.creation import rand, zeros
from fastgrad.native.build.loader import TensorBase
from fastgrad.native.host.tape import Tape, record
from fastgrad.nn.modules.module import Module
from fastgrad.nn.modules.module_hooks import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from fastgrad.nn.modules.pytree import children, is_container, rebuilt, tensors_in
from fastgrad.nn.parameter import UninitializedTensorMixin
from fastgrad.profiler.products import multiply_adds
from fastgrad.random import fork_rng
from fastgrad.summaries.rows import Lines, Row, nbytes_of, sizes_text
from fastgrad.summaries.tables import Summary

MODES = ("eval", "train", "same")


def summary(
    model: Any,
    input: Any = None,  # noqa: A002 - the name of PyTorch's modules for it
    *,
    kwargs: Mapping[str, Any] | None = None,
    input_size: Any = None,
    dtypes: Any = None,
    device: Any = None,
    mode: str = "eval",
    depth: int = 3,
) -> Summary:
    """Say what a model is made of: its layers with sizes, parameters, multiply-adds, memory and hooks.

    The model is called once, without gradients, on copies of the inputs, with its own hooks. Modes of modules, buffers,
    the states of default generators and hooks are afterwards as before, also after an exception. What `forward` itself
    writes elsewhere, into attributes or parameters, stays. Until the call ends, all that it computes is in memory.

    Parameters
    ----------
    model : Module
    input : Tensor, tuple, list, dict or any, optional
        What it is called with: a tuple or list of positional arguments, a dict of keyword arguments, or the only one.
        Without it and `input_size`, nothing is called, and the table says less.
    kwargs : mapping, optional
        Keyword arguments besides.
    input_size : tuple of int, or list of such, optional
        Instead of `input`: the sizes of the positional arguments, which are drawn, or zeros of dtypes that are not
        floating.
    dtypes : dtype, or list of such, optional
        Of the arguments of `input_size`; by default the default dtype.
    device : device, optional
        Where the arguments of `input_size` are; by default where the model's first parameter is.
    mode : {"eval", "train", "same"}
        In which mode modules are meanwhile, "same" for that in which each one is.
    depth : int
        How far into modules in modules the table goes. The lines above count what it leaves out.

    Returns
    -------
    Summary
        ``print`` shows the table, notebooks too; ``rows`` has the lines.

    Raises
    ------
    TypeError
        If `model` is no module, or an argument is of another type.
    ValueError
        If parameters have no sizes yet (lazy modules), for an unknown mode, or if there is both `input` and
        `input_size`.
    RuntimeError
        Within a capture of a tape.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad import nn
    >>> model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    >>> found = fg.summary(model, fg.ones(4, 8))
    >>> print(found)  # doctest: +NORMALIZE_WHITESPACE
    Layer        Input    Output   Parameters  Mult-adds  Memory  Hooks
    ───────────────────────────────────────────────────────────────────
    Sequential   [4, 8]   [4, 2]          178        640    32 b      -
      0: Linear  [4, 8]   [4, 16]         144        512   256 b      -
      1: ReLU    [4, 16]  [4, 16]           -          -   256 b      -
      2: Linear  [4, 16]  [4, 2]           34        128    32 b      -
    ───────────────────────────────────────────────────────────────────
    178 parameters: 178 trainable, 0 frozen
    640 multiply-adds
    Memory: inputs 128 b, outputs of layers 544 b, parameters 712 b, buffers 0 b
    >>> found.multiply_adds, [row.path for row in found.rows]
    (640, ['', '0', '1', '2'])
    """
    _checked(model, mode, depth)
    lines = Lines(model)
    args, named, given = _arguments(model, input, kwargs, input_size, dtypes, device)
    seen: _Watch | None = None
    if given:
        seen = _Watch(lines)
        seen.run(mode, args, named)
    lines.add_rest()
    lines.count()
    inputs = nbytes_of(tensors_in((args, dict(named))))
    return Summary(lines.root, depth, given, inputs, sum(seen.outputs.values()) if seen else 0)


def _checked(model: Any, mode: Any, depth: Any) -> None:
    if not isinstance(model, Module):
        raise TypeError(
            f"summary(): model must be an nn.Module, but got {type(model).__name__}; wrap a function in a module "
            "whose forward calls it"
        )
    if mode not in MODES:
        raise ValueError(f"summary(): mode must be one of {', '.join(map(repr, MODES))}, but got {mode!r}")
    if isinstance(depth, bool) or not isinstance(depth, int):
        raise TypeError(f"summary(): depth must be an int, but got {type(depth).__name__}")
    if depth < 0:
        raise ValueError(f"summary(): depth must not be negative, but got {depth}")
    for path, module in model.named_modules():
        for name, held in itertools.chain(module._parameters.items(), module._buffers.items()):
            if isinstance(held, UninitializedTensorMixin):
                where = f"{path}.{name}" if path else name
                raise ValueError(
                    f"summary(): {where} has no sizes yet: calling the lazy module would make it, which changes the "
                    "model; call it once before"
                )


# --- arguments -------------------------------------------------------------------------------------------------------


def _arguments(
    model: Any, value: Any, kwargs: Any, input_size: Any, dtypes: Any, device: Any
) -> tuple[tuple[Any, ...], Mapping[str, Any], bool]:
    """What the model is called with, and whether it is called at all."""
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise TypeError(f"summary(): kwargs must be a mapping, but got {type(kwargs).__name__}")
    named = dict(kwargs or {})
    if input_size is not None:
        if value is not None:
            raise ValueError("summary(): input and input_size say the same: give one of them")
        return tuple(_drawn(model, input_size, dtypes, device)), named, True
    if dtypes is not None or device is not None:
        raise ValueError(
            "summary(): dtypes and device are those of input_size; tensors of input have their own"
        )
    if isinstance(value, Mapping):
        return (), {**value, **named}, True
    if isinstance(value, (tuple, list)):
        return tuple(value), named, True
    return (() if value is None else (value,)), named, value is not None or bool(named)


def _drawn(model: Any, input_size: Any, dtypes: Any, device: Any) -> Iterator[Any]:
    several = _sizes(input_size)
    kinds = list(dtypes) if isinstance(dtypes, (tuple, list)) else [dtypes] * len(several)
    if len(kinds) != len(several):
        raise ValueError(f"summary(): there are {len(several)} input sizes and {len(kinds)} dtypes")
    if device is None:
        device = next((p.device for p in model.parameters()), None)
    with fork_rng():
        for shape, kind in zip(several, kinds, strict=True):
            kind = dtypes_.get_default_dtype() if kind is None else kind
            if not isinstance(kind, dtypes_.dtype):
                raise TypeError(f"summary(): dtypes must be dtypes, but got {type(kind).__name__}")
            make = rand if kind.is_floating_point or kind.is_complex else zeros
            yield make(*shape, dtype=kind, device=device)


def _sizes(input_size: Any) -> list[Sequence[int]]:
    """Sizes of one argument or of several ones, as a list of them."""
    if isinstance(input_size, (tuple, list)):
        if all(isinstance(n, int) for n in input_size):
            return [input_size]
        if all(isinstance(s, (tuple, list)) and all(isinstance(n, int) for n in s) for s in input_size):
            return list(input_size)
    raise TypeError("summary(): input_size must be a tuple of int, or a list of such tuples")


def _copied(value: Any, above: tuple[int, ...] = ()) -> Any:
    """A value with copies of its tensors, so that a change in place does not reach those of the caller.

    A container inside of itself is not entered a second time.
    """
    if isinstance(value, TensorBase):
        return value.detach().clone().requires_grad_(value.requires_grad)  # type: ignore[attr-defined]
    if is_container(value) and id(value) not in above and any(True for _ in tensors_in(value)):
        return rebuilt(value, [_copied(inner, (*above, id(value))) for inner in children(value)])
    return value


# --- the call --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _unchanged(model: Any, mode: str) -> Iterator[None]:
    """A block after which modes, buffers and random states of a model are as before."""
    modules = list(model.modules())
    before = [(module, module.training, dict(module._buffers)) for module in modules]
    buffers = {id(b): b for _, _, held in before for b in held.values() if b is not None}
    values = [(b, b.data, _apart(b.data).clone()) for b in buffers.values()]  # `data` counts no versions
    try:
        with fork_rng():
            if mode != "same":
                for module in modules:  # not by train(): programs give it effects of its own
                    module.training = mode == "train"
            yield
    finally:
        for module, training, held in before:
            module.training = training
            module._buffers.clear()
            module._buffers.update(held)
        for buffer, whole, copy in values:
            with inference_mode(buffer.is_inference()), no_grad():
                buffer.data = whole  # `forward` may have given it another size or memory
                found = _apart(whole)
                if not _same(found, copy):  # what did not change may lie where nobody can write
                    found.copy_(copy)


def _same(a: Any, b: Any) -> bool:
    """Whether two tensors have the same values, NaN in the same places."""
    return bool(((a == b) | ((a != a) & (b != b))).all())


def _apart(values: Any) -> Any:
    """The elements of a tensor, those that lie over each other once: what is expanded cannot be written."""
    for dim, (size, stride) in enumerate(zip(values.shape, values.stride(), strict=True)):
        if size > 1 and stride == 0:
            values = values.narrow(dim, 0, 1)
    return values


class _Watch:
    """What sees the calls of modules, and how many launches there were before and after each.

    Parameters
    ----------
    lines : Lines

    Attributes
    ----------
    outputs : dict
        The bytes of what modules give, by where it lies: nothing of it is freed before the end.
    """

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.outputs: dict[int, int] = {}
        self._open: list[tuple[Row, int, BaseException | None]] = []
        self._spans: list[tuple[Row, int, int]] = []
        self._thread = threading.get_ident()
        self._tape: Tape
        self._noted: BaseException | None = None

    def run(self, mode: str, args: Sequence[Any], named: Mapping[str, Any]) -> None:
        """Call the model on copies of arguments, and note what happens."""
        model = self.lines.root.module
        # Nothing is touched before the tape is there, of which threads have one at a time.
        with record() as self._tape, _unchanged(model, mode), no_grad():
            args, named = _copied(args), _copied(named)
            with (
                register_module_forward_pre_hook(self._begins),
                register_module_forward_hook(self._ends, with_kwargs=True, always_call=True),
            ):
                model(*args, **named)
        counts = [multiply_adds(launch) or 0 for launch in self._tape]
        sums = [0, *itertools.accumulate(counts)]
        for row, first, last in self._spans:
            row.multiply_adds += sums[last] - sums[first]

    def _mine(self, module: Any) -> bool:
        return threading.get_ident() == self._thread and id(module) in self.lines.paths

    def _begins(self, module: Any, args: Any) -> None:
        if self._mine(module):
            row = self.lines.of(self._open[-1][0], module) if self._open else self.lines.root
            self._open.append((row, self._tape.launches, sys.exception()))

    def _ends(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        if not self._mine(module):
            return
        while True:  # calls that Ctrl-C ended, which `forward` caught, have no end of their own
            row, first, handled = self._open.pop()
            if row.module is module:
                break
        error = sys.exception()
        if error is not None and error is not handled:  # the call has failed
            if error is not self._noted:
                error.add_note(f"summary(): this happened in {row.path or 'the model'} ({row.kind})")
                self._noted = error
            return
        self._spans.append((row, first, self._tape.launches))
        if not row.calls:
            given = [value for value in (*args, *kwargs.values()) if any(True for _ in tensors_in(value))]
            row.input = sizes_text(given[0] if len(given) == 1 else tuple(given))
            row.output = sizes_text(output)
        row.calls += 1
        found = list(tensors_in(output))
        row.output_nbytes += nbytes_of(found)
        for t in found:
            if t.numel():
                self.outputs[t.data_ptr()] = max(self.outputs.get(t.data_ptr(), 0), nbytes_of([t]))
