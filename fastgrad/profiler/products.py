"""How many multiply-adds a launch makes, as its frame tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastgrad.native.host.tape import Launch

_GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def _convolution(facts: Mapping[str, Any]) -> int:
    """Every element of `y` meets each tap of the channels of its group, whichever of the three is computed.

    The kernel computes in stages, each of which is a launch: the first one counts.
    """
    stages = facts["stages"]
    if any(stage["steps"] for stage in stages[: facts["stage"]]):
        return 0
    results = facts["n"] * facts["o"] * facts["oh"] * facts["ow"]
    return int(results * (facts["c"] // max(facts["groups"], 1)) * facts["kh"] * facts["kw"])


def _attention(products: int) -> Callable[[Mapping[str, Any]], int]:
    """Products of queries, keys and values; those of masked places count."""

    def count(facts: Mapping[str, Any]) -> int:
        pairs = facts["batch"] * facts["heads"] * facts["queries"] * facts["keys"]
        return int(products * pairs * facts["width"])

    return count


def _recurrent(gates: int) -> Callable[[Mapping[str, Any]], int]:
    """What the states give to the gates; what the inputs give to them is a product before."""
    return lambda facts: int(gates * facts["rows"] * facts["size"] ** 2)


_COUNTS: dict[str, Callable[[Mapping[str, Any]], int]] = {
    "gemm": lambda facts: int(facts["m"] * facts["n"] * facts["k"] * max(facts["batch"], 1)),
    "convolution": _convolution,
}
for _name, _gates in _GATES.items():
    _COUNTS[_name] = _COUNTS[f"{_name}_backward"] = _recurrent(_gates)

_BY_KERNEL = {"attention": _attention(2), "attention_backward": _attention(5)}
"""Kernels whose frames have the same name and which do not compute the same."""


def multiply_adds(launch: Launch) -> int | None:
    """How many multiply-adds a launch makes, if it computes products, a convolution, attention or a recurrent layer.

    A multiply-add counts once, that of complex numbers too. Additions of a bias, elementwise ops and sums are none.

    Parameters
    ----------
    launch : Launch
        Of a tape.

    Returns
    -------
    int or None
        None for kernels that make none, or whose frames do not tell.

    Examples
    --------
    >>> import fastgrad as fg
    >>> from fastgrad.native.host.tape import record
    >>> a, b = fg.ones(2, 3), fg.ones(3, 4)
    >>> with record() as tape:
    ...     c = a @ b
    >>> [multiply_adds(launch) for launch in tape]
    [24]
    """
    count = _BY_KERNEL.get(launch.kernel.name) or _COUNTS.get(launch.frame.name)
    return count(launch.read()) if count else None
