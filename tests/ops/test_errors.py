"""Bad input raises PyTorch's exception class, with a message that says what is wrong, and changes nothing."""

from __future__ import annotations

import re

import numpy as np
import pytest
from op_cases import ErrorCase, OpCase
from op_testing import array_of, by_error, exception_of, tensors


@pytest.mark.parametrize(("case", "error"), by_error())
def test_error(lib, own_messages, case: OpCase, error: ErrorCase):
    args = tensors(lib, error.args)
    raised, message = exception_of(error.call, lib, *args)
    assert raised is not None, "nothing was raised"
    assert issubclass(raised, error.raises), message
    if own_messages:
        missing = [pattern for pattern in error.mentions if not re.search(pattern, message, re.IGNORECASE)]
        assert not missing, f"{missing} not found in {message!r}"
    for tensor, array in zip(args, error.args, strict=True):
        if isinstance(array, np.ndarray):
            assert tensor._version == 0
            np.testing.assert_array_equal(array_of(tensor), array)
