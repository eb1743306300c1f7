"""Functions of layers as PyTorch's package has them beside `nn.functional`: arguments in another order, and numbers in
place of words for what is done with the losses of all elements. Without a number they stay as they are, whatever the
functions of `nn.functional` do by default.
"""

from __future__ import annotations

from typing import Any

from fastgrad import dtypes
from fastgrad.autograd.modes import no_grad
from fastgrad.functions.arguments import as_float, as_index, need_tensor, need_type
from fastgrad.functions.public import public
from fastgrad.nn import functional as F
from fastgrad.nn.functional.bags import bags_of
from fastgrad.nn.functional.sparse import shorten

_REDUCTIONS = ("none", "mean", "sum")


def _word(name: str, reduction: Any) -> str:
    number = as_index(name, "reduction", reduction)
    if not 0 <= number < len(_REDUCTIONS):
        raise ValueError(f"{name}(): reduction must be 0 (none), 1 (mean) or 2 (sum), but got {number}")
    return _REDUCTIONS[number]


# --- losses ----------------------------------------------------------------------------------------------------


@public(method=False)
def kl_div(input: Any, target: Any, reduction: int = 0, *, log_target: bool = False) -> Any:
    """`nn.functional.kl_div`, where `reduction` is 0 for "none", as by default, 1 for "mean" or 2 for "sum".

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.kl_div(fg.zeros(2), fg.ones(2), 2)
    tensor(0.)
    """
    word = _word("kl_div", reduction)
    each = F.kl_div(input, target, reduction="none", log_target=log_target)
    return each.mean() if word == "mean" else each.sum() if word == "sum" else each


@public(method=False)
def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 0
) -> Any:
    """`nn.functional.cosine_embedding_loss`, with a number for `reduction`: see `kl_div`."""
    word = _word("cosine_embedding_loss", reduction)
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=word)


@public(method=False)
def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 0
) -> Any:
    """`nn.functional.margin_ranking_loss`, with a number for `reduction`: see `kl_div`."""
    return F.margin_ranking_loss(
        input1, input2, target, margin, reduction=_word("margin_ranking_loss", reduction)
    )


@public(method=False)
def triplet_margin_loss(
    anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2, eps: float = 1e-6, swap: bool = False,
    reduction: int = 0,
) -> Any:  # fmt: skip
    """`nn.functional.triplet_margin_loss`, with a number for `reduction`: see `kl_div`."""
    word = _word("triplet_margin_loss", reduction)
    return F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=word)


@public(method=False)
def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, reduction: int = 0) -> Any:
    """`nn.functional.hinge_embedding_loss`, with a number for `reduction`: see `kl_div`."""
    return F.hinge_embedding_loss(input, target, margin, reduction=_word("hinge_embedding_loss", reduction))


@public(method=False)
def poisson_nll_loss(input: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: int) -> Any:
    """`nn.functional.poisson_nll_loss`, with a number for `reduction`: see `kl_div`."""
    word = _word("poisson_nll_loss", reduction)
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=word)


@public(method=False)
def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 0
) -> Any:
    """`nn.functional.binary_cross_entropy_with_logits`, with a number for `reduction`: see `kl_div`."""
    word = _word("binary_cross_entropy_with_logits", reduction)
    return F.binary_cross_entropy_with_logits(input, target, weight, pos_weight=pos_weight, reduction=word)


@public(method=False)
def ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = 0,
    zero_infinity: bool = False,
) -> Any:  # fmt: skip
    """`nn.functional.ctc_loss`, with a number for `reduction`: see `kl_div`."""
    word = _word("ctc_loss", reduction)
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, word, zero_infinity)


# --- layers ----------------------------------------------------------------------------------------------------


@public(method=False)
def batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float,
    eps: float, cudnn_enabled: bool,
) -> Any:  # fmt: skip
    """`nn.functional.batch_norm` with its arguments in another order; `cudnn_enabled` changes nothing."""
    need_type("batch_norm", cudnn_enabled, bool, "cudnn_enabled")
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@public(method=False)
def instance_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, use_input_stats: bool, momentum: float,
    eps: float, cudnn_enabled: bool,
) -> Any:  # fmt: skip
    """`nn.functional.instance_norm` with its arguments in another order; `cudnn_enabled` changes nothing."""
    need_type("instance_norm", cudnn_enabled, bool, "cudnn_enabled")
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


@public(method=False)
def embedding(
    weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Any:
    """`nn.functional.embedding` with the table first; a `padding_idx` of -1 says that there is none.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.embedding(fg.tensor([[1.0], [2.0]]), fg.tensor([1, 0]))
    tensor([[2.],
            [1.]])
    """
    place = as_index("embedding", "padding_idx", padding_idx)
    padding = None if place < 0 else place
    return F.embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


@public(method=False)
def dropout(input: Any, p: float, train: bool) -> Any:
    """`nn.functional.dropout`, which has to be told whether it is training."""
    return F.dropout(input, p, train)


@public(method=False)
def feature_dropout(input: Any, p: float, train: bool) -> Any:
    """Zeros in place of whole channels, which are the second dimension: `nn.functional.dropout1d` and its kind.

    Raises
    ------
    RuntimeError
        If `input` has fewer than two dimensions.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.feature_dropout(fg.ones(2, 3, 4), 1.0, True).sum()
    tensor(0.)
    """
    x = need_tensor("feature_dropout", input)
    if x.dim() < 2:
        raise RuntimeError(
            f"feature_dropout(): expected at least two dimensions, but got shape {list(x.shape)}"
        )
    return x * _kept_channels(x, p, train)


def _kept_channels(x: Any, p: float, train: bool) -> Any:
    """What the channels are multiplied by."""
    return F.dropout(x.new_ones((*x.shape[:2], *(1,) * (x.dim() - 2))), p, train)


@public(method=False)
def dropout_(input: Any, p: float, train: bool) -> Any:
    """`dropout` in place."""
    return F.dropout(input, p, train, inplace=True)


@public(method=False)
def feature_dropout_(input: Any, p: float, train: bool) -> Any:
    """`feature_dropout` in place."""
    x = need_tensor("feature_dropout_", input)
    if x.dim() < 2:
        raise RuntimeError(
            f"feature_dropout_(): expected at least two dimensions, but got shape {list(x.shape)}"
        )
    return x.mul_(_kept_channels(x, p, train)) if train else x


@public(method=False)
def alpha_dropout_(input: Any, p: float, train: bool) -> Any:
    """`nn.functional.alpha_dropout` in place."""
    return F.alpha_dropout(input, p, train, inplace=True)


@public(method=False)
def feature_alpha_dropout_(input: Any, p: float, train: bool) -> Any:
    """`nn.functional.feature_alpha_dropout` in place."""
    return F.feature_alpha_dropout(input, p, train, inplace=True)


@public(method=False)
def adaptive_max_pool1d(input: Any, output_size: Any) -> tuple[Any, Any]:
    """`nn.functional.adaptive_max_pool1d` with the indices of the maxima.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.adaptive_max_pool1d(fg.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    (tensor([[3., 2.]]), tensor([[1, 2]]))
    """
    return F.adaptive_max_pool1d(input, output_size, True)


@public(method=False)
def embedding_renorm_(input: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """Shorten the rows of a table that are named and longer than `max_norm`, in place and without a history.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.embedding_renorm_(fg.tensor([[3.0, 4.0], [6.0, 8.0]]), fg.tensor([1]), 5.0, 2.0)
    tensor([[3., 4.],
            [3., 4.]])
    """
    name = "embedding_renorm_"
    table = need_tensor(name, input)
    if table.dim() != 2:
        raise RuntimeError(f"{name}(): expected a table of two dimensions, but got shape {list(table.shape)}")
    if need_tensor(name, indices, "indices", 2).dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(
            f"{name}(): expected indices to be of dtype Long or Int, but got {indices.dtype.type_name}"
        )
    with no_grad():
        longest, order = as_float(name, "max_norm", max_norm), as_float(name, "norm_type", norm_type)
        shorten(table, indices.to(dtypes.int64), longest, order)
    return table


_BAG_MODES = ("sum", "mean", "max")


@public(method=False)
def embedding_bag(
    weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: Any = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """`nn.functional.embedding_bag` with the table first and a number for the mode, and what it finds on its way.

    Parameters
    ----------
    weight, indices, offsets : Tensor
        The table, the indices one after the other, and where each bag begins.
    scale_grad_by_freq, sparse, per_sample_weights, include_last_offset, padding_idx
        As in `nn.functional.embedding_bag`.
    mode : int
        0 for "sum", 1 for "mean", 2 for "max".

    Returns
    -------
    output, offset2bag, bag_size, max_indices : Tensor
        The bag of each index, how many indices of each bag count, and of "max" which row each element is from, else
        the sizes again. PyTorch leaves out the former two where its kernel does without.

    Examples
    --------
    >>> import fastgrad as fg
    >>> table, indices, offsets = fg.tensor([[1.0], [2.0], [3.0]]), fg.tensor([0, 2, 1]), fg.tensor([0, 2])
    >>> fg.embedding_bag(table, indices, offsets, mode=2)
    (tensor([[3.],
            [2.]]), tensor([0, 0, 1]), tensor([2, 1]), tensor([[2],
            [1]]))
    """
    name = "embedding_bag"
    number = as_index(name, "mode", mode)
    if not 0 <= number < len(_BAG_MODES):
        raise RuntimeError(f"{name}(): mode must be 0 (sum), 1 (mean) or 2 (max), but got {number}")
    need_tensor(name, offsets, "offsets", 3)
    word = _BAG_MODES[number]
    out = F.embedding_bag(
        need_tensor(name, indices, "indices", 2), need_tensor(name, weight, "weight"), offsets, None, 2.0,
        scale_grad_by_freq, word, sparse, per_sample_weights, include_last_offset, padding_idx,
    )  # fmt: skip
    return (out, *bags_of(weight, indices, offsets, include_last_offset, padding_idx, word == "max"))
