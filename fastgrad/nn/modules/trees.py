"""Modules in notebooks: a tree of HTML whose branches fold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastgrad import markup

MOST_LINES = 300
"""Modules, parameters and buffers that are shown at most."""


class _Room:
    """How many lines there may still be."""

    def __init__(self) -> None:
        self.left = MOST_LINES

    def taken(self) -> bool:
        """Take one; False if there is none."""
        self.left -= 1
        return self.left >= 0


def tree_of(module: Any) -> str:
    """A module as HTML: a line for each module within it, each parameter and each buffer."""
    room = _Room()
    body = _branch("", module, room, (), " open")
    more = "<div>…</div>" if room.left < 0 else ""
    return markup.piece(body + more)


def _branch(name: str, module: Any, room: _Room, above: tuple[int, ...], opened: str = "") -> str:
    """A module that folds; nothing if there is no room. A module within itself is not entered a second time."""
    if not room.taken():
        return ""
    title = f"{module._get_name()}({module.extra_repr()})"
    label = markup.escaped(markup.shortened(f"{name}: {title}" if name else title))
    count = sum(_numel(p) for p in module.parameters()) if not above or module._modules else 0
    facts = " " + markup.muted(f"{count:,} parameters") if count else ""
    if id(module) in above:
        return f'<div class="leaf"><code>{label}</code> …</div>'
    inner = "".join((*_tensors(module, room), *_modules(module, room, (*above, id(module)))))
    if not inner:
        return f'<div class="leaf"><code>{label}</code></div>'
    return f"<details{opened}><summary><code>{label}</code>{facts}</summary>{inner}</details>"


def _modules(module: Any, room: _Room, above: tuple[int, ...]) -> Iterator[str]:
    for name, inner in module._modules.items():
        if inner is not None:
            yield _branch(str(name), inner, room, above)


def _tensors(module: Any, room: _Room) -> Iterator[str]:
    for kind, held in (("parameter", module._parameters), ("buffer", module._buffers)):
        for name, value in held.items():
            if value is not None and room.taken():
                yield f'<div class="leaf">{markup.muted(f"{name}: {kind} {_facts(kind, value)}")}</div>'


def _facts(kind: str, value: Any) -> str:
    try:
        frozen = ", frozen" if kind == "parameter" and not value.requires_grad else ""
        return f"{list(value.shape)} {value.dtype.name} {value.device}{frozen}"
    except (RuntimeError, ValueError):  # one of a lazy module
        return "without sizes yet"


def _numel(value: Any) -> int:
    try:
        return int(value.numel())
    except (RuntimeError, ValueError):
        return 0
