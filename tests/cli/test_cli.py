"""The command line: exit codes, messages, what it prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fastgrad as fg
from fastgrad import cli, flags, warm
from fastgrad.native.host.threads import usable_cores


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m fastgrad`` with this very package, wherever it lies."""
    path = os.pathsep.join([str(Path(fg.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=240,
    )


def without(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """Let `modules` look as if they were not installed."""
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)


def test_version(capsys):
    with pytest.raises(SystemExit) as leaving:
        cli.main(["--version"])
    assert leaving.value.code == 0
    assert capsys.readouterr().out == f"fastgrad {fg.__version__}\n"


def test_module_is_the_command():
    result = run("-m", "fastgrad", "--help")
    assert result.returncode == 0
    assert all(command in result.stdout for command in ("demo", "docs", "doctor", "warmup", "exit codes"))


def test_importing_the_command_is_cheap():
    result = run(
        "-c",
        "import sys, fastgrad.cli; print({'matplotlib', 'rich', 'scipy', 'sklearn'} & set(sys.modules))",
    )
    assert result.stdout == "set()\n", result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: COMMAND"),
        (["paint"], "invalid choice: 'paint'"),
        (["demo", "--epochs", "0"], "argument --epochs: expected a number of 1 or more, got 0"),
        (["demo", "--batch-size", "many"], "argument --batch-size: invalid int value: 'many'"),
        (["warmup", "--jobs", "0"], "argument --jobs: expected a number of 1 or more, got 0"),
        (["demo", "--seed", "-1"], "argument --seed: expected a number of 0 or more, got -1"),
    ],
)
def test_wrong_usage(arguments, message, capsys):
    with pytest.raises(SystemExit) as leaving:
        cli.main(arguments)
    assert leaving.value.code == cli.EXIT_USAGE
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        (["rich"], "needs rich, which is not"),
        (["matplotlib", "sklearn"], "needs matplotlib and scikit-learn"),
    ],
)
def test_missing_packages_are_named(missing, named, monkeypatch, capsys):
    for module in cli.DEMO_PACKAGES:
        pytest.importorskip(module)
    without(monkeypatch, *missing)
    assert cli.main(["demo"]) == cli.EXIT_MISSING_EXTRA
    message = capsys.readouterr().err
    assert named in message
    assert 'pip install "fastgrad[demo]"' in message


@pytest.mark.parametrize("report", ["no/such/folder/report.html", "."])
def test_report_path_is_checked_before_training(report, tmp_path, monkeypatch, capsys):
    app = pytest.importorskip("fastgrad.demo.app", exc_type=ImportError)
    monkeypatch.setattr(app, "run", lambda *_, **__: pytest.fail("trained for nothing"))
    assert cli.main(["demo", "--report", str(tmp_path / report)]) == cli.EXIT_FAILURE
    assert "--report: expected the path of a file" in capsys.readouterr().err


def test_batch_larger_than_the_data(tmp_path, capsys):
    pytest.importorskip("fastgrad.demo.app", exc_type=ImportError)
    arguments = ["demo", "--batch-size", "2000", "--report", str(tmp_path / "report.html")]
    assert cli.main(arguments) == cli.EXIT_FAILURE
    assert "batch size: expected 1 to 1438" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_interrupt(monkeypatch, capsys):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fg, "warmup", interrupt)
    assert cli.main(["warmup"]) == cli.EXIT_INTERRUPTED
    assert capsys.readouterr().err.endswith("fastgrad: interrupted\n")


@pytest.mark.parametrize("plain", [False, True], ids=["rich", "plain"])
def test_doctor_prints_the_environment(plain, monkeypatch, capsys):
    from fastgrad.debug import environment

    if plain:
        without(monkeypatch, "rich")
    assert cli.main(["doctor"]) == cli.EXIT_OK
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    for title, rows in environment().items():
        assert title.split() in lines
        for key in rows:
            assert any(line[: len(key.split())] == key.split() for line in lines), key


@pytest.mark.parametrize("plain", [False, True], ids=["rich", "plain"])
def test_warmup_shows_progress(plain, monkeypatch, capsys):
    def warmup(progress=None, *, jobs, only):
        assert jobs == 2
        assert only == []
        for done, name in enumerate(["add", "mul", "take[3]"], 1):
            progress(done, 3, name, 3.0 - done)
        return 3

    if plain:
        without(monkeypatch, "rich")
    monkeypatch.setattr(fg, "warmup", warmup)
    assert cli.main(["warmup", "--jobs", "2"]) == cli.EXIT_OK
    printed = capsys.readouterr().out
    assert "3/3" in printed
    assert "0 s left, take[3]" in printed
    assert "3 kernels were compiled in" in printed
    assert printed.endswith("the cache has all there are\n")


def test_warmup_of_some_kernels_on_all_cores(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(fg, "warmup", lambda _, **settings: asked.append(settings) or 0)
    assert cli.main(["warmup", "--only", "exp", "l*", "--only", "mul"]) == cli.EXIT_OK
    assert asked == [{"jobs": usable_cores(), "only": ["exp", "l*", "mul"]}]
    assert capsys.readouterr().out.endswith("the cache has all named exp l* mul\n")


def test_warmup_of_an_unknown_kernel(capsys):
    assert cli.main(["warmup", "--only", "softmx"]) == cli.EXIT_USAGE
    error = capsys.readouterr().err
    assert error.startswith("fastgrad: --only: warmup(): no kernel and no op that has one is called 'softmx'")


@pytest.mark.parametrize(
    ("seconds", "text"), [(90, "90 s left"), (80.6, "81 s left"), (600, "10 min left"), (0, "0 s left")]
)
def test_the_time_that_is_left(seconds, text):
    assert cli._left(seconds) == text


def test_the_time_that_is_left_counts_what_runs_at_once(monkeypatch):
    todo = [(0, 0, form) for form in range(5)]
    monkeypatch.setattr(warm, "missing", lambda only: todo)
    monkeypatch.setattr(warm, "_compiled", lambda todo, jobs: [warm._Made(c, "", 1.0 + c[2]) for c in todo])
    told = []
    fg.warmup(lambda *of: told.append(of[3]), jobs=2)
    assert told == [1.0 * 2, 1.5 * 2, 2.0, 2.5, 0.0]


def test_warmup_needs_a_cache_that_it_can_write(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(flags, "CACHE", str(tmp_path / "file"))
    assert cli.main(["warmup"]) == cli.EXIT_FAILURE
    assert "fastgrad: warmup(): compiled code cannot be kept: " in capsys.readouterr().err


def test_docs_opens_the_pages(monkeypatch, tmp_path, capsys):
    page = tmp_path / "site" / "index.html"
    page.parent.mkdir()
    page.touch()
    opened: list[str] = []
    monkeypatch.setattr(cli, "SITES", (tmp_path / "nowhere", page.parent))
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    assert cli.main(["docs", "--path"]) == cli.EXIT_OK
    assert opened == []
    assert cli.main(["docs"]) == cli.EXIT_OK
    assert opened == [page.as_uri()]
    assert capsys.readouterr().out == f"{page}\n" * 2


def test_docs_without_a_browser_names_the_file(monkeypatch, tmp_path, capsys):
    (tmp_path / "index.html").touch()
    monkeypatch.setattr(cli, "SITES", (tmp_path,))
    monkeypatch.setattr("webbrowser.open", lambda url: False)
    assert cli.main(["docs"]) == cli.EXIT_FAILURE
    printed = capsys.readouterr()
    assert printed.out == f"{tmp_path / 'index.html'}\n"
    assert "found no browser" in printed.err


def test_docs_that_are_not_there_say_how_to_build_them(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(cli, "SITES", (tmp_path,))
    for arguments in (["docs"], ["docs", "--path"]):
        assert cli.main(arguments) == cli.EXIT_FAILURE
        message = capsys.readouterr().err
        assert "bash .ci/docs" in message
        assert str(tmp_path) in message
