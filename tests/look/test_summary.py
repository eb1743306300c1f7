"""Summaries: what they count, what they show, and that a model is as before, also after an exception."""

from __future__ import annotations

import gc
import html.parser
import threading
from types import ModuleType

import numpy as np
import pytest

import fastgrad as fg
from fastgrad import nn
from fastgrad.native.host.tape import record
from fastgrad.nn.modules import module_hooks
from fastgrad.summaries import Summary


def by_path(found: Summary) -> dict[str, object]:
    return {row.path: row for row in found.rows}


def well_formed(text: str) -> str:
    """The text of HTML whose tags are closed in order."""

    class Parser(html.parser.HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []
            self.texts: list[str] = []

        def handle_starttag(self, tag, attrs):
            assert tag in (
                "style",
                "div",
                "table",
                "thead",
                "tbody",
                "tr",
                "td",
                "th",
                "span",
                "details",
                "summary",
                "code",
            )
            self.open.append(tag)

        def handle_endtag(self, tag):
            assert self.open.pop() == tag

        def handle_data(self, data):
            if self.open[-1] != "style":
                self.texts.append(data)

    parser = Parser()
    parser.feed(text)
    parser.close()
    assert not parser.open
    return "\n".join(parser.texts)


class Everything(nn.Module):
    """Lists of modules, shared and tied ones, one that is never called, and outputs in containers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout()
        self.unused = nn.Sequential(nn.Linear(4, 4))
        self.tied = nn.Linear(4, 4, bias=False)
        self.tied.weight = self.layers[1].weight

    def forward(self, x, *, extra=None):
        for layer in self.layers:
            x = layer(x)
        x = self.layers[0](self.drop(self.norm(x)))
        return {"a": self.tied(x), "b": (x, extra)}


def state_of(model: nn.Module) -> object:
    return (
        {k: v.tolist() for k, v in model.state_dict().items()},
        [
            (m.training, dict(m.__dict__)["_has_hooks"] if "_has_hooks" in m.__dict__ else False)
            for m in model.modules()
        ],
        [id(b) for b in model.buffers()],
        fg.get_rng_state().tolist(),
        {name: len(value) for name, value in vars(module_hooks).items() if isinstance(value, dict)},
        [p.grad for p in model.parameters()],
    )


@pytest.mark.parametrize("mode", ["eval", "train", "same"])
def test_every_kind_of_module(mode: str):
    model = Everything()
    model.layers[1].eval()
    model.tied.weight.requires_grad_(False)
    handle = model.norm.register_forward_hook(lambda *_: None)
    model.norm.weight.register_hook(lambda g: g)
    model(fg.ones(3, 4))
    before = state_of(model)
    x = fg.randn(3, 4)
    before = state_of(model)
    found = fg.summary(model, x, kwargs={"extra": fg.ones(2)}, mode=mode)
    assert state_of(model) == before
    rows = by_path(found)
    assert list(rows) == [
        "", "layers", "layers.0", "layers.1", "norm", "drop", "tied", "unused", "unused.0",
    ]  # fmt: skip
    assert rows[""].input == "([3, 4], [2])"
    assert rows[""].output == "{a: [3, 4], b: ([3, 4], [2])}"
    assert rows["layers.0"].calls == 2
    assert rows["layers"].calls == 0
    assert rows["layers"].multiply_adds == 3 * 3 * 16
    assert rows["unused.0"].output == ""
    assert rows["tied"].shared
    assert not rows["layers.1"].shared
    assert found.parameters == sum(p.numel() for p in model.parameters()) == 20 + 20 + 8 + 20
    assert found.parameters - found.trainable == 16
    assert found.multiply_adds == 4 * 3 * 16
    assert rows["norm"].hooks == 2
    assert rows[""].hooks == 2
    assert found.buffer_nbytes == 4 * 4 * 2 + 8
    assert found.input_nbytes == 4 * (12 + 2)
    assert "Linear ×2" in str(found)
    assert "(shared)" in str(found)
    handle.remove()


def test_an_exception_leaves_everything_as_before_and_says_where():
    class Broken(nn.Module):
        def forward(self, x):
            return x @ fg.ones(7, 7)

    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(), nn.Sequential(Broken()))
    before = state_of(model)
    with pytest.raises(RuntimeError) as raised:
        fg.summary(model, fg.randn(3, 4), mode="train")
    before_random = before
    after = state_of(model)
    assert after[0] == before[0]
    assert after[1:3] == before_random[1:3]
    assert after[4:] == before[4:]
    assert raised.value.__notes__ == ["summary(): this happened in 2.0 (Broken)"]
    with record() as tape:  # nothing is being captured any more
        fg.ones(1)
    assert tape.launches == 1
    del raised


@pytest.mark.parametrize(
    "change",
    [
        lambda module: module.held.add_(1),
        lambda module: module.held.resize_(9).zero_(),
        lambda module: module.held.resize_(0),
        lambda module: module.held.set_(fg.zeros(5)),
        lambda module: setattr(module.held, "data", fg.zeros(7)),
        lambda module: setattr(module.held, "data", fg.zeros(3, dtype=fg.float64)),
        lambda module: setattr(module, "held", fg.zeros(7)),
        lambda module: delattr(module, "held"),
    ],
)
def test_buffers_are_put_back_whatever_forward_does_to_them(change):
    class Holds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("held", fg.arange(3.0))

        def forward(self, x):
            change(self)
            return x

    module = Holds()
    held, memory = module.held, module.held.data_ptr()
    alias = held.detach()
    fg.summary(nn.Sequential(module, nn.BatchNorm1d(2)), fg.ones(3, 2), mode="train")
    assert module.held is held
    assert held.data_ptr() == alias.data_ptr() == memory
    assert held.dtype is fg.float32
    assert held.tolist() == alias.tolist() == [0.0, 1.0, 2.0]


def test_buffers_that_are_expanded_or_no_leaves():
    module = nn.ReLU()
    base = fg.arange(2.0)
    module.register_buffer("expanded", base[:, None].expand(2, 3))
    module.register_buffer("made", fg.ones(2, requires_grad=True) * 2)
    module.register_forward_pre_hook(lambda *_: [None, base.add_(1)][0])
    made, version = module.made.grad_fn, module.made._version
    fg.summary(module, fg.ones(1))
    assert module.made._version == version
    assert module.expanded.tolist() == [[0.0] * 3, [1.0] * 3]
    assert module.made.grad_fn is made
    assert module.made.tolist() == [2.0, 2.0]


def test_buffers_in_memory_that_cannot_be_written(tmp_path):
    np.array([0, 1, np.nan], np.float32).tofile(tmp_path / "values")
    module = nn.ReLU()
    with pytest.warns(UserWarning, match="not writable"):
        module.register_buffer("held", fg.from_numpy(np.memmap(tmp_path / "values", np.float32, "r")))
    fg.summary(module, fg.ones(1))
    assert module.held.tolist()[:2] == [0.0, 1.0]


def test_modules_that_leave_their_places():
    class Moves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

        def forward(self, x):
            return self.inner._modules.pop("0")(x)

    found = fg.summary(Moves(), fg.ones(2, 4))
    assert [row.path for row in found.rows] == ["", "inner", "inner.0", "inner.1"]


def test_another_thread_changes_nothing_meanwhile():
    class Meets(nn.Module):
        def forward(self, x):
            def other() -> None:
                with pytest.raises(RuntimeError, match="capture"):
                    fg.summary(model, fg.ones(1), mode="train")
                modes.append(model.training)

            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            return x

    modes: list[bool] = []
    model = nn.Sequential(Meets()).eval()
    fg.summary(model, fg.ones(1), mode="same")
    assert modes == [False]
    model.train()
    fg.summary(model, fg.ones(1))
    assert modes == [False, False]
    assert model.training


def test_random_states_are_put_back():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout())
    before = fg.get_rng_state()
    fg.summary(model, input_size=(2, 4), mode="train")
    assert fg.equal(fg.get_rng_state(), before)


def test_what_an_exception_ended_and_forward_caught():
    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError

    class Tries(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Fails(), nn.Linear(4, 2)

        def forward(self, x):
            try:
                return self.first(x)
            except ValueError:
                return self.second(x)

    rows = by_path(fg.summary(nn.Sequential(Tries(), nn.ReLU()), fg.ones(1, 4)))
    assert rows["0.second"].multiply_adds == rows["0"].multiply_adds == rows[""].multiply_adds == 8
    assert rows["0.first"].calls == 0
    assert rows["1"].depth == 1


def test_inputs_of_every_kind():
    class Takes(nn.Module):
        def forward(self, a, b=None, *, c=None):
            return [t for t in (a, b, c) if t is not None]

    model, x, y = Takes(), fg.ones(2), fg.ones(3)
    for given, sizes in (
        (x, "[2]"), ((x, y), "([2], [3])"), ([x, y], "([2], [3])"), ({"a": x, "c": y}, "([2], [3])"),
        (([x, y],), "[[2], [3]]"), (({"k": (x, y)},), "{k: ([2], [3])}"),
    ):  # fmt: skip
        assert fg.summary(model, given).root.input == sizes
    found = fg.summary(model, input_size=[(2, 3), (1,)], dtypes=[fg.int64, fg.float64])
    assert found.root.output == "[[2, 3], [1]]"
    assert found.input_nbytes == 6 * 8 + 8
    assert fg.summary(model, input_size=()).root.input == "[]"
    assert fg.summary(model, kwargs={"a": x}).root.input == "[2]"


def test_a_container_within_itself():
    x: list[object] = [fg.ones(2)]
    x.append(x)
    assert fg.summary(nn.Identity(), (x,)).root.output == "[[2], [[2], [[2], …]]]"


def test_what_runs_within_forward():
    class Runs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)
            self.compiled = fg.compile(lambda x: self.inner(x) * 2)
            self.register_buffer("steps", fg.zeros(3))
            self.register_buffer("last", None)

        def forward(self, x):
            self.steps = self.steps + 1
            self.last = x
            with fg.enable_grad():
                x = x.requires_grad_()
                (grad,) = fg.autograd.grad(self.inner(x).sum(), x)
            return fg.utils.checkpoint.checkpoint(self.inner, self.compiled(grad), use_reentrant=False)

    model = Runs()
    steps = model.steps
    found = fg.summary(model, fg.ones(2, 4))
    assert found.multiply_adds == 4 * 2 * 16  # one of them backwards
    assert model.steps is steps
    assert model.last is None
    assert model.inner.weight.grad is None


def test_modules_that_others_call():
    class Borrows(nn.Module):
        def __init__(self, lender) -> None:
            super().__init__()
            self.lenders = [lender]  # not a part of this module
            self.own = nn.Linear(2, 2)

        def forward(self, x):
            return self.lenders[0].deep.linear(self.own(x))

    class Lends(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.deep = nn.ModuleDict({"linear": nn.Linear(2, 2)})

        def forward(self, x):
            return self.deep["linear"](x)

    lender = Lends()
    model = nn.ModuleDict({"a": lender, "b": Borrows(lender)})
    model.forward = lambda x: model["b"](model["a"](x))
    found = fg.summary(model, fg.ones(1, 2))
    assert [(row.path, row.name, row.depth) for row in found.rows] == [
        ("", "", 0), ("a", "a", 1), ("a.deep", "deep", 2), ("a.deep.linear", "linear", 3),
        ("b", "b", 1), ("b.own", "own", 2), ("a.deep.linear", "a.deep.linear", 2),
    ]  # fmt: skip
    assert found.rows[-1].shared
    assert [row.multiply_adds for row in found.rows] == [12, 4, 4, 4, 8, 4, 4]
    assert found.parameters == 12


def test_a_summary_within_a_summary():
    class Nested(nn.Module):
        def forward(self, x):
            return fg.summary(nn.ReLU(), x)

    with pytest.raises(RuntimeError, match="captures cannot be nested"):
        fg.summary(Nested(), fg.ones(1))
    assert not module_hooks.CALL_HOOKS


def test_ctrl_c_leaves_nothing_behind():
    class Stops(nn.Module):
        def forward(self, x):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fg.summary(nn.Sequential(Stops()), fg.ones(1))
    assert not module_hooks.CALL_HOOKS
    assert fg.summary(nn.ReLU(), fg.ones(1)).root.calls == 1


def test_train_is_not_called():
    class Freezes(nn.Linear):
        def train(self, mode=True):
            raise AssertionError

    assert fg.summary(Freezes(1, 1), fg.ones(1, 1), mode="train").root.calls == 1


def test_inputs_are_not_changed():
    x = fg.full((3,), -1.0)
    fg.summary(nn.ReLU(inplace=True), x)
    assert x.tolist() == [-1.0] * 3


def test_without_input_nothing_is_called():
    class Refuses(nn.Linear):
        def forward(self, x):
            raise AssertionError

    found = fg.summary(nn.Sequential(Refuses(3, 2), nn.ReLU()))
    assert [row.path for row in found.rows] == ["", "0", "1"]
    assert found.parameters == 8
    assert "mult" not in str(found).split("\n", 1)[1]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "match"),
    [
        ((None,), {}, TypeError, "model must be an nn.Module, but got NoneType"),
        ((fg.relu,), {}, TypeError, "wrap a function in a module"),
        ((nn.Linear,), {}, TypeError, "nn.Module, but got type"),
        ((nn.ReLU(), fg.ones(1)), {"mode": "test"}, ValueError, "mode must be one of 'eval', 'train', 'same'"),
        ((nn.ReLU(), fg.ones(1)), {"depth": True}, TypeError, "depth must be an int, but got bool"),
        ((nn.ReLU(), fg.ones(1)), {"depth": -1}, ValueError, "depth must not be negative"),
        ((nn.ReLU(), fg.ones(1)), {"input_size": (1,)}, ValueError, "give one of them"),
        ((nn.ReLU(),), {"input_size": 3}, TypeError, "input_size must be a tuple of int"),
        ((nn.ReLU(),), {"input_size": [(1,), 2]}, TypeError, "input_size must be a tuple of int"),
        ((nn.ReLU(),), {"input_size": (1,), "dtypes": "float32"}, TypeError, "dtypes must be dtypes, but got str"),
        ((nn.ReLU(),), {"input_size": (1,), "dtypes": [None] * 2}, ValueError, "1 input sizes and 2 dtypes"),
        ((nn.ReLU(), fg.ones(1)), {"dtypes": fg.float32}, ValueError, "those of input_size"),
        ((nn.ReLU(),), {"kwargs": [1]}, TypeError, "kwargs must be a mapping"),
        ((nn.Sequential(nn.LazyLinear(2)), fg.ones(1, 2)), {}, ValueError, "0.weight has no sizes yet"),
    ],
)  # fmt: skip
def test_wrong_arguments(arguments, options, error, match):
    with pytest.raises(error, match=match):
        fg.summary(*arguments, **options)


def test_a_lazy_module_stays_lazy():
    model = nn.Sequential(nn.LazyLinear(2))
    with pytest.raises(ValueError, match="call it once before"):
        fg.summary(model, fg.ones(1, 2))
    assert isinstance(model[0], nn.LazyLinear)


def test_within_a_capture():
    with record(), pytest.raises(RuntimeError, match="captures cannot be nested"):
        fg.summary(nn.ReLU(), fg.ones(1))
    assert not module_hooks._global_forward_hooks


def test_calls_of_other_threads_and_of_foreign_modules_do_not_count():
    other = nn.Linear(2, 2)

    class Starts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own = nn.Linear(2, 2)

        def forward(self, x):
            thread = threading.Thread(target=self.own, args=(x,))
            thread.start()
            thread.join()
            return other(self.own(x))

    rows = by_path(fg.summary(Starts(), fg.ones(1, 2)))
    assert list(rows) == ["", "own"]
    assert rows["own"].calls == 1
    assert rows[""].multiply_adds >= 8


def test_depth_and_many_lines():
    model = nn.Sequential(nn.Sequential(nn.Sequential(nn.Linear(2, 2))))
    found = fg.summary(model, fg.ones(1, 2), depth=1)
    assert len(found.rows) == 4
    assert "Linear" not in str(found)
    assert "6" in str(found).splitlines()[3]
    assert "Sequential" in str(fg.summary(model, depth=0))
    many = fg.summary(nn.Sequential(*(nn.Identity() for _ in range(1200))), fg.ones(1))
    assert "… 201 more" in str(many)
    assert len(many._repr_html_()) < 400_000


def test_text_is_no_markup():
    class Odd(nn.Module):
        def _get_name(self) -> str:
            return "<b onload='x'>&\x00\ud800" + "a" * 1000

    text = fg.summary(nn.Sequential(Odd()))._repr_html_()
    assert "<b" not in text
    assert "a" * 300 not in text
    assert "&lt;b onload=&#x27;x&#x27;&gt;&amp;" in text
    well_formed(text)


def test_rich_and_plain(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    found = fg.summary(nn.Linear(2, 2), fg.ones(1, 2))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found.show()
    assert capsys.readouterr().out == f"{found}\n"
    monkeypatch.undo()
    pytest.importorskip("rich")
    found.show()
    text = capsys.readouterr().out
    assert "Mult-adds" in text
    assert "6 parameters: 6 trainable, 0 frozen" in text


def test_nothing_is_kept():
    x = fg.ones(3, 4)
    model = nn.Linear(4, 4)
    gc.collect()
    before = fg.debug.live()
    found = fg.summary(model, x)
    gc.collect()
    assert fg.debug.live() == before
    assert found.output_nbytes == 48


# --- against PyTorch -------------------------------------------------------------------------------------------


def conv_net(t: ModuleType):
    return t.nn.Sequential(
        t.nn.Conv2d(3, 8, 3, padding=1, bias=False), t.nn.BatchNorm2d(8), t.nn.ReLU(),
        t.nn.Conv2d(8, 8, 3, groups=4, stride=2), t.nn.Conv2d(8, 12, 1, dilation=2),
        t.nn.ConvTranspose2d(12, 4, 3, stride=2), t.nn.Flatten(), t.nn.LazyLinear(5),
    )  # fmt: skip


NETS = {
    "convolutions": (conv_net, [(2, 3, 16, 16)]),
    "conv1d": (lambda t: t.nn.Conv1d(4, 6, 3), [(2, 4, 9)]),
    "conv3d": (lambda t: t.nn.Conv3d(2, 3, 2), [(2, 2, 5, 6, 7)]),
    "linear in 3-d": (lambda t: t.nn.Linear(4, 5), [(2, 3, 4)]),
    "gru": (lambda t: t.nn.GRU(4, 3, bidirectional=True), [(5, 2, 4)]),
    "encoder": (lambda t: t.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), [(2, 5, 8)]),
    "decoder": (lambda t: t.nn.TransformerDecoderLayer(8, 2, 16), [(3, 2, 8), (5, 2, 8)]),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", list(NETS))
def test_counts_are_those_of_pytorch(name: str):
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    build, shapes = NETS[name]
    theirs, ours = build(torch), build(fg)
    theirs(*(torch.randn(s) for s in shapes))
    ours(*(fg.randn(*s) for s in shapes))
    with FlopCounterMode(
        display=False
    ) as counter:  # with gradients: without, encoders run one op that it cannot count
        theirs(*(torch.randn(s) for s in shapes))
    found = fg.summary(ours, input_size=shapes, mode="same")
    assert found.multiply_adds * 2 == counter.get_total_flops()
    assert found.parameters == sum(p.numel() for p in theirs.parameters())


def test_counts_by_hand():
    q = fg.ones(2, 3, 5, 8)

    class Attends(nn.Module):
        def forward(self, q):
            return nn.functional.scaled_dot_product_attention(q, q, q)

    assert fg.summary(Attends(), q).multiply_adds == 2 * 3 * 5 * 5 * 8 * 2
    assert fg.summary(nn.LSTM(8, 6, 2), fg.ones(5, 2, 8)).multiply_adds == 10 * 4 * 6 * (8 + 6 + 6 + 6)
    assert fg.summary(nn.RNN(8, 6), fg.ones(5, 2, 8)).multiply_adds == 10 * 6 * (8 + 6)
