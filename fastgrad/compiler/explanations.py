"""What is recorded of a compiled function, for people."""

from __future__ import annotations

from typing import Any, NamedTuple

from fastgrad.compiler.compiled import Signature
from fastgrad.compiler.fusion import Report
from fastgrad.compiler.modules import compiled_of


class SignatureReport(NamedTuple):
    """Calls that look alike.

    Attributes
    ----------
    arguments : str
        What they bring.
    n_recorded, n_replayed, n_eager : int
        How many calls were recorded, replayed, and run without either.
    refused : str
        Why they are not replayed; empty if they are.
    missed : str
        Why the last one that was recorded anew was.
    launches : list of int
        Of each recording, how many kernels a replay runs.
    nbytes : list of int
        Of each recording, the bytes of memory that it keeps.
    fused : list of Report
        Of each recording, which launches became one, and why the others did not.
    """

    arguments: str
    n_recorded: int
    n_replayed: int
    n_eager: int
    refused: str
    missed: str
    launches: list[int]
    nbytes: list[int]
    fused: list[Report]

    @classmethod
    def of(cls, signature: Signature) -> SignatureReport:
        """That of a signature."""
        replays = signature.replays
        return cls(
            signature.arguments,
            signature.n_recorded,
            signature.n_replayed,
            signature.n_eager,
            signature.refused,
            signature.missed,
            [replay.bound.n_launches for replay in replays],
            [replay.bound.nbytes for replay in replays],
            [replay.bound.fused for replay in replays],
        )

    def __str__(self) -> str:
        lines = [
            f"{self.arguments}: {self.n_recorded} recorded, {self.n_replayed} replayed, {self.n_eager} run eagerly"
        ]
        for launches, nbytes, fused in zip(self.launches, self.nbytes, self.fused, strict=True):
            lines.append(f"  {launches} launches, of {fused.before} before fusion; {nbytes:,} bytes kept")
        if self.missed:
            lines.append(f"  recorded anew, as {self.missed}")
        if self.refused:
            lines.append(f"  not replayed: {self.refused}")
        return "\n".join(lines)


class Explanation:
    """What `explain` returns.

    Attributes
    ----------
    name : str
        That of the function.
    signatures : list of SignatureReport
    eager : str
        Why the last call ran eagerly that was not looked up at all; empty if none did.
    """

    def __init__(self, name: str, signatures: list[SignatureReport], eager: str) -> None:
        self.name, self.signatures, self.eager = name, signatures, eager

    def __str__(self) -> str:
        lines = [f"{self.name}: {len(self.signatures)} signatures"]
        lines += [f"  {line}" for report in self.signatures for line in str(report).splitlines()]
        if self.eager:
            lines.append(f"  the last call that ran eagerly did, as {self.eager}")
        return "\n".join(lines)

    __repr__ = __str__


def explanation_of(function: Any) -> Explanation:
    """What is recorded of a compiled function."""
    found = compiled_of(function)
    return Explanation(found.name, [SignatureReport.of(s) for s in found.signatures()], found.eager_because)
