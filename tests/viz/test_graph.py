"""Pictures of graphs: what they show, that they are well-formed, and that nothing lies on anything else."""

from __future__ import annotations

import functools
import itertools
import random
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import fastgrad as fg
from fastgrad import nn, viz
from fastgrad.native.host.tape import record
from fastgrad.viz import layout, style
from fastgrad.viz.drawing import FAR, Diagram, Picture, Vertex, draw, with_references

SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: Picture) -> list[str]:
    """The texts of a picture, which is well-formed."""
    return [element.text or "" for element in ET.fromstring(picture.svg).iter(f"{SVG}text")]


def boxes(picture: Picture) -> list[str]:
    """What stands in each box, a line each."""
    return [g.find(f"{SVG}title").text for g in ET.fromstring(picture.svg).iter(f"{SVG}g")]


def clip(grad):
    return grad


def look(*_):
    return None


class Callable:
    def __call__(self, *_):
        return None


def test_nodes_hooks_and_leaves():
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    hidden = net[:2](fg.ones(5, 4))
    hidden.register_hook(clip)
    hidden.retain_grad()
    out = net[2](hidden)
    out.grad_fn.register_prehook(look)
    out.grad_fn.register_hook(Callable())
    net[0].bias.register_hook(clip)
    net[0].bias.register_post_accumulate_grad_hook(look)
    picture = viz.graph(out.sum(), params=net, show_saved=True)
    found = {box.split("\n")[0]: box.split("\n")[1:] for box in boxes(picture)}
    assert set(found) >= {
        "output ()",
        "SumBackward0",
        "TanhBackward0",
        "0.bias",
        "0.weight",
        "2.bias",
        "2.weight",
    }
    assert found["TanhBackward0"] == [
        "(5, 8) float32", "saves 160 b", "result: (5, 8) float32", "tensor hook: clip", "retain_grad: ",
    ]  # fmt: skip
    assert found["0.bias"] == [
        "(8) float32", "32 b", "AccumulateGrad", "tensor hook: clip", "post-accumulate: look",
    ]  # fmt: skip
    assert {"pre-hook: look", "post-hook: Callable"} <= set(texts(picture))
    assert texts(picture)[0].startswith("10 nodes; what they save for backward: ")
    assert viz.graph(out.sum(), params=dict(net.named_parameters())).svg.count("0.weight") == 2


def test_several_roots_nodes_and_edges():
    x = fg.ones(3, requires_grad=True)
    y, z = x * 2, x.exp()
    edge = fg.autograd.graph.get_gradient_edge(y)
    for value in ((y, z), [y.grad_fn, z], (edge, z.grad_fn)):
        titles = [box.split("\n")[0] for box in boxes(viz.graph(value))]
        assert sorted(t for t in titles if not t.startswith("output")) == [
            "ExpBackward0",
            "MulBackward0",
            "leaf",
        ]
        assert sum(t.startswith("output") for t in titles) == 2
    assert "AccumulateGrad" in texts(viz.graph(x))


def test_what_was_freed_packed_or_custom():
    class Double(fg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = fg.ones(3, requires_grad=True)
    with fg.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), fg.tensor):
        packed = x.exp()
    assert "result: packed by hooks" in texts(viz.graph(packed))
    y = Double.apply(x)
    assert {"DoubleBackward", "saves 12 b"} <= set(texts(viz.graph(y)))
    y.sum().backward()
    assert "saved: freed" in texts(viz.graph(y))
    changed = fg.ones(3, requires_grad=True) * 1
    z = changed.exp()
    z.add_(1)  # what it saved has another version now: looking is allowed
    assert "saves 12 b" in texts(viz.graph(z))
    assert any(t.startswith("integers: ") for t in texts(viz.graph(x.sum(0), show_attrs=True)))


def test_names_are_text_and_no_markup():
    x = fg.ones(2, requires_grad=True)
    name = "<script>alert('x')</script>&\"]]>\x00\x1b\ud800\u202e"
    look.__qualname__, before = "</title><b onload='x'>", look.__qualname__
    try:
        x.register_hook(look)
        picture = viz.graph(x * 2, params={name: x})
    finally:
        look.__qualname__ = before
    assert "<script" not in picture.svg
    assert "<b " not in picture.svg
    assert any(t.startswith("<script>alert('x')") for t in texts(picture))
    assert "tensor hook: </title><b onload='x'>" in texts(picture)


def test_a_picture(tmp_path: Path):
    picture = viz.graph(fg.ones(2, requires_grad=True) * 2)
    assert picture._repr_svg_() == str(picture) == picture.svg
    picture.save(tmp_path / "graph.svg")
    assert (tmp_path / "graph.svg").read_text(encoding="utf-8") == picture.svg
    assert repr(picture).startswith("<Picture of ")
    with pytest.raises(ValueError, match=r"\.svg"):
        picture.save(tmp_path / "graph.png")


def test_a_limit_is_said():
    y = x = fg.ones(3, requires_grad=True)
    for _ in range(2000):
        y = y * x
    whole = viz.graph(y, max_nodes=3000)
    assert texts(whole)[0].startswith("2,001 nodes")
    assert sum(t == "MulBackward0" for t in texts(whole)) == 2000
    cut = viz.graph(y, max_nodes=10)
    assert texts(cut)[0].startswith("10 of 2,001 nodes: max_nodes=10")
    assert sum(t == "…" for t in texts(cut)) == 1


def test_tapes():
    net = nn.Linear(4, 2)
    x = fg.ones(3, 4)
    net(x).sum().backward()
    with record() as tape:
        net(x).sum().backward()
    picture = viz.graph(tape, params={"x": x, **dict(net.named_parameters())}, show_attrs=True)
    titles = [box.split("\n")[0] for box in boxes(picture)]
    assert sorted(t for t in titles if t in ("x", "weight", "bias")) == ["bias", "weight", "x"]
    assert len(titles) == tape.launches + 3
    assert texts(picture)[0].startswith(
        f"{tape.launches} launches; bytes read and written, where frames tell: "
    )
    gemm = next(box for box in boxes(picture) if box.startswith("gemm"))
    assert "48 flop" in gemm
    assert "m 3, n 2, k 4" in gemm
    assert texts(viz.graph(tape, max_nodes=2))[0].startswith(f"2 of {tape.launches} launches")
    with record() as empty:
        pass
    with pytest.raises(ValueError, match="no launches"):
        viz.graph(empty)


def test_arrows_of_a_tape_lead_from_writers():
    a = fg.ones(3)
    with record() as tape:
        b = a.exp()
        c = b.tanh()
        d = b.sqrt()
    picture = viz.graph(tape, params={"a": a})
    root = ET.fromstring(picture.svg)
    arrows = [p for p in root.iter(f"{SVG}path") if p.get("marker-end")]
    assert len(arrows) == 3
    assert c.shape == d.shape


@pytest.mark.parametrize(
    ("value", "error"),
    [(3, TypeError), (None, TypeError), ([], ValueError), ([3], TypeError), ("x", TypeError)],
    ids=["int", "None", "empty", "list of int", "text"],
)
def test_what_has_no_graph(value, error):
    with pytest.raises(error, match="graph"):
        viz.graph(value)


def test_misuse():
    x = fg.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="require grad"):
        viz.graph(fg.ones(2))
    for wrong, error in (
        (0, ValueError),
        (-1, ValueError),
        (True, TypeError),
        (2.5, TypeError),
        ("3", TypeError),
    ):
        with pytest.raises(error, match="max_nodes"):
            viz.graph(x * 2, max_nodes=wrong)
    for wrong in ({"x": 3}, {3: x}, [x], [("x",)], ["xy"]):
        with pytest.raises(TypeError, match="params"):
            viz.graph(x * 2, params=wrong)


# --- layout ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_boxes_do_not_overlap_and_arrows_point_down(seed: int):
    draws = random.Random(seed)
    count = draws.randrange(2, 60)
    sizes = [(draws.uniform(20, 150), draws.uniform(20, 90)) for _ in range(count)]
    edges = [(draws.randrange(k), k) for k in range(1, count) for _ in range(draws.randrange(0, 3))]
    placed = layout.place(sizes, edges)
    spans = [
        (x - w / 2, y - h / 2, x + w / 2, y + h / 2)
        for (x, y), (w, h) in zip(placed.centres, sizes, strict=True)
    ]
    for k, (left, top, right, bottom) in enumerate(spans):
        assert left >= -1e-6
        assert top >= -1e-6
        assert right <= placed.width + 1e-6
        assert bottom <= placed.height + 1e-6
        for other in spans[:k]:
            apart = (
                right <= other[0] + 1e-6 or other[2] <= left + 1e-6 or bottom <= other[1] or other[3] <= top
            )
            assert apart
    for (a, b), path in zip(edges, placed.paths, strict=True):
        assert path[0] == pytest.approx((placed.centres[a][0], spans[a][3]))
        assert path[-1] == pytest.approx((placed.centres[b][0], spans[b][1]))
        assert all(p[1] <= q[1] for p, q in itertools.pairwise(path))


def test_crossings_are_counted_and_undone():
    sizes = [(20.0, 20.0)] * 4
    edges = [(0, 3), (1, 2)]
    graph = layout._Layered(sizes, edges)
    graph.rows = [[0, 1], [2, 3]]
    assert graph.crossings([0, 1, 0, 1]) == 1
    graph.untangle(4)
    place = [0] * 4
    for row in graph.rows:
        for k, v in enumerate(row):
            place[v] = k
    assert graph.crossings(place) == 0


def test_cycles_are_refused():
    with pytest.raises(ValueError, match="cycle"):
        layout.place([(10.0, 10.0)] * 3, [(0, 1), (1, 2), (2, 1)])
    assert layout.place([], []).width == 0.0


def test_far_arrows_become_references():
    chain = [Vertex(f"op {k}") for k in range(FAR + 3)]
    edges = [(k, k + 1, "") for k in range(len(chain) - 1)]
    leaf = Vertex("w", kind="leaf")
    ends = [(0, len(chain), ""), (len(chain) - 1, len(chain), "")]
    found = with_references(Diagram([*chain, leaf], edges + ends))
    assert found.vertices[-1].title == "→ w"
    assert (0, len(chain) + 1, "") in found.edges
    assert (len(chain) - 1, len(chain), "") in found.edges
    assert draw(found).width > 0


def test_no_two_colours_are_the_same():
    """The report of the demo replaces each for itself."""
    colours = [
        style.INK, style.MUTED, style.GRID, style.PAPER, style.ACCENT, style.ARROW, style.ON_COLOUR, *style.SERIES,
        style.RIGHT, style.WRONG, *style.HOOK_COLOURS.values(),
        *(c for pair in style.FILLS.values() for c in pair),
    ]  # fmt: skip
    assert len(set(colours)) == len(colours)


def test_hooks_that_are_partial_calls_have_the_name_of_the_function():
    x = fg.ones(2, requires_grad=True)
    x.register_hook(functools.partial(functools.partial(clip)))
    assert "tensor hook: clip" in texts(viz.graph(x * 2))


def test_partial_calls_of_themselves_have_a_name_too():
    hook = functools.partial(clip)
    hook.__setstate__((hook, (), {}, {}))
    x = fg.ones(2, requires_grad=True)
    x.register_hook(hook)
    assert "tensor hook: partial" in texts(viz.graph(x * 2))
    hook.__setstate__((clip, (), {}, {}))
