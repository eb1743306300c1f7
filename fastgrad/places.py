"""Devices as PyTorch names them, and the one where tensors are made if nothing else is said."""

from __future__ import annotations

import functools
import operator
import sys
import threading
from typing import Any, Self

from fastgrad.native.build.loader import rt
from fastgrad.native.contracts.records import RUNTIME
from fastgrad.native.host import devices

_set = object.__setattr__
NAMES = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla", "lazy",
    "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip
"""What PyTorch calls devices: they may be named where there is none, and even where there never is one."""
ACCELERATOR = "cuda"
"""The kind of device that a number alone stands for."""
_LIMIT = 1 << 63
_N_KNOWN = 256
"""How many devices of a kind are kept. More are never there, but may be named."""
_NOTHING: Any = object()


class device:  # noqa: N801 - PyTorch's name
    """A place where tensors live. Its attributes do not change.

    A name need not stand for anything that this machine has: a device is asked for when a tensor is put there. In a
    ``with`` statement, functions that make tensors put them on the device, unless told otherwise; on this thread.

    Parameters
    ----------
    type : str, device or int
        The kind of device, with an index behind a colon or without one. A number alone is that of a GPU.
    index : int, optional
        Which of its kind.

    Raises
    ------
    RuntimeError
        If there is no such kind, the index stands twice or is negative, or a number is given where there is no GPU.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.device("cuda:1")
    device(type='cuda', index=1)
    >>> fg.device("cuda", 1) == fg.device("cuda:1")
    True
    >>> with fg.device("cpu"):
    ...     x = fg.ones(2)
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __new__(cls, type: Any = _NOTHING, index: int | None = None, **named: Any) -> device:  # noqa: D102
        if named:  # PyTorch's name of the only argument
            if list(named) != ["device"] or type is not _NOTHING or index is not None:
                raise TypeError(_FORMS.format(", ".join(named)))
            type = named["device"]
        if index is not None:
            index = _number(index)
        if isinstance(type, int) and not isinstance(type, bool) and index is None:
            type, index = ACCELERATOR, _of_accelerator(type)
        elif isinstance(type, device) and index is None:
            type, index = type.type, type.index
        if not isinstance(type, str):
            if index is None:
                raise TypeError(_FORMS.format("" if type is _NOTHING else type.__class__.__name__))
            raise TypeError(
                f"device(): argument 'type' (position 1) must be str, not {type.__class__.__name__}"
            )
        name, colon, number = type.partition(":")
        if not type:
            raise RuntimeError("Device string must not be empty")
        if colon and not (number.isdecimal() and number.isascii() and str(int(number[:18])) == number):
            raise RuntimeError(f"Invalid device string: '{type}'")
        if colon and index is not None:
            raise RuntimeError(
                f"type (string) must not include an index because index was passed explicitly: {type}"
            )
        if index is not None and index < 0:
            raise RuntimeError("Device index must not be negative")
        if name not in NAMES and name not in devices.NAMES:
            known = ", ".join(dict.fromkeys((*NAMES, *devices.NAMES)))
            raise RuntimeError(f"Expected one of {known} device type at start of device string: {name}")
        return _kept(name, int(number) if number else index)

    def __init_subclass__(cls) -> None:
        raise TypeError("type 'fastgrad.device' is not an acceptable base type")

    def __setattr__(self, name: str, value: Any) -> None:
        known = name in self.__slots__
        says = f"attribute '{name}' of 'device' objects is not writable"
        raise AttributeError(says if known else f"'device' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        setattr(self, name, None)

    @property
    def code(self) -> int:
        """The device's column of the kernel table; a GPU without an index is the current one.

        Raises
        ------
        RuntimeError
            If there is no such device on this machine.
        NotImplementedError
            If there is no such device at all.
        """
        if self.type not in devices.NAMES and not devices.may_come(self.type):
            raise NotImplementedError(
                f"fastgrad has no device '{self.type}': tensors live on 'cpu', or on GPUs as 'cuda'"
            )
        return devices.number_of(self.type, self.index)

    def __enter__(self) -> Self:
        _default.within.append(self)
        _choose(1)
        return self

    def __exit__(self, *_: object) -> None:
        if _default.within:
            _default.within.pop()
            _choose(-1)

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + (f", index={self.index})" if self.index is not None else ")")

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> Any:
        return (device, (self.type, self.index))


_known: dict[tuple[str, int | None], device] = {}


def _kept(name: str, index: int | None) -> device:
    """The device of a kind; one object for each, so that calls which name it anew look alike to plans."""
    found = _known.get((name, index))
    if found is None:
        found = object.__new__(device)
        _set(found, "type", name)
        _set(found, "index", index)
        if index is None or index < _N_KNOWN:
            found = _known.setdefault((name, index), found)
    return found


_FORMS = (
    "device() received an invalid combination of arguments - got ({}), but expected one of: (device device), "
    "(str type, int index), (int index)"
)


def _number(index: Any) -> int:
    """An index that stands behind a name."""
    try:
        number = None if isinstance(index, bool) else operator.index(index)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(
            f"device(): argument 'index' (position 2) must be int, not {index.__class__.__name__}"
        )
    if not -_LIMIT <= number < _LIMIT:
        raise ValueError(
            f"device(): argument 'index': Overflow when unpacking long long, the number is {number}"
        )
    return number


def _of_accelerator(index: int) -> int:
    """The number of a GPU that stands alone."""
    if _number(index) < 0:
        raise RuntimeError("Device index must not be negative")
    if not devices.count_of(ACCELERATOR):
        raise RuntimeError(
            f"Cannot access accelerator device when none is available: the device {index} was asked for, and there is "
            "no GPU that fastgrad can use"
        )
    return index


# --- where tensors are made ------------------------------------------------------------------------------------


class _Default(threading.local):
    """Where the calling thread makes tensors: on the innermost of `within`, else on `usual`, else on the CPU."""

    def __init__(self) -> None:
        self.within: list[device] = []
        self.usual: device | None = None
        self.chosen = _Chosen()


class _Chosen:
    """How many devices a thread has chosen. When the thread ends, it has no longer."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def __del__(self, finalizing: Any = sys.is_finalizing) -> None:
        if self.count and not finalizing():
            rt.choose_devices(-self.count)


_default = _Default()
any_chosen = functools.partial(rt.word, RUNTIME.fields["chosen_devices"][0])
"""How many devices threads that live have chosen; while it is none, nobody needs to look for them."""


def _choose(change: int) -> None:
    """Note that a thread has chosen a device, or no longer has. While one has, no function goes by its plan."""
    _default.chosen.count += change
    rt.choose_devices(change)


def default_code() -> int:
    """The column of the device where the calling thread makes tensors."""
    where = _default.within[-1] if _default.within else _default.usual
    return 0 if where is None else where.code


def set_default_device(device: Any) -> None:
    """Let functions that make tensors put them on a device unless told otherwise, on this thread.

    Parameters
    ----------
    device : device, str, int or None
        None for the CPU, as at the beginning.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.set_default_device("cpu")
    >>> fg.get_default_device()
    device(type='cpu')
    >>> fg.set_default_device(None)
    """
    chosen = None if device is None else as_device(device)
    if (chosen is None) != (_default.usual is None):
        _choose(1 if chosen is not None else -1)
    _default.usual = chosen


def get_default_device() -> device:
    """The device where functions make tensors on this thread, as a ``with`` statement or `set_default_device` has it.

    Raises
    ------
    RuntimeError
        If there is no such device on this machine.
    """
    where = _default.within[-1] if _default.within else _default.usual
    if where is None or where.index is not None:
        return where or as_device("cpu")
    return as_device(devices.name_of(where.code))


def carried() -> tuple[Any, ...]:
    """What the calling thread has chosen, for `carry_over`."""
    return tuple(_default.within), _default.usual, devices.current(ACCELERATOR)


def carry_over(chosen: tuple[Any, ...]) -> None:
    """Let the calling thread, which has chosen nothing yet and is to end soon, choose what another one had."""
    within, usual, current = chosen
    _default.within, _default.usual = list(within), usual
    devices.set_current(ACCELERATOR, current)


_named: dict[str, device] = {}


class _DeviceAt(dict[int, device]):
    """Devices by their columns of the kernel table."""

    def __missing__(self, column: int) -> device:
        self[column] = found = as_device(devices.name_of(column))
        return found


device_at = _DeviceAt()
devices.tell(lambda column: device_at.pop(column, None))


def as_device(where: Any, name: str = "") -> device:
    """The device that a program names.

    Raises
    ------
    TypeError
        If it is none, in the name of a function if there is one.
    """
    if isinstance(where, device):
        return where
    if isinstance(where, str):
        found = _named.get(where)
        if found is None:
            found = device(where)
            if found.index is None or found.index < _N_KNOWN:
                _named[where] = found
        return found
    if not isinstance(where, int) or isinstance(where, bool):
        raise TypeError(
            f"{name or 'to'}(): argument 'device' must be fastgrad.device, not {type(where).__name__}"
        )
    return device(where)
