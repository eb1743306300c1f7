"""Rational approximations of the exponential function, for matrices on every device."""

from __future__ import annotations

PADE = {
    4: ((17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0), 3.925724783138660),
    8: (
        (
            64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
            10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
        ),
        5.371920351148152,
    ),
}  # fmt: skip
"""By the bytes of an element: coefficients of the numerators of diagonal Pade approximants, and the norms up to which
they are exact to rounding (N. Higham, The scaling and squaring method for the matrix exponential revisited, SIAM
Review 51, 2009).
"""
