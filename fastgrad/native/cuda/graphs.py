"""Graphs: launches that the driver knows in advance and runs by one call.

Note [Graphs]: a graph is captured from a stream that nobody else uses, by compiled code alone and without anything in
between, so that no other thread disturbs the capture or is disturbed by it. What is captured does not run.

Products have a workspace. Those of a graph use that of the stream where it runs, as launches there do, and are in order
with them; on another stream the graph is stale. A graph without products runs anywhere.

A graph that is dropped may still be under way. It is destroyed once an event behind its last launch has come, which is
asked whenever a graph is made or dropped.

Nothing waits for what a launch of a graph reports: see Note [Late reports] in `cuda.reports`. Random numbers are others
at each run: see Note [Drawings] in `cuda.drawings`.
"""

from __future__ import annotations

from fastgrad.native.base.c_calls import function_at
from fastgrad.native.base.intrinsics import (
    address_of,
    c_free,
    caster,
    malloc,
    memset,
    native,
    native_once,
    stack_small,
    words,
)
from fastgrad.native.contracts.cuda import (
    BLAS_FAILED,
    GRAPH,
    NO_HANDLE,
    NO_ROOM,
    NO_TIMES,
    NOT_READY,
    PRODUCT,
    RELAXED,
    REPORTED,
    WORKSPACE,
)
from fastgrad.native.contracts.records import (
    GRAPH_ADD,
    GRAPH_BEGIN,
    GRAPH_DROP,
    GRAPH_END,
    GRAPH_STALE,
    GRAPH_STREAM,
    GRAPHING,
)
from fastgrad.native.cuda.drawings import draw_others, forget_drawings, note_drawing
from fastgrad.native.cuda.launches import enqueue, launching
from fastgrad.native.cuda.memory import (
    choice_at,
    choice_of,
    event_create,
    event_do,
    event_record,
    gpu,
    stream_of,
    synchronize,
)
from fastgrad.native.cuda.queues import cuda_kernel, make_current
from fastgrad.native.cuda.reports import (
    LATE_BYTES,
    keep_note,
    late,
    leave_table,
    look_for_reports,
    note,
    says_something,
    table_at,
    take_table,
)

graphing, graph_at = map(caster, (GRAPHING, GRAPH))
begin_capture = function_at("qi")
end_capture = function_at("qq")
instantiate = function_at("qqq")
launch_graph = function_at("qq")
destroy = function_at("q")
set_workspace = function_at("qqq")
GRAPH_BYTES = 8 * GRAPH.words


@native
def workspace_of(g):
    """The workspace of the products of the calling thread's stream."""
    choice = choice_of(g)
    return g.workspace if choice == 0 else choice_at(choice).workspace


@native
def begin(g, notes):
    """Begin to capture a graph of which so many launches report; what went wrong, or 0."""
    settle_graphs(g)
    g.graph_workspace = 0
    g.graph_notes = 0
    g.graph_drawings = 0
    g.graph_table = take_table(g, notes) if notes > 0 else 0
    if notes > 0 and g.graph_table == 0:
        return NO_ROOM
    code = begin_capture(g.cuStreamBeginCapture, g.graph_stream, RELAXED)
    if code != 0:
        leave_table(g.graph_table)
        g.graph_table = 0
    return code


@native
def place_of(g, n):
    """Where a launch of the graph under way reports to; zero if there was no word of so many."""
    if g.graph_table == 0 or g.graph_notes == table_at(g.graph_table).taken:
        return 0
    g.graph_notes += 1
    return keep_note(late(table_at(g.graph_table).places + (g.graph_notes - 1) * LATE_BYTES), n)


@native_once
def add(g, c, draws):
    """Capture a launch; what went wrong, or 0. `draws`: see `GRAPHING`."""
    if c.note != 0:
        n = note(c.note)
        words(c.frame)[n.place] = place_of(g, n)
        if words(c.frame)[n.place] == 0:
            return NO_ROOM
    if cuda_kernel(c.kernel).kind == PRODUCT and g.graph_workspace == 0:
        workspace = workspace_of(g)
        if workspace == 0 or g.graph_blas == 0:
            return NO_HANDLE
        answer = set_workspace(g.set_workspace, g.graph_blas, workspace, WORKSPACE)
        if answer != 0:
            return BLAS_FAILED + answer
        g.graph_workspace = workspace
    code = enqueue(g, g.graph_stream, g.graph_blas, c)
    return note_drawing(g, c, draws) if code == 0 and draws != 0 else code


@native_once
def new_graph(g, executable, captured):
    """A record of the graph that was captured; zero without memory of the host's."""
    room = malloc(GRAPH_BYTES)
    if room != 0:
        memset(room, 0, GRAPH_BYTES)
        graph_at(room).executable = executable
        graph_at(room).captured = captured
        graph_at(room).drawings = g.graph_drawings
        graph_at(room).workspace = g.graph_workspace
        graph_at(room).table = g.graph_table
    return room


@native
def finish(g, r):
    """End the capture, and make a graph of it; what went wrong, or 0."""
    code = finish_capture(g, r)
    if code != 0:
        leave_table(g.graph_table)
        forget_drawings(g.graph_drawings)
    g.graph_table = 0
    g.graph_drawings = 0
    return code


@native_once
def finish_capture(g, r):
    """The same, but for what was noted of its launches."""
    place = words(stack_small())
    place[0] = 0
    place[1] = 0
    code = end_capture(g.cuStreamEndCapture, g.graph_stream, address_of(place))
    captured = place[0]
    if captured == 0:
        return code
    if code == 0:
        code = instantiate(g.cuGraphInstantiateWithFlags, address_of(place) + 8, captured, 0)
    if code == 0:
        kept = captured if g.graph_drawings != 0 else 0
        r.graph = new_graph(g, place[1], kept)
        if r.graph == 0:
            destroy(g.cuGraphExecDestroy, place[1])
            code = NO_ROOM
    if code != 0 or g.graph_drawings == 0:
        destroy(g.cuGraphDestroy, captured)
    return code


@native_once
def run_on(g, x, stream):
    """Run a graph on a stream; what went wrong, or 0."""
    code = launch_graph(g.cuGraphLaunch, x.executable, stream)
    if code == 0:
        x.stream = stream
        if g.synchronous != 0:
            code = synchronize(g.cuStreamSynchronize, stream)
            if code == 0:
                code = look_for_reports(g)
    return code


@native_once
def settle_graphs(g):
    """Destroy the dropped graphs that are done, and whose reports were heard."""
    at = g.dropped
    g.dropped = 0
    while at != 0:
        x = graph_at(at)
        following = x.next
        if (x.event != 0 and event_do(g.cuEventQuery, x.event) == NOT_READY) or says_something(x.table):
            x.next = g.dropped
            g.dropped = at
        else:
            if x.event != 0:
                event_do(g.cuEventDestroy, x.event)
            destroy(g.cuGraphExecDestroy, x.executable)
            if x.captured != 0:
                destroy(g.cuGraphDestroy, x.captured)
            forget_drawings(x.drawings)
            leave_table(x.table)
            c_free(at)
        at = following


@native_once
def drop(g, x):
    """Let a graph go; see Note [Graphs]."""
    if g.ending != 0:
        return
    well = g.failed == 0 and make_current(g.cuCtxSetCurrent, g.context) == 0
    place = words(stack_small())
    place[0] = 0
    if well and x.stream != 0:
        if event_create(g.cuEventCreate, address_of(place), NO_TIMES) == 0:
            if event_record(g.cuEventRecord, place[0], x.stream) == 0:
                x.event = place[0]
            else:
                event_do(g.cuEventDestroy, place[0])
        if x.event == 0:
            synchronize(g.cuStreamSynchronize, x.stream)
    x.next = g.dropped
    g.dropped = address_of(x)
    if well:
        settle_graphs(g)


@native
def graph(frame):
    """Do a step of `GRAPHING`."""
    r = graphing(frame)
    g = gpu(r.state)
    if r.step == GRAPH_STREAM:
        r.graph = stream_of(g)
        return
    if r.step == GRAPH_DROP:
        drop(g, graph_at(r.graph))
        return
    code = 0
    if r.step == GRAPH_ADD:
        code = add(g, launching(r.launching), r.draws)
    elif r.step == GRAPH_END:
        code = finish(g, r)
    else:
        code = g.failed
        if code == 0:
            code = make_current(g.cuCtxSetCurrent, g.context)
        if code == 0 and r.step == GRAPH_BEGIN:
            code = begin(g, r.notes)
        elif code == 0:
            x = graph_at(r.graph)
            if x.workspace != 0 and x.workspace != workspace_of(g):
                code = GRAPH_STALE
            else:
                code = draw_others(g, x, r.seed, r.moved)
                if code == 0:
                    code = run_on(g, x, stream_of(g))
    if code > 0 and code != REPORTED:
        g.failed = code
    r.status = code
