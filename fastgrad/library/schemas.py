"""What ops of users take and return: schemas, from annotations of functions or from text."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

from fastgrad.dtypes import dtype as Dtype  # noqa: N812 - a class
from fastgrad.native.build.loader import TensorBase
from fastgrad.places import device as Device  # noqa: N812 - a class
from fastgrad.tensor import Tensor

_BASES: dict[Any, str] = {
    Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", int | float | bool: "Scalar",
    Dtype: "ScalarType", Device: "Device",
}  # fmt: skip
_FORMS = {
    "Tensor": ("", "?", "[]", "?[]"), "SymInt": ("", "?", "[]", "[]?"), "float": ("", "?", "[]", "[]?"),
    "bool": ("", "?", "[]", "[]?"), "str": ("", "?"), "Scalar": ("", "?", "[]"), "ScalarType": ("", "?"),
    "Device": ("", "?"),
}  # fmt: skip
"""The types of arguments that there are: of each base alone, optional, lists, lists of optional ones, optional "
"lists."""
_RETURNED = ("Tensor", "Tensor[]", "SymInt", "float", "bool", "Scalar")
_PLAIN = {"int": "SymInt", "Layout": "", "MemoryFormat": ""}
_NONE = object()


class Argument(NamedTuple):
    """An argument of an op."""

    name: str
    type: str
    default: Any = _NONE
    kwarg_only: bool = False
    mutated: bool = False
    alias: str = ""

    @property
    def base(self) -> str:
        """The type without `?` and `[]`."""
        return self.type.rstrip("?[]")

    def __str__(self) -> str:
        alias = f"({self.alias})" if self.alias else ""
        text = f"{self.base}{alias}{self.type[len(self.base) :]} {self.name}"
        return text if self.default is _NONE else f"{text}={_written(self.default)}"


def _written(value: Any) -> str:
    if isinstance(value, Dtype):
        return value.name
    return f'"{value}"' if isinstance(value, (str, Device)) else str(value)


class Schema(NamedTuple):
    """The signature of an op."""

    name: str
    arguments: tuple[Argument, ...]
    returns: tuple[str, ...]

    @property
    def is_mutable(self) -> bool:
        """Whether the op changes an argument."""
        return any(a.mutated for a in self.arguments)

    def __str__(self) -> str:
        parts: list[str] = []
        for a in self.arguments:
            if a.kwarg_only and "*" not in parts:
                parts.append("*")
            parts.append(str(a))
        one = self.returns[0] if len(self.returns) == 1 else f"({', '.join(self.returns)})"
        return f"{self.name}({', '.join(parts)}) -> {one}"

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The value of each argument, in order, lists as lists and defaults filled in.

        Raises
        ------
        RuntimeError
            For arguments that are missing, given twice or unknown, and for values of other types.
        """
        n_positional = sum(not a.kwarg_only for a in self.arguments)
        if len(args) > n_positional:
            raise RuntimeError(
                f"{self.name}() takes {n_positional} positional argument(s) but {len(args)} was/were given.  "
                f"Declaration: {self}"
            )
        names = {a.name for a in self.arguments}
        for name in kwargs:
            if name not in names:
                raise RuntimeError(
                    f"Unknown keyword argument '{name}' for operator '{self.name}'. Schema: {self}"
                )
        values = []
        for k, a in enumerate(self.arguments):
            if k < len(args):
                if a.name in kwargs:
                    raise RuntimeError(
                        f"Argument '{a.name}' specified both as positional and keyword argument. Schema: {self}"
                    )
                values.append(_checked(self, a, args[k]))
            elif a.name in kwargs:
                values.append(_checked(self, a, kwargs[a.name]))
            elif a.default is not _NONE:
                values.append(a.default)
            else:
                raise RuntimeError(
                    f"{self.name}() is missing value for argument '{a.name}'. Declaration: {self}"
                )
        return values

    def check_result(self, result: Any) -> None:
        """Raise RuntimeError where an implementation returned something else than the schema says."""
        wanted = self.returns
        given = (result,) if len(wanted) == 1 else result
        if not wanted:
            if result is not None:
                raise RuntimeError(
                    f"{self.name}(): expected the implementation to return None but it returned "
                    f"{type(result).__name__}; declare what it returns, as in `-> Tensor`"
                )
            return
        if not isinstance(given, tuple) or len(given) != len(wanted):
            raise RuntimeError(
                f"{self.name}(): expected the implementation to return a tuple of {len(wanted)} values "
                f"({', '.join(wanted)}), but it returned {_described(result)}"
            )
        for k, (value, kind) in enumerate(zip(given, wanted, strict=True)):
            if not _fits(value, kind):
                raise RuntimeError(
                    f"{self.name}(): expected the implementation to return {kind} as result {k}, but it returned "
                    f"{_described(value)}"
                )


def _described(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)} values"
    return f"a {type(value).__name__}"


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "Tensor": lambda v: isinstance(v, TensorBase),
    "SymInt": lambda v: isinstance(v, int),
    "float": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "bool": lambda v: isinstance(v, bool),
    "str": lambda v: isinstance(v, str),
    "Scalar": lambda v: isinstance(v, (int, float)),
    "ScalarType": lambda v: isinstance(v, Dtype),
    "Device": lambda v: isinstance(v, (Device, str)),
}


def _fits(value: Any, kind: str) -> bool:
    if kind.endswith("?"):
        return value is None or _fits(value, kind[:-1])
    if kind.endswith("[]"):
        return isinstance(value, (list, tuple)) and all(_fits(v, kind[:-2]) for v in value)
    return _CHECKS[kind](value)


def _checked(schema: Schema, argument: Argument, value: Any) -> Any:
    """A value as the implementation gets it."""
    if not _fits(value, argument.type):
        shown = argument.type.replace("SymInt", "int")
        raise RuntimeError(
            f"{schema.name}() Expected a value of type '{shown}' for argument '{argument.name}' but instead found type "
            f"'{type(value).__name__}'. Declaration: {schema}"
        )
    if isinstance(value, (list, tuple)):
        return [float(v) for v in value] if argument.base == "float" else list(value)
    if argument.base == "float" and isinstance(value, int):
        return float(value)
    if argument.base == "SymInt" and isinstance(value, bool):
        return int(value)
    return Device(value) if argument.base == "Device" and isinstance(value, str) else value


# --- from annotations ----------------------------------------------------------------------------------------------


def _type_of(annotation: Any) -> str | None:
    """The type that an annotation stands for; None if it is none of an op."""
    if annotation in _BASES:
        return _BASES[annotation]
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType) and type(None) in parts and len(parts) == 2:
        inner = _type_of(next(p for p in parts if p is not type(None)))
        made = f"{inner}?" if inner else None
    elif origin in (typing.Union, types.UnionType) and set(parts) == {int, float, bool, type(None)}:
        made = "Scalar?"
    elif origin in (list, Sequence) and len(parts) == 1:
        inner = _type_of(parts[0])
        made = f"{inner}[]" if inner else None
    else:
        made = None
    base = made.rstrip("?[]") if made else ""
    return made if made and made[len(base) :] in _FORMS[base] else None


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
) -> str:
    """The schema of a function, from its annotations.

    Parameters
    ----------
    prototype_function : function
        Its parameters and its result are annotated: `Tensor`, int, float, bool, str, dtype, device, number
        (``int | float | bool``), optional ones and lists of them.
    mutates_args : iterable of str, or "unknown"
        The names of the arguments that it changes in place; "unknown" stands for all tensors.
    op_name : str, optional
        The name in front.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        For parameters without annotation, other types, and names in `mutates_args` that it does not have.

    Examples
    --------
    >>> import fastgrad as fg
    >>> def scale(x: fg.Tensor, factor: float = 2.0) -> fg.Tensor: ...
    >>> fg.library.infer_schema(scale, mutates_args=(), op_name="scale")
    'scale(Tensor x, float factor=2.0) -> Tensor'
    """
    return str(inferred(op_name or "", prototype_function, mutates_args))


def inferred(name: str, function: Any, mutates_args: Any) -> Schema:
    """The schema of a function that is to be the op `name`; raises as `infer_schema`."""
    signature = inspect.signature(function)

    def wrong(what: str) -> NoReturn:
        raise ValueError(f"infer_schema(func): {what} Got func with signature {signature}")

    try:
        hints = typing.get_type_hints(function)
    except Exception as error:  # noqa: BLE001 - annotations are any code
        wrong(f"Unsupported type annotation. It is not a type. ({type(error).__name__}: {error}).")
    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError(
            "mutates_args must either be a sequence of the names of the arguments that are mutated or the string "
            "'unknown'. "
        )
    changed = set() if isinstance(mutates_args, str) else set(mutates_args)
    arguments = []
    for k, (parameter, about) in enumerate(signature.parameters.items()):
        if about.kind not in (about.POSITIONAL_OR_KEYWORD, about.KEYWORD_ONLY):
            wrong("We do not support positional-only args, varargs, or varkwargs.")
        if about.annotation is about.empty:
            wrong(f"Parameter {parameter} must have a type annotation.")
        kind = _type_of(hints.get(parameter))
        if kind is None:
            wrong(
                f"Parameter {parameter} has unsupported type {about.annotation}. The valid types are: "
                f"{', '.join(getattr(t, '__name__', str(t)) for t in _BASES)}, optional ones and lists of them."
            )
        mutated = parameter in changed or (mutates_args == "unknown" and kind.startswith("Tensor"))
        if mutated and not kind.startswith("Tensor"):
            wrong(
                f"Parameter {parameter} is in mutable_args but only Tensors or collections of Tensors can be mutated"
            )
        default = _NONE if about.default is about.empty else about.default
        if not (default is _NONE or default is None or isinstance(default, (int, float, str, Device, Dtype))):
            wrong(f"Parameter {parameter} has an unsupported default value type {type(default)}.")
        keyword = about.kind is about.KEYWORD_ONLY
        arguments.append(Argument(parameter, kind, default, keyword, mutated, f"a{k}!" if mutated else ""))
    missing = changed - set(signature.parameters)
    if missing:
        wrong(
            f"{missing} in mutates_args were not found in the custom op's signature. mutates_args should contain the "
            "names of all args that the custom op mutates, or just the string 'unknown' if you don't know."
        )
    if signature.return_annotation is signature.empty:
        wrong("No return type annotation was provided. Please add one.")
    return Schema(name, tuple(arguments), _returns(hints["return"], wrong))


def _returns(annotation: Any, wrong: Callable[[str], NoReturn]) -> tuple[str, ...]:
    if annotation is type(None):
        return ()
    parts = typing.get_args(annotation) if typing.get_origin(annotation) is tuple else (annotation,)
    kinds = [_type_of(p) for p in parts]
    if any(kind not in _RETURNED for kind in kinds):
        wrong(
            f"Return has unsupported type {annotation}. The valid types are: Tensor, list[Tensor], int, float, bool, "
            "number, and tuples of them."
        )
    return tuple(kind for kind in kinds if kind)


# --- from text -----------------------------------------------------------------------------------------------------

_SCHEMA = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)?\s*\((?P<arguments>.*)\)\s*->\s*(?P<returns>.+?)\s*")
_ARGUMENT = re.compile(
    r"(?P<base>[A-Za-z]\w*)(?:\((?P<alias>\w+!?)\))?(?P<form>(?:\?|\[\d*\])*)\s+(?P<name>[A-Za-z_]\w*)"
    r"(?:\s*=\s*(?P<default>.+))?"
)
_RETURN = re.compile(r"(?P<base>[A-Za-z]\w*)(?:\((?P<alias>\w+!?)\))?(?P<form>(?:\[\])?)(?:\s+\w+)?")


def parsed(namespace: str, text: Any) -> Schema:
    """The schema that a text is, as in ``scale(Tensor x, float factor=2.0) -> Tensor``.

    Raises
    ------
    RuntimeError
        If it is none.
    """

    def wrong(what: str) -> NoReturn:
        raise RuntimeError(
            f"expected a schema such as 'scale(Tensor x, float factor=2.0) -> Tensor', but {what} in {text!r}"
        )

    found = _SCHEMA.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        wrong("there is no '(arguments) -> returns'")
    arguments: list[Argument] = []
    keyword = False
    for part in _split(found["arguments"]):
        if part == "*":
            keyword = True
            continue
        argument = _ARGUMENT.fullmatch(part)
        if argument is None:
            wrong(f"{part!r} is no argument")
        form = re.sub(r"\d", "", argument["form"])
        base = _PLAIN.get(argument["base"], argument["base"])
        if form not in _FORMS.get(base, ()):
            wrong(f"{argument['base']}{form} is no type of an argument")
        alias = argument["alias"] or ""
        made = Argument(argument["name"], base + form, _NONE, keyword, alias.endswith("!"), alias)
        if argument["default"] is not None:
            made = made._replace(default=_value(argument["default"], made, wrong))
        if any(a.name == made.name for a in arguments):
            wrong(f"two arguments are called {made.name}")
        arguments.append(made)
    returned = found["returns"]
    parts = _split(returned[1:-1]) if returned.startswith("(") and returned.endswith(")") else [returned]
    kinds = []
    for part in parts:
        one = _RETURN.fullmatch(part)
        kind = _PLAIN.get(one["base"], one["base"]) + one["form"] if one else ""
        if one is None or kind not in _RETURNED:
            wrong(f"{part!r} is no type of a result")
        if one["alias"]:
            raise NotImplementedError(
                f"define(): {part!r} says that a result shares memory with an argument, which ops of users cannot; "
                "return a new tensor, or nothing"
            )
        kinds.append(kind)
    name = f"{namespace}::{found['name']}" if found["name"] else namespace
    return Schema(name, tuple(arguments), tuple(kinds))


def _split(text: str) -> list[str]:
    """Parts between commas outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [p.strip() for p in parts if p.strip()]


def _value(text: str, argument: Argument, wrong: Callable[[str], NoReturn]) -> Any:
    """A default as a value."""
    import ast

    from fastgrad import dtypes

    if argument.base == "ScalarType" and isinstance(getattr(dtypes, text, None), Dtype):
        return getattr(dtypes, text)
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        wrong(f"{text!r} is no value for {argument.name}")
    if value is None and argument.type.endswith("?"):
        return None
    if not _fits(value, argument.type):
        wrong(f"{text!r} is no {argument.type}, the type of {argument.name}")
    return Device(value) if argument.base == "Device" else value
