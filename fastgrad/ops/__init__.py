"""The declared ops. Importing this package fills the native tables."""

import importlib

from fastgrad.kernels.compile import compile_kernel
from fastgrad.native.build.loader import runtime_set
from fastgrad.native.contracts.element_types import FLOAT32
from fastgrad.native.contracts.flags import GRAD_ENABLED
from fastgrad.native.contracts.ops import OPERATORS
from fastgrad.native.host import arrays, devices, meta, threads
from fastgrad.ops import (
    activations,
    attention,
    autocasting,
    complex_numbers,
    convolution,
    distances,
    dropout,
    elementwise,
    embedding,
    fft,
    formulas,
    fused,
    gamma,
    grids,
    index,
    kernel_table,
    linalg,
    losses,
    matrices,
    namespaces,
    native_hooks,
    normalization,
    optim,
    pointwise,
    pooling,
    random,
    recurrent,
    reduce,
    reflectors,
    registry,
    relations,
    resampling,
    running,
    sampling,
    scatter,
    shape,
    sorting,
    special,
    spectra,
    spread,
    systems,
    trigonometry,
)


def _install() -> None:
    """Tell the runtime which ops it uses itself, and which ops the operators of Python are."""
    devices.register_device("cpu", 0, compile_kernel)
    meta.install()
    devices.install(kernel_table.KERNELS)
    arrays.install()
    threads.install()
    runtime_set("default_dtype", FLOAT32)
    runtime_set("mode", GRAD_ENABLED)
    runtime_set("copy_kernel", elementwise.COPY_KERNELS[0].id)
    runtime_set("gemm_kernel", linalg.GEMM.id)
    runtime_set("gemv_kernel", linalg.GEMV.id)
    runtime_set("panels_kernel", linalg.in_panels.kernel.id)
    runtime_set("zero_kernel", shape.ZERO_FILL.id)
    for k, kernel in random.RANDOM_KERNELS.items():
        runtime_set("random_kernels", kernel.id, k)
    runtime_set("sequence_kernel", random.SEQUENCE.id)
    runtime_set("places_kernel", random.TRIANGLE_PLACES.id)
    runtime_set("hook_kernel", native_hooks.CALL_HOOK.id)
    runtime_set("constant_kernel", shape.CONSTANT.id)
    runtime_set("conj_kernel", complex_numbers.conj_physical.kernel.id)
    runtime_set("neg_kernel", elementwise.neg.kernel.id)
    runtime_set("upload_kernel", shape.UPLOAD.id)
    runtime_set("download_kernel", shape.DOWNLOAD.id)
    runtime_set("fused_kernel", fused.FUSED.id)
    runtime_set("fused_rows_kernel", fused.FUSED_ROWS.id)
    runtime_set("dropout_kernel", dropout.dropout.kernel.id)
    runtime_set("joined_kernel", optim.MANY.id)
    runtime_set("peer_kernel", shape.PEER_COPY.id)
    used = {
        "add_op": elementwise.add, "mul_op": elementwise.mul, "div_op": elementwise.div, "sqrt_op": elementwise.sqrt,
        "conj_op": complex_numbers.conj, "conj_physical_op": complex_numbers.conj_physical,
        "neg_view_op": complex_numbers.neg_view, "view_as_real_op": complex_numbers.view_as_real,
        "view_as_complex_op": complex_numbers.view_as_complex,
        "sum_op": reduce.sum_, "mean_op": reduce.mean,
        "clone_op": shape.clone, "cast_op": shape.cast, "sum_to_op": shape.sum_to,
        "as_strided_op": shape.as_strided, "copy_slices_op": shape.copy_slices,
        "gather_op": index.gather, "index_op": registry.BY_NAME["index"], "scatter_op": index.scatter_add,
        "select_op": shape.select, "slice_op": shape.slice_, "unsqueeze_op": shape.unsqueeze,
    }  # fmt: skip
    for field, op in used.items():
        runtime_set(field, op.id)
    names = {
        "add": "add", "subtract": "sub", "multiply": "mul", "true_divide": "div", "floor_divide": "floor_divide",
        "remainder": "remainder", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
        "negative": "neg", "absolute": "abs", "invert": "bitwise_not",
        "lt": "lt", "le": "le", "eq": "eq", "ne": "ne", "gt": "gt", "ge": "ge",
    }  # fmt: skip
    autocasting.declare()
    for k, operator in enumerate(OPERATORS):
        runtime_set("operators", registry.BY_NAME[names[operator.removeprefix("inplace_")]].id, k)
    kernel_table.check_from_now_on()


_install()

__all__ = [
    "activations",
    "attention",
    "autocasting",
    "complex_numbers",
    "convolution",
    "distances",
    "dropout",
    "elementwise",
    "embedding",
    "fft",
    "formulas",
    "fused",
    "gamma",
    "grids",
    "index",
    "kernel_table",
    "linalg",
    "losses",
    "matrices",
    "namespaces",
    "native_hooks",
    "normalization",
    "optim",
    "pointwise",
    "pooling",
    "random",
    "recurrent",
    "reduce",
    "reflectors",
    "registry",
    "relations",
    "resampling",
    "running",
    "sampling",
    "scatter",
    "shape",
    "sorting",
    "special",
    "spectra",
    "spread",
    "systems",
    "trigonometry",
]


def __getattr__(name: str) -> namespaces.Namespace:
    """A namespace of users' ops, or PyTorch's ``aten``."""
    if name in namespaces.LATER:
        importlib.import_module(namespaces.LATER[name])
    found = namespaces.NAMESPACES.get(name)
    if found is None:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}: no op is defined in a namespace of this name; "
            "fastgrad.library.custom_op('namespace::name', ...) defines one"
        )
    return found
