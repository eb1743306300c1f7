"""Write the stubs, what type checkers and editors read in place of names that are put together at run time.

``python tools/stubs.py`` writes them, ``--check`` fails if one is not what it would write. Types come from annotations
where these say one, else from docstrings (``input : Tensor``), else from what arguments of that name are everywhere.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import fastgrad as fg
from fastgrad.functions.argument_names import names_of
from fastgrad.functions.public import METHODS, PACKAGE
from fastgrad.native.build.loader import Planned

ROOT = Path(__file__).parent.parent / "fastgrad"
HEAD = '''"""Written by tools/stubs.py."""

from builtins import bool as _bool, complex as _complex, float as _float, int as _int, str as _str, type as _type
from collections.abc import Callable as _Callable, Iterator as _Iterator, Sequence as _Sequence
from typing import Any as _Any, Literal as _Literal, overload as _overload

import numpy as _np
'''
NAMED = {"Tensor": "fastgrad.tensor", "Size": "fastgrad.tensor.size", "Generator": "fastgrad.random"} | {
    "dtype": "fastgrad.dtypes", "device": "fastgrad.places", "memory_format": "fastgrad.functions.memory_format",
    "layout": "fastgrad.functions.memory_format",
}  # fmt: skip
"""Classes that types speak of, and where they are; stubs know them with an underscore before the name."""

TENSOR, NUMBER = "_Tensor", "_int | _float | _complex"
SCALAR, DIM = f"{TENSOR} | {NUMBER}", "_int | _Sequence[_int]"
ARGUMENTS = {
    TENSOR: "self input tensor tensor1 tensor2 mat mat1 mat2 vec vec1 vec2 batch1 batch2 index source mask target "
    "weight x1 x2 w_ih w_hh first second indices input1 input2 query key anchor positive negative logits "
    "sorted_sequence boundaries test_elements A B LU_data LU_pivots",
    f"{TENSOR} | None": "bias running_mean running_var b_ih b_hh hx attn_mask key_padding_mask pos_weight weights "
    "fweights aweights bias_k bias_v static_k static_v in_proj_weight in_proj_bias q_proj_weight k_proj_weight "
    "v_proj_weight out_proj_bias sorter prepend append out out_proj_weight",
    SCALAR: "other exponent src values value alpha beta start end lower upper var p base self_or_other",
    f"{SCALAR} | None": "min max nan posinf neginf",
    NUMBER: "fill_value step dx negative_slope lambd threshold eps margin delta",
    "_Sequence[_Tensor]": "tensors",
    DIM: "kernel_size stride padding dilation output_padding output_size dims shifts repeats destination size sizes "
    "shape normalized_shape",
    f"{DIM} | None": "dim axis s",
    "_dtype | None": "dtype",
    "_device | _str | _int | None": "device",
    "_Generator | None": "generator",
    "_memory_format": "memory_format",
    "_int": "n m low high num_classes groups",
    "_float | None": "correction",
}
BY_ARGUMENT = {name: of for of, names in ARGUMENTS.items() for name in names.split()}
VARIADIC = {
    **dict.fromkeys(("size", "sizes", "shape", "dims", "repeats"), DIM),
    "bounds": NUMBER,
    "tensors": "_Tensor | _Sequence[_Tensor]",
}
OVERLOADS = {
    **dict.fromkeys(
        ("max", "min"),
        (
            ") -> _Tensor",
            ", dim: _int, keepdim: _bool = False) -> _return_types.{name}",
            ", other: _Tensor) -> _Tensor",
        ),
    ),
    **dict.fromkeys(
        ("median", "nanmedian"),
        (") -> _Tensor", ", dim: _int, keepdim: _bool = False) -> _return_types.{name}"),
    ),
}
WHERE = (
    f"condition: _Tensor, input: {SCALAR}, other: {SCALAR}) -> _Tensor",
    "condition: _Tensor) -> tuple[_Tensor, ...]",
)
"""What follows the receiver in the forms of functions whose result depends on how they are called."""
RETURNED = "from fastgrad import return_types as _return_types"
PLAIN = ("bool", "complex", "float", "int", "str", "type")
"""What `HEAD` imports from `builtins`."""
SAID = (
    ("Tensor", TENSOR), ("Size", "_Size"), ("dtype", "_dtype"), ("device", "_device"),
    ("memory_format", "_memory_format"), ("Generator", "_Generator"),
    ("number", NUMBER), ("numbers", NUMBER), ("float", "_float"), ("int", "_int"),
    ("bool", "_bool"), ("str", "_str"), ("None", "None"), ("callable", "_Callable[..., _Any]"),
)  # fmt: skip
WORDS = dict(SAID)
"""What docstrings say, and the type that it is."""


# --- from a docstring to a type ------------------------------------------------------------------------------------


def section(doc: str, title: str) -> str:
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", doc + "\n", re.S | re.M)
    return found[1] if found else ""


def described(function: Any) -> dict[str, str]:
    """What a docstring says of each argument, before the first comma that is no part of it."""
    found = {}
    for line in section(inspect.getdoc(function) or "", "Parameters").splitlines():
        names = re.match(r"([*\w]+(?:, [*\w]+)*) : (.+)", line)
        for name in names[1].split(", ") if names else ():
            found[name.lstrip("*")] = names[2] if names else ""
    return found


def of_words(text: str) -> str | None:
    """The type that words such as ``int or tuple of int, optional`` mean; None if they are not understood."""
    text = re.sub(r",? ?\bdefault .*", "", text)
    text, optional = re.subn(r",? ?optional", "", text)
    text = re.sub(r"\b0-dim | without dimensions| in \[.*?\]|``", "", text)
    parts = [p for p in re.split(r", | or ", text) if p]
    found: list[str] = []
    for part in parts:
        one = _one(part.strip())
        if one is None:
            return None
        found.append(one)
    strings = [f for f in found if f.startswith('"')]
    rest = [f for f in found if not f.startswith('"')]
    union = ([f"_Literal[{', '.join(strings)}]"] if strings else []) + rest + (["None"] if optional else [])
    return " | ".join(dict.fromkeys(" | ".join(union).split(" | "))) if union else None


def _one(part: str) -> str | None:
    if part in WORDS:
        return WORDS[part]
    if re.fullmatch(r'"[\w-]+"', part):
        return part
    several = re.fullmatch(r"(?:a )?(?:tuple|sequence|list|pair|lists) of (?:two |three )?(\w+)", part)
    if several:
        return f"_Sequence[{WORDS.get(several[1], '_int')}]"
    return "_np.ndarray" if part == "numpy.ndarray" else None


def _text(annotation: Any) -> str:
    """An annotation as it was written, or would be."""
    if annotation is inspect.Signature.empty:
        return ""
    if getattr(annotation, "__module__", "") == fg.return_types.__name__:
        return f"_return_types.{annotation.__name__}"
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")


# --- from a function to its line -----------------------------------------------------------------------------------


def _by_other_names(header: str, function: Callable[..., Any]) -> list[str]:
    """The declaration with other names of arguments that programs may use, if there are some."""
    _, others, spread, _ = names_of(function)
    found = []
    if f"*{spread}: " in header and spread:
        before, _, after = header.partition(f"*{spread}: ")
        kind, _, rest = after.partition("]")
        more = rest.startswith(", ") and not rest.startswith(", **")
        found.append(f"{before}{spread}: {kind}]{', *' if more else ''}{rest}")
    renamed = header
    for other, name in others.items():
        renamed = re.sub(rf"\b{name}: ", f"{other}: ", renamed)
    return [*found, *([renamed] if renamed != header else [])]


class Stub:
    """The text of one stub: what it declares, and what it imports for that.

    Parameters
    ----------
    own : set of str
        Names that the stub defines itself, which annotations may not mean.
    """

    def __init__(self, own: Iterable[str] = ()) -> None:
        self.imports: set[str] = set()
        self.lines: list[str] = []
        self.own = set(own)

    def annotation(self, text: str, where: dict[str, Any]) -> str:
        """An annotation of the sources with names that mean the same in the stub."""

        def named(match: re.Match[str]) -> str:
            name = match[0]
            if name in PLAIN or name in ("Any", "Callable", "Iterator", "Sequence", "Literal"):
                return f"_{name}"
            found = where.get(name)
            if found is fg.return_types:
                self.imports.add(RETURNED)
                return "_return_types"
            if isinstance(found, types.UnionType):  # an alias
                return self.annotation(str(found), {})
            if name == "DType":
                return "_dtype"
            if name in NAMED:
                return f"_{name}"
            if isinstance(found, type) and found.__module__ not in ("builtins",):
                self.imports.add(f"from {found.__module__} import {found.__name__} as _{name}")
                return f"_{name}"
            return name

        text = re.sub(r"\b(typing|builtins|collections\.abc)\.", "", text)
        text = re.sub(r"\bnp\.", "_np.", text)
        return re.sub(r"(?<![\w.\"'])[A-Za-z]\w*(?![\w\"'])", named, text)

    def function(
        self, name: str, function: Callable[..., Any], *, method: bool = False, indent: str = ""
    ) -> None:
        """Declare a function, or a method, under a name."""
        where = getattr(inspect.unwrap(function), "__globals__", {})
        said = described(function)
        try:
            signature = inspect.signature(function)
        except ValueError:
            self._declare(
                f"{name}({'self, ' if method else ''}*args: _Any, **kwargs: _Any) -> _Any", function, indent
            )
            return
        parts, kind_before = [], None
        for k, p in enumerate(signature.parameters.values()):
            if p.kind is p.KEYWORD_ONLY and kind_before not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL):
                parts.append("*")
            if (
                kind_before is p.POSITIONAL_ONLY
                and p.kind is not p.POSITIONAL_ONLY
                and not (method and k == 1)
            ):
                parts.append("/")
            parts.append("self" if method and k == 0 else self._parameter(p, said, where))
            kind_before = p.kind
        if names_of(function).makes:
            parts += ["*"] if kind_before not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL) else []
            parts += ["layout: _layout | None = None", "pin_memory: _bool = False"]
        result = self._result(function, signature.return_annotation, where)
        self._declare(f"{name}({', '.join(parts)}) -> {result}", function, indent)

    def _declare(self, header: str, function: Callable[..., Any], indent: str) -> None:
        """Write a declaration with the summary of the docstring, which editors show."""
        name = header.partition("(")[0]
        headers = [header]
        if name in OVERLOADS:
            receiver = "self" if indent else "input: _Tensor"
            headers = [f"{name}({receiver}{rest.format(name=name)}" for rest in OVERLOADS[name]]
            self.imports.add(RETURNED)
        elif name == "where" and not indent:
            headers = [f"{name}({rest}" for rest in WHERE]
        elif ", return_indices: _bool = False) -> _Tensor" in header:
            before = header.partition(", return_indices")[0]
            headers = [
                f"{before}, return_indices: _Literal[False] = False) -> _Tensor",
                f"{before}, *, return_indices: _Literal[True]) -> tuple[_Tensor, _Tensor]",
                f"{before}, return_indices: _bool = False) -> _Any",
            ]
        headers += [other for one in headers for other in _by_other_names(one, function)]
        summary = " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())
        for one in headers:
            if len(headers) > 1:
                self.lines.append(f"{indent}@_overload")
            if summary:
                self.lines += [f"{indent}def {one}:", f'{indent}    r"""{summary}"""']
            else:
                self.lines.append(f"{indent}def {one}: ...")

    def _parameter(self, p: inspect.Parameter, said: dict[str, str], where: dict[str, Any]) -> str:
        stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        annotation = _text(p.annotation)
        kind = None
        if annotation and not re.search(r"\bAny\b", annotation):
            kind = self.annotation(annotation, where)
        if kind is None and stars == "*":
            kind = VARIADIC.get(p.name)
        if kind is None and p.name in said and not stars:
            kind = of_words(said[p.name])
        if kind is None and not stars:
            kind = BY_ARGUMENT.get(p.name)
        text = f"{stars}{p.name}: {_with_default(kind or '_Any', p.default)}"
        if p.default is not p.empty:
            plain = (
                p.default is None
                or type(p.default) in (int, bool, str)
                or (type(p.default) is float and p.default == p.default and abs(p.default) < 1e300)
            )
            text += f" = {p.default!r}" if plain else " = ..."
        return text

    def _result(self, function: Any, annotation: Any, where: dict[str, Any]) -> str:
        text = _text(annotation)
        if text and not re.search(r"\bAny\b", text):
            return self.annotation(text, where)
        if re.fullmatch(r"tuple\[Any(, (Any|\.\.\.))*\]", text):
            return text.replace("Any", TENSOR)
        returns = section(inspect.getdoc(function) or "", "Returns").splitlines()
        if returns and not returns[0].startswith(" "):
            kind = of_words(returns[0].rpartition(" : ")[2])
            if kind is not None:
                return kind.replace("_Sequence[_Tensor]", "tuple[_Tensor, ...]")
        return TENSOR if text in ("Any", "typing.Any", "") else "_Any"

    def text(self) -> str:
        """The whole stub."""
        named = [f"from {module} import {name} as _{name}" for name, module in NAMED.items()]
        return (
            HEAD + "\n" + "\n".join(sorted({*named, *self.imports})) + "\n\n" + "\n".join(self.lines) + "\n"
        )


def _with_default(kind: str, default: Any) -> str:
    """A type that holds the default as well."""
    for of, allowed, more in (
        (type(None), ("None",), "None"),
        (str, ("_str", "_Literal"), "_str"),
        ((bool, int), ("_int", "_bool", "_float", "_complex"), "_int"),
        (float, ("_float", "_complex"), "_float"),
    ):
        if isinstance(default, of) and not any(part in kind for part in (*allowed, "_Any")):
            return f"{kind} | {more}"
    return kind


# --- the stubs -----------------------------------------------------------------------------------------------------


def _own(module: types.ModuleType, name: str) -> Any:
    """What a module has under a name."""
    return fg.overrides.original(getattr(module, name, None))


def _is_function(found: Any) -> bool:
    return inspect.isfunction(found) or isinstance(found, Planned)


def _declare_others(stub: Stub, module: types.ModuleType, names: Iterable[str]) -> None:
    """What a module offers besides functions: classes, dtypes, constants, modules."""
    for name in names:
        found = _own(module, name)
        if isinstance(found, types.ModuleType):
            stub.lines.append(f"from {module.__name__} import {name} as {name}")
        elif _is_function(found) and _own(sys.modules[found.__module__], name) is not found:
            stub.function(name, found)  # a method as a function
        elif isinstance(found, type) and found.__module__ == module.__name__:  # made at run time
            stub.lines.append(f"class {name}(_Tensor): ...")
        elif isinstance(found, type) or _is_function(found):
            stub.lines.append(f"from {found.__module__} import {found.__name__} as {name}")
        elif type(found).__module__ == "builtins":
            kind = "None" if found is None else type(found).__name__
            kind = f"_{kind}" if kind in PLAIN else kind
            stub.lines.append(f"{name}: {kind}")
        else:
            kind = type(found).__name__
            if NAMED.get(kind) != type(found).__module__:
                stub.imports.add(f"from {type(found).__module__} import {kind} as _{kind}")
            stub.lines.append(f"{name}: _{kind}")


def package() -> str:
    """That of the package."""
    stub = Stub()
    for name in fg.__all__:
        getattr(fg, name)  # what is imported later offers functions, too
    _declare_others(stub, fg, sorted({*fg.__all__, "is_tensor"} - PACKAGE.keys() - {"is_tensor"}))
    stub.lines.append("def is_tensor(obj: object) -> _bool: ...")
    for name in sorted(PACKAGE):
        stub.function(name, PACKAGE[name])
    return stub.text()


def functions(module: types.ModuleType) -> str:
    """That of a module of functions."""
    stub = Stub()
    names = sorted(module.__all__)
    plain = [n for n in names if _is_function(_own(module, n))]
    _declare_others(stub, module, [n for n in names if n not in plain])
    for name in plain:
        stub.function(name, _own(module, name))
    return stub.text()


_COMPARED = ("__eq__", "__ne__")
_BINARY = [
    f"__{side}{name}__"
    for name in (
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "and",
        "or",
        "xor",
        "lshift",
        "rshift",
        "matmul",
    )
    for side in ("", "r", "i")
] + [f"__{name}__" for name in ("lt", "le", "gt", "ge", "eq", "ne")]
_SPECIAL = {
    "__neg__": "(self) -> _Tensor", "__pos__": "(self) -> _Tensor", "__abs__": "(self) -> _Tensor",
    "__invert__": "(self) -> _Tensor", "__bool__": "(self) -> _bool", "__int__": "(self) -> _int",
    "__float__": "(self) -> _float", "__index__": "(self) -> _int", "__len__": "(self) -> _int",
    "__hash__": "(self) -> _int", "__iter__": "(self) -> _Iterator[_Tensor]",
    "__getitem__": "(self, index: _Any) -> _Tensor", "__setitem__": "(self, index: _Any, value: _Any) -> None",
    "__contains__": "(self, element: object) -> _bool",
}  # fmt: skip
_WRITTEN = ("data", "grad", "requires_grad")
_PROPERTIES = {
    "T": TENSOR, "mT": TENSOR, "H": TENSOR, "mH": TENSOR, "real": TENSOR, "imag": TENSOR, "data": TENSOR,
    "grad": f"{TENSOR} | None", "grad_fn": "_Any", "dtype": "_dtype", "device": "_device", "shape": "_Size",
    "requires_grad": "_bool", "is_leaf": "_bool", "retains_grad": "_bool", "ndim": "_int", "itemsize": "_int",
    "nbytes": "_int", "output_nr": "_int", "is_cpu": "_bool", "is_cuda": "_bool", "is_meta": "_bool",
}  # fmt: skip


def tensor() -> str:
    """That of the class `Tensor`."""
    stub = Stub()
    stub.lines += [
        "from fastgrad.native.build.loader import TensorBase",
        "from fastgrad.tensor.size import Size as Size",
        "",
    ]
    stub.lines.append("class Tensor(TensorBase):  # type: ignore[misc]")
    stub.lines.append("    def __init__(self, data: _Any = ...) -> None: ...")
    for name in _BINARY:
        if hasattr(fg.Tensor, name):
            other, ignored = ("object", "  # type: ignore[override]") if name in _COMPARED else (SCALAR, "")
            stub.lines.append(f"    def {name}(self, other: {other}) -> _Tensor: ...{ignored}")
    for name, rest in _SPECIAL.items():
        if hasattr(fg.Tensor, name):
            stub.lines.append(f"    def {name}{rest}: ...")
    for name in sorted(n for n in dir(fg.Tensor) if not n.startswith("__")):
        found = fg.overrides.original(inspect.getattr_static(fg.Tensor, name))
        if name in METHODS or _is_function(found):
            stub.function(name, METHODS.get(name, found), method=True, indent="    ")
        else:
            kind = _PROPERTIES.get(name, "_Any")
            if name in _WRITTEN or name.startswith("_"):
                stub.lines.append(f"    {name}: {kind}")
            else:
                stub.lines += ["    @property", f"    def {name}(self) -> {kind}: ..."]
    return (
        stub.text()
        .replace("from fastgrad.tensor import Tensor as _Tensor\n", "")
        .replace("class Tensor(", "class Tensor(")
        + "\n_Tensor = Tensor\n"
    )


def stubs() -> Iterator[tuple[Path, str]]:
    """Each stub's path and text."""
    yield ROOT / "__init__.pyi", package()
    yield ROOT / "tensor" / "__init__.pyi", tensor()
    for module in (fg.nn.functional, fg.special, fg.linalg):
        yield Path(str(module.__file__)).with_suffix(".pyi"), functions(module)


def main(arguments: list[str]) -> int:
    """Write or compare all of them."""
    wrong = [path for path, text in stubs() if not path.exists() or path.read_text() != text]
    if "--check" in arguments:
        for path in wrong:
            print(f"{path.name} is not what tools/stubs.py writes", file=sys.stderr)
        return int(bool(wrong))
    for path, text in stubs():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
