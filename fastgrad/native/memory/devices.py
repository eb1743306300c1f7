"""What other devices than the host bring: functions for their memory and their launches.

Such a function is called like a kernel, with an `ALLOCATION` or a `LAUNCHING` as its frame. A device that brings
none for its memory works on the host's, and kernels of one that does not launch are called as the host's are. What
lies in the memory of a device is touched by its kernels alone; `elements.transfer` moves bytes.

Note [Nowhere]: a device that says `NOWHERE` in place of its functions has no memory and runs nothing. Its tensors
have sizes, strides, dtypes and histories, and addresses at which nothing lies. No two that follow each other have the
same one, so that what compares addresses stays right. They count as no bytes.
"""

from __future__ import annotations

from fastgrad.native.base.failures import fail
from fastgrad.native.base.intrinsics import (
    address_of,
    call_kernel,
    caster,
    native,
    native_inline,
    native_once,
    nth,
    runtime,
    runtime_address,
    stack_small,
)
from fastgrad.native.contracts.limits import HOST, N_DEVICES, NOWHERE
from fastgrad.native.contracts.records import (
    ALLOCATION,
    DEVICE,
    GRAPH_ADD,
    GRAPH_BEGIN,
    GRAPH_DROP,
    GRAPH_END,
    GRAPH_RUN,
    GRAPH_STREAM,
    GRAPHING,
    LAUNCHING,
    RUNTIME,
)
from fastgrad.native.contracts.status import DEVICE_FAILED, NO_MEMORY, OK
from fastgrad.native.memory.buffers import LARGEST, allocate, deallocate, refused

LAST_ADDRESS = (1 << 63) - 1

device_record = caster(DEVICE)
allocation = caster(ALLOCATION)
launching = caster(LAUNCHING)
graphing = caster(GRAPHING)
DEVICES_OFFSET = RUNTIME.offset("devices")


@native_inline
def record_of(device):
    """What a device brought when it was registered."""
    return nth(device_record(runtime_address() + DEVICES_OFFSET), device)


@native_once
def allocate_on(device, nbytes):
    """The address of so many bytes of the memory of a device other than the host, or a failure."""
    rt = runtime()
    if device < 0 or device >= N_DEVICES:
        return NO_MEMORY
    d = record_of(device)
    if d.allocate == 0:
        return allocate(nbytes)
    if d.allocate == NOWHERE:
        return place_nowhere(d, nbytes)
    if nbytes > LARGEST or (rt.counting != 0 and refused(nbytes)):
        return NO_MEMORY
    a = allocation(stack_small())
    a.nbytes = nbytes
    a.address = 0
    a.state = d.state
    call_kernel(d.allocate, address_of(a))
    if a.address == 0:
        return NO_MEMORY
    if a.address < 0:
        return fail(DEVICE_FAILED, device, -a.address)
    rt.live_bytes += nbytes
    rt.peak_bytes = max(rt.peak_bytes, rt.live_bytes)
    return a.address


@native
def place_nowhere(d, nbytes):
    """An address for so many bytes of a device without memory, given by what it brought; see Note [Nowhere]."""
    if nbytes > LARGEST:
        return NO_MEMORY
    size = (nbytes + 64) // 64 * 64
    if d.state < NOWHERE or d.state > LAST_ADDRESS - size:
        d.state = NOWHERE
    d.state += size
    return d.state - size


@native_once
def release_on(device, address, nbytes):
    """Give back memory of a device other than the host."""
    d = record_of(device)
    if d.release == NOWHERE:
        return
    if d.release == 0:
        deallocate(address, nbytes)
        return
    a = allocation(stack_small())
    a.nbytes = nbytes
    a.address = address
    a.state = d.state
    call_kernel(d.release, address_of(a))
    runtime().live_bytes -= nbytes


@native_inline
def allocate_memory(device, nbytes):
    """The address of so many bytes of a device's memory, or a failure."""
    return allocate(nbytes) if device == HOST else allocate_on(device, nbytes)


@native_inline
def release_memory(device, address, nbytes):
    """Give back memory of a device."""
    if device == HOST:
        deallocate(address, nbytes)
    else:
        release_on(device, address, nbytes)


@native_inline
def launches_itself(device):
    """Whether kernels of a device are launched by a function that the device brought, or nowhere."""
    return device != HOST and record_of(device).launch != 0


@native_inline
def are_peers(device, other):
    """Whether two devices are of one kind, which copies between them."""
    return launches_itself(device) and record_of(device).launch == record_of(other).launch


@native_inline
def call_on(device, kernel, frame, n_words):
    """Call a kernel with a frame, on its device; a status."""
    if launches_itself(device):
        return status_of(device, launch_on(device, kernel, frame, n_words, 0))
    call_kernel(kernel, frame)
    return OK


@native_inline
def status_of(device, answer):
    """The status that the answer of a device comes to."""
    return fail(DEVICE_FAILED, device, answer) if answer != 0 else OK


@native_inline
def describe_launch(c, d, kernel, frame, n_words, note):
    """Write a `LAUNCHING` of one frame for a device, given by what it brought."""
    c.kernel = kernel
    c.frame = frame
    c.n_words = n_words
    c.state = d.state
    c.status = 0
    c.note = note
    c.count = 1
    c.pitch = 0


@native_once
def launch_many_on(device, kernel, frame, pitch, count, n_words):
    """Let a device launch a kernel over frames that begin at equal distances; as `launch_on`."""
    d = record_of(device)
    if d.launch == NOWHERE:
        return 0
    c = launching(stack_small())
    describe_launch(c, d, kernel, frame, n_words, 0)
    c.count = count
    c.pitch = pitch
    call_kernel(d.launch, address_of(c))
    return c.status


@native_once
def launch_on(device, kernel, frame, n_words, note):
    """Let a device launch a kernel; 0, or a number of the device's for what went wrong. Needs no GIL.

    `note` is the address of a `NOTE`, or 0.
    """
    d = record_of(device)
    if d.launch == NOWHERE:
        return 0
    c = launching(stack_small())
    describe_launch(c, d, kernel, frame, n_words, note)
    call_kernel(d.launch, address_of(c))
    return c.status


# --- graphs ----------------------------------------------------------------------------------------------------


@native_inline
def makes_graphs(device):
    """Whether a device makes one launch of many."""
    return launches_itself(device) and record_of(device).graph != 0


@native_inline
def describe_step(g, d, step):
    """Write a `GRAPHING` for a device, given by what it brought."""
    g.step = step
    g.graph = 0
    g.launching = 0
    g.notes = 0
    g.draws = 0
    g.state = d.state
    g.status = 0


@native_once
def begin_graph(device, notes):
    """Let a device begin a graph of which so many launches have notes: what it answered."""
    d = record_of(device)
    g = graphing(stack_small())
    describe_step(g, d, GRAPH_BEGIN)
    g.notes = notes
    call_kernel(d.graph, address_of(g))
    return g.status


@native_once
def add_to_graph(device, kernel, frame, n_words, note, draws, count, pitch):
    """Add a launch to the graph that a device makes: what it answered.

    `note` is the address of a `NOTE`, or 0; `draws`: see `GRAPHING`; `count`, `pitch`: see `LAUNCHING`.
    """
    d = record_of(device)
    c = launching(stack_small())
    describe_launch(c, d, kernel, frame, n_words, note)
    c.count = count
    c.pitch = pitch
    g = graphing(stack_small())
    describe_step(g, d, GRAPH_ADD)
    g.launching = address_of(c)
    g.draws = draws
    call_kernel(d.graph, address_of(g))
    return g.status


@native_once
def end_graph(device):
    """The graph that a device made, or minus what went wrong."""
    d = record_of(device)
    g = graphing(stack_small())
    describe_step(g, d, GRAPH_END)
    call_kernel(d.graph, address_of(g))
    return g.graph if g.status == 0 else -g.status


@native_once
def run_graph_on(device, graph, seed, moved):
    """Let a device run a graph, with random numbers of a seed: what it answered, or `GRAPH_STALE`."""
    d = record_of(device)
    g = graphing(stack_small())
    describe_step(g, d, GRAPH_RUN)
    g.graph = graph
    g.seed = seed
    g.moved = moved
    call_kernel(d.graph, address_of(g))
    return g.status


@native_once
def stream_on(device):
    """The stream that launches of the calling thread go to on a device that makes graphs."""
    d = record_of(device)
    g = graphing(stack_small())
    describe_step(g, d, GRAPH_STREAM)
    call_kernel(d.graph, address_of(g))
    return g.graph


@native_once
def drop_graph_of(device, graph):
    """Let a device forget a graph."""
    d = record_of(device)
    g = graphing(stack_small())
    describe_step(g, d, GRAPH_DROP)
    g.graph = graph
    call_kernel(d.graph, address_of(g))
