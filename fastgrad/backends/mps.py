"""Apple's GPUs, which fastgrad does not use."""

from __future__ import annotations


def is_built() -> bool:
    """False: there is no code for them."""
    return False


def is_available() -> bool:
    """False: there is no code for them.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.backends.mps.is_available()
    False
    """
    return False
