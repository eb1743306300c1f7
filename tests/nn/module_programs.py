"""Programs that run in fastgrad and in PyTorch, with what they print: ``module_programs.txt``.

A program starts at a line ``## name``; the lines ``#>`` at its end are what it prints in either library, with the
library's name as ``lib``. ``python -m tests.nn.module_programs`` writes these lines anew, as PyTorch prints them.
"""

from __future__ import annotations

import copy
import gc
import importlib
import pickle
import re
import warnings
from collections import OrderedDict, namedtuple
from pathlib import Path
from types import ModuleType
from typing import Any

FILE = Path(__file__).with_suffix(".txt")
Pair = namedtuple("Pair", "a b")


def load() -> dict[str, tuple[str, list[str]]]:
    """The programs by name: source and what it prints."""
    out = {}
    for block in re.split(r"^## ", FILE.read_text(), flags=re.M)[1:]:
        name, _, rest = block.partition("\n")
        lines = rest.rstrip().split("\n")
        source = [line for line in lines if not line.startswith("#>")]
        out[name] = ("\n".join(source), [line[3:] for line in lines if line.startswith("#>")])
    return out


def names(lib: ModuleType, out: Any) -> dict[str, Any]:
    """What programs may use."""
    nn = lib.nn

    def err(f: Any, *args: Any, **kwargs: Any) -> None:
        try:
            f(*args, **kwargs)
        except BaseException as error:
            out(f"{type(error).__name__}: {error}")
        else:
            out("ok")

    class Double(nn.Module):
        def forward(self, x):
            return x * 2

    class Linear(nn.Module):
        def __init__(self, n_in=2, n_out=3, bias=True):
            super().__init__()
            self.weight = nn.Parameter(lib.ones(n_out, n_in) * 0.5)
            self.register_parameter("bias", nn.Parameter(lib.ones(n_out)) if bias else None)

        def forward(self, x):
            y = x @ self.weight.t()
            return y if self.bias is None else y + self.bias

    def module(forward):
        """A module with this forward."""
        kind = type("Made", (nn.Module,), {"forward": lambda self, *a, **k: forward(*a, **k)})
        return kind()

    return {
        "lib": lib, "nn": nn, "M": importlib.import_module(f"{lib.__name__}.nn.modules.module"),
        "out": out, "err": err, "Double": Double, "Linear": Linear, "module": module, "Pair": Pair,
        "ones": lambda *n: lib.ones(*(n or (2,)), requires_grad=True),
        "copy": copy, "pickle": pickle, "gc": gc, "OrderedDict": OrderedDict,
    }  # fmt: skip


def shown(value: Any) -> str:
    """The text of a value; that of an OrderedDict the same in every version of Python."""
    return f"OrderedDict({[*value.items()]})" if isinstance(value, OrderedDict) else str(value)


def run(lib: ModuleType, source: str) -> list[str]:
    """The lines that a program prints, and the warnings that it makes."""
    text: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(source, names(lib, lambda *values: text.append(" ".join(map(shown, values)))))
    text += [f"{w.category.__name__}: {w.message}" for w in caught]
    whole = "\n".join(text)
    whole = re.sub(rf"\b{lib.__name__}(?=[. ])", "lib", whole)
    whole = re.sub(r" \(hook '[^']*'\)", "", whole)  # which PyTorch does not name
    whole = re.sub(r" See \S.* for more details\.", "", whole)  # each refers to its own documentation
    return [line.rstrip() for line in whole.split("\n")] if whole else []


def write() -> None:
    """Write the file anew with what PyTorch prints."""
    torch = importlib.import_module("torch")
    parts = []
    for name, (source, _) in load().items():
        parts.append(
            "\n".join([f"## {name}", source, *(f"#> {line}".rstrip() for line in run(torch, source))])
        )
    FILE.write_text("\n".join(parts) + "\n")


if __name__ == "__main__":
    write()
