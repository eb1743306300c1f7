"""Writes the pages of the API reference: each public name of each public module, with types.

A module is public if the names that its package lists lead to it. Signatures are those of the stubs, which say what
functions that are put together at run time take and give; where there is no stub, those of the objects.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import runpy
import types
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, NumpyDocstring

import fastgrad

NOT_LISTED = {
    "fastgrad.ops",  # how ops are declared: docs/adding_an_op.md
    "fastgrad.nn.modules",  # `fastgrad.nn` has the same names
}
TOPICS = {
    "Making tensors": "creation likeness sampling draws sharing spectra",
    "Element by element": "elementwise pointwise bits complex_numbers special",
    "Reductions and statistics": "reduce statistics summaries running histograms",
    "Shapes and views": "shape arrangement repetition strided",
    "Indices": "index scattering taking placing changing",
    "Orders and searching": "sorting orders searching",
    "Linear algebra": "linalg products contractions systems matrix_functions older_linalg orthogonal least_squares",
    "Networks": "recurrent",  # and all of `fastgrad.nn.functional`
}
"""Pages of functions of the package, by the modules of `fastgrad.functions` that define them; what is left stands on
that of the package."""
TOPIC_OF = {module: topic for topic, modules in TOPICS.items() for module in modules.split()}

stubs = types.SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[2] / "tools" / "stubs.py")))

NAPOLEON = Config(
    napoleon_use_rtype=False, napoleon_use_ivar=True, napoleon_use_admonition_for_examples=False
)


# --- what there is -----------------------------------------------------------------------------------------------


def public_names(module: types.ModuleType) -> list[str]:
    """What a module offers: what it lists, else what it defines."""
    listed = getattr(module, "__all__", None)
    if listed is None:
        listed = [
            name for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
        ]  # fmt: skip
    return sorted(name for name in set(listed) if not name.startswith("__"))


def public_modules(module: types.ModuleType = fastgrad) -> Iterator[types.ModuleType]:
    """A module and those within it that are public."""
    yield module
    for name in public_names(module) if hasattr(module, "__path__") else ():
        found = getattr(module, name)
        inside = f"{module.__name__}.{name}"
        if isinstance(found, types.ModuleType) and found.__name__ == inside and inside not in NOT_LISTED:
            yield from public_modules(found)


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, (type, fastgrad.dtype, fastgrad.Generator))


def topic(module: types.ModuleType, name: str) -> str | None:
    """The page, beside that of its module, on which a name stands."""
    value = getattr(module, name)
    if value is fastgrad.Tensor:
        return "Tensor"
    if module is not fastgrad or not _is_function(value):
        return None
    if name.endswith("_"):
        return "In place"
    path = getattr(inspect.unwrap(value), "__module__", None) or ""
    if path.startswith("fastgrad.nn.functional."):
        return "Networks"
    return TOPIC_OF.get(path.removeprefix("fastgrad.functions."))


# --- signatures --------------------------------------------------------------------------------------------------


def _plain(text: str) -> str:
    """A type of a stub, where names that are imported begin with an underscore, as one reads it."""
    return re.sub(r"\b_(?=[A-Za-z])", "", text)


@cache
def declared(module: str) -> dict[str, list[str]]:
    """The signatures in the stub of a module, by names; those of methods by ``Class.method``."""
    path = Path(inspect.getfile(importlib.import_module(module))).with_suffix(".pyi")
    found: dict[str, list[str]] = {}

    def add(body: Iterable[ast.stmt], inside: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                add(node.body, f"{inside}{node.name}.")
            elif isinstance(node, ast.FunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args]
                if inside and arguments and arguments[0].arg == "self":
                    (node.args.posonlyargs or node.args.args).pop(0)
                result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
                text = _plain(f"({ast.unparse(node.args)}){result}")
                found.setdefault(inside + node.name, []).append(text)

            elif isinstance(node, ast.AnnAssign) and inside:  # a property that can be set
                text = _plain(ast.unparse(node.annotation))
                found[inside + ast.unparse(node.target)] = [f"() -> {text}"]

    if path.is_file():
        add(ast.parse(path.read_text(encoding="utf-8")).body, "")
    return found


def _written(parameter: inspect.Parameter, said: dict[str, str]) -> inspect.Parameter:
    """A parameter whose annotation and default are code; what may be anything has the type that the docstring says."""
    default, annotation = parameter.default, parameter.annotation
    if default is not parameter.empty and type(default) not in (int, float, bool, str, type(None), tuple):
        plain = re.fullmatch(r"[A-Za-z][\w.]*", repr(default))  # such as a dtype
        default = _Literally(plain[0] if plain else getattr(default, "__name__", "..."))
    if annotation is not parameter.empty:
        text = _type_text(annotation)
        annotation = _Literally((text == "Any" and _of_words(said.get(parameter.name, ""))) or text)
    return parameter.replace(default=default, annotation=annotation)


def _type_text(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:typing|builtins|collections\.abc|fastgrad(?:\.\w+)*)\.(?=\w)", "", text)


def _of_words(text: str) -> str | None:
    """The type that a docstring means."""
    kind = stubs.of_words(text)
    return _plain(kind) if kind and kind != "None" else None


class _Literally:
    """What stands in a signature as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def signatures(value: Any, module: str, name: str, *, method: bool = False) -> list[str]:
    """All forms of a call, as the stub has them, else as the object says."""
    if name in declared(module):
        return declared(module)[name]
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ["()" if method else "(*args, **kwargs)"]
    said = stubs.described(value)
    parameters = [_written(p, said) for p in signature.parameters.values()]
    if method and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    result = signature.return_annotation
    if isinstance(value, type) or result is signature.empty:
        result = signature.empty
    else:
        text = _type_text(result)
        returned = stubs.section(inspect.getdoc(value) or "", "Returns").partition("\n")[0]
        result = _Literally((text == "Any" and _of_words(returned.rpartition(" : ")[2])) or text)
    return [str(signature.replace(parameters=parameters, return_annotation=result)).replace("\n", " ")]


# --- pages -------------------------------------------------------------------------------------------------------


def _indented(lines: Iterable[str], by: int) -> list[str]:
    return [" " * by + line if line else "" for line in lines]


def attributes_apart(doc: str) -> str:
    """A docstring whose attributes have a line each: those that share one, napoleon takes for a type and a name."""
    section = stubs.section(doc, "Attributes").rstrip("\n")
    apart = re.sub(
        r"^(\w+(?:, \w+)+)(.*(?:\n(?: .*)?)*)$",
        lambda found: "\n".join(name + found[2].rstrip("\n") for name in found[1].split(", ")),
        section,
        flags=re.MULTILINE,
    )
    return doc.replace(section, apart) if section else doc


def described(value: Any, what: str) -> list[str]:
    """A docstring as reStructuredText."""
    doc = attributes_apart(inspect.getdoc(value) or "")
    return str(NumpyDocstring(doc, NAPOLEON, what=what)).splitlines()


def directive(kind: str, name: str, forms: list[str], body: list[str], *options: str) -> list[str]:
    """One entry; its further forms stand below each other."""
    head = f".. py:{kind}:: "
    lines = [head + name + (forms[0] if forms else "")]
    lines += [" " * len(head) + name + form for form in forms[1:]]
    return [*lines, *_indented([*options, "", *body], 3), ""]


def members(of: type, module: str, inside: str) -> Iterator[list[str]]:
    """The methods and properties that a class defines and describes itself; of `Tensor`, those of its bases, too."""
    found: dict[str, Any] = {}
    for base in reversed(of.__mro__):
        if base is of or (base.__module__.startswith("fastgrad.") and inside == "Tensor"):
            found |= vars(base)
    for name, value in sorted(found.items()):
        call = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if name.startswith("_") or not (
            getattr(call, "__doc__", None) or f"{inside}.{name}" in declared(module)
        ):
            continue
        if isinstance(value, property) or inspect.isdatadescriptor(value):
            result = "".join(declared(module).get(f"{inside}.{name}", [])).partition(" -> ")[2]
            yield directive(
                "property", name, [], described(value, "attribute"), *([f":type: {result}"] if result else [])
            )
        elif callable(call) and not isinstance(call, type):
            forms = signatures(call, module, f"{inside}.{name}", method=not isinstance(value, staticmethod))
            option = {classmethod: [":classmethod:"], staticmethod: [":staticmethod:"]}.get(type(value), [])
            if of is fastgrad.Tensor and _is_function(getattr(fastgrad, name, None)):
                body = [*described(call, "method"), ""]
                body = [*body[: body.index("")], "", f"See `fastgrad.{name}`."]  # which says the rest
            else:
                body = described(call, "method")
            yield directive("method", name, forms, body, *option)


def entry(module: types.ModuleType, name: str) -> list[str]:
    """What the reference says of one name."""
    value = getattr(module, name)
    where = module.__name__
    if isinstance(value, type):
        home = value.__module__ if value.__name__ in declared_classes(value.__module__) else where
        body = described(value, "class")
        for member in members(value, home, value.__name__):
            body += ["", *member]
        kind = "exception" if issubclass(value, BaseException) else "class"
        return directive(kind, name, signatures(value, where, name), body)
    if _is_function(value):
        return directive("function", name, signatures(value, where, name), described(value, "function"))
    kind = type(value)
    body = [f"``{value!r}``" if "\n" not in repr(value) and " at 0x" not in repr(value) else ""]
    return directive("data", name, [], body, f":type: {kind.__name__}")


@cache
def declared_classes(module: str) -> frozenset[str]:
    """The classes that a module's stub declares with their methods."""
    return frozenset(name.partition(".")[0] for name in declared(module) if "." in name)


def page(title: str, module: types.ModuleType, names: list[str], about: list[str]) -> str:
    """A page: what the module says, a table of the names, and each in full."""
    lines = [title, "=" * len(title), "", f".. py:currentmodule:: {module.__name__}", "", *about, ""]
    table = [n for n in names if isinstance(getattr(module, n), type) or _is_function(getattr(module, n))]
    if len(table) > 1:
        lines += [".. autosummary::", "   :nosignatures:", "", *_indented(table, 3), ""]
    for name in names:
        lines += entry(module, name)
    return "\n".join(lines) + "\n"


def summary(module: types.ModuleType) -> str:
    """The first sentence or so of what a module says."""
    return " ".join((inspect.getdoc(module) or "").partition("\n\n")[0].split())


def pages() -> Iterator[tuple[str, str]]:
    """The name and the text of each page of the reference, the first of which lists them."""
    listed: list[tuple[str, str]] = []
    for module in public_modules():
        groups: dict[str | None, list[str]] = {}
        for name in public_names(module):
            if not isinstance(getattr(module, name), types.ModuleType):
                groups.setdefault(topic(module, name), []).append(name)
        about = [f".. py:module:: {module.__name__}", "", *described(module, "module")]
        own = groups.pop(None, [])
        listed.append((module.__name__, summary(module)))
        yield module.__name__, page(module.__name__, module, own, about)
        for title in sorted(groups):
            path = title.lower().replace(" ", "-")
            listed.append(
                (
                    path,
                    f"{len(groups[title])} functions."
                    if title != "Tensor"
                    else "The class, and its methods.",
                )
            )
            yield path, page(f"{module.__name__}: {path.replace('-', ' ')}", module, groups[title], [])
    lines = ["API reference", "=============", ""]
    lines += [
        "Every public name, with types. Each page begins with a table of what it has; the search finds names, too.",
        "",
    ]
    lines += [line for path, says in listed for line in (f":doc:`{path}`", f"   {says}", "")]
    lines += [".. toctree::", "   :hidden:", "", *(f"   {path}" for path, _ in listed)]
    yield "index", "\n".join(lines) + "\n"


def write(app: Sphinx) -> None:
    """Write the pages that changed, and remove those of names that are gone."""
    folder = Path(app.srcdir, "api")
    folder.mkdir(exist_ok=True)
    texts = {folder / f"{name}.rst": text for name, text in pages()}
    for path in set(folder.glob("*.rst")) - set(texts):
        path.unlink()
    for path, text in texts.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def resolve(app: Sphinx, env: Any, node: Any, content: nodes.Element) -> nodes.Element | None:
    """What docstrings name is looked for in the package, too, and what is not found is code."""
    if node.get("refdomain") != "py":
        return None
    domain = env.domains["py"]
    for prefix in ("fastgrad.", "fastgrad.nn.", "fastgrad.nn.functional."):
        found = domain.objects.get(prefix + node["reftarget"])
        if found is not None:
            return domain.resolve_xref(
                env, node["refdoc"], app.builder, node["reftype"], prefix + node["reftarget"], node, content
            )
    return content


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx asks for this."""
    app.connect("builder-inited", write)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
