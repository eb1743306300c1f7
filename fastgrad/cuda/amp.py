"""Mixed precision on GPUs under the names that PyTorch had for it first; each says what it is called now.

The package does not import this module: it stands on `fastgrad.amp`, which stands on the package.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from fastgrad import amp
from fastgrad.cuda.selection import is_available
from fastgrad.dtypes import float16

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]


def amp_definitely_not_available() -> bool:
    """Whether there is no GPU."""
    return not is_available()


def _warn(called: str, now: str) -> None:
    warnings.warn(
        f"`fastgrad.cuda.amp.{called}` is deprecated. Please use `fastgrad.amp.{now}` instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(amp.autocast):  # noqa: N801 - the name that PyTorch's users write
    """`fastgrad.amp.autocast` for ``"cuda"``, with a FutureWarning.

    Parameters
    ----------
    enabled : bool
    dtype : dtype
    cache_enabled : bool

    Examples
    --------
    >>> import warnings
    >>> import fastgrad as fg
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     with fg.cuda.amp.autocast(enabled=False):
    ...         fg.is_autocast_enabled("cuda"), len(found)
    (False, 1)
    """

    def __new__(cls, enabled: bool = True, dtype: Any = float16, cache_enabled: bool = True) -> autocast:
        """The context."""
        _warn("autocast(args...)", "autocast('cuda', args...)")
        return super().__new__(cls, "cuda", dtype, enabled, cache_enabled)  # type: ignore[return-value]

    def __init__(self, enabled: bool = True, dtype: Any = float16, cache_enabled: bool = True) -> None:
        pass


class GradScaler(amp.GradScaler):
    """`fastgrad.amp.GradScaler` for ``"cuda"``, with a FutureWarning.

    Parameters
    ----------
    init_scale, growth_factor, backoff_factor : float
    growth_interval : int
    enabled : bool

    Examples
    --------
    >>> import warnings
    >>> import fastgrad as fg
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     fg.cuda.amp.GradScaler(enabled=False).is_enabled(), found[0].category.__name__
    (False, 'FutureWarning')
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _warn("GradScaler(args...)", "GradScaler('cuda', args...)")
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: Any = None) -> Callable[..., Any]:
    """`fastgrad.amp.custom_fwd` for ``"cuda"``, with a FutureWarning.

    Parameters
    ----------
    fwd : callable
    cast_inputs : dtype, optional
    """
    _warn("custom_fwd(args...)", "custom_fwd(args..., device_type='cuda')")
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Callable[..., Any]:
    """`fastgrad.amp.custom_bwd` for ``"cuda"``, with a FutureWarning.

    Parameters
    ----------
    bwd : callable
    """
    _warn("custom_bwd(args...)", "custom_bwd(args..., device_type='cuda')")
    return amp.custom_bwd(bwd, device_type="cuda")
