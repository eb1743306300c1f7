"""Averages of models, beside PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import fastgrad as fg

AVERAGES = {
    "plain": lambda u: {},
    "swa": lambda u: {"avg_fn": u.get_swa_avg_fn()},
    "swa of lists": lambda u: {"multi_avg_fn": u.get_swa_multi_avg_fn()},
    "ema": lambda u: {"avg_fn": u.get_ema_avg_fn(0.7)},
    "ema of lists": lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.7)},
}


def model_of(lib):
    """A model with parameters of two dtypes, and buffers of floats and of integers."""
    model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.Linear(4, 2).double())
    change(lib, model, 0)
    return model


def change(lib, model, seed):
    rng = np.random.default_rng(seed)
    with lib.no_grad():
        for t in (*model.parameters(), *model.buffers()):
            values = rng.standard_normal(tuple(t.shape)) if t.is_floating_point() else np.array(3 * seed)
            t.copy_(lib.tensor(values))


@pytest.mark.parity
@pytest.mark.parametrize(
    ("kind", "use_buffers"),
    [(kind, flag) for kind in AVERAGES for flag in (False, True) if (kind, flag) != ("swa of lists", True)],
)
def test_same_averages(kind, use_buffers):
    torch = pytest.importorskip("torch")
    found = []
    for lib in (fg, torch):
        utils = lib.optim.swa_utils
        model = model_of(lib)
        averaged = utils.AveragedModel(model, use_buffers=use_buffers, **AVERAGES[kind](utils))
        for seed in range(1, 5):
            change(lib, model, seed)
            averaged.update_parameters(model)
        found.append(averaged.state_dict())
    assert list(found[0]) == list(found[1])
    for name, value in found[1].items():
        np.testing.assert_allclose(found[0][name].numpy(), value.numpy(), rtol=1e-5, atol=1e-6, err_msg=name)


def test_averages_of_integers():
    """PyTorch's function raises here, as its division takes no integers."""
    average = fg.tensor([4, 8])
    fg.optim.swa_utils.get_swa_multi_avg_fn()([average], [fg.tensor([8, 0])], 3)
    assert average.tolist() == [5, 6]


def test_the_copy_is_apart(lib):
    model = model_of(lib)
    averaged = lib.optim.swa_utils.AveragedModel(model)
    averaged.update_parameters(model)
    assert int(averaged.n_averaged) == 1
    before = averaged.module[0].weight.tolist()
    change(lib, model, 5)
    assert averaged.module[0].weight.tolist() == before
    assert all(p.requires_grad for p in averaged.parameters())
    other = lib.optim.swa_utils.AveragedModel(model)
    other.load_state_dict(averaged.state_dict())
    assert other.module[0].weight.tolist() == before
    averaged.eval()
    x = lib.ones(2, 3)
    assert averaged.module[0](x).tolist() == other.module[0](x).tolist()


def test_what_is_refused(lib):
    utils = lib.optim.swa_utils
    for make in (utils.get_ema_avg_fn, utils.get_ema_multi_avg_fn):
        for decay in (-0.1, 1.1):
            with pytest.raises(ValueError, match="Invalid decay"):
                make(decay)
    with pytest.raises(AssertionError, match="Only one"):
        utils.AveragedModel(
            lib.nn.Linear(1, 1), avg_fn=utils.get_swa_avg_fn(), multi_avg_fn=utils.get_swa_multi_avg_fn()
        )
    optimizer = lib.optim.SGD([lib.ones(1, requires_grad=True)], lr=0.1)
    for options in (
        {"anneal_strategy": "none"},
        {"anneal_epochs": -1},
        {"anneal_epochs": 1.5},
        {"swa_lr": [1, 2]},
    ):
        with pytest.raises(ValueError, match="must"):
            utils.SWALR(optimizer, **({"swa_lr": 0.1} | options))


@pytest.mark.parity
def test_statistics_of_batches():
    torch = pytest.importorskip("torch")
    found = []
    for lib in (fg, torch):
        norm = lib.nn.BatchNorm1d(3, momentum=0.3)
        model = lib.nn.Sequential(norm, lib.nn.Dropout(0.5)).eval()
        rng = np.random.default_rng(0)
        batches = [lib.tensor(rng.standard_normal((4 + k, 3)).astype("float32")) for k in range(3)]
        lib.optim.swa_utils.update_bn([batches[0], (batches[1], "label"), [batches[2]]], model)
        assert norm.momentum == 0.3
        assert not model.training
        assert not norm.training
        found.append([t.numpy() for t in norm.buffers()])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_models_without_statistics(lib):
    model = lib.nn.Linear(2, 2).eval()
    lib.optim.swa_utils.update_bn(iter(lambda: pytest.fail("no batch is needed"), 0), model)
    assert not model.training
