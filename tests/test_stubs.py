"""The stubs are what `tools/stubs.py` writes, and results are of the types that they say."""

from __future__ import annotations

import ast
import importlib.util
import runpy
from pathlib import Path
from typing import Any

import numpy as np
from op_cases import OP_CASES

import fastgrad as fg

ROOT = Path(__file__).parent.parent


def written() -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("stubs", ROOT / "tools" / "stubs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {str(path.relative_to(ROOT)): text for path, text in module.stubs()}


def test_stubs_are_what_the_tool_writes():
    for path, text in written().items():
        assert (ROOT / path).read_text() == text, f"run tools/stubs.py: {path} is not what it writes"


def results(path: str) -> dict[str, list[str]]:
    """The types of results that a stub declares for each function."""
    found: dict[str, list[str]] = {}
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(ast.unparse(node.returns))
    return found


def fits(value: Any, kind: str) -> bool:
    parts = [part.strip() for part in kind.split(" | ")]
    for part in parts:
        plain = {"_Tensor": fg.Tensor, "_int": int, "_float": float, "_complex": complex, "_bool": bool}.get(
            part
        )
        if part == "_Any" or (plain and isinstance(value, plain)):
            return True
        if part.startswith("tuple[") and isinstance(value, (tuple, list)):
            within = part.removeprefix("tuple[").removesuffix("]").split(", ")
            within = within[:1] * len(value) if within[-1] == "..." else within
            return len(value) == len(within) and all(map(fits, value, within))
        if type(value).__name__ == part.removeprefix("_return_types.").lstrip("_"):
            return True
    return False


class Spy:
    """A module whose functions note what they give."""

    def __init__(self, module: Any, declared: dict[str, list[str]], wrong: set[str]) -> None:
        self._module, self._declared, self._wrong = module, declared, wrong

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if name not in self._declared:
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            if not any(fits(result, kind) for kind in self._declared[name]):
                self._wrong.add(f"{name} gives {type(result).__name__}, the stub says {self._declared[name]}")
            return result

        return call


def test_results_are_of_the_types_in_the_stubs():
    wrong: set[str] = set()
    functional = Spy(fg.nn.functional, results("fastgrad/nn/functional/__init__.pyi"), wrong)
    package = Spy(fg, results("fastgrad/__init__.pyi"), wrong)
    package.nn = Spy(fg.nn, {}, wrong)
    package.nn.functional = functional
    called = 0
    for case in OP_CASES:
        dtype = case.dtypes[0]
        for sample in case.samples(np.random.default_rng(0), dtype)[:2]:
            args = [fg.tensor(a.copy()) if isinstance(a, np.ndarray) else a for a in sample.args]
            case.call(package, *args, **sample.kwargs)
            called += 1
    assert called > 500
    assert not wrong, "\n".join(sorted(wrong))


def test_the_typed_program_runs(capsys):
    runpy.run_path(str(ROOT / "tests" / "typing" / "program.py"), run_name="__main__")
    assert "Linear 1 Tensor" in capsys.readouterr().out
