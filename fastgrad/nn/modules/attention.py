"""Attention in several heads."""

from __future__ import annotations

from typing import Any

from fastgrad.functions.creation import empty
from fastgrad.nn import init
from fastgrad.nn.functional.multi_head import Projections, attend, need_embedding
from fastgrad.nn.modules.linear import Linear
from fastgrad.nn.modules.module import Module
from fastgrad.nn.parameter import Parameter


class MultiheadAttention(Module):
    """Attention in several heads: ``concat(head_1, ..., head_H) W_O + b_O`` (Vaswani et al. 2017).

    Each head is `fastgrad.nn.functional.scaled_dot_product_attention` over its own E / H features of the projected
    query, key and value.

    Parameters
    ----------
    embed_dim : int
        Features E of queries and of the output.
    num_heads : int
        Heads H, a divisor of `embed_dim`.
    dropout : float
        The probability that a weight becomes zero, in training.
    bias : bool
        Whether the projections have biases.
    add_bias_kv : bool
        Whether a learned key and value stand behind the others.
    add_zero_attn : bool
        Whether a key and a value of zeros stand behind the others.
    kdim, vdim : int, optional
        Features of keys and values; `embed_dim` if not given.
    batch_first : bool
        Whether operands and output are (N, L, E) instead of (L, N, E).

    Attributes
    ----------
    in_proj_weight : Parameter or None
        Shape (3 E, E): the weights of query, key and value one below the other, where all have E features.
    q_proj_weight, k_proj_weight, v_proj_weight : Parameter or None
        Shapes (E, E), (E, kdim) and (E, vdim), otherwise.
    in_proj_bias : Parameter or None
        Shape (3 E,).
    bias_k, bias_v : Parameter or None
        Shape (1, 1, E).
    out_proj : Linear
        From E to E features.

    Raises
    ------
    ValueError
        If `embed_dim` or `num_heads` is not positive.
    AssertionError
        If `num_heads` is no divisor of `embed_dim`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> attention = fg.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = fg.zeros(4, 5, 8)
    >>> output, weights = attention(x, x, x)
    >>> output.shape, weights.shape
    (fastgrad.Size([4, 5, 8]), fastgrad.Size([4, 5, 5]))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                "instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError(
                f"embed_dim must be divisible by num_heads, but got embed_dim={embed_dim} and num_heads={num_heads}"
            )
        one = self.kdim == self.vdim == embed_dim
        shapes: dict[str, tuple[int, ...] | None] = {
            "q_proj_weight": None if one else (embed_dim, embed_dim),
            "k_proj_weight": None if one else (embed_dim, self.kdim),
            "v_proj_weight": None if one else (embed_dim, self.vdim),
            "in_proj_weight": (3 * embed_dim, embed_dim) if one else None,
            "in_proj_bias": (3 * embed_dim,) if bias else None,
            "bias_k": (1, 1, embed_dim) if add_bias_kv else None,
            "bias_v": (1, 1, embed_dim) if add_bias_kv else None,
        }
        for name, shape in shapes.items():
            made = None if shape is None else Parameter(empty(shape, device=device, dtype=dtype))
            self.register_parameter(name, made)
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """Weights as Glorot and Bengio 2010 have them, biases of zero."""
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            weight = getattr(self, name)
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        """The output of all heads together, and the weights.

        Parameters
        ----------
        query : Tensor
            Shape (L, N, E), (N, L, E) with `batch_first`, or (L, E).
        key : Tensor
            Shape (S, N, kdim), (N, S, kdim) or (S, kdim).
        value : Tensor
            Shape (S, N, vdim), (N, S, vdim) or (S, vdim).
        key_padding_mask : Tensor, optional
            Shape (N, S) or (S,): bool, where True hides a key, or numbers that are added to the scores.
        need_weights : bool
            Whether the weights are wanted. Without them the op that never holds them is used.
        attn_mask : Tensor, optional
            Shape (L, S) or (N * num_heads, L, S), in the same way.
        average_attn_weights : bool
            Whether weights are averaged over the heads.
        is_causal : bool
            Says that `attn_mask` is the causal one, so that it need not be read.

        Returns
        -------
        output : Tensor
            As `query`.
        weights : Tensor or None
            Shape (N, L, S), (N, num_heads, L, S) if not averaged, or without N.

        Raises
        ------
        AssertionError
            If shapes do not fit.
        RuntimeError
            If the shape of `attn_mask` does not fit, or `is_causal` comes without one.
        """
        need_embedding(query, self.embed_dim)
        parameters = Projections(
            self.in_proj_weight, self.in_proj_bias, self.bias_k, self.bias_v, self.out_proj.weight,
            self.out_proj.bias, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight,
        )  # fmt: skip
        return attend(
            query, key, value, parameters, self.num_heads, self.batch_first, self.add_zero_attn,
            self.dropout if self.training else 0.0, key_padding_mask, attn_mask, is_causal, need_weights,
            average_attn_weights,
        )  # fmt: skip
