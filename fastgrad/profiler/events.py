"""Events as objects, what adds them up, and tables of them, with PyTorch's names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Interval:
    """From when to when, in microseconds since the profile's clock began.

    Attributes
    ----------
    start_ns, end_ns : int
        The same in nanoseconds.
    """

    __slots__ = ("end_ns", "start_ns")

    def __init__(self, start_ns: int, end_ns: int) -> None:
        self.start_ns = start_ns
        self.end_ns = end_ns

    @property
    def start(self) -> float:
        """When it began."""
        return self.start_ns / 1000

    @property
    def end(self) -> float:
        """When it ended."""
        return self.end_ns / 1000

    def elapsed_us(self) -> float:
        """How long it took."""
        return (self.end_ns - self.start_ns) / 1000


class _Times:
    """What events and sums of events have in common: names for their times and bytes."""

    count: int
    cpu_time_total: float
    self_cpu_time_total: float

    @property
    def cpu_time(self) -> float:
        """Microseconds of one call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def cpu_time_str(self) -> str:
        """The same as text."""
        return format_time(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        """The time with what was called, as text."""
        return format_time(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        """The time without what was called, as text."""
        return format_time(self.self_cpu_time_total)


class FunctionEvent(_Times):
    """Something that happened.

    Attributes
    ----------
    id : int
    name : str
    category : str
        "cpu_op", "function", "kernel", "hook", "module", "backward", "user_annotation", "compile" or "replay".
    thread : int
        That of `threading.get_ident`.
    fwd_thread : int or None
        Of a node of a backward pass: the thread that made it.
    time_range : Interval
    cpu_parent : FunctionEvent or None
        What it happened in.
    cpu_children : list of FunctionEvent
    sequence_nr : int
        That of the node that an op made, or that ran; -1 for none.
    input_shapes : list of list of int
        Sizes of the operands, if asked for.
    input_dtypes : list of str
    stack : list of str
        The Python functions that were being called, innermost first, if asked for.
    cpu_memory_usage : int
        By how many bytes more were in use at its end than when it began.
    allocations : int
        How many buffers were taken meanwhile, if asked for.
    args : dict
        What else is known.
    """

    count = 1
    is_async = False
    device_index = 0

    def __init__(self, number: int, name: str, category: str, thread: int, time_range: Interval) -> None:
        self.id = number
        self.name = name
        self.category = category
        self.thread = thread
        self.time_range = time_range
        self.kind = -1
        self.fwd_thread: int | None = None
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.sequence_nr = -1
        self.input_shapes: list[list[int]] = []
        self.input_dtypes: list[str] = []
        self.stack: list[str] = []
        self.cpu_memory_usage = 0
        self.allocations = 0
        self.live = (0, 0)
        self.args: dict[str, Any] = {}
        self.is_user_annotation = False

    @property
    def key(self) -> str:
        """What events are added up by: the name."""
        return self.name

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Let another event be a part of this one."""
        self.cpu_children.append(child)
        child.cpu_parent = self

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds from its beginning to its end."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        """The same without its children."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        """As `cpu_memory_usage`, without its children."""
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    def __repr__(self) -> str:
        return f"<FunctionEvent {self.name!r} {self.cpu_time_total_str} on thread {self.thread}>"


class FunctionEventAvg(_Times):
    """Events of one name, added up.

    Attributes
    ----------
    key : str
    count : int
    cpu_time_total, self_cpu_time_total : float
        Microseconds.
    cpu_memory_usage, self_cpu_memory_usage, allocations : int
    input_shapes : list
        Of the first one.
    stack : list of str
        Of the first one.
    """

    def __init__(self, key: str = "Total", category: str = "") -> None:
        self.key = key
        self.category = category
        self.count = 0
        self.cpu_time_total = 0.0
        self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = 0
        self.self_cpu_memory_usage = 0
        self.allocations = 0
        self.input_shapes: list[list[int]] = []
        self.stack: list[str] = []
        self.is_user_annotation = False

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add an event, or a sum of others."""
        if not self.count:
            self.input_shapes, self.stack = other.input_shapes, other.stack
            self.is_user_annotation = other.is_user_annotation
        within = isinstance(other, FunctionEvent) and _is_within(other)
        self.count += other.count
        self.cpu_time_total += 0.0 if within else other.cpu_time_total
        self.cpu_memory_usage += 0 if within else other.cpu_memory_usage
        self.allocations += 0 if within else other.allocations
        self.self_cpu_time_total += other.self_cpu_time_total
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return f"<FunctionEventAvg {self.key!r} x{self.count} {self.cpu_time_total_str}>"


def _is_within(event: FunctionEvent) -> bool:
    """Whether an event happened in one of the same name, whose time has it already."""
    parent = event.cpu_parent
    while parent is not None:
        if parent.name == event.name:
            return True
        parent = parent.cpu_parent
    return False


STACK_METRICS = ("self_cpu_time_total", "cpu_time_total")


class EventList(list[Any]):
    """Events, or sums of events.

    Parameters
    ----------
    events : iterable of FunctionEvent or FunctionEventAvg
    profile_memory, with_stack : bool
        What tables show.
    """

    def __init__(
        self, events: Iterable[Any] = (), *, profile_memory: bool = False, with_stack: bool = False
    ) -> None:
        super().__init__(events)
        self._profile_memory = profile_memory
        self._with_stack = with_stack

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all of them, each counted once."""
        return sum(event.self_cpu_time_total for event in self)

    @property
    def supported_export_stacks_metrics(self) -> list[str]:
        """What `export_stacks` takes."""
        return list(STACK_METRICS)

    def key_averages(self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Add up the events of each name and category.

        Parameters
        ----------
        group_by_input_shapes : bool
            Keep calls with operands of other sizes apart.
        group_by_stack_n : int
            Keep calls apart whose innermost so many Python functions differ.
        """
        if (
            isinstance(group_by_stack_n, bool)
            or not isinstance(group_by_stack_n, int)
            or group_by_stack_n < 0
        ):
            raise ValueError(
                f"key_averages(): group_by_stack_n must be an int >= 0, but got {group_by_stack_n!r}"
            )
        sums: dict[Any, FunctionEventAvg] = {}
        for event in self:
            key: tuple[Any, ...] = (event.key, event.category)
            if group_by_input_shapes:
                key += (str(event.input_shapes),)
            if group_by_stack_n:
                key += tuple(event.stack[:group_by_stack_n])
            if key not in sums:
                sums[key] = FunctionEventAvg(event.key, event.category)
            sums[key].add(event)
        for total in sums.values():
            total.stack = total.stack[:group_by_stack_n]
            if not group_by_input_shapes:
                total.input_shapes = []
        return EventList(sums.values(), profile_memory=self._profile_memory, with_stack=self._with_stack)

    def total_average(self) -> FunctionEventAvg:
        """All events added up; each time counts once."""
        total = FunctionEventAvg()
        for event in self:
            outer = isinstance(event, FunctionEventAvg) or event.cpu_parent is None
            total.count += event.count
            total.self_cpu_time_total += event.self_cpu_time_total
            total.self_cpu_memory_usage += event.self_cpu_memory_usage
            if outer:
                total.cpu_time_total += event.cpu_time_total
                total.cpu_memory_usage += event.cpu_memory_usage
                total.allocations += event.allocations
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """A table of the events.

        Parameters
        ----------
        sort_by : str, optional
            "cpu_time", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage",
            "allocations" or "count"; the largest first. By default they stand in order of time.
        row_limit : int
            How many there are at most; -1 for all.
        max_src_column_width, max_name_column_width, max_shapes_column_width : int
            Longer texts are cut.
        header : str, optional
            A line above the table.
        top_level_events_only : bool
            Leave out events within others.

        Raises
        ------
        ValueError
            If `sort_by` is none of these.
        """
        from fastgrad.profiler.tables import as_table

        rows = [e for e in self if not top_level_events_only or getattr(e, "cpu_parent", None) is None]
        widths = (max_name_column_width, max_shapes_column_width, max_src_column_width)
        return as_table(rows, sort_by, row_limit, widths, header, self._profile_memory)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write a line for each event with a stack, its functions from the outermost on and its time, for flame graphs.

        Raises
        ------
        ValueError
            If `metric` is neither "self_cpu_time_total" nor "cpu_time_total".
        RuntimeError
            If no event has a stack.
        """
        if metric not in STACK_METRICS:
            raise ValueError(f"metric should be one of: {list(STACK_METRICS)}, but got {metric!r}")
        lines = []
        for event in self:
            value = int(getattr(event, metric))
            if event.stack and value > 0:
                names = ";".join(entry.translate(_PLAIN) for entry in reversed(event.stack))
                lines.append(f"{names} {value}\n")
        if not lines:
            raise RuntimeError("export_stacks(): no event has a stack: profile with with_stack=True")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(lines)

    def __str__(self) -> str:
        return self.table()


_PLAIN = str.maketrans(" ;\t\n", "____")


def format_time(microseconds: float) -> str:
    """A time as text, in the unit that fits."""
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f}s"
    return f"{microseconds / 1e3:.3f}ms" if microseconds >= 1e3 else f"{microseconds:.3f}us"


def format_memory(nbytes: int) -> str:
    """A number of bytes as text, in the unit that fits."""
    for unit, size in (("Gb", 1 << 30), ("Mb", 1 << 20), ("Kb", 1 << 10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} b"
