"""The text of tensors: literal examples, print options, and a comparison with torch's own."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgrad import module_names
from fastgrad.formatting import format_tensor, get_printoptions, printoptions, set_printoptions

NAN, INF = np.nan, np.inf
F32, F64 = np.float32, np.float64


@pytest.fixture(autouse=True)
def _default_options():
    set_printoptions(profile="default")
    yield
    set_printoptions(profile="default")


def text_of(array, **kwargs):
    return format_tensor(array, dtype_name=str(array.dtype), **kwargs)


def block(text):
    return textwrap.dedent(text).strip("\n")


ONE_LINE = [
    # floats: fixed point, whole numbers, scientific notation
    (F32([1, 2.5, -3]), "tensor([ 1.0000,  2.5000, -3.0000])"),
    (F32([1, 2, -30]), "tensor([  1.,   2., -30.])"),
    (F32([0, -0.0]), "tensor([0., -0.])"),
    (F32([1e-5, 1]), "tensor([1.0000e-05, 1.0000e+00])"),
    (F32([1, 1000]), "tensor([   1., 1000.])"),
    (F32([1, 1001]), "tensor([1.0000e+00, 1.0010e+03])"),
    (F32([0.5, 600]), "tensor([5.0000e-01, 6.0000e+02])"),
    (F32([1e8]), "tensor([100000000.])"),
    (F32([2e8]), "tensor([2.0000e+08])"),
    (F32([9e-5]), "tensor([9.0000e-05])"),
    # nan and inf have no say in the choice of format
    (F32([NAN, INF, -INF, 1]), "tensor([nan, inf, -inf, 1.])"),
    (F32([NAN, INF, -INF, 1.5]), "tensor([   nan,    inf,   -inf, 1.5000])"),
    (F32([NAN, INF, 0]), "tensor([nan, inf, 0.])"),
    (F32([NAN, 1e9]), "tensor([       nan, 1.0000e+09])"),
    # no dimension; dtypes that the values do not tell
    (np.array(3, F32), "tensor(3.)"),
    (np.array(0.1, F64), "tensor(0.1000, dtype=fastgrad.float64)"),
    (np.array([True, False]), "tensor([ True, False])"),
    (np.array([1, -20, 300]), "tensor([  1, -20, 300])"),
    (np.array([1, 2], np.uint8), "tensor([1, 2], dtype=fastgrad.uint8)"),
    (np.array(7, np.int32), "tensor(7, dtype=fastgrad.int32)"),
    # no elements
    (np.zeros(0, F32), "tensor([])"),
    (np.zeros((0, 3), F32), "tensor([], size=(0, 3))"),
    (np.zeros(0, np.int64), "tensor([], dtype=fastgrad.int64)"),
    (np.zeros((2, 0), bool), "tensor([], size=(2, 0), dtype=fastgrad.bool)"),
    # more elements than the threshold
    (np.arange(1001), "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
]


@pytest.mark.parametrize(("array", "expected"), ONE_LINE, ids=lambda value: str(value)[:40])
def test_one_line(array, expected):
    assert text_of(array) == expected


def test_long_row_is_broken():
    assert text_of(np.arange(30)) == block("""
        tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,
                18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])
    """)


def test_empty_lines_between_matrices():
    assert text_of(np.arange(8, dtype=F32).reshape(2, 2, 2)) == block("""
        tensor([[[0., 1.],
                 [2., 3.]],

                [[4., 5.],
                 [6., 7.]]])
    """)
    assert text_of(np.arange(4, dtype=F32).reshape(2, 1, 1, 2)) == block("""
        tensor([[[[0., 1.]]],


                [[[2., 3.]]]])
    """)


def test_large_matrix_is_summarised():
    assert text_of(np.arange(2000, dtype=F32).reshape(40, 50)) == block("""
        tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 4.7000e+01, 4.8000e+01,
                 4.9000e+01],
                [5.0000e+01, 5.1000e+01, 5.2000e+01,  ..., 9.7000e+01, 9.8000e+01,
                 9.9000e+01],
                [1.0000e+02, 1.0100e+02, 1.0200e+02,  ..., 1.4700e+02, 1.4800e+02,
                 1.4900e+02],
                ...,
                [1.8500e+03, 1.8510e+03, 1.8520e+03,  ..., 1.8970e+03, 1.8980e+03,
                 1.8990e+03],
                [1.9000e+03, 1.9010e+03, 1.9020e+03,  ..., 1.9470e+03, 1.9480e+03,
                 1.9490e+03],
                [1.9500e+03, 1.9510e+03, 1.9520e+03,  ..., 1.9970e+03, 1.9980e+03,
                 1.9990e+03]])
    """)


def test_format_is_chosen_from_the_visible_values():
    hidden = np.zeros(2000, F32)
    hidden[1000] = 1e-9
    assert text_of(hidden) == "tensor([0., 0., 0.,  ..., 0., 0., 0.])"


def test_autograd_suffixes():
    eye = np.eye(2)
    assert text_of(eye.astype(F32), requires_grad=True) == block("""
        tensor([[1., 0.],
                [0., 1.]], requires_grad=True)
    """)
    assert text_of(eye, requires_grad=True, grad_fn_name="MulBackward0") == block("""
        tensor([[1., 0.],
                [0., 1.]], dtype=fastgrad.float64, grad_fn=<MulBackward0>)
    """)


def test_suffixes_go_to_a_new_line_when_the_line_is_full():
    assert text_of(np.arange(7) / 4, grad_fn_name="DivBackward0") == block("""
        tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000, 1.2500, 1.5000],
               dtype=fastgrad.float64, grad_fn=<DivBackward0>)
    """)
    assert text_of(np.arange(8, dtype=F32) / 4, requires_grad=True) == block("""
        tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000, 1.2500, 1.5000, 1.7500],
               requires_grad=True)
    """)


def test_device_comes_first():
    assert (
        text_of(np.zeros(1, np.uint8), device="cuda:1")
        == "tensor([0], device='cuda:1', dtype=fastgrad.uint8)"
    )


def test_prefix_sets_the_indentation():
    assert text_of(np.eye(2, dtype=F32), prefix="Parameter(") == block("""
        Parameter([[1., 0.],
                   [0., 1.]])
    """)


def test_default_dtype_decides_which_float_is_named():
    assert text_of(np.array([1.5]), default_dtype="float64") == "tensor([1.5000])"
    assert text_of(F32([1.5]), default_dtype="float64") == "tensor([1.5000], dtype=fastgrad.float32)"
    assert text_of(np.array([1]), default_dtype="float64") == "tensor([1])"


def test_non_contiguous_arrays_print_their_own_order():
    assert text_of(np.arange(6).reshape(2, 3).T[::-1]) == block("""
        tensor([[2, 5],
                [1, 4],
                [0, 3]])
    """)


def test_precision_and_sci_mode():
    with printoptions(precision=2):
        assert text_of(F32([1.12345])) == "tensor([1.12])"
    with printoptions(sci_mode=True):
        assert text_of(F32([1, 20])) == "tensor([1.0000e+00, 2.0000e+01])"
    with printoptions(sci_mode=False):
        assert text_of(F32([1e-6, 1])) == "tensor([0.0000, 1.0000])"


def test_edgeitems_and_threshold():
    with printoptions(threshold=5, edgeitems=1):
        assert text_of(np.arange(9)) == "tensor([0,  ..., 8])"
    with printoptions(threshold=5, edgeitems=0):
        assert text_of(np.arange(9)) == "tensor([...], size=(9,))"
        assert text_of(np.arange(9).reshape(3, 3)) == "tensor([...], size=(3, 3))"


def test_linewidth():
    with printoptions(linewidth=20):
        assert text_of(np.arange(6)) == block("""
            tensor([0, 1, 2, 3,
                    4, 5])
        """)


def test_profiles():
    set_printoptions(profile="short")
    assert get_printoptions() == {
        "precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80, "sci_mode": None,
    }  # fmt: skip
    set_printoptions(profile="full", precision=1)
    assert "..." not in text_of(np.zeros(1001, F32))
    assert get_printoptions()["precision"] == 1


def test_unknown_profile_changes_nothing():
    before = get_printoptions()
    with pytest.raises(ValueError, match=r"set_printoptions.*profile.*'default', 'short', 'full'.*'tiny'"):
        set_printoptions(profile="tiny", precision=9)
    assert get_printoptions() == before


def test_sci_mode_falls_back_to_automatic():
    set_printoptions(sci_mode=True)
    set_printoptions(precision=2)
    assert get_printoptions()["sci_mode"] is None


def test_printoptions_restores_after_an_exception():
    before = get_printoptions()
    with pytest.raises(ZeroDivisionError), printoptions(precision=1, sci_mode=True):
        raise ZeroDivisionError
    assert get_printoptions() == before


SPECIAL_FLOATS = [
    0,
    -0.0,
    1,
    -1,
    2.5,
    1e-5,
    1e-4,
    1e5,
    1e8,
    1.5e8,
    1e9,
    NAN,
    INF,
    -INF,
    123.456,
    1000,
    0.1,
    7,
]
DTYPES = ["float32", "float64", "float16", "int64", "int32", "uint8", "bool"]


@st.composite
def printable_arrays(draw):
    dtype = draw(st.sampled_from(DTYPES))
    shape = tuple(draw(st.lists(st.integers(0, 8), max_size=4)))
    size = int(np.prod(shape))
    if dtype.startswith("float"):
        few = draw(st.lists(st.sampled_from(SPECIAL_FLOATS), min_size=1, max_size=5))
        scale = 10.0 ** draw(st.integers(-6, 6))
        scaled = st.floats(-4096, 4096, width=16).map(lambda v: v * scale)
        element = st.one_of(st.sampled_from(few), scaled) if draw(st.booleans()) else st.sampled_from(few)
    elif dtype == "bool":
        element = st.booleans()
    else:
        element = st.integers(0, 255) if dtype == "uint8" else st.integers(-100000, 100000)
    # A short cycle of values fills large arrays without a draw for each element.
    values = draw(st.lists(element, min_size=1, max_size=12))
    with np.errstate(over="ignore"):
        return np.resize(np.array(values).astype(dtype), size).reshape(shape)


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "precision": st.integers(0, 6),
        "threshold": st.integers(1, 60),
        "edgeitems": st.integers(0, 4),
        "linewidth": st.integers(10, 100),
        "sci_mode": st.booleans(),
    },
)


@pytest.mark.parity
def test_same_text_as_torch(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(module_names, "shown", "torch")  # the lengths decide where lines break

    @settings(max_examples=300, deadline=None)
    @given(array=printable_arrays(), options=OPTIONS, track=st.booleans(), leaf=st.booleans())
    def compare(array, options, track, leaf):
        tensor, suffixes = torch.tensor(array), {}
        if track and tensor.is_floating_point():
            tensor.requires_grad_()
            suffixes["requires_grad"] = True
            if not leaf:
                tensor = tensor.clone()
                suffixes["grad_fn_name"] = "CloneBackward0"
        torch.set_printoptions(profile="default")
        torch.set_printoptions(**options)
        set_printoptions(profile="default")
        set_printoptions(**options)
        assert text_of(array, **suffixes) == repr(tensor)

    try:
        compare()
    finally:
        torch.set_printoptions(profile="default")
