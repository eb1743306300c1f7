"""Fusion of launches: what becomes one, and that it computes what the launches did."""

from __future__ import annotations

import numpy as np
import pytest
from fusion_testing import Recorded, bits, check, same, wanted_of

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad.compiler.fusion import fuse
from fastgrad.native.build.loader import runtime_get
from fastgrad.native.host.tape import FusedLaunch, MaskLaunch, record

SIZES = [1, 2, 7, 64, 1000, 4096, 70001]


def normal(*size, dtype=None, grad=False):
    return fg.randn(*size, dtype=dtype).requires_grad_(grad)


@pytest.fixture(autouse=True)
def _seed():
    fg.manual_seed(0)


# --- elementwise -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
def test_a_chain_is_one_launch(n):
    check(lambda x, y: (fg.tanh(x * y) + fg.exp(-x * x)).abs(), normal(n), normal(n), launches=1)


@pytest.mark.parametrize("n", [5, 4096, 200_000])
def test_forward_and_backward_of_a_sum(n):
    x, y = normal(n, grad=True), normal(n, grad=True)

    def step(x, y):
        x.grad = y.grad = None
        total = (fg.tanh(x * y) + fg.exp(-x * x)).sum()
        total.backward()
        return total, x.grad, y.grad

    fused = check(step, x, y, close=1e-5)
    assert fused.report.after <= 2
    x.grad = y.grad = None


def test_gradients_of_a_sum_are_those_of_its_launches():
    x, y = normal(200_000, grad=True), normal(200_000, grad=True)

    def step(x, y):
        x.grad = y.grad = None
        (fg.tanh(x * y) + fg.exp(-x * x)).sum().backward()
        return x.grad, y.grad

    check(step, x, y)
    x.grad = y.grad = None


@pytest.mark.parametrize("dtype", [fg.float64, fg.float16, fg.bfloat16])
def test_dtypes_of_floats(dtype):
    x, y = normal(1000, dtype=dtype), normal(1000, dtype=dtype)
    check(lambda x, y: (x * y + x).tanh() - y / (x * x + 1), x, y)


def test_integers():
    x, y = fg.randint(-1000, 1000, (999,)), fg.randint(1, 9, (999,))
    check(lambda x, y: (x * y - x) * y + fg.maximum(x, -y) - 7, x, y, launches=1)


@pytest.mark.parametrize("dtype", [fg.uint8, fg.int32])
def test_small_integers_wrap_around(dtype):
    x, y = fg.randint(0, 200, (999,)).to(dtype), fg.randint(1, 200, (999,)).to(dtype)
    check(lambda x, y: (x * y + x) * y, x, y, launches=1)


def test_masks_and_casts():
    def function(x, y):
        mask = (x > y) & ~(y < 0)
        return (
            fg.where(mask, x, y * 2),
            mask,
            (x * 3).to(fg.int64) + mask.to(fg.int64),
            x.double() * y.double(),
        )

    check(function, normal(1000), normal(1000))


def test_special_values():
    values = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-42, -1e-42, 3e38, -3e38, 88.8, -104.0]
    x = fg.tensor([a for a in values for _ in values])
    y = fg.tensor([b for _ in values for b in values])
    check(lambda x, y: (x * y + x, fg.exp(x) - y, x / y, fg.maximum(x, y) * 0.5, (x - y).abs().sqrt()), x, y)


def test_products_are_contracted_within_formulas_alone():
    """x * y + z of two ops is rounded twice, and addcmul's or tanh's derivative as by a kernel of its own."""
    x, y, z = normal(5000), normal(5000), normal(5000)

    def function(x, y, z):
        square = x * x
        return x * y + z, x * y - z, square - x * x, fg.sub(z, x * y, alpha=3), fg.add(x * y, z, alpha=0.3)

    check(function, x, y, z)


def test_a_common_product_stays_contracted():
    x = normal(5000, grad=True)

    def step(x):
        x.grad = None
        y = x.tanh()
        (y * y).backward(fg.ones(5000))
        return x.grad

    check(step, x)
    x.grad = None


def test_numbers_of_the_call():
    check(lambda x: ((x * 2 + 1) / 3 - 0.1) ** 2, normal(1000), launches=1)


def test_no_dimensions_and_nothing():
    check(lambda x: (x * 2).exp() + 1, normal(1).view(()), launches=1)
    fused = check(lambda x, y: ((x * y).exp(), (y * 2).exp()), normal(0), normal(1))
    assert [group.names for group in fused.report.fused] == [("mul", "exp")]


# --- broadcasting ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shapes", [
    ((40, 70), (70,)), ((40, 70), (40, 1)), ((40, 70), (1, 1)), ((4, 5, 32), (5, 32)), ((4, 5, 32), (4, 1, 32)),
    ((4, 5, 32), (4, 5, 1)), ((4, 5, 32), (5, 1)), ((40, 70), ()),
])  # fmt: skip
def test_broadcasting(shapes):
    x, y = (normal(*shape) if shape else normal(1).view(()) for shape in shapes)
    fused = check(lambda x, y: ((x + y) * x).tanh() - y, x, y)
    assert fused.report.after == 1


def test_views():
    x = normal(64, 96)
    fused = check(lambda x: (x[:, :32] * x[:, 32:64] + x[::2].repeat(2, 1)[:, 64:]).sigmoid(), x)
    assert any(len(group.names) > 1 for group in fused.report.fused)


def test_what_lies_across_is_left_alone():
    fused = check(lambda x, y: ((x.t() * 2).tanh() + y).exp(), normal(48, 64), normal(64, 48))
    assert fused.report.fused


# --- rows --------------------------------------------------------------------------------------------------------


def softmax(x):
    e = (x - x.detach().amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def layer_norm(x, weight, bias):
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    return centred * (variance + 1e-5).rsqrt() * weight + bias


def rms_norm(x, weight):
    return x * ((x * x).mean(-1, keepdim=True) + 1e-6).rsqrt() * weight


def gelu(x):
    return x * 0.5 * (1 + fg.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


ROWS = [(1, 100), (33, 77), (8, 5000), (257, 512)]


@pytest.mark.parametrize("shape", ROWS)
def test_softmax(shape):
    check(softmax, normal(*shape), close=1e-6, launches=1)


@pytest.mark.parametrize("shape", ROWS)
def test_layer_norm(shape):
    check(layer_norm, normal(*shape), normal(shape[1]), normal(shape[1]), close=1e-5, launches=1)


@pytest.mark.parametrize("shape", ROWS)
def test_rms_norm(shape):
    check(rms_norm, normal(*shape), normal(shape[1]), close=1e-5, launches=1)


def test_gelu():
    check(gelu, normal(100, 1000), launches=1)


@pytest.mark.parametrize("shape", ROWS)
@pytest.mark.parametrize("function", [softmax, gelu])
def test_forward_and_backward_of_rows(function, shape):
    x, g = normal(*shape, grad=True), normal(*shape)

    def step(x, g):
        x.grad = None
        y = function(x)
        y.backward(g)
        return y, x.grad

    fused = check(step, x, g, close=1e-5)
    assert fused.report.after == 1
    x.grad = None


@pytest.mark.parametrize("shape", ROWS)
def test_gradients_by_way_of_the_largest_element(shape):
    x, g = normal(*shape, grad=True), normal(*shape)

    def step(x, g):
        x.grad = None
        e = (x - x.amax(-1, keepdim=True)).exp()
        (e / e.sum(-1, keepdim=True)).backward(g)
        return x.grad

    fused = check(step, x, g, close=1e-5)
    assert fused.report.after == 1, str(fused.report)
    x.grad = None


def test_sums_of_masks():
    check(lambda x, y: ((x > y).sum(-1, keepdim=True) * x, (x > y).sum(0)), normal(40, 700), normal(40, 700))


@pytest.mark.parametrize("shape", ROWS[1:])
def test_forward_and_backward_of_norms(shape):
    x, g = normal(*shape, grad=True), normal(*shape)
    weight, bias = normal(shape[1], grad=True), normal(shape[1], grad=True)

    def step(x, g, weight, bias):
        x.grad = weight.grad = bias.grad = None
        y = layer_norm(x, weight, bias)
        y.backward(g)
        return y, x.grad, weight.grad, bias.grad

    check(step, x, g, weight, bias, close=1e-4)
    x.grad = weight.grad = bias.grad = None


def test_double_rows():
    check(softmax, normal(33, 77, dtype=fg.float64), close=1e-14, launches=1)


def test_rows_of_nan_and_infinity():
    x = normal(6, 64)
    x[0, 3], x[1, 5], x[2, 7] = float("nan"), float("inf"), -float("inf")
    x[3] = -float("inf")
    check(softmax, x, close=1e-6, launches=1)


# --- what is written ---------------------------------------------------------------------------------------------


def test_intermediates_that_are_wanted_are_written():
    def function(x):
        a = x * 2
        b = a.exp()
        return b + 1, a, b

    fused = check(function, normal(1000), launches=1)
    assert fused.report.fused[0].writes == 3
    assert fused.report.fused[0].intermediates == 0


def test_others_stay_in_registers():
    fused = check(lambda x: ((x * 2).exp() + 1).tanh(), normal(1000), launches=1)
    assert fused.report.fused[0].writes == 1
    assert fused.report.fused[0].intermediates == 3


def test_what_another_launch_reads_is_written():
    x, w = normal(64, 64), normal(64, 64)
    fused = check(lambda x, w: (fg.mm((x * 2).exp() + 1, w) + 1).tanh(), x, w)
    assert [len(group.names) for group in fused.report.fused] == [3, 2]


# --- hazards -----------------------------------------------------------------------------------------------------


def test_in_place():
    def function(x, y):
        x.mul_(y).add_(1)
        y.sub_(x)
        return x * y

    check(function, normal(1000), normal(1000), launches=1)


def test_reading_before_and_after_a_change():
    def function(x):
        a = x + 1
        x.mul_(2)
        b = x + 1
        x.add_(a)
        return a * b

    check(function, normal(1000), launches=1)


def test_overlapping_slices_are_not_mixed_up():
    def function(x):
        a = x[:-1] * 2
        x[1:] += a
        return x[:-1] + a

    check(function, normal(1001))


def test_a_product_between():
    def function(x, w):
        a = (x + 1).tanh()
        b = a @ w
        c = a * 2 + b
        x.add_(c)
        return x @ w

    check(function, normal(32, 32), normal(32, 32))


def test_statistics_that_change():
    def function(x, s):
        y = x * s
        s += y.sum(-1, keepdim=True)
        return y * s

    check(function, normal(40, 64), normal(40, 1), close=1e-4)


def test_a_row_is_read_again_after_it_was_written_over():
    def function(x):
        total = x.sum(-1, keepdim=True)
        x.mul_(2)
        y = x - total
        x.sub_(y.mean(-1, keepdim=True))
        return y * x

    check(function, normal(40, 640), close=1e-4)


def test_state_from_one_replay_to_the_next():
    state = fg.zeros(1000)

    def function(x):
        state.mul_(0.9).add_(x)
        return state * 2

    recorded = Recorded(function, [normal(1000)])
    start = state.clone()
    expected = [recorded.replay()[0] for _ in range(3)]
    state.copy_(start)
    fused = fuse(recorded.tape.entries(), wanted_of(recorded.results))
    recorded.tape.edit(fused.order)
    for value in expected:
        same(recorded.replay()[0], value)


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64, fg.bfloat16])
@pytest.mark.parametrize("length", [1, 5, 512, 513])
@pytest.mark.parametrize("rows", [1, 3, 4, 9])
def test_rows_that_go_together_keep_what_is_theirs(rows, length, dtype):
    def function(x, g):
        e = (x - x.amax(-1, keepdim=True)).exp()
        y = e / e.sum(-1, keepdim=True)
        inner = (g * y).sum(-1, keepdim=True)
        return y * (g - inner), inner * 2

    check(
        function,
        normal(rows, length, dtype=dtype),
        normal(rows, length, dtype=dtype),
        close=0.02 if dtype == fg.bfloat16 else 1e-5,
    )


# --- threads -----------------------------------------------------------------------------------------------------


def replays_by(recorded: Recorded, *counts: int) -> list:
    """What replays by so many threads give, of fused launches that were divided."""
    before = fg.get_num_threads()
    fg.set_num_threads(max(counts))
    try:
        fused = recorded.fuse().report.fused
        results = []
        for threads in counts:
            fg.set_num_threads(threads)
            recorded.set()
            divided = runtime_get("divided")
            recorded.tape.replay()
            assert runtime_get("divided") - divided >= len(fused) > 0
            results.append(recorded.seen())
        return results
    finally:
        fg.set_num_threads(before)


@pytest.mark.parametrize("shape", [(500_000,), (600, 1000)])
def test_results_do_not_depend_on_the_number_of_threads(shape):
    x, y = normal(*shape, grad=True), normal(*shape)

    def step(x, y):
        x.grad = None
        loss = (softmax(x * y) * y).sum()
        loss.backward()
        return loss, x.grad

    first, *others = replays_by(Recorded(step, [x, y]), 1, 2, 5)
    for results in others:
        for found, expected in zip(results, first, strict=True):
            same(found, expected)
    x.grad = None


# --- editions ----------------------------------------------------------------------------------------------------


def recorded_chain():
    x = normal(100)
    with record() as recorded:
        y = (x * 2).exp() + 1
    fused = fuse(recorded.entries(), wanted_of([y]))
    return recorded, fused, x, y


@pytest.mark.parametrize("edition", [
    [99], [-1], [-2], [0, -5], [1 << 62], [MaskLaunch(0)], [MaskLaunch(99)], [MaskLaunch(-1)], [-2, 0, -2],
    [FusedLaunch(4095, False, 1, (0,) * 64)], [FusedLaunch(0, False, 1, (0,) * 64)],
    [FusedLaunch(1, False, -1, (0,) * 64)], [FusedLaunch(1, False, 1, (0,) * 63)], [FusedLaunch(1, False, 1, ())],
    [FusedLaunch(1 << 40, False, 1, (0,) * 64)], [FusedLaunch(-1, False, 1, (0,) * 64)],
])  # fmt: skip
def test_editions_that_do_not_fit(edition):
    recorded, *kept = recorded_chain()
    before = recorded.launches
    with pytest.raises(ValueError, match="no edition of the tape"):
        recorded.edit(edition)
    assert recorded.launches == before
    recorded.replay()
    del kept


def test_only_bytes_are_an_edition():
    from fastgrad.native.build.loader import rt

    recorded, *_ = recorded_chain()
    for wrong in (None, "abc", [1], 3, bytearray(8)):
        with pytest.raises(ValueError, match="no edition"):
            rt.edit_tape(recorded, wrong)
    for wrong in (None, 3, fg.zeros(1)):
        with pytest.raises((TypeError, RuntimeError)):
            rt.edit_tape(wrong, b"")


def test_a_tape_that_records_is_not_edited():
    with record() as recorded:
        fg.zeros(3) + 1
        with pytest.raises(RuntimeError, match="while it records"):
            recorded.edit([0])


def test_a_tape_without_launches():
    from fastgrad.native.host.tape import Tape

    with pytest.raises(ValueError, match="no edition"):
        Tape().edit([])


def test_leaving_out_and_repeating():
    recorded, _, x, y = recorded_chain()
    count = recorded.launches
    recorded.edit([*range(count), *range(count)])
    assert recorded.launches == 2 * count
    recorded.replay()
    recorded.edit([])
    assert recorded.launches == 0
    with pytest.raises(RuntimeError, match="no launches"):
        recorded.replay()
    same(bits(y), bits((x * 2).exp() + 1))


def test_a_hook_that_edits_the_tape_which_is_replayed():
    x = normal(10, grad=True)
    seen = []

    def hook(grad):
        if (recorded is not None and recorded.launches and not fg.is_grad_enabled()) or seen:
            with pytest.raises(RuntimeError, match="while it records or is replayed"):
                recorded.edit([0])
        seen.append(1)

    recorded = None
    y = x * 2
    y.register_hook(hook)
    tape = record(hooks=True)
    with tape:
        (y * y).sum().backward(retain_graph=True)
    recorded = tape
    tape.replay()
    assert len(seen) == 2
    x.grad = None


def test_hooks_keep_their_place():
    x = normal(10, grad=True)
    seen = []

    def step():
        x.grad = None
        y = x * 2 + 1
        y.register_hook(lambda grad: seen.append(bits(grad)))
        (y.tanh() * y).sum().backward()
        return x.grad

    step()
    with record(hooks=True) as tape:
        grad = step()
    tape.replay()
    expected = bits(grad), seen[-1]
    tape.edit(fuse(tape.entries(), wanted_of([grad])).order)
    tape.replay()
    same(bits(grad), expected[0])
    same(seen[-1], expected[1])
    assert len(seen) == 4
    x.grad = None


# --- more than fits ----------------------------------------------------------------------------------------------


def test_many_operands():
    inputs = [normal(100) for _ in range(40)]
    fused = check(lambda *xs: sum(x * k for k, x in enumerate(xs)), *inputs)
    assert len(fused.report.fused) > 1


def test_many_results():
    def function(x):
        results = []
        for _ in range(60):
            x = x * 0.9 + 0.1
            results.append(x)
        return tuple(results)

    check(function, normal(100))


def test_a_long_chain():
    def function(x):
        for _ in range(300):
            x = (x * 0.9 + 0.1).sin()
        return x

    fused = check(function, normal(100))
    assert fused.report.after < 40


def test_the_report_says_why():
    fused = check(lambda x, w: (x @ w + 1).exp(), normal(16, 16), normal(16, 16))
    assert "stands alone: it is no elementwise operation" in str(fused.report)


def test_a_linear_layer_and_its_loss():
    x, w, b = normal(64, 32), normal(16, 32, grad=True), normal(16, grad=True)
    target = fg.randint(0, 16, (64,))

    def step(x, w, b):
        w.grad = b.grad = None
        loss = F.cross_entropy(F.linear(x, w, b).tanh() * 3, target)
        loss.backward()
        return loss, w.grad, b.grad

    check(step, x, w, b, close=1e-5)
    w.grad = b.grad = None


# --- sums of columns ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 5), (33, 77), (64, 512), (1024, 256), (640, 300), (96, 5000)])
@pytest.mark.parametrize("name", ["sum", "mean"])
def test_sums_of_columns(shape, name):
    fused = check(
        lambda x, y: getattr((x * y).tanh() + x, name)(0), normal(*shape), normal(*shape), close=1e-5
    )
    assert fused.report.fused


def test_sums_of_columns_and_rows_together():
    def function(x, y):
        z = x * y
        return z.sum(0), z.mean(-1, keepdim=True), z - z.amax(-1, keepdim=True), (z * z).mean(0)

    check(function, normal(1024, 256), normal(1024, 256), close=1e-5)


def test_a_sum_of_columns_that_is_used_at_once():
    check(lambda x: x * 2 - (x * 2).mean(0), normal(50, 60), close=1e-5)


def test_sums_of_columns_do_not_depend_on_the_number_of_threads():
    recorded = Recorded(lambda x, y: ((x * y).sum(0), (x + y).sum(0)), [normal(2048, 256), normal(2048, 256)])
    for found, expected in zip(*replays_by(recorded, 1, 5), strict=True):
        same(found, expected)


# --- what goes wrong ---------------------------------------------------------------------------------------------


def test_an_error_of_the_caller_changes_nothing():
    recorded, _, x, y = recorded_chain()

    def is_wanted(address, nbytes):
        raise KeyError("unknown memory")

    before = recorded.launches
    with pytest.raises(KeyError, match="unknown memory"):
        fuse(recorded.entries(), is_wanted)
    assert recorded.launches == before
    recorded.replay()
    same(bits(y), bits((x * 2).exp() + 1))


def test_fused_launches_are_not_fused_again():
    recorded, fused, x, y = recorded_chain()
    recorded.edit(fused.order)
    again = fuse(recorded.entries(), wanted_of([y]))
    assert again.order == [0]
    recorded.edit(again.order)
    x.copy_(x * 0.5)
    recorded.replay()
    same(bits(y), bits((x * 2).exp() + 1))


def test_nothing_is_wanted():
    recorded, _, x, y = recorded_chain()
    fused = fuse(recorded.entries(), lambda address, nbytes: False)
    recorded.edit(fused.order)
    recorded.replay()
    del x, y


def test_short_rows_of_long_formulas_are_left_alone():
    x = normal(4000, 20)
    fused = check(lambda x: ((x * 2).exp() * 3).sum(-1, keepdim=True) + x.tanh(), x, close=1e-5)
    assert [group.names for group in fused.report.fused] == [("mul", "exp", "mul", "tanh"), ("sum", "add")]


def test_programs_have_one_text_in_every_process():
    """The key of a kernel's file holds the program, which must not name anything of this process."""
    import subprocess
    import sys

    code = (
        "import fastgrad as fg\n"
        "from fastgrad.native.host.tape import record\n"
        "from fastgrad.compiler.fusion import codes, fuse\n"
        "from fastgrad.kernels.compile import fused_name\n"
        "names = []\n"
        "codes.compile_fused = lambda program, kernels: names.append(fused_name(program, kernels)) or 1\n"
        "junk = [fg.zeros(n + 1) for n in range(int(__import__('sys').argv[1]))]\n"
        "x, y = fg.zeros(40, 60), fg.zeros(60)\n"
        "with record() as tape:\n"
        "    z = ((x * y).tanh() + 0.7).sum(-1)\n"
        "fuse(tape.entries(), lambda address, nbytes: address == z.data_ptr())\n"
        "print(names)\n"
    )
    texts = {
        subprocess.run([sys.executable, "-c", code, n], capture_output=True, text=True, check=True).stdout
        for n in ("0", "5")
    }
    assert len(texts) == 1
    assert "fused-" in texts.pop()


def test_a_kernel_that_was_compiled_before_needs_no_compiler():
    import subprocess
    import sys

    code = (
        "import sys\n"
        "import fastgrad as fg\n"
        "from fastgrad.compiler.fusion import fuse\n"
        "from fastgrad.native.host.tape import record\n"
        "x = fg.ones(40, 60)\n"
        "with record() as tape:\n"
        "    z = ((x * x).tanh() + x).sum(-1)\n"
        "tape.edit(fuse(tape.entries(), lambda address, nbytes: address == z.data_ptr()).order)\n"
        "tape.replay()\n"
        "print(tape.launches, 'numba' in sys.modules)\n"
    )
    for _ in range(2):
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "1 False\n"


def test_parts_of_a_group_with_rows():
    """More results than a frame has room for, and what follows from a reduction in another part than that."""

    def function(x, y):
        total = (x * y).sum(-1, keepdim=True)
        results = []
        for k in range(20):
            results.append((x + k * 0.5) * total)
            total = total * 0.9 + 0.1
            results.append(total)
        return tuple(results)

    fused = check(function, normal(12, 47), normal(12, 47), close=1e-5)
    assert len(fused.report.fused) > 1
