"""Calls that every rank of a group makes on tensors, with derivatives: they give new tensors.

The loss is the sum of the losses of all ranks, so what a rank gave to others gets the sum of the gradients that they
have of it. Backward is a call between processes as well: all ranks of the group have to make the pass, and meet the
calls in the same order. Derivatives exist to any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fastgrad.distributed as dist
from fastgrad.autograd import Function
from fastgrad.distributed import ReduceOp
from fastgrad.functions.arguments import need_tensor, need_tensors
from fastgrad.functions.likeness import empty_like, zeros_like
from fastgrad.functions.shape import stack

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def broadcast(tensor: Any, src: int, group: Any = None) -> Any:
    """What one rank has, on all of them.

    Parameters
    ----------
    tensor : Tensor
        Of the same size and dtype on all ranks.
    src : int
        The rank, among all.
    group : ProcessGroup, optional
        By default that of all ranks.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import fastgrad as fg
    >>> import fastgrad.distributed as dist
    >>> from fastgrad.distributed.nn.functional import broadcast
    >>> dist.init_process_group("mpi")
    >>> x = fg.ones(2, requires_grad=True)
    >>> broadcast(x * 3, 0).sum().backward()
    >>> x.grad / dist.get_world_size()
    tensor([3., 3.])
    >>> dist.destroy_process_group()
    """
    return _Broadcast.apply(need_tensor("broadcast", tensor, "tensor"), src, group)


def gather(tensor: Any, dst: int = 0, group: Any = None) -> tuple[Any, ...]:
    """The tensors of all ranks, on one of them; on others zeros.

    Parameters
    ----------
    tensor : Tensor
    dst : int
        The rank, among all.
    group : ProcessGroup, optional

    Returns
    -------
    tuple of Tensor
        One for each rank.
    """
    return _Gather.apply(need_tensor("gather", tensor, "tensor"), dst, group)


def scatter(tensors: Any, src: int = 0, group: Any = None) -> Any:
    """The tensor of this rank in the list of one.

    Parameters
    ----------
    tensors : list of Tensor
        One for each rank, all of one size, on all ranks; those of the rank `src` are read.
    src : int
        The rank, among all.
    group : ProcessGroup, optional

    Returns
    -------
    Tensor

    Raises
    ------
    AssertionError
        If sizes differ.
    """
    given = need_tensors("scatter", tensors)
    if not given or any(t.shape != given[0].shape for t in given):
        raise AssertionError("scatter(): argument 'tensors' must hold tensors of one size")
    return _Scatter.apply(src, group, *given)


def reduce(tensor: Any, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """The tensors of all ranks combined, on one of them; on others what they gave, which has no gradient there.

    Parameters
    ----------
    tensor : Tensor
    dst : int
        The rank, among all.
    op : ReduceOp
        As for `all_reduce`.
    group : ProcessGroup, optional

    Returns
    -------
    Tensor
    """
    need_tensor("reduce", tensor, "tensor")
    if _has_simple_derivative(op, tensor):
        return _Reduce.apply(tensor, dst, op, group)
    parts = _Gather.apply(tensor, dst, group)
    if dist.get_rank() == dst:
        return _combined(op, parts)
    return tensor.detach() + sum(parts)  # zeros, by way of which a pass here gets the gradient


def reduce_scatter(output: Any, input_list: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """The lists of all ranks combined, element by element: the element of this rank.

    Parameters
    ----------
    output : Tensor
        Where it goes.
    input_list : list of Tensor
        One for each rank, of the size of `output`.
    op : ReduceOp
        As for `all_reduce`.
    group : ProcessGroup, optional

    Returns
    -------
    Tensor
        With the memory of `output`.
    """
    need_tensor("reduce_scatter", output, "output")
    given = need_tensors("reduce_scatter", input_list, "input_list", 2)
    if all(_has_simple_derivative(op, t) for t in given):
        return _ReduceScatter.apply(output.detach(), op, group, *given)
    combined = _combined(op, all_to_all([empty_like(output) for _ in given], given, group))
    output.detach().copy_(combined.detach())
    return combined


def all_gather(tensor: Any, group: Any = None) -> tuple[Any, ...]:
    """The tensors of all ranks, on all of them.

    Parameters
    ----------
    tensor : Tensor
        Of the same size and dtype on all ranks.
    group : ProcessGroup, optional

    Returns
    -------
    tuple of Tensor
        One for each rank.
    """
    return _AllGather.apply(need_tensor("all_gather", tensor, "tensor"), group)


def _all_gather_base(output_tensor: Any, input_tensor: Any, group: Any = None) -> Any:
    """Like `all_gather`, one after the other in one tensor, which has the memory of `output_tensor`."""
    return _AllGatherInto.apply(output_tensor.detach(), input_tensor, group)


def all_to_all(output_tensor_list: Any, input_tensor_list: Any, group: Any = None) -> tuple[Any, ...]:
    """The tensors of this rank in the lists of all.

    Parameters
    ----------
    output_tensor_list : list of Tensor
        Where they go: one from each rank, of the size of what that rank sends.
    input_tensor_list : list of Tensor
        One for each rank.
    group : ProcessGroup, optional

    Returns
    -------
    tuple of Tensor
        With the memory of `output_tensor_list`.
    """
    targets = [t.detach() for t in need_tensors("all_to_all", output_tensor_list, "output_tensor_list")]
    given = need_tensors("all_to_all", input_tensor_list, "input_tensor_list", 2)
    return _AllToAll.apply(targets, group, *given)


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Any:
    """The parts for this rank of the tensors of all, one after the other.

    Parameters
    ----------
    output : Tensor
        Where they go.
    input : Tensor
        Its parts, along the first dimension, are for the ranks.
    output_split_sizes, input_split_sizes : list of int, optional
        How long the parts are; by default they are equal.
    group : ProcessGroup, optional

    Returns
    -------
    Tensor
        With the memory of `output`.
    """
    need_tensor("all_to_all_single", output, "output")
    need_tensor("all_to_all_single", input, "input", 2)
    return _AllToAllSingle.apply(output.detach(), output_split_sizes, input_split_sizes, group, input)


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """The tensors of all ranks combined, on all of them.

    Parameters
    ----------
    tensor : Tensor
        Of the same size and dtype on all ranks.
    op : ReduceOp
        Sums and means are reduced; where there is a gradient, what else has one (PRODUCT, MIN, MAX) is computed of the
        tensors of all ranks, which each of them gets.
    group : ProcessGroup, optional

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import fastgrad as fg
    >>> import fastgrad.distributed as dist
    >>> from fastgrad.distributed.nn.functional import all_reduce
    >>> dist.init_process_group("mpi")
    >>> x = fg.tensor([1.0, 2.0], requires_grad=True)
    >>> all_reduce(x * x, dist.ReduceOp.AVG).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    >>> dist.destroy_process_group()
    """
    need_tensor("all_reduce", tensor, "tensor")
    if _has_simple_derivative(op, tensor):
        return _AllReduce.apply(tensor, op, group)
    return _combined(op, all_gather(tensor, group))


def _has_simple_derivative(op: Any, tensor: Any) -> bool:
    """Whether gradients are combined as what they are gradients of, or there are none."""
    return op not in (ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX) or not tensor.requires_grad


def _combined(op: Any, parts: Sequence[Any]) -> Any:
    together = stack(list(parts))
    if op is ReduceOp.PRODUCT:
        return together.prod(0)
    return together.amin(0) if op is ReduceOp.MIN else together.amax(0)


# --- what is recorded --------------------------------------------------------------------------------------------


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, src: int, group: Any) -> Any:
        ctx.src, ctx.group = src, group
        result = _copy(tensor)
        dist.broadcast(result, src, group)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        total = _Reduce.apply(gradient, ctx.src, ReduceOp.SUM, ctx.group)
        return total if dist.get_rank() == ctx.src else zeros_like(total), None, None


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, dst: int, op: Any, group: Any) -> Any:
        ctx.dst, ctx.group, ctx.share = dst, group, _share(op, group)
        result = _copy(tensor)
        dist.reduce(result, dst, op, group)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return _Broadcast.apply(gradient, ctx.dst, ctx.group) * ctx.share, None, None, None


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, dst: int, group: Any) -> Any:
        ctx.dst, ctx.group = dst, group
        parts = [zeros_like(tensor).contiguous() for _ in range(dist.get_world_size(group))]
        dist.gather(tensor.contiguous(), parts if dist.get_rank() == dst else None, dst, group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return _Scatter.apply(ctx.dst, ctx.group, *gradients), None, None


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *tensors: Any) -> Any:
        ctx.src, ctx.group = src, group
        result = zeros_like(tensors[0]).contiguous()
        given = [t.contiguous() for t in tensors] if dist.get_rank() == src else None
        dist.scatter(result, given, src, group)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return None, None, *_Gather.apply(gradient, ctx.src, ctx.group)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, output: Any, op: Any, group: Any, *tensors: Any) -> Any:
        ctx.group, ctx.share = group, _share(op, group)
        dist.reduce_scatter(output, [t.contiguous() for t in tensors], op, group)
        return output.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return None, None, None, *_AllGather.apply(gradient * ctx.share, ctx.group)


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, group: Any) -> Any:
        ctx.group = group
        given = tensor.contiguous()
        parts = [empty_like(given) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, given, group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        total = empty_like(gradients[0]).contiguous()
        return _ReduceScatter.apply(total, ReduceOp.SUM, ctx.group, *gradients), None


class _AllGatherInto(Function):
    @staticmethod
    def forward(ctx: Any, output: Any, tensor: Any, group: Any) -> Any:
        ctx.group, ctx.sizes = group, tensor.shape
        dist.all_gather_into_tensor(output, tensor.contiguous(), group)
        return output.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        parts = [
            part.reshape(ctx.sizes) for part in gradient.reshape(-1).chunk(dist.get_world_size(ctx.group))
        ]
        total = empty_like(parts[0])
        return None, _ReduceScatter.apply(total, ReduceOp.SUM, ctx.group, *parts), None


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, targets: Any, group: Any, *tensors: Any) -> Any:
        ctx.group, ctx.sizes = group, [t.shape for t in tensors]
        dist.all_to_all(targets, [t.contiguous() for t in tensors], group)
        return tuple(t.detach() for t in targets)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        targets = [gradients[0].new_empty(size) for size in ctx.sizes]
        return None, None, *_AllToAll.apply(targets, ctx.group, *gradients)


class _AllToAllSingle(Function):
    @staticmethod
    def forward(ctx: Any, output: Any, came: Any, sent: Any, group: Any, tensor: Any) -> Any:
        ctx.group, ctx.sizes, ctx.came, ctx.sent = group, tensor.shape, came, sent
        dist.all_to_all_single(output, tensor.contiguous(), came, sent, group)
        return output.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        target = gradient.new_empty(ctx.sizes)
        return None, None, None, None, _AllToAllSingle.apply(target, ctx.sent, ctx.came, ctx.group, gradient)


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, op: Any, group: Any) -> Any:
        ctx.op, ctx.group = op, group
        result = _copy(tensor)
        dist.all_reduce(result, op, group)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return _AllReduce.apply(gradient, ctx.op, ctx.group), None, None


def _copy(tensor: Any) -> Any:
    return tensor.contiguous().clone()


def _share(op: Any, group: Any) -> float:
    """How much of a combination is each tensor."""
    return 1 / dist.get_world_size(group) if op is ReduceOp.AVG else 1
