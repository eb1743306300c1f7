"""Values that hold tensors: tuples, lists and dicts within each other, as transforms take and give them."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_CONTAINERS = (tuple, list, dict, OrderedDict, defaultdict, deque)


def is_container(value: Any) -> bool:
    """Whether a value is a container of leaves: a tuple, also a named one, a list, a dict or a deque."""
    return type(value) in _CONTAINERS or (isinstance(value, tuple) and hasattr(value, "_make"))


def _children(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value  # type: ignore[no-any-return]


def leaves_of(tree: Any) -> list[Any]:
    """What a value holds that is no container, in order."""
    if not is_container(tree):
        return [tree]
    return [leaf for child in _children(tree) for leaf in leaves_of(child)]


def filled(tree: Any, leaves: Iterator[Any]) -> Any:
    """A value built like another one, of other leaves."""
    if not is_container(tree):
        return next(leaves)
    made = [filled(child, leaves) for child in _children(tree)]
    if isinstance(tree, dict):
        pairs = zip(tree, made, strict=True)
        return defaultdict(tree.default_factory, pairs) if type(tree) is defaultdict else type(tree)(pairs)
    if type(tree) is deque:
        return deque(made, maxlen=tree.maxlen)
    return tree._make(made) if hasattr(tree, "_make") else type(tree)(made)


def rebuilt(tree: Any, leaves: Sequence[Any]) -> Any:
    """A value built like another one, of the leaves in a list."""
    return filled(tree, iter(leaves))


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """A value built like another one, of what a function gives for each leaf."""
    return rebuilt(tree, [function(leaf) for leaf in leaves_of(tree)])


def same_form(a: Any, b: Any) -> bool:
    """Whether two values are built alike."""
    if not is_container(a):
        return not is_container(b)
    if type(a) is not type(b) or len(a) != len(b):
        return False
    if isinstance(a, dict) and list(a) != list(b):
        return False
    return all(same_form(x, y) for x, y in zip(_children(a), _children(b), strict=True))


def form_text(tree: Any) -> str:
    """How a value is built, with a star in the place of each leaf."""
    if not is_container(tree):
        return "*"
    if isinstance(tree, dict):
        inner = ", ".join(f"{key!r}: {form_text(child)}" for key, child in tree.items())
        return f"{{{inner}}}"
    inner = ", ".join(map(form_text, tree))
    return f"[{inner}]" if not isinstance(tree, tuple) else f"({inner}{',' * (len(tree) == 1)})"


def spread(prefix: Any, tree: Any) -> list[Any] | None:
    """A leaf of `prefix` for each leaf of `tree`, where a leaf of `prefix` may stand for a whole part of `tree`.

    None where they do not fit.
    """
    if not is_container(prefix):
        return [prefix] * len(leaves_of(tree))
    if type(prefix) is not type(tree) and not (isinstance(prefix, tuple) and isinstance(tree, tuple)):
        return None
    if len(prefix) != len(tree) or (isinstance(prefix, dict) and list(prefix) != list(tree)):
        return None
    found: list[Any] = []
    for part, child in zip(_children(prefix), _children(tree), strict=True):
        inner = spread(part, child)
        if inner is None:
            return None
        found += inner
    return found
