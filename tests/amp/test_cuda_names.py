"""`fastgrad.cuda.amp`: the old names for GPUs, each with a warning."""

from __future__ import annotations

import inspect
import warnings

import pytest

import fastgrad as fg
from fastgrad.cuda import amp
from tests.cuda.fake_driver import FakeDriver, attached


def identity(ctx, x):
    return x


USES = {
    "autocast": lambda amp: amp.autocast(enabled=False),
    "GradScaler": lambda amp: amp.GradScaler(enabled=False),
    "custom_fwd": lambda amp: amp.custom_fwd(identity),
    "custom_fwd later": lambda amp: amp.custom_fwd(cast_inputs=None),
    "custom_bwd": lambda amp: amp.custom_bwd(identity),
}


def warned(use, module):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        made = use(module)
    return made, [(w.category, str(w.message), w.filename) for w in found]


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_each_says_what_it_is_called_now(use):
    _, [(category, text, filename)] = warned(use, amp)
    assert category is FutureWarning
    assert text.startswith("`fastgrad.cuda.amp.")
    assert filename == __file__


@pytest.mark.parity
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_warnings_are_those_of_pytorch(use):
    import torch

    _, found = warned(use, amp)
    _, expected = warned(use, torch.cuda.amp)
    assert [(c, t.replace("fastgrad", "torch"), f) for c, t, f in found] == expected


@pytest.mark.parity
@pytest.mark.parametrize("name", amp.__all__)
def test_signatures_are_those_of_pytorch(name):
    import torch

    def parameters(module):
        found = inspect.signature(getattr(module, name)).parameters.values()
        return [(p.name, p.kind, str(p.default).replace("fastgrad", "torch")) for p in found]

    assert set(amp.__all__) == set(torch.cuda.amp.__all__)
    assert parameters(amp) == parameters(torch.cuda.amp)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_they_are_what_the_new_names_are_for_gpus():
    assert fg.cuda.amp is amp
    with attached(FakeDriver()):
        assert not amp.amp_definitely_not_available()
        with amp.autocast():
            assert fg.get_autocast_dtype("cuda") is fg.float16
            assert fg.is_autocast_enabled("cuda")
            assert not fg.is_autocast_enabled("cpu")
        with amp.autocast(True, fg.bfloat16, False):
            assert fg.get_autocast_dtype("cuda") is fg.bfloat16
            with amp.autocast(enabled=False):
                assert not fg.is_autocast_enabled("cuda")
        assert amp.autocast()(fg.is_autocast_enabled)("cuda")
        scaler = amp.GradScaler(init_scale=8.0)
        assert isinstance(scaler, fg.amp.GradScaler)
        assert scaler.get_scale() == 8.0
        assert scaler.is_enabled()


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_wrong_arguments_are_refused():
    with pytest.raises(TypeError):
        amp.autocast("cuda", dtype=3)
    with pytest.raises(TypeError):
        amp.custom_bwd()
    with pytest.raises(TypeError):
        amp.GradScaler("cuda", 1, 2, 3, 4, 5)
