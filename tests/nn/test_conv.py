"""Convolutions, pooling and padding beyond the rows of the op table: sizes that reach every way to compute them."""

from __future__ import annotations

import ctypes
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from fastgrad.kernels.cpu import conv, conv_depthwise, conv_direct, conv_taps, conv_weight
from fastgrad.native.build.compiler import compile_unit
from fastgrad.native.build.loader import load_object, runtime_get, runtime_set
from fastgrad.native.contracts.element_types import FLOAT32, FLOAT64
from fastgrad.native.contracts.entries import Export
from fastgrad.native.contracts.frames import FLAT
from fastgrad.native.contracts.frames.convolution import CONVOLUTION, STAGE, STAGES

F = fg.nn.functional


@pytest.fixture(scope="module")
def torch():
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    return torch


def drawn(rng: np.random.Generator, *shape: int, dtype: str = "float64") -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


# --- every way to compute -------------------------------------------------------------------------------

# N, C, H, W, O, KH, KW, stride, padding, dilation, groups: blocks of outputs with and without a rest, single outputs,
# lines longer than a band, strips of each width, images side by side, phases of planes, columns, products, weights by
# the places of the window with every rest of channels and outputs.
SHAPES = {
    "many": (3, 16, 9, 10, 17, 3, 3, 1, 1, 1, 1),
    "one channel": (2, 1, 12, 12, 9, 3, 3, 1, 1, 1, 1),
    "one output": (2, 5, 8, 7, 1, 3, 3, 1, 1, 1, 1),
    "bands": (1, 2, 40, 50, 10, 3, 3, 1, 1, 1, 1),
    "long": (1, 1, 3, 1500, 8, 2, 3, 1, 1, 1, 1),
    "no padding": (2, 4, 9, 9, 12, 5, 5, 1, 0, 1, 1),
    "much padding": (1, 3, 6, 6, 8, 3, 3, 1, 4, 1, 1),
    "dilated": (2, 3, 11, 12, 11, 3, 2, 1, 2, 3, 1),
    "groups": (2, 8, 8, 8, 24, 3, 3, 1, 1, 1, 2),
    "depthwise": (2, 6, 9, 9, 6, 3, 3, 1, 1, 1, 6),
    "depthwise, wide": (2, 3, 9, 37, 3, 3, 3, 1, 1, 1, 3),
    "depthwise, one channel": (40, 1, 5, 6, 1, 3, 3, 1, 1, 1, 1),
    "depthwise, dilated": (2, 3, 10, 13, 3, 3, 3, 1, 2, 3, 3),
    "depthwise, stride": (2, 3, 9, 36, 3, 3, 3, 2, 1, 1, 3),
    "depthwise 5": (3, 4, 11, 18, 4, 5, 5, 1, 2, 1, 4),
    "depthwise 5, stride": (17, 2, 8, 7, 2, 5, 5, 2, 3, 1, 2),
    "depthwise 7, much padding": (2, 3, 6, 9, 3, 7, 7, 1, 8, 1, 3),
    "depthwise 7, stride": (2, 3, 40, 15, 3, 7, 7, 2, 0, 1, 3),
    "images": (40, 3, 4, 5, 8, 3, 3, 1, 1, 1, 1),
    "narrow": (2, 3, 5, 3, 8, 3, 3, 1, 0, 1, 1),
    "stride": (2, 4, 9, 11, 6, 3, 3, 2, 1, 1, 1),
    "stride over all": (1, 4, 9, 11, 6, 2, 2, 4, 1, 2, 2),
    "stride and even": (3, 6, 14, 14, 8, 4, 4, 2, 1, 1, 1),
    "stride 3": (2, 6, 20, 21, 8, 5, 3, 3, 2, 2, 2),
    "stride and much padding": (2, 3, 7, 6, 4, 3, 3, 2, 3, 1, 1),
    "stride beyond the kernel": (2, 4, 9, 9, 4, 2, 2, 3, 0, 1, 1),
    "whole vectors of images": (64, 8, 4, 3, 20, 3, 3, 1, 1, 1, 4),
    "many small images": (67, 20, 4, 4, 18, 3, 3, 1, 1, 1, 1),
    "small images, stride": (33, 8, 8, 6, 10, 3, 3, 2, 1, 1, 2),
    "products": (3, 5, 6, 7, 9, 1, 1, 1, 0, 1, 1),
    "products of groups": (3, 6, 6, 7, 9, 1, 1, 1, 0, 1, 3),
    "a stride of points": (2, 5, 6, 7, 9, 1, 1, 2, 0, 1, 1),
    "small images, dilated": (33, 8, 5, 4, 16, 3, 3, 1, 2, 2, 1),
    "small images, much padding": (32, 8, 3, 3, 16, 2, 2, 1, 3, 1, 1),
    "places": (19, 17, 6, 7, 47, 3, 2, 1, 1, 1, 1),
    "places of groups": (3, 34, 7, 6, 32, 3, 3, 2, 2, 1, 2),
    "places in bands": (2, 9, 30, 25, 16, 3, 3, 1, 1, 1, 1),
    "places far apart": (3, 13, 16, 32, 31, 3, 3, 2, 1, 1, 1),
}


def reference(shape: tuple[int, ...], x: np.ndarray, w: np.ndarray, g: Any) -> tuple[np.ndarray, ...]:
    """The convolution and its two transposes at `g`, window by window, in float64."""
    n, c, h, width, o, kh, kw, s, p, d, groups = shape
    padded = np.zeros((n, c, h + 2 * p, width + 2 * p))
    padded[:, :, p : p + h, p : p + width] = x
    oh, ow = ((size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k in ((h, kh), (width, kw)))
    out, back, dw = np.zeros((n, o, oh, ow)), np.zeros_like(padded), np.zeros(w.shape)
    g = np.zeros(out.shape) if g is None else g.astype(np.float64)
    for group, i, j in itertools.product(range(groups), range(kh), range(kw)):
        ins = slice(group * c // groups, (group + 1) * c // groups)
        outs = slice(group * o // groups, (group + 1) * o // groups)
        rows, columns = slice(i * d, i * d + (oh - 1) * s + 1, s), slice(j * d, j * d + (ow - 1) * s + 1, s)
        part, weight = padded[:, ins, rows, columns], w[outs, :, i, j].astype(np.float64)
        out[:, outs] += np.einsum("nchw,oc->nohw", part, weight)
        back[:, ins, rows, columns] += np.einsum("nohw,oc->nchw", g[:, outs], weight)
        dw[outs, :, i, j] = np.einsum("nohw,nchw->oc", g[:, outs], part)
    return out, back[:, :, p : p + h, p : p + width], dw


def operands(shape: tuple[int, ...], dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n, c, h, w, o, kh, kw, _, _, _, groups = shape
    rng = np.random.default_rng(0)
    x, weight = drawn(rng, n, c, h, w, dtype=dtype), drawn(rng, o, c // groups, kh, kw, dtype=dtype)
    out = reference(shape, x, weight, None)[0]
    return x, weight, drawn(rng, *out.shape, dtype=dtype)


def assert_close(actual: np.ndarray, wanted: np.ndarray) -> None:
    assert actual.shape == wanted.shape
    scale = max(np.abs(wanted).max(), 1.0)
    assert np.abs(actual - wanted).max() <= scale * (2e-6 if actual.dtype == np.float32 else 1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_convolution_and_its_transposes(shape: tuple[int, ...], dtype: str):
    x, w, g = operands(shape, dtype)
    stride, padding, dilation, groups = shape[-4:]
    image, weight = fg.tensor(x, requires_grad=True), fg.tensor(w, requires_grad=True)
    out = F.conv2d(image, weight, None, stride, padding, dilation, groups)
    gradients = fg.autograd.grad(out, (image, weight), fg.tensor(g))
    for actual, wanted in zip((out.detach(), *gradients), reference(shape, x, w, g), strict=True):
        assert_close(actual.numpy(), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_do_not_depend_on_the_run(dtype: str):
    for shape in (SHAPES["many"], SHAPES["stride"], SHAPES["products"]):
        x, w, g = operands(shape, dtype)
        image, weight = fg.tensor(x, requires_grad=True), fg.tensor(w, requires_grad=True)
        runs = []
        for _ in range(2):
            out = F.conv2d(image, weight, None, *shape[-4:])
            runs.append([t.tolist() for t in (out, *fg.autograd.grad(out, (image, weight), fg.tensor(g)))])
        assert runs[0] == runs[1]


@pytest.mark.parametrize(
    "name",
    [
        "many",
        "depthwise",
        "depthwise, one channel",
        "depthwise 5, stride",
        "images",
        "many small images",
        "whole vectors of images",
        "stride",
        "products",
        "places",
        "places far apart",
        "far",
    ],
)
def test_results_do_not_depend_on_threads(name: str):
    shape = SHAPES.get(name, (40, 3, 12, 12, 4, 5, 5, 5, 4, 1, 1))  # far: columns
    x, w, g = operands(shape, "float32")
    image, weight = fg.tensor(x, requires_grad=True), fg.tensor(w, requires_grad=True)
    before, part_work, runs = fg.get_num_threads(), runtime_get("part_work"), []
    try:
        runtime_set("part_work", 1)
        for threads in (1, 2, 5):
            fg.set_num_threads(threads)
            out = F.conv2d(image, weight, None, *shape[-4:])
            runs.append([t.tolist() for t in (out, *fg.autograd.grad(out, (image, weight), fg.tensor(g)))])
    finally:
        runtime_set("part_work", part_work)
        fg.set_num_threads(before)
    assert runs[0] == runs[1] == runs[2]


# Tiles of processors with other registers, and none.
TILES = [(FLOAT32, (4, 3, 8)), (FLOAT64, (8, 3, 2)), (FLOAT32, None)]


def call_kernel(address: int, shape: tuple[int, ...], arrays: list[np.ndarray]) -> None:
    n, c, h, w, o, kh, kw, s, p, d, groups = shape
    frame = np.zeros(CONVOLUTION.words, np.int64)
    values = {
        "x": arrays[0].ctypes.data, "weight": arrays[1].ctypes.data, "y": arrays[2].ctypes.data, "n": n, "c": c, "h": h,
        "w": w, "o": o, "oh": arrays[2].shape[2], "ow": arrays[2].shape[3], "kh": kh, "kw": kw, "sh": s, "sw": s,
        "ph": p, "pw": p, "dh": d, "dw": d, "groups": groups,
    }  # fmt: skip
    for name, value in values.items():
        frame[CONVOLUTION.place(name)] = value
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_int64)(address)
    kernel(frame.ctypes.data)
    room = []
    for name in ("scratch", "shared"):
        at = CONVOLUTION.place(name)
        room.append(
            np.full(frame[at + 1] + 64, 0xFF, np.uint8)
        )  # what is read and was not written shows as nan
        frame[at] = (room[-1].ctypes.data + 63) // 64 * 64
    for stage in range(STAGES):
        frame[CONVOLUTION.place("stage")] = stage
        for step in range(frame[CONVOLUTION.place("stages") + stage * STAGE.words]):  # each for itself
            frame[CONVOLUTION.place("first")], frame[CONVOLUTION.place("steps")] = step, 1
            kernel(frame.ctypes.data)


@pytest.mark.parametrize("which", range(3), ids=["forward", "input", "weight"])
@pytest.mark.parametrize(("dtype", "tile"), TILES, ids=["avx2", "neon", "none"])
def test_other_processors(dtype: int, tile: Any, which: int, monkeypatch: pytest.MonkeyPatch):
    for module in (conv_direct, conv_taps, conv_weight):
        monkeypatch.setattr(module, "tile_shape", lambda dtype: tile)
    monkeypatch.setattr(conv_depthwise, "masked_lanes", lambda dtype: 0)
    function, options = conv.build(SimpleNamespace(options={"computes": "vxw"[which]}), dtype, FLAT)
    name = f"conv_test_{which}_{dtype}_{'_'.join(map(str, tile or ()))}"
    address = load_object(compile_unit(name, [Export(name, function)], options=options))(f"fastgrad_{name}")
    for shape in SHAPES.values():
        x, w, g = operands(shape, "float32" if dtype == FLOAT32 else "float64")
        wanted = reference(shape, x, w, g)[which]
        arrays = [x, w, g]
        place = (2, 0, 1)[which]
        arrays[place] = np.full_like(arrays[place], np.nan)
        call_kernel(address, shape, arrays)
        assert_close(arrays[place], wanted)


@pytest.mark.parametrize(("channels", "outputs", "groups"), [(2, 8, 1), (8, 16, 1), (2, 2, 2)])
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_not_finite_stays_where_it_belongs(value: float, channels: int, outputs: int, groups: int):
    """An infinite pixel reaches the weights that meet it, and no others."""
    shape = (1, channels, 6, 6, outputs, 3, 3, 1, 0, 1, groups)
    x, w, g = operands(shape, "float32")
    x[0, 1, 5, 5] = value  # met by the last weight alone
    weight = fg.tensor(w, requires_grad=True)
    (dw,) = fg.autograd.grad(F.conv2d(fg.tensor(x), weight, groups=groups), weight, fg.tensor(g))
    finite, reached = np.isfinite(dw.numpy()), (1, 0) if groups > 1 else (slice(None), 1)
    assert not finite[reached][..., 2, 2].any()
    finite[reached][..., 2, 2] = True
    assert finite.all()


# --- derivatives ----------------------------------------------------------------------------------------


def test_a_stride_of_rows_alone():
    """Rows of the gradient that no weight meets are zero, and the others stand where they belong."""
    rng = np.random.default_rng(0)
    x, w, g = drawn(rng, 2, 3, 7, 5), drawn(rng, 6, 3, 1, 1), drawn(rng, 2, 6, 4, 5)
    image, weight = fg.tensor(x, requires_grad=True), fg.tensor(w, requires_grad=True)
    out = F.conv2d(image, weight, stride=(2, 1))
    dx, dw = fg.autograd.grad(out, (image, weight), fg.tensor(g))
    wanted = np.zeros_like(x)
    wanted[:, :, ::2] = np.einsum("nohw,oc->nchw", g, w[:, :, 0, 0])
    assert_close(out.detach().numpy(), np.einsum("nchw,oc->nohw", x[:, :, ::2], w[:, :, 0, 0]))
    assert_close(dx.numpy(), wanted)
    assert_close(dw.numpy()[:, :, 0, 0], np.einsum("nohw,nchw->oc", g, x[:, :, ::2]))


def test_third_derivatives():
    """The rules are made of each other; here all three ops have been differentiated by both of their inputs."""
    rng = np.random.default_rng(0)
    x, w = (fg.tensor(drawn(rng, *s), requires_grad=True) for s in ((1, 2, 4, 3), (2, 1, 2, 2)))

    def penalty(x: Any, w: Any) -> Any:
        out = F.conv2d(x, w, None, (2, 1), 1, 1, 2)
        gx, gw = fg.autograd.grad((out * out * out).sum(), (x, w), create_graph=True)
        return (gx * gx).sum() + (gw * gw).sum()

    assert fg.autograd.gradgradcheck(penalty, (x, w), rtol=1e-4, atol=1e-4)


def test_gradients_reach_what_asks_for_them():
    x, w, b = fg.ones(1, 1, 3, 3), fg.ones(1, 1, 2, 2, requires_grad=True), fg.ones(1)
    out = F.conv2d(x, w, b)
    assert [n is None for n, _ in out.grad_fn.next_functions] == [True, False, True]
    out.sum().backward()
    assert w.grad.tolist() == [[[[4.0, 4.0], [4.0, 4.0]]]]
    assert len(F.conv2d(x, w).grad_fn.next_functions) == 3


def test_saved_images_may_not_change():
    x, w = fg.ones(1, 1, 3, 3), fg.ones(1, 1, 2, 2, requires_grad=True)
    out = F.conv2d(x, w)
    x.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_operands_that_do_not_fit_do_not_reach_memory():
    """What saved-tensor hooks give back is checked again."""
    x, w = fg.ones(1, 1, 6, 6, requires_grad=True), fg.ones(1, 1, 2, 2, requires_grad=True)
    with fg.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: fg.ones(1, 1, 2, 3)):
        out = F.conv2d(x, w)
    with pytest.raises(RuntimeError, match="do not fit"):
        out.sum().backward()
    with fg.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * 0 + 99):
        pooled = F.max_pool2d(x, 2)
    with pytest.raises(RuntimeError, match="99"):
        pooled.sum().backward()


def test_adaptive_pooling_to_nothing():
    assert tuple(F.adaptive_avg_pool2d(fg.ones(1, 2, 3, 3), (0, 2)).shape) == (1, 2, 0, 2)


def test_padding_of_as_many_dimensions_as_there_are():
    x = fg.ones(1, 1, 2, 1, 1, 1, 2, 1, requires_grad=True)
    out = F.pad(x, (1, 0) * 8, value=3.0)
    assert tuple(out.shape) == (2, 2, 3, 2, 2, 2, 3, 2)
    (g,) = fg.autograd.grad((out * out).sum(), x, create_graph=True)
    (second,) = fg.autograd.grad(g.sum(), x)
    assert (g.unique().tolist() if hasattr(g, "unique") else sorted(set(g.flatten().tolist()))) == [2.0]
    assert sorted(set(second.flatten().tolist())) == [2.0]


# --- against torch --------------------------------------------------------------------------------------

OPTIONS: list[tuple[str, tuple[int, ...], tuple[int, ...] | None, dict[str, Any]]] = [
    *(
        ("conv2d", (2, 4, 9, 8), (6, 4 // g, *kernel), {"stride": s, "padding": p, "dilation": d, "groups": g})
        for kernel, s, p, d, g in itertools.product(
            ((3, 3), (1, 2)), (1, (2, 3)), (0, (2, 1)), (1, (1, 2)), (1, 2)
        )
    ),
    *(
        ("conv_transpose2d", (2, 4, 5, 4), (4, 3, 3, 2), {"stride": s, "padding": p, "output_padding": e, "groups": g})
        for s, p, e, g in itertools.product(((2, 3), 3), (0, (2, 1)), (0, 1), (1, 2))
    ),
    ("conv_transpose2d", (2, 4, 5, 4), (4, 3, 3, 2), {"dilation": (2, 3), "output_padding": (1, 2)}),
    *(
        ("conv3d", (2, 4, 5, 6, 4), (4, 4 // g, *kernel), {"stride": s, "padding": p, "dilation": d, "groups": g})
        for kernel, s, p, d, g in (
            ((3, 2, 3), 1, 0, 1, 1), ((3, 3, 3), (2, 3, 1), (1, 2, 3), (2, 1, 2), 2),
            ((3, 1, 1), (2, 1, 1), (2, 0, 0), 1, 2), ((1, 1, 1), 1, 0, 1, 1),
            ((1, 3, 2), (3, 1, 2), (0, 1, 1), 1, 1), ((2, 1, 1), 2, 4, 1, 4),
        )
    ),
    ("conv_transpose3d", (2, 4, 3, 2, 4), (4, 3, 3, 2, 1),
     {"stride": (3, 2, 1), "padding": (1, 1, 0), "output_padding": (2, 1, 0)}),
    ("conv_transpose3d", (2, 4, 3, 2, 4), (4, 3, 2, 1, 1), {"stride": (3, 1, 1), "groups": 2, "padding": (1, 0, 0)}),
    ("conv1d", (2, 4, 11), (6, 2, 3), {"stride": 2, "padding": 3, "dilation": 2, "groups": 2}),
    ("conv1d", (4, 11), (6, 4, 4), {"padding": "same"}),
    ("conv2d", (1, 2, 6, 5), (3, 2, 2, 4), {"padding": "same", "dilation": (1, 3)}),
    ("conv_transpose1d", (2, 4, 6), (4, 2, 3), {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}),
    *(
        ("max_pool2d", (2, 3, 9, 8), None, {"kernel_size": k, "stride": s, "padding": 1, "dilation": d, "ceil_mode": c})
        for k, s, d, c in itertools.product((2, (3, 2)), (None, 1, (2, 3)), (1, 2), (False, True))
    ),
    *(
        (
            "avg_pool2d", (2, 3, 9, 8), None,
            {"kernel_size": k, "stride": s, "padding": 1, "ceil_mode": c, "count_include_pad": i,
             "divisor_override": v},
        )
        for k, s, c, i, v in itertools.product((2, (3, 2)), (1, (2, 3)), (False, True), (False, True), (None, -5))
    ),
    ("adaptive_avg_pool2d", (2, 3, 9, 8), None, {"output_size": (4, 3)}),
    ("adaptive_avg_pool2d", (3, 4, 2), None, {"output_size": (6, None)}),
    *(("pad", (1, 2, 6, 5), None, {"pad": (3, -1, 2, 1), "mode": m}) for m in ("reflect", "replicate", "circular")),
]  # fmt: skip


def derivatives(lib: Any, name: str, arrays: list[np.ndarray], settings: dict[str, Any]) -> list[np.ndarray]:
    """The result, its gradients and theirs, at fixed weights."""
    inputs = [lib.tensor(a, requires_grad=True) for a in arrays]
    out = getattr(lib.nn.functional, name)(*inputs, **settings)
    rng = np.random.default_rng(1)
    results, outputs = [out], [out]
    for _ in range(2):
        weights = [lib.tensor(rng.standard_normal(tuple(t.shape)), requires_grad=True) for t in outputs]
        gradients = lib.autograd.grad(outputs, inputs, weights, create_graph=True, allow_unused=True)
        results += [lib.zeros_like(x) if g is None else g for g, x in zip(gradients, inputs, strict=True)]
        outputs = [g for g in gradients if g is not None and g.requires_grad]
        inputs = inputs + weights
    return [t.detach().numpy() for t in results]


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("k", range(len(OPTIONS)), ids=[f"{k}-{o[0]}" for k, o in enumerate(OPTIONS)])
def test_options(torch: Any, k: int):
    name, image, weight, settings = OPTIONS[k]
    rng = np.random.default_rng(k)
    arrays = [drawn(rng, *image)]
    if weight is not None:
        outputs = weight[1] * settings.get("groups", 1) if "transpose" in name else weight[0]
        arrays += [drawn(rng, *weight), drawn(rng, outputs)]
    ours, theirs = (derivatives(lib, name, arrays, settings) for lib in (fg, torch))
    assert len(ours) == len(theirs) > 1
    for actual, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-9, atol=1e-9)


# --- layers ---------------------------------------------------------------------------------------------

LAYERS: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    ("Conv1d", (4, 6, 3), {"padding": 1, "stride": 2}, (2, 4, 9)),
    ("Conv1d", (4, 6, 4), {"padding": "same", "padding_mode": "circular"}, (4, 9)),
    ("Conv2d", (4, 6, (3, 2)), {"bias": False, "dilation": 2}, (2, 4, 9, 8)),
    ("Conv2d", (4, 6, 3), {"padding": 1, "groups": 2, "padding_mode": "reflect"}, (2, 4, 5, 6)),
    ("Conv2d", (4, 6, 3), {"padding": (2, 1), "padding_mode": "replicate"}, (4, 5, 6)),
    ("Conv2d", (4, 4, 3), {"padding": "valid"}, (1, 4, 5, 6)),
    ("Conv2d", (2, 4, (3, 5)), {"padding": "same"}, (1, 2, 5, 6)),
    ("Conv3d", (4, 6, (3, 2, 3)), {"bias": False, "padding": (1, 0, 1)}, (2, 4, 5, 4, 3)),
    ("Conv3d", (4, 6, 3), {"padding": (1, 2, 0), "padding_mode": "circular"}, (2, 4, 5, 4, 3)),
    ("Conv3d", (4, 6, (3, 1, 3)), {"padding": "same", "padding_mode": "replicate"}, (4, 5, 4, 3)),
    (
        "ConvTranspose3d",
        (4, 6, 3),
        {"stride": (2, 1, 2), "groups": 2, "output_padding": (1, 0, 0)},
        (2, 4, 3, 2, 2),
    ),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2, "output_padding": 1}, (2, 4, 5)),
    (
        "ConvTranspose2d",
        (4, 6, 3),
        {"stride": (2, 1), "padding": 1, "groups": 2, "bias": False},
        (2, 4, 5, 4),
    ),
    ("MaxPool1d", (3, 2), {"padding": 1, "ceil_mode": True}, (2, 3, 9)),
    ("MaxPool2d", (2,), {"return_indices": True}, (2, 3, 8, 6)),
    ("MaxPool2d", ((3, 2), 1, 1, 2, False, True), {}, (3, 8, 6)),
    ("AvgPool1d", (3, 2, 1), {"count_include_pad": False}, (2, 3, 9)),
    ("AvgPool1d", (3,), {}, (2, 3, 9)),
    ("AvgPool2d", (2,), {"divisor_override": 3, "stride": 1}, (2, 3, 5, 6)),
    ("AdaptiveAvgPool1d", (4,), {}, (2, 3, 9)),
    ("AdaptiveAvgPool2d", ((3, None),), {}, (2, 3, 7, 5)),
    ("AdaptiveAvgPool2d", (1,), {}, (2, 3, 7, 5)),
]


@pytest.mark.parity
@pytest.mark.parametrize(
    ("name", "args", "kwargs", "shape"), LAYERS, ids=[f"{k}-{row[0]}" for k, row in enumerate(LAYERS)]
)
def test_layers(torch: Any, name: str, args: Any, kwargs: Any, shape: tuple[int, ...]):
    ours, theirs = (getattr(lib.nn, name)(*args, **kwargs).double() for lib in (fg, torch))
    assert repr(ours) == repr(theirs)
    assert {k: tuple(v.shape) for k, v in ours.state_dict().items()} == {
        k: tuple(v.shape) for k, v in theirs.state_dict().items()
    }
    for key, value in vars(theirs).items():
        if not key.startswith("_") or key == "_reversed_padding_repeated_twice":
            wanted = list(value) if key.startswith("_") else value
            actual = getattr(ours, key)
            assert (list(actual) if key.startswith("_") else actual) == wanted, key
    ours.load_state_dict({k: fg.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    x = np.random.default_rng(0).standard_normal(shape)
    results = []
    for lib, layer in ((fg, ours), (torch, theirs)):
        image = lib.tensor(x, requires_grad=True)
        out = layer(image)
        first = out[0] if isinstance(out, tuple) else out
        (first * first).sum().backward()
        outs = list(out) if isinstance(out, tuple) else [out]
        results.append(
            [t.detach().numpy() for t in [*outs, image.grad, *(p.grad for p in layer.parameters())]]
        )
    for actual, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("layer", "bound"),
    [
        (fg.nn.Conv1d(30, 100, 5), 1 / np.sqrt(150)),
        (fg.nn.Conv2d(20, 100, (5, 3), groups=2), 1 / np.sqrt(150)),
        (fg.nn.ConvTranspose1d(100, 30, 5), 1 / np.sqrt(150)),
        (fg.nn.ConvTranspose2d(100, 20, (5, 3), groups=2), 1 / np.sqrt(150)),
    ],
)
def test_first_values(layer: Any, bound: float):
    """Uniform in plus or minus 1 / sqrt(fan_in)."""
    weights = layer.weight.detach().numpy()
    for values in (weights, layer.bias.detach().numpy()):
        assert np.abs(values).max() <= np.float32(bound)  # the bound as the elements can say it
    assert np.abs(layer.bias.detach().numpy()).max() > 0.5 * bound
    assert np.abs(weights).max() > 0.99 * bound
    assert abs(weights.std() - bound / np.sqrt(3)) < 0.03 * bound


BAD_LAYERS = {
    "groups": lambda nn: nn.Conv2d(4, 4, 3, groups=0),
    "in_channels": lambda nn: nn.Conv2d(3, 4, 3, groups=2),
    "out_channels": lambda nn: nn.ConvTranspose2d(4, 3, 3, groups=2),
    "string": lambda nn: nn.Conv1d(4, 4, 3, padding="wide"),
    "strided": lambda nn: nn.Conv2d(4, 4, 3, stride=2, padding="same"),
    "padding_mode": lambda nn: nn.Conv2d(4, 4, 3, padding_mode="mirror"),
    "zeros": lambda nn: nn.ConvTranspose2d(4, 4, 3, padding_mode="reflect"),
}


@pytest.mark.parametrize("lib", ["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
@pytest.mark.parametrize("mentions", BAD_LAYERS)
def test_bad_layers(lib: str, mentions: str):
    nn = pytest.importorskip(lib).nn
    with pytest.raises(ValueError, match=mentions if lib == "fastgrad" else "."):
        BAD_LAYERS[mentions](nn)


@pytest.mark.parametrize("lib", ["fastgrad", pytest.param("torch", marks=pytest.mark.parity)])
def test_output_size(lib: str):
    lib = pytest.importorskip(lib)
    layer = lib.nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1)
    x = lib.zeros(1, 2, 4, 4)
    assert tuple(layer(x).shape) == (1, 3, 7, 7)
    assert tuple(layer(x, output_size=(8, 7)).shape) == (1, 3, 8, 7)
    assert tuple(layer(x, (1, 3, 7, 8)).shape) == (1, 3, 7, 8)
    with pytest.raises(ValueError, match="valid sizes range"):
        layer(x, output_size=(9, 8))
    with pytest.raises(ValueError, match="2 or 4 elements"):
        layer(x, output_size=(8,))


def test_a_window_that_reaches_far_beyond_the_image():
    x = fg.rand(1, 2, 4, 5)
    for size in (6, 1 << 31, 1 << 62):
        assert F.max_pool2d(x, size, ceil_mode=True).tolist() == x.amax((2, 3), keepdim=True).tolist()
        mean = F.avg_pool2d(x, size, ceil_mode=True)
        assert fg.allclose(mean, x.mean((2, 3), keepdim=True))
    assert F.max_pool2d(x, 40, 2, 20).shape == (1, 2, 3, 3)
    assert F.max_pool2d(x, 1, 1 << 62, dilation=1 << 62).tolist() == x[..., :1, :1].tolist()
    assert fg.allclose(F.avg_pool2d(x, 40, 2, 20)[..., 0, 0], x.sum((2, 3)) / 1600)


@pytest.mark.parametrize("argument", ["ceil_mode", "count_include_pad"])
def test_pooling_takes_bools_where_it_says_so(argument):
    with pytest.raises(TypeError, match=f"argument '{argument}' must be bool, not int"):
        F.avg_pool2d(fg.ones(1, 1, 4, 4), 2, **{argument: 1})


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
@pytest.mark.parametrize(
    ("groups", "channels", "outputs", "window"), [(1, 3, 4, 3), (4, 4, 4, 3), (2, 4, 6, 2), (1, 1, 1, 2)]
)
def test_integers(lib, dtype, groups, channels, outputs, window):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, (2, channels, 7, 7))
    w = rng.integers(0, 5, (outputs, channels // groups, window, window))
    kind = getattr(lib, dtype)
    found = lib.nn.functional.conv2d(lib.tensor(x).to(kind), lib.tensor(w).to(kind), groups=groups, padding=1)
    expected = lib.nn.functional.conv2d(
        lib.tensor(x).to(lib.float64), lib.tensor(w).to(lib.float64), groups=groups, padding=1
    )
    assert found.dtype is kind
    np.testing.assert_array_equal(found.numpy(), expected.numpy().astype(dtype))
