"""Boundaries in the graph: where values enter or leave a module whose backward hooks want to see their gradients."""

from __future__ import annotations

from typing import Any

from fastgrad import dtypes
from fastgrad.functions.creation import zeros
from fastgrad.native.build.loader import rt, runtime_set
from fastgrad.native.host import devices
from fastgrad.ops.registry import Boundary


def boundary(values: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Let values cross a boundary: a node through which gradients go as they are.

    Parameters
    ----------
    values : tuple
        Tensors and anything else.

    Returns
    -------
    tuple
        The node, with an input and an output for each value, and the values behind the boundary. A tensor that
        requires grad becomes an output of the node and a view of itself; it may be changed in place as any view may.
        Everything else stays the object it is. The node is None if no value requires grad or gradients are off.

    Notes
    -----
    Hooks of the node see the gradients that cross, and only those: what a tensor receives from its uses outside of the
    boundary is not among them. An undefined gradient stays undefined.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.autograd.boundary import boundary
    >>> x = fg.ones(2, requires_grad=True)
    >>> node, (inside, number) = boundary((x, 3))
    >>> handle = node.register_hook(lambda grad_inputs, grad_outputs: print(grad_inputs))
    >>> (inside * number + x).sum().backward()
    (tensor([3., 3.]), None)
    >>> x.grad
    tensor([4., 4.])
    """
    return rt.boundary(values)  # type: ignore[no-any-return]


def zeros_at(node: Any, output_nr: int) -> Any:
    """Zeros like the tensor that stands at an output of a node."""
    code, device, *sizes = rt.node_meta(node, output_nr)
    return zeros(sizes, dtype=dtypes.of_code(code), device=devices.name_of(device))


runtime_set("boundary_op", Boundary.id)
