"""`op`: a user's op that is a compiled function on arrays."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from fastgrad import dtypes as element_dtypes
from fastgrad.functions.plans import planned
from fastgrad.library.declarations import function_of, need_gradients, parsed
from fastgrad.library.names import node_name, op_name, plain_parameters
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.element_types import FLOAT32, HALVES
from fastgrad.native.contracts.ops import ONE_DIFFERENTIABLE
from fastgrad.native.contracts.records import TENSOR
from fastgrad.ops import namespaces
from fastgrad.ops.array_ops import (
    Array,
    ArrayFunction,
    Backward,
    Constant,
    Rule,
    declare,
    gradient_name,
    names_in_rules,
    need_rule,
)
from fastgrad.ops.call import apply, float_bits

_DTYPE = TENSOR.fields["dtype"][0]
_TEXTS = (str, bytes, bytearray)  # which `float` would read
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


class Declared(NamedTuple):
    """What is known of an op, as its attribute ``declared``.

    Attributes
    ----------
    name : str
    of : ArrayFunction
    op : Op
        Its entry in the table.
    """

    name: str
    of: ArrayFunction
    op: Any


def op(
    function: Callable[..., Any] | None = None,
    *,
    inputs: Sequence[str],
    outputs: Sequence[str],
    backward: Any = None,
    dtypes: Sequence[element_dtypes.dtype] = (element_dtypes.float32, element_dtypes.float64),
    name: str | None = None,
) -> Any:
    """Make an op of a function on arrays, which Numba compiles: recorded, hooked, captured as the package's own.

    Parameters
    ----------
    function : function
        Of Python or of ``numba.njit``. It takes an array for each input, then one for each output, which it fills, then
        constants, annotated with ``float``, ``int`` or ``bool``, and returns nothing. Arrays are contiguous; those of
        inputs cannot be written to. It makes no arrays of its own, and may call what Numba compiles. Without it
        the result is a decorator.
    inputs, outputs : sequence of str
        The shape of each array, such as ``"(m, k)"``: equal names are equal sizes. A size of an output is one of an
        input, a number, or an int among the constants. A type before the shape, as in ``"int64 (n)"``, fixes the
        dtype.
    backward : dict, function or op, optional
        The derivative by each input of the op's dtype, by its name, or what gives them all: see Notes. Without it,
        backward raises `NotImplementedError`.
    dtypes : sequence of dtype
        What the other arrays may be, all alike. Halves are computed in float32.
    name : str, optional
        What messages and ``grad_fn`` call it, that of the function by default. ``"namespace::name"`` makes it
        ``fastgrad.ops.namespace.name`` as well.

    Returns
    -------
    function
        Of tensors and constants.

    Raises
    ------
    TypeError
        For a function, or a rule of a derivative, that does not fit, or one for which Numba finds no types.
    ValueError
        For shapes, dtypes and names that are none.
    RuntimeError
        If Numba cannot compile the function for another reason, or the table of ops is full.

    Notes
    -----
    A derivative is a function of ``g``, the gradient of the first output, and of what else it names: inputs, outputs,
    sizes, constants. As a function of Python it is a rule in the language of tensors, which is called once, with
    symbols, and compiled: arithmetic, ``@``, some methods of `Tensor` (``mT``, ``transpose``, ``sum``, ``expand``,
    ``reshape`` and others), and functions of `fastgrad.library.m`. Such rules can be differentiated again. As a
    function of ``numba.njit``, or as another op, it is compiled code that fills arrays; that can be differentiated
    again if it is an op with a backward.

    Of several outputs only the first has gradients then. All of them do where the value for each input is a dict of
    derivatives by the names of outputs, each a function of its own ``g`` (None for an output that does not depend on
    the input); the products are summed.

    Examples
    --------
    >>> import fastgrad as fg
    >>> @fg.library.op(
    ...     inputs=("(m, k)", "(k, n)"),
    ...     outputs=("(m, n)",),
    ...     backward={"a": lambda g, b: g @ b.mT, "b": lambda g, a: a.mT @ g},
    ... )
    ... def product(a, b, out):
    ...     for i in range(a.shape[0]):
    ...         for j in range(b.shape[1]):
    ...             out[i, j] = 0
    ...             for k in range(a.shape[1]):
    ...                 out[i, j] += a[i, k] * b[k, j]
    >>> a, b = fg.ones(2, 3, requires_grad=True), fg.ones(3, 2)
    >>> y = product(a, b)
    >>> y
    tensor([[3., 3.],
            [3., 3.]], grad_fn=<ProductBackward0>)
    >>> y.sum().backward()
    >>> a.grad
    tensor([[2., 2., 2.],
            [2., 2., 2.]])
    """
    if function is None:
        return functools.partial(
            op, inputs=inputs, outputs=outputs, backward=backward, dtypes=dtypes, name=name
        )
    plain, _ = function_of("op", function)
    name = op_name("op", plain, name)
    made = _made(name, parsed(f"op '{name}'", function, inputs, outputs, dtypes), backward)
    if "::" in name:
        namespaces.register(name, made)
    return made


def _made(name: str, of: ArrayFunction, backward: Any) -> Any:
    """The function that calls an op."""
    rules, joint = _derivatives(name, of, backward)
    entry, said = declare(name.rpartition("::")[2], of, rules, joint, called=name, node=node_name(name))
    made: Any = planned(_caller(name, of, entry, said))
    made.declared = Declared(name, of, entry)
    return made


# --- calls ------------------------------------------------------------------------------------------------------------


def _caller(name: str, of: ArrayFunction, entry: Any, said: tuple[int | str, ...]) -> Callable[..., Any]:
    """The function of tensors and constants behind an op."""
    given = inspect.signature(of.function).parameters
    names = (*(array.name for array in of.inputs), *(constant.name for constant in of.constants))
    taken = [given[name] for name in names]
    signature = inspect.Signature([p.replace(annotation=p.empty) for p in taken])
    order = [of.inputs.index(array) for array in of.operands]

    def call(*arguments: Any, **named: Any) -> Any:
        try:
            bound = signature.bind(*arguments, **named)
        except TypeError as error:
            raise TypeError(f"{name}(): {error}; it takes {signature}") from None
        bound.apply_defaults()
        values = list(bound.arguments.values())
        tensors = values[: len(of.inputs)]
        words = _sizes(name, of, tensors)
        for constant, value in zip(of.constants, values[len(tensors) :], strict=True):
            words[f"constant:{constant.name}"] = _word(name, of, constant, value)
        integers = [words[n] for n in of.integers] + [words[s] if isinstance(s, str) else s for s in said]
        return apply(entry.id, len(order), 0, *(tensors[k] for k in order), *integers)

    call = functools.update_wrapper(call, of.function)
    del call.__wrapped__  # type: ignore[attr-defined]
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__annotations__ = {}
    return call


def _sizes(name: str, of: ArrayFunction, tensors: list[Any]) -> dict[str, int]:
    """The sizes of a call by the names of its integers, from tensors that fit the declaration."""
    known: dict[str, tuple[int, str]] = {}
    first: Any = None
    for k, (array, x) in enumerate(zip(of.inputs, tensors, strict=True)):
        where = f"{name}(): argument '{array.name}' (position {k + 1})"
        if not isinstance(x, TensorBase):
            raise TypeError(
                f"{where} must be Tensor, not {type(x).__name__}; fastgrad.tensor(value) makes one"
            )
        shape = rt.sizes(x)
        text = f"({', '.join(array.sizes)})"
        if len(shape) != len(array.sizes):
            raise RuntimeError(
                f"{where} must have {len(array.sizes)} dimensions, {text}, but has the shape {list(shape)}"
            )
        for size, length in zip(array.sizes, shape, strict=True):
            expected, other = known.setdefault(
                of.size(size), (int(size), "") if size.isdigit() else (length, array.name)
            )
            if length != expected:
                because = f", which argument '{other}' has" if other else ""
                needs = f"{size} = {expected}{because}" if not size.isdigit() else f"{expected} in it"
                raise RuntimeError(f"{where} has the shape {list(shape)}, but {text} needs {needs}")
        first = _need_dtype(name, where, of, array, x, first)
    sizes = {key: length for key, (length, _) in known.items()}
    fixed = {s for array in of.outputs for s in array.sizes if s.isdigit()}
    return sizes | {of.size(s): int(s) for s in fixed}


def _need_dtype(name: str, where: str, of: ArrayFunction, array: Array, x: Any, first: Any) -> Any:
    """Raise for a tensor of another dtype; returns the first dtype that is not fixed."""
    dtype = element_dtypes.of_code(rt.field(x, _DTYPE))
    if array.dtype is not None:
        if dtype.code != array.dtype:
            expected = element_dtypes.of_code(array.dtype)
            raise RuntimeError(
                f"{where} must be of {expected}, but is of {dtype}; convert it with .to({expected})"
            )
        return first
    if first is None:
        if dtype.code not in of.dtypes and not (dtype.code in HALVES and FLOAT32 in of.dtypes):
            names = ", ".join(str(element_dtypes.of_code(code)) for code in of.dtypes)
            raise NotImplementedError(
                f"{where}: not implemented for '{dtype.type_name}', but for {names}; convert it with .to() first, or "
                "declare more dtypes"
            )
        return dtype
    if dtype is not first:
        raise RuntimeError(
            f"{name}(): expected operands of the same dtype, but got {first} and {dtype} for '{array.name}'; convert "
            f"it with .to({first})"
        )
    return first


def _word(name: str, of: ArrayFunction, constant: Constant, value: Any) -> int:
    """A constant as the integer of a call that it is."""
    try:
        if isinstance(value, TensorBase):
            raise TypeError
        if constant.kind == "float":
            return float_bits(float(value)) if not isinstance(value, _TEXTS) else _refuse()
        if constant.kind == "bool":
            return int(value) if type(value) in (bool, np.bool_) else _refuse()
        word = operator.index(value)
    except TypeError:
        hint = "; make it an input to have gradients" if isinstance(value, TensorBase) else ""
        raise TypeError(
            f"{name}(): constant '{constant.name}' must be {constant.kind}, not {type(value).__name__}{hint}"
        ) from None
    if not _LEAST <= word <= _MOST:
        raise OverflowError(f"{name}(): constant '{constant.name}' = {word} is too large for int64")
    if word < 0 and any(constant.name in array.sizes for array in of.outputs):
        raise ValueError(f"{name}(): constant '{constant.name}' is a size, which cannot be negative: {word}")
    return word


def _refuse() -> int:
    raise TypeError


# --- derivatives ------------------------------------------------------------------------------------------------------


def _derivatives(
    name: str, of: ArrayFunction, given: Any
) -> tuple[dict[str, tuple[Rule, ...]], Backward | None]:
    """The rules by names of inputs, and what gives all gradients in place of them."""
    if given is None:
        return {}, None
    need_gradients(of)
    if not isinstance(given, Mapping):
        if type(given) is FunctionType and len(of.free) == 1:
            given = {of.free[0]: given}
        elif type(given) is FunctionType:
            raise TypeError(
                f"{of.what}: it has the inputs {', '.join(of.free)}; pass backward={{'{of.free[0]}': function, ...}}, "
                "with None for an input that has none, or compiled code that gives all gradients"
            )
        else:
            return {}, _compiled(name, of, "backward", given, of.free, of.outputs[0])
    _need_keys(of, "backward", given, of.free, "an input without a derivative")
    by_output = {isinstance(rule, Mapping) for rule in given.values() if rule is not None}
    if len(by_output) > 1:
        raise TypeError(
            f"{of.what}: backward must hold derivatives of the first output, or for each input a dict of those of all "
            "outputs, but not both"
        )
    outputs = tuple(array.name for array in of.outputs if array.dtype is None)
    rules: dict[str, tuple[Rule, ...]] = {}
    for operand in of.free:
        found, part = given[operand], f"the derivative by '{operand}'"
        if isinstance(found, Mapping):
            _need_keys(of, part, found, outputs, "an output that does not depend on it")
            rules[operand] = tuple(
                _derivative(name, of, f"{part} of '{array.name}'", found.get(array.name), operand, array)
                for array in of.outputs
            )
        elif found is not None:
            rules[operand] = (_derivative(name, of, part, found, operand, of.outputs[0]),)
    return rules, None


def _need_keys(
    of: ArrayFunction, part: str, given: Mapping[Any, Any], keys: tuple[str, ...], none: str
) -> None:
    if set(given) != set(keys):
        raise TypeError(
            f"{of.what}: {part} must have the keys {', '.join(keys)}, but has {', '.join(map(str, given)) or 'none'}; "
            f"the value for {none} is None"
        )


def _derivative(name: str, of: ArrayFunction, part: str, rule: Any, operand: str, output: Array) -> Rule:
    """A rule, or what gives one gradient, of an output."""
    if type(rule) is FunctionType:
        _need_names(of, part, plain_parameters(of.what, part, rule))
        need_rule(of, part, rule)
    elif rule is not None:
        return _compiled(f"{name}_d{operand}_{output.name}", of, part, rule, (operand,), output)
    return rule


def _need_names(of: ArrayFunction, part: str, names: tuple[str, ...]) -> None:
    sizes = {s for array in (*of.inputs, *of.outputs) for s in array.sizes if not s.isdigit()}
    known = {"g", *names_in_rules(of), *sizes, *(constant.name for constant in of.constants)}
    wrong = [n for n in names if n not in known]
    if wrong or "g" not in names:
        raise TypeError(
            f"{of.what}: {part} must take g, and may take {', '.join(sorted(known - {'g'}))}, but takes "
            f"({', '.join(names)})"
        )


def _compiled(
    name: str, of: ArrayFunction, part: str, given: Any, targets: tuple[str, ...], output: Array
) -> Backward:
    """The op that gives gradients: one that is declared, or of compiled code whose shapes follow from names."""
    about = getattr(given, "declared", None)
    if not isinstance(about, Declared):
        if not hasattr(given, "py_func"):
            raise TypeError(
                f"{of.what}: {part} must be a function, one of numba.njit, or an op of fastgrad.library.op, not "
                f"{type(given).__name__}"
            )
        given = _made(
            f"{name.rpartition('::')[2]}_backward", _by_names(of, part, given, targets, output), None
        )
        about = given.declared
    _need_fit(of, part, about, targets, output)
    return Backward(about.of, about.op.name, given)


def _by_names(
    of: ArrayFunction, part: str, given: Any, targets: tuple[str, ...], output: Array
) -> ArrayFunction:
    """The declaration of compiled code that gives gradients."""
    function, options = function_of("op", given)
    names = plain_parameters(of.what, part, function)
    known = {array.name: array for array in (*of.inputs, *of.outputs) if array.name in names_in_rules(of)}
    known["g"] = output._replace(name="g")
    constants = {constant.name: constant for constant in of.constants}
    n_in = next((k for k, n in enumerate(names) if n not in known), len(names))
    n_out = next((k for k, n in enumerate(names) if n in constants), len(names)) - n_in
    rest = names[n_in + n_out :]
    if n_out != len(targets) or "g" not in names[:n_in] or any(n not in constants for n in rest):
        raise TypeError(
            f"{of.what}: {part} must take g and inputs and outputs by their names, then an array for each gradient (of "
            f"{', '.join(targets)}), then constants by their names, but takes ({', '.join(names)})"
        )
    arrays = {array.name: array for array in of.inputs}
    gradients = [arrays[t]._replace(name=n) for t, n in zip(targets, names[n_in:], strict=False)]
    return ArrayFunction(
        f"{part} of {of.what}", function, options, tuple(known[n] for n in names[:n_in]), tuple(gradients),
        tuple(constants[n] for n in rest), of.dtypes,
    )  # fmt: skip


def _need_fit(of: ArrayFunction, part: str, about: Declared, targets: tuple[str, ...], output: Array) -> None:
    """Raise TypeError where what gives gradients is declared for something else."""
    by = about.of
    arrays = {array.name: array for array in (*of.inputs, *of.outputs) if array.name in names_in_rules(of)}
    arrays[gradient_name(by)] = output
    problem = ""
    for array in by.inputs:
        known = arrays.get(array.name)
        if known is None:
            problem = f"its input '{array.name}' is neither g nor an input or output of the op"
        elif (known.sizes, known.dtype) != (array.sizes, array.dtype):
            problem = f"its input '{array.name}' must be ({', '.join(known.sizes)}) as in the op"
    if not any(array.name == gradient_name(by) for array in by.inputs):
        problem = problem or "it must take the gradient of the output, g"
    expected = [arrays[t].sizes for t in targets]
    if [array.sizes for array in by.outputs] != expected or any(a.dtype is not None for a in by.outputs):
        shapes = ", ".join(f"({', '.join(sizes)})" for sizes in expected)
        problem = problem or f"its outputs must be the gradients of {', '.join(targets)}: {shapes}"
    if not set(by.constants) <= set(of.constants):
        problem = problem or "its constants must be among those of the op"
    if not set(of.dtypes) <= set(by.dtypes):
        problem = problem or "it must exist for all dtypes of the op"
    if about.op.facts["flags"] & ONE_DIFFERENTIABLE:
        problem = (
            problem or "its own backward must be given for each of its outputs, in a dict for each input"
        )
    if problem:
        raise TypeError(f"{of.what}: {part} does not fit: {problem}")
