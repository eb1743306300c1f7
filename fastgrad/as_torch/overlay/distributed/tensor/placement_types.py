"""How tensors lie that several processes share. There are none; programs have tables of what they would be."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """How a tensor lies along a dimension of the processes."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether processes have parts of it, cut along a dimension if one is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether all processes have it."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether it is what comes of combining those of the processes."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Parts, cut along a dimension."""

    dim: int


@dataclass(frozen=True)
class Replicate(Placement):
    """The same on all processes."""


@dataclass(frozen=True)
class Partial(Placement):
    """Summands, or what else is to be combined."""

    reduce_op: str = "sum"
