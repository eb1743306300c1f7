"""`as_strided_scatter` of tensors that lie somewhere in a larger memory, beside PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.autograd import gradcheck

INPUTS = {
    "plain": lambda lib: lib.arange(12.0),
    "part": lambda lib: lib.arange(12.0)[:4],
    "behind": lambda lib: lib.arange(12.0)[4:],
    "columns": lambda lib: lib.arange(12.0).reshape(3, 4)[:, ::2],
    "transposed": lambda lib: lib.arange(12.0).reshape(3, 4).t(),
    "expanded": lambda lib: lib.arange(3.0).expand(2, 3),
    "empty": lambda lib: lib.arange(12.0)[4:4],
}
LAYOUTS = [
    ((2,), (2,), None),
    ((2,), (2,), 0),
    ((2,), (2,), 1),
    ((2,), (3,), 5),
    ((2, 2), (1, 4), 0),
    ((2, 2), (1, 1), None),
    ((5,), (1,), None),
    ((0,), (1,), None),
    ((), (), 2),
    ((3,), (9,), 0),
]


def scattered(lib: Any, name: str, layout: Any) -> Any:
    x = INPUTS[name](lib)
    src = -1 - lib.arange(int(np.prod(layout[0]))).to(lib.float32).reshape(layout[0])
    try:
        out = lib.as_strided_scatter(x, src, *layout)
    except Exception as error:
        return type(error)
    return out.tolist(), out.stride() if out.numel() else None


@pytest.mark.parity
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", sorted(INPUTS))
def test_as_in_pytorch(name: str, layout: Any) -> None:
    torch = pytest.importorskip("torch")
    mine, theirs = (scattered(lib, name, layout) for lib in (fg, torch))
    assert mine == theirs


def test_the_input_stays_as_it_is() -> None:
    base = fg.arange(12.0)
    fg.as_strided_scatter(base[4:], fg.ones(2), (2,), (2,), 5)
    assert base.tolist() == list(range(12))


@pytest.mark.parametrize("layout", [((2, 2), (1, 4), 0), ((2,), (2,), None), ((2,), (3,), 2)], ids=str)
def test_derivatives(layout: Any) -> None:
    base = fg.tensor(np.random.default_rng(1).normal(size=(3, 4)), requires_grad=True)
    src = fg.tensor(np.random.default_rng(2).normal(size=layout[0]), requires_grad=True)
    assert gradcheck(lambda x, y: fg.as_strided_scatter(x[:, ::2], y, *layout), (base, src))
    assert gradcheck(lambda x, y: fg.as_strided_scatter(x[1:], y, *layout), (base, src))
