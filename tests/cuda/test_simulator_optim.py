"""Kernels of the CUDA device over groups of tensors, over the host's memory; see `test_simulator`."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_comparing import ROWS, agree, bits, guarded, numbers, run_cpu, uniform
from cuda_halves import read, stored
from cuda_simulator import TARGET, run_many, words_of

from fastgrad.kernels.cuda import optim
from fastgrad.kernels.cuda.compile import body_of
from fastgrad.kernels.cuda.frames import view
from fastgrad.native.contracts.element_types import (
    BFLOAT16,
    DTYPES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    HALVES,
)
from fastgrad.native.contracts.frames.elementwise import FLAT

pytestmark = pytest.mark.cudasim

STORED = pytest.mark.parametrize("dtype", [FLOAT32, *HALVES], ids=DTYPES.__getitem__)
THREADS = 32
SIZES = (0, 1, 3, 100, 511, 1300, 7, 256)
# --- training --------------------------------------------------------------------------------------------------


SETTINGS = {
    "sgd_step": {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01},
    "adam_step": {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.01},
    "rmsprop_step": {"lr": 0.1, "alpha": 0.9, "eps": 1e-8, "weight_decay": 0.01, "momentum": 0.9},
    "adagrad_step": {"lr": 0.1, "lr_decay": 0.1, "eps": 1e-8, "weight_decay": 0.01},
    "adadelta_step": {"lr": 0.1, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.01},
    "adamax_step": {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.01},
    "nadam_step": {
        "lr": 0.1,
        "beta1": 0.9,
        "beta2": 0.99,
        "eps": 1e-8,
        "weight_decay": 0.01,
        "momentum_decay": 0.004,
    },
    "radam_step": {"lr": 0.1, "beta1": 0.9, "beta2": 0.7, "eps": 1e-8, "weight_decay": 0.01},
    "rprop_step": {"etaminus": 0.5, "etaplus": 1.2, "step_size_min": 1e-6, "step_size_max": 0.7},
    "asgd_step": {"lambd": 0.01, "weight_decay": 0.01},
}
BUFFERS = {
    "sgd_step": ("momentum_buffer",), "adam_step": ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
    "rmsprop_step": ("square_avg", "grad_avg", "momentum_buffer"), "adagrad_step": ("sum",),
    "adadelta_step": ("square_avg", "acc_delta"), "adamax_step": ("exp_avg", "exp_inf"),
    "nadam_step": ("exp_avg", "exp_avg_sq"), "radam_step": ("exp_avg", "exp_avg_sq"),
    "rprop_step": ("prev", "step_size"), "asgd_step": ("ax",),
}  # fmt: skip


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    """Chunks of few elements, so that small tensors have several."""
    monkeypatch.setattr(optim, "CHUNK", 256)


@pytest.mark.parametrize("name", SETTINGS)
def test_steps(name):
    for flags, counted, n, dtype, single in (
        (0, 1, 150, FLOAT32, FLOAT32), (15, 0, 150, FLOAT32, FLOAT64), (2, 0, 0, FLOAT32, FLOAT32),
        (9, 0, 50, FLOAT64, FLOAT32), (15, 1, 50, FLOAT16, FLOAT32), (15, 1, 50, BFLOAT16, FLOAT32),
    ):  # fmt: skip
        kept = BUFFERS[name] if flags != 2 else BUFFERS[name][:2]
        outs = {field: uniform(n, k, dtype) for k, field in enumerate(("param", *kept))}
        if "grad_avg" in outs:
            outs["grad_avg"] = stored(read(outs["grad_avg"], dtype) / 10, dtype)
        if name not in ("sgd_step", "asgd_step"):
            outs["step"] = np.array([4], DTYPES[single])
        if name == "nadam_step":
            outs["mu_product"] = np.array([0.4], DTYPES[single])
        settings = {key: bits(value) for key, value in SETTINGS[name].items()}
        frame = {"n": n, "single": single, "counted": counted, "grad": uniform(n, 9, dtype), "flags": flags}
        if name == "asgd_step":
            frame |= {k: np.array([v], DTYPES[single]) for k, v in (("eta", 0.1), ("mu", 0.5), ("step", 4))}
        agree(name, dtype, FLAT, outs, 64, 32, **frame, **settings)


@pytest.mark.parametrize("order", [2.0, 1.0, np.inf, -np.inf, 0.0, 3.0])
def test_norms(order):
    for n, dtype in ((0, FLOAT32), (70, FLOAT32), (70, FLOAT64), (70, FLOAT16), (70, BFLOAT16)):
        tensor = stored(uniform(n, 0, FLOAT64) - 0.5, dtype)
        frame = {"n": n, "tensor": tensor, "order": bits(order), "parts__data": np.zeros(1)}
        agree("norm_part", dtype, FLAT, {"total": np.array([0.75])}, 16, 64, **frame)


@STORED
def test_scaling_and_clipping(dtype):
    x = numbers(np.random.default_rng(0), 150, dtype)
    for factor in (1.0, 0.3):
        given = {"n": 150, "single": FLOAT64, "factor": np.array([factor])}
        agree("scale", dtype, FLAT, {"tensor": x}, 0, 32, **given)
    agree("clip", dtype, FLAT, {"tensor": x}, 0, 32, n=150, bound=bits(0.7))
    for y in (x, stored(np.ones(150), dtype)):  # with and without what is not finite
        given = {"n": 150, "single": FLOAT32, "inverse": bits(0.3)}
        agree("unscale", dtype, FLAT, {"tensor": y, "found_inf": np.zeros(1, np.float32)}, 0, 32, **given)


# --- many at once ----------------------------------------------------------------------------------------------


class Groups:
    """Groups of tensors of some sizes, each beside elements that nobody may write to."""

    def __init__(
        self, name: str, dtype: int, sizes, shift: int = 0, flags: int = 0, counted: int = 0
    ) -> None:
        self.name, self.dtype, self.kernel = name, dtype, ROWS[name]
        settings = {key: bits(value) for key, value in SETTINGS[name].items()}
        self.arrays, self.frames = [], []
        for k, n in enumerate(sizes):
            values = {
                field: uniform(n + shift, 7 * k + j, dtype)
                for j, field in enumerate(("param", *BUFFERS[name]))
            }
            if "grad_avg" in values:
                values["grad_avg"] /= 10
            if name not in ("sgd_step", "asgd_step"):
                values["step"] = np.array([k % 3], np.float32)
            if name == "nadam_step":
                values["mu_product"] = np.array([0.4], np.float32)
            own = {key: guarded(value) for key, value in values.items()}
            given = {key: v if v.size == 1 else v[shift:] for key, v in own.items()}
            given |= {key: np.array([v], np.float32) for key, v in OTHERS.get(name, {}).items()}
            frame = {"n": n, "single": FLOAT32, "counted": counted, "flags": flags}
            frame["grad"] = uniform(n + shift, 7 * k + 6, dtype)[shift:]
            self.arrays.append((own, given, frame["grad"]))
            self.frames.append(words_of(self.kernel.frame(FLAT), **frame, **given, **settings))

    def run(self, at_once: bool) -> None:
        body = body_of(self.kernel, self.dtype, FLAT, TARGET, THREADS)
        seen = view(self.kernel.frame(FLAT), body.kind, body.repeats)
        for frames in [self.frames] if at_once else [[frame] for frame in self.frames]:
            run_many(body, seen, frames)

    def results(self) -> list[bytes]:
        return [array.base.tobytes() for own, _, _ in self.arrays for array in own.values()]


OTHERS = {"asgd_step": {"eta": 0.1, "mu": 0.5, "step": 4}}


@pytest.mark.parametrize(("dtype", "shift"), [(FLOAT32, 0), (FLOAT32, 1), (FLOAT64, 0), (FLOAT64, 1)])
@pytest.mark.parametrize("name", SETTINGS)
def test_many_groups_are_what_each_is_alone_and_what_the_cpu_makes_of_it(name, dtype, shift):
    together, apart, expected = (Groups(name, dtype, SIZES, shift, flags=2) for _ in range(3))
    together.run(at_once=True)
    apart.run(at_once=False)
    assert together.results() == apart.results()
    for frame in expected.frames:
        run_cpu(expected.kernel, dtype, FLAT, frame, THREADS)
    for (got, _, _), (wanted, _, _) in zip(together.arrays, expected.arrays, strict=True):
        for key, array in wanted.items():
            np.testing.assert_allclose(
                got[key], array, 2e-5 if dtype == FLOAT32 else 1e-12, 1e-6, err_msg=key
            )


def test_more_groups_than_a_launch_takes():
    sizes = [k % 5 for k in range(130)]
    together, apart = (Groups("adam_step", FLOAT32, sizes) for _ in range(2))
    together.run(at_once=True)
    apart.run(at_once=False)
    assert together.results() == apart.results()
    assert [own["step"][0] for own, _, _ in together.arrays] == [k % 3 + 1 for k in range(130)]


@pytest.mark.parametrize("order", [2.0, 1.0, np.inf, -np.inf, 0.0, 3.0])
@pytest.mark.parametrize(("dtype", "shift"), [(FLOAT32, 0), (FLOAT32, 1), (FLOAT64, 0), (FLOAT16, 0)])
def test_norms_of_many(order, dtype, shift):
    kernel = ROWS["norm_part"]
    tensors = [stored(uniform(n + shift, k, FLOAT64) - 0.5, dtype)[shift:] for k, n in enumerate(SIZES)]
    tensors[3][:] = 0
    found = []
    for run in (run_on_gpu, run_on_cpu):
        total, parts = np.array([0.25]), guarded(np.zeros(64))
        frames = [
            words_of(
                kernel.frame(FLAT),
                n=t.size,
                tensor=t,
                total=total,
                order=bits(order),
                parts__data=parts,
                single=FLOAT64,
            )
            for t in tensors
        ]
        run(kernel, dtype, frames)
        found.append(total[0])
    np.testing.assert_allclose(found[0], found[1], 1e-14)


def run_on_gpu(kernel, dtype, frames):
    body = body_of(kernel, dtype, FLAT, TARGET, THREADS)
    run_many(body, view(kernel.frame(FLAT), body.kind, body.repeats), frames)


def run_on_cpu(kernel, dtype, frames):
    for frame in frames:
        run_cpu(kernel, dtype, FLAT, frame, THREADS)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("at", [0, 300, 1299])
def test_a_norm_over_what_is_not_finite(bad, at):
    kernel, tensors = ROWS["norm_part"], [uniform(n, k, FLOAT32) for k, n in enumerate(SIZES)]
    tensors[5][at] = bad
    for order in (2.0, np.inf):
        total, parts = np.zeros(1), np.zeros(64)
        frames = [
            words_of(
                kernel.frame(FLAT), n=t.size, tensor=t, total=total, order=bits(order), parts__data=parts
            )
            for t in tensors
        ]
        run_on_gpu(kernel, FLOAT32, frames)
        np.testing.assert_array_equal(total, [bad])


@pytest.mark.parametrize("bad", [np.nan, -np.inf, None])
@pytest.mark.parametrize(("dtype", "shift"), [(FLOAT32, 0), (FLOAT32, 1), (FLOAT64, 0), (BFLOAT16, 0)])
def test_undoing_a_scale_in_many_notes_what_is_not_finite(bad, dtype, shift):
    kernel, values = ROWS["unscale"], [uniform(n + shift, k, FLOAT64) for k, n in enumerate(SIZES)]
    if bad is not None:
        values[5][1299] = bad
    found = []
    for run in (run_on_gpu, run_on_cpu):
        arrays, flag = [guarded(stored(v, dtype)) for v in values], guarded(np.zeros(1, np.float32))
        given = {"found_inf": flag, "single": FLOAT32, "inverse": bits(0.3)}
        frames = [words_of(kernel.frame(FLAT), n=a.size - shift, tensor=a[shift:], **given) for a in arrays]
        run(kernel, dtype, frames)
        assert flag[0] == (bad is not None)
        found.append([array.base.tobytes() for array in (*arrays, flag)])
    assert found[0] == found[1]


@pytest.mark.parametrize("shift", [0, 1])
def test_scaling_and_clipping_of_many(shift):
    for name, factors in (("scale", (1.0, 0.3)), ("clip", (None,))):
        for factor in factors:
            arrays = [guarded(uniform(n + shift, k, FLOAT32)) for k, n in enumerate(SIZES)]
            other = (
                {"bound": bits(0.4)} if factor is None else {"factor": np.array([factor]), "single": FLOAT64}
            )
            frames = [
                words_of(ROWS[name].frame(FLAT), n=a.size - shift, tensor=a[shift:], **other) for a in arrays
            ]
            wanted = [a.copy() for a in arrays]
            for w in wanted:
                w[shift:] = (
                    w[shift:] * np.float32(factor) if factor else np.clip(w[shift:], -0.4, np.float32(0.4))
                )
            run_on_gpu(ROWS[name], FLOAT32, frames)
            for a, w in zip(arrays, wanted, strict=True):
                np.testing.assert_array_equal(a, w)
                assert (a.base[:8].view(np.uint8) == 0x5A).all()
                assert (a.base[-8:].view(np.uint8) == 0x5A).all()
