"""Arguments that are bools: nothing else is taken for one, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

CALLS: dict[str, Callable[[ModuleType, Any, Any], Any]] = {
    "sum": lambda lib, x, v: x.sum(0, keepdim=v),
    "mean": lambda lib, x, v: x.mean(0, v),
    "amax": lambda lib, x, v: x.amax(0, v),
    "any": lambda lib, x, v: x.any(0, v),
    "prod": lambda lib, x, v: x.prod(0, v),
    "argmax": lambda lib, x, v: x.argmax(0, v),
    "max": lambda lib, x, v: x.max(0, v),
    "logsumexp": lambda lib, x, v: x.logsumexp(0, v),
    "var": lambda lib, x, v: x.var(0, keepdim=v),
    "norm": lambda lib, x, v: lib.linalg.vector_norm(x, 2, 0, v),
    "sort": lambda lib, x, v: x.sort(0, v),
    "topk": lambda lib, x, v: x.topk(1, 0, v),
    "multinomial": lambda lib, x, v: lib.multinomial(x, 1, v),
    "nonzero": lambda lib, x, v: lib.nonzero(x, as_tuple=v),
    "isclose": lambda lib, x, v: lib.isclose(x, x, equal_nan=v),
    "requires_grad_": lambda lib, x, v: x.requires_grad_(v),
    "ones": lambda lib, x, v: lib.ones(2, requires_grad=v),
}
VALUES = [1, 1.0, "True", [True], float("inf"), np.bool_(True)]


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("name", CALLS)
def test_only_a_bool_is_one(lib: ModuleType, name: str, value: Any):
    with pytest.raises(TypeError):
        CALLS[name](lib, lib.ones(2, 2), value)


@pytest.mark.parametrize("name", CALLS)
def test_a_bool_is_one(lib: ModuleType, name: str):
    for value in (True, False):
        CALLS[name](lib, lib.ones(2, 2), value)


def test_a_long_double_is_a_number(lib: ModuleType):
    assert (lib.ones(1) % np.longdouble(2)).tolist() == [1]
    assert (lib.ones(1) + np.longdouble(2)).dtype is lib.float32


@pytest.mark.parametrize("number", [-1, 2**70, -(2**70)])
def test_sequence_numbers_have_a_range(lib: ModuleType, number: int):
    node = lib.ones(1, requires_grad=True).exp().grad_fn
    with pytest.raises(OverflowError):
        node._set_sequence_nr(number)
    with pytest.raises(TypeError, match="an integer is required"):
        node._set_sequence_nr("1")
