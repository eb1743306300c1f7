"""Functions whose places follow from values, on the bodies of the GPU's kernels: what they give is the CPU's."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad.functions import draws
from tests.cuda.fake_driver import FakeDriver, attached

pytestmark = pytest.mark.cudasim


@pytest.fixture(scope="module")
def driver():
    fake = FakeDriver()
    with attached(fake, fake.simulator):
        yield fake
        gc.collect()


def bag(x, y):
    device = x.device
    indices, offsets = fg.tensor([0, 2, 1, 2, 3, 0], device=device), fg.tensor([0, 2, 2, 5], device=device)
    return F.embedding_bag(indices, x, offsets, mode="sum", per_sample_weights=y[0, :6], padding_idx=1)


def bags(mode):
    def found(x, y):
        indices = fg.tensor([[0, 2, 1], [3, 3, 0]], device=x.device)
        return F.embedding_bag(indices, x * y, mode=mode)

    return found


def grid(mode):
    def found(x, y):
        return F.grid_sample(x.reshape(1, 2, 3, 4), y.reshape(1, 3, 4, 2), mode=mode, align_corners=False)

    return found


def alignment(x, y):
    targets = fg.tensor([[1, 2], [3, 3]], device=x.device)
    return F.ctc_loss((x * y).reshape(3, 2, 4).log_softmax(-1), targets, (3, 3), (2, 1), reduction="none")


SCATTERING = {"prod": "scatter_mul", "amax": "scatter_amax", "amin": "scatter_amin"}


def places(x):
    return fg.tensor([[0, 2, 4], [5, 1, 0], [1, 2, 3], [3, 0, 1]], device=x.device)


def reduced(how):
    def found(x, y):
        return x.scatter_reduce(1, places(x), y[:, :3], how)

    return found


def positive(x):
    return x @ x.mT + fg.eye(4, device=x.device)


def well(x, y):
    """A matrix that is far from singular."""
    return (x @ y.mT) + 4 * fg.eye(4, device=x.device)


PROGRAMS = {
    "solve": (lambda x, y: fg.linalg.solve(well(x, y), y), {"solve"}),
    "inv": (lambda x, y: fg.linalg.inv(well(x, y)), {"inverse"}),
    "slogdet": (lambda x, y: fg.linalg.slogdet(well(x, y))[1], {"log_determinant", "inverse"}),
    "cholesky": (lambda x, y: fg.linalg.cholesky(positive(x)) @ y, {"cholesky", "triangular"}),
    "lu": (lambda x, y: fg.linalg.lu_factor(well(x, y))[0], {"lu", "triangular", "interchange"}),
    "qr": (lambda x, y: fg.linalg.qr(x.mT).R.abs() @ y, {"qr", "triangular"}),
    "eigh": (lambda x, y: fg.linalg.eigh(positive(x)).eigenvectors.square() @ y, {"eigh"}),
    "svd": (lambda x, y: fg.linalg.svd(x * y, full_matrices=False).U.square(), {"svd"}),
    "pinv": (lambda x, y: fg.linalg.pinv(well(x, y)[:, :3]), {"pinv"}),
    "lstsq": (lambda x, y: fg.linalg.lstsq(well(x, y), y).solution, {"least_squares", "pinv"}),
    "det": (lambda x, y: fg.linalg.det(well(x, y)), {"determinant", "cofactors"}),
    "matrix_exp": (lambda x, y: fg.linalg.matrix_exp(x @ y.mT), {"exponential", "exponential_derivative"}),
    **{f"scatter_reduce {how}": (reduced(how), {kernel}) for how, kernel in SCATTERING.items()},
    "scatter": (lambda x, y: x.scatter(1, places(x), y[:, :3]), {"scatter_set"}),
    "searchsorted": (lambda x, y: x * y * fg.searchsorted(y.sort(-1)[0].detach(), x.detach()), {"search"}),
    "cummax": (lambda x, y: (x * y).cummax(1)[0], {"cummax"}),
    "cummin": (lambda x, y: (x * y).cummin(0)[0], {"cummin"}),
    "logcumsumexp": (lambda x, y: (x * y).logcumsumexp(1), {"logcumsumexp", "logcumsumexp_backward"}),
    "embedding_bag": (bag, {"embedding_bag", "embedding_bag_backward", "embedding_bag_factors"}),
    "embedding_bag mean": (bags("mean"), {"embedding_bag", "embedding_bag_backward"}),
    "embedding_bag max": (bags("max"), {"embedding_bag_maxima"}),
    "grid_sample": (grid("bilinear"), {"grid_sample", "grid_images", "grid_places"}),
    "grid_sample cubic": (grid("bicubic"), {"grid_sample", "grid_images", "grid_places"}),
    "ctc_loss": (alignment, {"ctc_loss", "ctc_loss_backward"}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_gradients(driver, name):
    program, kernels = PROGRAMS[name]
    rng = np.random.default_rng(5)
    arrays = [rng.uniform(-0.9, 0.9, (4, 6)).astype(np.float32) for _ in range(2)]

    def found(device):
        x, y = (fg.tensor(a, device=device, requires_grad=True) for a in arrays)
        result = program(x, y)
        result.square().sum().backward()
        return [None if t is None else t.detach().cpu().numpy() for t in (result, x.grad, y.grad)]

    driver.launched.clear()
    mine = found("cuda")
    assert kernels <= set(driver.launched)
    for got, expected in zip(mine, found("cpu"), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_second_derivatives(driver):
    rng = np.random.default_rng(6)
    arrays = [rng.uniform(-0.9, 0.9, (4, 6)).astype(np.float32) for _ in range(2)]

    def found(device, program):
        x, y = (fg.tensor(a, device=device, requires_grad=True) for a in arrays)
        first = fg.autograd.grad(program(x, y).square().sum(), (x, y), create_graph=True)
        sum((g * g).sum() for g in first).backward()
        return x.grad.cpu().numpy(), y.grad.cpu().numpy()

    for name in ("logcumsumexp", "grid_sample cubic", "embedding_bag"):
        program, _ = PROGRAMS[name]
        for got, expected in zip(found("cuda", program), found("cpu", program), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4, err_msg=name)


def test_samples_are_those_of_the_cpu(driver):
    def found(device):
        rates = fg.tensor([0.5, 3.0, 30.0, 0.0], device=device)
        generator = fg.Generator(device=device).manual_seed(7)
        counts = fg.poisson(rates, generator=generator)
        successes = fg.binomial(rates.ceil() + 20, rates / 40, generator=generator)
        return [t.cpu().numpy() for t in (counts, successes, draws.standard_gamma(rates, generator))]

    driver.launched.clear()
    mine, theirs = found("cuda"), found("cpu")
    assert {"poisson", "binomial", "_standard_gamma"} <= set(driver.launched)
    np.testing.assert_array_equal(mine[0], theirs[0])
    np.testing.assert_array_equal(mine[1], theirs[1])
    np.testing.assert_allclose(mine[2], theirs[2], rtol=1e-6)


def test_an_index_that_is_out_of_range_is_told_when_something_waits(driver):
    table, indices = fg.ones(4, 3, device="cuda"), fg.tensor([[0, 4]], device="cuda")
    F.embedding_bag(indices, table)
    with pytest.raises(IndexError, match="embedding_bag"):
        fg.cuda.synchronize()
    assert table.sum().item() == 12
