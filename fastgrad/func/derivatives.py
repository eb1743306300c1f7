"""Transforms that differentiate: they run a function on inputs of their own, and a pass, or two, over what it recorded.

Note [One graph]: a transform gives its function aliases of the inputs. A gradient with regard to an alias is that of
what the function did with it, whatever else the graph leads to, so nested transforms need no levels: all record in one
graph. What a transform returns keeps its history where something beyond the aliases may want it: an input with a
history of its own, such as the alias of a transform around this one, or a tensor that the function reads and that
requires grad.

Note [Twice backward]: what a pass gives is linear in the gradients that it begins with. So the gradient of *that*,
with regard to them, maps tangents of inputs to tangents of outputs: ``jvp(t) = d/dv <vjp(v), t>``. It needs no
derivative besides the one that each op has (J. Townsend, "A new trick for calculating Jacobian vector products", 2017).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from fastgrad.autograd import tangents as tangents_
from fastgrad.autograd.aliases import noted
from fastgrad.autograd.modes import enable_grad, is_grad_enabled
from fastgrad.func.batched import changeable, differentiated, plain, pull
from fastgrad.func.trees import form_text, leaves_of, mapped, rebuilt, same_form
from fastgrad.functions.likeness import ones_like, zeros_like
from fastgrad.native.build.loader import TensorBase, rt
from fastgrad.native.contracts.element_types import FLOATS
from fastgrad.native.contracts.records import TENSOR

_DTYPE = TENSOR.fields["dtype"][0]


def _need_tensors(leaves: Sequence[Any]) -> None:
    for leaf in leaves:
        if not isinstance(leaf, TensorBase):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")


def _without_history(value: Any) -> Any:
    is_recorded = isinstance(value, TensorBase) and value.requires_grad  # type: ignore[attr-defined]
    return value.detach() if is_recorded else value


def chosen_places(name: str, argnums: Any, args: tuple[Any, ...]) -> tuple[int, ...]:
    """The places of the arguments to differentiate with regard to, counted from the front."""
    if isinstance(argnums, bool) or not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    places = argnums if isinstance(argnums, tuple) else (argnums,)
    if not places:
        raise RuntimeError("argnums must be non-empty")
    found = []
    for place in places:
        if isinstance(place, bool) or not isinstance(place, int):
            raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {argnums!r}")
        if not -len(args) <= place < len(args):
            raise RuntimeError(f"Got argnum={place}, but only {len(args)} positional inputs")
        found.append(place % len(args))
    if len(set(found)) != len(found):
        raise RuntimeError(f"argnums elements must be unique, got {argnums!r}")
    return tuple(found)


class Run:
    """A function called on aliases of its inputs.

    Parameters
    ----------
    name : str
        Of the transform, for messages.
    func : callable
    args : tuple
        Its arguments.
    places : tuple of int, optional
        Of the arguments to differentiate with regard to; all by default.
    has_aux : bool
        Whether the function returns a pair of its output and something that is not differentiated.
    kwargs : dict, optional
    inputs_made : callable, optional
        Called with the aliases before the function is.
    may_change : bool
        Whether the function may change arguments in place that have no history.

    Attributes
    ----------
    inputs : list of Tensor
        The aliases.
    given : tuple
        The arguments that they are of.
    result : object
        What the function returned, tensors or containers of such.
    outputs : list of Tensor
        Its tensors.
    aux : object
    """

    def __init__(
        self,
        name: str,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        places: tuple[int, ...] | None,
        has_aux: bool,
        kwargs: dict[str, Any] | None = None,
        inputs_made: Callable[[list[Any]], None] | None = None,
        may_change: bool = False,
    ) -> None:
        chosen = range(len(args)) if places is None else places
        self.given = tuple(args[k] for k in chosen)
        leaves = leaves_of(self.given)
        _need_tensors(leaves)
        records = is_grad_enabled()
        with enable_grad(), noted() as self._leaves:
            self.inputs = [differentiated(t if records else t.detach()) for t in leaves]
            if inputs_made is not None:
                inputs_made(self.inputs)
            seen = list(map(changeable, self.inputs)) if may_change else self.inputs
            histories = [plain(t).grad_fn for t in self.inputs]
            aliases = dict(zip(chosen, rebuilt(self.given, seen), strict=True))
            returned = func(*(aliases.get(k, arg) for k, arg in enumerate(args)), **(kwargs or {}))
            self._need_unchanged(name, histories)
            self.aux = None
            if has_aux:
                if not (isinstance(returned, tuple) and len(returned) == 2):
                    raise RuntimeError(
                        f"{name}(f)(*args): output of function f should be a tuple: (output, aux) if has_aux is True"
                    )
                returned, self.aux = returned
        self.result = returned
        self.outputs = leaves_of(returned)
        self._records = records
        self._aliased = any(t.requires_grad for t in leaves)

    def _need_unchanged(self, name: str, histories: Sequence[Any]) -> None:
        """Refuse a function that changed an input with a history: gradients would be those of what it became."""
        for t, history in zip(self.inputs, histories, strict=True):
            if plain(t).grad_fn is not history:
                raise RuntimeError(
                    f"{name}: the function changed an argument in place that has a history. Call it with a copy "
                    "(x.clone()), or let it use the forms that return new tensors."
                )

    @functools.cached_property
    def is_watched(self) -> bool:
        """Whether something beyond the aliases may want gradients."""
        if not self._records:
            return False
        if self._aliased:
            return True
        outputs = tuple(plain(o) for o in self.outputs if isinstance(o, TensorBase))
        return bool(rt.leads_elsewhere(outputs, tuple(self._leaves)))

    def left(self, value: Any) -> Any:
        """Tensors of the function as the caller gets them."""
        if self.is_watched:
            return value
        return mapped(_without_history, value)

    def need_outputs(self, name: str) -> None:
        """Raise unless the function returned tensors only."""
        for o in self.outputs:
            if not isinstance(o, TensorBase):
                raise RuntimeError(
                    f"{name}: expected f(*primals) to return only tensors, got unsupported type {type(o)}"
                )

    def gradients(self, grads: Sequence[Any], keep: bool, create_graph: bool) -> list[Any]:
        """The gradients of the inputs, zeros where they are not used."""
        create_graph = create_graph or (self._records and any(g.requires_grad for g in grads))
        found = pull(self.outputs, self.inputs, grads, keep=keep, create_graph=create_graph)
        return [zeros_like(t.detach()) if g is None else g for t, g in zip(self.inputs, found, strict=True)]


def grad(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The function that gives the gradient of a function with one number as output.

    Parameters
    ----------
    func : callable
        Returns a tensor with one element and no dimensions.
    argnums : int or tuple of int
        With regard to which arguments: tensors, or containers of such.
    has_aux : bool
        Whether `func` returns a pair: what to differentiate, and something to hand on.

    Returns
    -------
    callable
        It takes the arguments of `func` and returns the gradient in the form of the argument, a tuple of these if
        `argnums` is one; with `has_aux` a pair of that and what `func` handed on.

    Raises
    ------
    RuntimeError
        If the function does not return a number, or `argnums` names no argument.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.func.grad(lambda x: x.sin().sum())(fg.zeros(2))
    tensor([1., 1.])
    >>> fg.func.grad(fg.func.grad(lambda x: x**3))(fg.tensor(2.0))
    tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return wrapper


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Like `grad`, for a pair of the gradient and what the function returned.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.func.grad_and_value(lambda x: x**2)(fg.tensor(3.0))
    (tensor(6.), tensor(9.))
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        places = chosen_places("grad", argnums, args)
        run = Run("grad_and_value", func, args, places, has_aux, kwargs)
        out = run.result
        _need_number(out)
        watched = run.is_watched
        found = rebuilt(run.given, run.gradients([ones_like(out.detach())], watched, watched))
        value = run.left(out)
        first = found if isinstance(argnums, tuple) else found[0]
        return first, ((value, run.left(run.aux)) if has_aux else value)

    return wrapper


def _need_number(out: Any) -> None:
    """Refuse to differentiate anything but one floating-point number."""
    name, sizes = "grad_and_value(f)(*args)", getattr(out, "shape", ())
    if not isinstance(out, TensorBase):
        raise RuntimeError(f"{name}: Expected f(*args) to return a Tensor, got {type(out)}")
    if sizes:
        raise RuntimeError(
            f"{name}: Expected f(*args) to return a scalar Tensor, got tensor with {len(sizes)} dims. Maybe you wanted "
            "to use the vjp or jacrev APIs instead?"
        )
    if rt.field(out, _DTYPE) not in FLOATS:
        raise RuntimeError(f"{name}: Expected f(*args) to return a floating point Tensor, got {out!r}")


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """What a function gives, and the function that multiplies vectors with its Jacobian from the left.

    Parameters
    ----------
    func : callable
        Takes `primals`; returns a tensor or containers of tensors.
    *primals : Tensor or containers of Tensor
    has_aux : bool
        Whether `func` returns a pair: what to differentiate, and something to hand on.

    Returns
    -------
    output, vjp_fn, aux
        `vjp_fn` takes a cotangent for each output, in the form of the output, and returns a tuple of a gradient for
        each of `primals`. It may be called again. `aux` is there with `has_aux` only.

    Raises
    ------
    RuntimeError
        If the function returns anything but tensors, or cotangents do not have the form of the output.

    Examples
    --------
    >>> import fastgrad as fg
    >>> out, vjp_fn = fg.func.vjp(lambda x: x * x, fg.tensor([1.0, 2.0]))
    >>> vjp_fn(fg.tensor([1.0, 10.0]))
    (tensor([ 2., 40.]),)
    """
    run = Run("vjp", func, primals, None, has_aux)
    run.need_outputs("vjp(f, *primals)")
    watched = run.is_watched

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        _need_same_form("cotangents", cotangents, run.result)
        given = leaves_of(cotangents)
        _need_tensors(given)
        for k, (g, o) in enumerate(zip(given, run.outputs, strict=True)):
            if g.shape != o.shape:
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{k}] has a shape of {g.shape} and output[{k}] has a shape of "
                    f"{o.shape}."
                )
        recorded = (watched if create_graph is None else create_graph) and is_grad_enabled()
        found = run.gradients(given, retain_graph, recorded)
        return rebuilt(run.given, found)

    value = run.left(run.result)
    return (value, vjp_fn, run.left(run.aux)) if has_aux else (value, vjp_fn)


def _need_same_form(what: str, value: Any, output: Any) -> None:
    if not same_form(value, output):
        raise RuntimeError(
            f"Expected pytree structure of {what} to be the same as pytree structure of outputs to the function. "
            f"{what}: {form_text(value)}, primal output: {form_text(output)}"
        )


class LinearMap:
    """How outputs of a run change with its inputs; see Note [Twice backward]."""

    def __init__(self, run: Run) -> None:
        self.run = run
        with enable_grad():
            self.seeds = [
                differentiated(zeros_like(o.detach())) if o.requires_grad else None for o in run.outputs
            ]
            seeds = [s for s in self.seeds if s is not None]
            outputs = [o for o, s in zip(run.outputs, self.seeds, strict=True) if s is not None]
            self.pulled = pull(outputs, run.inputs, seeds, create_graph=True)

    def push(self, tangents: Sequence[Any], create_graph: bool) -> list[Any]:
        """The tangents of the outputs, None where they do not depend on the inputs."""
        pairs = [(g, t) for g, t in zip(self.pulled, tangents, strict=True) if g is not None]
        seeds = [s for s in self.seeds if s is not None]
        found = iter(
            pull([g for g, _ in pairs], seeds, [t for _, t in pairs], create_graph=create_graph)
            if seeds
            else ()
        )
        return [None if s is None else next(found) for s in self.seeds]


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> Any:
    """What a function gives, and its Jacobian times tangents of its inputs.

    Parameters
    ----------
    func : callable
        Takes `primals`; returns a tensor or containers of tensors.
    primals, tangents : tuple
        Arguments of `func`, tensors or containers of such; the second in the form and the sizes of the first.
    strict : bool
        Raise where an output does not depend on the inputs, instead of giving zeros.
    has_aux : bool
        Whether `func` returns a pair: what to differentiate, and something to hand on.

    Returns
    -------
    output, jvp_out, aux
        The second in the form of the first; `aux` is there with `has_aux` only.

    Raises
    ------
    RuntimeError
        If tangents do not fit, or the function returns anything but tensors.

    Notes
    -----
    It is computed by two passes backward, ``jvp(t) = d/dv <vjp(v), t>``.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.func.jvp(lambda x: x * x, (fg.tensor([1.0, 2.0]),), (fg.tensor([1.0, 10.0]),))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    name = "jvp(f, primals, tangents)"
    _need_primals(name, primals)
    if not same_form(primals, tangents):
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure. For example, if primals is a "
            f"tuple of 3 tensors, tangents also must be. Got primals with structure {form_text(primals)} and tangents "
            f"with structure {form_text(tangents)}"
        )
    given = leaves_of(tangents)
    _need_only_tensors(name, "tangents", given)
    given = [tangents_.fitted(x, t) for x, t in zip(leaves_of(primals), given, strict=True)]
    level = tangents_.Level()
    tangents_.enter(level)
    try:
        run = Run(
            "jvp", func, primals, None, has_aux, may_change=True,
            inputs_made=lambda inputs: level.add_all(inputs, given),
        )  # fmt: skip
        run.need_outputs(name)
        level.is_watched = run.is_watched or any(t.requires_grad for t in given)
        pushed = level.tangents_of(run.outputs)
    finally:
        tangents_.leave(level)
    if strict and any(t is None for t in pushed):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not "
            "allowed with strict=True."
        )
    value, out = run.left(run.result), _zeros_for(run, pushed)
    return (value, out, run.left(run.aux)) if has_aux else (value, out)


def _zeros_for(run: Run, pushed: Sequence[Any]) -> Any:
    """Tangents in the form of the output, zeros where an output does not depend on the inputs."""
    filled = [zeros_like(o.detach()) if t is None else t for o, t in zip(run.outputs, pushed, strict=True)]
    return rebuilt(run.result, filled)


def _need_primals(name: str, primals: Any) -> None:
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{name}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    leaves = leaves_of(primals)
    if not leaves:
        raise RuntimeError(f"{name}: Expected primals to contain at least one Tensor.")
    _need_only_tensors(name, "primals", leaves)


def _need_only_tensors(name: str, what: str, leaves: Sequence[Any]) -> None:
    for leaf in leaves:
        if not isinstance(leaf, TensorBase):
            raise RuntimeError(f"{name}: Expected {what} to only contain Tensors, got {type(leaf)}")


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """What a function gives, and the function that multiplies its Jacobian there with tangents.

    Parameters
    ----------
    func : callable
        Takes `primals`; returns a tensor or containers of tensors.
    *primals : Tensor or containers of Tensor

    Returns
    -------
    output, jvp_fn
        `jvp_fn` takes a tangent for each of `primals` and returns those of the output. It does not call `func` again.

    Examples
    --------
    >>> import fastgrad as fg
    >>> out, jvp_fn = fg.func.linearize(lambda x: x * x, fg.tensor([1.0, 2.0]))
    >>> jvp_fn(fg.tensor([1.0, 10.0]))
    tensor([ 2., 40.])
    """
    name = "linearize(f, *primals)"
    _need_primals(name, primals)
    run = Run("linearize", func, primals, None, False)
    run.need_outputs(name)
    linear, watched = LinearMap(run), run.is_watched

    def jvp_fn(*tangents: Any) -> Any:
        if not same_form(tangents, primals):
            raise RuntimeError(
                f"Expected the tangents {form_text(tangents)} to have the same argument pytree structure as the "
                f"primals {form_text(primals)}"
            )
        given = leaves_of(tangents)
        _need_only_tensors(name, "tangents", given)
        for k, (t, leaf) in enumerate(zip(given, run.inputs, strict=True)):
            for what, mine, its in (("shape", t.shape, leaf.shape), ("dtype", t.dtype, leaf.dtype)):
                if mine != its:
                    raise RuntimeError(
                        f"tangent:{k} with {what} {mine} in flattened pytree doesn't match the {what} {its} of the "
                        "corresponding primal."
                    )
        recorded = is_grad_enabled() and (watched or any(t.requires_grad for t in given))
        return _zeros_for(run, linear.push(given, recorded))

    return run.left(run.result), jvp_fn
