"""The cache of compiled code: damaged files, locks, folders that cannot be used, and what is said of them."""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import fastgrad as fg
from fastgrad import flags
from fastgrad.native.build import cache, notices, processors, sealed

PACKAGE = Path(fg.__file__).parent
CODE = bytes(range(256)) * 400

# The cache alone, without the runtime that `import fastgrad` loads from it.
ALONE = f"""
import os, signal, sys, time, types
package = types.ModuleType("fastgrad")
package.__path__ = [{str(PACKAGE)!r}]
sys.modules["fastgrad"] = package
from fastgrad.native.build import cache, notices, sealed

CODE = bytes(range(256)) * 400

def compile_code(seconds=0.0):
    print("compiling", os.getpid(), flush=True)
    time.sleep(seconds)
    return CODE

def get(seconds=0.0):
    unit = cache.get("unit-1", "a unit", lambda: compile_code(seconds))
    assert unit.code == CODE
    return unit
"""


def start(program: str, **environment: str | None) -> subprocess.Popen[str]:
    """A program in an interpreter of its own, with the cache folder in `FASTGRAD_CACHE`; None takes a variable away."""
    path = os.pathsep.join([str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")])
    variables = {**os.environ, "PYTHONPATH": path, "FASTGRAD_CACHE": flags.CACHE, **environment}
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(program)],
        env={name: value for name, value in variables.items() if value is not None},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What a program printed on stdout and on stderr, once it has ended well."""
    try:
        out, err = process.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    assert process.returncode == 0, err
    return out, err


def alone(program: str, **environment: str | None) -> tuple[str, str]:
    return finish(start(ALONE + textwrap.dedent(program), **environment))


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for the test, and nothing said yet; returns where the folder of this environment will be."""
    monkeypatch.setattr(flags, "CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(notices, "_said", set())
    return tmp_path / "cache" / cache.environment_key()


class Compiler:
    """Compiles a unit, or pretends to; counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> bytes:
        self.calls += 1
        return CODE


def get(name: str = "unit-1") -> cache.Unit:
    """A unit, as a process that starts now would get it."""
    compile_code = Compiler()
    unit = cache.get(name, "a unit", compile_code)
    assert unit.code == CODE
    assert compile_code.calls == unit.compiled
    return unit


def file_of(name: str = "unit-1") -> Path:
    folder = cache.place().folder
    assert folder is not None
    return folder / f"{name}.o"


def test_a_unit_is_compiled_once(capsys):
    assert get() == (CODE, True, "")
    assert get() == (CODE, False, "")
    assert capsys.readouterr().err == (
        f"fastgrad: compiling a unit for this machine (once; kept in {flags.CACHE})\n"
    )
    assert [path.name for path in file_of().parent.iterdir()] == ["unit-1.o"]


def test_a_failing_compiler_leaves_nothing_behind(empty):
    def fail():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.get("unit-1", "a unit", fail)
    assert not list(empty.iterdir())
    assert get().compiled


# --- damage ----------------------------------------------------------------------------------------------------


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :]


DAMAGES = {
    "empty": (lambda data: b"", "it is empty"),
    "cut in the header": (lambda data: data[:20], "it is cut off"),
    "cut in the code": (lambda data: data[:-1], "it has .* bytes and not"),
    "longer": (lambda data: data + b"\0", "it has .* bytes and not"),
    "zeros": (lambda data: bytes(len(data)), "it is no file of compiled code"),
    "zeros at the end": (lambda data: data[:4096] + bytes(len(data) - 4096), "its contents have changed"),
    "bare code": (lambda data: CODE, "it is no file of compiled code"),
    "magic word": (lambda data: flipped(data, 1), "it is no file of compiled code"),
    "length of the key": (lambda data: flipped(data, 8), "it has .* bytes and not|contents have changed"),
    "length of the code": (lambda data: flipped(data, 23), "it has .* bytes and not"),
    "digest": (lambda data: flipped(data, 40), "its contents have changed"),
    "key": (lambda data: flipped(data, 60), "its contents have changed"),
    "code": (lambda data: flipped(data, len(data) // 2), "its contents have changed"),
    "last byte": (lambda data: flipped(data, len(data) - 1), "its contents have changed"),
    "another unit": (lambda data: sealed.seal("unit-2", CODE), "it was made for something else"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_compiled_anew(damage, capsys):
    change, why = DAMAGES[damage]
    get()
    path = file_of()
    path.write_bytes(change(path.read_bytes()))
    capsys.readouterr()
    assert get().compiled
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"fastgrad: {path} is not used: " in said
    assert said.endswith("; compiling a unit anew\n")
    assert re.search(why, said), said
    assert not get().compiled
    assert capsys.readouterr().err == ""


def test_no_flipped_bit_goes_unnoticed():
    data = sealed.seal("key", b"code")
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(sealed.UnusableError):
            sealed.unseal("key", bytes(changed))
    for length in range(len(data)):
        with pytest.raises(sealed.UnusableError):
            sealed.unseal("key", data[:length])
    assert sealed.unseal("key", data) == b"code"


def test_a_file_of_another_processor_is_not_used(monkeypatch, capsys):
    """The folder is named by the processor; and a file that was copied from another's says whose it is."""
    get()
    here = file_of()
    another = processors.host()._replace(name="another")
    monkeypatch.setattr(processors, "host", lambda: another)
    cache.environment_key.cache_clear()
    try:
        there = file_of()
        assert there.parent != here.parent
        shutil.copy(here, there)
        capsys.readouterr()
        assert get().compiled
        assert "it was made for something else" in capsys.readouterr().err
    finally:
        monkeypatch.undo()
        cache.environment_key.cache_clear()


@pytest.mark.parametrize("what", ["version", "suffix", "features", "llvmlite", "numpy"])
def test_code_depends_on_the_environment(what, monkeypatch):
    before = cache.environment_key()
    if what == "version":
        monkeypatch.setattr(cache.sys, "version_info", (3, 99, 0))
    elif what == "suffix":  # a build of CPython with other layouts, such as a debug build
        monkeypatch.setattr(cache.importlib.machinery, "EXTENSION_SUFFIXES", [".cpython-d.so"])
    elif what == "features":
        host = processors.host()
        other = host._replace(features=host.features.replace("-", "+", 1))
        monkeypatch.setattr(processors, "host", lambda: other)
    else:
        module = cache.llvmlite if what == "llvmlite" else cache.np
        monkeypatch.setattr(module, "__version__", "99")
    cache.environment_key.cache_clear()
    try:
        assert cache.environment_key() != before
    finally:
        monkeypatch.undo()
        cache.environment_key.cache_clear()


# --- what lies in the way --------------------------------------------------------------------------------------


def put_link(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def put_stale_draft(path: Path) -> None:
    path.write_bytes(bytes(10 * len(CODE)))
    os.utime(path, (2**33, 2**33))  # in the year 2242


IN_THE_WAY = {
    "link": put_link,
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "draft of the future": put_stale_draft,
}


@pytest.mark.parametrize("thing", IN_THE_WAY)
def test_what_lies_where_the_draft_goes(thing, capsys):
    IN_THE_WAY[thing](file_of().with_name("unit-1.o.draft"))
    begun = time.monotonic()
    assert get() == (CODE, True, "")
    assert not get().compiled
    assert time.monotonic() - begun < sealed.PATIENCE / 2
    assert "not kept" not in capsys.readouterr().err


@pytest.mark.parametrize("thing", ["link", "pipe"])
def test_what_lies_where_the_file_goes(thing, capsys):
    IN_THE_WAY[thing](file_of())
    assert get() == (CODE, True, "")
    assert f"{file_of()} is not used: it is {'a link' if thing == 'link' else 'no ordinary file'}" in (
        capsys.readouterr().err
    )
    assert not get().compiled


def test_a_folder_where_the_file_goes(capsys):
    file_of().mkdir()
    unit = get()
    assert unit.compiled
    assert "Is a directory" in unit.trouble
    assert f"fastgrad: compiled code is not kept: {unit.trouble}\n" in capsys.readouterr().err
    assert [path.name for path in file_of().parent.iterdir()] == ["unit-1.o"]


def test_the_folder_goes_while_the_process_runs():
    get()
    shutil.rmtree(flags.CACHE)
    assert get() == (CODE, True, "")
    assert not get().compiled


# --- several processes -----------------------------------------------------------------------------------------


def test_one_of_many_processes_compiles(empty):
    processes = [start(f"{ALONE}\nget(1.5)") for _ in range(8)]
    printed = [finish(process) for process in processes]
    assert sum(out.count("compiling") for out, _ in printed) == 1
    assert sum("compiling a unit for this machine" in err for _, err in printed) == 1
    assert [path.name for path in empty.iterdir()] == ["unit-1.o"]


def holder(seconds: float = 60) -> subprocess.Popen[str]:
    """A process that is compiling."""
    process = start(f"{ALONE}\nget({seconds})")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("compiling")
    return process


@pytest.fixture
def compiling() -> Iterator[subprocess.Popen[str]]:
    process = holder()
    yield process
    process.kill()
    process.communicate()


def test_a_killed_process_holds_nobody_up(compiling, empty):
    compiling.kill()
    begun = time.monotonic()
    assert get() == (CODE, True, "")
    assert time.monotonic() - begun < sealed.PATIENCE / 2
    assert [path.name for path in empty.iterdir()] == ["unit-1.o"]


def test_a_stopped_process_is_waited_for_with_patience(compiling, capsys, monkeypatch):
    monkeypatch.setattr(sealed, "PATIENCE", 2.0)
    compiling.send_signal(signal.SIGSTOP)
    assert get() == (CODE, True, "")
    assert "fastgrad: waiting for another process, which compiles a unit\n" in capsys.readouterr().err
    assert not get().compiled


def test_a_file_system_without_locks(monkeypatch, empty):
    def refuse(descriptor, operation):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(sealed.fcntl, "flock", refuse)
    assert get() == (CODE, True, "")
    assert not get().compiled
    assert "unit-1.o" in {path.name for path in empty.iterdir()}


def test_a_unit_that_is_asked_for_while_it_is_compiled():
    """A signal or a finalizer runs Python code, and so ops, in the midst of anything."""

    def compile_code():
        assert get().compiled
        return CODE

    assert cache.get("unit-1", "a unit", compile_code) == (CODE, True, "")
    assert not get().compiled


def test_an_interruption_keeps_no_lock(monkeypatch):
    """Ctrl-C comes while the lock is given back: the next one in this process gets it all the same."""
    flock, came = fcntl.flock, []

    def interrupted(file, operation):
        if operation == fcntl.LOCK_UN and not came:
            came.append(True)
            raise KeyboardInterrupt
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", interrupted)
    with pytest.warns(ResourceWarning, match="unclosed file"), pytest.raises(KeyboardInterrupt):
        cache.get("unit-1", "a unit", lambda: 1 / 0)
    begun = time.monotonic()
    assert get().compiled
    assert time.monotonic() - begun < sealed.PATIENCE / 2


# --- forks -----------------------------------------------------------------------------------------------------


def test_a_child_has_no_part_in_the_locks_of_its_parent():
    """The parent is killed; its child, which was forked while it compiled, lives on, and nobody waits for it."""
    process = start(
        ALONE
        + """
def compile_and_fork():
    if os.fork() == 0:
        print("child", os.getpid(), flush=True)
        signal.pause()
    signal.pause()

cache.get("unit-1", "a unit", compile_and_fork)
"""
    )
    assert process.stdout is not None
    child = int(process.stdout.readline().split()[1])
    try:
        process.kill()
        begun = time.monotonic()
        assert get() == (CODE, True, "")
        assert time.monotonic() - begun < sealed.PATIENCE / 2
        os.kill(child, 0)  # it is still there
    finally:
        os.kill(child, signal.SIGKILL)
        process.communicate()


def test_a_child_goes_on_with_what_its_parent_was_compiling(empty):
    out, _ = alone(
        """
        def compile_and_fork():
            global child
            child = os.fork()
            return compile_code(0.0 if child else 0.5)

        unit = cache.get("unit-1", "a unit", compile_and_fork)
        assert unit == (CODE, True, ""), unit
        if child:
            assert os.waitpid(child, 0)[1] == 0
            assert not get().compiled
        """
    )
    assert out.count("compiling") == 2
    assert [path.name for path in empty.iterdir()] == ["unit-1.o"]


def seed(folder: Path) -> None:
    """Put the runtime into an empty cache, so that an import finds it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flags, "CACHE", os.environ.get("FASTGRAD_CACHE") or None)
        source = cache.place().folder
    assert source is not None
    key = cache.hash_package("native")
    folder.mkdir(parents=True, mode=0o755)
    for path in source.glob(f"runtime-{key}*.o"):
        shutil.copy(path, folder)


def test_a_fork_waits_until_another_thread_has_compiled(empty):
    """Numba's lock would be held for ever in the child, by a thread that is not there."""
    seed(empty)
    process = start(
        """
        import os, signal, threading, time
        import fastgrad as fg
        from fastgrad.native.build import cache

        begun = threading.Event()
        def work():
            x = fg.ones(2, 8)
            begun.set()
            fg.nn.functional.layer_norm(x, (8,))

        thread = threading.Thread(target=work)
        thread.start()
        begun.wait()
        while thread.is_alive() and not list(cache.place().folder.glob("norm*.draft")):
            time.sleep(0.01)
        time.sleep(0.3)
        child = os.fork()
        if child == 0:
            signal.alarm(200)
            os._exit(int(fg.ones(3).cumsum(0)[2].item()))
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 3
        thread.join()
        """,
        PYTHONWARNINGS="ignore",  # newer Pythons warn of forks beside threads
    )
    finish(process)


# --- folders that cannot be used -------------------------------------------------------------------------------


# --- what comes with the package -------------------------------------------------------------------------------


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A unit that the package was built with."""
    monkeypatch.setattr(cache, "PACKAGED", tmp_path / "compiled")
    path = cache.PACKAGED / cache.environment_key() / "unit-1.o"
    path.parent.mkdir(parents=True)
    path.write_bytes(sealed.seal(f"{cache.environment_key()}/unit-1", CODE))
    return path


def test_what_comes_with_the_package_is_not_compiled(packaged, empty, capsys):
    assert cache.has("unit-1")
    assert get() == cache.Unit(CODE)
    assert not list(empty.rglob("*.o"))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("fault", ["cut off", "for another machine", "written by others"])
def test_what_does_not_fit_is_compiled_as_if_it_were_not_there(packaged, fault, monkeypatch):
    if fault == "cut off":
        packaged.write_bytes(packaged.read_bytes()[:-1])
    elif fault == "for another machine":
        packaged.write_bytes(sealed.seal("another/unit-1", CODE))
    else:
        packaged.chmod(0o666)
    assert not cache.has("unit-1")
    assert get().compiled
    assert file_of().is_file()


def test_a_cache_that_is_a_file(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(flags, "CACHE", str(tmp_path / "file"))
    unit = get()
    assert unit.compiled
    said = capsys.readouterr().err
    assert said == f"fastgrad: compiling a unit for this machine (not kept: {unit.trouble})\n"
    assert "Not a directory" in unit.trouble
    assert str(tmp_path / "file") in unit.trouble
    assert get().compiled
    assert capsys.readouterr().err == ""


def test_a_user_without_a_home(monkeypatch, capsys, tmp_path):
    def unknown(uid):
        raise KeyError(uid)

    monkeypatch.setattr(flags, "CACHE", None)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.chdir(tmp_path)
    assert cache.root() is None
    assert get().compiled
    assert "(not kept: there is no home folder; FASTGRAD_CACHE can name another)" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())  # no folder called ~


def test_where_the_folder_is(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(flags, "CACHE", "~/own")
    assert cache.root() == tmp_path / "own"
    monkeypatch.setattr(flags, "CACHE", None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.root() == tmp_path / "xdg" / "fastgrad"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache.root() == tmp_path / ".cache" / "fastgrad"


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_what_is_made_is_the_users_alone(umask):
    before = os.umask(umask)
    try:
        get()
        for path in (file_of(), file_of().parent):
            assert not stat.S_IMODE(path.stat().st_mode) & 0o022
        assert not get().compiled
    finally:
        os.umask(before)


def own_by_another(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a path look as if it belonged to another user."""
    if os.geteuid() == 0:
        os.chown(path, 54321, -1)
    else:
        user = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: user + 1)


@pytest.mark.parametrize("fault", ["group", "others", "owner"])
def test_a_folder_in_which_others_can_write(fault, monkeypatch, capsys):
    get()
    folder = file_of().parent
    if fault == "owner":
        own_by_another(folder, monkeypatch)
    else:
        folder.chmod(0o775 if fault == "group" else 0o757)
    capsys.readouterr()
    monkeypatch.setattr(notices, "_said", set())
    assert get().trouble == "the cache is not used"
    why = "it belongs to another user" if fault == "owner" else "others may write to it (its mode is 7"
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"fastgrad: the cache {folder} is not used: {why}")
    assert second == "fastgrad: compiling a unit for this machine (not kept: the cache is not used)"
    assert get().compiled
    assert capsys.readouterr().err == ""  # it is said once
    assert not cache.has("unit-1")


@pytest.mark.parametrize("fault", ["group", "others", "owner"])
def test_a_file_that_others_can_write(fault, monkeypatch, capsys):
    get()
    if fault == "owner" and os.geteuid() != 0:
        pytest.skip("needs root, to give a file away")
    path = file_of()
    if fault == "owner":
        own_by_another(path, monkeypatch)
    else:
        path.chmod(0o664 if fault == "group" else 0o646)
    capsys.readouterr()
    assert get() == (CODE, True, "")
    why = (
        "it belongs to another user (54321)" if fault == "owner" else "others may write to it (its mode is 6"
    )
    assert f"fastgrad: {path} is not used: {why}" in capsys.readouterr().err
    assert not get().compiled


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache that a user can read and not write: one's own, or root's for somebody else."""
    with tempfile.TemporaryDirectory() as name:  # others can enter it, unlike pytest's
        os.chmod(name, 0o755)
        monkeypatch.setattr(flags, "CACHE", name)
        get("unit-0")
        folder = file_of().parent
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)


WITHOUT_RIGHTS = """
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(54321)
    os.setuid(54321)
"""


def test_a_folder_that_can_only_be_read(read_only):
    out, err = alone(
        WITHOUT_RIGHTS
        + """
assert not cache.get("unit-0", "a unit", compile_code).compiled
unit = get()
assert unit.compiled and "Permission denied" in unit.trouble, unit
assert "Permission denied" in cache.trouble()
"""
    )
    assert out.count("compiling") == 1
    assert "fastgrad: compiling a unit for this machine (not kept: " in err
    assert err.count("\n") == 1
    assert [path.name for path in read_only.iterdir()] == ["unit-0.o"]


def test_a_full_disk(empty):
    _, err = alone(
        """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        unit = get()
        assert unit.compiled and unit.trouble
        assert get().compiled
        """
    )
    assert err.count("fastgrad: compiled code is not kept: [Errno 27] File too large\n") == 1
    assert not list(empty.iterdir())
    assert get().compiled


def test_a_closed_stderr(empty):
    out, _ = alone(
        """
        sys.stderr.close()
        get()
        sys.stderr = None
        os.remove(cache.place().folder / "unit-1.o")
        notices._said.clear()
        get()
        """
    )
    assert out.count("compiling") == 2


# --- imports ---------------------------------------------------------------------------------------------------


def test_a_program_with_damaged_kernels(empty):
    """It computes the same, and says of each file, in one line, that it was damaged."""
    seed(empty)
    program = "import fastgrad as fg; print((fg.ones(3) * fg.ones(3)).sum().item())"
    out, err = finish(start(program))
    assert out == "3.0\n"
    assert err.count("\n") == 1
    assert f"kept in {flags.CACHE})" in err
    kernels = [path for path in empty.iterdir() if not path.name.startswith("runtime")]
    assert len(kernels) >= 2
    for k, path in enumerate(sorted(kernels)):
        data = path.read_bytes()
        path.write_bytes((b"", data[:-7], flipped(data, len(data) // 2), bytes(len(data)))[k % 4])
    out, err = finish(start(program))
    assert out == "3.0\n"
    assert err.count("\n") == len(kernels)
    for path in kernels:
        assert err.count(f"fastgrad: {path} is not used: ") == 1
    assert finish(start(program)) == ("3.0\n", "")


def test_eight_imports_at_once(empty):
    seed(empty)
    program = "import fastgrad as fg; print((fg.ones(3) * fg.ones(3)).sum().item())"
    processes = [start(program) for _ in range(8)]
    assert {finish(process)[0] for process in processes} == {"3.0\n"}
    assert {path.suffix for path in empty.iterdir()} == {".o"}
