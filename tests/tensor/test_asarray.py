"""`fastgrad.asarray`: what shares memory, what is copied, and what is refused."""

from __future__ import annotations

import array

import numpy as np
import pytest

import fastgrad as fg


def _libraries():
    yield pytest.param(fg, id="fastgrad")
    try:
        import torch
    except ImportError:
        return
    yield pytest.param(torch, id="torch", marks=pytest.mark.parity)


LIBRARIES = list(_libraries())


def facts(x):
    return x.tolist(), str(x.dtype).rpartition(".")[2], x.requires_grad, x.grad_fn is None


@pytest.mark.parametrize("lib", LIBRARIES)
@pytest.mark.filterwarnings("ignore")  # PyTorch says that history is kept
def test_values_dtypes_and_history(lib):
    x = lib.ones(2, requires_grad=True)
    y = x * 2
    assert lib.asarray(y, requires_grad=True) is y
    assert facts(lib.asarray(y)) == ([2, 2], "float32", True, False)
    assert facts(lib.asarray(y, requires_grad=False)) == ([2, 2], "float32", False, True)
    assert facts(lib.asarray(y, dtype=lib.float64, copy=True)) == ([2, 2], "float64", True, False)
    assert facts(lib.asarray([1, 2])) == ([1, 2], "int64", False, True)
    assert facts(lib.asarray(3.5, requires_grad=True)) == (3.5, "float32", True, True)
    assert facts(lib.asarray(np.float32(3))) == (3, "float32", False, True)
    assert facts(lib.asarray([lib.tensor(1.0), 2.0])) == ([1, 2], "float32", False, True)
    assert facts(lib.asarray(bytearray(b"1234"), dtype=lib.uint8)) == ([49, 50, 51, 52], "uint8", False, True)
    assert facts(lib.asarray(array.array("f", [1, 2]))) == ([1, 2], "float32", False, True)


@pytest.mark.parametrize("lib", LIBRARIES)
def test_memory_is_shared_where_it_can_be(lib):
    a = np.ones(2, np.float32)
    assert lib.asarray(a).data_ptr() == lib.asarray(a, copy=False).data_ptr() == a.ctypes.data
    assert lib.asarray(a, copy=True).data_ptr() != a.ctypes.data
    b = bytearray(8)
    lib.asarray(b, dtype=lib.int32)[1] = 1
    assert b[4] == 1
    storage = lib.tensor([1, 2], dtype=lib.int16).untyped_storage()
    lib.asarray(storage[0:2], dtype=lib.uint8)[0] = 7
    assert lib.asarray(storage, dtype=lib.uint8).tolist() == [7, 0, 2, 0]


@pytest.mark.parametrize("lib", LIBRARIES)
def test_mistakes(lib):
    x = lib.ones(2)
    for obj, options, error in (
        (x, {"dtype": lib.float64, "copy": False}, ValueError), ([1], {"copy": False}, ValueError),
        (3, {"copy": False}, ValueError), (np.ones(1), {"copy": False, "dtype": lib.int8}, ValueError),
        (None, {}, RuntimeError), ("abc", {}, TypeError), ([1], {"requires_grad": True}, RuntimeError),
        (bytearray(3), {}, ValueError), ([1], {"copy": 3}, TypeError),
    ):  # fmt: skip
        with pytest.raises(error):
            lib.asarray(obj, **options)
    with pytest.raises(TypeError):
        lib.asarray([1], lib.float32)


@pytest.mark.parametrize("lib", LIBRARIES)
def test_storages_of_files(lib, tmp_path):
    path = str(tmp_path / "numbers")
    np.arange(4, dtype=np.float32).tofile(path)
    make = type(lib.ones(1).untyped_storage()).from_file
    storage = make(path, shared=False, nbytes=16)
    assert (len(storage), storage.nbytes(), storage[6]) == (16, 16, 128)
    assert storage.untyped().data_ptr() == storage.data_ptr()
    assert lib.asarray(storage[4:12], dtype=lib.uint8).view(lib.float32).tolist() == [1, 2]
    storage[0] = 1
    make(path, True, 16)[15] = 9
    with open(path, "rb") as file:
        content = file.read()
    assert (content[0], content[15]) == (0, 9)
    for arguments, error in (
        ((path + "x", False, 4), RuntimeError), ((path, False, 64), RuntimeError), ((path, False, -4), RuntimeError),
        ((3, False, 4), TypeError), ((), TypeError),
    ):  # fmt: skip
        with pytest.raises(error):
            make(*arguments)
