"""What a declaration of an op on arrays says: shapes by names, dtypes, and the parameters of its function."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from types import FunctionType
from typing import Any

from fastgrad import dtypes
from fastgrad.library.names import TAKEN
from fastgrad.native.contracts.element_types import DISCRETE, WITHOUT_HALVES
from fastgrad.native.contracts.frame import MAX_FACTORS, MAX_REACHES
from fastgrad.native.contracts.frames.framed import MAX_FRAMED_INPUTS, MAX_FRAMED_OUTPUTS
from fastgrad.native.contracts.limits import RULES
from fastgrad.ops.array_ops import Array, ArrayFunction, Constant

_KINDS = {float: "float", int: "int", bool: "bool", "float": "float", "int": "int", "bool": "bool"}
_TEXT = re.compile(r"\s*(?:(\w+)\s*)?\(([^()]*)\)\s*")
_NUMBA_OPTIONS = ("fastmath", "error_model")


def function_of(caller: str, function: Any) -> tuple[FunctionType, tuple[tuple[str, Any], ...]]:
    """The Python function of what Numba compiles, or is to compile, and options to compile it with.

    Raises
    ------
    TypeError
        If it is neither, or is to run on threads of Numba's.
    """
    options: tuple[tuple[str, Any], ...] = ()
    if hasattr(function, "py_func") and hasattr(function, "targetoptions"):
        given = function.targetoptions
        if given.get("parallel"):
            raise TypeError(
                f"{caller}(): {function.__name__} is parallel, but an op runs on one thread: leave parallel=True out"
            )
        options = tuple((k, _option(given[k])) for k in _NUMBA_OPTIONS if k in given)
        function = function.py_func
    if type(function) is not FunctionType:
        raise TypeError(
            f"{caller}(): it takes a function of Python, or one of numba.njit, not {type(function).__name__}"
        )
    return function, options


def _option(value: Any) -> Any:
    return tuple(sorted(value)) if isinstance(value, (set, frozenset)) else value


def arrays_of(what: str, part: str, texts: Any) -> list[tuple[tuple[str, ...], int | None]]:
    """The sizes and the fixed dtype, if there is one, of each text of a declaration.

    Raises
    ------
    TypeError
        If there are no texts.
    ValueError
        For a text that says no shape.
    """
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise TypeError(
            f"{what}: {part} must be a sequence of texts, one for each array, such as ('(m, k)', '(k, n)'), not "
            f"{texts!r}"
        )
    return [_array(what, part, text) for text in texts]


def _array(what: str, part: str, text: Any) -> tuple[tuple[str, ...], int | None]:
    if not isinstance(text, str):
        raise TypeError(f"{what}: {part} must hold texts such as '(m, k)', not {type(text).__name__}")
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError(
            f"{what}: {part} must hold shapes such as '(m, k)', '()' or 'int64 (n)', not {text!r}"
        )
    sizes = tuple(size.strip() for size in found[2].split(",")) if found[2].strip() else ()
    sizes = sizes[:-1] if len(sizes) > 1 and not sizes[-1] else sizes
    wrong = [size for size in sizes if not re.fullmatch(r"[A-Za-z_]\w*|\d+", size, re.ASCII)]
    if wrong:
        raise ValueError(
            f"{what}: a size must be a name or a number, not {wrong[0]!r} in {text!r}; a size that is computed is an "
            "int among the constants, or that of another operand"
        )
    if len(sizes) > MAX_FACTORS:
        raise ValueError(
            f"{what}: an array has at most {MAX_FACTORS} dimensions, but {text!r} has {len(sizes)}"
        )
    return tuple(str(int(s)) if s.isdigit() else s for s in sizes), _fixed(what, found[1])


def _fixed(what: str, name: str | None) -> int | None:
    if name is None:
        return None
    dtype = getattr(dtypes, name, None)
    if not isinstance(dtype, dtypes.dtype) or dtype.code not in DISCRETE:
        raise ValueError(
            f"{what}: only integer types and bool can be fixed, such as 'int64 (n)', not {name!r}; arrays of floats "
            "are of the dtype that the op is called with"
        )
    return dtype.code


def dtypes_of(what: str, given: Any) -> tuple[int, ...]:
    """The codes of the dtypes of a declaration.

    Raises
    ------
    TypeError
        For anything but dtypes.
    ValueError
        For none, or one that arrays of a function cannot have.
    """
    if isinstance(given, dtypes.dtype) or not isinstance(given, Sequence):
        raise TypeError(
            f"{what}: dtypes must be a sequence of dtypes, such as (fastgrad.float32,), not {given!r}"
        )
    if not given:
        raise ValueError(f"{what}: dtypes must name at least one")
    for dtype in given:
        if not isinstance(dtype, dtypes.dtype):
            raise TypeError(f"{what}: dtypes must hold dtypes such as fastgrad.float32, not {dtype!r}")
        if dtype.code not in WITHOUT_HALVES:
            half = "halves are computed in float32, if that is there"
            hint = half if dtype.is_floating_point else "view_as_real makes two numbers of one"
            raise ValueError(f"{what}: dtypes cannot hold {dtype}: {hint}")
    return tuple(dict.fromkeys(dtype.code for dtype in given))


def parsed(what: str, function: Any, inputs: Any, outputs: Any, given: Any) -> ArrayFunction:
    """What a declaration says of a function on arrays.

    Raises
    ------
    TypeError, ValueError
        For what does not fit it.
    """
    plain, options = function_of("op", function)
    ins, outs = arrays_of(what, "inputs", inputs), arrays_of(what, "outputs", outputs)
    if not 1 <= len(ins) <= MAX_FRAMED_INPUTS or not 1 <= len(outs) <= MAX_FRAMED_OUTPUTS:
        raise ValueError(
            f"{what}: there can be 1 to {MAX_FRAMED_INPUTS} inputs and 1 to {MAX_FRAMED_OUTPUTS} outputs, but there "
            f"are {len(ins)} and {len(outs)}"
        )
    if len(ins) + len(outs) > MAX_REACHES:
        raise ValueError(f"{what}: there can be {MAX_REACHES} arrays, but there are {len(ins) + len(outs)}")
    names, constants = _parameters(what, plain, len(ins), len(outs))
    arrays = [Array(name, *about) for name, about in zip(names, (*ins, *outs), strict=True)]
    of = ArrayFunction(
        what, plain, options, tuple(arrays[: len(ins)]), tuple(arrays[len(ins) :]), constants,
        dtypes_of(what, given),
    )  # fmt: skip
    _check_names(of)
    _check_sizes(of)
    return _with_dtypes(of)


def _parameters(
    what: str, function: FunctionType, n_in: int, n_out: int
) -> tuple[list[str], tuple[Constant, ...]]:
    """The names of a function's arrays, and its constants."""
    of = list(inspect.signature(function).parameters.values())
    if any(p.kind is not p.POSITIONAL_OR_KEYWORD for p in of):
        raise TypeError(f"{what}: its function must have plain parameters, without *, / or **")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(f"{what}: its function must not be a generator or a coroutine")
    arrays, rest = of[: n_in + n_out], of[n_in + n_out :]
    if len(arrays) < n_in + n_out:
        raise TypeError(
            f"{what}: {n_in} inputs and {n_out} outputs are declared, but its function has {len(of)} parameters: it "
            "takes an array for each input, and then one for each output, which it fills"
        )
    if any(p.default is not p.empty for p in arrays):
        raise TypeError(f"{what}: its arrays can have no defaults; constants behind them can")
    for p in rest:
        if not isinstance(p.annotation, (type, str)) or p.annotation not in _KINDS:
            raise TypeError(
                f"{what}: {n_in} inputs and {n_out} outputs are declared, so the parameter {p.name!r} is a constant "
                "and must be annotated with float, int or bool; if it is an array, declare its shape"
            )
    return [p.name for p in arrays], tuple(Constant(p.name, _KINDS[p.annotation]) for p in rest)


def _check_names(of: ArrayFunction) -> None:
    sizes = {size for array in (*of.inputs, *of.outputs) for size in array.sizes}
    ints = {constant.name for constant in of.constants if constant.kind == "int"}
    arrays = {array.name for array in (*of.inputs, *of.outputs)}
    numbers = {constant.name for constant in of.constants}
    both = sorted(sizes & (arrays | numbers - ints))
    if both:
        raise ValueError(
            f"{of.what}: {both[0]!r} is the name of a size and of a parameter; rename one of them"
        )
    taken = sorted((arrays | numbers | sizes) & (TAKEN - ({"g"} & {array.name for array in of.inputs})))
    if taken:
        raise ValueError(
            f"{of.what}: {taken[0]!r} means something else where derivatives are written; rename it"
        )


def _check_sizes(of: ArrayFunction) -> None:
    """Each size of a result has to be known."""
    known = {size for array in of.inputs for size in array.sizes}
    chosen = {constant.name for constant in of.constants if constant.kind == "int"}
    for array in of.outputs:
        for size in array.sizes:
            if size not in known | chosen and not size.isdigit():
                raise ValueError(
                    f"{of.what}: the size {size!r} of the output {array.name!r} is that of no input: it must be the "
                    "name of a size of an input, a number, or the name of an int among the constants"
                )
    bound = sorted(known & chosen)
    if bound:
        raise ValueError(
            f"{of.what}: the size {bound[0]!r} of an input is also a constant; its array has it: leave the constant out"
        )


def _with_dtypes(of: ArrayFunction) -> ArrayFunction:
    """The same with the dtypes of its kernels: where all operands have fixed ones, that of the first."""
    if of.free:
        return of
    free = [array.name for array in of.outputs if array.dtype is None]
    if free:
        raise ValueError(
            f"{of.what}: no input says which dtype the output {free[0]!r} has: fix it, as in 'int64 (n)', or add an "
            "input of this dtype"
        )
    return of._replace(dtypes=(of.inputs[0].dtype,))  # type: ignore[arg-type]


def need_gradients(of: ArrayFunction) -> None:
    """Raise where an op cannot have derivatives."""
    if of.outputs[0].dtype is not None or not of.free:
        raise TypeError(
            f"{of.what}: an op has a backward by its first output and inputs of its dtype, but "
            + ("no input" if not of.free else f"the output {of.outputs[0].name!r}")
            + (" is of such a dtype" if not of.free else " has a fixed one")
        )
    if any(array.name == "g" for array in of.inputs):
        raise ValueError(f"{of.what}: derivatives call the gradient of its output 'g': call its input 'grad'")
    if len(of.free) > RULES:
        raise TypeError(f"{of.what}: {len(of.free)} inputs may have gradients, but at most {RULES} can")
