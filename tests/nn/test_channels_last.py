"""In which order results and gradients of layers lie in memory, above all of images with their channels last."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastgrad as fg
from tests.nn.test_conv import OPTIONS, derivatives

F = fg.nn.functional
IMAGE, SIGNAL, DEEP = (2, 6, 8, 10), (2, 6, 10), (2, 6, 3, 4, 5)
ORDERS = {
    "rows": lambda n: tuple(range(n)),
    "channels": lambda n: (0, *range(2, n), 1),
    "reversed": lambda n: tuple(reversed(range(n))),
    "swapped": lambda n: (*range(n - 2), n - 1, n - 2),
}


@pytest.fixture(scope="module")
def torch():
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    return torch


def laid_out(lib: Any, array: np.ndarray, order: str, gap: bool = False) -> Any:
    """A tensor whose dimensions lie in an order, outermost first; with a gap, as a part of a wider one."""
    if array.ndim < 2:
        return lib.tensor(array)
    dims = ORDERS[order](array.ndim)
    memory = (np.concatenate([array, array], -1) if gap else array).transpose(dims)
    x = lib.tensor(np.ascontiguousarray(memory))
    return x.permute([dims.index(d) for d in range(array.ndim)])[..., : array.shape[-1]]


def norm(lib: Any, x: Any, *weights: Any, training: bool = True) -> Any:
    given = (None, None) if training else (lib.zeros(6, dtype=x.dtype), lib.ones(6, dtype=x.dtype) * 3)
    return lib.nn.functional.batch_norm(x, *given, *weights, training=training)


CALLS: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "conv2d": (lambda lib, x, w: lib.nn.functional.conv2d(x, w, padding=1), (IMAGE, (4, 6, 3, 3))),
    "conv2d, bias": (lambda lib, *a: lib.nn.functional.conv2d(*a, stride=2), (IMAGE, (4, 6, 3, 3), (4,))),
    "conv2d, groups": (lambda lib, *a: lib.nn.functional.conv2d(*a, groups=6), (IMAGE, (6, 1, 3, 3))),
    "conv2d, places": (lambda lib, *a: lib.nn.functional.conv2d(*a), (IMAGE, (4, 6, 1, 1), (4,))),
    "conv2d, one image": (lambda lib, *a: lib.nn.functional.conv2d(*a), ((6, 8, 10), (4, 6, 3, 3))),
    "conv1d": (lambda lib, *a: lib.nn.functional.conv1d(*a), (SIGNAL, (4, 6, 3))),
    "conv3d": (lambda lib, x, w: lib.nn.functional.conv3d(x, w, padding=1), (DEEP, (4, 6, 2, 3, 3))),
    "conv_transpose3d": (lambda lib, *a: lib.nn.functional.conv_transpose3d(*a), (DEEP, (6, 4, 2, 2, 2))),
    "conv_transpose2d": (
        lambda lib, *a: lib.nn.functional.conv_transpose2d(*a, stride=2),
        (IMAGE, (6, 4, 3, 3)),
    ),
    "conv_transpose1d": (lambda lib, *a: lib.nn.functional.conv_transpose1d(*a), (SIGNAL, (6, 4, 3))),
    "max_pool2d": (lambda lib, x: lib.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True), (IMAGE,)),
    "max_pool2d, one image": (lambda lib, x: lib.nn.functional.max_pool2d(x, 2), ((6, 8, 10),)),
    "max_pool1d": (lambda lib, x: lib.nn.functional.max_pool1d(x, 2), (SIGNAL,)),
    "avg_pool2d": (lambda lib, x: lib.nn.functional.avg_pool2d(x, 3, 2, 1), (IMAGE,)),
    "avg_pool1d": (lambda lib, x: lib.nn.functional.avg_pool1d(x, 2), (SIGNAL,)),
    "adaptive_avg_pool2d": (lambda lib, x: lib.nn.functional.adaptive_avg_pool2d(x, (3, 4)), (IMAGE,)),
    "adaptive_avg_pool1d": (lambda lib, x: lib.nn.functional.adaptive_avg_pool1d(x, 4), (SIGNAL,)),
    "batch_norm": (norm, (IMAGE, (6,), (6,))),
    "batch_norm, plain": (norm, (IMAGE,)),
    "batch_norm, signals": (norm, (SIGNAL, (6,), (6,))),
    "batch_norm, depth": (norm, (DEEP, (6,), (6,))),
    "batch_norm, rows": (norm, ((5, 6), (6,), (6,))),
    "batch_norm, given": (lambda lib, *a: norm(lib, *a, training=False), (IMAGE, (6,), (6,))),
    "batch_norm, given, plain": (lambda lib, *a: norm(lib, *a, training=False), (DEEP,)),
    "group_norm": (lambda lib, x, *w: lib.nn.functional.group_norm(x, 3, *w), (IMAGE, (6,), (6,))),
    "group_norm, depth": (lambda lib, x: lib.nn.functional.group_norm(x, 2), (DEEP,)),
    "layer_norm": (lambda lib, x: lib.nn.functional.layer_norm(x, (8, 10)), (IMAGE,)),
    **{
        f"pad, {mode}": (lambda lib, x, mode=mode: lib.nn.functional.pad(x, (1, 2, 1, 0), mode), (IMAGE,))
        for mode in ("constant", "reflect", "replicate", "circular")
    },
    "pad, signals": (lambda lib, x: lib.nn.functional.pad(x, (1, 2), "reflect"), (SIGNAL,)),
    "pad, depth": (lambda lib, x: lib.nn.functional.pad(x, (1, 2, 1, 0, 0, 1), "replicate"), (DEEP,)),
    "pad, channels": (lambda lib, x: lib.nn.functional.pad(x, (1, 0, 0, 1, 2, 0), value=3.0), (IMAGE,)),
    "pad, less": (lambda lib, x: lib.nn.functional.pad(x, (-1, 2, 0, -2)), (IMAGE,)),
    "pad, part": (lambda lib, x: lib.nn.functional.pad(x, (-1, 0, 0, -2)), (IMAGE,)),
    "cat": (lambda lib, *a: lib.cat(a, 1), (IMAGE, (2, 3, 8, 10))),
    "cat, depth": (lambda lib, *a: lib.cat(a, -1), (DEEP, DEEP)),
    "cat, signals": (lambda lib, *a: lib.cat(a, 2), (SIGNAL, SIGNAL)),
    "cat, orders": (lambda lib, x, y: lib.cat((x.contiguous(), y), 0), (IMAGE, IMAGE)),
    "stack": (lambda lib, *a: lib.stack(a, 2), (IMAGE, IMAGE)),
    "stack, behind": (lambda lib, *a: lib.stack(a, -1), (IMAGE, IMAGE)),
    "stack, first": (lambda lib, *a: lib.stack(a), (SIGNAL, SIGNAL)),
    "split": (lambda lib, x: lib.split(x, 4, 1), (IMAGE,)),
    "unbind": (lambda lib, x: lib.unbind(x, 2), (DEEP,)),
    "sort": (lambda lib, x: lib.sort(x, 1), (IMAGE,)),
    "sort, rows": (lambda lib, x: lib.sort(x, -1, True), (IMAGE,)),
    "topk": (lambda lib, x: lib.topk(x, 6, 1), (IMAGE,)),
}


MATRICES: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "mm": (lambda lib, *a: lib.mm(*a), ((5, 6), (6, 7))),
    "matmul": (lambda lib, x, y: x @ y, ((5, 6), (6, 7))),
    "matmul, one column": (lambda lib, x, y: x @ y, ((5, 6), (6, 1))),
    "matmul, one row": (lambda lib, x, y: x @ y, ((1, 6), (6, 7))),
    "matmul, batch": (lambda lib, x, y: x @ y, ((2, 5, 6), (6, 7))),
    "matmul, batches": (lambda lib, x, y: x @ y, ((2, 5, 6), (2, 6, 7))),
    "matmul, vector": (lambda lib, x, y: x @ y, ((5,), (5, 6))),
    "addmm": (lambda lib, *a: lib.addmm(*a), ((5, 7), (5, 6), (6, 7))),
    "addmm, scaled": (lambda lib, *a: lib.addmm(*a, beta=0.5, alpha=2.0), ((5, 7), (5, 6), (6, 7))),
    "linear": (lambda lib, *a: lib.nn.functional.linear(*a), ((5, 6), (7, 6), (7,))),
    "linear, plain": (lambda lib, *a: lib.nn.functional.linear(*a), ((5, 6), (7, 6))),
    "linear, batch": (lambda lib, *a: lib.nn.functional.linear(*a), ((2, 5, 6), (7, 6), (7,))),
}
CALLS |= MATRICES


def computed(lib: Any, name: str, order: str, gap: bool, arriving: str) -> list[tuple[str, Any]]:
    """The results of a call and its gradients, by name."""
    call, shapes = CALLS[name]
    rng = np.random.default_rng(0)
    inputs = [
        laid_out(lib, rng.standard_normal(s), order, gap and k == 0).detach() for k, s in enumerate(shapes)
    ]
    for x in inputs:
        x.requires_grad_()
    outs = call(lib, *inputs)
    outs = list(outs) if isinstance(outs, (tuple, list)) else [outs]
    found = [(f"result {k}", y.detach()) for k, y in enumerate(outs)]
    outs = [y for y in outs if y.requires_grad]
    grads = [laid_out(lib, rng.standard_normal(tuple(y.shape)), arriving) for y in outs]
    gradients = lib.autograd.grad(outs, inputs, grads)
    return found + [(f"gradient {k}", g) for k, g in enumerate(gradients)]


@pytest.mark.parity
@pytest.mark.parametrize("arriving", ["rows", "channels"])
@pytest.mark.parametrize("order", [*ORDERS, "channels with gaps"])
@pytest.mark.parametrize("name", CALLS)
def test_strides_as_in_pytorch(torch: Any, name: str, order: str, arriving: str):
    order, _, gap = order.partition(" ")
    pairs = zip(*(computed(lib, name, order, bool(gap), arriving) for lib in (fg, torch)), strict=True)
    for (what, ours), (_, theirs) in pairs:
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-9, atol=1e-9, err_msg=what)
        places = [
            (s, t) for n, s, t in zip(ours.shape, ours.stride(), theirs.stride(), strict=True) if n != 1
        ]
        assert [s for s, _ in places] == [t for _, t in places], what


@pytest.mark.parametrize("columns", [(False, True), (True, False), (True, True)])
@pytest.mark.parametrize(
    "name", [n for n in MATRICES if "batch" not in n and "vector" not in n and "one" not in n]
)
def test_gradients_lie_as_factors_do(name: str, columns: tuple[bool, bool]):
    """And they are those of factors that lie by rows, as are the second derivatives."""
    call, shapes = MATRICES[name]
    found = []
    for by in ((False, False), columns):
        rng = np.random.default_rng(0)
        arrays = [rng.standard_normal(s) for s in shapes]
        first = 1 if name.startswith("addmm") else 0  # of the factors
        orders = {first + k: "reversed" if by[k] else "rows" for k in range(2)}
        inputs = [laid_out(fg, a, orders.get(k, "rows")).detach() for k, a in enumerate(arrays)]
        for x in inputs:
            x.requires_grad_()
        y = call(fg, *inputs)
        weights = fg.tensor(rng.standard_normal(tuple(y.shape)), requires_grad=True)
        gradients = fg.autograd.grad(y, inputs, weights, create_graph=True)
        for x, g in list(zip(inputs, gradients, strict=True))[first : first + 2]:
            assert g.stride() == x.stride()
        again = [fg.tensor(rng.standard_normal(tuple(g.shape))) for g in gradients]
        second = fg.autograd.grad(gradients, [*inputs, weights], again, allow_unused=True)
        found.append([t.detach().numpy() for t in (*gradients, *second) if t is not None])
    for rows, others in zip(*found, strict=True):
        np.testing.assert_allclose(others, rows, rtol=1e-9, atol=1e-9)


def arrays_of(shape: tuple[int, ...], weights: tuple[int, ...] | None) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s) for s in (shape, weights) if s is not None]


@pytest.mark.parametrize(("name", "shape", "weights", "settings"), OPTIONS)
def test_the_order_changes_no_value(
    name: str, shape: tuple[int, ...], weights: tuple[int, ...] | None, settings: dict[str, Any]
):
    """Nor derivatives of the second order."""
    arrays = arrays_of(shape, weights)
    last = [np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1) for a in arrays]
    for rows, channels in zip(
        derivatives(fg, name, arrays, settings), derivatives(fg, name, last, settings), strict=True
    ):
        np.testing.assert_allclose(channels, rows, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("name", ["batch_norm", "group_norm"])
def test_second_derivatives_of_norms(name: str, given: bool):
    found = []
    for order in ("rows", "channels"):
        rng = np.random.default_rng(0)
        x = laid_out(fg, rng.standard_normal(IMAGE), order).detach().requires_grad_()
        w, b = (fg.tensor(rng.standard_normal(6), requires_grad=True) for _ in range(2))
        y = norm(fg, x, w, b, training=not given) if name == "batch_norm" else F.group_norm(x, 3, w, b)
        g = fg.tensor(rng.standard_normal(IMAGE), requires_grad=True)
        first = fg.autograd.grad(y, (x, w, b), g, create_graph=True)
        weights = [fg.tensor(rng.standard_normal(tuple(t.shape))) for t in first]
        found.append([*first, *fg.autograd.grad(first, (x, w, g), weights)])
    for rows, channels in zip(*found, strict=True):
        np.testing.assert_allclose(channels.detach().numpy(), rows.detach().numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8"])
@pytest.mark.parametrize("channels", [1, 2, 17])
def test_pooling_of_every_dtype(channels: int, dtype: str):
    array = np.random.default_rng(0).integers(0, 9, (2, channels, 7, 6)).astype(dtype)
    if dtype.startswith("float"):
        array[0, :, 2, 3] = np.nan
        array[1, 0] = -np.inf
    rows, last = (laid_out(fg, array, order) for order in ("rows", "channels"))
    for call in (
        lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
        lambda x: F.max_pool2d(x, 2, return_indices=True),
        lambda x: F.max_pool2d(x, (1, 5), 1, (0, 2), return_indices=True),
        lambda x: (F.avg_pool2d(x, 2),),
        lambda x: (F.avg_pool2d(x, (5, 3), 2, (2, 1), count_include_pad=False),),
    ):
        for expected, found in zip(call(rows), call(last), strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


def test_a_window_that_sees_nothing_has_no_place():
    x = laid_out(fg, np.ones((1, 3, 2, 2)), "channels").detach().requires_grad_()
    out, places = F.max_pool2d(x, 2, 1, 1, dilation=3, return_indices=True)
    assert tuple(out.shape) == (1, 3, 1, 1)
    assert places.flatten().tolist() == [-1, -1, -1]
    out.sum().backward()
    assert x.grad.sum().item() == 0


def test_places_beyond_the_image_are_reported():
    x = laid_out(fg, np.arange(48.0).reshape(1, 3, 4, 4), "channels").detach().requires_grad_()
    with fg.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * 0 + 99):
        pooled = F.max_pool2d(x, 2)
    with pytest.raises(RuntimeError, match="99"):
        pooled.sum().backward()


def test_a_network_keeps_its_order():
    """From one layer to the next, and back; leaves have gradients that lie as they do."""
    net = fg.nn.Sequential(
        fg.nn.Conv2d(3, 8, 3), fg.nn.BatchNorm2d(8), fg.nn.ReLU(), fg.nn.MaxPool2d(2), fg.nn.Dropout(0.5),
        fg.nn.Conv2d(8, 4, 1), fg.nn.GroupNorm(2, 4), fg.nn.AvgPool2d(2),
    ).to(memory_format=fg.channels_last)  # fmt: skip
    x = fg.randn(2, 3, 14, 14, requires_grad=True)
    y = x.contiguous(memory_format=fg.channels_last)
    seen = []
    for layer in net:
        y = layer(y)
        y.register_hook(lambda g: seen.append(g.is_contiguous(memory_format=fg.channels_last)))
        assert y.is_contiguous(memory_format=fg.channels_last), layer
    (y * y).sum().backward()
    assert seen == [True] * len(net)
    for p in net.parameters():
        assert p.grad.stride() == p.stride()


def test_dropout_lies_as_its_operands_do():
    x = laid_out(fg, np.ones((4, 6, 5, 7)), "reversed").detach().requires_grad_()
    y = F.dropout(x, 0.5)
    assert y.stride() == x.stride()
    assert sorted(set(y.detach().flatten().tolist())) == [0.0, 2.0]
    for order in ("rows", "channels", "reversed"):
        g = laid_out(fg, np.arange(840.0).reshape(4, 6, 5, 7), order)
        (back,) = fg.autograd.grad(y, x, g, retain_graph=True)
        assert back.stride() == g.stride()
        assert np.array_equal(back.numpy(), g.numpy() * y.detach().numpy())


def test_results_do_not_depend_on_the_number_of_threads():
    before, found = fg.get_num_threads(), []
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal(s).astype("float32") for s in ((8, 64, 24, 24), (64,), (64,), (32, 64, 1, 1))
    ]
    try:
        for threads in (1, 3):
            fg.set_num_threads(threads)
            x, w, b, kernel = (laid_out(fg, a, "channels").detach().requires_grad_() for a in arrays)
            y = F.batch_norm(x, None, None, w, b, training=True)
            z = F.conv2d(F.max_pool2d(y, 3, 2), kernel)
            found.append(
                [t.detach().numpy() for t in (y, z, *fg.autograd.grad((z * z).sum(), (x, w, b, kernel)))]
            )
    finally:
        fg.set_num_threads(before)
    for one, several in zip(*found, strict=True):
        assert np.array_equal(one, several)


@pytest.mark.parametrize(
    ("shape", "groups"),
    [
        ((3, 64, 7, 7), 8), ((2, 600, 4, 3), 1), ((2, 600, 4, 3), 600), ((2, 1200, 3, 3), 2), ((1, 12, 1, 1), 3),
        ((0, 8, 3, 3), 2), ((4, 96, 9, 10), 32),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_groups_of_channels(shape: tuple[int, ...], groups: int, dtype: str):
    """Many groups and wide ones, around a mean that is not near zero, as with images that lie row by row."""
    rng = np.random.default_rng(1)
    x, g = (rng.standard_normal(shape) * 3 + 40 * k for k in (1, 0))
    w, b = rng.standard_normal((2, shape[1]))
    before, found = fg.get_num_threads(), []
    for order, threads in (("rows", 1), ("channels", 1), ("channels", 5)):
        fg.set_num_threads(threads)
        inputs = [
            laid_out(fg, x.astype(dtype), order),
            fg.tensor(w.astype(dtype)),
            fg.tensor(b.astype(dtype)),
        ]
        inputs = [t.detach().requires_grad_() for t in inputs]
        y = F.group_norm(inputs[0], groups, *inputs[1:])
        found.append([y.detach(), *fg.autograd.grad(y, inputs, laid_out(fg, g.astype(dtype), order))])
    fg.set_num_threads(before)
    bound = 2e-4 if dtype == "float32" else 1e-11
    for rows, channels, divided in zip(*found, strict=True):
        np.testing.assert_allclose(channels.numpy(), rows.numpy(), rtol=bound, atol=bound)
        assert (channels.numpy() == divided.numpy()).all()
