"""What builders make: the body of a kernel, and how it is launched."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fastgrad.native.contracts.cuda import DIVIDED, DIVISORS, MANY, MANY_HEAD, PLAIN, STEPPED


class Launch(NamedTuple):
    """How a kernel is launched; see `contracts.cuda.CUDA_KERNEL`.

    Attributes
    ----------
    kind : int
    n_words : int
        Words of the frame that are parameters, from the first on; behind those of a divided launch stand its divisors,
        behind those of a stepped one the number of the step, behind those of one over many frames their head and
        then, as one parameter, the table.
    items : tuple of str or int
        Fields and numbers whose product is the number of work items; of a divided launch these are its elements.
        ``field/tile`` is a field that counts by tiles.
    per_block : int
        Items of a block.
    threads : int
        Of a block.
    steps : str
        Of a stepped launch the field that says how many steps there are.
    more : int
        And how many there are besides.
    moved : int
        Of a launch over many frames the addresses of each; `per_block` then is of what a chunk's length is a multiple.
    turns : int
        And the turns that it takes besides its work, as bits.
    """

    kind: int
    n_words: int
    items: tuple[str | int, ...] = ()
    per_block: int = 1
    threads: int = 1
    steps: str = ""
    more: int = 0
    moved: int = 0
    turns: int = 0

    @property
    def parameters(self) -> int:
        """How many parameters the kernel has."""
        return self.n_words + {DIVIDED: DIVISORS, STEPPED: 1, MANY: MANY_HEAD.words + 1}.get(self.kind, 0)


class Body(NamedTuple):
    """A kernel before it is compiled.

    Attributes
    ----------
    run : callable, optional
        ``run(f)``, of the words of `device`; none where a launch is a call of the driver.
    items, per_block, threads, steps, more, moved, turns
        As in `Launch`.
    kind : int
    repeats : int, optional
        Of how many of the frame's last field it reads, if not of all.
    resident : int
        Threads that a multiprocessor has room for at least, unless their registers do not suffice: with 80 each, if
        there are 768.
    """

    run: Callable[..., None] | None
    items: tuple[str | int, ...] = ()
    per_block: int = 1
    threads: int = 1
    kind: int = PLAIN
    repeats: int | None = None
    resident: int = 768
    steps: str = ""
    more: int = 0
    moved: int = 0
    turns: int = 0

    def launch(self, n_words: int) -> Launch:
        """How it is launched with so many words of its frame."""
        return Launch(
            self.kind, n_words, self.items, self.per_block, self.threads, self.steps, self.more, self.moved, self.turns
        )  # fmt: skip
