"""Declarations of frames: what they say of a launch, and that what may be divided gives the same results in parts."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad.native.build.loader import runtime_get, runtime_set
from fastgrad.native.contracts.frame import ADDRESSES, Frame, reads, size, writes
from fastgrad.native.contracts.frames import FRAMES
from fastgrad.native.contracts.limits import N_LAYOUTS
from fastgrad.ops.kernel_table import KERNELS, Kernel

BY_NAME = {kernel.name: kernel for kernel in KERNELS}

THREADS = (1, 2, 5)


@pytest.fixture
def small_parts():
    """Launches over two elements and more are divided, if their frames let them; on so many threads as one asks."""
    part_work, threads = runtime_get("part_work"), fg.get_num_threads()
    runtime_set("part_work", 1)
    yield
    runtime_set("part_work", part_work)
    fg.set_num_threads(threads)


def numbers(*sizes, dtype=np.float32):
    return np.random.default_rng(sum(sizes)).standard_normal(sizes).astype(dtype)


def places(high, *sizes):
    return np.random.default_rng(sum(sizes)).integers(0, high, sizes)


CALLS = {
    "add": (lambda a, b: a + b, numbers(5, 7), numbers(5, 7)),
    "mul": (lambda a, b: a * b.t(), numbers(6, 4), numbers(4, 6)),
    "exp": (lambda a: a.transpose(0, 2).exp(), numbers(4, 3, 5)),
    "lt": (lambda a, b: a < b, numbers(5, 7), numbers(7)),
    "where": (lambda a, b: fg.where(a < b, a, b), numbers(5, 7), numbers(5, 7)),
    "copy_from_8": (lambda a: a.to(fg.float64), numbers(9)),
    "sum": (lambda a: a.sum(2), numbers(5, 4, 33)),
    "mean": (lambda a: a.mean(0), numbers(9, 70)),
    "any": (lambda a: (a > 1).any(1), numbers(7, 5)),
    "softmax": (lambda a: a.softmax(1), numbers(6, 9, 2)),
    "min_dim": (lambda a: a.argmin(0), numbers(9, 300)),
    "max_dim": (lambda a: fg.cat([v.to(fg.float64) for v in a.max(1)]), numbers(6, 9, 2)),
    "cumsum": (lambda a: a.cumsum(1), numbers(6, 9)),
    "gemm": (lambda a, b: a @ b, numbers(4, 3, 5), numbers(4, 5, 6)),
    "tril": (lambda a: a.tril(), numbers(4, 5, 5)),
    "gather": (lambda a, i: a.gather(1, i), numbers(6, 8), places(8, 6, 5)),
    "scatter_add": (lambda a, i: a.scatter_add(1, i, a), numbers(6, 8), places(8, 6, 8)),
    "max_pool2d": (lambda a: F.max_pool2d(a, 2), numbers(2, 3, 6, 6)),
    "avg_pool2d": (lambda a: F.avg_pool2d(a, 3, 2), numbers(2, 3, 9, 9)),
    "pad": (lambda a: F.pad(a, (1, 2)), numbers(5, 6)),
    "convolution_v": (lambda a, w: F.conv2d(a, w, stride=2), numbers(4, 3, 9, 9), numbers(5, 3, 3, 3)),
    "convolution_x": (lambda a, w: F.conv_transpose2d(a, w, stride=2), numbers(4, 5, 6, 6), numbers(5, 3, 3, 3)),
    "convolution_w": (
        lambda a, w: fg.autograd.grad(F.conv2d(a, w.requires_grad_(), padding=1).sum(), w)[0],
        numbers(9, 3, 8, 8), numbers(5, 3, 3, 3),
    ),
    "norm_rows": (lambda a: F.layer_norm(a, (8,)), numbers(9, 8)),
    "norm_rows_backward": (
        lambda a: fg.autograd.grad((F.group_norm(a.requires_grad_(), 2) * a).sum(), a)[0], numbers(5, 4, 6)
    ),
    "attention": (
        F.scaled_dot_product_attention, numbers(4, 2, 9, 8), numbers(4, 2, 9, 8), numbers(4, 2, 9, 8)
    ),
    "embedding": (lambda w, i: F.embedding(i, w), numbers(9, 4), places(9, 7)),
    "embedding_bag": (lambda w, i: F.embedding_bag(i, w, mode="mean"), numbers(9, 4), places(9, 12, 7)),
    "embedding_bag_backward": (
        lambda w, i: fg.autograd.grad(F.embedding_bag(i, w.requires_grad_()).pow(2).sum(), w)[0],
        numbers(9, 256), places(9, 12, 7),
    ),
    "embedding_bag_maxima": (lambda w, i: F.embedding_bag(i, w, mode="max"), numbers(9, 4), places(9, 12, 7)),
    "grid_sample": (
        lambda a, g: F.grid_sample(a, g, align_corners=False), numbers(2, 3, 5, 6), numbers(2, 9, 21, 2)
    ),
    "grid_images": (
        lambda a, g: fg.autograd.grad(F.grid_sample(a.requires_grad_(), g, align_corners=False).pow(2).sum(), a)[0],
        numbers(4, 3, 5, 6), numbers(4, 9, 21, 2),
    ),
    "grid_places": (
        lambda a, g: fg.autograd.grad(F.grid_sample(a, g.requires_grad_(), "bicubic", "reflection", True).sum(), g)[0],
        numbers(2, 3, 5, 6), numbers(2, 9, 21, 2),
    ),
    "ctc_loss_backward": (
        lambda x, t: fg.autograd.grad(F.ctc_loss(x.requires_grad_().log_softmax(2), t, (9,) * 6, (3,) * 6), x)[0],
        numbers(9, 6, 5), places(5, 6, 3),
    ),
    "select_sorted": (lambda a: a.topk(3, 1)[0], numbers(6, 9)),
    "zero_fill": (
        lambda a, i: fg.autograd.grad(F.nll_loss(a.requires_grad_(), i), a)[0], numbers(60, 8), places(8, 60)
    ),
    "nll_loss_backward": (
        lambda a, i: fg.autograd.grad(F.nll_loss(a.requires_grad_(), i), a)[0], numbers(6, 4), places(4, 6)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_parts_of_a_launch_give_what_the_launch_gives(name, request):
    call, *arrays = CALLS[name]
    expected = call(*(fg.tensor(a) for a in arrays)).detach().numpy()
    request.getfixturevalue("small_parts")
    first = BY_NAME[name].id * N_LAYOUTS  # of a kernel's forms those that this call runs are known
    assert any(runtime_get("splits", first + form) for form in range(N_LAYOUTS))
    for n in THREADS:
        fg.set_num_threads(n)
        divided = runtime_get("divided")
        result = call(*(fg.tensor(a) for a in arrays))
        assert runtime_get("divided") > divided
        np.testing.assert_array_equal(result.detach().numpy(), expected)


def test_every_field_that_a_declaration_names_exists():
    for kernel in KERNELS:
        for form in kernel.forms:
            frame = kernel.frame(form)
            assert frame.name in {f.name for f in FRAMES}
            for field in frame.roles.values():
                assert all(frame.place(name) < frame.words for name in field.extent if isinstance(name, str))
            for split in frame.splits:
                over = split.over if isinstance(split.over, str) else split.over.field
                for name in (over, *split.moves, *split.scales, *split.where, *split.unless):
                    assert frame.place(name) < frame.words
                moved = {n for n, by in split.moves.items() if not isinstance(by, int | str)}
                assert all(frame.roles[name].role in ADDRESSES for name in moved)


def test_variants_have_the_words_of_their_frame():
    layouts = {frame.name: frame.fields for frame in FRAMES}
    for kernel in KERNELS:
        for form in kernel.forms:
            fields = kernel.frame(form).fields
            assert all(fields[name] == place for name, place in layouts[kernel.frame(form).name].items())


def test_what_a_frame_cannot_be():
    with pytest.raises(ValueError, match="two fields n"):
        Frame("twice", n=size("n"))
    with pytest.raises(ValueError, match="65 words"):
        Frame("long", n=size(count=65))
    with pytest.raises(ValueError, match="no room for c in x"):
        Frame("pair", n=size(), x=reads("n", count=2)).named("three", x="a b c")
    with pytest.raises(TypeError, match="needs either a formula or"):
        Kernel("neither", "rows:build")


def test_the_words_of_a_frame_by_name():
    frame = Frame("named", n=size(), out=writes("n"), inputs=reads("n", count=2)).named("named", inputs="a b")
    assert frame.read([3, 10, 20, 30]) == {"n": 3, "out": 10, "a": 20, "b": 30}
    assert frame.addresses == {1: "out", 2: "a", 3: "b"}


LONGER = {
    "dropout": (lambda x, w: F.dropout(x, 0.5), fg.bool),
    "embedding": (lambda x, w: F.embedding(fg.arange(64), x), fg.int64),
    "layer_norm": (lambda x, w: F.layer_norm(x, (8,), w), fg.float32),
    "batch_norm": (lambda x, w: F.batch_norm(x, None, None, w, training=True), fg.float32),
}


@pytest.mark.parametrize("more", [1, 5, 64])
@pytest.mark.parametrize("name", LONGER)
@pytest.mark.parametrize("threads", THREADS)
def test_a_longer_operand_is_refused_before_the_launch_is_divided(name, more, threads, small_parts):
    fg.set_num_threads(threads)
    function, dtype = LONGER[name]

    def longer(t):
        row = t.reshape(-1)
        return fg.cat([row, row[:1].expand(more)]) if t.dtype == dtype else t

    x, w = (fg.tensor(numbers(*sizes)).requires_grad_() for sizes in ((64, 8), (8,)))
    with fg.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), longer):
        y = function(x, w)
    with pytest.raises(RuntimeError, match="has another number of elements"):
        fg.autograd.grad(y, x, fg.ones_like(y))
