"""Event files: what is written is what TensorBoard reads, and what PyTorch's writer writes."""

from __future__ import annotations

import gc
import io
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastgrad as fg


def test_without_the_package_the_error_says_what_to_install():
    program = "import sys; sys.modules['tensorboard'] = None\nimport fastgrad.utils.tensorboard"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (
        'ImportError: fastgrad.utils.tensorboard needs the package tensorboard: pip install "fastgrad[tensorboard]"'
        in done.stderr
    )


@pytest.fixture
def writer_type() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tensorboard's own imports
        pytest.importorskip("tensorboard", reason="event files need the extra `tensorboard`")
        from fastgrad.utils.tensorboard import SummaryWriter
    return SummaryWriter


@pytest.fixture
def writer(writer_type: Any, tmp_path: Path) -> Any:
    with writer_type(tmp_path / "run") as found:
        yield found


def events(folder: Path) -> list[Any]:
    """The events in the files of a folder."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    return [
        Event.FromString(raw)
        for path in sorted(folder.glob("events.*"))
        for raw in RawEventFileLoader(str(path)).Load()
    ]


def written(writer: Any) -> list[Any]:
    """The values that a writer wrote."""
    writer.close()
    return [value for event in events(Path(writer.get_logdir())) for value in event.summary.value]


def accumulated(writer: Any) -> Any:
    """What TensorBoard makes of the folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    writer.close()
    found = EventAccumulator(writer.get_logdir())
    found.Reload()
    return found


def test_scalars(writer: Any):
    for step, value in enumerate(
        (1, 2.5, fg.tensor(3.0, requires_grad=True), np.float32(4), fg.tensor([[5]]), True)
    ):
        writer.add_scalar("loss", value, step, walltime=10.0 + step)
    writer.add_scalar("new", fg.tensor(0.1, dtype=fg.float64), 7, new_style=True, double_precision=True)
    found = accumulated(writer)
    assert [(e.step, e.value, e.wall_time) for e in found.Scalars("loss")] == [
        (k, v, 10.0 + k) for k, v in enumerate((1.0, 2.5, 3.0, 4.0, 5.0, 1.0))
    ]
    assert [e.tensor_proto.double_val[0] for e in found.Tensors("new")] == [0.1]


def test_scalars_of_one_chart(writer: Any):
    for step in range(2):
        writer.add_scalars("runs/both", {"a": step, "b": fg.tensor(2.0 * step)}, step)
    assert not written(writer)
    folder = Path(writer.get_logdir())
    assert sorted(p.name for p in folder.iterdir() if p.is_dir()) == ["runs_both_a", "runs_both_b"]
    found = [e for e in events(folder / "runs_both_b") if e.summary.value]
    assert [(e.step, e.summary.value[0].tag, e.summary.value[0].simple_value) for e in found] == [
        (0, "runs/both", 0.0), (1, "runs/both", 2.0),
    ]  # fmt: skip


def test_histograms(writer: Any):
    values = fg.tensor([-1.0, 0.5, 0.5, 3.0])
    writer.add_histogram("w", values, 1)
    writer.add_histogram("two", values, bins=[-2.0, 0.0, 4.0])
    writer.add_histogram("same", [2, 2, 2], bins="auto")
    writer.add_histogram("few", np.arange(100.0), bins=100, max_bins=10)
    first, two, same, few = (value.histo for value in written(writer))
    assert (first.min, first.max, first.num, first.sum, first.sum_squares) == (-1.0, 3.0, 4.0, 3.0, 10.5)
    assert sum(first.bucket) == 4
    assert len(first.bucket) == len(first.bucket_limit)
    assert (list(two.bucket_limit), list(two.bucket)) == ([-2.0, 0.0, 4.0], [0, 1, 3])
    assert sum(same.bucket) == 3
    assert list(few.bucket)[1:] == [10] * 10


def pixels(value: Any) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(value.image.encoded_image_string)))


def test_images(writer: Any):
    grey, colour = fg.tensor([[[0.0, 1.0]]]), fg.tensor([[[0]], [[128]], [[255]]], dtype=fg.uint8)
    writer.add_image("grey", grey)
    writer.add_image("colour", colour)
    writer.add_image("hw", fg.tensor([[0.5, 2.0], [-1.0, float("nan")]]), dataformats="HW")
    writer.add_image("hwc", np.zeros((2, 3, 4), np.uint8), dataformats="hwc")
    writer.add_images("grid", fg.ones(9, 1, 2, 2))
    grey, colour, hw, hwc, grid = written(writer)
    assert pixels(grey).tolist() == [[[0] * 3, [255] * 3]]
    assert pixels(colour).tolist() == [[[0, 128, 255]]]
    assert pixels(hw)[..., 0].tolist() == [[127, 255], [0, 0]]
    assert pixels(hwc).shape == (2, 3, 4)
    assert (hwc.image.height, hwc.image.width, hwc.image.colorspace) == (2, 3, 4)
    assert pixels(grid).shape == (4, 16, 3)
    assert pixels(grid)[:2].min() == 255
    assert pixels(grid)[2:, 2:].max() == 0


def test_figures(writer: Any):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figures = [pyplot.figure(figsize=(1, 0.5), dpi=20) for _ in range(3)]
    writer.add_figure("one", figures[0], close=False)
    writer.add_figure("two", figures[1:])
    one, two = written(writer)
    assert pixels(one).shape == (10, 20, 3)
    assert pixels(two).shape == (10, 40, 3)
    assert pyplot.fignum_exists(figures[0].number)
    assert not pyplot.fignum_exists(figures[1].number)
    pyplot.close("all")


def test_texts_curves_and_layouts(writer: Any):
    writer.add_text("notes", "# Grüße", 3)
    writer.add_pr_curve("curve", fg.tensor([1, 0, 1, 0]), fg.tensor([0.9, 0.8, 0.3, 0.1]), num_thresholds=3)
    writer.add_custom_scalars(
        {"loss": {"both": ["Multiline", ["a", "b"]], "band": ["Margin", ["m", "l", "u"]]}}
    )
    text, curve, layout = written(writer)
    assert (text.tag, text.tensor.string_val[0].decode()) == ("notes/text_summary", "# Grüße")
    found = np.reshape(curve.tensor.float_val, (6, 3))
    assert found[:4].tolist() == [[2, 1, 0], [2, 1, 0], [0, 1, 2], [0, 1, 2]]
    np.testing.assert_allclose(found[4:], [[0.5, 0.5, 0], [1, 0.5, 0]])
    from tensorboard.plugins.custom_scalar.layout_pb2 import Layout

    charts = Layout.FromString(layout.tensor.string_val[0]).category[0].chart
    assert list(charts[0].multiline.tag) == ["a", "b"]
    assert charts[1].margin.series[0].upper == "u"


def test_hyperparameters(writer: Any):
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    writer.add_hparams(
        {"lr": 0.1, "n": np.int64(3), "name": "adam", "on": True, "w": fg.tensor(2.0), "no": None},
        {"loss": fg.tensor(0.5)},
        {"name": ["adam", "sgd"]},
        run_name="first",
    )
    found = [v for e in events(Path(writer.get_logdir()) / "first") for v in e.summary.value]
    data = [HParamsPluginData.FromString(v.metadata.plugin_data.content) for v in found[:3]]
    assert {h.name: list(h.domain_discrete.values) != [] for h in data[0].experiment.hparam_infos} == {
        "lr": False, "n": False, "name": True, "on": False, "w": False,
    }  # fmt: skip
    start = data[1].session_start_info.hparams
    assert (start["lr"].number_value, start["n"].number_value, start["w"].number_value) == (0.1, 3.0, 2.0)
    assert (start["name"].string_value, start["on"].bool_value) == ("adam", True)
    assert data[2].HasField("session_end_info")
    assert (found[3].tag, found[3].simple_value) == ("loss", 0.5)


def test_files(writer_type: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with writer_type(comment="_mine", filename_suffix=".x") as writer:
        assert writer.get_logdir().startswith("runs/")
        assert writer.get_logdir().endswith("_mine")
        writer.add_scalar("a", 1)
        writer.flush()
        assert len(events(tmp_path / writer.get_logdir())) == 2
    assert all(p.name.endswith(".x") for p in (tmp_path / writer.get_logdir()).iterdir())
    writer.close()
    writer.add_scalar("a", 2)  # begins another file
    writer.close()
    with writer_type(tmp_path / "again", purge_step=5):
        pass
    log = events(tmp_path / "again")
    assert [(e.step, e.session_log.status) for e in log][-1] == (5, 1)
    try:
        with writer_type(tmp_path / "error") as writer:
            writer.add_scalar("a", 1)
            raise KeyError
    except KeyError:
        pass
    assert len(events(tmp_path / "error")) == 2


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda w: w.add_scalar(None, 1), TypeError, r"add_scalar\(\): argument 'tag' must be str, not NoneType"),
        (lambda w: w.add_scalar("a", None), NotImplementedError, "'scalar_value' must be a Tensor, .* not NoneType"),
        (lambda w: w.add_scalar("a", "1"), NotImplementedError, "not str"),
        (lambda w: w.add_scalar("a", fg.ones(2)), ValueError, r"must hold one real number, but has the shape \(2,\)"),
        (lambda w: w.add_scalar("a", 1j), ValueError, "one real number"),
        (lambda w: w.add_scalars("a", {"b": None}), NotImplementedError, "argument 'b'"),
        (lambda w: w.add_scalars("a", {1: 2}), TypeError, "argument 'tag' must be str, not int"),
        (lambda w: w.add_scalar("a", 10**400), OverflowError, "too large"),
        (lambda w: w.add_scalars("a", [("b", 1)]), TypeError, "'tag_scalar_dict' must be a mapping, not list"),
        (lambda w: w.add_scalars(None, {"b": 1}), TypeError, "argument 'main_tag' must be str, not NoneType"),
        (lambda w: w.add_histogram("a", []), ValueError, "The input has no element"),
        (lambda w: w.add_histogram("a", [1.0, 2.0], max_bins=0), ValueError, "max_bins must be at least 1"),
        (lambda w: w.add_histogram("a", fg.tensor([float("nan")])), ValueError, "must be finite"),
        (lambda w: w.add_histogram("a", fg.ones(1) * 1j), TypeError, "must be real"),
        (lambda w: w.add_image("a", fg.ones(2, 2)), ValueError, r"'CHW' do not name the dimensions .* \(2, 2\)"),
        (lambda w: w.add_image("a", fg.ones(5, 2, 2)), ValueError, "1, 3 or 4 channels"),
        (lambda w: w.add_image("a", fg.ones(3, 0, 2)), ValueError, "some pixels"),
        (lambda w: w.add_image("a", None), NotImplementedError, "'img_tensor' must be a Tensor"),
        (lambda w: w.add_image("a", fg.ones(3, 2, 2) * 1j), TypeError, "'img_tensor' must be real"),
        (lambda w: w.add_image("a", fg.ones(2, 2), dataformats="HX"), ValueError, "'HX'"),
        (lambda w: w.add_text("a", b"x"), TypeError, "'text_string' must be str, not bytes"),
        (lambda w: w.add_histogram_raw("a", 0, 1, 2, 1, 1, [1.0], [1, 2]), ValueError, "there are 1 and 2"),
        (lambda w: w.add_histogram_raw("a", "0", 1, 2, 1, 1, [1.0], [2]), NotImplementedError, "'min' must be"),
        (lambda w: w.add_histogram_raw("a", 0, 1, 2, 1, 1, [1j], [2]), TypeError, "'bucket_limits' must be real"),
        (lambda w: w.add_pr_curve_raw("a", *[[1, 2]] * 5, [1]), ValueError, "2 precision, 1 recall"),
        (lambda w: w.add_pr_curve_raw("a", *[[1, 2]] * 5, None), NotImplementedError, "'recall' must be"),
        (lambda w: w.add_pr_curve("a", [1], [0.5, 0.5]), ValueError, "there are 1, 2 and 1"),
        (lambda w: w.add_pr_curve("a", [1], [1.5]), ValueError, "from 0 to 1"),
        (lambda w: w.add_pr_curve("a", [1], [0.5], num_thresholds=1), ValueError, "at least 2"),
        (lambda w: w.add_pr_curve("a", [1j], [0.5]), TypeError, "'labels' must be real"),
        (lambda w: w.add_pr_curve("a", [1], [0.5], weights=1j), TypeError, "'weights' must be real"),
        (lambda w: w.add_custom_scalars({"a": {"b": ["Pie", []]}}), ValueError, "chart 'b' must be"),
        (lambda w: w.add_custom_scalars({"a": {"b": ["Margin", ["c"]]}}), ValueError, "value, lower, upper"),
        (lambda w: w.add_hparams([], {}), TypeError, "must be dicts"),
        (lambda w: w.add_hparams({"a": [1]}, {}), ValueError, "value of a should be"),
        (lambda w: w.add_hparams({"a": 1}, {}, {"a": ["x"]}), TypeError, "values of a in hparam_domain_discrete"),
        (lambda w: w.add_hparams({1: 1}, {}), TypeError, "argument 'hparam_dict' must be str, not int"),
        (lambda w: w.add_hparams({"a": 1}, {"b": 1, "c": "x"}), NotImplementedError, "argument 'c' must be a Tensor"),
        (lambda w: w.add_graph(fg.nn.ReLU()), NotImplementedError, r"add_graph\(\) is not supported: .*viz.graph"),
        (lambda w: w.add_embedding(fg.ones(1)), NotImplementedError, r"SummaryWriter.add_embedding\(\)"),
        (lambda w: w.add_video("a", fg.ones(1)), NotImplementedError, r"add_video\(\)"),
        (lambda w: w.add_audio("a", fg.ones(1)), NotImplementedError, r"add_audio\(\)"),
        (lambda w: w.add_mesh("a", fg.ones(1)), NotImplementedError, r"add_mesh\(\)"),
    ],
)  # fmt: skip
def test_wrong_arguments(writer: Any, call: Any, error: type[Exception], match: str):
    with pytest.raises(error, match=match):
        call(writer)
    assert not written(writer)


def test_a_wrong_step_to_purge_from_leaves_no_thread(writer_type: Any, tmp_path: Path):
    before = threading.active_count()
    with pytest.raises(ValueError, match="invalid literal"):
        writer_type(tmp_path / "wrong", purge_step="x")
    assert threading.active_count() == before
    assert not (tmp_path / "wrong").exists()


def everything(writer: Any, t: ModuleType) -> None:
    """The same calls for both libraries."""
    writer.add_scalar("a", t.tensor(1.5), 2)
    writer.add_scalar("b", 2.5, 3, new_style=True)
    values = t.tensor([[-3.0, 0.0, 1e-3], [2.0, 2.0, 700.0]])
    writer.add_histogram("c", values, 1)
    writer.add_histogram("d", values, bins="auto")
    writer.add_histogram("e", t.arange(7.0), bins=7, max_bins=3)
    writer.add_histogram_raw(
        "raw", -1, 3.5, 4, 5.0, np.float32(6.5), t.tensor([0.0, 2.0, 4.0]), t.tensor([1, 2, 1]), 4
    )
    rows = [t.tensor([4, 2, 1])] * 4
    writer.add_pr_curve_raw("counted", *rows, t.tensor([0.5, 0.25, 0.0]), np.array([1.0, 0.5, 0.25]), 5, 3)
    writer.add_image("f", t.tensor([[[0.0, 0.25]], [[0.5, 1.0]], [[1.0, 0.0]]]))
    writer.add_images("g", t.arange(10.0).reshape(10, 1, 1, 1) / 10)
    writer.add_text("h", "text")
    writer.add_pr_curve(
        "i",
        t.tensor([1, 0, 1, 0, 1]),
        t.tensor([1.0, 0.8, 0.3, 0.0, 0.45]),
        weights=np.arange(1.0, 6.0),
    )
    writer.add_custom_scalars({"x": {"y": ["Multiline", ["a", "b"]], "z": ["Margin", ["a", "b", "c"]]}})
    writer.add_hparams({"lr": 0.1, "name": "n"}, {"m": 1.0}, {"name": ["n", "o"]}, run_name="run")


@pytest.mark.parity
def test_what_is_written_is_what_pytorch_writes(writer: Any, tmp_path: Path):
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.utils.tensorboard import SummaryWriter
    theirs = SummaryWriter(tmp_path / "torch")
    everything(theirs, torch)
    everything(writer, fg)
    theirs.close()
    ours, expected = ([e for e in events(Path(w.log_dir)) if e.summary.value] for w in (writer, theirs))
    writer.close()
    ours = [e for e in events(Path(writer.log_dir)) if e.summary.value]
    assert [e.step for e in ours] == [e.step for e in expected]
    for one, other in zip(ours, expected, strict=True):
        assert one.summary == other.summary
    ours, expected = (
        [v for e in events(Path(w.log_dir) / "run") for v in e.summary.value] for w in (writer, theirs)
    )
    assert ours == expected


def test_nothing_is_kept(writer: Any):
    x = fg.ones(4, requires_grad=True)
    gc.collect()
    before = fg.debug.live()
    writer.add_histogram("x", x)
    writer.add_scalar("y", x.sum())
    gc.collect()
    assert fg.debug.live() == before
