"""From a row of the kernel table to a cubin of the CUDA device, without a GPU and without a driver.

`assemble` compiles, and only where neither the package nor the cache has what it would make. A file of the cache holds
the cubin and how it is launched, so what was compiled once needs no compiler.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from fastgrad.kernels.compile import cell_name, declared, sources_key
from fastgrad.kernels.cuda.builder import Body, Launch
from fastgrad.kernels.keys import by_value
from fastgrad.kernels.programs import APPLY, Program
from fastgrad.native.build import cache
from fastgrad.native.contracts.cuda import DOWNLOAD, PEER, PRODUCT, UPLOAD, ZEROED
from fastgrad.native.contracts.element_types import DTYPES, INEXACT
from fastgrad.native.contracts.frame import Frame
from fastgrad.native.contracts.frames.fused import FUSED
from fastgrad.native.contracts.limits import FIRST_GPU

BUILDERS: dict[str, str] = {
    "elementwise:build": "elementwise:build",
    "copies:build": "copies:build", "fused:build": "fused:build",
    "memory:constant": "filling:constant", "memory:triangle": "filling:triangle",
    "memory:triangle_places": "filling:triangle_places",
    "random:sequence": "filling:sequence", "random:uniform": "filling:uniform", "random:normal": "filling:normal",
    "random:integers": "filling:integers", "reduce:build": "reduce:build",
    "rows:build": "rows:build", "extremes:build": "extremes:build",
    **{f"optim:{name}": f"optim:{name}" for name in (
        "step", "norm_part", "scale", "unscale", "clip",
    )},
    "dropout:forward": "dropout:forward", "dropout:again": "dropout:again",
    **{f"normalization:{name}": f"normalization:{name}" for name in (
        "rows", "weight", "channels", "channels_backward", "fixed", "fixed_backward",
    )},
    "norm_gradients:rows_backward": "normalization:rows_backward",
    "norm_gradients:rows_gradients": "norm_gradients:rows_gradients",
    "attention:build": "attention:build", "panels:product": "matrices:product", "gemv:build": "matrices:product",
    "panels:build": "matrices:panels",
    "pool:build": "pool:build", "pool:pad": "pool:pad", "pool:pad_backward": "pool:pad_backward",
    "embedding:lookup": "embedding:lookup", "embedding:collect": "embedding:collect",
    **{f"index:{name}": f"index:{name}" for name in (
        "gather", "index", "index_put", "scatter_add", "scatter_set", "scatter_mul", "scatter_amax", "scatter_amin",
    )},
    **{f"recurrent:{name}{back}": f"recurrent:{name}{back}" for back in ("", "_backward") for name in (
        "lstm", "gru", "rnn_tanh", "rnn_relu",
    )},
    "distances:build": "distances:build", "distances:backward": "distances:backward",
    "searching:search": "searching:search", "sorting:select": "sorting:select", "index:nonzero": "nonzero:build",
    "random:shuffle": "shuffling:build", "losses:probabilities": "losses:probabilities",
    "conv:build": "convolution:build",
    **{f"running:{name}": f"running:{name}" for name in ("extreme", "log_sums", "shares")},
    **{f"bags:{name}": f"bags:{name}" for name in ("lookup", "collect", "to_factors", "maxima")},
    "resampling:along": "resampling:along",
    **{f"grid:{name}": f"grid:{name}" for name in ("sample", "to_images", "to_grid")},
    "ctc:forward": "alignments:forward", "ctc:backward": "alignments:backward",
    **{f"sampling:{name}": f"sampling:{name}" for name in ("standard_gamma", "poisson", "binomial")},
    **{f"systems:{name}": f"systems:{name}" for name in (
        "triangular", "interchange", "inverse", "solve", "lu", "cholesky",
    )},
    **{f"systems:{name}": f"symmetric:{name}" for name in ("ldl", "ldl_solve")},
    "reflectors:factor": "reflectors:factor",
    **{f"reflectors:{name}": f"reflectors:{name}" for name in ("qr", "householder", "reflected")},
    **{f"spectra:{name}": f"spectra:{name}" for name in ("eigh", "eigvalsh", "svd", "svdvals")},
    **{f"spectra:{name}": f"singular:{name}" for name in ("pinv", "least_squares")},
    **{f"determinants:{name}": f"singular:{name}" for name in ("cofactors", "cofactors_derivative")},
    **{f"exponentials:{name}": f"exponentials:{name}" for name in ("exponential", "exponential_derivative")},
    "determinants:determinant": "systems:determinant", "determinants:log_determinant": "systems:log_determinant",
    **{f"fft:{name}": f"fft:{name}" for name in ("whole", "of_reals", "to_half", "from_half")},
    "losses:nll": "losses:nll", "losses:nll_backward": "losses:nll_backward",
}  # fmt: skip
"""The builders of `fastgrad.kernels.cuda` for those of the CPU that the rows of the kernel table name."""

CALLS = {
    "zero_fill": ZEROED, "upload": UPLOAD, "download": DOWNLOAD, "peer_copy": PEER, "gemm": PRODUCT, "gemv": PRODUCT,
}  # fmt: skip
"""Rows of the table that are calls of the driver, or of cuBLAS, and their kinds."""

KERNEL_SECONDS = 0.3  # that compiling one takes; for messages

# What every kernel is made with; the modules that its builder imports come besides.
_COMMON = (
    "kernels/cuda/assemble.py", "kernels/cuda/hardware.py", "kernels/cuda/hardware_bits.py",
    "kernels/cuda/hardware_cores.py", "kernels/cuda/cores.py",
    "kernels/cuda/frames.py", "kernels/specialise.py",
    "native/contracts/limits.py", "native/contracts/record.py",
)  # fmt: skip


class Cubin(NamedTuple):
    """A compiled kernel: what the driver loads, the name to ask it for, and how that is launched.

    Where a launch is a call of the driver, there is nothing to load.
    """

    code: bytes
    entry: str
    launch: Launch


class FusedRow:
    """What a fused kernel has of a row of the kernel table.

    Parameters
    ----------
    program : Program
    kernels : mapping
        The rows of the table whose formulas the program names.
    """

    name, builder, formula = "fused", "fused:build", None
    inputs: tuple[str, ...] = ()
    elements: Mapping[str, int] = {}

    def __init__(self, program: Program, kernels: Mapping[str, Any]) -> None:
        self.program, self.kernels = program, kernels
        used = sorted({(i.about[0], i.about[2]) for i in program.code if i.kind == APPLY})
        formulas = tuple((name, *declared(kernels[str(name)], int(form))) for name, form in used)
        self.options = {"formulas": formulas, "program": repr(program)}

    def frame(self, layout_class: int) -> Frame:
        """The declaration of its frame."""
        return FUSED

    def need(self, dtype: int, layout_class: int, device: int) -> None:
        """There is such a kernel."""


def built(kernel: Any, dtype: int, layout_class: int, architecture: str) -> Cubin:
    """A kernel for an architecture such as ``sm_90``: from the package, from the cache, or compiled now.

    Raises
    ------
    NotImplementedError
        If there is no such kernel of this device.
    ImportError
        If it has to be compiled, and there is nothing to compile it with.
    """
    kernel.need(dtype, layout_class, FIRST_GPU)
    kind = CALLS.get(kernel.name)
    if kind == PRODUCT and dtype in INEXACT:  # integers are multiplied by a kernel, which cuBLAS has none for
        return Cubin(b"", "", Launch(PRODUCT, kernel.frame(layout_class).words))
    if kind not in (None, PRODUCT):
        return Cubin(b"", "", Launch(kind, kernel.frame(layout_class).words))
    name = unit_name(kernel, dtype, layout_class, architecture)

    def compile_now() -> bytes:
        need_compiler()
        from fastgrad.kernels.cuda.assemble import assembled

        made = assembled(kernel, dtype, layout_class, architecture)
        return packed(Cubin(made.code, made.entry, made.launch))

    what = f"kernel {kernel.name} ({DTYPES[dtype]}, {architecture})"
    return unpacked(cache.get(name, what, compile_now, KERNEL_SECONDS).code)


def lacking(kernels: Iterable[Any]) -> list[str]:
    """The names of those kernels of the table that this device has no form of, but for rows without code of their own
    and those of users' functions.
    """
    rows = (k for k in kernels if k.dtypes and k.name not in CALLS and k.builder != "arrays:build")
    return [kernel.name for kernel in rows if kernel.builder not in BUILDERS]


def builder_of(kernel: Any, dtype: int) -> str:
    """The builder of a kernel, as ``module:function`` of `fastgrad.kernels.cuda`."""
    reference = BUILDERS.get(kernel.builder)
    if reference is None:
        raise lack(kernel, dtype)
    return reference


def lack(kernel: Any, dtype: int) -> NotImplementedError:
    """The exception for a kernel that this device has no form of."""
    return NotImplementedError(
        f"fastgrad has no CUDA kernel for {kernel.name} ({DTYPES[dtype]}) yet; "
        "move the operands to the CPU with .cpu()"
    )


def body_of(kernel: Any, dtype: int, layout_class: int, target: Any, threads: int | None = None) -> Body:
    """A kernel before it is compiled, for a target; `threads` of a block, if not as many as it is made for."""
    module, name = builder_of(kernel, dtype).split(":")
    build = getattr(importlib.import_module(f"fastgrad.kernels.cuda.{module}"), name)
    body: Body = build(
        kernel, dtype, layout_class, target, **({} if threads is None else {"threads": threads})
    )
    return body


# --- the cache -------------------------------------------------------------------------------------------------


def unit_name(kernel: Any, dtype: int, layout_class: int, architecture: str) -> str:
    """The name of a kernel's file: readable, and unique by content."""
    module = builder_of(kernel, dtype).partition(":")[0]
    sources = sources_key(f"kernels/cuda/{module}.py", common=_COMMON)
    values = by_value((*declared(kernel, layout_class), architecture))
    key = cache.hash_texts(sources, values, toolchain())
    return f"{cell_name(kernel, dtype, layout_class)}-{architecture}-{key}"


@functools.cache
def toolchain() -> str:
    """The versions of what compiles; empty where there is nothing."""
    spec = find_spec("numba_cuda")
    if spec is None or spec.origin is None:
        return ""
    folder = Path(spec.origin).parents[1]
    patterns = ("numba_cuda-*.dist-info", "nvidia_nvvm*.dist-info", "nvidia_nvjitlink*.dist-info")
    return " ".join(sorted(path.name for pattern in patterns for path in folder.glob(pattern)))


def can_compile() -> bool:
    """Whether kernels can be compiled here."""
    return find_spec("numba_cuda") is not None


def need_compiler() -> None:
    """Raise ImportError where kernels cannot be compiled."""
    if not can_compile():
        raise ImportError(
            'compiling kernels for CUDA needs numba-cuda and the toolkit: pip install "fastgrad[cuda13]"'
        )


def packed(cubin: Cubin) -> bytes:
    """A compiled kernel as one piece."""
    import json

    return json.dumps([cubin.entry, *cubin.launch]).encode() + b"\n" + cubin.code


def unpacked(data: bytes) -> Cubin:
    """The kernel in such a piece."""
    import json

    head, _, code = data.partition(b"\n")
    entry, kind, n_words, items, *numbers = json.loads(head)
    return Cubin(code, entry, Launch(kind, n_words, tuple(items), *numbers))
