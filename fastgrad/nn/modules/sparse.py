"""Looking up rows of a table."""

from __future__ import annotations

from typing import Any

from fastgrad.functions.arguments import need_tensor
from fastgrad.functions.creation import empty
from fastgrad.nn import functional as F
from fastgrad.nn import init
from fastgrad.nn.modules.module import Module
from fastgrad.nn.parameter import Parameter


class Embedding(Module):
    """A table whose rows are looked up by index.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Rows, and the length of each.
    padding_idx : int, optional
        A row that is zero at first and gets no gradient; may be negative.
    max_norm : float, optional
        Rows that are looked up and longer than this are shortened, in place.
    norm_type : float
        Which norm that is.
    scale_grad_by_freq : bool
        Divide gradients by how often an index occurs in the input.
    sparse : bool
        Not supported.
    _weight : Tensor, optional
        The table, instead of one drawn from the normal distribution.
    _freeze : bool
        Whether the table wants no gradient.
    device : optional
    dtype : dtype, optional

    Raises
    ------
    NotImplementedError
        If `sparse` is set.
    AssertionError
        If `padding_idx` is out of range or `_weight` has another shape.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.Embedding(10, 4)(fg.tensor([[1, 2, 3]])).shape
    fastgrad.Size([1, 3, 4])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if sparse:
            raise NotImplementedError("Embedding: sparse=True is not supported; gradients are dense")
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("Padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        if _weight is None:
            table = empty((num_embeddings, embedding_dim), device=device, dtype=dtype)
            self.weight = Parameter(table, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            if list(need_tensor("Embedding", _weight, "_weight", 8).shape) != [num_embeddings, embedding_dim]:
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            init.zeros_(self.weight.detach()[self.padding_idx])

    def forward(self, input: Any) -> Any:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        defaults = {"padding_idx": None, "max_norm": None, "norm_type": 2, "scale_grad_by_freq": False}
        for name, default in defaults.items():
            value = getattr(self, name)
            if value != default:
                text += f", {name}={value}"
        return text

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """An embedding of a table that exists.

        Parameters
        ----------
        embeddings : Tensor
            Of two dimensions.
        freeze : bool
            Whether the table wants no gradient.
        """
        if need_tensor("from_pretrained", embeddings, "embeddings").dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, cols = embeddings.shape
        return cls(
            rows,
            cols,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )


class EmbeddingBag(Module):
    """Sums, means or maxima of bags of rows of a table; see `nn.functional.embedding_bag`.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Rows, and the length of each.
    max_norm : float, optional
        Rows that are looked up and longer than this are shortened, in place.
    norm_type : float
        Which norm that is.
    scale_grad_by_freq : bool
        Divide gradients by how often an index occurs in the input.
    mode : "sum", "mean" or "max"
    sparse : bool
        Not supported.
    _weight : Tensor, optional
        The table, instead of one drawn from the normal distribution.
    include_last_offset : bool
        Whether offsets have the number of indices at their end.
    padding_idx : int, optional
        A row that is zero at first and takes no part; may be negative.
    device : optional
    dtype : dtype, optional

    Raises
    ------
    NotImplementedError
        If `sparse` is set.
    AssertionError
        If `padding_idx` is out of range or `_weight` has another shape.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.nn.EmbeddingBag(10, 3)(fg.tensor([1, 2, 4, 5, 4]), fg.tensor([0, 2])).shape
    fastgrad.Size([2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if sparse:
            raise NotImplementedError("EmbeddingBag: sparse=True is not supported; gradients are dense")
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        if _weight is None:
            self.weight = Parameter(empty((num_embeddings, embedding_dim), device=device, dtype=dtype))
            self.reset_parameters()
        else:
            if list(need_tensor("EmbeddingBag", _weight, "_weight", 8).shape) != [
                num_embeddings,
                embedding_dim,
            ]:
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(_weight)
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            init.zeros_(self.weight.detach()[self.padding_idx])

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm!r}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type!r}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq!r}"
        text += f", mode={self.mode!r}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx!r}"

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Bags of rows of a table that exists.

        Parameters
        ----------
        embeddings : Tensor
            Of two dimensions.
        freeze : bool
            Whether the table wants no gradient.
        """
        if need_tensor("from_pretrained", embeddings, "embeddings").dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, cols = embeddings.shape
        bag = cls(
            rows, cols, max_norm, norm_type, scale_grad_by_freq, mode, sparse, _weight=embeddings,
            include_last_offset=include_last_offset, padding_idx=padding_idx,
        )  # fmt: skip
        bag.weight.requires_grad_(not freeze)
        return bag
