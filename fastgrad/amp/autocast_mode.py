"""`autocast`: a mode of the thread, in which functions choose the dtype that they compute in."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from fastgrad import dtypes
from fastgrad.autograd.modes import Mode
from fastgrad.cuda import gpus, properties
from fastgrad.functions.arguments import as_flag
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.flags import (
    AUTOCAST_BFLOAT16,
    AUTOCAST_FLOAT16,
    AUTOCAST_TURNED,
    AUTOCAST_UNCACHED,
    CPU_AUTOCAST,
    GPU_AUTOCAST,
    GPU_AUTOCAST_BFLOAT16,
    GPU_AUTOCAST_FLOAT16,
    GPU_AUTOCAST_TURNED,
)
from fastgrad.places import device as Device  # noqa: N812


class Kind(NamedTuple):
    """Autocast on one kind of devices.

    Attributes
    ----------
    modes : dict
        The modes of a thread for each dtype; `all` of them.
    turned : int
        The mode in which autocast is off, and its dtype is not the usual one.
    dtype : dtype
        The usual one.
    """

    modes: dict[dtypes.dtype, int]
    all: int
    turned: int
    dtype: dtypes.dtype

    def switches(self, dtype: dtypes.dtype, enabled: bool) -> tuple[int, int]:
        """The modes that are switched on, and those that are switched off."""
        turned = self.turned if dtype in self.modes and dtype is not self.dtype else 0
        on = self.modes[dtype] if enabled else turned
        return on, (self.all | self.turned) & ~on


KINDS = {
    "cpu": Kind(
        {dtypes.bfloat16: AUTOCAST_BFLOAT16, dtypes.float16: AUTOCAST_FLOAT16},
        CPU_AUTOCAST,
        AUTOCAST_TURNED,
        dtypes.bfloat16,
    ),
    "cuda": Kind(
        {dtypes.bfloat16: GPU_AUTOCAST_BFLOAT16, dtypes.float16: GPU_AUTOCAST_FLOAT16},
        GPU_AUTOCAST,
        GPU_AUTOCAST_TURNED,
        dtypes.float16,
    ),
}


def need_device(name: str, device_type: Any, error: type[Exception] = TypeError) -> str:
    """The name of a kind of devices; an error where it is no text, RuntimeError where there is no such kind."""
    if not isinstance(device_type, str):
        raise error(f"{name}(): argument 'device_type' must be str, not {type(device_type).__name__}")
    if device_type not in KINDS:
        Device(device_type)
    return device_type


def _is_on(device_type: str, dtype: dtypes.dtype, enabled: bool) -> bool:
    """Whether autocast is on inside a context that asks for it; else that is said in a warning."""
    if not enabled:
        return False
    if device_type == "cuda" and not gpus.count():
        warnings.warn("CUDA is not available. Disabling autocast.", stacklevel=3)
        return False
    if device_type == "cuda" and dtype is dtypes.bfloat16 and not properties.is_bf16_supported():
        raise RuntimeError("Current CUDA Device does not support bfloat16. Please switch dtype to float16.")
    if dtype not in KINDS[device_type].modes:
        name = device_type.upper()
        warnings.warn(
            f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
            f"{name} Autocast only supports dtypes of fastgrad.bfloat16, fastgrad.float16 currently.",
            stacklevel=3,
        )
        return False
    return True


class autocast(Mode):  # noqa: N801 - the name that PyTorch's users write
    """Inside, products of matrices, convolutions and attention run in a half dtype, losses in float32.

    What comes out of the former is of the half dtype, and other functions compute in what they get. Parameters stay as
    they are, and so do the dtypes of their gradients. Losses (and ``prod``) convert halves to float32. On the CPU
    ``cat`` and ``stack`` join tensors in the widest of their dtypes. On GPUs, exponentials, logarithms, powers, sums,
    softmax, norms and the normalisation of layers and groups run in float32 as well. Nothing happens to float64.

    A context, which ``with ... as`` names, and a decorator of functions. The backward pass belongs outside; it runs in
    the dtypes of the forward.

    Parameters
    ----------
    device_type : str
        ``"cpu"`` or ``"cuda"``: functions of tensors there choose their dtype.
    dtype : dtype, optional
        float16 or bfloat16; by default that of the context around, or the latter on the CPU and the former on GPUs.
        With another one, and for GPUs where there are none, there is a warning, and autocast is off inside.
    enabled : bool
        Whether autocast is on inside, or off.
    cache_enabled : bool, optional
        What `is_autocast_cache_enabled` says inside. Nothing follows from it: a parameter is converted by each function
        that uses it.

    Raises
    ------
    ValueError
        If `device_type` is no text.
    RuntimeError
        If there is no such device, or it does not support bfloat16.
    TypeError
        If `dtype` is no dtype.

    Examples
    --------
    >>> import fastgrad as fg
    >>> a = fg.ones(2, 2)
    >>> with fg.autocast("cpu"):
    ...     (a @ a).dtype, (a + a).dtype
    (fastgrad.bfloat16, fastgrad.float32)
    """

    device: str
    fast_dtype: dtypes.dtype
    enabled: bool
    cache: bool | None

    def __new__(
        cls, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> autocast:
        """The context."""
        self = super().__new__(cls)
        self.device = need_device("autocast", device_type, ValueError)
        if device_type not in KINDS:
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        if dtype is not None and not isinstance(dtype, dtypes.dtype):
            raise TypeError(
                f"autocast(): argument 'dtype' must be fastgrad.dtype, not {type(dtype).__name__}"
            )
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self.enabled = _is_on(device_type, self.fast_dtype, enabled)
        self.cache = cache_enabled
        self._on, self._off = KINDS[device_type].switches(self.fast_dtype, self.enabled)
        if cache_enabled is not None:
            kept = as_flag("autocast", "cache_enabled", cache_enabled)
            self._on |= 0 if kept else AUTOCAST_UNCACHED
            self._off |= AUTOCAST_UNCACHED if kept else 0
        self._gives_self = 1
        return self

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        pass

    def _again(self) -> autocast:
        return autocast(self.device, self.fast_dtype, self.enabled, self.cache)


def is_autocast_available(device_type: str) -> bool:
    """Whether there is autocast for a kind of devices."""
    return need_device("is_autocast_available", device_type) in KINDS


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether autocast is on for a kind of devices; without one, as in PyTorch, for ``"cuda"``.

    Examples
    --------
    >>> import fastgrad as fg
    >>> with fg.autocast("cpu"):
    ...     fg.is_autocast_enabled("cpu")
    True
    """
    name = "cuda" if device_type is None else need_device("is_autocast_enabled", device_type)
    return name in KINDS and bool(rt.get_mode() & KINDS[name].all)


def get_autocast_dtype(device_type: str) -> dtypes.dtype:
    """The half dtype of autocast for a kind of devices: bfloat16 of the CPU and float16 of GPUs, until it is set."""
    kind = KINDS.get(need_device("get_autocast_dtype", device_type), KINDS["cpu"])
    mode = rt.get_mode()
    if not mode & kind.all:
        return next(t for t in kind.modes if (t is kind.dtype) != bool(mode & kind.turned))
    return next(dtype for dtype, bit in kind.modes.items() if mode & bit)


def clear_autocast_cache() -> None:
    """Nothing: parameters that were converted are not kept."""


# --- custom functions ------------------------------------------------------------------------------------------


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: Any = None
) -> Callable[..., Any]:
    """Decorate the ``forward`` of a custom function: it runs with autocast as it is, or off with inputs in one dtype.

    Parameters
    ----------
    fwd : callable
    device_type : str
    cast_inputs : dtype, optional
        Floating-point tensors among the inputs are converted to it where autocast is on, but for those of float64, and
        autocast is off inside.

    Examples
    --------
    >>> import fastgrad as fg
    >>> class Square(fg.autograd.Function):
    ...     @staticmethod
    ...     @fg.amp.custom_fwd(device_type="cpu", cast_inputs=fg.float32)
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...
    ...     @staticmethod
    ...     @fg.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * g
    >>> with fg.autocast("cpu"):
    ...     Square.apply(fg.ones(2, dtype=fg.bfloat16)).dtype
    fastgrad.float32
    """
    need_device("custom_fwd", device_type, ValueError)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    function = fwd

    @functools.wraps(function)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        ctx._dtype = get_autocast_dtype(device_type)
        on = is_autocast_enabled(device_type)
        ctx._fwd_used_autocast = on and cast_inputs is None
        if cast_inputs is None or not on:
            return function(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return function(*_cast(args, cast_inputs), **_cast(kwargs, cast_inputs))

    return decorated


def _cast(value: Any, dtype: Any) -> Any:
    if isinstance(value, TensorBase):
        own = value.dtype  # type: ignore[attr-defined]
        fits = own.is_floating_point and own is not dtypes.float64
        return value.to(dtype) if fits else value  # type: ignore[attr-defined]
    if isinstance(value, dict):
        return {_cast(k, dtype): _cast(v, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(v, dtype) for v in value)
    return value


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorate the ``backward`` of a custom function: it runs with autocast as its `custom_fwd` did.

    Parameters
    ----------
    bwd : callable
    device_type : str
    """
    need_device("custom_bwd", device_type, ValueError)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    function = bwd

    @functools.wraps(function)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, args[0]._dtype, args[0]._fwd_used_autocast):
            return function(*args, **kwargs)

    return decorated
