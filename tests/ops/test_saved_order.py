"""Saved-tensor hooks see what they see in PyTorch: which tensors, in which order, and the same in derivatives.

Each op of the table is called with every subset of its inputs requiring grad, in both libraries; what is packed and
unpacked is compared. What is still another log stands in `DIFFERENT` or, where only the pass under ``create_graph``
differs, in `COMPOSED`, with the reason; a test fails when an entry is no longer true.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from op_cases import OP_CASES, OpCase, Sample
from op_testing import as_list, by_name, cotangents, keywords, samples_of

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

SAMPLES = 8  # of a case

POSITIONS = "a mask is saved as the positions it stands for, and more than six index tensors as one"
SEVERAL = "several ops here, one in PyTorch, or the other way around"
MORE = "PyTorch refuses the call or its derivative"
SLICES = "the op that wrote to a view is a node behind CopySlices, not within it"
EXPANDED = "the gradient of a mean or a sum is expanded first, so nodes save one of the operands' sizes"
VIEWS = "PyTorch has other views of the factors of a product"
MASKED = "a mask of special values is applied by another op"
EMPTY = "with nothing to compute PyTorch's gradient has no node"
FACTORS = "other factors are saved, or several ops stand here and one in PyTorch"
ONE_NUMBER = "PyTorch gives the gradient of one number a dimension, or no node"

# What is packed and unpacked: the case, its samples, the reason.
DIFFERENT: dict[str, tuple[str, str]] = {
    "remainder.scalar_first": ("all", MORE),
    "clamp.wider_bounds": ("all", MORE),
    "logsumexp": ("6 7", "several dimensions are joined first"),
    "getitem.mask": ("all", POSITIONS),
    "getitem.many": ("2 5 6", POSITIONS),
    "getitem.condition": ("0", POSITIONS),
    "setitem.advanced": ("all", SLICES),
    "setitem.many": ("all", SLICES),
    "setitem.mask": ("0 1 2 3 4 5 6", SLICES),
    "setitem.cast": ("3 4", SLICES),
    "scaled_dot_product_attention": (
        "2 3 6 7",
        "a mask is expanded first, and keys of heads that share them are not",
    ),
    "interpolate": ("all", "the tables of sources and weights are saved, in PyTorch nothing"),
    "lstm_cell": ("all", SEVERAL),
    "gru_cell": ("all", SEVERAL),
    "rnn_tanh_cell": ("all", SEVERAL),
    "rnn_relu_cell": ("all", SEVERAL),
    "rms_norm": ("all", SEVERAL),
    "group_norm.half_affine": ("1", MORE),
    "dropout": ("0", "where everything is dropped PyTorch multiplies by zero"),
    "solve": ("all", FACTORS),
    "solve_triangular": ("all", FACTORS),
    "cholesky_solve": ("all", FACTORS),
    "cholesky_inverse": ("all", FACTORS),
    "triangular_solve": ("all", FACTORS),
    "det": ("all", FACTORS),
    "slogdet": ("all", FACTORS),
    "logdet": ("all", FACTORS),
    "cholesky": ("4", FACTORS),
    "lu": ("all", FACTORS),
    "lu_solve": ("all", FACTORS),
    "ldl_solve": ("all", FACTORS),
    "lstsq": ("all", FACTORS),
    "householder_product": ("all", FACTORS),
    "ormqr": ("all", FACTORS),
    "matrix_norm": ("2 3 6 7", FACTORS),
    "cond": ("all", FACTORS),
    "tensorsolve": ("all", FACTORS),
    "norm": ("2 3 4 5 7", SEVERAL),
    "mvlgamma": ("all", SEVERAL),
    "mvlgamma_": ("all", SEVERAL),
    "ldexp": ("all", SEVERAL),
    "ldexp_": ("all", SEVERAL),
    "baddbmm": ("all", SEVERAL),
    "baddbmm_": ("all", SEVERAL),
    "addbmm": ("all", SEVERAL),
    "addbmm_": ("all", SEVERAL),
    "addmv": ("all", SEVERAL),
    "addmv_": ("all", SEVERAL),
    "addr": ("all", SEVERAL),
    "addr_": ("all", SEVERAL),
    "vdot": ("all", SEVERAL),
    "cross": ("all", SEVERAL),
    "vander": ("all", SEVERAL),
    "combinations": ("all", SEVERAL),
    "cumprod": ("all", SEVERAL),
    "cummax": ("all", SEVERAL),
    "cummin": ("all", SEVERAL),
    "nansum": ("all", SEVERAL),
    "nanmean": ("all", SEVERAL),
    "aminmax": ("all", SEVERAL),
    "dist": ("all", SEVERAL),
    "cdist": ("1", "operands are expanded before"),
    "cov": ("all", SEVERAL),
    "corrcoef": ("all", SEVERAL),
    "renorm": ("all", SEVERAL),
    "tensordot": ("1", VIEWS),
    "inner": ("0", VIEWS),
    "einsum": ("0 1", VIEWS),
    "einsum.sublists": ("0 1", VIEWS),
    "matrix_power": ("3", VIEWS),
    "glu": ("all", "the halves are views, which are saved by themselves"),
    "scatter_reduce.sum": ("all", SEVERAL),
    "scatter_reduce": ("all", SEVERAL),
    "scatter_reduce.mean": ("all", SEVERAL),
    "scatter_reduce.amax": ("1 3 5 7", SEVERAL),
    "scatter_reduce.amin": ("1 3 5 7", SEVERAL),
    "index_add": ("all", SEVERAL),
    "index_copy": ("all", SEVERAL),
    "index_fill": ("4", SEVERAL),
    "index_put": ("all", SEVERAL),
    "index_put.accumulate": ("all", SEVERAL),
    "put": ("all", SEVERAL),
    "take": ("all", SEVERAL),
    "masked_scatter": ("all", SEVERAL),
    "median": ("all", SEVERAL),
    "median.all": ("all", SEVERAL),
    "nanmedian.without": ("all", SEVERAL),
    "kthvalue": ("all", SEVERAL),
    "mode.gradient": ("all", SEVERAL),
    "quantile": ("0 3 5 6 7", SEVERAL),
    "pdist": ("all", SEVERAL),
    "embedding_bag": ("all", "bags are saved by their bounds, maxima as gathered elements"),
    "embedding_bag.weighted": ("all", "bags are saved by their bounds"),
}

# What is packed by derivatives, and their order, where the call itself packs the same.
COMPOSED: dict[str, tuple[str, str]] = {
    "cdist": ("all", "PyTorch's derivative has no derivatives"),
    "logcumsumexp": ("all", SEVERAL),
    "as_strided": ("2", SEVERAL),
    "pow.scalar": ("2", "to the power of zero PyTorch computes nothing"),
    "amax": ("7", ONE_NUMBER),
    "amin": ("7", ONE_NUMBER),
    "prod": ("all", "PyTorch divides where no element is zero"),
    "prod.one_zero": ("all", "PyTorch divides where no element is zero"),
    "prod.two_zeros": ("all", "PyTorch divides where no element is zero"),
    "cumsum": ("3", ONE_NUMBER),
    "squeeze": ("3 5 6", "where no dimension goes PyTorch's gradient has no node"),
    "cat": ("3", EMPTY),
    "setitem": ("3 4 5", SLICES),
    "view.add_": ("1 2", SLICES),
    "masked_fill": (
        "5",
        "PyTorch selects the elements that a single value stands for before it adds them up",
    ),
    "masked_fill_": (
        "4",
        "PyTorch selects the elements that a single value stands for before it adds them up",
    ),
    "hardsigmoid": ("all", MORE),
    "group_norm": ("all", SEVERAL),
    "grid_sample": ("all", SEVERAL),
    "group_norm.half_affine": ("0", SEVERAL),
    "atan2": ("all", MASKED),
    "atan2_": ("all", MASKED),
    "logit": ("all", MASKED),
    "logit_": ("all", MASKED),
    "nan_to_num": ("all", MASKED),
    "nan_to_num_": ("all", MASKED),
    "logaddexp2": ("all", "PyTorch raises 2 to a power, which saves the result"),
    "addcdiv": ("all", SEVERAL),
    "addcdiv_": ("all", SEVERAL),
    "trapezoid": ("3 4", SEVERAL),
    "block_diag": ("0", SEVERAL),
    "rot90": ("3", SEVERAL),
    "select_scatter": ("all", SEVERAL),
    "slice_scatter": ("all", SEVERAL),
    "diagonal_scatter": ("all", SEVERAL),
    "addmm_": ("0 2", "the result is copied into the tensor"),
    "multi_dot": ("0 1", VIEWS),
    "chain_matmul": ("all", VIEWS),
    "vecdot": ("0", VIEWS),
    "trace": ("all", SEVERAL),
    "tensordot": ("2", VIEWS),
    "special_i1": ("all", MASKED),
    "special_i1e": ("all", MASKED),
    "special_log_ndtr": ("all", SEVERAL),
    "special_xlog1py": ("6 7", MASKED),
    "mse_loss.mixed": ("0", "a conversion is a node of its own"),
    "binary_cross_entropy": ("all", EXPANDED),
    "binary_cross_entropy_with_logits": ("all", EXPANDED),
    "scaled_dot_product_attention": ("0 1 4 5", "PyTorch has no second derivative of it"),
    "inv": ("all", FACTORS),
    "cholesky": ("0 2 3", FACTORS),
    "lu_factor": ("all", FACTORS),
    "pinv": ("all", FACTORS),
    "eigh": ("all", FACTORS),
    "eigvalsh": ("3", FACTORS),
    "svd": ("all", FACTORS),
    "svdvals": ("0 2 3", FACTORS),
    "qr": ("all", FACTORS),
    "matrix_norm": ("0 1 4 5", FACTORS),
    "scatter": ("all", SEVERAL),
    "scatter.value": ("all", SEVERAL),
    "scatter_add_": ("all", SEVERAL),
    "scatter_reduce.amax": ("0 2 4 6", SEVERAL),
    "scatter_reduce.amin": ("0 2 4 6", SEVERAL),
    "index_fill": ("0 1 2 3", SEVERAL),
}

CASES = [case for case in OP_CASES if case.differentiable]


class Log:
    """What hooks pack and unpack; unpacked things are known by their place in the list of packed ones."""

    def __init__(self, lib: Any) -> None:
        self.packed: list[Any] = []
        self.unpacked: list[int] = []
        self.hooks = lib.autograd.graph.saved_tensors_hooks(self.pack, self.unpack)

    def pack(self, tensor: Any) -> tuple[int, Any]:
        self.packed.append(tensor)
        return len(self.packed) - 1, tensor.detach()

    def unpack(self, packed: tuple[int, Any]) -> Any:
        self.unpacked.append(packed[0])
        return packed[1]


def what(tensor: Any, known: dict[str, Any]) -> str:
    """Which of the known tensors it is, by identity or by memory and layout; else its dtype and sizes."""
    for name, other in known.items():
        if other is tensor:
            return name
    place = (tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)
    for name, other in known.items():
        if (
            other.numel()
            and (other.data_ptr(), tuple(other.shape), tuple(other.stride()), other.dtype) == place
        ):
            return f"alias of {name}"
    return f"{str(tensor.dtype).rpartition('.')[2]} {list(tensor.shape)}"


def subsets(things: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All that are not empty; of many things the single ones and the whole."""
    sizes = range(1, len(things) + 1) if len(things) <= 4 else (1, len(things))
    for size in sizes:
        yield from itertools.combinations(things, size)


def observed(lib: Any, case: OpCase, sample: Sample, grads: Sequence[int]) -> tuple[Any, Any]:
    """The log of a call and of passes over it, and the log of a pass under create_graph."""
    args = [
        lib.tensor(np.ascontiguousarray(a).reshape(a.shape)) if isinstance(a, np.ndarray) else a
        for a in sample.args
    ]
    for k in grads:
        args[k].requires_grad_()
    log = Log(lib)
    with log.hooks:
        outputs = as_list(case.call(lib, *args, **keywords(lib, sample)))
    known = {f"input {k}": a for k, a in enumerate(args) if hasattr(a, "data_ptr")}
    known |= {f"output {k}": y for k, y in enumerate(outputs)}
    packed = [what(t, known) for t in log.packed]
    recorded = [y for y in outputs if y.requires_grad]
    if not recorded:
        return packed, None
    weights = [lib.tensor(w) for w in cotangents(recorded)]
    passes = []
    for wanted in subsets(grads):
        log.unpacked.clear()
        inputs = [args[k] for k in wanted]
        lib.autograd.grad(recorded, inputs, weights, retain_graph=True, allow_unused=True)
        passes.append((wanted, [packed[k] for k in log.unpacked]))
    log.unpacked.clear()
    inputs = [args[k] for k in grads]
    weights = [w.requires_grad_() for w in weights]
    second = Log(lib)
    with second.hooks:
        found = lib.autograd.grad(recorded, inputs, weights, create_graph=True, allow_unused=True)
    known |= {f"weight {k}": w for k, w in enumerate(weights)}
    nodes = [(g.grad_fn._sequence_nr(), k) for k, g in enumerate(found) if g is not None and g.grad_fn]
    order = [k for _, k in sorted(nodes)]
    first = packed, passes, [packed[k] for k in log.unpacked]
    composed = [what(t, known) for t in second.packed], order
    log.packed.clear()  # or graph and log would hold each other
    second.packed.clear()
    return first, composed


def logs(lib: Any, case: OpCase) -> list[list[Any]]:
    """For each sample what `observed` says of each subset of inputs that require grad, or that it fails."""
    dtype = "float64" if "float64" in case.dtypes else case.dtypes[0]
    found: list[list[Any]] = []
    for sample in samples_of(case, dtype)[:SAMPLES]:
        found.append([])
        for grads in subsets(case.grad_positions(sample.args)):
            try:
                found[-1].append(observed(lib, case, sample, grads))
            except RuntimeError:
                found[-1].append(("fails", "fails"))
    return found


def listed(table: dict[str, tuple[str, str]], case: OpCase, sample: int) -> bool:
    samples, _ = table.get(case.name, ("", ""))
    return samples == "all" or str(sample) in samples.split()


@pytest.mark.parametrize("case", by_name(CASES))
def test_what_is_saved(case: OpCase) -> None:
    torch = pytest.importorskip("torch")
    import fastgrad

    for sample, (ours, theirs) in enumerate(zip(logs(fastgrad, case), logs(torch, case), strict=True)):
        if listed(DIFFERENT, case, sample):
            assert [call for call, _ in ours] != [call for call, _ in theirs], (
                f"sample {sample} agrees by now"
            )
            continue
        for mine, other in zip(ours, theirs, strict=True):
            assert mine[0] == other[0], f"sample {sample}"
        if listed(COMPOSED, case, sample):
            assert ours != theirs, f"sample {sample} agrees by now"
            continue
        for mine, other in zip(ours, theirs, strict=True):
            assert mine[1] == other[1], f"sample {sample}"


# Functions of several ops, and ops whose derivative is composed of several: here also the order in which gradients
# arrive counts, in the first pass and in a pass over what it recorded.
FUNCTIONS: dict[str, tuple[str, tuple[tuple[int, ...], ...]]] = {
    "cosine_similarity": ("F.cosine_similarity(a, b)", ((2, 3), (2, 3))),
    "cosine_similarity, broadcast": ("F.cosine_similarity(a, b)", ((2, 3), (3,))),
    "cosine_similarity, short": ("F.cosine_similarity(a, b, eps=100.0)", ((2, 3), (2, 3))),
    "kl_div": ("F.kl_div(a, b, reduction='sum')", ((3,), (3,))),
    "kl_div, log_target": ("F.kl_div(a, b, reduction='none', log_target=True)", ((3,), (3,))),
    "logsigmoid": ("F.logsigmoid(a - 2.5)", ((2, 3),)),
    "addmm": ("lib.addmm(a, b, c, beta=2, alpha=3)", ((2, 2), (2, 3), (3, 2))),
    "addmm, beta": ("lib.addmm(a, b, c, beta=2)", ((2,), (2, 3), (3, 2))),
    "addmm, alpha": ("lib.addmm(a, b, c, alpha=3)", ((2, 2), (2, 3), (3, 2))),
    "addmm, no input": ("lib.addmm(a, b, c, beta=0)", ((2, 2), (2, 3), (3, 2))),
    "div": ("a / b", ((2, 3), (2, 3))),
    "conv1d": ("F.conv1d(a, b, c, stride=2)", ((1, 2, 5), (3, 2, 2), (3,))),
    "conv2d": ("F.conv2d(a, b, c)", ((1, 2, 4, 4), (3, 2, 2, 2), (3,))),
    "conv3d": ("F.conv3d(a, b, c)", ((1, 2, 3, 3, 3), (3, 2, 2, 2, 1), (3,))),
    "conv2d, no bias": ("F.conv2d(a, b, padding=1)", ((1, 2, 3, 3), (3, 2, 2, 2))),
    "conv_transpose2d": ("F.conv_transpose2d(a, b, c)", ((1, 2, 3, 3), (2, 3, 2, 2), (3,))),
    "mse_loss": ("F.mse_loss(a, b)", ((2, 3), (2, 3))),
    "mse_loss, sum": ("F.mse_loss(a, b, reduction='sum')", ((2, 3), (2, 3))),
    "smooth_l1_loss": ("F.smooth_l1_loss(a, b, beta=2.0)", ((2, 3), (2, 3))),
    "huber_loss": ("F.huber_loss(a, b, delta=1.5)", ((2, 3), (2, 3))),
    "binary_cross_entropy": ("F.binary_cross_entropy(a / 5, a.detach() / 6)", ((2, 3),)),
    "remainder": ("a % b", ((2, 3), (2, 3))),
    "fmod": ("lib.fmod(a, b)", ((2, 3), (2, 3))),
    "rsqrt": ("a.rsqrt()", ((2, 3),)),
    "reciprocal": ("a.reciprocal()", ((2, 3),)),
    "var": ("a.var()", ((2, 3),)),
    "var, dim": ("a.var(1)", ((2, 3),)),
    "norm": ("a.norm(2, 1)", ((2, 3),)),
    "max_pool2d": ("F.max_pool2d(a, 2)", ((1, 1, 4, 4),)),
    "max_pool1d": ("F.max_pool1d(a, 2)", ((1, 1, 4),)),
    "avg_pool2d": ("F.avg_pool2d(a, 2)", ((1, 1, 4, 4),)),
    "adaptive_avg_pool2d": ("F.adaptive_avg_pool2d(a, 2)", ((1, 1, 3, 5),)),
    "prelu": ("F.prelu(a - 2.5, b)", ((2, 3), (3,))),
}


def seen(tensor: Any) -> tuple[Any, ...]:
    """Sizes and values of a tensor, and whether it requires grad; nothing of an undefined gradient."""
    if tensor is None:
        return (None,)
    values = [float(f"{v:.6g}") + 0.0 for v in tensor.detach().reshape(-1).tolist()]
    return tuple(tensor.shape), tensor.requires_grad, values


NORMALISATIONS = {
    "layer_norm": ("F.layer_norm(a, (3,), b, c)", ((2, 3), (3,), (3,))),
    "layer_norm, no bias": ("F.layer_norm(a, (3,), b)", ((2, 3), (3,))),
    "batch_norm": ("F.batch_norm(a, None, None, b, c, training=True)", ((4, 3), (3,), (3,))),
    "batch_norm, running": (
        "F.batch_norm(a, a.detach()[0], a.detach()[1], b, c, training=True)",
        ((4, 3), (3,), (3,)),
    ),
    "batch_norm, fixed": (
        "F.batch_norm(a, a.detach()[0], a.detach()[1], b, c)",
        ((4, 3), (3,), (3,)),
    ),
}


def events(lib: Any, call: str, sizes: Sequence[tuple[int, ...]], grads: Sequence[int]) -> list[Any]:
    """What hooks of saved tensors and of tensors see in a call, a pass under create_graph, and a pass over that."""
    rng = np.random.default_rng(0)
    log: list[Any] = []

    def pack(tensor: Any) -> Any:
        log.append(("pack", seen(tensor)))
        return tensor.detach()

    def unpack(tensor: Any) -> Any:
        log.append(("unpack", seen(tensor)[::2]))
        return tensor

    def watched(name: str, tensor: Any) -> Any:
        tensor.requires_grad_().register_hook(lambda g: log.append((name, seen(g))))
        return tensor

    args = [lib.tensor(rng.integers(1, 5, n).astype(float)) for n in sizes]
    inputs = [watched(f"input {k}", args[k]) for k in grads]
    names = {"lib": lib, "F": lib.nn.functional, **dict(zip("abcd", args, strict=False))}
    with lib.autograd.graph.saved_tensors_hooks(pack, unpack):
        output = eval(call, names)
        weight = watched("weight", lib.tensor(rng.integers(1, 4, tuple(output.shape)).astype(float)))
        log.append("create_graph")
        first = lib.autograd.grad(output, inputs, weight, create_graph=True)
    log.append("second")
    first = [g for g in first if g.requires_grad]
    weights = [lib.tensor(rng.integers(1, 4, tuple(g.shape)).astype(float)) for g in first]
    if first:
        lib.autograd.grad(first, [*inputs, weight], weights, allow_unused=True)
    return log


@pytest.mark.parametrize("name", FUNCTIONS)
def test_order_of_events(name: str) -> None:
    torch = pytest.importorskip("torch")
    import fastgrad

    call, sizes = FUNCTIONS[name]
    for grads in subsets(range(len(sizes))):
        assert events(fastgrad, call, sizes, grads) == events(torch, call, sizes, grads), grads


def arrivals(lib: Any, call: str, sizes: Sequence[tuple[int, ...]], grads: Sequence[int]) -> list[Any]:
    """Which tensors a gradient arrives at, in which order, and where it is undefined."""
    log = events(lib, call, sizes, grads)
    return [(e[0], e[1] == (None,)) for e in log if isinstance(e, str) or e[0] not in ("pack", "unpack")]


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_order_of_gradients(name: str) -> None:
    """Of normalisations, whose gradients are rounded in another way where they are zero."""
    torch = pytest.importorskip("torch")
    import fastgrad

    call, sizes = NORMALISATIONS[name]
    for grads in subsets(range(len(sizes))):
        assert arrivals(fastgrad, call, sizes, grads) == arrivals(torch, call, sizes, grads), grads


def test_lists_name_cases() -> None:
    assert DIFFERENT.keys() | COMPOSED.keys() <= {case.name for case in CASES}
