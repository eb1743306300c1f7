"""Random numbers: generators, the default one, and the functions that fill tensors from them.

A generator is a seed and an offset into the stream of that seed, counted in blocks of four 32-bit words
(`kernels.random`). A fill takes as many blocks as its elements need and moves the offset on; what it writes
depends on the seed and the offset alone. A float32 or a half takes one word, everything else two. So if n is a multiple
of four (of two, for float64 and integers), two fills of n and m elements write what one of ``n + m`` does;
otherwise the rest of the first fill's last block is lost.
"""

from __future__ import annotations

import contextlib
import ctypes
import operator
import os
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from fastgrad.dtypes import FLOATING, finfo
from fastgrad.errors import renamed
from fastgrad.native.build.loader import TensorBase, rt, runtime_set_object
from fastgrad.native.contracts.element_types import (
    BFLOAT16,
    BOOL,
    DTYPES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
)
from fastgrad.native.contracts.flags import CONTIGUOUS
from fastgrad.native.contracts.formats import PRESERVE_FORMAT
from fastgrad.native.contracts.frames.filling import INTEGERS, NORMAL, PERMUTATION, UNIFORM
from fastgrad.native.contracts.limits import META
from fastgrad.native.contracts.records import TENSOR
from fastgrad.native.host import call_numbers, devices
from fastgrad.ops.call import float_bits
from fastgrad.ops.conjugates import is_turned
from fastgrad.places import as_device
from fastgrad.places import device as Device  # noqa: N812

DEFAULT_SEED = 67280421310721
"""The seed of a new generator, that of PyTorch's."""

_WORD = 1 << 64
_STATE = struct.Struct("<QQ")
_DTYPE, _DEVICE, _DATA, _NUMEL, _FLAGS = (
    TENSOR.fields[name][0] for name in ("dtype", "device", "data", "numel", "flags")
)


class Generator:
    """A source of random numbers with a seed and a position of its own.

    Threads may share one: each fill gets blocks that no other gets. The runtime reads and advances it, in one go.

    Parameters
    ----------
    device : device, str or int, default "cpu"
        The device whose tensors it fills; without an index that of a GPU is the current one.

    Raises
    ------
    RuntimeError
        If there is no such device.

    Examples
    --------
    >>> generator = Generator().manual_seed(7)
    >>> generator.initial_seed()
    7
    """

    __slots__ = ("_device", "_state")

    def __init__(self, device: Any = "cpu") -> None:
        where = as_device(device, "Generator")
        if where.type == "meta":
            raise RuntimeError(
                "Generator(): the META device has no random numbers; use one of another device there"
            )
        if where.code and where.index is None:  # one of several: the current one
            where = as_device(devices.name_of(where.code))
        self._device = where
        self._state = bytearray(_STATE.pack(DEFAULT_SEED, 0))

    @property
    def device(self) -> Device:
        """The device whose tensors it fills."""
        return self._device

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of a seed.

        Parameters
        ----------
        seed : int
            From ``-2**63`` to ``2**64 - 1``; a negative one stands for itself plus ``2**64``.

        Returns
        -------
        Generator
            This one.
        """
        self._restart(_seed_of(seed))
        return self

    def seed(self) -> int:
        """Start the stream of a seed that the operating system picks, and return that seed."""
        seed = int.from_bytes(os.urandom(8), "little")
        self._restart(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed of the current stream, from 0 to ``2**64 - 1``."""
        return self._words()[0]

    def get_state(self) -> Any:
        """Seed and position, as a uint8 tensor of 16 elements."""
        tensor = rt.new(UINT8, 0, (_STATE.size,))
        rt.write(tensor, _STATE.pack(*self._words()))
        return tensor

    def set_state(self, new_state: Any) -> None:
        """Go back to what `get_state` returned, of this generator or another."""
        came = type(new_state).__name__
        if isinstance(new_state, TensorBase):
            came = f"a tensor of {DTYPES[rt.field(new_state, _DTYPE)]}"
            if rt.field(new_state, _DEVICE) != 0:
                came += f" on {devices.name_of(rt.field(new_state, _DEVICE))}"
        if came != "a tensor of uint8":
            raise TypeError(f"set_state: expected new_state to be a tensor of uint8, but got {came}")
        count, flags = rt.field(new_state, _NUMEL), rt.field(new_state, _FLAGS)
        if count != _STATE.size or not flags & CONTIGUOUS:
            raise RuntimeError(
                f"set_state: expected new_state to be contiguous with {_STATE.size} elements, as get_state "
                f"returns it, but got one with {count}"
            )
        self._restart(*_STATE.unpack(ctypes.string_at(rt.field(new_state, _DATA), _STATE.size)))

    def _restart(self, seed: int, offset: int = 0) -> None:
        rt.unplanned()
        self._state[:] = _STATE.pack(seed, offset)  # of the same length: it stays where it is

    def _words(self) -> tuple[int, int]:
        """The seed, and the offset of the next block."""
        rt.unplanned()
        return _STATE.unpack(self._state)  # type: ignore[return-value]

    def __reduce__(self) -> tuple[Any, tuple[str, int, int]]:
        return _restore, (str(self._device), *self._words())

    def __repr__(self) -> str:
        seed, offset = self._words()
        return f"<Generator device={self._device} seed={seed} offset={offset}>"


def _restore(device: str, seed: int, offset: int) -> Generator:
    generator = Generator(device)
    generator._restart(seed, offset)
    return generator


def _seed_of(seed: Any) -> int:
    """A seed as an unsigned word; the exceptions are of PyTorch's classes."""
    try:
        number = operator.index(seed)
    except TypeError:
        number = None
    if number is None or isinstance(seed, bool):
        raise RuntimeError(f"manual_seed: expected seed to be an int, but got {type(seed).__name__}")
    if not -(1 << 63) <= number < _WORD:
        raise ValueError(f"manual_seed: expected seed to lie in [-2**63, 2**64), but got {number}")
    return number % _WORD


def _signed(word: int) -> int:
    """A word of 64 bits as the int64 that has its bits."""
    return word - _WORD if word >= 1 << 63 else word


default_generator = Generator()
"""The generator of calls that name none; its first seed is the operating system's."""
default_generator.seed()
runtime_set_object("generator_states", default_generator._state)  # which ops draw from


_generators: dict[int, Generator] = {}
call_numbers.states.append(default_generator._state)
_seed_of_devices: list[int] = []


def generator_of(where: int) -> Generator:
    """The default generator of a device, by its column of the kernel table: that of the host, or one of its own."""
    if not where:
        return default_generator
    found = _generators.get(where)
    if found is None:
        made = Generator(devices.name_of(where) if where != META else "cpu")
        made.manual_seed(_seed_of_devices[0]) if _seed_of_devices else made.seed()
        found = _generators.setdefault(where, made)
        if found is made:
            call_numbers.states.append(found._state)
        runtime_set_object("generator_states", found._state, where)
    return found


devices.tell(generator_of)  # of devices to come, whose kernels draw from theirs


def seed_devices(seed: int) -> None:
    """Start the stream of a seed on the default generators of all devices but the host, of those to come as well."""
    _seed_of_devices[:] = [_seed_of(seed)]
    for generator in list(_generators.values()):
        generator.manual_seed(seed)


def manual_seed(seed: Any) -> Generator:
    """Start the stream of a seed on the default generators of all devices; that of the host is returned.

    See `Generator.manual_seed`.

    Examples
    --------
    >>> manual_seed(-1).initial_seed() == 2**64 - 1
    True
    """
    number = int(seed)
    default_generator.manual_seed(number)
    seed_devices(number)
    return default_generator


def seed() -> int:
    """Start a stream that the operating system picks on the default generator; returns its seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """The state of the default generator, as a uint8 tensor."""
    return default_generator.get_state()


@contextlib.contextmanager
def numbers_from(place: tuple[int, int] | None, where: int = 0) -> Iterator[None]:
    """A block in which the default generator of a device goes on from a seed and an offset; None leaves it alone."""
    if place is None:
        yield
        return
    generator = generator_of(where)
    before = generator._words()
    generator._restart(*place)
    try:
        yield
    finally:
        generator._restart(*before)


def numbers_now() -> tuple[int, int]:
    """The seed of the default generator, and the offset of the numbers that it draws next."""
    return default_generator._words()


def set_rng_state(new_state: Any) -> None:
    """Set the state of the default generator to one that `get_rng_state` returned."""
    default_generator.set_state(new_state)


# --- filling tensors ----------------------------------------------------------------------------------------

_LARGEST = {d.code: finfo(d).max for d in FLOATING}

# The integers that a dtype holds, from and up to but not including.
_RANGES = {
    BOOL: (0, 2), UINT8: (0, 1 << 8), INT8: (-(1 << 7), 1 << 7),
    INT16: (-(1 << 15), 1 << 15), INT32: (-(1 << 31), 1 << 31),
    INT64: (-(1 << 63), 1 << 63), UINT16: (0, 1 << 16), UINT32: (0, 1 << 32), UINT64: (0, 1 << 64),
    FLOAT16: (-(1 << 11), (1 << 11) + 1), BFLOAT16: (-(1 << 8), (1 << 8) + 1),
    FLOAT32: (-(1 << 24), (1 << 24) + 1), FLOAT64: (-(1 << 53), (1 << 53) + 1),
}  # fmt: skip


@contextlib.contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None, enabled: bool = True, device_type: str = "cuda"
) -> Iterator[None]:
    """A block after which the default generators stand where they stood before.

    Parameters
    ----------
    devices : iterable of device or int, optional
        GPUs whose generators are put back as well; by default all that are in use.
    enabled : bool, default True
        Whether the block does anything.
    device_type : str, default "cuda"
        Of which type numbers among `devices` are.

    Raises
    ------
    RuntimeError
        If a device is none of `device_type`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> _ = fg.manual_seed(1)
    >>> with fg.random.fork_rng():
    ...     a = fg.rand(1)
    >>> fg.equal(a, fg.rand(1))
    True
    """
    if not enabled:
        yield
        return
    before = [(generator, generator.get_state()) for generator in _forked(devices, device_type)]
    try:
        yield
    finally:
        for generator, state in before:
            generator.set_state(state)


def _forked(given: Iterable[Any] | None, device_type: str) -> list[Generator]:
    """The host's default generator and those of GPUs: of those that are given, or of all in use."""
    if given is None:
        return [default_generator, *_generators.values()]
    found = [default_generator]
    for where in given:
        place = as_device(f"{device_type}:{where}" if isinstance(where, int) else where)
        if place.type != device_type:
            raise RuntimeError(f"fork_rng(): {place} is no device of type {device_type!r}")
        found.append(generator_of(place.code))
    return found


def integer_range(tensor: Any) -> tuple[int, int]:
    """The integers that a tensor's dtype holds without a gap around zero: from, and up to but not including."""
    return _RANGES[rt.field(tensor, _DTYPE)]


def fill_uniform(tensor: Any, low: float, high: float, generator: Generator | None = None) -> Any:
    """Fill a tensor without gaps with uniformly distributed numbers in [low, high); with low if both are equal.

    This and the other fills leave history and version of the tensor alone: they are the caller's business. They return
    the tensor or, within `vmap`, one of numbers for each element of the batch.

    Parameters
    ----------
    tensor : Tensor
        Of a floating-point dtype.
    low, high : float
        Bounds, rounded to the dtype; their difference must be finite.
    generator : Generator, optional
        By default the default one.
    """
    if not low <= high:
        raise RuntimeError(f"uniform_: expected low <= high, but got low={low} and high={high}")
    largest = _LARGEST.get(rt.field(tensor, _DTYPE), sys.float_info.max)
    if not max(-low, high, high - low) <= largest:
        raise RuntimeError(
            f"uniform_: expected low, high and high - low to be finite in the tensor's dtype, but got "
            f"low={low} and high={high}"
        )
    return fill(UNIFORM, tensor, generator, float_bits(low), float_bits(high))


def fill_normal(tensor: Any, mean: float, std: float, generator: Generator | None = None) -> Any:
    """Fill a tensor without gaps with normally distributed numbers.

    Parameters
    ----------
    tensor : Tensor
        Of a floating-point dtype.
    mean, std : float
        Mean and standard deviation; the latter must not be negative.
    generator : Generator, optional
        By default the default one.
    """
    if not std >= 0:
        raise RuntimeError(f"normal_: expected std >= 0, but got std={std}")
    return fill(NORMAL, tensor, generator, float_bits(mean), float_bits(std))


def fill_integers(tensor: Any, low: int, high: int, generator: Generator | None = None) -> Any:
    """Fill a tensor without gaps with integers distributed uniformly in [low, high).

    Parameters
    ----------
    tensor : Tensor
        Of any dtype; the same numbers for each.
    low, high : int
        Bounds. The dtype must be able to hold every integer in between.
    generator : Generator, optional
        By default the default one.
    """
    if not low < high:
        raise RuntimeError(f"random_: expected low < high, but got low={low} and high={high}")
    first, end = integer_range(tensor)
    if low < first or high > end:
        dtype = DTYPES[rt.field(tensor, _DTYPE)]
        raise RuntimeError(
            f"random_: expected {first} <= low and high <= {end} for dtype {dtype}, but got "
            f"low={low} and high={high}"
        )
    return fill(INTEGERS, tensor, generator, _signed(low % _WORD), _signed(high % _WORD))


class Batches:
    """What functions that draw random numbers do within `vmap`; see `func.randomness`."""

    def under_way(self) -> bool:
        """Whether this thread is within `vmap`."""
        return False

    def made(self, draw: Callable[[Sequence[int]], Any], sizes: Sequence[int]) -> Any:
        """A tensor of random numbers, by a function that draws one of given sizes."""

    def operand(self, x: Any) -> Any:
        """An operand of an op that draws, for which each element of the batch draws as it is asked to."""

    def filled(self, draw: Callable[[Any], Any], x: Any) -> Any:
        """A new tensor filled by a function that does."""

    def values(self, tensor: Any) -> Any:
        """The tensor of all elements of the batch, for what looks at them together."""
        return tensor


batches = Batches()


def set_batches(those: Batches) -> None:
    """Set what is asked within `vmap`, which is not loaded before it is used."""
    global batches
    batches = those


_NAMES = {UNIFORM: "uniform_", NORMAL: "normal_", INTEGERS: "random_", PERMUTATION: "randperm"}
STANDARD = float_bits(0.0), float_bits(1.0)
"""The bounds of the standard uniform distribution; mean and deviation of the standard normal one."""


def fill(
    which: int, tensor: Any, generator: Generator | None, a: int = STANDARD[0], b: int = STANDARD[1]
) -> Any:
    """Fill a tensor without gaps by a distribution with the words `a` and `b`, which nobody looks at.

    Without them the bounds of the uniform distribution, or mean and standard deviation of the normal one, are 0 and 1.
    """
    if batches.under_way():
        return batches.filled(lambda x: fill(which, x, generator, a, b), tensor)
    if is_turned(tensor):
        drawn = fill(
            which,
            rt.like(tensor, rt.field(tensor, _DTYPE), rt.field(tensor, _DEVICE), PRESERVE_FORMAT),
            generator,
            a,
            b,
        )
        rt.copy(tensor, drawn)
        return tensor
    if not rt.lies_in(tensor, PRESERVE_FORMAT):  # in whatever order, but without gaps
        raise RuntimeError(
            f"{_NAMES[which]}: expected a tensor without gaps; fill a contiguous one and copy from it"
        )
    where = rt.field(tensor, _DEVICE)
    if generator is None:
        generator = generator_of(where)
    elif not isinstance(generator, Generator):
        raise TypeError(
            f"{_NAMES[which]}: expected generator to be a Generator, but got {type(generator).__name__}"
        )
    elif where == META:
        generator = generator_of(where)  # nothing is drawn
    elif generator._device.code != where:
        raise _other_device(devices.name_of(where), generator)
    try:
        rt.random_fill(which, tensor, generator._state, a, b)
    except (NotImplementedError, MemoryError) as error:
        raise renamed(error, _NAMES[which]) from None
    return tensor


def _other_device(name: str, generator: Generator) -> RuntimeError:
    """The error for a generator whose device is not that of the tensor."""
    found, kind = str(generator._device), name.partition(":")[0]
    if kind == generator._device.type:
        return RuntimeError(f"Expected a generator of device '{name}' but found one of '{found}'")
    return RuntimeError(f"Expected a '{kind}' device type for generator but found '{generator._device.type}'")
