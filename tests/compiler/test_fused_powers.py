"""Powers in fused kernels: an exponent that is a number is a part of the program."""

from __future__ import annotations

import math
from typing import Any

import pytest
from fusion_testing import check

import fastgrad as fg


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64])
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 2.5, -1, 0.5, -2.0, math.inf, -math.inf, math.nan])
def test_a_power_of_a_number(exponent: float, dtype: Any):
    x = fg.randn(40, 130, dtype=dtype)
    x.view(-1)[:6] = fg.tensor([0.0, -0.0, 1.0, -1.0, math.inf, math.nan], dtype=dtype)
    fused = check(lambda x: (x * 2) ** exponent + 1, x)
    assert fused.report.fused


@pytest.mark.parametrize("exponent", [1, 2, 3, 4, 2.5, -1])
def test_its_gradient(exponent: float):
    w = fg.rand(40, 130, requires_grad=True)

    def step(x: Any) -> Any:
        w.grad = None
        ((w * x).abs() ** exponent).backward(x)
        return w.grad

    fused = check(step, fg.randn(40, 130))
    assert "pow_da" in {name for one in fused.report.fused for name in one.names}


def test_an_exponent_of_each_element():
    check(lambda x, y: (x.abs() ** y) * 2, fg.randn(40, 130), fg.randn(40, 130).round())
