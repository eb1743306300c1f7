"""The programs of docs/transforms.md do what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

import fastgrad as fg

PAGE = Path(__file__).resolve().parents[2] / "docs" / "transforms.md"


def test_programs():
    scope: dict[str, Any] = {"__name__": "__main__"}
    for program in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        exec(program, scope)
    each, together = scope["each"], scope["together"]
    assert each["0.weight"].shape == (16, 8, 3)
    np.testing.assert_allclose(
        each["0.weight"].sum(0).numpy(), together["0.weight"].numpy(), rtol=1e-4, atol=1e-5
    )
    assert scope["jacobian"].tolist() == scope["same"].tolist() == [[-3.0, 0.0], [0.0, -12.0]]
    assert scope["along"].tolist() == [-3.0, 0.0]
    assert scope["curvature"].tolist() == [[12.0, 0.0], [0.0, 48.0]]
    assert scope["out"].shape == (4, 16, 2)
    np.testing.assert_allclose(scope["tangent"].numpy(), (scope["q"].exp() * scope["v"]).numpy(), rtol=1e-6)
    assert scope["cubes"].tolist() == (3 * fg.ones(2, 3)).tolist()
