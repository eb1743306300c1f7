"""The softmax over many classes of which few are frequent."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.index import gather, index_select, where
from fastgrad.functions.shape import cat
from fastgrad.nn import functional as F
from fastgrad.nn.modules.container import ModuleList, Sequential
from fastgrad.nn.modules.linear import Linear
from fastgrad.nn.modules.module import Module


class _ASMoutput(NamedTuple):
    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """The logarithm of a softmax over clusters of classes, the frequent ones apart, and its loss (Grave et al. 2017).

    The head has the first ``cutoffs[0]`` classes and an output for each further cluster, whose classes have two linear
    layers of their own behind it; the first of these makes ``in_features // div_value ** k`` features for cluster k.
    Classes are in the order of how frequent they are.

    Parameters
    ----------
    in_features, n_classes : int
    cutoffs : sequence of int
        Where clusters begin: increasing, between 1 and ``n_classes - 1``.
    div_value : float
    head_bias : bool
    device : optional
    dtype : dtype, optional

    Returns
    -------
    namedtuple
        ``output``, the logarithms of the probabilities of the targets (N), and ``loss``, minus their mean.

    Raises
    ------
    ValueError
        If `cutoffs` are not as above.
    RuntimeError
        If shapes do not fit, or a target is no class.

    Examples
    --------
    >>> import fastgrad as fg
    >>> layer = fg.nn.AdaptiveLogSoftmaxWithLoss(16, 20, cutoffs=[5, 10])
    >>> layer(fg.zeros(2, 16), fg.tensor([0, 19])).output.shape
    fastgrad.Size([2])
    >>> layer.log_prob(fg.zeros(2, 16)).shape
    fastgrad.Size([2, 20])
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError(
                "AdaptiveLogSoftmaxWithLoss(): cutoffs should be a sequence of length larger than 0"
            )
        in_order = all(a < b for a, b in itertools.pairwise(cutoffs))
        if (
            not in_order
            or cutoffs[0] <= 0
            or cutoffs[-1] > n_classes - 1
            or any(int(c) != c for c in cutoffs)
        ):
            raise ValueError(
                "AdaptiveLogSoftmaxWithLoss(): cutoffs should be a sequence of unique, positive integers sorted in an "
                f"increasing order, where each value is between 1 and n_classes-1, but got {cutoffs}"
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for k in range(self.n_clusters):
            hidden = int(in_features // div_value ** (k + 1))
            classes = self.cutoffs[k + 1] - self.cutoffs[k]
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, **made),
                    Linear(hidden, classes, bias=False, **made),
                )
            )

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.head.reset_parameters()
        for pair in self.tail:
            for layer in pair:
                layer.reset_parameters()

    def forward(self, input_: Any, target_: Any) -> _ASMoutput:
        x, target = self._batch(input_, target_)
        if target.numel() and not 0 <= int(target.amin()) <= int(target.amax()) < self.n_classes:
            raise RuntimeError(
                f"AdaptiveLogSoftmaxWithLoss(): Target values should be in [0, {self.n_classes - 1}], but values in "
                f"range [{int(target.amin())}, {int(target.amax())}] were found."
            )
        rare, inner = target, x.new_zeros(x.shape[0])
        for k in range(self.n_clusters):
            start, end = self.cutoffs[k], self.cutoffs[k + 1]
            chosen = (target >= start) & (target < end)
            rows = chosen.nonzero().reshape(-1)
            if rows.numel():
                found = F.log_softmax(self.tail[k](index_select(x, 0, rows)), dim=1)
                own = gather(found, 1, (index_select(target, 0, rows) - start).unsqueeze(1)).squeeze(1)
                inner = inner.index_copy(0, rows, own)
                rare = where(chosen, self.shortlist_size + k, rare)
        head = F.log_softmax(self.head(x), dim=1)
        output = inner + gather(head, 1, rare.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if target_.dim() else output.squeeze(0), loss)

    def _batch(self, x: Any, target: Any) -> tuple[Any, Any]:
        """Input and targets with a dimension for the batch."""
        name = "AdaptiveLogSoftmaxWithLoss"
        need_tensor(name, x)
        dims = need_tensor(name, target, "target", 2).dim()
        if dims > 1:
            raise RuntimeError(f"{name}(): 0D or 1D target tensor expected, multi-target not supported")
        if dims == 1 and x.shape[:1] != target.shape:
            raise RuntimeError(
                f"{name}(): Input and target should have the same size in the batch dimension, but have shapes "
                f"{list(x.shape)} and {list(target.shape)}"
            )
        if x.dim() != dims + 1:
            raise RuntimeError(
                f"{name}(): {dims}D target tensor expects {dims + 1}D input tensors, but found inputs with size "
                f"{list(x.shape)}"
            )
        return (x, target) if dims else (x.unsqueeze(0), target.unsqueeze(0))

    def log_prob(self, input: Any) -> Any:
        """The logarithms of the probabilities of all classes, of shape (N, n_classes)."""
        head = F.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for k in range(self.n_clusters):
            cluster = F.log_softmax(self.tail[k](input), dim=1)
            parts.append(cluster + head[:, self.shortlist_size + k].unsqueeze(1))
        return cat(parts, 1)

    def predict(self, input: Any) -> Any:
        """The most probable class of each row: that of `log_prob`."""
        return self.log_prob(input).argmax(1)
