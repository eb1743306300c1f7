"""Calls as programs of old versions of PyTorch write them, beside PyTorch's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from errors_beside import kinds_raised

import fastgrad as fg


def m(lib: Any) -> Any:
    return lib.tensor([[1.0, 2.0], [3.0, -4.0]])


def b(lib: Any) -> Any:
    return lib.stack([m(lib), m(lib) * 0.5])


def v(lib: Any) -> Any:
    return lib.tensor([0.5, 2.0])


CASES: dict[str, Callable[[Any], Any]] = {
    "add_": lambda lib: m(lib).add_(3, m(lib)),
    "add": lambda lib: m(lib).add(0.5, m(lib)),
    "add of the package": lambda lib: lib.add(m(lib), 3, m(lib)),
    "sub_": lambda lib: m(lib).sub_(3, m(lib)),
    "sub": lambda lib: m(lib).sub(3, v(lib)),
    "sub of the package": lambda lib: lib.sub(m(lib), 3, m(lib)),
    "addcmul": lambda lib: m(lib).addcmul(-0.1, m(lib), v(lib)),
    "addcmul_": lambda lib: m(lib).addcmul_(-0.1, m(lib), m(lib)),
    "addcmul of the package": lambda lib: lib.addcmul(m(lib), 2, m(lib), m(lib)),
    "addcdiv": lambda lib: m(lib).addcdiv(-0.1, m(lib), v(lib)),
    "addcdiv_": lambda lib: m(lib).addcdiv_(-0.1, m(lib), m(lib)),
    "addmm": lambda lib: m(lib).addmm(2, m(lib), m(lib)),
    "addmm with both": lambda lib: m(lib).addmm(2, 3, m(lib), m(lib)),
    "addmm of the package": lambda lib: lib.addmm(2, m(lib), m(lib), m(lib)),
    "addmm of the package with both": lambda lib: lib.addmm(2, m(lib), 3, m(lib), m(lib)),
    "addmm_": lambda lib: m(lib).addmm_(2, 3, m(lib), m(lib)),
    "addmv": lambda lib: v(lib).addmv(2, 3, m(lib), v(lib)),
    "addmv_": lambda lib: v(lib).addmv_(2, m(lib), v(lib)),
    "addr": lambda lib: m(lib).addr(2, 3, v(lib), v(lib)),
    "baddbmm": lambda lib: b(lib).baddbmm(2, 3, b(lib), b(lib)),
    "baddbmm_": lambda lib: b(lib).baddbmm_(2, b(lib), b(lib)),
    "addbmm": lambda lib: m(lib).addbmm(2, 3, b(lib), b(lib)),
}
WRONG: dict[str, Callable[[Any], Any]] = {
    "the number last": lambda lib: m(lib).add(m(lib), 2),
    "the number twice": lambda lib: m(lib).add(3, m(lib), alpha=2),
    "the number between": lambda lib: m(lib).addcmul(m(lib), 2, m(lib)),
    "two numbers": lambda lib: m(lib).addcmul(2, 3, m(lib), m(lib)),
    "three numbers": lambda lib: m(lib).addmm(2, 3, 4, m(lib), m(lib)),
    "the number first": lambda lib: lib.add(3, m(lib), m(lib)),
    "the number first of two": lambda lib: lib.addcmul(3, m(lib), m(lib), m(lib)),
    "text": lambda lib: m(lib).add_("3", m(lib)),
    "randint without sizes": lambda lib: lib.randint(0, 5),
    "randint without bounds": lambda lib: lib.randint(size=(2,)),
    "randint_like without bounds": lambda lib: lib.randint_like(m(lib)),
}


@pytest.mark.parity
@pytest.mark.parametrize("case", sorted(CASES))
def test_values_are_pytorchs(case: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mine, theirs = CASES[case](fg), CASES[case](pytest.importorskip("torch"))
    np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-6)


@pytest.mark.parity
@pytest.mark.parametrize("case", sorted(WRONG))
def test_errors_are_pytorchs(case: str) -> None:
    here, there = kinds_raised(WRONG[case])
    assert here is there is TypeError


def test_each_call_warns_where_it_stands() -> None:
    x = fg.zeros(2)
    for k in range(4):  # the last ones follow plans
        with pytest.warns(UserWarning, match="add_ is deprecated: pass alpha by name") as told:
            x.add_(k, fg.ones(2))
        assert told[0].filename == __file__
    assert x.tolist() == [6, 6]


def test_gradients_go_through() -> None:
    x, y = fg.ones(2, requires_grad=True), fg.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="deprecated"):
        fg.add(x, 3, y).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([1, 1], [3, 3])


def test_bounds_of_random_integers_by_name(lib: Any) -> None:
    x = lib.zeros(50)
    for found in (
        lib.randint(high=3, size=(50,)),
        lib.randint(3, size=(50,)),
        lib.randint(low=0, high=3, size=(50,)),
        lib.randint_like(x, high=3),
        lib.randint_like(x, 3),
        lib.randint_like(x, 0, high=3),
    ):
        assert set(found.tolist()) == {0, 1, 2}
