"""What notebooks show of tensors, modules and graphs: escaped, of a bounded size, and nothing is changed by looking."""

from __future__ import annotations

import html.parser

import pytest

import fastgrad as fg
from fastgrad import markup, nn


class Shown(html.parser.HTMLParser):
    """The texts of HTML whose tags are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert all(not name.startswith("on") for name, _ in attrs)
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] != "style" and data.strip():
            self.texts.append(data)


def table_of(value: fg.Tensor) -> list[str]:
    return Shown(value._repr_html_()).texts[2:]


def test_facts_of_tensors():
    x = fg.ones(2, 2, dtype=fg.float64, requires_grad=True)
    assert Shown(x._repr_html_()).texts[:2] == ["Tensor", "shape (2, 2) · float64 · cpu · requires_grad"]
    assert Shown((x * 2)._repr_html_()).texts[1] == "shape (2, 2) · float64 · cpu · grad_fn=<MulBackward0>"
    assert Shown(nn.Parameter(fg.ones(1))._repr_html_()).texts[0] == "Parameter"
    assert Shown(fg.ones(0, 3)._repr_html_()).texts == ["Tensor", "shape (0, 3) · float32 · cpu"]


def test_values_of_tensors():
    assert table_of(fg.tensor(3)) == ["3"]
    assert table_of(fg.tensor([1.0, 0.25])) == ["0", "1", "1.0000", "0.2500"]
    assert table_of(fg.tensor([[True], [False]])) == ["0", "0", "True", "1", "False"]
    assert table_of(fg.tensor([[1 + 2j]]))[-1] == "1.+2.j"
    assert table_of(fg.tensor([float("nan"), float("inf")]))[2:] == ["nan", "inf"]
    assert table_of(fg.ones(1, dtype=fg.bfloat16)) == ["0", "1."]
    large = table_of(fg.arange(10_000).reshape(100, 100))
    assert large[:11] == ["0", "1", "2", "3", "4", "…", "95", "96", "97", "98", "99"]
    assert large[11:14] == ["0", "0", "1"]
    assert large[-1] == "9999"
    assert len(large) == 11 + 9 * 12
    first = table_of(fg.arange(24).reshape(2, 3, 4))
    assert first[0] == "[0], the first of 2 matrices"
    assert first[-1] == "11"
    assert table_of(fg.ones(1, 1, 1))[-1] == "1."


@pytest.mark.parametrize("shape", [(10**6,), (1000, 1000), (3,) * 8, (0,)])
def test_tensors_are_short(shape: tuple[int, ...]):
    assert len(fg.zeros(*shape)._repr_html_()) < 8000


def test_a_view_that_cannot_follow_its_base():
    x = fg.ones(2, 2, requires_grad=True) * 1
    part, _ = x.unbind(0)
    with fg.no_grad():
        view = x[0]
    x.mul_(2)
    for value in (part, view):
        assert "shape (2,)" in value._repr_html_()


def test_what_prints_itself_is_not_replaced():
    class Own(fg.Tensor):
        def __repr__(self):
            return "mine"

    class Plain(fg.Tensor):
        pass

    assert Own([1.0])._repr_html_() is None
    assert "<b>Plain</b>" in Plain([1.0])._repr_html_()

    class Net(nn.Linear):
        def __repr__(self):
            return "mine"

    assert Net(1, 1)._repr_html_() is None
    assert nn.LazyLinear(1).weight._repr_html_() is None
    seen = []
    fg.vmap(lambda t: seen.append(t._repr_html_()) or t)(fg.ones(2))
    assert seen == [None]


def test_modules_fold():
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.BatchNorm1d(3), nn.ReLU()), nn.LazyLinear(1))
    model[0].bias.requires_grad_(False)
    shown = Shown(model._repr_html_())
    assert shown.tags.count("details") == 5
    assert "Sequential()" in shown.texts
    assert "0: Linear(in_features=2, out_features=3, bias=True)" in shown.texts
    assert "6 parameters" in shown.texts
    assert "bias: parameter [3] float32 cpu, frozen" in shown.texts
    assert "running_mean: buffer [3] float32 cpu" in shown.texts
    assert "1: ReLU()" in shown.texts
    assert "weight: parameter without sizes yet" in shown.texts


def test_modules_are_short_and_no_markup():
    class Odd(nn.Module):
        def extra_repr(self):
            return "<script>alert('x')</script>" + "long " * 100_000

        def _get_name(self):
            return "</details><b onload='x'>"

    deep = nn.Module()
    for _ in range(200):
        deep = nn.Sequential(deep, *(Odd() for _ in range(20)))
    text = deep._repr_html_()
    assert len(text) < 150_000
    assert "<script" not in text
    assert "<b onload" not in text
    assert Shown(text).texts[-1] == "…"


def test_a_module_within_itself():
    model = nn.Sequential(nn.ReLU())
    model._modules["again"] = model
    model.parameters = list
    assert "again: Sequential()" in Shown(model._repr_html_()).texts


def test_graphs():
    x = fg.ones(2, requires_grad=True)
    y = (x * 2).sum()
    text = y.grad_fn._repr_html_()
    assert text.count("<svg") == 1
    assert "MulBackward0" in text
    assert "AccumulateGrad" in x.expand_as(x).grad_fn.next_functions[0][0]._repr_html_()
    for _ in range(300):
        y = y + x.sum()
    text = y.grad_fn._repr_html_()
    assert "60 of 603 nodes" in text
    assert len(text) < 150_000


def test_looking_changes_nothing():
    x = fg.ones(2, requires_grad=True)
    packed = []
    with fg.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: 1 / 0):
        y = x.exp()
    before = y._version
    y._repr_html_()
    y.grad_fn._repr_html_()
    assert y._version == before
    assert len(packed) == 1
    del packed[:]


def test_texts_are_escaped_and_shortened():
    assert markup.escaped("<a b='c'>&\x00\ud800") == "&lt;a b=&#x27;c&#x27;&gt;&amp;��"
    assert markup.shortened("a\n  b" * 500, 10) == "a ba ba b…"
    assert markup.shortened("x" * 1000) == "x" * 199 + "…"
    Shown(markup.table(["<"], [["&"], ["x" * 10_000]], 1))
