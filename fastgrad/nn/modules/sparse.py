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
