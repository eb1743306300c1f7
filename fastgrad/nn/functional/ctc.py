"""Connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastgrad import dtypes
from fastgrad.functions.arguments import as_flag, as_index, as_sizes, need_tensor
from fastgrad.functions.autocasting import full_precision
from fastgrad.functions.creation import tensor
from fastgrad.functions.index import where
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.host.tables import BY_NAME
from fastgrad.nn.functional.reduction import chosen_reduction
from fastgrad.ops.call import apply

_CTC = BY_NAME["ctc_loss"].id


@full_precision
def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """Minus the logarithm of the probability of a target, summed over all its alignments with a sequence.

    An alignment has a class for each time; without repetitions and then without blanks it is the target (Graves et al.
    2006, "Connectionist Temporal Classification").

    Parameters
    ----------
    log_probs : Tensor
        Logarithms of probabilities (T, N, C), or (T, C) of one sequence; the result of `log_softmax`. Its gradient is,
        as in PyTorch, that for such: it holds after one more derivative of `log_softmax`.
    targets : Tensor
        Classes (N, S), or those of all targets one after the other, of dimension 1.
    input_lengths, target_lengths : Tensor or tuple of int
        Of each sequence and each target; both tensors or both tuples.
    blank : int
        The class that stands for no label.
    reduction : "none", "mean" or "sum"
        "mean" divides the loss of each sequence by the length of its target first.
    zero_infinity : bool
        Whether losses of targets that are too long for their sequences are zero, with zero gradients, instead of
        infinite.

    Returns
    -------
    Tensor
        A number, or one for each sequence. There are no second derivatives.

    Raises
    ------
    RuntimeError
        If lengths, shapes, dtypes or the blank do not fit.
    ValueError
        If there is no such reduction.

    Examples
    --------
    >>> import fastgrad as fg
    >>> even = fg.full((2, 1, 2), 0.5).log()
    >>> fg.nn.functional.ctc_loss(even, fg.tensor([[1]]), (2,), (1,)).exp()  # 3 of 4 alignments
    tensor(1.3333)
    """
    name = "ctc_loss"
    x, goal = need_tensor(name, log_probs, "log_probs"), need_tensor(name, targets, "targets", 2)
    kind, empty = chosen_reduction(name, reduction), as_index(name, "blank", blank)
    single = x.ndim == 2
    if single:
        x = x.unsqueeze(1)
    lengths, labels = _lengths(input_lengths, target_lengths)
    layout = _layout(x, goal, lengths, labels, empty)
    (times, count, classes), states = rt.sizes(x), 2 * max(labels) + 1
    settings = (times, classes, states)
    zero = as_flag(name, "zero_infinity", zero_infinity)
    where_ = tensor(layout, dtype=dtypes.int64, device=x.device)
    goal = goal.to(dtypes.int64).reshape(-1)
    plan = (count, *settings, empty, 0, count, int(zero), 1, count, 3, count, times, states)
    loss = apply(_CTC, 3, 0, x, goal, where_, *plan)[0]
    if zero:
        loss = where(loss == float("inf"), 0.0, loss)
    if kind == "mean":
        return (loss / tensor([max(n, 1) for n in labels], dtype=loss.dtype, device=loss.device)).mean()
    if kind == "sum":
        return loss.sum()
    return loss.squeeze(0) if single else loss


def _lengths(inputs: Any, targets: Any) -> tuple[list[int], list[int]]:
    """Both lengths as numbers."""
    if isinstance(inputs, TensorBase) != isinstance(targets, TensorBase):
        raise TypeError(
            "ctc_loss(): input_lengths and target_lengths must both be tensors or both tuples of ints, but got "
            f"{type(inputs).__name__} and {type(targets).__name__}"
        )
    return _numbers("input_lengths", inputs), _numbers("target_lengths", targets)


def _numbers(argument: str, lengths: Any) -> list[int]:
    if not isinstance(lengths, TensorBase):
        return list(as_sizes("ctc_loss", (lengths,), argument))
    if lengths.is_floating_point() or lengths.dtype is dtypes.bool_:  # type: ignore[attr-defined]
        kind = lengths.dtype  # type: ignore[attr-defined]
        raise RuntimeError(f"ctc_loss(): {argument} must be integral, but is {kind}")
    return lengths.reshape(-1).tolist()  # type: ignore[attr-defined, no-any-return]


def _layout(
    x: Any, targets: Any, lengths: Sequence[int], labels: Sequence[int], blank: int
) -> list[list[int]]:
    """For each sequence its length, that of its target, and where this begins."""
    name = "ctc_loss"
    if not x.is_floating_point():
        raise NotImplementedError(f"{name}(): not implemented for '{x.dtype.type_name}'")
    if x.ndim != 3:
        raise RuntimeError(f"{name}(): Expected 2 or 3 dimensions of log_probs, but it has {x.ndim}")
    times, count, classes = rt.sizes(x)
    if x.numel() == 0:
        raise RuntimeError(f"{name}(): log_probs tensor must not be empty, but has shape {list(x.shape)}")
    if not 0 <= blank < classes:
        raise RuntimeError(f"{name}(): blank must be in label range, 0 to {classes - 1}, but is {blank}")
    for argument, values in (("input_lengths", lengths), ("target_lengths", labels)):
        if len(values) != count:
            raise RuntimeError(
                f"{name}(): {argument} must be of size batch_size, {count}, but has {len(values)} elements"
            )
        if min(values) < 0:
            raise RuntimeError(
                f"{name}(): Expected {argument} to have value at least 0, but got value {min(values)}"
            )
    if max(lengths) > times:
        raise RuntimeError(
            f"{name}(): Expected input_lengths to have value at most {times}, but got value {max(lengths)}"
        )
    sizes = rt.sizes(targets)
    if len(sizes) == 2:
        if sizes[0] != count or sizes[1] < max(labels):
            raise RuntimeError(
                f"{name}(): Expected targets of size {count} at dimension 0 and at least {max(labels)} at dimension 1, "
                f"but got {list(sizes)}"
            )
        starts = [k * sizes[1] for k in range(count)]
    elif len(sizes) == 1:
        if sizes[0] != sum(labels):
            raise RuntimeError(
                f"{name}(): Expected targets to have size {sum(labels)}, the sum of target_lengths, at dimension 0, "
                f"but got size {sizes[0]}"
            )
        starts = [sum(labels[:k]) for k in range(count)]
    else:
        raise RuntimeError(f"{name}(): Expected 1 to 2 dimensions of targets, but got {len(sizes)}")
    return [list(row) for row in zip(lengths, labels, starts, strict=True)]
