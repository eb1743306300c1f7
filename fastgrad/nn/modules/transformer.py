"""Transformers: encoders, decoders, and both together."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from fastgrad.functions.arguments import need_tensor, need_type
from fastgrad.functions.creation import full
from fastgrad.functions.shape import triu
from fastgrad.nn import init
from fastgrad.nn.functional.activations import gelu, relu
from fastgrad.nn.functional.multi_head import additive
from fastgrad.nn.modules.attention import MultiheadAttention
from fastgrad.nn.modules.container import ModuleList
from fastgrad.nn.modules.dropout import Dropout
from fastgrad.nn.modules.linear import Linear
from fastgrad.nn.modules.module import Module
from fastgrad.nn.modules.normalization import LayerNorm

_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"relu": relu, "gelu": gelu}


class _TransformerLayer(Module):
    """What layers of encoders and decoders are made of.

    Parameters
    ----------
    d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias
        See `TransformerEncoderLayer`.
    """

    attentions: tuple[str, ...] = (
        "self_attn",
    )  # each has a norm and a dropout of its own, and so has the network
    self_attn: MultiheadAttention

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
        for name in self.attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **where
            )
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **where)
        self.norm_first = norm_first
        blocks = range(1, len(self.attentions) + 2)
        for k in blocks:
            setattr(self, f"norm{k}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where))
        for k in blocks:
            setattr(self, f"dropout{k}", Dropout(dropout))
        if isinstance(activation, str):
            if activation not in _ACTIVATIONS:
                raise RuntimeError(f"activation should be relu/gelu, not {activation}")
            activation = _ACTIVATIONS[activation]
        self.activation = activation

    def _shortcut(self, x: Any, norm: Any, inner: Callable[[Any], Any]) -> Any:
        """A block with its shortcut and its normalization, before or behind."""
        return x + inner(norm(x)) if self.norm_first else norm(x + inner(x))

    def _sa_block(self, x: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Any:
        return self.dropout1(_attend(self.self_attn, x, x, attn_mask, key_padding_mask, is_causal))

    def _network(self, x: Any) -> Any:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


def _attend(attention: Any, x: Any, memory: Any, mask: Any, padding: Any, causal: bool) -> Any:
    out, _ = attention(
        x, memory, memory, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=causal
    )
    return out


class TransformerEncoderLayer(_TransformerLayer):
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
        x = self._shortcut(
            src, self.norm1, lambda x: self._sa_block(x, src_mask, src_key_padding_mask, is_causal=is_causal)
        )
        return self._shortcut(x, self.norm2, self._ff_block)

    def _ff_block(self, x: Any) -> Any:
        return self.dropout2(self._network(x))


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, attention to the encoded sequence and a network of two linear layers.

    Each of the three has a shortcut and layer normalization, behind it or, with `norm_first`, before, as in
    `TransformerEncoderLayer`.

    Parameters
    ----------
    d_model : int
        Features E.
    nhead : int
        Heads of both attentions.
    dim_feedforward : int
        Features between the two linear layers.
    dropout : float
        The probability of an element to become zero, in training: of weights, of what the activation gives, and of what
        is added to the shortcuts.
    activation : "relu", "gelu" or callable
    layer_norm_eps : float
        Added to the variance by layer normalization.
    batch_first : bool
        Whether inputs and output are (N, T, E) instead of (T, N, E).
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
    >>> layer = fg.nn.TransformerDecoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    >>> layer(fg.zeros(4, 3, 8), fg.zeros(4, 5, 8)).shape
    fastgrad.Size([4, 3, 8])
    """

    attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        """The decoded sequence.

        Parameters
        ----------
        tgt : Tensor
            Shape (T, N, E), (N, T, E) with `batch_first`, or (T, E).
        memory : Tensor
            The encoded sequence, of shape (S, N, E), (N, S, E) or (S, E).
        tgt_mask : Tensor, optional
            Shape (T, T) or (N * nhead, T, T): bool, where True hides a position, or numbers that are added to the
            scores.
        memory_mask : Tensor, optional
            Shape (T, S) or (N * nhead, T, S), in the same way.
        tgt_key_padding_mask : Tensor, optional
            Shape (N, T) or (T,), in the same way.
        memory_key_padding_mask : Tensor, optional
            Shape (N, S) or (S,), in the same way.
        tgt_is_causal, memory_is_causal : bool
            Say that `tgt_mask` or `memory_mask` is the causal one, so that it need not be read.

        Returns
        -------
        Tensor
            As `tgt`.
        """

        def to_itself(x: Any) -> Any:
            return self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def to_memory(x: Any) -> Any:
            return self._mha_block(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal)

        x = self._shortcut(tgt, self.norm1, to_itself)
        x = self._shortcut(x, self.norm2, to_memory)
        return self._shortcut(x, self.norm3, self._ff_block)

    def _mha_block(
        self, x: Any, mem: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False
    ) -> Any:
        return self.dropout2(_attend(self.multihead_attn, x, mem, attn_mask, key_padding_mask, is_causal))

    def _ff_block(self, x: Any) -> Any:
        return self.dropout3(self._network(x))


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
        self.layers = _copies(encoder_layer, num_layers)
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
        is_causal = _is_causal(mask, is_causal, src.dtype)
        for layer in self.layers:
            src = layer(src, src_mask=mask, is_causal=is_causal, src_key_padding_mask=src_key_padding_mask)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Copies of a decoder layer, one after the other.

    Parameters
    ----------
    decoder_layer : Module
        Copied `num_layers` times, with its parameters.
    num_layers : int
    norm : Module, optional
        Applied to the output.

    Examples
    --------
    >>> import fastgrad as fg
    >>> layer = fg.nn.TransformerDecoderLayer(8, 2, dim_feedforward=16)
    >>> fg.nn.TransformerDecoder(layer, 2)(fg.zeros(3, 4, 8), fg.zeros(5, 4, 8)).shape
    fastgrad.Size([3, 4, 8])
    """

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Any = None) -> None:
        super().__init__()
        need_type("TransformerDecoder", decoder_layer, Module, "decoder_layer")
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        """The decoded sequence.

        Parameters
        ----------
        tgt, memory : Tensor
            As the layers take them.
        tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask : Tensor, optional
            Those of each layer.
        tgt_is_causal : bool, optional
            Whether `tgt_mask` is the causal one; found out by comparison if not given.
        memory_is_causal : bool
            Whether `memory_mask` is the causal one.

        Returns
        -------
        Tensor
            As `tgt`.
        """
        causal = _is_causal(tgt_mask, tgt_is_causal, tgt.dtype)
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder for one sequence and a decoder for another one that looks at it (Vaswani et al. 2017).

    Parameters
    ----------
    d_model : int
        Features E.
    nhead : int
        Heads of the attentions.
    num_encoder_layers, num_decoder_layers : int
    dim_feedforward : int
        Features between the two linear layers of each layer.
    dropout : float
    activation : "relu", "gelu" or callable
    custom_encoder, custom_decoder : Module, optional
        In the places of a `TransformerEncoder` and a `TransformerDecoder`; called with the same keywords.
    layer_norm_eps : float
    batch_first : bool
        Whether inputs and output are (N, T, E) instead of (T, N, E).
    norm_first : bool
        Whether normalization comes before attention and linear layers.
    bias : bool
        Whether there are biases.

    Raises
    ------
    RuntimeError
        If `activation` is another text.

    Notes
    -----
    Weights are drawn as Glorot and Bengio 2010 have them, those of custom encoders and decoders as well.

    Examples
    --------
    >>> import fastgrad as fg
    >>> model = fg.nn.Transformer(8, 2, 1, 1, dim_feedforward=16)
    >>> model(fg.zeros(5, 4, 8), fg.zeros(3, 4, 8)).shape
    fastgrad.Size([3, 4, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Any], Any] = relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        settings = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device,
            dtype,
        )  # fmt: skip

        def stack(custom: Any, whole: Any, layer: Any, number: int) -> Any:
            if custom is not None:
                return custom
            one = layer(*settings)
            return whole(
                one, number, LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)
            )

        self.encoder = stack(custom_encoder, TransformerEncoder, TransformerEncoderLayer, num_encoder_layers)
        self.decoder = stack(custom_decoder, TransformerDecoder, TransformerDecoderLayer, num_decoder_layers)
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        """The decoded sequence.

        Parameters
        ----------
        src : Tensor
            What is encoded: shape (S, N, E), (N, S, E) with `batch_first`, or (S, E).
        tgt : Tensor
            What is decoded: shape (T, N, E), (N, T, E) or (T, E).
        src_mask, tgt_mask, memory_mask : Tensor, optional
            Shapes (S, S), (T, T) and (T, S), or these behind N * nhead: bool, where True hides a position, or numbers
            that are added to the scores.
        src_key_padding_mask, tgt_key_padding_mask, memory_key_padding_mask : Tensor, optional
            Shapes (N, S), (N, T) and (N, S), or without N, in the same way.
        src_is_causal, tgt_is_causal : bool, optional
            Whether `src_mask` and `tgt_mask` are causal ones; found out by comparison if not given.
        memory_is_causal : bool
            Whether `memory_mask` is the causal one.

        Returns
        -------
        Tensor
            As `tgt`.

        Raises
        ------
        RuntimeError
            If `src` and `tgt` have another number of features than `d_model`, or not the same number of sequences.
        """
        need_tensor("Transformer", src, "src")
        need_tensor("Transformer", tgt, "tgt")
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError(
                "the batch number of src and tgt must be equal, but got "
                f"{src.size(batch)} and {tgt.size(batch)}"
            )
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError(
                f"the feature number of src and tgt must be equal to d_model ({self.d_model}), but got {src.size(-1)} "
                f"and {tgt.size(-1)}"
            )
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Any:
        """The causal mask: minus infinity above the diagonal, zero elsewhere.

        Parameters
        ----------
        sz : int
            The length of the sequence.
        device : optional
        dtype : dtype, optional

        Returns
        -------
        Tensor
            Shape (sz, sz).

        Examples
        --------
        >>> import fastgrad as fg
        >>> fg.nn.Transformer.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0., 0.]])
        """
        return triu(full((sz, sz), -math.inf, dtype=dtype, device=device), 1)


def _copies(layer: Any, number: int) -> ModuleList:
    return ModuleList([copy.deepcopy(layer) for _ in range(number)])


def _is_causal(mask: Any, given: bool | None, dtype: Any) -> bool:
    """What is said of a mask, or else whether it hides from each position those behind it, and nothing else."""
    if given is not None or mask is None:
        return given is True
    mask = additive(mask, "mask", dtype)
    if mask.ndim != 2 or mask.shape[0] != mask.shape[1]:
        return False
    causal = Transformer.generate_square_subsequent_mask(mask.shape[0], mask.device, mask.dtype)
    return bool((mask == causal).all())
