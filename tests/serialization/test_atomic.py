"""A file is written all or not: what was there before stays until the new file is complete."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import fastgrad as fg
from fastgrad.serialization import files


class Explodes:
    """Something whose pickling fails after other things were written."""

    def __reduce__(self) -> Any:
        raise KeyboardInterrupt


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "model.pt"
    fg.save({"w": fg.ones(3)}, path)
    return path


def assert_old(path: Path) -> None:
    assert fg.load(path)["w"].tolist() == [1, 1, 1]
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_an_object_that_cannot_be_pickled_leaves_the_old_file(old: Path):
    with pytest.raises(KeyboardInterrupt):
        fg.save([fg.zeros(1000), Explodes()], old)
    assert_old(old)


def test_a_writer_that_fails_in_the_middle(old: Path, monkeypatch: pytest.MonkeyPatch):
    from fastgrad.functions.storage import Storage

    whole = Storage.buffer

    def failing(self: Storage) -> memoryview:
        if self.flat.numel() == 3:
            raise OSError("No space left on device")
        return whole.__get__(self)

    monkeypatch.setattr(Storage, "buffer", property(failing))
    with pytest.raises(OSError, match="No space left"):
        fg.save({"a": fg.zeros(10000), "b": fg.zeros(3)}, old)
    monkeypatch.undo()
    assert_old(old)


@pytest.mark.parametrize("step", ["_sync", "chmod"])
def test_a_failure_after_writing(old: Path, monkeypatch: pytest.MonkeyPatch, step: str):
    def failing(*args: Any) -> None:
        raise OSError("failed")

    monkeypatch.setattr(files if step == "_sync" else Path, step, failing)
    with pytest.raises(OSError, match="failed"):
        fg.save(5, old)
    monkeypatch.undo()
    assert_old(old)


def test_safetensors_are_replaced_in_the_same_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a.safetensors"
    fg.save({"w": fg.ones(3)}, path)

    def failing(*args: Any) -> None:
        raise OSError("failed")

    monkeypatch.setattr(files, "_sync", failing)
    with pytest.raises(OSError, match="failed"):
        fg.save({"w": fg.zeros(3)}, path)
    monkeypatch.undo()
    assert_old(path)


KILLED = """
import os, signal, sys
import fastgrad as fg
from fastgrad.functions.storage import Storage

whole = Storage.buffer

def killing(self):
    if self.flat.numel() == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return whole.__get__(self)

Storage.buffer = property(killing)
fg.save({"a": fg.zeros(100000), "b": fg.zeros(3)}, sys.argv[1])
"""


def test_a_process_that_is_killed_while_it_writes(old: Path):
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(old)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        timeout=120,
    )
    assert result.returncode == -signal.SIGKILL, result.stderr
    assert fg.load(old)["w"].tolist() == [1, 1, 1]
    left = [p.name for p in old.parent.iterdir() if p != old]
    assert len(left) == 1  # the temporary file, under a name that nobody takes for a model
    assert left[0].startswith(".fastgrad-")


def test_permissions(old: Path):
    old.chmod(0o640)
    fg.save(5, old)
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    umask = os.umask(0o027)
    try:
        fg.save(5, old.parent / "new.pt")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((old.parent / "new.pt").stat().st_mode) == 0o640


def test_links_are_followed(old: Path):
    link = old.parent / "latest.pt"
    link.symlink_to(old)
    fg.save(5, link)
    assert link.is_symlink()
    assert fg.load(old) == 5


def test_pipes_and_devices_stay_what_they_are():
    fg.save(5, "/dev/null")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
