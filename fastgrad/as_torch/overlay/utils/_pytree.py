"""Values that hold tensors, as tuples, lists and dicts within each other, and what libraries register besides."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import fastgrad as fg

__all__ = [
    "LeafSpec", "NodeDef", "PyTree", "TreeSpec", "register_pytree_node", "tree_all", "tree_all_only", "tree_any",
    "tree_any_only", "tree_flatten", "tree_iter", "tree_leaves", "tree_map", "tree_map_", "tree_map_only",
    "tree_map_only_", "tree_structure", "tree_unflatten",
]  # fmt: skip

PyTree = Any
IsLeaf = Callable[[Any], bool] | None


class NodeDef(NamedTuple):
    """How values of a type are taken apart and put together."""

    type: type[Any]
    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list[Any], Any]] | None = None


class TreeSpec:
    """How a value is built.

    Parameters
    ----------
    type : type or None
        That of the container; None for a leaf.
    context : object
        What is needed besides the children to put it together: the keys of a dict.
    children_specs : list of TreeSpec
    """

    __slots__ = ("children_specs", "context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]) -> None:  # noqa: A002 - PyTorch's
        self.type, self.context, self.children_specs = type, context, children_specs
        self.num_children = len(children_specs)
        self.num_nodes: int = 1 + sum(child.num_nodes for child in children_specs)
        self.num_leaves: int = 1 if type is None else sum(child.num_leaves for child in children_specs)

    def is_leaf(self) -> bool:
        """Whether it is that of a value that is no container."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """Those of what is inside."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """That of one thing inside."""
        return self.children_specs[index]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """A value that is built so."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items"
            )
        return self._built(iter(leaves))

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """What a value that is built like it, at least so far, holds where it has leaves.

        Raises
        ------
        ValueError
            If it is built otherwise.
        """
        if self.is_leaf():
            return [tree]
        kind = _get_node_type(tree)
        if kind is not self.type and not (kind in _DICTS and self.type in _DICTS):
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {kind!r}")
        children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if len(children) != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(children)}")
        if kind in _DICTS:
            mine = self.context[1] if self.type is defaultdict else self.context
            if set(mine) != set(tree):
                raise ValueError(f"Node keys mismatch; expected {mine!r}, but got {list(tree)!r}")
            children = [tree[key] for key in mine]
        elif context != self.context:
            raise ValueError(f"Node context mismatch; expected {self.context!r}, but got {context!r}")
        pairs = zip(self.children_specs, children, strict=True)
        return [leaf for spec, child in pairs for leaf in spec.flatten_up_to(child)]

    def _built(self, leaves: Iterator[Any]) -> Any:
        if self.type is None:
            return next(leaves)
        children = [child._built(leaves) for child in self.children_specs]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TreeSpec)
            and (self.type, self.context) == (other.type, other.context)
            and self.children_specs == other.children_specs
        )

    def __hash__(self) -> int:
        return hash((self.type, repr(self.context), tuple(self.children_specs)))

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        return (
            f"TreeSpec({self.type.__name__}, {self.context!r}, [{', '.join(map(repr, self.children_specs))}])"
        )


def LeafSpec() -> TreeSpec:  # noqa: N802 - a class in PyTorch
    """The `TreeSpec` of a value that is no container."""
    return TreeSpec(None, None, [])


@dataclass(frozen=True)
class MappingKey:
    """Where a value stands in a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """The value."""
        return mapping[self.key]


def _dict_flatten(tree: Any) -> tuple[list[Any], Any]:
    return list(tree.values()), list(tree)


def _dict_flatten_with_keys(tree: Any) -> tuple[list[tuple[MappingKey, Any]], Any]:
    return [(MappingKey(key), value) for key, value in tree.items()], list(tree)


def _dict_unflatten(children: Iterable[Any], keys: Any) -> dict[Any, Any]:
    return dict(zip(keys, children, strict=True))


def _of_default(tree: Any) -> tuple[list[Any], Any]:
    return list(tree.values()), [tree.default_factory, list(tree)]


_DICTS = (dict, OrderedDict, defaultdict)
SUPPORTED_NODES: dict[Any, NodeDef] = {
    definition.type: definition
    for definition in (
        NodeDef(tuple, lambda tree: (list(tree), None), lambda children, _: tuple(children)),
        NodeDef(list, lambda tree: (tree, None), lambda children, _: list(children)),
        NodeDef(dict, _dict_flatten, _dict_unflatten),
        NodeDef(
            namedtuple,  # type: ignore[arg-type] # it stands for all classes that it makes
            lambda tree: (list(tree), type(tree)),
            lambda children, kind: kind(*children),
        ),
        NodeDef(
            OrderedDict, _dict_flatten, lambda children, keys: OrderedDict(zip(keys, children, strict=True))
        ),
        NodeDef(
            defaultdict,
            _of_default,
            lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
        ),
        NodeDef(
            deque,
            lambda tree: (list(tree), tree.maxlen),
            lambda children, length: deque(children, maxlen=length),
        ),
        NodeDef(fg.Size, lambda tree: (list(tree), None), lambda children, _: fg.Size(children)),
    )
}
"""The types of containers."""


def register_pytree_node(
    cls: type[Any],
    flatten_fn: Callable[[Any], tuple[list[Any], Any]],
    unflatten_fn: Callable[[Iterable[Any], Any], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Any = None,
    from_dumpable_context: Any = None,
    flatten_with_keys_fn: Callable[[Any], tuple[list[Any], Any]] | None = None,
) -> None:
    """Let values of a class be containers.

    Parameters
    ----------
    cls : type
    flatten_fn : callable
        Gives the list of what a value holds, and what is needed besides to put it together.
    unflatten_fn : callable
        Makes a value of these two.
    serialized_type_name, to_dumpable_context, from_dumpable_context
        For files of exported programs, which there are none of.
    flatten_with_keys_fn : callable, optional
        Kept in the `NodeDef`.

    Raises
    ------
    ValueError
        If the class is registered already.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


def _register_pytree_node(
    cls: type[Any],
    flatten_fn: Any,
    unflatten_fn: Any,
    to_str_fn: Any = None,
    maybe_from_str_fn: Any = None,
    **more: Any,
) -> None:
    """The same by its older name."""
    register_pytree_node(cls, flatten_fn, unflatten_fn, **more)


def _deregister_pytree_node(cls: type[Any]) -> None:
    """Let values of a class be leaves again."""
    del SUPPORTED_NODES[cls]


def is_namedtuple_class(cls: type) -> bool:
    """Whether a class is one that `namedtuple` makes."""
    fields = getattr(cls, "_fields", None) if isinstance(cls, type) and issubclass(cls, tuple) else None
    return isinstance(fields, tuple) and all(isinstance(field, str) for field in fields)


def is_namedtuple(obj: Any) -> bool:
    """Whether a value is of such a class, or is one."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def _get_node_type(tree: Any) -> Any:
    """What `SUPPORTED_NODES` has for a value."""
    kind = type(tree)
    if kind not in SUPPORTED_NODES and is_namedtuple_class(kind):
        return namedtuple
    return kind


def _is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether a value is no container, or counts as none."""
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """What a value holds that is no container, and how it is built."""
    leaves: list[Any] = []

    def look(value: Any) -> TreeSpec:
        if _is_leaf(value, is_leaf):
            leaves.append(value)
            return LeafSpec()
        kind = _get_node_type(value)
        children, context = SUPPORTED_NODES[kind].flatten_fn(value)
        return TreeSpec(kind, context, [look(child) for child in children])

    return leaves, look(tree)


def tree_iter(tree: Any, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """What a value holds that is no container, one after the other."""
    if _is_leaf(tree, is_leaf):
        yield tree
        return
    for child in SUPPORTED_NODES[_get_node_type(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """What a value holds that is no container."""
    return list(tree_iter(tree, is_leaf))


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """How a value is built."""
    return tree_flatten(tree, is_leaf)[1]


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """A value that is built like another one."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but got item of type "
            f"{type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """A value that is built like another one, of what a function makes of each leaf."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *(spec.flatten_up_to(rest) for rest in rests)))


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Call a function for each leaf, which it may change; the value."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for arguments in zip(leaves, *(spec.flatten_up_to(rest) for rest in rests), strict=True):
        func(*arguments)
    return tree


def _predicate(kind: Any) -> Callable[[Any], bool]:
    """Whether a leaf is of a type, or what a function says."""
    if isinstance(kind, (type, tuple)) or not callable(kind):
        return lambda leaf: isinstance(leaf, kind)
    return kind  # type: ignore[no-any-return]


def _where(kind: Any, func: Callable[[Any], Any]) -> Callable[[Any], Any]:
    chosen = _predicate(kind)
    return lambda leaf: func(leaf) if chosen(leaf) else leaf


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None
) -> Any:
    """What `tree_map` gives, for leaves of a type; others stay."""
    return tree_map(_where(type_or_types_or_pred, func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None
) -> Any:
    """What `tree_map_` does, for leaves of a type."""
    return tree_map_(_where(type_or_types_or_pred, func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether something holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether something holds for a leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None
) -> bool:
    """Whether something holds for all leaves of a type."""
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def tree_any_only(
    type_or_types: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None
) -> bool:
    """Whether something holds for a leaf of a type."""
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def _broadcast_to_and_flatten(tree: Any, treespec: TreeSpec, is_leaf: IsLeaf = None) -> list[Any] | None:
    """What a value holds for each leaf of a structure, which may be one for many; None if it is built otherwise."""
    if _is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    kind = _get_node_type(tree)
    if treespec.is_leaf() or kind is not treespec.type:
        return None
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    found: list[Any] = []
    for child, spec in zip(children, treespec.children_specs, strict=True):
        inside = _broadcast_to_and_flatten(child, spec, is_leaf)
        if inside is None:
            return None
        found += inside
    return found
