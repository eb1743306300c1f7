"""Pictures of backward graphs and of recorded tapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastgrad.native.build.loader import TensorBase
from fastgrad.native.host.tape import Tape
from fastgrad.viz.backward import Backward, roots_of
from fastgrad.viz.drawing import Picture, draw
from fastgrad.viz.tapes import diagram_of

__all__ = ["Picture", "graph"]


def graph(
    x: Any,
    *,
    params: Any = None,
    show_attrs: bool = False,
    show_saved: bool = False,
    max_nodes: int = 500,
) -> Picture:
    """Draw the backward graph behind tensors, or the launches of a recorded tape.

    Of a backward graph, the roots stand at the top and gradients flow downwards, to the leaves. Each node shows the
    sizes and dtypes of what its op made, the bytes that it saves, and its hooks. Of a tape, each launch shows the bytes
    that it reads and writes and its operations, where the frame tells, and arrows come from who wrote what it reads.

    Parameters
    ----------
    x : Tensor, Node, GradientEdge, Tape, or list or tuple of the first three
    params : dict, iterable of pairs, or Module, optional
        Names of tensors: a mapping from names to tensors, as ``dict(model.named_parameters())``, pairs of them, or a
        module, whose parameters have their names.
    show_attrs : bool
        Show integers of ops and sequence numbers; of launches the sizes in their frames.
    show_saved : bool
        Show each saved tensor.
    max_nodes : int
        How many nodes or launches are drawn at most, those nearest to the roots, or the first ones. The picture says
        how many there are.

    Returns
    -------
    Picture
        Notebooks show it; ``save(path)`` writes it, ``str()`` gives its text.

    Raises
    ------
    TypeError
        For anything else.
    ValueError
        If a tensor does not require grad, a tape holds no launches, or `max_nodes` is not positive.

    Examples
    --------
    >>> import fastgrad as fg
    >>> w = fg.ones(3, requires_grad=True)
    >>> picture = fg.viz.graph((w * 2).sum(), params={"w": w})
    >>> picture.save("graph.svg")  # doctest: +SKIP
    >>> "MulBackward0" in str(picture)
    True
    """
    if isinstance(max_nodes, bool) or not isinstance(max_nodes, int):
        raise TypeError(f"graph(): max_nodes must be an int, but got {type(max_nodes).__name__}")
    if max_nodes <= 0:
        raise ValueError(f"graph(): max_nodes must be positive, but got {max_nodes}")
    named = _named(params)
    if isinstance(x, Tape):
        by_address = {t.data_ptr(): name for name, t in reversed(named) if t.numel()}
        return draw(diagram_of(x, by_address, max_nodes, bool(show_attrs)))
    names = {id(t): name for name, t in reversed(named)}
    found = Backward(
        roots_of(x), names, show_attrs=bool(show_attrs), show_saved=bool(show_saved), max_nodes=max_nodes
    )
    return draw(found.diagram)


def _named(params: Any) -> list[tuple[str, Any]]:
    """Pairs of names and tensors."""
    if params is None:
        return []
    if hasattr(params, "named_parameters"):
        params = params.named_parameters()
    pairs = list(params.items() if isinstance(params, Mapping) else params)
    for pair in pairs:
        fits = isinstance(pair, tuple) and len(pair) == 2
        if not fits or not isinstance(pair[0], str) or not isinstance(pair[1], TensorBase):
            raise TypeError(
                "graph(): params must give names to tensors, as dict(model.named_parameters()) does"
            )
    return pairs
