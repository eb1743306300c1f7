"""Random numbers on a GPU are those of the CPU, by the same counters."""

from __future__ import annotations

import pytest

import fastgrad as fg

DRAWN = {
    "rand": lambda n, **at: fg.rand(n, **at),
    "rand, float64": lambda n, **at: fg.rand(n, dtype=fg.float64, **at),
    "randint": lambda n, **at: fg.randint(-5, 1 << 40, (n,), **at),
    "randperm": lambda n, **at: fg.randperm(n, **at),
}


@pytest.mark.parametrize("n", [1, 2, 7, 1000, 100_003, 3_000_000])
@pytest.mark.parametrize("name", DRAWN)
def test_numbers_are_those_of_the_cpu(gpu, name, n):
    generators = [fg.Generator(device).manual_seed(n) for device in ("cpu", gpu)]
    for _ in range(2):
        wanted, found = (DRAWN[name](n, generator=g, device=g.device) for g in generators)
        assert found.device.type == gpu
        assert fg.equal(found.cpu(), wanted)
    assert generators[0].get_state().tolist() == generators[1].get_state().tolist()
