"""Write ``fastgrad/as_torch/pytorch_classes.txt``: PyTorch's modules, and the classes that each of them has.

``python tools/pytorch_classes.py`` needs PyTorch and tensorboard. What follows a module's name are its classes; those
that are exceptions have a mark behind the name.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import types
import warnings
from collections.abc import Iterator
from typing import Any

from fastgrad.as_torch.locations import EXCEPTION_MARK, FILE

LEFT_OUT = (
    "_custom_op", "_decomp", "_dispatch", "_dynamo", "_export", "_functorch", "_higher_order_ops", "_inductor", "_lazy",
    "_library", "_logging", "_native", "_numpy", "_prims", "_prims_common", "_python_dispatcher", "_refs",
    "_strobelight", "_subclasses", "_vendor", "ao", "contrib", "cuda._", "distributed._", "distributed.algorithms._",
    "distributed.checkpoint", "distributed.debug", "distributed.elastic", "distributed.flight", "distributed.fsdp._",
    "distributed.launcher", "distributed.pipelining", "distributed.tensor", "export.", "fx.experimental", "fx.passes",
    "masked.", "nativert", "nested.", "nn.intrinsic.", "nn.qat.", "nn.quantizable.", "nn.quantized.",
    "nn.utils._expanded", "numa", "onnx.", "package.", "profiler._", "quantization", "sparse._", "testing._internal",
    "utils._", "utils.benchmark.", "utils.bottleneck", "utils.data._utils.signal", "utils.data.datapipes.",
    "utils.hipify", "utils.tensorboard.", "utils.viz", "xpu._",
)  # fmt: skip
"""What no client asks for at its start begins so."""
KEPT = (
    "_custom_ops", "_dynamo", "_dynamo._trace_wrapped_higher_order_op", "_dynamo.eval_frame", "_dynamo.utils",
    "_subclasses", "_subclasses.fake_tensor", "ao", "ao.quantization", "distributed._composable",
    "distributed._composable.fsdp", "distributed._functional_collectives", "distributed._tensor",
    "distributed.checkpoint", "distributed.checkpoint.hf_storage", "distributed.tensor",
    "distributed.tensor._utils", "distributed.tensor.experimental", "distributed.tensor.placement_types",
    "fx.experimental", "fx.experimental.proxy_tensor", "onnx", "onnx.symbolic_helper", "onnx.symbolic_opset11",
    "utils._foreach_utils", "utils.tensorboard.writer",
)  # fmt: skip
NO_FILES = ("torch._C", "torch.distributed._tensor.experimental", "torch.ops")
KEPT_WHOLE = ("utils._pytree", "utils._python_dispatch", "utils.data._utils")


def _is_left_out(path: str) -> bool:
    return path.startswith(LEFT_OUT) and not path.startswith(KEPT_WHOLE)


def modules(package: Any) -> Iterator[str]:
    """The modules of a package by name, itself first, as far as they can be imported."""
    yield package.__name__
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        path = found.name.partition(".")[2]
        if path.endswith("__main__") or (path not in KEPT and _is_left_out(path)):
            continue
        with contextlib.suppress(Exception):  # some need packages that few have
            module = importlib.import_module(found.name)
            yield from modules(module) if found.ispkg else [found.name]


def classes(module: types.ModuleType) -> Iterator[str]:
    """The classes of PyTorch's that a module has, without private ones that it imports."""
    for name in dir(module):
        found = getattr(module, name, None)
        if not isinstance(found, type) or not (found.__module__ or "").startswith("torch"):
            continue
        if name.startswith("_") and found.__module__ != module.__name__:
            continue
        yield name + EXCEPTION_MARK * issubclass(found, BaseException)


def main() -> None:
    """Write the file."""
    warnings.simplefilter("ignore")
    names = [*modules(importlib.import_module("torch")), *NO_FILES]
    lines = [
        f"{name.partition('.')[2]}: {' '.join(classes(importlib.import_module(name)))}".rstrip()
        for name in dict.fromkeys(names)
    ]
    FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
