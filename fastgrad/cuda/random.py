"""The generators of random numbers for tensors of GPUs: each GPU has a default one.

They are counter-based like that of the CPU: with one seed, a tensor of a GPU is filled with the numbers that one of the
CPU would get.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastgrad.cuda import gpus
from fastgrad.cuda.selection import gpu_of
from fastgrad.native.contracts.limits import FIRST_GPU
from fastgrad.random import Generator, generator_of, seed_devices


def generator(device: Any = None) -> Generator:
    """The default generator of a GPU, by default of the current one."""
    return generator_of(FIRST_GPU + gpu_of(device).index)


def manual_seed(seed: int) -> None:
    """Start the stream of a seed on the default generator of the current GPU.

    Without a GPU the seed is that of GPUs to come, so that programs need not ask.

    Parameters
    ----------
    seed : int

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.cuda.manual_seed(0)
    """
    if gpus.is_attached():
        generator().manual_seed(int(seed))
    else:
        seed_devices(int(seed))


def manual_seed_all(seed: int) -> None:
    """Start the stream of a seed on the default generators of all GPUs; see `manual_seed`.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.cuda.manual_seed_all(0)
    """
    seed_devices(int(seed))


def seed() -> None:
    """Start a stream that the operating system picks on the default generator of the current GPU, if there is one."""
    if gpus.count():
        generator().seed()


def seed_all() -> None:
    """Start one stream that the operating system picks on the default generators of all GPUs."""
    if gpus.count():
        seed_devices(generator().seed())


def initial_seed() -> int:
    """The seed of the default generator of the current GPU.

    Raises
    ------
    RuntimeError
        If there is no GPU.
    """
    return generator().initial_seed()


def get_rng_state(device: Any = "cuda") -> Any:
    """The state of the default generator of a GPU, as a uint8 tensor of the CPU.

    Raises
    ------
    RuntimeError
        If there is no such GPU.
    """
    return generator(device).get_state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Set the state of the default generator of a GPU to one that `get_rng_state` returned.

    Raises
    ------
    RuntimeError
        If there is no such GPU.
    """
    generator(device).set_state(new_state)


def get_rng_state_all() -> list[Any]:
    """The states of the default generators of all GPUs; none without a GPU."""
    return [get_rng_state(gpu.index) for gpu in (gpus.gpus() if gpus.count() else ())]


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Set the states of the default generators of all GPUs, in order."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
