"""Values that hold tensors, as tuples, lists and dicts within each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fastgrad.func import trees

__all__ = ["TreeSpec", "tree_flatten", "tree_leaves", "tree_map", "tree_map_only", "tree_unflatten"]


class TreeSpec(NamedTuple):
    """How a value is built."""

    tree: Any
    num_leaves: int


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """What a value holds that is no container, and how it is built."""
    _no(is_leaf)
    leaves = trees.leaves_of(tree)
    return leaves, TreeSpec(trees.rebuilt(tree, [None] * len(leaves)), len(leaves))


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> Any:
    """A value that is built like another one."""
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten(): expected {treespec.num_leaves} leaves, but got {len(leaves)}")
    return trees.rebuilt(treespec.tree, leaves)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """What a value holds that is no container."""
    _no(is_leaf)
    return trees.leaves_of(tree)


def tree_map(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """A value that is built like another one, of what a function makes of each leaf."""
    _no(is_leaf)
    others = [trees.leaves_of(rest) for rest in rests]
    return trees.rebuilt(tree, [func(*leaves) for leaves in zip(trees.leaves_of(tree), *others, strict=True)])


def tree_map_only(kind: Any, func: Callable[[Any], Any], tree: Any) -> Any:
    """The same for leaves of a type; others stay."""
    return trees.mapped(lambda leaf: func(leaf) if isinstance(leaf, kind) else leaf, tree)


def _no(is_leaf: Any) -> None:
    if is_leaf is not None:
        raise NotImplementedError(
            "tree functions: is_leaf is not supported; tuples, lists and dicts are no leaves"
        )
