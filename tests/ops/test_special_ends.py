"""Special functions where the range of a dtype ends and where digits cancel, against values with more digits."""

from __future__ import annotations

import math

import pytest

import fastgrad as fg


@pytest.mark.parametrize(
    ("name", "dtype", "x", "y"),
    [
        ("lgamma", "float32", 1e-45, 103.2789299019278),
        ("lgamma", "float32", -1e-45, 103.2789299019278),
        ("lgamma", "float64", 5e-324, 744.4400719213812),
        ("lgamma", "float64", -1e-310, 713.8013788281543),
        ("special.erfcx", "float32", 3e38, 1.880631945159e-39),
        ("special.erfcx", "float64", 1.7e308, 3.31876225616e-309),
        ("special.ndtri", "float32", 0.49989998340606689, -0.00025070442491),
        ("special.ndtri", "float64", 0.49999999, -2.5066282733116e-08),
        ("special.ndtri", "float64", 1e-300, -37.0470964029953),
        ("special.ndtri", "float32", 0.75, 0.674489750196),
    ],
)
def test_values(name: str, dtype: str, x: float, y: float) -> None:
    function = fg
    for part in name.split("."):
        function = getattr(function, part)
    found = function(fg.tensor(x, dtype=getattr(fg, dtype))).item()  # type: ignore[operator]
    assert found == pytest.approx(y, rel=1e-6, abs=0)


@pytest.mark.parametrize(
    ("name", "x", "y"),
    [
        # Of each of the polynomials; values are mpmath's.
        ("erfinv", 1e-200, 8.86226925452758e-201),
        ("erfinv", 0.3, 0.27246271472675434502),
        ("erfinv", 0.99903, 2.3328064698695089119),
        ("erfinv", 0.99999994, 3.8316710514352172313),
        ("erfinv", -0.999999999999999, -5.6759157397447131788),
        ("special.ndtri", 5e-324, -38.467405617144346251),
        ("special.ndtri", 1e-30, -11.46402468844361572),
        ("special.ndtri", 1e-10, -6.3613409024040561991),
        ("special.ndtri", 0.3, -0.52440051270804081597),
    ],
)
def test_inverse_error_functions(name: str, x: float, y: float) -> None:
    function = fg
    for part in name.split("."):
        function = getattr(function, part)
    for dtype, within in ((fg.float64, 1e-15), (fg.float32, 1e-6)):
        if dtype == fg.float64 or 1e-30 < abs(x) < 0.999:  # beyond, float32 is another number
            found = function(fg.tensor(x, dtype=dtype)).item()  # type: ignore[operator]
            assert found == pytest.approx(y, rel=within, abs=0)


def test_inverse_error_functions_are_inverse() -> None:
    near = fg.linspace(-2.0, 2.0, 20_001, dtype=fg.float64)
    assert fg.allclose(fg.erfinv(fg.erf(near)), near, rtol=2e-14, atol=1e-15)
    below = fg.linspace(-37.0, 0.0, 20_001, dtype=fg.float64)
    assert fg.allclose(fg.special.ndtri(fg.special.ndtr(below)), below, rtol=1e-14, atol=1e-15)


def test_what_stays_as_it_was() -> None:
    assert fg.special.ndtri(fg.tensor([0.0, 0.5, 1.0])).tolist() == [-math.inf, 0.0, math.inf]
    assert fg.special.ndtri(fg.tensor([-0.1, 1.1, math.nan])).isnan().all()
    assert fg.erfinv(fg.tensor([-1.0, 0.0, 1.0])).tolist() == [-math.inf, 0.0, math.inf]
    assert fg.lgamma(fg.tensor([0.0, -0.0, -1.0, math.inf, -math.inf])).tolist() == [math.inf] * 5
    assert fg.special.erfcx(fg.tensor([math.inf, -math.inf])).tolist() == [0.0, math.inf]
