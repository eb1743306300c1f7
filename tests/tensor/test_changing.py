"""Changes in place that write results back or change sizes, storages, layouts, older names of types."""

from __future__ import annotations

import pickle

import pytest

import fastgrad as fg


def matrix() -> fg.Tensor:
    return fg.arange(6.0).reshape(2, 3)


def test_results_are_written_back():
    for name, arguments in (
        ("cumsum", (1,)), ("cumprod", (0,)), ("tril", ()), ("triu", (1,)), ("renorm", (2.0, 0, 1.5)),
    ):  # fmt: skip
        x = matrix()
        wanted, address = getattr(x, name)(*arguments), x.data_ptr()
        assert getattr(x, f"{name}_")(*arguments) is x
        assert fg.equal(x, wanted)
        assert x.data_ptr() == address
    leaf = fg.ones(2, 2, requires_grad=True)
    (leaf * 1).cumsum_(0).sum().backward()
    assert leaf.grad.tolist() == [[2, 2], [1, 1]]
    assert matrix().subtract_(1).divide_(2).true_divide_(2)[0, 0].item() == -0.25


def test_sizes_change_in_place():
    for name, arguments in (
        ("t", ()), ("transpose", (0, 1)), ("unsqueeze", (1,)), ("squeeze", ()), ("as_strided", ((2,), (2,))),
        ("swapaxes", (0, 1)),
    ):  # fmt: skip
        x = matrix()
        wanted, address, version = getattr(x, name)(*arguments), x.data_ptr(), x._version
        assert getattr(x, f"{name}_")(*arguments) is x
        assert (x.shape, x.stride()) == (wanted.shape, wanted.stride())
        assert fg.equal(x, wanted)
        assert x.data_ptr() == address
        assert x._version > version
        with pytest.raises(NotImplementedError, match="in place"):
            getattr((matrix().requires_grad_() * 1), f"{name}_")(*arguments)
    with pytest.raises(IndexError):
        matrix().unsqueeze_(5)


def test_resize():
    x = matrix()
    address = x.data_ptr()
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert x.data_ptr() == address
    assert x.resize_((3, 3)).flatten()[:6].tolist() == [0, 1, 2, 3, 4, 5]
    assert x.resize_as_(fg.ones(1)).shape == (1,)
    assert fg.empty(0).resize_(2).shape == (2,)
    with pytest.raises(RuntimeError, match="require grad"):
        matrix().requires_grad_().resize_(1)
    with pytest.raises(RuntimeError, match="negative"):
        matrix().resize_(-1)


def test_diagonals_and_functions_of_python():
    assert fg.zeros(2, 3).fill_diagonal_(1).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert fg.zeros(5, 2).fill_diagonal_(1, wrap=True).tolist() == [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1]]
    assert fg.zeros(2, 2, 2).fill_diagonal_(3).sum().item() == 6
    with pytest.raises(RuntimeError, match="equal length"):
        fg.zeros(2, 2, 3).fill_diagonal_(1)
    with pytest.raises(RuntimeError, match="larger than 1"):
        fg.zeros(2).fill_diagonal_(1)
    x = matrix()
    assert fg.equal(x.clone().apply_(lambda v: v * v), x * x)
    assert fg.equal(x.clone().map_(x, lambda a, b: a + b), x + x)
    assert fg.equal(x.clone().map2_(x, fg.ones(3), lambda a, b, c: a * b + c), x * x + 1)
    assert fg.zeros(0).apply_(lambda v: v).shape == (0,)
    with pytest.raises(RuntimeError, match="requires grad"):
        x.clone().requires_grad_().apply_(lambda v: v)
    with pytest.raises(TypeError, match="callable"):
        x.apply_(3)
    with pytest.raises(ZeroDivisionError):
        x.apply_(lambda v: 1 / v)
    assert fg.equal(x, matrix())


def test_storages_and_layouts():
    x = matrix()
    assert x.storage().tolist() == list(range(6))
    assert x.t().storage() is x.storage() or x.t().storage().data_ptr() == x.storage().data_ptr()
    memory = x[1].untyped_storage()
    assert (memory.nbytes(), len(memory), memory.data_ptr()) == (24, 24, x.data_ptr())
    assert fg.tensor(1.0).untyped_storage().nbytes() == 4
    assert x.layout is fg.strided is pickle.loads(pickle.dumps(fg.strided))
    assert isinstance(x.layout, fg.layout)
    assert [x.is_sparse, x.is_quantized, x.is_mkldnn] == [False] * 3
    bits = x.view(fg.int32)
    again = pickle.loads(pickle.dumps((x, bits)))
    assert [t.dtype for t in again] == [fg.float32, fg.int32]
    assert fg.equal(again[1], bits)


def test_older_names_of_types():
    assert fg.FloatTensor([1, 2]).dtype is fg.float32
    assert fg.LongTensor(2, 3).shape == (2, 3)
    assert fg.CharTensor([1]).dtype is fg.int8
    assert fg.IntTensor().shape == (0,)
    assert isinstance(fg.ones(1), fg.FloatTensor)
    assert not isinstance(fg.ones(1), fg.LongTensor)
    assert not isinstance(3, fg.FloatTensor)
    assert fg.ones(1).type(fg.LongTensor).dtype is fg.int64
    with pytest.raises(TypeError, match="FloatTensor"):
        fg.FloatTensor(2, "a")


def test_functions_in_place_of_the_package():
    x = fg.tensor([-1.0, 2.0])
    assert fg.abs_(x) is x
    assert fg.zero_(x).tolist() == [0, 0]
    assert fg.fill(x, 3).tolist() == [3, 3]
    assert x.tolist() == [0, 0]


@pytest.mark.parametrize("name", ["ceil", "floor", "round", "trunc", "fix"])
def test_integers_are_whole_in_place_as_well(name: str) -> None:
    x = fg.tensor([3, -4])
    assert getattr(x, f"{name}_")() is x
    assert x.tolist() == [3, -4]
    with pytest.raises(NotImplementedError, match=f"{'trunc' if name == 'fix' else name}_"):
        getattr(fg.tensor([True]), f"{name}_")()


def test_round_in_place_takes_decimals() -> None:
    x = fg.tensor([1.26, -0.04])
    assert x.round_(decimals=1) is x
    assert x.tolist() == pytest.approx([1.3, 0.0])


@pytest.mark.parity
@pytest.mark.parametrize("name", ["sign", "sign_", "sgn", "sgn_", "square"])
def test_masks_have_signs_and_squares(name: str) -> None:
    torch = pytest.importorskip("torch")
    found = [getattr(lib.tensor([True, False]), name)() for lib in (fg, torch)]
    assert repr(found[0]) == repr(found[1])


@pytest.mark.parametrize("name", ["cumsum_", "cumprod_"])
def test_running_results_are_of_the_dtype_of_their_tensor(lib, name: str) -> None:
    x = lib.tensor([1, 2, 3], dtype=lib.int8)
    assert getattr(x, name)(0, dtype=lib.int8) is x
    assert x.tolist() == ([1, 3, 6] if name == "cumsum_" else [1, 2, 6])
    with pytest.raises(RuntimeError, match="Bad in-place call"):
        getattr(x, name)(0, dtype=lib.float32)
    with pytest.raises(NotImplementedError, match="Bool"):
        getattr(x > 2, name)(0)
