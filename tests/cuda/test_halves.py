"""float16 and bfloat16 on GPUs, over the driver without one: what the CPU computes, and autocast."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad.functions.data import elements_of
from tests.cuda.fake_driver import FakeDriver, attached

HALVES = pytest.mark.parametrize("half", [fg.float16, fg.bfloat16], ids=lambda d: d.name)


@pytest.fixture(scope="module")
def driver():
    fake = FakeDriver()
    with attached(fake):
        yield fake
        gc.collect()


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(found, expected, dtype, scale: float = 1) -> None:
    """Compare tensors of a dtype, of the GPU and of the CPU."""
    assert found.dtype is expected.dtype is dtype
    off = {fg.float16: 2e-3, fg.bfloat16: 1.6e-2}.get(dtype, 1e-5) * scale
    np.testing.assert_allclose(found.cpu().float().numpy(), expected.float().numpy(), rtol=off, atol=off)


PRODUCTS = {
    "mm": lambda a, b: a @ b.t(),
    "by columns": lambda a, b: a.t().contiguous().t() @ b.t(),
    "bmm": lambda a, b: fg.bmm(a.view(2, 3, 8), b.view(2, 8, 3)),
    "mv": lambda a, b: a @ b[0],
    "dot": lambda a, b: a[0] @ b[1],
    "linear": lambda a, b: F.linear(a, b, b[:, 0]),
    "addmm": lambda a, b: fg.addmm(a[:, :6], a, b.t(), beta=0.5, alpha=2),
    "addmm of nothing": lambda a, b: fg.addmm(a[:, :6] * float("nan"), a, b.t(), beta=0),
    "addmm of no factors": lambda a, b: fg.addmm(a[:, :6], a[:, :0], b.t()[:0]),
    "of no factors": lambda a, b: a[:, :0] @ b.t()[:0],
}


@HALVES
@pytest.mark.parametrize("program", PRODUCTS.values(), ids=PRODUCTS)
def test_products_are_those_of_cublas(driver, half, program):
    def computed(device):
        a, b = (fg.tensor(numbers(6, 8, seed=k)).to(half).to(device).requires_grad_() for k in range(2))
        out = program(a, b)
        if out.requires_grad:
            out.sum().backward()
        return [out.detach(), *(x.grad for x in (a, b) if x.grad is not None)]

    expected = computed("cpu")
    driver.launched.clear()
    found = computed("cuda")
    for one, other in zip(found, expected, strict=True):
        close(one, other, half, 8)
    products = {name for name in driver.launched if name.startswith("product")}
    assert products <= {f"product of {half.name}"}


def test_what_is_added_to_a_product_of_halves_is_rounded_with_it(driver):
    a, b = fg.full((1, 1), 1.0, dtype=fg.float16), fg.full((1, 1), 2049.0).half()  # 2048
    c = fg.full((1, 1), 1.5, dtype=fg.float16)
    found = fg.addmm(c.cuda(), a.cuda(), b.cuda() + 0)
    assert found.item() == fg.addmm(c, a, b).item() == 2050.0


@HALVES
def test_elements_go_to_the_gpu_and_back_as_they_are(driver, half):
    x = fg.empty(1 << 16, dtype=half)
    every = np.arange(1 << 16, dtype=np.uint16)
    elements_of(x)[...] = every.view(elements_of(x).dtype)
    for y in (x.cuda().cpu(), x.cuda().clone().cpu(), x.cuda().view(2, -1).t().contiguous().cpu().view(-1)):
        got = elements_of(y).view(np.uint16)
        expected = every if y.shape == x.shape and got[1] == 1 else every.reshape(2, -1).T.ravel()
        np.testing.assert_array_equal(got, expected)


# --- autocast --------------------------------------------------------------------------------------------------


def _gates(a, count: int):
    """Weights of a cell of float32, for inputs and for states."""
    return [fg.tensor(numbers(4 * count, 4, seed=seed), device=a.device) for seed in range(2)]


# What functions of a, a half, and x of float32 give, by PyTorch's lists for CUDA.
FAST = {
    "mm": lambda a, x: a @ x,
    "mm of float32": lambda a, x: x @ x,
    "mv": lambda a, x: fg.mv(a, x[0]),
    "bmm": lambda a, x: fg.bmm(a[None], x[None]),
    "addmm": lambda a, x: fg.addmm(x, a, x),
    "linear": lambda a, x: F.linear(a, x, x[0]),
    "attention": lambda a, x: F.scaled_dot_product_attention(a[None, None], x[None, None], a[None, None]),
    "prelu": lambda a, x: F.prelu(a, x[0, :1]),
    "lstm_cell": lambda a, x: fg.lstm_cell(x, (x, x), *_gates(a, 4))[0] * a,
    "gru_cell": lambda a, x: fg.gru_cell(a, x, *_gates(a, 3)),
    "rnn_tanh_cell": lambda a, x: fg.rnn_tanh_cell(a, x, x, x),
    "rnn_relu_cell": lambda a, x: fg.rnn_relu_cell(a, x, x, x),
}
EXACT = {
    "exp": lambda a, x: a.exp(),
    "log": lambda a, x: (a.abs() + 1).log(),
    "log1p": lambda a, x: fg.log1p(a.abs()),
    "power": lambda a, x: a**2,
    "power of a number": lambda a, x: 2**a,
    "inverse": lambda a, x: 1 / (a.abs() + 1),
    "rsqrt": lambda a, x: (a.abs() + 1).rsqrt(),
    "softplus": lambda a, x: F.softplus(a),
    "sum": lambda a, x: a.sum(),
    "sum of rows": lambda a, x: a.sum(1),
    "prod": lambda a, x: a.prod(1),
    "cumsum": lambda a, x: a.cumsum(1),
    "norm": lambda a, x: a.norm(),
    "largest": lambda a, x: fg.linalg.vector_norm(a, float("inf")),
    "softmax": lambda a, x: a.softmax(1),
    "log_softmax": lambda a, x: F.log_softmax(a, 1),
    "logsumexp": lambda a, x: a.logsumexp(1),
    "layer_norm": lambda a, x: F.layer_norm(a, (4,), x[0], x[1]),
    "rms_norm": lambda a, x: F.rms_norm(a, (4,), x[0]),
    "group_norm": lambda a, x: F.group_norm(a, 2),
    "cosine_similarity": lambda a, x: F.cosine_similarity(a, a),
    "mse": lambda a, x: F.mse_loss(a, x),
    "nll": lambda a, x: F.nll_loss(a, fg.tensor([0, 1, 2, 3], device=a.device)),
    "cross_entropy": lambda a, x: F.cross_entropy(a, fg.tensor([0, 1, 2, 3], device=a.device)),
    "bce": lambda a, x: F.binary_cross_entropy_with_logits(a, x.sigmoid()),
    "dot": lambda a, x: fg.dot(a[0], x[0]),
    "scatter_add": lambda a, x: x.scatter_add(0, fg.zeros(4, 4, dtype=fg.int64, device=a.device), a),
    "add": lambda a, x: a + x,
    "cat": lambda a, x: fg.cat([a, x]),
}
AS_THEY_ARE = {
    "relu": lambda a, x: F.relu(a),
    "tanh": lambda a, x: a.tanh(),
    "gelu": lambda a, x: F.gelu(a),
    "mean": lambda a, x: a.mean(),
    "mul": lambda a, x: a * 3,
    "div": lambda a, x: a / 3,
    "exp in place": lambda a, x: a.clone().exp_(),
    "dot alike": lambda a, x: fg.dot(a[0], a[1]),
    "dropout": lambda a, x: F.dropout(a, 0.0),
    "var": lambda a, x: a.var(),
}
LISTS = [(*case, kind) for kind, cases in ((0, FAST), (1, EXACT), (2, AS_THEY_ARE)) for case in cases.items()]


@HALVES
@pytest.mark.parametrize(("name", "function", "kind"), LISTS, ids=[case[0] for case in LISTS])
def test_dtypes_in_autocast(driver, half, name, function, kind):
    x = fg.tensor(numbers(4, 4), device="cuda")
    a = x.to(half).requires_grad_()
    for _ in range(2):  # the second time by a plan
        with fg.autocast("cuda", half):
            out = function(a, x)
        assert out.dtype is (half, fg.float32, half)[kind]
    if "place" not in name and name not in ("cat", "scatter_add", "mm of float32"):
        out.sum().backward()
        assert a.grad.dtype is half
    with fg.autocast("cpu", half):
        assert name == "mm of float32" or (x @ x).dtype is fg.float32
        assert a.exp().dtype is half


def test_autocast_of_devices_apart(driver):
    x, y = fg.ones(2, 2), fg.ones(2, 2, device="cuda")
    assert fg.get_autocast_dtype("cuda") is fg.float16
    assert fg.amp.is_autocast_available("cuda")
    with fg.autocast("cuda"):
        assert (x @ x).dtype is fg.float32
        assert (y @ y).dtype is fg.float16
        assert fg.is_autocast_enabled()
        assert not fg.is_autocast_enabled("cpu")
        with fg.autocast("cpu"):
            assert ((x @ x).dtype, (y @ y).dtype) == (fg.bfloat16, fg.float16)
        with fg.autocast("cuda", enabled=False):
            assert (y @ y).dtype is fg.float32
        with fg.autocast("cuda", fg.bfloat16):
            assert (y @ y).dtype is fg.get_autocast_dtype("cuda") is fg.bfloat16
        assert (y.double() @ y.double()).dtype is fg.float64
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            F.binary_cross_entropy(y, y)
    assert F.binary_cross_entropy(y, y).dtype is fg.float32
    assert fg.cuda.is_bf16_supported()
    assert fg.cuda.is_bf16_supported(including_emulation=False)


def trained(device: str, model, x, loss_of, half, scaled: bool):
    """What some steps leave behind."""
    model.to(device)
    optimizer = fg.optim.AdamW(model.parameters(), lr=0.01)
    scaler = fg.amp.GradScaler(device, init_scale=256.0, enabled=scaled)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        with fg.autocast(device, half):
            loss = loss_of(model(x.to(device)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses, [p.detach().cpu().numpy() for p in model.parameters()]


class Block(fg.nn.Module):
    """A layer of a transformer."""

    def __init__(self):
        super().__init__()
        self.first, self.second = fg.nn.LayerNorm(8), fg.nn.LayerNorm(8)
        self.attention = fg.nn.MultiheadAttention(8, 2, batch_first=True)
        self.inner, self.outer = fg.nn.Linear(8, 16), fg.nn.Linear(16, 8)

    def forward(self, x):
        y = self.first(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.outer(F.gelu(self.inner(self.second(x))))


def mlp():
    return fg.nn.Sequential(fg.nn.Linear(8, 16), fg.nn.ReLU(), fg.nn.Dropout(0.0), fg.nn.Linear(16, 8))


@HALVES
@pytest.mark.parametrize("make", [mlp, Block])
def test_training_in_autocast(driver, half, make):
    x = fg.tensor(numbers(2, 5, 8))
    classes = fg.tensor(np.random.default_rng(1).integers(0, 8, 10))
    states = []
    for device in ("cuda", "cpu"):
        fg.manual_seed(0)
        driver.launched.clear()
        states.append(
            trained(
                device,
                make(),
                x,
                lambda out: F.cross_entropy(out.reshape(10, 8), classes.to(out.device)),
                half,
                half is fg.float16,
            )
        )
        if device == "cuda":
            assert f"product of {half.name}" in driver.launched
            assert "product" not in driver.launched
    (found, weights), (expected, others) = states
    assert found[-1] < found[0]
    off = 2e-3 if half is fg.float16 else 2e-2
    np.testing.assert_allclose(found, expected, rtol=off)
    for a, b in zip(weights, others, strict=True):
        off = np.abs(a - b)  # Adam's first steps are as long where a gradient is nearly zero
        if off.shape == (
            24,
        ):  # biases of queries, keys and values: those of keys change nothing but by rounding
            off = np.delete(off, slice(8, 16))
        assert off.max() <= 0.02


def test_infinite_gradients_on_the_gpu_are_found(driver):
    w = fg.ones(3, device="cuda", requires_grad=True)
    optimizer, scaler = fg.optim.SGD([w], lr=1.0), fg.amp.GradScaler("cuda", init_scale=2.0)
    for factor, expected in ((float("inf"), 1.0), (0.5, 0.5)):
        optimizer.zero_grad()
        scaler.scale((w * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert w.detach().cpu().tolist() == [expected] * 3
    assert scaler.get_scale() == 1.0


def test_without_a_gpu_it_is_off(no_driver):
    with pytest.warns(UserWarning, match="CUDA is not available"), fg.autocast("cuda"):
        assert not fg.is_autocast_enabled("cuda")
    with pytest.warns(UserWarning, match="CUDA is not available"):
        assert not fg.amp.GradScaler("cuda").is_enabled()
    assert fg.cuda.is_bf16_supported() is False


def test_a_function_that_leaves_autocast_does_what_it_did_when_it_is_called_again(driver):
    from fastgrad.functions.autocasting import lower_precision
    from fastgrad.functions.plans import planned

    @planned
    @lower_precision
    def weights(x):
        return F.softmax(x, 1) @ x

    x = fg.tensor(numbers(4, 4), device="cuda")
    for _ in range(4):
        with fg.autocast("cuda"):
            assert weights(x).dtype is fg.float16
            assert F.softmax(x, 1).dtype is fg.float32
