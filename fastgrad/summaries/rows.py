"""The lines of a summary: modules in the order in which they are called, each below the one that called it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fastgrad import markup
from fastgrad.autograd.introspect import hooks
from fastgrad.native.build.loader import TensorBase
from fastgrad.nn.modules.pytree import children, is_container

SHOWN, DEEPEST = 4, 3
"""How many values of a container are named, and how far into containers in containers."""


@dataclass(eq=False)
class Row:
    """A line of a summary. Its figures count all that is within the module.

    Attributes
    ----------
    module : Module
    path : str
        Its dotted name in the model, empty for the model itself.
    name : str
        The part of it that the line adds to that of the line above.
    depth : int
    calls : int
        How often the module is called from where it stands; 0 if it never is.
    input, output : str
        Sizes of what goes in and comes out at the first call.
    output_nbytes : int
        Bytes of what comes out, of all calls.
    multiply_adds : int
        Of all calls.
    parameters, trainable : int
        How many numbers they hold, each parameter counted once.
    hooks : int
        Of modules and parameters.
    shared : bool
        Whether every one of its parameters belongs to a line further up as well.
    rows : list of Row
        What is called within it, and what is within it and not called.
    """

    module: Any
    path: str
    name: str
    depth: int
    calls: int = 0
    input: str = ""
    output: str = ""
    output_nbytes: int = 0
    multiply_adds: int = 0
    parameters: int = 0
    trainable: int = 0
    hooks: int = 0
    shared: bool = False
    rows: list[Row] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """The name of the module's class."""
        return str(self.module._get_name())

    def __iter__(self) -> Iterator[Row]:
        """It and all lines below it."""
        yield self
        for row in self.rows:
            yield from row

    def __repr__(self) -> str:
        return f"<Row {self.path or self.kind!r}: {self.parameters:,} parameters>"


class Lines:
    """The lines while they are found.

    Parameters
    ----------
    model : Module
    """

    def __init__(self, model: Any) -> None:
        self.root = Row(model, "", "", 0)
        self._modules = dict(model.named_modules())  # before the call, in which some may move
        self.paths = {id(module): path for path, module in self._modules.items()}
        self._first: dict[int, Row] = {id(model): self.root}  # by module

    def of(self, parent: Row, module: Any) -> Row:
        """The line of a module that is called from another one; it is made if there is none.

        A list of modules is called by nobody: it gets a line between them, so that those within it stand together.
        """
        direct = next((name for name, part in parent.module._modules.items() if part is module), None)
        if direct is not None:
            return self._below(parent, module, direct)
        path = self.paths[id(module)]
        if parent.path and not path.startswith(parent.path + "."):
            return self._below(parent, module, path, path)
        for name in path.removeprefix(parent.path).strip(".").split("."):
            inner = f"{parent.path}.{name}" if parent.path else name
            parent = self._below(parent, self._modules[inner], name, inner)
        return parent

    def _below(self, parent: Row, module: Any, name: str, path: str = "") -> Row:
        for row in parent.rows:
            if row.module is module:
                return row
        path = path or (f"{parent.path}.{name}" if parent.path else name)
        row = Row(module, path, name, parent.depth + 1)
        parent.rows.append(row)
        self._first.setdefault(id(module), row)
        return row

    def add_rest(self) -> None:
        """Add what was not called, below what it belongs to, in the order in which it is declared."""
        for path, module in self.root.module.named_modules():
            if id(module) not in self._first:
                above = self.root.module.get_submodule(path.rpartition(".")[0])
                self._below(self._first[id(above)], module, path.rpartition(".")[2])

    def count(self) -> None:
        """Fill in the figures that need no call, and those of modules that only others call."""
        seen: set[int] = set()
        for row in self.root:
            parameters = parameters_of(row.module)
            held = set(map(id, parameters))
            row.parameters = sum(p.numel() for p in parameters)
            row.trainable = sum(p.numel() for p in parameters if p.requires_grad)
            row.shared = bool(held) and row is not self.root and held <= seen
            row.hooks = hooks_of(row.module)
            if not row.rows:
                seen.update(held)
            else:
                seen.update(id(p) for p in row.module._parameters.values() if p is not None)
        self._sum(self.root)

    def _sum(self, row: Row) -> None:
        for inner in row.rows:
            self._sum(inner)
        if not row.calls:
            row.multiply_adds = sum(inner.multiply_adds for inner in row.rows)


def parameters_of(module: Any) -> list[Any]:
    """Parameters of a module and of those within it, each once."""
    held = {id(p): p for inner in module.modules() for p in inner._parameters.values() if p is not None}
    return list(held.values())


def hooks_of(module: Any) -> int:
    """How many hooks a module, those within it and their parameters have."""
    return sum(len(hooks(inner)) for inner in module.modules()) + sum(
        len(hooks(p)) for p in parameters_of(module)
    )


def nbytes_of(tensors: Iterable[Any]) -> int:
    """The bytes of the elements of tensors."""
    return sum(t.numel() * t.element_size() for t in tensors)


def sizes_text(value: Any, deep: int = 0) -> str:
    """The sizes of tensors in a value, such as ``([2, 3], {mask: [2]})``."""
    if isinstance(value, TensorBase):
        return str(list(value.shape))  # type: ignore[attr-defined]
    if value is None or isinstance(value, (bool, int, float, str)):
        return markup.cut(repr(value), 12)
    if not is_container(value):
        return type(value).__name__
    inner = children(value)
    if deep == DEEPEST:
        return "…"
    shown = [sizes_text(v, deep + 1) for v in inner[:SHOWN]] + ["…"] * (len(inner) > SHOWN)
    if isinstance(value, dict):
        names = [str(key)[:12] for key in list(value)[:SHOWN]]
        shown[: len(names)] = [f"{name}: {text}" for name, text in zip(names, shown, strict=False)]
        return f"{{{', '.join(shown)}}}"
    return f"[{', '.join(shown)}]" if isinstance(value, list) else f"({', '.join(shown)})"
