"""What programs may use: parts of the interface that both libraries have, behaviour that both share.

A feature has a probe. Programs use it when the probe says yes for both libraries, so that what fastgrad gains is tested
from that day on. DIFFERENCES are features too: behaviour of PyTorch that fastgrad need not copy, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any


def queue_callback(lib: ModuleType) -> Callable[[Callable[[], None]], None] | None:
    """The function that adds a callback to the running pass."""
    public = getattr(lib.autograd.graph, "queue_callback", None) or getattr(
        lib.autograd, "queue_callback", None
    )
    if public is not None:
        return public
    variable = getattr(lib.autograd, "Variable", None)
    engine = getattr(variable, "_execution_engine", None)
    return getattr(engine, "queue_callback", None)


def _never(lib: ModuleType) -> bool:
    return False


def _has(name: str) -> Callable[[ModuleType], bool]:
    return lambda lib: hasattr(lib.autograd.graph, name)


def _ones(lib: ModuleType) -> Any:
    return lib.ones(2, dtype=lib.float64, requires_grad=True)


def _captures_before_hooks(lib: ModuleType) -> bool:
    x = _ones(lib)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    return lib.autograd.grad(y.sum(), [y, x])[0][0].item() == 1.0


def _frees_what_was_saved_and_changed(lib: ModuleType) -> bool:
    live = getattr(getattr(lib, "debug", None), "live", None)
    if live is None:
        return True

    def change() -> None:
        y = _ones(lib) * 1
        y += y * y

    before = live()
    change()
    return live() == before


def _multi_hook_misses_the_only_root(lib: ModuleType) -> bool:
    register = getattr(lib.autograd.graph, "register_multi_grad_hook", None)
    if register is None:
        return False
    called: list[Any] = []
    y = _ones(lib) * 2
    register((y,), called.append)
    y.sum().backward(retain_graph=True)
    fired = len(called)
    y.backward(lib.ones(2, dtype=lib.float64))
    return len(called) == fired


def _multi_hook_refuses_grad_of_leaves(lib: ModuleType) -> bool:
    register = getattr(lib.autograd.graph, "register_multi_grad_hook", None)
    if register is None:
        return False
    a = _ones(lib)
    register((a,), lambda grads: None)
    try:
        lib.autograd.grad((a * 2).sum(), a)
    except RuntimeError:
        return True
    return False


def _stale_views_of_several_refuse(lib: ModuleType) -> bool:
    y = _ones(lib) * 1
    a, _ = y.unbind(0)
    y.mul_(2)
    try:
        a * 2
    except RuntimeError:
        return True
    return False


def _views_require_grad_without_grad(lib: ModuleType) -> bool:
    x = _ones(lib)
    with lib.no_grad():
        return x[0].requires_grad


def _refuses_itself_in_place(lib: ModuleType) -> bool:
    x = _ones(lib)
    y = x * 1
    y.mul_(y)
    try:
        y.sum().backward()
    except RuntimeError:
        return True
    return False


def _late_hooks_see_nothing(lib: ModuleType) -> bool:
    seen: list[Any] = []
    y = _ones(lib) * 1

    def late(g: Any) -> None:
        y.grad_fn.register_hook(lambda inputs, outputs: seen.append(outputs))

    y.grad_fn.register_prehook(late)
    y.sum().backward()
    x = _ones(lib)
    node = x.expand_as(x).grad_fn.next_functions[0][0]
    x.register_post_accumulate_grad_hook(
        lambda t: (node.register_hook(lambda inputs, outputs: seen.append(outputs)), None)[1]
    )
    x.sum().backward()
    return [len(outputs) for outputs in seen] == [1, 0]


def _hooks_of_unneeded_roots(lib: ModuleType) -> bool:
    seen: list[Any] = []
    x, w = _ones(lib), _ones(lib)
    y = x * 1
    y.register_hook(seen.append)
    lib.autograd.grad([y.sum(), w.sum()], [w])
    y.retain_grad()
    lib.autograd.grad([y, w], [w], [lib.ones_like(y), lib.ones_like(y)])
    return not seen


def _base_forgets_hooks(lib: ModuleType) -> bool:
    seen: list[str] = []
    y = _ones(lib) * 1
    y.register_hook(lambda g: seen.append("old"))
    y[0:1].neg_()
    y.register_hook(lambda g: seen.append("new"))
    y.mul_(2)
    y.sum().backward()
    return seen == ["new", "old"]


def _takes_parts_of_offset_gradients(lib: ModuleType) -> bool:
    y = _ones(lib) * 1
    y[...] = x = _ones(lib)
    y.backward(lib.tensor([0.0, 0.0, 1.0, 2.0], dtype=lib.float64)[2:])
    return x.grad.tolist() == [1.0, 2.0]


def _overwritten_without_history(lib: ModuleType) -> bool:
    x = _ones(lib)
    found = []
    for write in (lambda y: y.fill_(3.0), lambda y: y.copy_(_ones(lib)), lambda y: y.zero_()):
        y = x * 2
        write(y)
        found += lib.autograd.grad(y, x, _ones(lib), create_graph=True)
    return not any(g.requires_grad for g in found)


def _takes_shared_gradients(lib: ModuleType) -> bool:
    kept: list[Any] = []
    x = _ones(lib)
    x.register_hook(lambda g: (kept.append(g), g.detach())[1])
    for _ in range(2):
        (x * 1).backward(lib.ones(2, dtype=lib.float64))
    return kept[0][0].item() == 2.0


def _dot_is_one_node(lib: ModuleType) -> bool:
    return len((_ones(lib) @ _ones(lib)).grad_fn.next_functions) == 2


def _relu_has_history(lib: ModuleType) -> bool:
    x = _ones(lib)
    return lib.autograd.grad(x.relu().sum(), x, create_graph=True)[0].requires_grad


def _materialized_zeros_require_grad(lib: ModuleType) -> bool:
    x, y = _ones(lib), _ones(lib)
    return lib.autograd.grad(x.sum(), y, create_graph=True, materialize_grads=True)[0].requires_grad


def _outputs_of_max(lib: ModuleType) -> int:
    seen: list[int] = []
    y = _ones(lib).max(0)[0]
    y.grad_fn.register_prehook(lambda grads: seen.append(len(grads)))
    y.backward()
    return seen[0]


FEATURES: dict[str, Callable[[ModuleType], bool]] = {
    "function": lambda lib: hasattr(lib.autograd, "Function"),
    "multi grad hook": _has("register_multi_grad_hook"),
    "saved tensors hooks": _has("saved_tensors_hooks"),
    "callback": lambda lib: queue_callback(lib) is not None,
    "gradient edge": _has("get_gradient_edge"),
}

# Behaviour of PyTorch, and why programs keep away from it unless fastgrad does the same.
DIFFERENCES: dict[str, tuple[Callable[[ModuleType], bool], str]] = {
    "capture before hooks": (
        _captures_before_hooks,
        "autograd.grad gives a tensor's gradient from before the tensor's hooks if the tensor is also on the way to "
        "another input, and from after them if it is not; one rule, after, is better",
    ),
    "gradients changed in place": (
        _never,
        "a hook that changes its gradient in place changes it for every other reader",
    ),
    "views of several outputs after a change": (
        _stale_views_of_several_refuse,
        "PyTorch refuses to use one of several views of an op once their base was changed in place",
    ),
    "views without grad": (
        _views_require_grad_without_grad,
        "a view made under no_grad requires grad, and has no history",
    ),
    "in place with itself": (
        _refuses_itself_in_place,
        "x.mul_(x) needs x as it was, which PyTorch does not keep; its pass raises",
    ),
    "late post hooks": (
        _late_hooks_see_nothing,
        "a post hook added to a leaf's node while that runs sees no gradients of outputs",
    ),
    "roots that lead to no input": (
        _hooks_of_unneeded_roots,
        "of several roots, PyTorch leaves out those that lead to no requested tensor, hooks and all; a single "
        "such root "
        "has its tensor hooks called",
    ),
    "hooks of views": (
        _never,
        "where a view and its base meet a change in place, PyTorch drops hooks of views, without a word: those of the "
        "view's old node are never called, be it the view or the base that was changed; fastgrad calls some of them; "
        "hooks of a view whose base changed see nothing more",
    ),
    "retained outputs": (
        _never,
        "PyTorch fails an assertion, or ends with a segmentation fault, where an output of a node other than its first "
        "keeps its gradient and is changed in place",
    ),
    "hooks after one that returns something else": (
        _never,
        "of the hooks after accumulation, those after one that returned a tensor are called with that tensor, "
        "and then "
        "the pass raises; fastgrad raises at once",
    ),
    "hooks of the base of a changed view": (
        _base_forgets_hooks,
        "a tensor's hooks stay with its old node when a view of it is changed in place",
    ),
    "gradients with an offset": (
        _takes_parts_of_offset_gradients,
        "wrong gradients of a change through a view, where the gradient that arrives does not start its storage",
    ),
    "freed after a change": (
        _frees_what_was_saved_and_changed,
        "a tensor that was saved and then changed with something made from it is never freed",
    ),
    "zeros that cannot be written": (
        _never,
        "the second derivative of abs becomes a grad without memory in PyTorch, to which nothing can be added",
    ),
    "hooks added to a sibling": (
        _never,
        "PyTorch's process ends with a segmentation fault if a hook of one output of a node gives another "
        "output its first "
        "hook",
    ),
    "gradients that become grad": (
        _takes_shared_gradients,
        "grad may share memory with what a hook of the leaf's node sees, or with a gradient that a hook kept "
        "and detached; "
        "the next accumulation changes that too",
    ),
    "products of vectors": (
        _dot_is_one_node,
        "PyTorch has nodes for products with vectors; fastgrad reshapes operands and result, so nodes are "
        "freed, leaves "
        "reached and changes in place recorded in another order; the same goes for products that broadcast",
    ),
    "results that are no views": (
        lambda lib: not (_ones(lib).reshape(1, 1, 2) @ lib.ones(2, 2, dtype=lib.float64))._is_view(),
        "what PyTorch reshapes for itself is no view for the user: batches of products, copies by reshape",
    ),
    "strides of results": (
        lambda lib: not (lib.ones(2, 3).t() * 1).is_contiguous(),
        "results of permuted operands keep the order of strides in PyTorch, so that reshape may copy where it makes "
        "a view in fastgrad",
    ),
    "zeros of what is overwritten": (
        _overwritten_without_history,
        "the zeros that are the derivative of fill_ and copy_ have a history in fastgrad if the gradient has one",
    ),
    "expanded tensors in place": (
        _never,
        "PyTorch lets zero_ and fill_ write to an element that has several indices",
    ),
    "derivative of relu": (
        _relu_has_history,
        "with create_graph=True, relu gives PyTorch a gradient whose own gradient is zero",
    ),
    "zeros with history": (
        _materialized_zeros_require_grad,
        "zeros that autograd.grad made in place of None require grad with create_graph=True",
    ),
    "gradients of indices": (
        lambda lib: _outputs_of_max(lib) == 1,
        "in PyTorch the node of max(dim) has one output; indices take no gradient",
    ),
    "multi hook on the only root": (
        _multi_hook_misses_the_only_root,
        "PyTorch does not count the node of a single root among those that will run, so that a hook on several tensors "
        "that waits for it is never called",
    ),
    "multi hook and grad": (
        _multi_hook_refuses_grad_of_leaves,
        "a hook on several tensors raises if autograd.grad asks for one of its leaves",
    ),
}


def available(*libraries: ModuleType) -> frozenset[str]:
    """The names of what all the libraries have."""
    probes = FEATURES | {name: probe for name, (probe, _) in DIFFERENCES.items()}
    return frozenset(name for name, probe in probes.items() if all(probe(lib) for lib in libraries))
