"""Arguments go by all names that PyTorch takes: NumPy's, and those of sequences that are usually spread."""

from __future__ import annotations

from typing import Any

import pytest

import fastgrad as fg
from fastgrad.functions.argument_names import also_by_name

LIBRARIES = [pytest.param("fastgrad", id="fastgrad"), pytest.param("torch", marks=pytest.mark.parity)]

CALLS: dict[str, Any] = {
    "zeros": lambda lib, x: lib.zeros(size=(2, 3), dtype=lib.int64),
    "ones": lambda lib, x: lib.ones(size=[2]),
    "empty": lambda lib, x: lib.empty(size=(2, 0)),
    "rand": lambda lib, x: lib.rand(size=(2,)) * 0,
    "randn": lambda lib, x: lib.randn(size=(2,)) * 0,
    "zeros, all options": lambda lib, x: lib.zeros(2, layout=lib.strided, pin_memory=False, device="cpu"),
    "arange": lambda lib, x: lib.arange(3, layout=lib.strided, pin_memory=False),
    "rand_like": lambda lib, x: lib.rand_like(x, layout=lib.strided, pin_memory=False) * 0,
    "tensor": lambda lib, x: lib.tensor([1.0], pin_memory=False),
    "normal": lambda lib, x: lib.normal(0.0, 0.0, (2,), layout=lib.strided),
    "empty in a format": lambda lib, x: lib.empty(1, 2, 0, 2, memory_format=lib.channels_last),
    "new_zeros": lambda lib, x: x.new_zeros(size=(2, 2)),
    "new_ones": lambda lib, x: x.new_ones(size=(2, 2)),
    "new_empty": lambda lib, x: x.new_empty(size=(0,)),
    "permute": lambda lib, x: lib.permute(x, dims=(1, 0)),
    "permute, all named": lambda lib, x: lib.permute(input=x, dims=(1, 0)),
    "permute method": lambda lib, x: x.permute(dims=(1, 0)),
    "flip": lambda lib, x: x.flip(dims=[0, 1]),
    "reshape": lambda lib, x: lib.reshape(x, shape=(3, 2)),
    "view": lambda lib, x: x.view(size=(3, 2)),
    "view as": lambda lib, x: x.view(dtype=lib.int32),
    "expand": lambda lib, x: x.expand(size=(2, 2, 3)),
    "repeat": lambda lib, x: x.repeat(repeats=(2, 1)),
    "tile": lambda lib, x: lib.tile(x, dims=(2, 1)),
    "resize_": lambda lib, x: x.clone().resize_(size=(3, 2)),
    "sum_to_size": lambda lib, x: x.sum_to_size(size=(1, 3)),
    "swapaxes": lambda lib, x: lib.swapaxes(x, axis0=0, axis1=1),
    "split": lambda lib, x: x.split(split_size=1)[1],
    "sum": lambda lib, x: x.sum(axis=1, keepdims=True),
    "sum over two": lambda lib, x: lib.sum(x, axis=(0, 1)),
    "mean": lambda lib, x: x.mean(axis=0),
    "max": lambda lib, x: lib.max(x, axis=1, keepdims=True)[0],
    "argmax": lambda lib, x: x.argmax(axis=1),
    "cumsum": lambda lib, x: lib.cumsum(x, axis=1),
    "cat": lambda lib, x: lib.cat([x, x], axis=1),
    "stack": lambda lib, x: lib.stack([x, x], axis=1),
    "softmax": lambda lib, x: lib.softmax(x, axis=1),
    "median": lambda lib, x: x.median(axis=0)[0],
    "vector_norm": lambda lib, x: lib.linalg.vector_norm(x, axis=1, keepdims=True),
    "fft": lambda lib, x: lib.fft.fft(x, axis=0).real,
    "out": lambda lib, x: lib.sum(x, axis=0, out=lib.zeros(3)),
    "squeeze": lambda lib, x: x[None].squeeze(axis=0),
    "bool, in a format": lambda lib, x: x.bool(memory_format=lib.contiguous_format),
}
WRONG: dict[str, Any] = {
    "twice": lambda lib, x: x.sum(dim=0, axis=0),
    "by place and by name": lambda lib, x: x.permute(1, 0, dims=(1, 0)),
    "no sizes": lambda lib, x: lib.zeros(size="ab"),
    "layout": lambda lib, x: lib.zeros(2, layout=5),
    "unknown": lambda lib, x: x.sum(axes=0),
    "of layers": lambda lib, x: lib.nn.functional.softmax(x, axis=0),
}


def library(name: str) -> Any:
    return fg if name == "fastgrad" else pytest.importorskip(name)


@pytest.mark.parity
@pytest.mark.parametrize("case", CALLS)
def test_results_are_those_of_pytorch(case):
    torch = pytest.importorskip("torch")
    ours, theirs = (
        CALLS[case](lib, lib.arange(6).reshape(2, 3).to(lib.float32) * 0.5) for lib in (fg, torch)
    )
    assert str(ours.dtype).partition(".")[2] == str(theirs.dtype).partition(".")[2]
    fg.testing.assert_close(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("case", CALLS)
def test_again_with_a_plan(case):
    """The first calls run Python, later ones do not."""
    x = fg.arange(6.0).reshape(2, 3)
    first, *others = (CALLS[case](fg, x) for _ in range(4))
    for other in others:
        fg.testing.assert_close(other, first)


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("name", LIBRARIES)
def test_wrong_names(name, case):
    lib = library(name)
    with pytest.raises(TypeError):
        WRONG[case](lib, lib.ones(2, 3))


def test_pinned_memory_needs_a_gpu():
    if not fg.cuda.is_available():
        with pytest.raises(RuntimeError, match="NVIDIA"):
            fg.zeros(2, pin_memory=True)


def test_nothing_stands_before_functions_without_such_arguments():
    def plain(a, b):
        return a, b

    assert also_by_name(plain) is plain
    assert also_by_name(len) is len  # type: ignore[comparison-overlap]
    assert also_by_name(3) == 3  # type: ignore[type-var]


def test_warnings_are_given_where_the_program_stands():
    for _ in range(3):  # the last one by a plan
        with pytest.warns(UserWarning, match="degrees of freedom") as caught:
            fg.ones(1, 3).var(axis=0)
        assert caught[0].filename == __file__
