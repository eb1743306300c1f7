"""What the statements of cases may use. A printed program contains the definitions that it needs."""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import itertools
import json
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import time
import weakref
import zipfile
from pathlib import Path

import numpy as np

import fastgrad as fg
from fastgrad import flags
from fastgrad.native.build import cache

graph = fg.autograd.graph
nn = fg.nn
F = fg.nn.functional

# Keep these imports though nothing here uses them: statements do.
_USED_BY_STATEMENTS = (copy, gc, json, weakref, np)

kept = []  # what a case keeps alive until its end
cleanup = []  # called at the end: what takes things away that a case installed for the whole process
calls = itertools.count()
process = os.getpid()
THREAD_SECONDS = 60.0  # threads that take longer hang; compiling counts, also on a busy machine


class Mine(Exception):
    """What the callbacks of cases raise on purpose."""


class Wrong(BaseException):
    """Something that must not be; no statement of a case can stop it."""


def tick():
    """Counts calls of callbacks, so that a case which feeds itself comes to an end."""
    if next(calls) > 200:
        raise Mine("enough")


def use(value, depth=0):
    """Look at a result in the ways that programs do."""
    if isinstance(value, fg.Tensor):
        repr(value)
        if value.numel() <= 10_000:
            total = (value * 2).sum()
            total.item()
            if total.requires_grad:
                total.backward()
        return
    if isinstance(value, (tuple, list)) and depth < 3:
        for item in itertools.islice(value, 20):
            use(item, depth + 1)
    elif isinstance(value, nn.Module):
        repr(value)
        for parameter in value.parameters():
            use(parameter, depth + 1)
    elif isinstance(value, graph.Node):
        repr(value)
        use(value.next_functions, depth + 1)


def watch_collections(function):
    """Have a function called at the start and the end of each collection, until the case ends."""
    gc.callbacks.append(function)

    def undo():  # the library has a callback of its own there, and what `==` says depends on the function
        gc.callbacks[:] = [callback for callback in gc.callbacks if callback is not function]

    cleanup.append(undo)


def interrupted(function, seconds):
    """Call a function over and over until Ctrl-C comes, after about so many seconds."""
    came = []

    def handler(*_):
        if not came:
            came.append(True)
            raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, 0.001)  # again and again: CPython 3.11 may miss one
        while not came:  # what is raised in a destructor goes no further
            with contextlib.suppress(Exception):
                function()
    except KeyboardInterrupt:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def at_depth(depth, function):
    """Call a function so near to the recursion limit that `depth` further frames fit."""
    limit = sys.getrecursionlimit()
    frame, used = sys._getframe(), 0
    while frame is not None:
        frame, used = frame.f_back, used + 1
    sys.setrecursionlimit(used + depth)
    try:
        function()
    except RecursionError:
        pass
    finally:
        sys.setrecursionlimit(limit)


class Dies:
    """Calls a function when it dies."""

    def __init__(self, function):
        self.function = function

    def __del__(self):
        self.function(self)

    def __call__(self, *args):
        return None


def in_threads(*functions, seconds=0.1):
    """Call functions on several threads, over and over, with threads that take turns as often as they can."""
    wrong = []
    start = threading.Barrier(len(functions))

    def run(function):
        start.wait()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                function()
            except Wrong as error:
                wrong.append(error)
            except BaseException:
                pass

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=run, args=(f,), daemon=True) for f in functions]
    for t in threads:
        t.start()
    end = time.monotonic() + THREAD_SECONDS
    for t in threads:
        t.join(max(0.0, end - time.monotonic()))
    sys.setswitchinterval(interval)
    if any(t.is_alive() for t in threads):
        raise Wrong("threads do not end")
    if wrong:
        raise wrong[0]


def untouched(*sizes):
    """Memory of new tensors, and of their results, that nobody else knows stays as it is."""
    made = [fg.full(sizes, float(k)) for k in range(3)]
    time.sleep(0.0001)
    if any((t.numpy() != k).any() for k, t in enumerate(made)):
        raise Wrong("the memory of a tensor was overwritten that nobody else knows")
    if any(((t + 1).numpy() != k + 1).any() for k, t in enumerate(made)):
        raise Wrong("the result of an op on tensors that nobody else knows is wrong")


def in_child(*functions):
    """Fork; the child calls functions, and then a pass on a new thread, which has no modes, gives what it should."""
    if os.getpid() != process:  # one generation of children is enough
        return
    child = os.fork()
    if child == 0:
        results = []

        def plain_pass():
            x = fg.tensor([1.0, 2.0], requires_grad=True)
            (x * x * x).sum().backward()
            results.append(x.grad.tolist())

        for function in functions:
            with contextlib.suppress(BaseException):
                function()
        thread = threading.Thread(target=plain_pass)
        thread.start()
        thread.join()
        os._exit(0 if results == [[3.0, 12.0]] else 1 if results else 2)
    _, ended = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(ended)
    if code:
        meanings = {1: "computed wrong gradients", 2: "could not run a pass"}
        raise Wrong(f"a forked child {meanings.get(code, f'ended with {code}')}")


class Cached:
    """A cache of its own, for as long as the case runs, of units whose code is known."""

    def __init__(self):
        self.base = tempfile.mkdtemp()
        self.before, flags.CACHE = flags.CACHE, self.base
        cleanup.append(self.close)
        self.folder = cache.place().folder
        self.compiler_fails = False

    def path(self, unit):
        return self.folder / f"{unit}.o"

    def draft(self, unit):
        return self.folder / f"{unit}.o.draft"

    def bytes_of(self, unit):
        path = self.path(unit)
        return path.read_bytes() if path.is_file() else b""  # a device or a pipe may never end

    def put(self, path, data):
        if path.is_file() or not path.exists():
            path.write_bytes(data)

    def code(self, unit):
        return unit.encode() * 100

    def compile(self, unit):
        if self.compiler_fails:
            raise Mine("compiler")
        return self.code(unit)

    def get(self, unit):
        try:
            found = cache.get(unit, unit, lambda: self.compile(unit)).code
        except Mine:
            return
        except Exception as error:
            raise Wrong(f"the cache raises {type(error).__name__}") from error
        if found != self.code(unit):
            raise Wrong("the cache gives damaged code")

    def has(self, unit):
        cache.has(unit)

    def damage(self, unit, change):
        self.put(self.path(unit), change(self.bytes_of(unit)))

    def close(self):
        flags.CACHE = self.before
        for path in (self.folder.parent, self.folder):
            with contextlib.suppress(OSError):
                path.chmod(0o755)
        shutil.rmtree(self.base, ignore_errors=True)


def saved(value, **options):
    """The bytes of a file that holds a value."""
    file = io.BytesIO()
    fg.save(value, file, **options)
    return file.getvalue()


def saved_tensors(tensors):
    """The bytes of a safetensors file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.safetensors"
        fg.save(tensors, path)
        return path.read_bytes()


def rezipped(data, name, change):
    """A zip archive in which the content of one file is changed, with checksums that fit."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w") as new:
        for info in old.infolist():
            content = old.read(info.filename)
            new.writestr(info.filename, change(content) if info.filename.endswith(name) else content)
    return file.getvalue()


def load(data, suffix=".pt", **options):
    """Load what may be damaged: an exception of those that are documented, or a value that can be used."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{suffix}"
        path.write_bytes(data)
        try:
            value = fg.load(path, **options)
        except (pickle.UnpicklingError, RuntimeError, EOFError, TypeError, MemoryError):
            return
        except Exception as error:
            raise Wrong(f"loading raises {type(error).__name__}") from error
    use(list(value.values()) if isinstance(value, dict) else value)


# --- values that lie ----------------------------------------------------------------------------------------


class LongTuple(tuple):
    """Says that it is longer than it is."""

    def __len__(self):
        return 200


class ShortTuple(tuple):
    """Says that it is empty."""

    def __len__(self):
        return 0


class OtherTuple(tuple):
    """Yields other things than it holds."""

    def __iter__(self):
        return iter([None] * 50)

    def __getitem__(self, key):
        return object()


class RaisingTuple(tuple):
    """Cannot be gone through."""

    def __iter__(self):
        raise Mine("__iter__")

    def __len__(self):
        raise Mine("__len__")


class LongList(list):
    def __len__(self):
        return 200


class LyingDict(dict):
    def __len__(self):
        return 0

    def __iter__(self):
        return iter([1, None, "x"])

    def items(self):
        return [(1, 2, 3)]

    def keys(self):
        raise Mine("keys")


class Index:
    """Gives what it holds as its index."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value


class LyingInt(int):
    """Is one number and says another."""

    def __index__(self):
        return 2**70

    def __int__(self):
        return -5

    def __float__(self):
        raise Mine("__float__")


class LyingFloat(float):
    def __float__(self):
        return "no number"

    def __mul__(self, other):
        return self


class LyingStr(str):
    __slots__ = ()

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


class Hostile:
    """Every question is answered by an exception."""

    def __getattr__(self, name):
        raise Mine(name)

    def __bool__(self):
        raise Mine("__bool__")

    def __eq__(self, other):
        raise Mine("__eq__")

    def __hash__(self):
        raise Mine("__hash__")

    def __iter__(self):
        raise Mine("__iter__")

    def __len__(self):
        raise Mine("__len__")

    def __call__(self, *args, **kwargs):
        raise Mine("__call__")


class AnyAttribute:
    """Has every attribute, and it is no use."""

    def __getattr__(self, name):
        return AnyAttribute()

    def __call__(self, *args, **kwargs):
        return AnyAttribute()


class LyingArray:
    """Says that it is an array."""

    __array_interface__ = {"shape": (3,), "typestr": "<f4", "version": 3, "data": None}

    def __array__(self, dtype=None, copy=None):
        return "no array"


class Growing(list):
    """Grows while it is gone through."""

    def __iter__(self):
        for k in range(50):
            self.append(None)
            yield self[k] if k < len(self) else None


class SubTensor(fg.Tensor):
    """A subclass with nothing of its own."""


class Finalized(fg.Tensor):
    """A subclass whose tensors stay alive when they die."""

    def __del__(self):
        kept.append(self)


class Slotted(fg.Tensor):
    __slots__ = ("extra",)


class Blind(fg.Tensor):
    """A subclass that has none of the attributes of a tensor."""

    def __getattribute__(self, name):
        raise Mine(name)


class Contrary(fg.Tensor):
    """A subclass whose methods raise and whose properties lie."""

    shape = property(lambda self: (1000, 1000))
    dtype = property(lambda self: None)
    requires_grad = True
    grad_fn = None

    def backward(self, *args, **kwargs):
        raise Mine("backward")

    def detach(self):
        return None

    def clone(self, *args, **kwargs):
        return 5


def self_containing():
    """A list that holds itself."""
    out = []
    out.append(out)
    return out


def deeply_nested():
    """A list in a list, two thousand times."""
    out = []
    for _ in range(2000):
        out = [out]
    return out


def frozen_array():
    """An array that cannot be written."""
    out = np.ones(3, np.float32)
    out.flags.writeable = False
    return out


def inference_tensor():
    """A tensor that knows no graph."""
    with fg.inference_mode():
        return fg.ones(2, 3)


def released():
    """A tensor whose graph has been freed."""
    x = fg.ones(2, 3, requires_grad=True)
    y = (x * x).exp()
    y.sum().backward()
    return y


def hooked():
    """A tensor with a hook that raises."""
    x = fg.ones(2, 3, requires_grad=True)
    y = x * 2

    def hook(g):
        raise Mine("hook")

    y.register_hook(hook)
    return y


def gone_node():
    """A node whose tensors are gone."""
    return (fg.ones(2, requires_grad=True).exp() * 2).grad_fn


class Twice(fg.autograd.Function):
    """A custom function that is in order."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2
