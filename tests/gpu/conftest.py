"""What these tests run on: the first GPU of the machine, or one that is none, over the same driver's interface."""

from __future__ import annotations

import gc

import pytest

import fastgrad as fg


@pytest.fixture(scope="module", params=["stand-in", pytest.param("gpu", marks=pytest.mark.cuda)])
def gpu(request):
    """``"cuda"``. The stand-in runs the CPU's kernels in the queues of a driver, and hides its memory."""
    if request.param == "gpu":
        if not fg.cuda.is_available():
            pytest.skip("there is no NVIDIA GPU, or no driver for it")
        yield "cuda"
        fg.cuda.synchronize()
        return
    from tests.cuda.fake_driver import FakeDriver, attached

    with attached(FakeDriver()):
        yield "cuda"
        gc.collect()
