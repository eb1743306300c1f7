"""Every op that a program can call has a row in the op table, and the table knows which have a derivative.

What the table holds is benchmarked; every benchmark runs, and together they run every kernel.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from op_cases import OP_CASES

from fastgrad.library.formulas import PREFIX as LIBRARY
from fastgrad.native.contracts.element_types import DTYPES, SELDOM, WITHOUT_HALVES
from fastgrad.native.host.tables import OPS
from fastgrad.ops.native_hooks import PREFIX
from fastgrad.ops.registry import Op

ROWS = {case.name.partition(".")[0] for case in OP_CASES}

# Ops that programs reach by a method or an operator: the row that tests them.
CALLED = {
    "assign": "copy_",
    "batch_norm_fixed": "batch_norm",
    "filled": "full",
    "index": "getitem",
    "index_put_": "setitem",
    "probabilities": "binary_cross_entropy",
    "scatter_into": "scatter",
    "sequence": "arange",
    "slice": "getitem",
}

# Ops that only rules and the sweep call: the rows of the ops that they serve test them, to second order.
SERVING = {
    "carried_back": "prod",
    "carried_on": "prod",
    "cofactors": "det",
    "cofactors_derivative": "det",
    "cumprod_integers": "cumprod",
    "embedding_transposed": "embedding",
    "expand_back": "sum",
    "expand_mean": "mean",
    "expand_mean_back": "mean",
    "expand_reduced": "sum",
    "gru_candidate": "gru_cell",
    "gru_state": "gru_cell",
    "householder": "householder_product",
    "interchange": "lu_factor",
    "interchange_back": "lu_factor",
    "layer_norm_gradients": "layer_norm",
    "log_sigmoid_buffer": "logsigmoid",
    "lstm_output": "lstm_cell",
    "lstm_state": "lstm_cell",
    "matrix_exp_derivative": "matrix_exp",
    "mean_like": "mean",
    "number": "var",
    "place_rows": "max",
    "pool_gather": "max_pool2d",
    "products_after": "prod",
    "products_before": "prod",
    "reduce_like": "sum",
    "reflected": "ormqr",
    "restore_reduced": "amax",
    "reshape_to": "reshape",
    "reversed_cumsum": "cumsum",
    "rms_norm_gradients": "rms_norm",
    "safe_softmax": "scaled_dot_product_attention",
    "select_rows": "max",
    "sum_to": "expand",
    "unpermute": "permute",
    "zeros_of": "max",
}

# Ops that no row can call, with what tests them.
ELSEWHERE = {
    "accumulate_grad": "the node of a leaf; never called",
    "boundary": "the node of a module's boundary; never called",
    "custom_function": "the node of a function that users wrote; never called",
    "alias": "a view of the whole: what squeeze and others return where nothing is left to do",
    "ctc_loss": "a loss without second derivatives: tests/nn/test_ctc.py",
    "copy_slices": "the history of a tensor of which a view was changed in place",
    "segment_reduce": "a function over pieces of a dimension: tests/ops/test_segments.py",
    "view_as_real": "complex numbers: tests/ops/test_complex.py",
    "view_as_complex": "the same",
    "conj": "views of conjugates: tests/ops/test_conjugates.py",
    "neg_view": "the same",
    "conj_physical": "complex numbers: tests/ops/test_complex.py",
    "real_part": "the same",
    "imag_part": "the same",
    "complex": "the same",
    "polar": "the same",
    "sgn": "the same",
    "angle": "the same",
    "fft": "Fourier transforms: tests/ops/test_fft.py",
    "ifft": "the same",
    "fft_of_reals": "the same",
    "ifft_of_reals": "the same",
    "rfft": "the same",
    "rfft_doubled": "the same",
    "irfft": "the same",
    "irfft_halved": "the same",
    "lstm": "the layer: tests/nn/test_recurrent_steps.py",
    "gru": "the layer: tests/nn/test_recurrent_steps.py",
    "rnn_tanh": "the layer: tests/nn/test_recurrent_steps.py",
    "rnn_relu": "the layer: tests/nn/test_recurrent_steps.py",
    "panels": "large products: tests/kernels/test_gemm.py",
    "random": "random numbers: tests/kernels/test_random.py",
    "shuffle": "the same",
    "place_strided": "derivatives of the two above",
    "sgd_step": "the optimizers: tests/optim",
    "adam_step": "the optimizers: tests/optim",
    "rmsprop_step": "the optimizers: tests/optim",
    "adagrad_step": "the optimizers: tests/optim",
    "adadelta_step": "the optimizers: tests/optim",
    "adamax_step": "the optimizers: tests/optim",
    "nadam_step": "the optimizers: tests/optim",
    "radam_step": "the optimizers: tests/optim",
    "rprop_step": "the optimizers: tests/optim",
    "asgd_step": "the optimizers: tests/optim",
    "asgd_rate": "the optimizers: tests/optim",
    "_standard_gamma": "random numbers: tests/distributions/test_samples.py",
    "_standard_gamma_grad": "random numbers: tests/distributions/test_samples.py",
    "_dirichlet_grad": "random numbers: tests/distributions/test_samples.py",
    "poisson": "random numbers: tests/distributions/test_samples.py",
    "binomial": "random numbers: tests/distributions/test_samples.py",
    "norm_part": "clipping of gradients: tests/nn/test_clip_grad.py",
    "scale": "clipping of gradients: tests/nn/test_clip_grad.py",
    "unscale": "scaled losses: tests/amp",
    "clip": "clipping of gradients: tests/nn/test_clip_grad.py",
    "take_strided": "derivatives of the two above",
    "zero_strided": "derivatives of the two above",
}


# What an elementwise derivative is compiled to is an op as well.
FUSED = {f"{op.name}_d{name}" for op in OPS for name in op.inputs}


def base(op: Op) -> str:
    """The name of an op without that of the variant."""
    return op.name.partition(".")[0]


def is_internal(name: str) -> bool:
    name = name.partition(".")[0]
    own = name.startswith(
        (PREFIX, LIBRARY)
    )  # of hooks over elements and of users' ops, which tests have made
    return own or name in FUSED or name.endswith("_backward") or name in SERVING or name in ELSEWHERE


def test_every_op_has_a_row():
    missing = [
        op.name for op in OPS if not is_internal(op.name) and CALLED.get(base(op), op.called) not in ROWS
    ]
    assert not missing, f"add rows to tests/op_cases for {', '.join(missing)}"


@pytest.mark.parametrize("names", [CALLED, SERVING, ELSEWHERE], ids=["called", "serving", "elsewhere"])
def test_the_lists_here_name_ops(names: dict[str, str]):
    assert set(names) <= {op.name for op in OPS}
    assert not set(names) & ROWS, "these have rows of their own"


@pytest.mark.parametrize("names", [CALLED, SERVING], ids=["called", "serving"])
def test_the_lists_here_name_rows(names: dict[str, str]):
    assert set(names.values()) <= ROWS


def test_the_table_knows_what_is_differentiable():
    """A row that says that its op has no derivative would leave the derivative untested."""
    differentiable = {case.name.partition(".")[0] for case in OP_CASES if case.differentiable}
    wrong = [op.name for op in OPS if op.name in ROWS and bool(op.rules) != (op.name in differentiable)]
    assert not wrong


# --- benchmarks -----------------------------------------------------------------------------------------

# Every class does its work once in `setup`; classes that only track something start processes of their own.
RUN_BENCHMARKS = """
import inspect, json
from benchmarks import bench_core, bench_modules, bench_ops, bench_optim
from fastgrad.native.contracts.limits import N_DEVICES, N_DTYPES, N_LAYOUTS
from fastgrad.native.build.loader import KERNEL_TABLE
from fastgrad.ops.kernel_table import KERNELS

for module in (bench_core, bench_modules, bench_ops, bench_optim):
    for cls in vars(module).values():
        if inspect.isclass(cls) and any(name.startswith("time_") for name in vars(cls)):
            for param in getattr(cls, "params", [None]):
                cls().setup(*([] if param is None else [param]))

cells = N_DEVICES * N_DTYPES * N_LAYOUTS
idle = [k.name for k in KERNELS if not any(KERNEL_TABLE[k.id * cells + i] for i in range(cells))]
print(json.dumps([bench_ops.Forward.params, bench_ops.Gradients.params, idle]))
"""

# Copies from dtypes that no tensor has yet, or that no benchmark uses; what brings bytes to a device and back; rows
# whose launches have code of their own; losses that have no row; derivatives that there are not.
UNUSED = {
    f"copy_from_{code}" for code in range(len(DTYPES)) if code not in WITHOUT_HALVES or code in SELDOM
} | {
    "_standard_gamma",
    "_standard_gamma_grad",
    "_dirichlet_grad",
    "poisson",
    "binomial",
    "ctc_loss",
    "ctc_loss_backward",
    "ctc_second_derivative",
    "grid_third_derivative",
    "upload",
    "download",
    "peer_copy",
    "fused",
    "fused_rows",
    "shuffle",
}
# Complex numbers and transforms, whose ops have no rows.
UNUSED |= {
    "conj_physical", "real_part", "imag_part", "complex", "polar", "isreal", "sgn", "abs.complex", "angle",
    "fft", "ifft", "fft_of_reals", "ifft_of_reals", "rfft", "rfft_doubled", "irfft", "irfft_halved",
}  # fmt: skip


@pytest.fixture(scope="module")
def benchmarked() -> list[list[str]]:
    """The names of ops that are called, of those that are differentiated, and of kernels that did not run."""
    root = str(Path(__file__).resolve().parents[2])
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN_BENCHMARKS],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([root, *sys.path])},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_every_op_is_benchmarked(benchmarked: list[list[str]]):
    forward, gradients, _ = benchmarked
    names = {op.name: CALLED.get(base(op), op.called) for op in OPS if not is_internal(op.name)}
    assert set(names.values()) <= set(forward)
    with_rules = {names[op.name] for op in OPS if op.name in names and op.rules}
    assert with_rules | set(SERVING.values()) <= set(gradients)


def test_the_benchmarks_run_every_kernel(benchmarked: list[list[str]]):
    assert set(benchmarked[2]) == UNUSED, "no benchmark runs these kernels"
