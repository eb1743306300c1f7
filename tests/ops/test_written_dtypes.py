"""Which dtypes may be written at an index, and which numbers may be factors of a sum: as in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastgrad as fg

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:.*[Cc]omplex.*:UserWarning"),
]

DTYPES = ["float32", "float64", "float16", "int64", "uint8", "bool", "complex64"]
INDICES: dict[str, Any] = {
    "integer": lambda lib: 0,
    "slice": lambda lib: slice(0, 2),
    "everything": lambda lib: ...,
    "truth": lambda lib: True,
    "falsehood": lambda lib: False,
    "0-d": lambda lib: lib.tensor(1),
    "tensor": lambda lib: lib.tensor([0, 1]),
    "list": lambda lib: [0, 2],
    "array": lambda lib: np.array([0, 1]),
    "no places": lambda lib: lib.zeros(0, dtype=lib.int64),
    "two": lambda lib: (lib.tensor([0, 1]), lib.tensor([1, 0])),
    "column": lambda lib: (slice(None), lib.tensor([0])),
    "mask": lambda lib: lib.tensor([True, False, True]),
    "mask of all": lambda lib: lib.tensor([[True, False]] * 3),
    "mask of none": lambda lib: lib.tensor([False] * 3),
    "list of truths": lambda lib: [True, False, True],
    "array of truths": lambda lib: np.array([True, False, True]),
    "mask of columns": lambda lib: (slice(None), lib.tensor([True, False])),
    "mask and tensor": lambda lib: (lib.tensor([True, False, False]), lib.tensor([1])),
}


def written(lib: Any, dtype: str, value: Any, index: str) -> Any:
    x = lib.zeros(3, 2, dtype=getattr(lib, dtype))
    try:
        x[INDICES[index](lib)] = value(lib)
    except Exception as error:
        return type(error)
    return x.tolist()


@pytest.mark.parametrize("sizes", [(), (1,), (2,)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", INDICES)
def test_tensors_of_other_dtypes(index: str, dtype: str, sizes: tuple[int, ...]) -> None:
    for other in DTYPES:

        def value(lib: Any, other: str = other) -> Any:
            return lib.ones(sizes, dtype=getattr(lib, other))

        assert written(fg, dtype, value, index) == written(torch, dtype, value, index), other


def test_message_and_gradients() -> None:
    x, places = fg.zeros(3), fg.tensor([0, 2])
    with pytest.raises(
        RuntimeError, match=r"requires the source and destination dtypes match, got Float .* Double"
    ):
        x[places] = fg.tensor(1.0, dtype=fg.float64)
    assert x.tolist() == [0, 0, 0]
    value = fg.tensor(2.0, dtype=fg.float64, requires_grad=True)
    y = x.clone()
    y[x == 0] = value
    y.sum().backward()
    assert y.tolist() == [2, 2, 2]
    assert value.grad.item() == 3
    assert value.grad.dtype is fg.float64


SUMS = {
    "addmm": ((2, 2), (2, 3), (3, 2)), "addmv": ((2,), (2, 3), (3,)), "baddbmm": ((2, 2, 2), (2, 2, 3), (2, 3, 2)),
    "addbmm": ((2, 2), (2, 2, 3), (2, 3, 2)), "addr": ((2, 3), (2,), (3,)),
}  # fmt: skip
FACTORS: list[tuple[Any, Any]] = [
    (1j, 1), (1, 1j), (2 + 0j, 1), (1, 2 + 0j), (0j, 1), (2.5, 1), (1, 2.5), (0, 2.5), (0, 1j), (True, 1), (1, False),
    (np.float32(2), 1), ("a", 1), (1, None), (1, 2),
]  # fmt: skip


def total(lib: Any, name: str, dtypes: tuple[str, str], factors: tuple[Any, Any], inplace: bool) -> Any:
    first, *others = (
        lib.ones(sizes, dtype=getattr(lib, dtypes[k > 0])) for k, sizes in enumerate(SUMS[name])
    )
    options = {"beta": factors[0], "alpha": factors[1]}
    try:
        if inplace:
            out = getattr(first, name + "_")(*others, **options)
        else:
            out = getattr(lib, name)(first, *others, **options)
    except Exception as error:
        return error
    return str(out.dtype).partition(".")[2], out.tolist()


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("factors", FACTORS, ids=str)
@pytest.mark.parametrize("name", SUMS)
def test_factors(name: str, factors: tuple[Any, Any], inplace: bool) -> None:
    for first in ("float32", "float16", "int64", "complex64"):
        for others in (first, "float64", "complex64"):
            mine, theirs = (total(lib, name, (first, others), factors, inplace) for lib in (fg, torch))
            if isinstance(theirs, TypeError):
                assert isinstance(mine, (TypeError, RuntimeError))  # of several mistakes either may be named
            elif isinstance(theirs, Exception):
                assert isinstance(mine, RuntimeError), (first, others)
            else:
                assert mine == theirs, (first, others)


def test_factors_of_masks() -> None:
    mask, row = fg.tensor([[True, False]]), fg.tensor([True])
    other = fg.tensor([False, True])
    assert fg.addr(mask, row, other).tolist() == [[True, True]]
    assert fg.addr(mask, row, other, beta=False).tolist() == [[False, True]]
    assert fg.addr(mask, row, other, alpha=0).dtype is fg.bool
