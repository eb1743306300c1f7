"""Functions and methods that older programs call: beside PyTorch's."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgrad as fg


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape)


def matrix(lib: Any) -> Any:
    return lib.tensor(numbers(3, 4), requires_grad=True)


def cube(lib: Any) -> Any:
    return lib.tensor(numbers(2, 3, 4), requires_grad=True)


def is_tensor(found: Any) -> bool:
    return hasattr(found, "requires_grad") and hasattr(found, "detach")


def outcome(call: Callable[[Any], Any], lib: Any) -> Any:
    """What a call gives with its dtype and gradient, or the class of its exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = call(lib)
        except (TypeError, ValueError, IndexError, RuntimeError) as error:
            kinds = (TypeError, ValueError, IndexError, NotImplementedError, RuntimeError)
            return next(kind for kind in kinds if isinstance(error, kind))
    if not is_tensor(found):
        return repr(found).replace("torch.", "fastgrad.")
    return str(found.dtype).split(".")[1], found.requires_grad, found.detach().numpy()


def agree(call: Callable[[Any], Any]) -> None:
    torch = pytest.importorskip("torch")
    mine, wanted = outcome(call, fg), outcome(call, torch)
    if isinstance(wanted, tuple) and isinstance(mine, tuple):
        assert mine[:2] == wanted[:2]
        np.testing.assert_allclose(mine[2], wanted[2], rtol=1e-6, atol=1e-12)
        assert mine[2].shape == wanted[2].shape
    else:
        assert mine == wanted


def gradient(function: Callable[[Any, Any], Any], of: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def call(lib: Any) -> Any:
        x = of(lib)
        y = function(lib, x)
        return lib.autograd.grad((y * y.detach().abs()).sum(), x)[0]

    return call


ROWS: list[Callable[[Any], Any]] = [
    lambda lib: lib.range(1, 4, 0.5), lambda lib: lib.range(1, 4), lambda lib: lib.range(5, 0, -1.5),
    lambda lib: lib.range(5, 1, -2, dtype=lib.int64), lambda lib: lib.range(0, 5, dtype=lib.int32),
    lambda lib: lib.range(1, 1), lambda lib: lib.range(0, 1, 0.1), lambda lib: lib.range(0.5, 3, 1),
    lambda lib: lib.range(0.5, 3.7, dtype=lib.int64), lambda lib: lib.range(0, 3, dtype=lib.float64),
    lambda lib: lib.range(0.0, 2, requires_grad=True), lambda lib: lib.range(True, 3),
    lambda lib: lib.range(1, 0), lambda lib: lib.range(0, 1, 0), lambda lib: lib.range(0, float("inf")),
    lambda lib: lib.range("a", 1), lambda lib: lib.range(3), lambda lib: lib.range(0, 3, dtype=lib.bool),
    lambda lib: lib.range(0, 3, dtype=lib.complex64), lambda lib: lib.range(0, 3, dtype=lib.float16),
]  # fmt: skip
NORMS: list[Callable[[Any], Any]] = [
    *((lambda lib, d=d: lib.norm_except_dim(cube(lib), 2, d)) for d in (0, 1, 2, -1, -2, -3, 3)),
    lambda lib: lib.norm_except_dim(cube(lib), 1, 1), lambda lib: lib.norm_except_dim(cube(lib)),
    lambda lib: lib.norm_except_dim(lib.tensor(1.0)), lambda lib: lib.norm_except_dim(lib.tensor([1, 2])),
    lambda lib: lib.norm_except_dim(lib.ones(3) * -2), lambda lib: lib.norm_except_dim(None),
    lambda lib: lib.norm_except_dim(cube(lib), 2.5, 0),
    lambda lib: lib.frobenius_norm(cube(lib), (0, 1)), lambda lib: lib.frobenius_norm(cube(lib), 1, keepdim=True),
    lambda lib: lib.frobenius_norm(cube(lib), ()), lambda lib: lib.frobenius_norm(cube(lib), (0, 1, 2)),
    lambda lib: lib.frobenius_norm(cube(lib)), lambda lib: lib.frobenius_norm(None, 0),
    lambda lib: lib.nuclear_norm(matrix(lib)), lambda lib: lib.nuclear_norm(matrix(lib), keepdim=True),
    lambda lib: lib.nuclear_norm(cube(lib)), lambda lib: lib.nuclear_norm(cube(lib), (0, 2), True),
    lambda lib: lib.nuclear_norm(cube(lib), (0, 0)), lambda lib: lib.nuclear_norm(None),
    *(gradient(function, matrix) for function in (
        lambda lib, x: lib.norm_except_dim(x, 2, 1), lambda lib, x: lib.norm_except_dim(x, 2, -1),
        lambda lib, x: lib.frobenius_norm(x, (0, 1)), lambda lib, x: lib.nuclear_norm(x))),
]  # fmt: skip
COPIES: list[Callable[[Any], Any]] = [
    lambda lib: lib.detach(matrix(lib)), lambda lib: lib.detach(3), lambda lib: lib.detach_copy(matrix(lib).detach()),
    lambda lib: lib.view_as_real_copy(lib.tensor([1 + 2j])), lambda lib: lib.view_as_real_copy(lib.ones(2)),
    lambda lib: lib.view_as_complex_copy(lib.ones(3, 2)), lambda lib: lib.view_as_complex_copy(lib.ones(3)),
    lambda lib: lib.narrow_copy(matrix(lib), 0, 1, 2), lambda lib: lib.narrow_copy(matrix(lib), 0, 1, 5),
    lambda lib: lib.index_put_(lib.zeros(3), (lib.tensor([1]),), lib.ones(1)),
    lambda lib: lib.conj_physical_(lib.tensor([1j])), lambda lib: lib.negative_(lib.ones(2)),
    lambda lib: lib.fix_(lib.tensor([1.5, -1.5])), lambda lib: lib.arctan_(lib.ones(2)),
    lambda lib: lib.arcsin_(lib.ones(2)), lambda lib: lib.arccosh_(lib.ones(2) * 2),
    lambda lib: lib.ones(2).nextafter_(lib.zeros(2)), lambda lib: lib.ones(2).nextafter_(lib.zeros(2)) == 1,
    lambda lib: lib.tensor([1]).nextafter_(lib.tensor([2])),
    gradient(lambda lib, x: lib.narrow_copy(x, 1, 0, 2), matrix), gradient(lambda lib, x: x.resize(12), matrix),
]  # fmt: skip
FORMS: list[Callable[[Any], Any]] = [
    lambda lib: lib.ones(2).new(2, 3).shape, lambda lib: lib.ones(2).new([1, 2]), lambda lib: lib.ones(2).new(),
    lambda lib: lib.ones(2).new(lib.Size([2])).shape, lambda lib: lib.tensor([1]).new([1, 2]),
    lambda lib: lib.ones(2, dtype=lib.float16).new([1, 2]), lambda lib: lib.ones(2).new(lib.arange(3)),
    lambda lib: lib.ones(2).new("x"), lambda lib: lib.ones(2).new(2, device="meta"), lambda lib: lib.ones(2).new(None),
    lambda lib: matrix(lib).new([1.0]), lambda lib: lib.ones(2).new(lib.zeros(2)),
    lambda lib: lib.ones(3, 4).resize(2, 6), lambda lib: lib.ones(3, 4).resize(5), lambda lib: matrix(lib).resize(12),
    lambda lib: lib.ones(3, 4).resize_as(lib.ones(12)), lambda lib: lib.ones(3, 4).resize_as(lib.ones(2)),
    lambda lib: lib.ones(2).module_load(lib.zeros(2)), lambda lib: lib.ones(2).module_load(lib.zeros(3)),
    lambda lib: lib.ones(2).module_load(lib.zeros(3), assign=True), lambda lib: matrix(lib).module_load(lib.zeros(4)),
    lambda lib: lib.ones(2).to_dense(), lambda lib: lib.ones(2).to_dense(lib.float64),
    lambda lib: matrix(lib).to_dense(),
    lambda lib: lib.ones(2).to_dense(dtype=lib.float64, masked_grad=True),
    *((lambda lib, f=f: f(lib).dim_order()) for f in (
        matrix, cube, lambda lib: lib.tensor(1.0), lambda lib: cube(lib).transpose(0, 2),
        lambda lib: lib.ones(2, 3, 4, 5).contiguous(memory_format=lib.channels_last),
        lambda lib: lib.ones(2, 2).expand(3, 2, 2), lambda lib: lib.ones(3, 1, 1))),
    *((lambda lib, p=p: lib.ones(2, 1, 3, 1, 2).permute(p).dim_order()) for p in (
        (4, 3, 2, 1, 0), (1, 0, 2, 4, 3), (2, 0, 4, 1, 3), (3, 4, 1, 2, 0))),
    lambda lib: lib.ones(2, 3)[:, None].expand(2, 4, 3).dim_order(),
    lambda lib: lib.ones(3, 1, 1).dim_order(ambiguity_check=True),
    lambda lib: cube(lib).dim_order(ambiguity_check=True),
    lambda lib: cube(lib).dim_order(ambiguity_check=3), lambda lib: cube(lib).dim_order(ambiguity_check=[3]),
    *((lambda lib, s=s: lib.ones(s).dim_order(ambiguity_check=[lib.contiguous_format, lib.channels_last]))
      for s in ((2, 2, 2, 2), (1, 3, 1, 1), (2, 1, 3, 3))),
    lambda lib: lib.get_device(lib.ones(1)), lambda lib: lib.get_device(3), lambda lib: lib.ones(1).is_distributed(),
    *((lambda lib, f=f: f(lib, matrix(lib).detach())) for f in (
        lambda lib, x: x.is_set_to(x), lambda lib, x: x.is_set_to(x.view(3, 4)), lambda lib, x: x.is_set_to(x[1:]),
        lambda lib, x: x.is_set_to(x.clone()), lambda lib, x: x.is_set_to(x.t()), lambda lib, x: x.is_set_to(3),
        lambda lib, x: x.is_set_to(x.view(12)), lambda lib, x: lib.ones(0).is_set_to(lib.ones(0)),
        lambda lib, x: x.is_same_size(x), lambda lib, x: lib.is_same_size(x, x.t()),
        lambda lib, x: x.is_same_size(None),
        lambda lib, x: lib.is_same_size(x, 3))),
]  # fmt: skip
BYTES = b"abcdefgh"
BUFFERS: list[Callable[[Any], Any]] = [
    lambda lib: lib.frombuffer(bytearray(BYTES), dtype=lib.int16, offset=2, count=2),
    *((lambda lib, k=k: lib.frombuffer(bytearray(BYTES), dtype=lib.int16, **k)) for k in (
        {}, {"offset": 1}, {"offset": 8}, {"offset": -1}, {"count": 0}, {"count": -2}, {"count": 5}, {"offset": 6},
        {"requires_grad": True}, {"count": 3, "offset": 4}, {"count": "a"})),
    lambda lib: lib.frombuffer(bytearray(BYTES), dtype=lib.int64, offset=4),
    lambda lib: lib.frombuffer(bytearray(BYTES), dtype=lib.float32, requires_grad=True),
    lambda lib: lib.frombuffer(bytearray(BYTES)), lambda lib: lib.frombuffer(bytearray(BYTES), dtype=3),
    lambda lib: lib.frombuffer(BYTES, dtype=lib.int8), lambda lib: lib.frombuffer(3, dtype=lib.int8),
    lambda lib: lib.frombuffer(None, dtype=lib.int8), lambda lib: lib.frombuffer(b"", dtype=lib.int8),
    lambda lib: lib.frombuffer(np.arange(3), dtype=lib.int64),
    lambda lib: lib.frombuffer(memoryview(bytearray(BYTES))[2:], dtype=lib.uint8),
]  # fmt: skip
CALLS = [*ROWS, *NORMS, *COPIES, *FORMS, *BUFFERS]


@pytest.mark.parity
@pytest.mark.parametrize("k", range(len(CALLS)))
def test_results_and_errors(k: int):
    agree(CALLS[k])


def test_buffers_and_copies_share_memory_or_not():
    memory = bytearray(4)
    x = fg.frombuffer(memory, dtype=fg.uint8)
    x[1] = 7
    assert memory == b"\0\7\0\0"
    y = fg.ones(2)
    assert fg.detach(y).data_ptr() == y.data_ptr() == y.new(y).data_ptr()
    assert fg.detach_copy(y).data_ptr() != y.data_ptr()
    assert y.to_dense() is y
    with pytest.warns(UserWarning, match="not writable"):
        fg.frombuffer(b"ab", dtype=fg.uint8)
    with pytest.warns(UserWarning, match="arange"):
        fg.range(0, 2)
    assert (
        outcome(lambda lib: lib.range(0, 2, 0.5, dtype=lib.int64), fg) is RuntimeError
    )  # PyTorch's process dies


FILES: list[Callable[[Any, Any], Any]] = [
    lambda lib, name: lib.from_file(name, size=3), lambda lib, name: lib.from_file(name, shared=True, size=4),
    lambda lib, name: lib.from_file(name, shared=True, size=8), lambda lib, name: lib.from_file(name, size=100),
    lambda lib, name: lib.from_file(name, size=-1), lambda lib, name: lib.from_file(name),
    lambda lib, name: lib.from_file(name, size=2, dtype=lib.int16), lambda lib, name: lib.from_file(name + "x", size=2),
    lambda lib, name: lib.from_file(name + "x", shared=True, size=2), lambda lib, name: lib.from_file(name, size="a"),
    lambda lib, name: lib.from_file(name, size=2, dtype=3),
    lambda lib, name: lib.from_file(os.path.dirname(name), size=2),
]  # fmt: skip


@pytest.mark.parity
@pytest.mark.parametrize("k", range(len(FILES)))
def test_files(k: int, tmp_path: Path):
    def call(lib: Any) -> Any:
        name = tmp_path / lib.__name__
        np.arange(4, dtype=np.float32).tofile(name)
        return FILES[k](lib, str(name))

    agree(call)


def test_changes_of_files(tmp_path: Path):
    name = tmp_path / "numbers"
    shared = fg.from_file(name, True, 2, dtype=fg.int16)
    shared[1] = 5
    own = fg.from_file(name, size=2, dtype=fg.int16)
    own[0] = 3
    assert np.fromfile(name, np.int16).tolist() == [0, 5]
    assert own.tolist() == [3, 5]


@pytest.mark.parametrize("wrong", [1, True, None, b"name", 2.5, ["name"]])
def test_a_file_has_a_name(wrong: Any):
    """A number would be a file that is open, which would be closed behind it."""
    with pytest.raises(TypeError, match="argument 'filename' must be str or a path"):
        fg.from_file(wrong, size=1)
    os.fstat(1)
