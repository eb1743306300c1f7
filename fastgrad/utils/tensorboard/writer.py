"""`SummaryWriter`, with PyTorch's methods."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from fastgrad.utils.tensorboard import messages
from fastgrad.utils.tensorboard.values import (
    MOST_THRESHOLDS,
    counted_curve,
    counted_histogram,
    curve_of,
    histogram_of,
    number_of,
    pixels_of,
    pixels_of_figures,
)


def _missing(name: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(self: SummaryWriter, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"SummaryWriter.{name}() is not supported: {instead}")

    refuse.__name__ = name
    refuse.__doc__ = f"Not supported: {instead}."
    return refuse


def _tag(function: str, tag: Any, argument: str = "tag") -> str:
    if not isinstance(tag, str):
        raise TypeError(f"{function}(): argument '{argument}' must be str, not {type(tag).__name__}")
    return tag


def _numbers(function: str, argument: str, found: Any) -> dict[str, float]:
    """A mapping of tags to numbers, all of which are checked before anything is written."""
    if not isinstance(found, Mapping):
        raise TypeError(f"{function}(): argument '{argument}' must be a mapping, not {type(found).__name__}")
    return {_tag(function, tag): number_of(function, tag, value) for tag, value in found.items()}


class FileWriter:
    """One event file.

    Parameters
    ----------
    log_dir : str or path
    max_queue, flush_secs, filename_suffix
        As in `SummaryWriter`.
    """

    def __init__(
        self, log_dir: Any, max_queue: int = 10, flush_secs: float = 120, filename_suffix: str = ""
    ) -> None:
        self.event_writer = EventFileWriter(os.fspath(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder of the file."""
        return self.event_writer.get_logdir()  # type: ignore[no-any-return]

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Write an event.

        Parameters
        ----------
        event : tensorboard.compat.proto.event_pb2.Event
        step : int, optional
        walltime : float, optional
            Seconds since the epoch; by default now.
        """
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Any, global_step: Any = None, walltime: float | None = None) -> None:
        """Write an event with a summary; the parameters are those of `add_event`."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Write what waits."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write what waits, and end."""
        self.event_writer.close()


class SummaryWriter:
    """Write event files that TensorBoard shows.

    Parameters
    ----------
    log_dir : str or path, optional
        The folder of the file; by default one below ``runs`` with date and host in its name.
    comment : str
        The end of the default folder's name.
    purge_step : int, optional
        TensorBoard hides what earlier files of the folder hold from this step on.
    max_queue : int
        How many events wait until they are written.
    flush_secs : float
        How long they wait at most.
    filename_suffix : str
        The end of the file's name.

    Examples
    --------
    >>> import tempfile
    >>> import fastgrad as fg
    >>> from fastgrad.utils.tensorboard import SummaryWriter
    >>> with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
    ...     for step in range(3):
    ...         writer.add_scalar("loss", fg.tensor(1 / (1 + step)), step)
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(log_dir)
        self.purge_step = None if purge_step is None else int(purge_step)  # before a thread begins
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._get_file_writer()

    def _file(self, log_dir: str) -> FileWriter:
        return FileWriter(log_dir, self.max_queue, self.flush_secs, self.filename_suffix)

    def _get_file_writer(self) -> FileWriter:
        """The writer of the folder; after `close` another one begins."""
        if self.file_writer is None:
            self.file_writer = self._file(self.log_dir)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                self.file_writer.add_event(Event(file_version="brain.Event:2"), self.purge_step)
                log = SessionLog(status=SessionLog.START)
                self.file_writer.add_event(Event(session_log=log), self.purge_step)
                self.purge_step = None
        return self.file_writer

    def _write(self, summary: Any, step: Any, walltime: float | None) -> None:
        self._get_file_writer().add_summary(summary, step, walltime)

    def get_logdir(self) -> str:
        """The folder of the event file."""
        return self.log_dir

    # --- scalars -----------------------------------------------------------------------------------------------------

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Write a number.

        Parameters
        ----------
        tag : str
        scalar_value : number or Tensor
            With one element.
        global_step : int, optional
        walltime : float, optional
            Seconds since the epoch; by default now.
        new_style : bool
            Write it as a tensor.
        double_precision : bool
            Write it as float64; needs `new_style`.

        Raises
        ------
        TypeError
            If the value is no number or tensor.
        ValueError
            If it has not one element.
        """
        value = number_of("add_scalar", "scalar_value", scalar_value)
        self._write(
            messages.scalar(_tag("add_scalar", tag), value, new_style, double_precision),
            global_step,
            walltime,
        )

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write numbers that stand in one chart. Each gets a folder of its own within that of the writer.

        Parameters
        ----------
        main_tag : str
            The tag of the chart.
        tag_scalar_dict : mapping of str to number or Tensor
        global_step, walltime
            As in `add_scalar`.
        """
        walltime = time.time() if walltime is None else walltime
        name = _tag("add_scalars", main_tag, "main_tag").replace("/", "_")
        found = _numbers("add_scalars", "tag_scalar_dict", tag_scalar_dict)
        folder = self._get_file_writer().get_logdir()
        assert self.all_writers is not None, "_get_file_writer() has made it"
        for tag, value in found.items():
            place = f"{folder}/{name}_{tag}"
            if place not in self.all_writers:
                self.all_writers[place] = self._file(place)
            self.all_writers[place].add_summary(messages.scalar(main_tag, value), global_step, walltime)

    def add_custom_scalars(self, layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
        """Say which scalars stand in which charts of the dashboard of custom scalars; once for a writer.

        Parameters
        ----------
        layout : mapping
            For each category its charts by title, each a list of a kind, ``"Multiline"`` or ``"Margin"``, and tags: any
            number, or those of a value, its lower and its upper bound.

        Raises
        ------
        ValueError
            If a chart has another form.
        """
        for charts in layout.values():
            for title, chart in charts.items():
                if (
                    len(chart) != 2
                    or (chart[0] == "Margin" and len(chart[1]) != 3)
                    or chart[0] not in ("Margin", "Multiline")
                ):
                    raise ValueError(
                        f"add_custom_scalars(): chart {title!r} must be ['Multiline', tags] or "
                        f"['Margin', [value, lower, upper]], but is {chart!r}"
                    )
        self._write(messages.custom_scalars(layout), None, None)

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Let scalars stand in one chart, as a line each."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Let three scalars stand in one chart: a value, its lower and its upper bound."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    # --- distributions -----------------------------------------------------------------------------------------------

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Write how values are distributed.

        Parameters
        ----------
        tag : str
        values : Tensor, array or sequence of numbers
        global_step, walltime
            As in `add_scalar`.
        bins : str or sequence
            ``"tensorflow"`` for buckets that grow by a tenth, or what `numpy.histogram` takes.
        max_bins : int, optional
            Join neighbours until there are about so many.

        Raises
        ------
        ValueError
            If there are no values, or some are not finite.
        """
        fields = histogram_of(values, bins, max_bins)
        self._write(messages.histogram(_tag("add_histogram", tag), fields), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write how values are distributed, which were counted elsewhere.

        Parameters
        ----------
        tag : str
        min, max, num, sum, sum_squares : float
            The least and the greatest value, how many there are, their sum and that of their squares.
        bucket_limits : Tensor, array or sequence of numbers
            Where each bucket ends.
        bucket_counts : Tensor, array or sequence of numbers
            How many values are in each.
        global_step, walltime
            As in `add_scalar`.

        Raises
        ------
        ValueError
            If there are not as many limits as counts.
        """
        known = {"min": min, "max": max, "num": num, "sum": sum, "sum_squares": sum_squares}
        fields = counted_histogram(known, bucket_limits, bucket_counts)
        self._write(messages.histogram(_tag("add_histogram_raw", tag), fields), global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = MOST_THRESHOLDS,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write a precision-recall curve.

        Parameters
        ----------
        tag : str
        labels : Tensor or array
            1 or True for what is positive.
        predictions : Tensor or array
            How likely each is positive, from 0 to 1.
        global_step, walltime
            As in `add_scalar`.
        num_thresholds : int
            From 2; more than 127 count as 127.
        weights : Tensor or array, optional

        Raises
        ------
        ValueError
            If they are not as many as each other, or predictions are not from 0 to 1.
        """
        count = min(num_thresholds, MOST_THRESHOLDS)
        if count < 2:
            raise ValueError(f"add_pr_curve(): num_thresholds must be at least 2, but got {num_thresholds}")
        curve = curve_of(labels, predictions, count, weights)
        self._write(messages.pr_curve(_tag("add_pr_curve", tag), curve, count), global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: int | None = None,
        num_thresholds: int = MOST_THRESHOLDS,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write a precision-recall curve of numbers that were counted elsewhere.

        Parameters
        ----------
        tag : str
        true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts : Tensor or array
            For each threshold, from 0 to 1.
        precision, recall : Tensor or array
            For each threshold.
        global_step, walltime
            As in `add_scalar`.
        num_thresholds : int
            How many thresholds there are; more than 127 count as 127.
        weights
            Not used, as in PyTorch.

        Raises
        ------
        ValueError
            If they are not as many as each other.
        """
        counts = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts)
        curve = counted_curve(*counts, precision, recall)
        message = messages.pr_curve(
            _tag("add_pr_curve_raw", tag), curve, min(num_thresholds, MOST_THRESHOLDS)
        )
        self._write(message, global_step, walltime)

    # --- pictures and texts ------------------------------------------------------------------------------------------

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Write an image.

        Parameters
        ----------
        tag : str
        img_tensor : Tensor or array
            Floats from 0 to 1, or bytes of dtype uint8; with 1, 3 or 4 channels.
        global_step, walltime
            As in `add_scalar`.
        dataformats : str
            What its dimensions are: letters of N, C, H and W. Several images become a grid.

        Raises
        ------
        ValueError
            If the letters do not fit the tensor, or there are other numbers of channels.
        """
        pixels = pixels_of("add_image", img_tensor, dataformats)
        self._write(messages.image(_tag("add_image", tag), pixels), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Write several images as a grid; see `add_image`."""
        pixels = pixels_of("add_images", img_tensor, dataformats)
        self._write(messages.image(_tag("add_images", tag), pixels), global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Write a figure of matplotlib, or several as a grid.

        Parameters
        ----------
        tag : str
        figure : matplotlib.figure.Figure, or list of such
            Of one size.
        global_step, walltime
            As in `add_scalar`.
        close : bool
            Whether pyplot lets go of it.
        """
        drawn = pixels_of_figures(figure, close)
        self.add_image(tag, drawn, global_step, walltime, "HWC" if drawn.ndim == 3 else "NHWC")

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write a text, which TensorBoard reads as Markdown.

        Parameters
        ----------
        tag : str
        text_string : str
        global_step, walltime
            As in `add_scalar`.
        """
        if not isinstance(text_string, str):
            raise TypeError(
                f"add_text(): argument 'text_string' must be str, not {type(text_string).__name__}"
            )
        self._write(messages.text(_tag("add_text", tag), text_string), global_step, walltime)

    # --- runs --------------------------------------------------------------------------------------------------------

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Write hyperparameters and what came of them, as a run of its own within the folder.

        Parameters
        ----------
        hparam_dict : dict of str to bool, str, number, Tensor or None
            None is left out.
        metric_dict : dict of str to number or Tensor
        hparam_domain_discrete : mapping of str to list, optional
            All values that a hyperparameter may have.
        run_name : str, optional
            The folder of the run; by default the time.
        global_step : int, optional

        Raises
        ------
        TypeError
            If one of the first two is no dict.
        ValueError
            For a value of another type.
        """
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("add_hparams(): hparam_dict and metric_dict must be dicts")
        for name in hparam_dict:
            _tag("add_hparams", name, "hparam_dict")
        metrics = _numbers("add_hparams", "metric_dict", metric_dict)
        found = messages.hparams(hparam_dict, metrics, hparam_domain_discrete or {})
        folder = os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        with SummaryWriter(folder) as run:
            for message in found:
                run._write(message, global_step, None)
            for tag, value in metrics.items():
                run.add_scalar(tag, value, global_step)

    add_graph = _missing("add_graph", "fastgrad.viz.graph(output).save('graph.svg') draws what ran")
    add_onnx_graph = _missing("add_onnx_graph", "there is no export to ONNX")
    add_embedding = _missing("add_embedding", "add_image and add_text show what it would")
    add_video = _missing("add_video", "add_images shows frames as a grid")
    add_audio = _missing("add_audio", "write the samples to a file of their own")
    add_mesh = _missing("add_mesh", "add_figure shows a picture of it")
    add_image_with_boxes = _missing(
        "add_image_with_boxes", "draw the boxes with matplotlib and use add_figure"
    )
    add_tensor = _missing("add_tensor", "fastgrad.save writes tensors")

    def flush(self) -> None:
        """Write what waits."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Write what waits, and end; another call that adds something begins another file."""
        for writer in (self.all_writers or {}).values():
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
