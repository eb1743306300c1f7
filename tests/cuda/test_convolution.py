"""Convolutions on the CUDA device: its kernels, run by the simulator on the frames that a GPU would get."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad.native.host.tape import record
from tests.cuda import fake_driver
from tests.cuda.fake_driver import FakeDriver, attached

pytestmark = pytest.mark.cudasim


@pytest.fixture
def driver():
    fake = FakeDriver()
    with attached(fake, fake.simulator):
        yield fake
        gc.collect()


def results(function, arrays, device, dtype, **settings):
    """What a convolution and its derivatives come to on a device."""
    leaves = [fg.tensor(a, dtype=dtype, device=device, requires_grad=True) for a in arrays]
    out = function(*leaves, **settings)
    g = np.random.default_rng(9).standard_normal(out.shape)
    out.backward(fg.tensor(g, dtype=dtype, device=device))
    return [t.detach().cpu().numpy() for t in (out, *(leaf.grad for leaf in leaves))]


def check(function, x, w, dtype=fg.float32, bias=True, **settings):
    """Compare a convolution of operands of these sizes, and its gradients, with the CPU's."""
    rng = np.random.default_rng(0)
    transposed = function in (F.conv_transpose1d, F.conv_transpose2d)
    outputs = w[1] * settings.get("groups", 1) if transposed else w[0]
    arrays = [rng.standard_normal(size) for size in (x, w, *([(outputs,)] if bias else []))]
    mine = results(function, arrays, "cuda", dtype, **settings)
    expected = results(function, arrays, "cpu", dtype, **settings)
    tolerance = 1e-5 if dtype == fg.float32 else 1e-13
    for got, wanted in zip(mine, expected, strict=True):
        largest = np.abs(wanted).max(initial=1)
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * largest)


IMAGES = {
    "plain": ((2, 3, 5, 6), (6, 3, 3, 3), {}),
    "pointwise": ((2, 5, 3, 5), (7, 5, 1, 1), {}),
    "padded": ((1, 6, 5, 4), (5, 6, 3, 2), {"padding": (1, 2)}),
    "strided": ((2, 5, 7, 8), (6, 5, 3, 3), {"stride": (2, 3), "padding": 1}),
    "dilated": ((1, 5, 9, 8), (5, 5, 3, 2), {"dilation": (2, 3), "padding": (2, 0)}),
    "strided and dilated": ((1, 5, 11, 9), (6, 5, 3, 3), {"stride": (2, 3), "dilation": (3, 2), "padding": (3, 1)}),
    "strides that no tap meets": ((1, 5, 9, 7), (5, 5, 3, 2), {"stride": 2, "dilation": 2}),
    "strides beyond the kernel": ((1, 5, 8, 8), (5, 5, 2, 1), {"stride": 3}),
    "same": ((1, 5, 5, 4), (5, 5, 2, 4), {"padding": "same"}),
    "kernel like the image": ((3, 6, 4, 5), (9, 6, 4, 5), {}),
    "kernel beyond the image": ((1, 5, 2, 3), (5, 5, 4, 5), {"padding": 2}),
    "groups": ((2, 10, 4, 4), (10, 5, 3, 3), {"groups": 2, "padding": 1}),
    "small groups": ((2, 6, 5, 4), (9, 2, 3, 2), {"groups": 3, "stride": 2}),
    "depthwise": ((2, 5, 6, 5), (5, 1, 3, 3), {"groups": 5, "padding": 1}),
    "depthwise, strided": ((2, 3, 7, 6), (6, 1, 3, 2), {"groups": 3, "stride": 2}),
    "many rows": ((1, 34, 3, 3), (35, 34, 2, 2), {}),
    "one output": ((2, 9, 4, 4), (1, 9, 3, 3), {"padding": 1}),
    "without channels": ((2, 0, 3, 3), (5, 0, 2, 2), {}),
    "without images": ((0, 5, 4, 4), (6, 5, 3, 3), {}),
}  # fmt: skip


@pytest.mark.parametrize("case", IMAGES)
def test_images(driver, case):
    x, w, settings = IMAGES[case]
    check(F.conv2d, x, w, **settings)


@pytest.mark.parametrize("kernel", [1, 2])
def test_channels_last(driver, kernel):
    """What lies so is laid out anew, but where a product of matrices does."""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(size) for size in ((2, 5, 4, 3), (6, 5, kernel, kernel)))

    def laid_out(a):
        return a.to(memory_format=fg.channels_last)

    def convolved(a, b):
        out = F.conv2d(laid_out(a), laid_out(b))
        assert out.is_contiguous(memory_format=fg.channels_last)
        return out

    for got, wanted in zip(
        results(convolved, (x, w), "cuda", fg.float32),
        results(convolved, (x, w), "cpu", fg.float32),
        strict=True,
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", ["plain", "strided and dilated", "depthwise", "many rows"])
def test_images_of_float64(driver, case):
    x, w, settings = IMAGES[case]
    check(F.conv2d, x, w, fg.float64, bias=False, **settings)


def test_sums_of_many_terms_have_parts(driver):
    before = len(driver.launched)
    check(F.conv2d, (1, 60, 3, 3), (5, 60, 3, 3), padding=1)
    check(F.conv2d, (2, 5, 18, 18), (5, 5, 1, 2))
    check(F.conv2d, (3, 2, 16, 15), (2, 1, 2, 2), groups=2)
    launched = driver.launched[before:]
    counts = [launched.count(f"convolution_{computes}") for computes in "vxw"]
    assert counts == [4, 3, 5], "one launch for each that has no parts, and two for each that has"


@pytest.mark.parametrize(("x", "w"), [
    ((1, 17, 5, 4), (33, 17, 2, 3)), ((2, 6, 3, 4), (6, 6, 2, 2)), ((1, 2, 4, 4), (2, 1, 2, 2)),
])  # fmt: skip
def test_blocks_of_a_gpu(driver, monkeypatch, x, w):
    """Tiles are as large as on a GPU, and the blocks as many as there are tiles."""
    monkeypatch.setattr(fake_driver, "THREADS", 256)
    check(F.conv2d, x, w, groups=x[1] // w[1], stride=2, padding=1)


def test_what_32_bits_do_not_count_is_refused(driver):
    x, w = fg.ones(1, 1, 4, device="cuda"), fg.ones(1, 1, 1, device="cuda")
    with pytest.raises(RuntimeError, match="more than"):
        F.conv1d(x, w, padding=1 << 30, stride=1 << 30)
    assert F.conv1d(x, w).tolist() == [[[1, 1, 1, 1]]]


@pytest.mark.parametrize("dtype", [fg.uint8, fg.int32, fg.int64])
@pytest.mark.parametrize("groups", [1, 5])
def test_images_of_integers(driver, dtype, groups):
    """They wrap around; what they come to before that, float64 holds."""
    rng = np.random.default_rng(0)
    for function, sizes in (
        (F.conv2d, ((1, 5, 4, 6), (10, 5 // groups, 2, 3))),
        (F.conv_transpose2d, ((1, 5, 2, 3), (5, 10 // groups, 2, 3))),
    ):  # fmt: skip
        operands = [rng.integers(0, 99, size) for size in (*sizes, 10)]
        got = function(*(fg.tensor(a, dtype=dtype, device="cuda") for a in operands), stride=2, groups=groups)
        exact = function(*(fg.tensor(a, dtype=fg.float64) for a in operands), stride=2, groups=groups)
        assert got.tolist() == exact.to(fg.int64).to(dtype).tolist()


SIGNALS = {
    "plain": ((3, 5, 11), (6, 5, 3), {"padding": 2}),
    "strided": ((2, 6, 12), (8, 3, 4), {"stride": 3, "groups": 2, "dilation": 2}),
    "depthwise": ((2, 4, 9), (4, 1, 3), {"groups": 4, "padding": 1}),
}  # fmt: skip


@pytest.mark.parametrize("case", SIGNALS)
def test_signals(driver, case):
    x, w, settings = SIGNALS[case]
    check(F.conv1d, x, w, **settings)


TRANSPOSED = {
    "plain": ((2, 5, 4, 3), (5, 6, 3, 3), {}),
    "strided": ((1, 6, 4, 3), (6, 5, 3, 2), {"stride": (2, 3), "padding": 1, "output_padding": (1, 2)}),
    "grouped": ((2, 6, 3, 4), (6, 3, 2, 3), {"groups": 2, "stride": 2, "dilation": 2}),
    "depthwise": ((1, 4, 4, 4), (4, 1, 3, 3), {"groups": 4, "stride": 2, "padding": 1}),
}  # fmt: skip


@pytest.mark.parametrize("case", TRANSPOSED)
def test_transposed(driver, case):
    x, w, settings = TRANSPOSED[case]
    check(F.conv_transpose2d, x, w, **settings)


def test_transposed_signals(driver):
    check(F.conv_transpose1d, (2, 5, 7), (5, 6, 4), stride=3, output_padding=1)


# --- tensor cores ----------------------------------------------------------------------------------------------

BY_CORES = {
    **{name: IMAGES[name] for name in (
        "plain", "padded", "strided", "strided and dilated", "strides beyond the kernel", "groups", "small groups",
        "depthwise", "many rows", "one output", "without channels", "without images",
    )},
    "rows of 16 bytes": ((1, 8, 4, 4), (6, 8, 2, 1), {}),
    "pointwise": ((2, 8, 2, 4), (40, 8, 1, 1), {}),
    "parts": ((1, 60, 3, 3), (5, 60, 3, 3), {"padding": 1}),
    "parts of gradients of weights": ((2, 5, 18, 18), (5, 5, 1, 2), {}),
    "parts, depthwise": ((3, 2, 16, 15), (2, 1, 2, 2), {"groups": 2}),
}  # fmt: skip


def of_halves(*sizes, half):
    """Numbers that a half dtype holds."""
    rng = np.random.default_rng(0)
    return [fg.tensor(rng.standard_normal(size), dtype=half).double().numpy() for size in sizes]


def compare(function, x, w, half, tolerance, dtype=None, **settings):
    """Compare a convolution of numbers that a half dtype holds, and its gradients, with that in float64."""
    outputs = w[1] * settings.get("groups", 1) if function is F.conv_transpose2d else w[0]
    arrays = of_halves(x, w, (outputs,), half=half)

    def on(device, dtype):
        leaves = [fg.tensor(a, dtype=dtype, device=device, requires_grad=True) for a in arrays]
        out = function(*leaves, **settings)
        [g] = of_halves(tuple(out.shape), half=half)
        out.backward(fg.tensor(g, dtype=dtype, device=device))
        assert out.dtype == dtype
        return [t.detach().cpu().double().numpy() for t in (out, *(leaf.grad for leaf in leaves))]

    for got, wanted in zip(on("cuda", dtype or half), on("cpu", fg.float64), strict=True):
        np.testing.assert_allclose(
            got, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max(initial=1e-3)
        )


@pytest.mark.parametrize("case", BY_CORES)
def test_halves_are_multiplied_as_they_lie(driver, case):
    """What is summed in float32 is rounded once: a result is off by half a unit of its last place."""
    before = len(driver.launched)
    compare(F.conv2d, *BY_CORES[case][:2], fg.float16, 2**-10.9, **BY_CORES[case][2])
    launched = set(driver.launched[before:])
    assert launched <= {
        "convolution_v",
        "convolution_x",
        "convolution_w",
        "sum",
        "copy_from_6",
        "copy_from_9",
        "copy_from_8",
        "zero_fill",
        "constant",
        "upload",
        "download",
    }


@pytest.mark.parametrize("case", ["strided", "parts", "depthwise"])
def test_bfloat16_is_multiplied_as_it_lies(driver, case):
    compare(F.conv2d, *BY_CORES[case][:2], fg.bfloat16, 2**-7.9, **BY_CORES[case][2])


@pytest.mark.parametrize("case", ["strided", "grouped"])
def test_transposed_halves(driver, case):
    compare(F.conv_transpose2d, *TRANSPOSED[case][:2], fg.float16, 2**-10.9, **TRANSPOSED[case][2])


@pytest.mark.parametrize("case", ["plain", "strided and dilated", "many rows", "rows of 16 bytes", "parts"])
def test_tf32(driver, case):
    """Halves are numbers of TF32, so nothing is lost."""
    with fg.backends.cudnn.flags(allow_tf32=True):
        compare(F.conv2d, *BY_CORES[case][:2], fg.float16, 1e-5, fg.float32, **BY_CORES[case][2])


def test_factors_of_float32_are_rounded_where_that_is_allowed(driver):
    """1 + 2**-12 is rounded to 1 in TF32."""
    x, w = fg.full((1, 5, 2, 2), 1 + 2**-12, device="cuda"), fg.ones(5, 5, 1, 1, device="cuda")
    exact = [[[[5 + 5 * 2**-12] * 2] * 2] * 5]
    assert F.conv2d(x, w).tolist() == exact
    with fg.backends.cudnn.flags(allow_tf32=True):
        assert F.conv2d(x, w).tolist() == [[[[5] * 2] * 2] * 5]
        assert F.conv2d(x.double(), w.double()).tolist() == exact
    with fg.backends.cudnn.flags():
        assert F.conv2d(x, w).tolist() == exact


def test_halves_by_blocks_of_a_gpu(driver, monkeypatch):
    """Tiles of 64 and 32 rows, as large as on a GPU."""
    monkeypatch.setattr(fake_driver, "THREADS", 256)
    compare(F.conv2d, (1, 16, 5, 4), (33, 16, 2, 3), fg.float16, 2**-10.9, padding=1)
    compare(F.conv2d, (1, 7, 5, 4), (6, 7, 2, 3), fg.float16, 2**-10.9, stride=2)


def test_halves_with_channels_last_are_rounded_once(driver):
    """Windows of one place are products of matrices, to which the bias is added before they are rounded."""
    x = fg.full((1, 5, 2, 2), 1.0, dtype=fg.float16, device="cuda").to(memory_format=fg.channels_last)
    w = fg.full((5, 5, 1, 1), 2049 / 5, dtype=fg.float16, device="cuda")
    bias = fg.full((5,), 1.5, dtype=fg.float16, device="cuda")
    expected = F.conv2d(x.cpu().float(), w.cpu().float(), bias.cpu().float()).half()
    assert F.conv2d(x, w, bias).cpu().tolist() == expected.tolist()


def test_a_tape_keeps_what_was_allowed_when_it_was_recorded(driver):
    x, w = fg.full((1, 5, 2, 2), 1 + 2**-12, device="cuda"), fg.ones(5, 5, 1, 1, device="cuda")
    rounded, exact = ([[[[5 + off] * 2] * 2] * 5] for off in (0, 5 * 2**-12))
    with fg.backends.cudnn.flags(allow_tf32=True), record() as tape:
        y = F.conv2d(x, w)
    with record() as other:
        z = F.conv2d(x, w)
    y.zero_(), z.zero_()
    tape.replay()
    with fg.backends.cudnn.flags(allow_tf32=True):
        other.replay()
    assert (y.tolist(), z.tolist()) == (rounded, exact)


def at_odd_addresses(*sizes):
    """Halves that begin two bytes behind a multiple of 16."""
    values = fg.tensor(np.random.default_rng(1).standard_normal(1 + np.prod(sizes)), dtype=fg.float16)
    return values.cuda()[1:].view(sizes).requires_grad_()


def test_halves_at_odd_addresses(driver):
    """Rows of 16 bytes that do not begin at multiples of these."""
    x, w, bias = at_odd_addresses(1, 8, 4, 4), at_odd_addresses(8, 8, 1, 2), at_odd_addresses(8)
    for function in (F.conv2d, F.conv_transpose2d):
        there = [t.detach().requires_grad_() for t in (x, w, bias)]
        here = [t.detach().cpu().double().requires_grad_() for t in (x, w, bias)]
        out, expected = function(*there), function(*here)
        out.backward(fg.ones_like(out))
        expected.backward(fg.ones_like(expected))
        for got, wanted in zip(
            (out, *(t.grad for t in there)), (expected, *(t.grad for t in here)), strict=True
        ):
            np.testing.assert_allclose(
                got.detach().cpu().double().numpy(), wanted.detach().numpy(), 2**-10, 2**-9
            )


def test_what_is_not_finite_reaches_only_what_meets_it(driver):
    x, w = fg.ones(1, 5, 4, 4, dtype=fg.float16), fg.ones(6, 5, 3, 3, dtype=fg.float16)
    x[0, 2, 0, 0], x[0, 4, 3, 3] = float("inf"), float("nan")
    expected = F.conv2d(x.float(), w.float(), padding=1).half().numpy()
    np.testing.assert_array_equal(F.conv2d(x.cuda(), w.cuda(), padding=1).cpu().numpy(), expected)


def test_volumes_of_halves_are_rounded_once(driver):
    """Slices of their gradients are added to each other, which is done in float32."""
    compare(F.conv3d, (1, 2, 4, 3, 3), (5, 2, 3, 2, 2), fg.float16, 2**-10.9, padding=1)
