"""Transformer encoders."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from fastgrad.functions.arguments import need_type
from fastgrad.functions.creation import full
from fastgrad.functions.shape import triu
from fastgrad.nn.functional.activations import gelu, relu
from fastgrad.nn.functional.multi_head import additive
from fastgrad.nn.modules.attention import MultiheadAttention
from fastgrad.nn.modules.container import ModuleList
from fastgrad.nn.modules.dropout import Dropout
from fastgrad.nn.modules.linear import Linear
from fastgrad.nn.modules.module import Module
from fastgrad.nn.modules.normalization import LayerNorm

_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"relu": relu, "gelu": gelu}


class TransformerEncoderLayer(Module):
    """Self-attention and a network of two linear layers, each with a shortcut and layer normalization.

    Without `norm_first`, ``x = norm1(x + attention(x))`` and ``norm2(x + linear2(activation(linear1(x))))`` (Vaswani
    et al. 2017); with it, ``x = x + attention(norm1(x))`` and ``x + linear2(activation(linear1(norm2(x))))`` (Xiong
    et al. 2020).

    Parameters
    ----------
    d_model : int
        Features E.
    nhead : int
        Heads of the attention.
    dim_feedforward : int
        Features between the two linear layers.
    dropout : float
        The probability of an element to become zero, in training: of weights, of what the activation gives, and of what
        is added to the shortcuts.
    activation : "relu", "gelu" or callable
    layer_norm_eps : float
        Added to the variance by layer normalization.
    batch_first : bool
        Whether input and output are (N, T, E) instead of (T, N, E).
    norm_first : bool
        Whether normalization comes before attention and linear layers.
    bias : bool
        Whether there are biases.

    Raises
    ------
    RuntimeError
        If `activation` is another text.

    Examples
    --------
    >>> import fastgrad as fg
    >>> layer = fg.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    >>> layer(fg.zeros(4, 5, 8)).shape
    fastgrad.Size([4, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Any], Any] = relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **where
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **where)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        if isinstance(activation, str):
            if activation not in _ACTIVATIONS:
                raise RuntimeError(f"activation should be relu/gelu, not {activation}")
            activation = _ACTIVATIONS[activation]
        self.activation = activation

    def forward(
        self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False
    ) -> Any:
        """The encoded sequence.

        Parameters
        ----------
        src : Tensor
            Shape (T, N, E), (N, T, E) with `batch_first`, or (T, E).
        src_mask : Tensor, optional
            Shape (T, T) or (N * nhead, T, T): bool, where True hides a position, or numbers that are
            added to the scores.
        src_key_padding_mask : Tensor, optional
            Shape (N, T) or (T,), in the same way.
        is_causal : bool
            Says that `src_mask` is the causal one, so that it need not be read.

        Returns
        -------
        Tensor
            As `src`.
        """
        masks = (src_mask, src_key_padding_mask, is_causal)
        if self.norm_first:
            src = src + self._sa_block(self.norm1(src), *masks)
            return src + self._ff_block(self.norm2(src))
        src = self.norm1(src + self._sa_block(src, *masks))
        return self.norm2(src + self._ff_block(src))

    def _sa_block(self, x: Any, mask: Any, padding: Any, causal: bool) -> Any:
        out, _ = self.self_attn(
            x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=causal
        )
        return self.dropout1(out)

    def _ff_block(self, x: Any) -> Any:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoder(Module):
    """Copies of an encoder layer, one after the other.

    Parameters
    ----------
    encoder_layer : Module
        Copied `num_layers` times, with its parameters.
    num_layers : int
    norm : Module, optional
        Applied to the output.
    enable_nested_tensor, mask_check : bool
        Taken for the sake of programs that give them: there are no nested tensors.

    Examples
    --------
    >>> import fastgrad as fg
    >>> layer = fg.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16)
    >>> fg.nn.TransformerEncoder(layer, 2)(fg.zeros(5, 4, 8)).shape
    fastgrad.Size([5, 4, 8])
    """

    def __init__(
        self,
        encoder_layer: Any,
        num_layers: int,
        norm: Any = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        need_type("TransformerEncoder", encoder_layer, Module, "encoder_layer")
        self.layers = ModuleList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None
    ) -> Any:
        """The encoded sequence.

        Parameters
        ----------
        src : Tensor
            As the layers take it.
        mask : Tensor, optional
            The `src_mask` of each layer.
        src_key_padding_mask : Tensor, optional
            That of each layer.
        is_causal : bool, optional
            Whether `mask` is the causal one; found out by comparison if not given.

        Returns
        -------
        Tensor
            As `src`.
        """
        if is_causal is None:
            is_causal = mask is not None and _is_causal(additive(mask, "mask", src.dtype))
        for layer in self.layers:
            src = layer(src, src_mask=mask, is_causal=is_causal, src_key_padding_mask=src_key_padding_mask)
        return src if self.norm is None else self.norm(src)


def _is_causal(mask: Any) -> bool:
    """Whether an additive mask hides from each position those behind it, and nothing else."""
    if mask.ndim != 2 or mask.shape[0] != mask.shape[1]:
        return False
    causal = triu(full(mask.shape, -math.inf, dtype=mask.dtype, device=mask.device), 1)
    return bool((mask == causal).all())
