"""Unpickling without running anything that the pickle asks for.

Python's unpickler calls what a pickle names. This one reads the same opcodes with `pickletools.genops` and knows a
short list of names, a `Vocabulary`; each that may be called stands with a function of ours that checks its arguments
and makes the object. Whatever else a pickle wants is an error, before anything happens.
"""

from __future__ import annotations

import contextlib
import pickle
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

from fastgrad import dtypes, module_names
from fastgrad.functions import storage
from fastgrad.nn.parameter import Buffer, Parameter
from fastgrad.places import device
from fastgrad.tensor import Size, Tensor

MAX_KEY_PARTS = 1000  # of a nested tuple that is a key: hashing one costs time and stack


def name_of(obj: Any) -> str:
    """The name under which a pickle asks for a class or a function."""
    return f"{obj.__module__}.{obj.__qualname__}"


def _home_name(obj: Any) -> str:
    """Its name in files, whatever `fastgrad.as_torch` lets it be called meanwhile."""
    return f"{module_names.homes.get(obj, obj.__module__)}.{obj.__qualname__}"


# --- what a pickle may name ------------------------------------------------------------------------------------


class Vocabulary:
    """What pickles of one kind may name.

    Parameters
    ----------
    known : dict
        Objects by the names under which pickles ask for them.
    makers : list of pairs
        Those that may be called, each with the function of ours that is called instead.
    foreign : str
        Names that begin so are those of a library whose objects no program can allow here.
    """

    def __init__(
        self, known: dict[str, Any], makers: Sequence[tuple[Any, Callable[..., Any]]], foreign: str = ""
    ) -> None:
        self.known = known
        self.makers = {id(obj): make for obj, make in makers}
        self.foreign = foreign

    def find(self, name: str, allowed: dict[str, Any]) -> Any:
        """What a name stands for.

        Raises
        ------
        pickle.UnpicklingError
            If it stands for nothing.
        """
        for names in (allowed, self.known):
            if name in names:
                return names[name]
        if self.foreign and name.startswith(self.foreign):
            raise pickle.UnpicklingError(
                f"Unsupported global: GLOBAL {name} has no counterpart here. Save what is made of strided tensors, "
                "numbers, texts and containers: the state_dict() of a module instead of the module"
            )
        raise pickle.UnpicklingError(
            f"Unsupported global: GLOBAL {name} was not an allowed global by default. If it is safe to use, allow it "
            f"with `fastgrad.serialization.add_safe_globals([{name}])` or, for a block, "
            f"`fastgrad.serialization.safe_globals([{name}])`."
        )

    def find_trusted(self, module: str, name: str, otherwise: Callable[[str, str], Any]) -> Any:
        """What a name stands for in a file that may run anything: what `otherwise` imports, if it is not foreign."""
        full = f"{module}.{name}"
        if self.foreign and (full in self.known or full.startswith(self.foreign)):
            return self.find(full, _safe_globals)
        return otherwise(module, name)


Load = Callable[[Any, Callable[[Any], Any], Vocabulary], Any]
"""Makes an object from its pickle, the function that gives the object of a persistent id, and a vocabulary."""


def no_arguments(kind: type) -> Callable[..., Any]:
    """A constructor that takes none."""

    def make() -> Any:
        return kind()

    return make


def of_types(kind: Callable[..., Any], *expected: type | tuple[type, ...]) -> Callable[..., Any]:
    """A constructor that takes arguments of exactly these types."""

    def make(*args: Any) -> Any:
        if len(args) != len(expected) or not all(map(isinstance, args, expected)):
            raise TypeError(f"{name_of(kind)} cannot take {[type(a).__name__ for a in args]}")
        return kind(*args)

    return make


def size(numbers: Any) -> Size:
    """Sizes from a tuple of integers."""
    if type(numbers) is not tuple or any(type(n) is not int for n in numbers):
        raise TypeError("fastgrad.Size takes a tuple of integers")
    return Size(numbers)


def _defaultdict(factory: Any = None) -> Any:
    if factory is not None and not any(factory is allowed for allowed in _FACTORIES):
        raise TypeError("a defaultdict may have one of the built-in types as its factory")
    return defaultdict(factory)


_FACTORIES = (bool, bytes, complex, dict, float, int, list, set, str, tuple, Counter, OrderedDict)
_INDEX = (int, type(None))
_BOUND = (int, float, str, type(None))
_CALLABLE: list[tuple[Any, Callable[..., Any]]] = [
    (OrderedDict, no_arguments(OrderedDict)),
    (Counter, of_types(Counter, dict)),
    (defaultdict, _defaultdict),
    (complex, of_types(complex, float, float)),
    (slice, of_types(slice, _BOUND, _BOUND, _BOUND)),
    (range, of_types(range, int, int, int)),
    (bytearray, of_types(bytearray, bytes)),
    (Size, size),
    (device, of_types(device, str, _INDEX)),
    (dtypes.of_name, of_types(dtypes.of_name, str)),
    (storage.rebuild, storage.rebuild),
    (storage.rebuild_conjugates, storage.rebuild_conjugates),
    (storage.rebuild_meta, storage.rebuild_meta),
]
_KNOWN = {
    _home_name(obj): obj for obj in (*_FACTORIES, Tensor, Parameter, Buffer, *(c for c, _ in _CALLABLE))
}
for _older in ("creation.device", "device.device"):  # in files that are older than its module
    _KNOWN[f"fastgrad.functions.{_older}"] = device
_KNOWN |= {  # in files that were written while the package was called so
    "torch.Size": Size,
    "torch.Tensor": Tensor,
    "torch.device": device,
    "torch.nn.parameter.Buffer": Buffer,
    "torch.nn.parameter.Parameter": Parameter,
}
OWN = Vocabulary(_KNOWN, _CALLABLE)
"""What files of `fastgrad.save` name."""

# --- what users add --------------------------------------------------------------------------------------------

_safe_globals: dict[str, Any] = {}


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Let `fastgrad.load` with ``weights_only=True`` use classes and functions.

    Parameters
    ----------
    safe_globals : list of callable, or of pairs (callable, str)
        Classes of instances that a file may hold, and functions that it may call; in a pair with the full name under
        which the file asks for it. They are trusted: loading calls them, and the ``__new__`` and ``__setstate__`` of
        classes, with arguments from the file.

    Raises
    ------
    TypeError
        If one is neither a callable nor such a pair.

    Examples
    --------
    >>> import fractions, io, fastgrad as fg
    >>> file = io.BytesIO()
    >>> fg.save(fractions.Fraction(1, 3), file)
    >>> fg.serialization.add_safe_globals([fractions.Fraction])
    >>> _ = file.seek(0)
    >>> fg.load(file)
    Fraction(1, 3)
    >>> fg.serialization.clear_safe_globals()
    """
    _safe_globals.update(_by_name(safe_globals))


def _by_name(objects: Sequence[Any]) -> dict[str, Any]:
    found = {}
    for entry in objects:
        obj, name = entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, None)
        if not callable(obj) or not isinstance(name, (str, type(None))):
            raise TypeError(
                f"add_safe_globals(): expected classes, functions, or pairs of one and its full name, but got {entry!r}"
            )
        found[name or name_of(obj)] = obj
    return found


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` has added."""
    return list(_safe_globals.values())


def clear_safe_globals() -> None:
    """Take back everything that `add_safe_globals` has added."""
    _safe_globals.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: Sequence[Any]) -> Iterator[None]:
    """`add_safe_globals` for the time of a block.

    Parameters
    ----------
    safe_globals : list of callable, or of pairs (callable, str)

    Examples
    --------
    >>> import fractions, fastgrad as fg
    >>> with fg.serialization.safe_globals([fractions.Fraction]):
    ...     fg.serialization.get_safe_globals()
    [<class 'fractions.Fraction'>]
    """
    before = dict(_safe_globals)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe_globals.clear()
        _safe_globals.update(before)


# --- the machine -----------------------------------------------------------------------------------------------


def loads(
    data: bytes | IO[bytes], persistent_load: Callable[[Any], Any], vocabulary: Vocabulary = OWN
) -> Any:
    """The object that a pickle describes.

    Parameters
    ----------
    data : bytes, or file object
        Which is read up to the end of the pickle.
    persistent_load : callable
        Gives the object of a persistent id; the id may be anything.
    vocabulary : Vocabulary

    Raises
    ------
    pickle.UnpicklingError
        If the pickle asks for what is not allowed, or is damaged.
    """
    return _Machine(persistent_load, vocabulary).run(data)


class _Machine:
    """The stack, the marks and the memo of a pickle being read; one method for each opcode that is no plain value."""

    def __init__(self, persistent_load: Callable[[Any], Any], vocabulary: Vocabulary) -> None:
        self.persistent_load = persistent_load
        self.vocabulary = vocabulary
        self.stack: list[Any] = []
        self.marked: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.trusted = dict(_safe_globals)
        self.outside: Exception | None = None  # what `persistent_load` raised; it comes out as it is
        self.place = 0  # of the opcode in the pickle
        self.copied = 0  # items that constructors took from texts, lists and dicts

    def run(self, data: bytes | IO[bytes]) -> Any:
        import pickletools  # whose table of opcodes takes longer to make than the rest of this package

        name = ""
        try:
            for opcode, argument, place in pickletools.genops(data):
                name = opcode.name
                self.place = place or 0
                if name == "STOP":
                    break
                if name in _VALUES:
                    self.push(argument)
                elif name in _EMPTY:
                    self.push(_EMPTY[name]())
                elif name in _HANDLERS:
                    _HANDLERS[name](self, argument)
                else:
                    raise pickle.UnpicklingError(
                        f"opcode {name} is not supported; those of protocols 2 to 5 are"
                    )
            (result,) = self.stack
        except Exception as error:
            if isinstance(error, pickle.UnpicklingError) or error is self.outside:
                raise
            raise pickle.UnpicklingError(
                f"malformed or hostile pickle at opcode {name}, byte {self.place}: {type(error).__name__}: {error}"
            ) from error
        return result

    # --- names and calls ---

    def find(self, name: str) -> Any:
        return self.vocabulary.find(name, self.trusted)

    def is_trusted(self, obj: Any) -> bool:
        return any(obj is known for known in self.trusted.values())

    def call(self, function: Any, args: Any, trusted_call: Callable[..., Any]) -> None:
        if type(args) is not tuple:
            raise TypeError("arguments are no tuple")
        if self.is_trusted(function):
            self.push(trusted_call(*args))
        elif id(function) in self.vocabulary.makers:
            self.count_copies(args)
            self.push(self.vocabulary.makers[id(function)](*args))
        else:
            raise pickle.UnpicklingError(f"calls {_shown(function)}, which is not allowed")

    def count_copies(self, args: tuple[Any, ...]) -> None:
        """Refuse a pickle whose constructors copy more than it has bytes: it brings one thing many times."""
        self.copied += sum(len(a) for a in args if type(a) in _COPIED)
        if self.copied > self.place:
            raise MemoryError("what constructors copy is larger than the pickle")

    def global_(self, argument: str) -> None:
        self.push(self.find(".".join(argument.split(" ", 1))))

    def stack_global(self, _: Any) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if type(name) is not str or type(module) is not str:
            raise TypeError("the name of a global is no text")
        self.push(self.find(f"{module}.{name}"))

    def reduce(self, _: Any) -> None:
        args, function = self.stack.pop(), self.stack.pop()
        self.call(function, args, function)

    def newobj(self, _: Any) -> None:
        args, kind = self.stack.pop(), self.stack.pop()
        self.call(kind, args, lambda *a: kind.__new__(kind, *a))

    def newobj_ex(self, _: Any) -> None:
        keywords, args, kind = self.stack.pop(), self.stack.pop(), self.stack.pop()
        if not self.is_trusted(kind) or type(keywords) is not dict:
            raise pickle.UnpicklingError(
                f"makes an object of {_shown(kind)} by keywords, which is not allowed"
            )
        self.call(kind, args, lambda *a: kind.__new__(kind, *a, **keywords))

    def build(self, _: Any) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if type(target) is OrderedDict:  # the attributes of a state dict
            if type(state) is not dict or any(type(name) is not str for name in state):
                raise TypeError("the attributes of an OrderedDict are no dict of texts")
            target.__dict__.update(state)
            return
        if isinstance(target, Tensor) and not hasattr(target, "__setstate__"):
            storage.restore(target, state)
            return
        if not self.is_trusted(type(target)):
            raise pickle.UnpicklingError(f"sets the state of {_shown(target)}, which is not allowed")
        if hasattr(target, "__setstate__"):
            target.__setstate__(state)
            return
        attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
        if attributes:
            target.__dict__.update(attributes)
        for name, value in (slots or {}).items():
            setattr(target, name, value)

    def persistent(self, _: Any) -> None:
        pid = self.stack.pop()
        try:
            self.push(self.persistent_load(pid))
        except Exception as error:
            self.outside = error
            raise

    # --- stack, marks and memo ---

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def mark(self, _: Any) -> None:
        self.marked.append(self.stack)
        self.stack = []

    def items(self) -> list[Any]:
        """What was put on the stack since the last mark, which goes."""
        found = self.stack
        self.stack = self.marked.pop()
        return found

    def pop(self, _: Any) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.items()

    def pop_mark(self, _: Any) -> None:
        self.items()

    def memoize(self, _: Any) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def put(self, place: int) -> None:
        self.memo[place] = self.stack[-1]

    def get(self, place: int) -> None:
        self.push(self.memo[place])

    # --- containers ---

    def tuple_of(self, count: int) -> None:
        if len(self.stack) < count:
            raise IndexError("a tuple of more than there is")
        cut = len(self.stack) - count
        self.stack[cut:] = [tuple(self.stack[cut:])]

    def fill(
        self, items: list[Any], kinds: tuple[type, ...], put: Callable[[Any, Any], None], step: int
    ) -> None:
        """Put items into the container on top of the stack: lists one by one, dicts by pairs."""
        target = self.stack[-1]
        if type(target) not in kinds and not self.is_trusted(type(target)):
            raise pickle.UnpicklingError(f"puts items into {_shown(target)}, which is not allowed")
        if len(items) % step:
            raise IndexError("a key without a value")
        for k in range(0, len(items), step):
            put(target, items[k] if step == 1 else (self.key(items[k]), items[k + 1]))

    def append(self, items: list[Any]) -> None:
        self.fill(items, (list,), lambda target, item: target.append(item), 1)

    def set_items(self, items: list[Any]) -> None:
        self.fill(items, _DICTS, lambda target, pair: target.__setitem__(*pair), 2)

    def add(self, items: list[Any]) -> None:
        self.fill(items, (set,), lambda target, item: target.add(self.key(item)), 1)

    def key(self, value: Any) -> Any:
        """A value, if hashing it runs nothing but Python's own code, and not for long."""
        parts = [value]
        for part in parts:  # grows meanwhile
            if type(part) in (tuple, Size):
                parts.extend(part)
            elif type(part) not in _KEYS and not self.is_trusted(type(part)):
                raise TypeError(f"{_shown(part)} is no key")
            if len(parts) > MAX_KEY_PARTS:
                raise ValueError("a key of too many parts")
        return value


def _shown(obj: Any) -> str:
    return name_of(obj) if hasattr(obj, "__qualname__") else f"an object of class {name_of(type(obj))}"


_COPIED = {str, bytes, list, dict, set}
_DICTS = (dict, OrderedDict, defaultdict, Counter)
_KEYS = {
    str, bytes, int, float, complex, bool, type(None), frozenset, range, type, dtypes.dtype, device, Tensor, Parameter,
}  # fmt: skip
_VALUES = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "UNICODE", "BINUNICODE",
    "SHORT_BINUNICODE", "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8",
    "STRING", "BINSTRING", "SHORT_BINSTRING",
}  # fmt: skip
_EMPTY: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False,
    "EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set, "EMPTY_TUPLE": tuple,
}  # fmt: skip
_HANDLERS: dict[str, Callable[[_Machine, Any], None]] = {
    "PROTO": lambda m, _: None,
    "FRAME": lambda m, _: None,
    "GLOBAL": _Machine.global_,
    "STACK_GLOBAL": _Machine.stack_global,
    "REDUCE": _Machine.reduce,
    "NEWOBJ": _Machine.newobj,
    "NEWOBJ_EX": _Machine.newobj_ex,
    "BUILD": _Machine.build,
    "BINPERSID": _Machine.persistent,
    "MARK": _Machine.mark,
    "POP": _Machine.pop,
    "POP_MARK": _Machine.pop_mark,
    "DUP": lambda m, _: m.push(m.stack[-1]),
    "MEMOIZE": _Machine.memoize,
    "PUT": _Machine.put,
    "BINPUT": _Machine.put,
    "LONG_BINPUT": _Machine.put,
    "GET": _Machine.get,
    "BINGET": _Machine.get,
    "LONG_BINGET": _Machine.get,
    "TUPLE1": lambda m, _: m.tuple_of(1),
    "TUPLE2": lambda m, _: m.tuple_of(2),
    "TUPLE3": lambda m, _: m.tuple_of(3),
    "TUPLE": lambda m, _: m.push(tuple(m.items())),
    "LIST": lambda m, _: m.push(m.items()),
    "APPEND": lambda m, _: m.append([m.stack.pop()]),
    "APPENDS": lambda m, _: m.append(m.items()),
    "SETITEM": lambda m, _: m.set_items([m.stack.pop(-2), m.stack.pop()]),
    "SETITEMS": lambda m, _: m.set_items(m.items()),
    "ADDITEMS": lambda m, _: m.add(m.items()),
    "FROZENSET": lambda m, _: m.push(frozenset(map(m.key, m.items()))),
}
