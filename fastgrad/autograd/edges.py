"""Gradient edges: a place of the graph at which gradients arrive, without the tensor."""

from __future__ import annotations

from typing import Any, NamedTuple

from fastgrad.autograd.node import Node
from fastgrad.functions.arguments import need_tensor
from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.records import NODE, TENSOR

_OUTPUT_NR = TENSOR.fields["output_nr"][0]
_N_OUT = NODE.fields["n_out"][0]


class GradientEdge(NamedTuple):
    """Output `output_nr` of a node; stands for a tensor as a root or an input of `backward` and `grad`.

    Attributes
    ----------
    node : Node
    output_nr : int
    ownership_token : object
        What must live as long as the edge; None, since a node keeps the graph behind it.
    """

    node: Node
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """The edge at which the gradient of a tensor arrives; for a leaf that of its AccumulateGrad node.

    Parameters
    ----------
    tensor : Tensor

    Returns
    -------
    GradientEdge

    Raises
    ------
    RuntimeError
        If the tensor does not require grad.
    AssertionError
        If it requires grad as the view of a tensor that does, made without gradients.

    Examples
    --------
    >>> import fastgrad as fg
    >>> x = fg.ones(2, requires_grad=True)
    >>> y = x * 3
    >>> edge = fg.autograd.graph.get_gradient_edge(y)
    >>> del y
    >>> fg.autograd.grad(edge, x, grad_outputs=fg.ones(2))
    (tensor([3., 3.]),)
    """
    if not need_tensor("get_gradient_edge", tensor, "tensor").requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients"
        )
    node = rt.gradient_node(tensor)
    if node is None:
        raise AssertionError(
            "Expected gradient function to be set: a view that was made without gradients requires grad because its "
            "base does, but has no history"
        )
    return GradientEdge(node, rt.field(tensor, _OUTPUT_NR))


def check_edge(edge: GradientEdge) -> GradientEdge:
    """An edge made by hand may be wrong: raise if it is."""
    if not isinstance(edge.node, Node):
        raise RuntimeError(
            "GradientEdge's first object must be an autograd.graph.Node, but got "
            f"{type(edge.node).__name__}; make edges with autograd.graph.get_gradient_edge(tensor)"
        )
    outputs = rt.node_field(edge.node, _N_OUT)
    if not 0 <= edge.output_nr < outputs:
        raise IndexError(
            f"GradientEdge: output_nr {edge.output_nr} is out of range; {edge.node.name()} has {outputs} outputs"
        )
    return edge
