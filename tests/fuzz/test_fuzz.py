"""Cases of all families, and the fuzzer itself on cases whose outcome is known.

The programs follow from their seeds. When threads, signals and forks meet within them does not: whenever they do,
nothing must go wrong.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest

from fastgrad import flags
from tests.fuzz.__main__ import main
from tests.fuzz.case import Case, program
from tests.fuzz.families import FAMILIES, arguments, draw
from tests.fuzz.families.planted import OUTCOMES
from tests.fuzz.judge import Failure
from tests.fuzz.shrink import reductions
from tests.fuzz.supervisor import ROOT, Found, Nursery, run_batch, same, shortened

CASES = 100  # of each family; `python -m tests.fuzz` runs as many as one likes
PARTS = 4  # of the family that has a case for every public callable


def failures(family: str, seeds: Sequence[int]) -> str:
    """What is wrong with cases of a family, and how to look at it."""
    found = run_batch(family, seeds, flags.DEBUG)
    hint = (
        f"{'FASTGRAD_DEBUG=1 ' * flags.DEBUG}python -m tests.fuzz --shrink{' --debug' * flags.DEBUG} --case"
    )
    return "\n".join(f"{hint} {one.case.name}: {one.failure.kind}\n{one.failure.detail}" for one in found)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "arguments"])
def test_nothing_goes_wrong(family: str):
    found = failures(family, range(CASES))
    assert not found, found


@pytest.mark.parametrize("part", range(PARTS))
def test_every_public_callable_answers_wrong_arguments(part: int):
    found = failures("arguments", range(part, len(arguments.callables()), PARTS))
    assert not found, found


# --- the fuzzer itself --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    one = Nursery(flags.DEBUG)
    yield one
    one.close()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_case_follows_from_its_seed(family: str):
    cases = [draw(family, seed) for seed in range(20)]
    assert cases == [draw(family, seed) for seed in range(20)]
    assert len({case.steps for case in cases}) == 20


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_what_is_noticed(nursery: Nursery, outcome: str):
    steps = ["x = fg.ones(2)", OUTCOMES[outcome], "x * 2"]
    failure = nursery.verdict(steps, 2.0) if outcome.startswith("hang") else nursery.verdict(steps)
    assert (failure.kind if failure else "") == outcome


def test_exceptions_in_their_place_are_no_failures(nursery: Nursery):
    steps = ["fg.no_such_name", "fg.ones(2) + 'x'", "[][0]", "1 / 0", "raise Mine('x')", "nowhere", "fg.ones(2).view(3)",
             "{}['x']", "fg.nn.ParameterDict()['x']", "del fg.nn.Linear(1, 1).x", "use(Hostile())"]  # fmt: skip
    assert nursery.verdict(steps) is None


def test_what_a_destructor_raises_is_seen(nursery: Nursery):
    bad = OUTCOMES["AttributeError from __init__.py:<module>"]
    failure = nursery.verdict([f"def f(*args):\n    {bad}", "x = Dies(f)", "del x"])
    assert failure is not None
    assert failure.kind == "AttributeError from __init__.py:<module>"


def seeds_of(outcome: str, count: int) -> list[int]:
    """The first planted cases of an outcome."""
    return [s for s in range(1000) if OUTCOMES[outcome] in draw("planted", s).steps][:count]


def test_a_case_that_ends_its_process_is_found_and_the_others_run():
    died = [*seeds_of("SIGSEGV in the statement", 1), *seeds_of("exit status 3 in the statement", 1)]
    raised = seeds_of("MemoryError from the statement", 1)
    fine = seeds_of("", 4)
    order = [fine[0], died[0], fine[1], *raised, fine[2], died[1], fine[3]]
    found = run_batch("planted", order, flags.DEBUG)
    assert [one.case.seed for one in found] == [died[0], *raised, died[1]]
    kinds = ["SIGSEGV in the statement", "MemoryError from the statement", "exit status 3 in the statement"]
    assert [one.failure.kind for one in found] == kinds


def test_a_failing_case_is_made_short():
    steps = (
        "x = fg.ones(2, 3, requires_grad=True)", "def f(*args):\n    tick()\n    os.kill(os.getpid(), signal.SIGSEGV)\n    return x",
        "f(x)",
    )  # fmt: skip
    found = Found(Case("planted", 0, steps), Failure("SIGSEGV in the statement"))
    short = shortened(found, flags.DEBUG).case.steps
    assert len(short) == 2
    assert short[0].splitlines()[1:] == ["    os.kill(os.getpid(), signal.SIGSEGV)"]
    assert short[1].endswith("f()")


def test_a_failure_that_needs_earlier_cases_is_made_short_with_them():
    ours = seeds_of("leak of storages, tensors, bytes", 1)[0]
    last = Case("planted", 0, ("os._exit(len(sys.kept))",))
    found = Found(last, Failure("exit status 1 in the statement"), before=[("planted", ours)])
    short = shortened(found, flags.DEBUG).case.steps
    assert len(short) == 2
    assert short[1] == "os._exit(len(sys.kept))"


def test_reductions_are_shorter_programs():
    step = "def f(*args):\n    a.register_hook(g)\n    return (args[0], h(1, x=2))"
    texts = list(reductions(step))
    assert texts == sorted(texts, key=lambda text: (len(text), text))
    assert all(len(text) < len(step) for text in texts)
    assert any("register_hook" not in text for text in texts)
    assert any("x=2" not in text and "register_hook" in text for text in texts)


def test_where_a_process_died_may_be_another_place():
    assert same("SIGSEGV in a.py:f", Failure("SIGSEGV in b.py:g"))
    assert not same("SIGSEGV in a.py:f", Failure("SIGABRT in a.py:f"))
    assert not same("KeyError from a.py:f", Failure("KeyError from b.py:f"))
    assert not same("hang in a.py:f", None)


def test_a_printed_program_runs_alone():
    bad = OUTCOMES["exit status 3 in the statement"]
    text = program(["raise Mine('passed over')", "Finalized([1.0])", "x = use(fg.ones(2))", bad])
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, check=False, capture_output=True)
    assert done.returncode == 3, done.stderr


def test_the_command_runs_a_case_and_says_what_came_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    debug = ["--debug"] * flags.DEBUG
    outcome = "SystemError from the statement"
    for seed, status, said in (
        (seeds_of("", 1)[0], 0, "nothing is wrong with it"),
        (seeds_of(outcome, 1)[0], 1, outcome),
    ):
        monkeypatch.setattr(sys, "argv", ["fuzz", "--case", f"planted:{seed}", *debug])
        assert main() == status
        assert said in capsys.readouterr().out


def test_the_command_runs_families_and_reports(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    monkeypatch.setattr("tests.fuzz.__main__.FAMILIES", ("planted",))
    seed = seeds_of("MemoryError from the statement", 1)[0]
    options = [
        "--family",
        "planted",
        "--seed",
        str(seed),
        "--cases",
        "1",
        "--jobs",
        "1",
        *["--debug"] * flags.DEBUG,
    ]
    monkeypatch.setattr(sys, "argv", ["fuzz", *options])
    assert main() == 1
    out = capsys.readouterr().out
    assert "MemoryError from the statement   (1 times, first in planted:" in out
    assert out.endswith("1 kinds of failure\n")
