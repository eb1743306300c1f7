"""Declarations of frames: what they say of a launch, and that what may be divided gives the same results in parts."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad.kernels.compile import compile_kernel
from fastgrad.native.contracts.element_types import ITEMSIZES
from fastgrad.native.contracts.frame import ADDRESSES, SCRATCH, Frame, reads, size, writes
from fastgrad.native.contracts.frames import FRAMES
from fastgrad.native.contracts.split import divide, split_of
from fastgrad.native.host import devices
from fastgrad.ops.kernel_table import KERNELS, Kernel

_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_int64)
PARTS = 3


class Divided:
    """Kernels of the CPU in a column of their own: every launch that its frame lets divide runs in parts."""

    def __init__(self) -> None:
        self.divided: set[str] = set()
        self.keep = []

    def __call__(self, kernel, dtype, form):
        frame = kernel.frame(form)
        whole = _FUNCTION(compile_kernel(kernel, dtype, form))

        def run(address):
            words = list((ctypes.c_int64 * frame.words).from_address(address))
            # Without its scratch a kernel only says, in the frame itself, how much it needs.
            asks = any(
                field.role == SCRATCH and not words[frame.place(n)] for n, field in frame.roles.items()
            )
            if asks or split_of(frame, words) is None:
                return whole(address)
            parts = divide(frame, words, PARTS, lambda name: ITEMSIZES[frame.element(name, dtype)])
            if len(parts) > 1:
                self.divided.add(kernel.name)
            for part in parts:
                memory = (ctypes.c_int64 * frame.words)(*part)
                whole(ctypes.addressof(memory))

        self.keep.append(_FUNCTION(run))
        return ctypes.cast(self.keep[-1], ctypes.c_void_p).value


@pytest.fixture(scope="module")
def divided():
    resolver = Divided()
    devices.register_device("divided", 2, resolver)
    yield resolver
    del devices.NAMES["divided"]


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
    "argmax": (lambda a: a.argmax(1), numbers(6, 9, 2)),
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
    "attention": (
        F.scaled_dot_product_attention, numbers(4, 2, 9, 8), numbers(4, 2, 9, 8), numbers(4, 2, 9, 8)
    ),
    "embedding": (lambda w, i: F.embedding(i, w), numbers(9, 4), places(9, 7)),
    "select_sorted": (lambda a: a.topk(3, 1)[0], numbers(6, 9)),
    "zero_fill": (
        lambda a, i: fg.autograd.grad(F.nll_loss(a.requires_grad_(), i), a)[0], numbers(60, 8), places(8, 60)
    ),
    "nll_loss_backward": (
        lambda a, i: fg.autograd.grad(F.nll_loss(a.requires_grad_(), i), a)[0], numbers(6, 4), places(4, 6)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_parts_of_a_launch_give_what_the_launch_gives(divided, name):
    call, *arrays = CALLS[name]
    expected = call(*(fg.tensor(a) for a in arrays))
    result = call(*(fg.tensor(a).to("divided") for a in arrays))
    np.testing.assert_array_equal(result.detach().cpu().numpy(), expected.detach().numpy())
    assert name in divided.divided


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
                moved = {n for n, by in split.moves.items() if not isinstance(by, int)}
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
    assert frame.addresses() == {1: "out", 2: "a", 3: "b"}
