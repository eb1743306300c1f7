"""`fastgrad demo --device cuda`, on a driver without a GPU."""

from __future__ import annotations

import pytest

from fastgrad import cli
from tests.cuda.fake_driver import FakeDriver, attached


def test_the_demo_trains_on_the_gpu(tmp_path, capsys):
    pytest.importorskip("sklearn")
    report = tmp_path / "report.html"
    driver = FakeDriver(locked=False)  # locking its memory takes longer than the steps
    with attached(driver):
        assert not cli.main(["demo", "--device", "cuda", "--quick", "--epochs", "1", "--report", str(report)])
    assert report.stat().st_size > 10_000
    assert "product" in driver.launched
    assert "steps per second" in capsys.readouterr().out


def test_a_device_that_is_not_there(capsys):
    assert cli.main(["demo", "--device", "cuda:9"]) == cli.EXIT_FAILURE
    assert "fastgrad: --device: " in capsys.readouterr().err
