"""Sequences of different lengths for recurrent layers: packed without padding, or padded to one length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from fastgrad.functions.arguments import is_tensor, need_tensor, need_tensors, need_type
from fastgrad.functions.creation import full, tensor
from fastgrad.functions.index import index_select
from fastgrad.functions.shape import cat, narrow, reshape, stack, transpose, unbind

_SORTED = (
    "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
    "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence."
)


class PackedSequence(NamedTuple):
    """Sequences of different lengths, step by step without padding; made by `pack_padded_sequence`.

    Attributes
    ----------
    data : Tensor
        Shape (sum of lengths, ...): the first elements of all sequences, from the longest to the shortest, then the
        second ones, and so on.
    batch_sizes : Tensor
        How many sequences have each step, int64.
    sorted_indices : Tensor or None
        The order of the sequences from the longest to the shortest, if they came in another one.
    unsorted_indices : Tensor or None
        The way back.
    """

    data: Any
    batch_sizes: Any
    sorted_indices: Any = None
    unsorted_indices: Any = None

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The sequences with another dtype or device; see `Tensor.to`."""
        return self._replace(data=need_tensor("to", self.data, "data").to(*args, **kwargs))

    def double(self) -> PackedSequence:
        """The sequences as `Tensor.double` gives their data."""
        return self._replace(data=need_tensor("double", self.data, "data").double())

    def float(self) -> PackedSequence:
        """The sequences as `Tensor.float` gives their data."""
        return self._replace(data=need_tensor("float", self.data, "data").float())

    def half(self) -> PackedSequence:
        """The sequences as `Tensor.half` gives their data."""
        return self._replace(data=need_tensor("half", self.data, "data").half())

    def long(self) -> PackedSequence:
        """The sequences as `Tensor.long` gives their data."""
        return self._replace(data=need_tensor("long", self.data, "data").long())

    def int(self) -> PackedSequence:
        """The sequences as `Tensor.int` gives their data."""
        return self._replace(data=need_tensor("int", self.data, "data").int())

    def short(self) -> PackedSequence:
        """The sequences as `Tensor.short` gives their data."""
        return self._replace(data=need_tensor("short", self.data, "data").short())

    def char(self) -> PackedSequence:
        """The sequences as `Tensor.char` gives their data."""
        return self._replace(data=need_tensor("char", self.data, "data").char())

    def byte(self) -> PackedSequence:
        """The sequences as `Tensor.byte` gives their data."""
        return self._replace(data=need_tensor("byte", self.data, "data").byte())

    def cpu(self) -> PackedSequence:
        """The sequences on the CPU."""
        return self._replace(data=need_tensor("cpu", self.data, "data").cpu())


def invert_permutation(permutation: Any) -> Any:
    """The permutation that undoes another one, or None for None."""
    if permutation is None:
        return None
    order = need_tensor("invert_permutation", permutation, "permutation").tolist()
    inverse = [0] * len(order)
    for place, index in enumerate(order):
        inverse[index] = place
    return tensor(inverse, device=permutation.device)


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Take the padding out of sequences of one length.

    Parameters
    ----------
    input : Tensor
        Shape (T, N, ...), or (N, T, ...) with `batch_first`.
    lengths : Tensor or sequence of int
        The length of each sequence.
    batch_first : bool
    enforce_sorted : bool
        Whether sequences have to come from the longest to the shortest; they are sorted otherwise.

    Returns
    -------
    PackedSequence

    Raises
    ------
    RuntimeError
        If lengths are not sorted, not positive, too long, or not as many as sequences.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.nn.utils.rnn import pack_padded_sequence
    >>> pack_padded_sequence(fg.tensor([[1, 2], [3, 0]]), [2, 1], batch_first=True).data
    tensor([1, 3, 2])
    """
    if need_tensor("pack_padded_sequence", input).ndim < 2:
        raise IndexError(
            f"pack_padded_sequence(): expected an input of at least 2 dimensions, but got sizes {list(input.shape)}"
        )
    if batch_first:
        input = transpose(input, 0, 1)
    steps, batch = input.shape[:2]
    sizes = [int(n) for n in (lengths.tolist() if is_tensor(lengths) else lengths)]
    if len(sizes) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(sizes)} (batch_size={batch})"
        )
    if not sizes or min(sizes) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if max(sizes) > steps:
        raise RuntimeError(
            f"pack_padded_sequence(): a length of {max(sizes)} is more than the {steps} steps of the input"
        )
    if enforce_sorted and any(a < b for a, b in pairwise(sizes)):
        raise RuntimeError(_SORTED)
    order = None if enforce_sorted else sorted(range(batch), key=lambda k: -sizes[k])
    ranks = order or range(batch)
    present = [sum(n > step for n in sizes) for step in range(max(sizes))]
    rows = [step * batch + ranks[k] for step, count in enumerate(present) for k in range(count)]
    data = index_select(reshape(input, steps * batch, *input.shape[2:]), 0, tensor(rows, device=input.device))
    permutation = None if order is None else tensor(order, device=input.device)
    return PackedSequence(data, tensor(present), permutation, invert_permutation(permutation))


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Any, Any]:
    """Undo `pack_padded_sequence`.

    Parameters
    ----------
    sequence : PackedSequence
    batch_first : bool
        Whether the result is (N, T, ...) instead of (T, N, ...).
    padding_value : number
    total_length : int, optional
        T, if not the length of the longest sequence.

    Returns
    -------
    padded : Tensor
    lengths : Tensor
        int64, shape (N,).

    Raises
    ------
    ValueError
        If `total_length` is less than the length of the longest sequence.
    """
    need_type("pad_packed_sequence", sequence, PackedSequence, "sequence")
    sizes = sequence.batch_sizes.tolist()
    length = len(sizes) if total_length is None else total_length
    if length < len(sizes):
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {len(sizes)}"
        )
    batch, data = sizes[0], sequence.data
    places = range(batch) if sequence.unsorted_indices is None else sequence.unsorted_indices.tolist()
    starts = [sum(sizes[:k]) for k in range(len(sizes))]
    nothing = data.shape[0]  # the row of padding
    rows = [
        starts[step] + place if step < len(sizes) and place < sizes[step] else nothing
        for step in range(length)
        for place in places
    ]
    padding = full((1, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)
    padded = index_select(cat([data, padding], 0), 0, tensor(rows, device=data.device))
    padded = reshape(padded, length, batch, *data.shape[1:])
    lengths = tensor([sum(place < size for size in sizes) for place in places])
    return (transpose(padded, 0, 1) if batch_first else padded), lengths


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Any:
    """Tensors of different lengths as one, with padding behind them or before.

    Parameters
    ----------
    sequences : iterable of Tensor
        Shapes (length, ...).
    batch_first : bool
        Whether the result is (N, T, ...) instead of (T, N, ...).
    padding_value : number
    padding_side : "right" or "left"

    Returns
    -------
    Tensor

    Raises
    ------
    RuntimeError
        If there are no sequences, or `padding_side` is something else.
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    parts: Sequence[Any] = (
        unbind(sequences, 0) if is_tensor(sequences) else need_tensors("pad_sequence", sequences, "sequences")
    )
    if not parts:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    longest = max(x.size(0) for x in parts)
    padded = []
    for x in parts:
        missing = (longest - x.size(0), *x.shape[1:])
        if missing[0]:
            fill = full(missing, padding_value, dtype=x.dtype, device=x.device)
            x = cat([x, fill] if padding_side == "right" else [fill, x], 0)
        padded.append(x)
    return stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """The sequences of a padded tensor, each as long as `lengths` say."""
    need_tensor("unpad_sequence", padded_sequences, "padded_sequences")
    rows = padded_sequences if batch_first else transpose(padded_sequences, 0, 1)
    counts = lengths.tolist() if is_tensor(lengths) else lengths
    return [narrow(x, 0, 0, n) for x, n in zip(unbind(rows, 0), counts, strict=True)]


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """`pack_padded_sequence` of tensors of different lengths."""
    parts = need_tensors("pack_sequence", sequences, "sequences")
    lengths = [x.size(0) for x in parts]
    return pack_padded_sequence(pad_sequence(parts), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """The sequences of a packed one, as they were given to `pack_sequence`."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences))
