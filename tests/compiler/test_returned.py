"""Values that a compiled call reads behind a change and only returns: replays give them back anew."""

from __future__ import annotations

import functools

import pytest

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad import nn
from tests.compiler.test_values import counts, same, why_not


class Case:
    """A state that each call changes, and what a function does then."""

    def __init__(self):
        self.total = fg.zeros(3)

    def change(self, x):
        self.total.add_(x)
        return self.total


def item(c, x):
    return c.change(x).sum().item()


def by_float(c, x):
    value = float(c.change(x).sum().detach() * 2)
    return value


def by_int(c, x):
    return int(c.change(x).to(fg.int64).sum()), int(c.total.argmax())


def by_bool(c, x):
    c.change(x)
    return bool((c.total > 3).all()), (c.total > 4).any().item()


def halves(c, x):
    return c.change(x).sum().to(fg.bfloat16).item()


def doubles(c, x):
    return c.change(x).sum().double().item()


def bytes_(c, x):
    return c.change(x).sum().to(fg.uint8).item(), c.total.sum().to(fg.int32).item()


def in_a_dict(c, x):
    loss = c.change(x).sum()
    return {"loss": loss.item(), "all": [loss.detach() * 2, (c.total.max().item(), None)], 3: loss.item()}


def in_a_dict_of_variables(c, x):
    key = "a"
    c.change(x)
    return {"n": c.total.numel()}, {"v": c.total.sum().item(), "w": key}


def through_variables(c, x):
    c.change(x)
    a = c.total.sum().item()
    b = c.total.max().item()
    a, b = b, a
    pair = (a, b)
    del a
    c.total.mul_(2)
    return pair, b, pair


def with_a_branch(c, x):
    c.change(x)
    value = c.total.sum().item()
    if c.total.dim() == 2:
        c.total.mul_(3)
    else:
        c.total.mul_(2)
    return value


def not_used(c, x):
    c.change(x)
    c.total.sum().item()
    unused = float(c.total.max())  # noqa: F841
    return c.total * 2


def read_between_changes(c, x):
    c.change(x)
    before = c.total[0].item()
    c.total.mul_(2)
    return before, c.total[0].item()


def with_history(c, x):
    w = fg.ones(3, requires_grad=True)
    c.change(x)
    y = (x * 2).sum()
    y.backward()
    return y.detach(), c.total.sum().item(), w.detach()


def read_first(c, x):
    value = x.sum().item()
    c.change(x)
    return value


GIVEN_BACK = [
    item, by_float, by_int, by_bool, halves, doubles, bytes_, in_a_dict, through_variables, with_a_branch, not_used,
    read_between_changes, in_a_dict_of_variables, read_first,
]  # fmt: skip


def results(function, n=8):
    case = Case()
    called = functools.partial(function, case) if not isinstance(function, fg.nn.Module) else function
    compiled = fg.compile(called)
    found = [compiled(fg.full((3,), 0.5 + k)) for k in range(n)]
    return compiled, found, case.total


def expected(function, n=8):
    case = Case()
    return [function(case, fg.full((3,), 0.5 + k)) for k in range(n)], case.total


def equal(a, b):
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(equal, a.values(), b.values()))
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    return same(a, b)


def agrees(function):
    compiled, found, total = results(function)
    wanted, then = expected(function)
    assert equal(found, wanted)
    assert fg.equal(total, then)
    return compiled


@pytest.mark.parametrize("function", GIVEN_BACK, ids=lambda f: f.__name__)
def test_what_is_only_returned_is_given_back(function):
    assert counts(agrees(function)) == (1, 7, 0)


# --- what is not only returned ----------------------------------------------------------------------------------


def doubled(c, x):
    return c.change(x).sum().item() * 2


def as_a_condition(c, x):
    return 1 if c.change(x).sum().item() > 7 else 2


def of_a_tensor(c, x):
    return 1 if c.change(x).sum() > 7 else 2


def negated(c, x):
    return not c.change(x).sum()


def as_a_text(c, x):
    return f"{c.change(x).sum().item():.2f}"


def rounded(c, x):
    return round(c.change(x).sum().item(), 1)


def truncated(c, x):
    return int(c.change(x).sum())


def as_an_index(c, x):
    return (10, 20, 30, 40, 50, 60, 70, 80)[int(c.change(x).to(fg.int64)[0]) // 6]


def as_a_key(c, x):
    return {c.change(x).sum().item(): 1}


def as_one_of_two_keys(c, x):
    key = str(x.dim())
    return {key: c.change(x).sum().item(), "1": 2.0}


def by_either_way(c, x):
    c.change(x)
    value = c.total.sum().item()
    return (value, 0) if x.dim() == 1 else (0, value)


def through_a_closure(c, x):
    c.change(x)
    value = c.total.sum().item()
    return (lambda: value)()


def through_variables_of_the_function(c, x):
    c.change(x)
    value = c.total.sum().item()
    return locals()["value"]


def guarded(c, x):
    c.change(x)
    try:
        value = c.total.sum().item()
        return value
    finally:
        c.total.mul_(2)


def looped(c, x):
    c.change(x)
    value = 0
    for _ in range(3):
        value = c.total.sum().item()
        c.total.mul_(2)
    return value


def within(c, x):
    return largest(c.change(x))


def largest(x):
    return x.max().item()


def as_the_largest(c, x):
    return max([c.change(x).sum()], key=lambda t: t.item()).item()


def in_place(c, x):
    values = [c.change(x).sum().item()]
    values += [1]
    return values


def in_a_comprehension(c, x):
    return [t.item() for t in c.change(x)]


def in_a_generator(c, x):
    return sum(t.item() for t in c.change(x))


def compared(c, x):
    return c.change(x).sum().item() == 4.5


def by_index(c, x):
    c.change(x)
    return range(1000)[c.total.to(fg.int64).sum()]


NOT_ONLY_RETURNED = [
    doubled, as_a_condition, of_a_tensor, negated, as_a_text, rounded, truncated, as_an_index, as_a_key,
    as_one_of_two_keys, by_either_way, through_a_closure, through_variables_of_the_function, guarded, looped, within,
    as_the_largest, in_place, in_a_comprehension, in_a_generator, compared, by_index,
]  # fmt: skip


@pytest.mark.parametrize("function", NOT_ONLY_RETURNED, ids=lambda f: f.__name__)
def test_what_is_not_only_returned_runs_eagerly(function):
    compiled = agrees(function)
    assert counts(compiled) == (1, 0, 7)
    assert "it reads a value after it changed a tensor from outside" in why_not(compiled)


def test_a_global_float_of_ones_own():
    source = "def function(c, x):\n    return float(c.change(x).sum())\n"
    for own in (lambda x: x.item() + 1, lambda x: -x.detach()):
        scope = {"float": own}
        exec(source, scope)
        agrees(scope["function"])


class Box:
    """Something that is no tensor and has an item."""

    def __init__(self, tensor):
        self.tensor = tensor

    def item(self):
        return self.tensor.item() + 1


def test_an_item_of_something_else():
    assert counts(agrees(lambda c, x: Box(c.change(x).sum()).item()))[1] == 0


# --- values that are computed before the change ------------------------------------------------------------------


def test_a_value_that_does_not_depend_on_the_change_is_compared_before_it():
    def decide(c, x):
        y = x * 2
        c.change(x)
        if (y.sum() > 20) & (x[0] > 1):
            return y + 1
        return y

    compiled = agrees(decide)
    assert counts(compiled) == (2, 6, 0)


def test_a_value_that_depends_on_the_change_in_either_direction():
    def reads_it(c, x):
        y = x * 2
        c.change(y)
        y.add_(c.total)
        return y if y.sum() > 20 else -y

    def writes_what_it_reads(c, x):
        y = x * 2
        c.change(y)
        y.zero_()
        y.add_(1)
        return y if y.sum() > 2 else -y

    assert counts(agrees(reads_it)) == (1, 0, 7)
    compiled = agrees(writes_what_it_reads)
    assert counts(compiled)[2] == 7 or counts(compiled)[1] == 7


def test_gradients_that_are_checked_behind_the_step():
    def results(wrap):
        fg.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3))
        optimizer = fg.optim.Adam(model.parameters(), lr=0.1)

        @wrap
        def step(x, y):
            optimizer.zero_grad()
            out = model(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            optimizer.step()
            if not loss.isfinite():
                raise ValueError("the loss is no number")
            return {"loss": loss.item(), "hits": (out.argmax(1) == y).sum().item()}, float(
                model[0].weight.norm()
            )

        found = []
        for k in range(12):
            x, y = fg.randn(4, 3), fg.randint(0, 3, (4,))
            if k == 8:
                with pytest.raises(ValueError, match="no number"):
                    step(fg.full((4, 3), float("inf")) * fg.tensor([1.0, -1.0, 1.0]) * 0, y)
                for p in model.parameters():
                    p.data.nan_to_num_(0.5)
                for state in optimizer.state.values():
                    for t in state.values():
                        t.nan_to_num_(0.25)
            found.append(step(x, y))
        return step, found

    step, found = results(fg.compile)
    _, wanted = results(lambda f: f)
    for (a, norm), (b, other) in zip(found, wanted, strict=True):
        assert a["hits"] == b["hits"]
        assert type(a["loss"]) is float
        assert abs(a["loss"] - b["loss"]) < 1e-4
        assert abs(norm - other) < 1e-4
    recorded, replayed, eager = counts(step)
    assert (recorded, eager) == (2, 0)  # one that raises does not count
    assert replayed == 10


def test_values_behind_hooks():
    def results(wrap):
        w = fg.ones(3, requires_grad=True)
        log = []
        w.register_hook(lambda g: log.append(g.sum().item()))

        @wrap
        def step(x):
            w.grad = None
            loss = (w * x).sum()
            loss.backward()
            return loss.item(), w.grad.sum().item()

        return step, [step(fg.full((3,), float(k))) for k in range(6)], log

    step, found, log = results(fg.compile)
    _, wanted, other = results(lambda f: f)
    assert found == wanted
    assert log == other
    recorded, replayed, eager = counts(step)
    assert eager == 0
    assert replayed == 6 - recorded


def test_outputs_with_a_history_beside_numbers():
    w = fg.ones(3, requires_grad=True)
    compiled = fg.compile(lambda x: ((w * x).sum(), x.sum().item(), x))
    for k in range(5):
        w.grad = None
        x = fg.full((3,), float(k))
        y, value, same_x = compiled(x)
        y.backward()
        assert value == 3 * k
        assert same_x is x
        assert w.grad.tolist() == [k] * 3
    assert counts(compiled) == (1, 4, 0)


def test_a_function_that_only_reads():
    compiled = fg.compile(lambda x: x.item())
    assert [compiled(fg.tensor([float(k)])) for k in range(5)] == [0, 1, 2, 3, 4]
    assert counts(compiled) == (1, 4, 0)


def test_methods_and_partial_functions():
    class Trainer:
        def __init__(self):
            self.case = Case()

        def step(self, x):
            return self.case.change(x).sum().item()

    trainer = Trainer()
    for function in (trainer.step, functools.partial(trainer.step)):
        compiled = fg.compile(function)
        before = trainer.case.total.sum().item()
        assert [compiled(fg.ones(3)) for _ in range(4)] == [before + 3 * k for k in range(1, 5)]
        assert counts(compiled) == (1, 3, 0)
