"""`backward`: its arguments, what it writes to ``grad``, in which order, and what it refuses."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastgrad as fg


def leaf(*values: float) -> Any:
    return fg.tensor(list(values), requires_grad=True)


# --- roots and gradients -----------------------------------------------------------------------------------


def test_scalar_root_needs_no_gradient():
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_one_element_of_any_shape_counts_as_scalar():
    x = fg.full((1, 1), 3.0, requires_grad=True)
    (x * 2).backward()
    assert x.grad.tolist() == [[2.0]]


def test_gradient_argument_weights_the_output():
    x = leaf(1.0, 2.0)
    (x * x).backward(fg.tensor([10.0, 100.0]))
    assert x.grad.tolist() == [20.0, 400.0]


def test_gradient_of_another_dtype_is_cast():
    x = leaf(1.0, 2.0)
    (x * 1).backward(fg.tensor([2.0, 3.0], dtype=fg.float64))
    assert x.grad.dtype is fg.float32
    assert x.grad.tolist() == [2.0, 3.0]


def test_gradient_argument_is_not_changed_or_adopted():
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    seed = fg.ones(2)
    for _ in range(3):
        (a + b).backward(seed)
    assert seed.tolist() == [1.0, 1.0]
    assert a.grad.tolist() == b.grad.tolist() == [3.0, 3.0]
    a.grad.zero_()
    assert b.grad.tolist() == [3.0, 3.0]
    assert seed.tolist() == [1.0, 1.0]


def test_gradient_argument_shared_by_two_leaves_is_given_to_both_by_value():
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (a + b).sum().backward()
    a.grad.mul_(5)
    assert a.grad.tolist() == [5.0, 5.0]
    assert b.grad.tolist() == [1.0, 1.0]


def test_leaf_as_root():
    x = leaf(5.0)
    x.backward()
    assert x.grad.tolist() == [1.0]
    x.backward(fg.tensor([4.0]))
    assert x.grad.tolist() == [5.0]


def test_several_roots():
    x = leaf(1.0, 2.0)
    fg.autograd.backward([(x * 2).sum(), x * x], [None, fg.tensor([1.0, 10.0])])
    assert x.grad.tolist() == [4.0, 42.0]


def test_same_root_twice_is_one_root_with_the_sum():
    x = leaf(1.0, 1.0)
    a, b = x * 1, x * 2
    log = []
    a.register_hook(lambda g: log.append(("a", g.tolist())))
    b.register_hook(lambda g: log.append(("b", g.tolist())))
    fg.autograd.backward([a, b, a], [fg.ones(2), fg.ones(2), fg.ones(2) * 3])
    assert log == [("b", [1.0, 1.0]), ("a", [4.0, 4.0])]
    assert x.grad.tolist() == [6.0, 6.0]


def test_root_that_another_root_depends_on():
    x = leaf(2.0)
    y = x * 3
    z = y * 5
    log = []
    y.register_hook(lambda g: log.append(g.tolist()))
    fg.autograd.backward([y, z])
    assert log == [[6.0]]
    assert x.grad.tolist() == [18.0]


def test_two_outputs_of_one_node_as_roots():
    x = leaf(1.0, 2.0, 3.0)
    a, b, _ = x.unbind()
    fg.autograd.backward([b, a], [fg.tensor(10.0), fg.tensor(1.0)])
    assert x.grad.tolist() == [1.0, 10.0, 0.0]


def test_grad_tensors_may_be_one_tensor():
    x = leaf(1.0, 2.0)
    fg.autograd.backward(x * 3, fg.tensor([1.0, 2.0]))
    assert x.grad.tolist() == [3.0, 6.0]


# --- retain_graph ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "op", [lambda x: x.exp(), lambda x: x * x, lambda x: x.tanh(), lambda x: x.view(2, 1) @ x.view(1, 2)]
)
def test_second_pass_needs_retain_graph(op: Callable[[Any], Any]):
    x = leaf(1.0, 2.0)
    y = op(x).sum()
    y.backward(retain_graph=True)
    first = x.grad.tolist()
    y.backward()
    assert x.grad.tolist() == pytest.approx([2 * v for v in first])
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    assert x.grad.tolist() == pytest.approx([2 * v for v in first])


def test_a_graph_that_saves_nothing_may_be_used_again():
    x = leaf(1.0, 2.0)
    y = (x + 1).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_shared_part_of_two_graphs_is_freed_by_the_first():
    x = leaf(1.0, 2.0)
    y = x.exp()
    a, b = y.sum(), (y * 2).sum()
    a.backward()
    with pytest.raises(RuntimeError, match="second time"):
        b.backward()


def test_create_graph_keeps_the_graph_unless_told_otherwise():
    x = leaf(3.0)
    y = x * x * x
    fg.autograd.grad(y, x, create_graph=True)
    assert fg.autograd.grad(y, x, create_graph=True, retain_graph=False)[0].tolist() == [27.0]
    with pytest.raises(RuntimeError, match="second time"):
        fg.autograd.grad(y, x)


def test_saved_tensors_are_freed_with_the_pass():
    x = fg.ones(1000, requires_grad=True)
    y = x.exp().tanh().exp()
    z = y.sum()
    del y
    held = fg.debug.live()["bytes"]
    z.backward()
    x.grad = None
    assert held - fg.debug.live()["bytes"] >= 3 * 4000


# --- create_graph ------------------------------------------------------------------------------------------


def test_backward_with_create_graph_warns_and_makes_a_differentiable_grad():
    x = leaf(3.0)
    with pytest.warns(UserWarning, match="create_graph=True"):
        (x * x * x).backward(create_graph=True)
    assert x.grad.requires_grad
    assert x.grad.tolist() == [27.0]
    g = x.grad
    x.grad = None
    g.backward()
    assert x.grad.tolist() == [18.0]


def test_create_graph_adds_to_grad_out_of_place():
    x = leaf(3.0)
    (x * 2).backward()
    before = x.grad
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (x * x).backward(create_graph=True)
    assert x.grad is not before
    assert before.tolist() == [2.0]
    assert x.grad.tolist() == [8.0]
    x.grad = None


# --- inputs ------------------------------------------------------------------------------------------------


def test_inputs_limits_which_leaves_get_a_grad():
    a, b = leaf(1.0), leaf(2.0)
    log = []
    b.register_hook(lambda g: log.append("b"))
    (a * b).backward(inputs=[a])
    assert a.grad.tolist() == [2.0]
    assert b.grad is None
    assert log == []


def test_inputs_may_be_one_tensor_and_accumulates():
    a = leaf(1.0)
    for _ in range(2):
        (a * 3).backward(inputs=a)
    assert a.grad.tolist() == [6.0]


def test_inputs_may_be_non_leaves_which_then_retain_their_grad():
    x = leaf(1.0, 1.0)
    z = x * 2
    (z * 3).sum().backward(inputs=[z])
    assert z.retains_grad
    assert z.grad.tolist() == [3.0, 3.0]
    assert x.grad is None


def test_inputs_with_a_leaf_and_a_non_leaf_before_it():
    x = leaf(1.0, 1.0)
    z = x * 2
    (z * 3).sum().backward(inputs=[z, x])
    assert z.grad.tolist() == [3.0, 3.0]
    assert x.grad.tolist() == [6.0, 6.0]


def test_inputs_that_are_not_reached_stay_without_grad():
    x, other = leaf(1.0), leaf(1.0)
    (x * 2).backward(inputs=[x, other])
    assert x.grad.tolist() == [2.0]
    assert other.grad is None


@pytest.mark.parametrize(
    ("inputs", "error", "match"),
    [
        ([], RuntimeError, "cannot be empty"),
        ([fg.ones(1)], RuntimeError, "does not require grad"),
    ],
)
def test_wrong_inputs(inputs: Any, error: type[Exception], match: str):
    x = leaf(1.0)
    with pytest.raises(error, match=match):
        (x * 2).backward(inputs=inputs)
    assert x.grad is None


def test_inputs_of_wrong_type():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="all inputs have to be Tensors"):
        (x * 2).backward(inputs=["x"])
    assert x.grad is None


# --- accumulation ------------------------------------------------------------------------------------------


def test_grad_is_none_before_and_the_same_object_afterwards():
    x = leaf(1.0, 1.0)
    assert x.grad is None
    (x * 2).sum().backward()
    assert x.grad is x.grad
    g = x.grad
    (x * 2).sum().backward()
    assert g is x.grad
    assert g.tolist() == [4.0, 4.0]


def test_the_second_pass_adds_in_place():
    x = leaf(1.0, 1.0)
    (x * 2).sum().backward()
    address = x.grad.data_ptr()
    (x * 2).sum().backward()
    assert x.grad.data_ptr() == address
    assert x.grad.tolist() == [4.0, 4.0]


def test_a_gradient_that_nobody_else_holds_is_taken_as_it_is():
    x = fg.ones(1 << 16, requires_grad=True)
    y = (x * 3).sum()
    fg.debug.reset_peak()
    start = fg.debug.memory()["live"]
    y.backward()
    assert fg.debug.memory()["peak"] - start < 1.75 * x.nbytes


def test_a_gradient_that_a_hook_kept_is_copied():
    x = leaf(1.0, 1.0)
    kept = []
    handle = x.register_hook(kept.append)
    (x * 2).backward(fg.ones(2))
    handle.remove()
    assert kept[0].data_ptr() != x.grad.data_ptr()
    (x * 2).sum().backward()
    assert kept[0].tolist() == [2.0, 2.0]
    assert x.grad.tolist() == [4.0, 4.0]


def test_grad_is_contiguous_although_the_gradient_is_expanded():
    x = fg.ones(2, 3, requires_grad=True)
    x.sum().backward()
    assert x.grad.is_contiguous()
    x.grad[0, 0] = 5.0
    assert x.grad.tolist() == [[5.0, 1.0, 1.0], [1.0, 1.0, 1.0]]


def test_grad_can_be_set_and_deleted():
    x = leaf(1.0, 2.0)
    mine = fg.tensor([5.0, 5.0])
    x.grad = mine
    assert x.grad is mine
    (x * 1).sum().backward()
    assert x.grad is mine
    assert mine.tolist() == [6.0, 6.0]
    del x.grad
    assert x.grad is None


@pytest.mark.parametrize("bad", [fg.ones(3), fg.ones(2, dtype=fg.float64), 3.0])
def test_grad_of_another_kind_is_refused(bad: Any):
    x = leaf(1.0, 2.0)
    with pytest.raises((TypeError, RuntimeError), match="assigned grad"):
        x.grad = bad
    assert x.grad is None


def test_grad_cannot_be_the_tensor_itself():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="own grad"):
        x.grad = x


def test_gradients_of_several_uses_are_summed_once():
    x = leaf(2.0)
    log = []
    x.register_hook(lambda g: log.append(g.tolist()))
    (x * x + x * 3 + x.exp() * 0).backward()
    assert log == [[7.0]]
    assert x.grad.tolist() == [7.0]


def test_broadcast_operands_get_gradients_of_their_own_shape():
    row, column, scalar = (
        fg.ones(3, requires_grad=True),
        fg.ones(2, 1, requires_grad=True),
        fg.tensor(2.0, requires_grad=True),
    )
    (row * column * scalar).sum().backward()
    assert row.grad.tolist() == [4.0, 4.0, 4.0]
    assert column.grad.tolist() == [[6.0], [6.0]]
    assert scalar.grad.item() == 6.0


def test_gradients_have_the_dtype_of_their_tensor():
    a = fg.ones(2, requires_grad=True)
    b = fg.ones(2, dtype=fg.float64, requires_grad=True)
    (a * b).sum().backward()
    assert a.grad.dtype is fg.float32
    assert b.grad.dtype is fg.float64


def test_a_leaf_that_stopped_requiring_grad_gets_none():
    x = leaf(1.0)
    y = x * 2
    x.requires_grad_(False)
    y.backward()
    assert x.grad is None


# --- order -------------------------------------------------------------------------------------------------


def test_newest_first_and_leaves_as_soon_as_ready():
    log: list[str] = []
    leaves = [leaf(1.0, 1.0) for _ in range(3)]
    y = leaf(1.0, 1.0)
    for i, w in enumerate(leaves):
        w.register_post_accumulate_grad_hook(lambda t, i=i: log.append(f"acc{i}"))
        y = y * w
        y.register_hook(lambda g, i=i: log.append(f"y{i}"))
    y.sum().backward()
    assert log == ["y2", "acc2", "y1", "acc1", "y0", "acc0"]


def test_order_between_branches():
    log: list[str] = []
    x, w = leaf(1.0, 1.0), leaf(1.0, 1.0)
    a = x * 1
    b = x * 2
    d = w * 1
    for n, t in {"a": a, "b": b, "d": d, "x": x, "w": w}.items():
        t.register_hook(lambda g, n=n: log.append(n))
    (b + a + d).sum().backward()
    assert log == ["d", "w", "b", "a", "x"]


def test_sequence_numbers_decide():
    log: list[str] = []
    x = leaf(1.0)
    a, b = x * 1, x * 2
    a.register_hook(lambda g: log.append("a"))
    b.register_hook(lambda g: log.append("b"))
    z = a + b
    assert b.grad_fn._sequence_nr() > a.grad_fn._sequence_nr()
    a.grad_fn._set_sequence_nr(b.grad_fn._sequence_nr() + 100)
    z.backward()
    assert log == ["a", "b"]


# --- errors ------------------------------------------------------------------------------------------------


def test_root_without_history():
    with pytest.raises(
        RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"
    ):
        fg.ones(1).backward()
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="element 1 of tensors does not require grad"):
        fg.autograd.backward([x * 1, fg.ones(1)])
    assert x.grad is None


def test_root_that_is_no_scalar():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * 2).backward()
    assert x.grad is None


def test_gradient_of_another_shape():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match=r"Mismatch in shape: grad_output\[0\].*\[3\].*output\[0\].*\[2\]"):
        (x * 1).backward(fg.ones(3))
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x * 1).backward(fg.ones(1))
    assert x.grad is None


def test_gradient_of_wrong_type():
    x = leaf(1.0)
    with pytest.raises(TypeError, match="gradients can be either Tensors or None"):
        fg.autograd.backward([x * 1], [1.0])
    with pytest.raises(TypeError, match=r"Tensor"):
        fg.autograd.backward([3.0])


def test_unequal_numbers_of_roots_and_gradients():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="2 tensors and 1 gradients"):
        fg.autograd.backward([x * 1, x * 2], [fg.ones(1)])


def test_saved_tensor_changed_in_place():
    x = leaf(1.0, 2.0)
    y = x * 1
    z = y.pow(2)
    y.add_(1)
    with pytest.raises(
        RuntimeError,
        match=r"one of the variables needed for gradient computation has been modified by an "
        r"inplace operation: \[fastgrad\.FloatTensor \[2\]\], which is output 0 of \w+, is at "
        r"version 1; expected version 0 instead",
    ):
        z.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize(
    "change",
    [
        lambda y: y.detach().add_(1),
        lambda y: y.detach().zero_(),
        lambda y: y.detach().__setitem__(0, 5.0),
        lambda y: y.detach()[:1].mul_(2),
    ],
)
def test_saved_tensor_changed_through_an_alias(change: Callable[[Any], Any]):
    x = leaf(1.0, 2.0)
    y = x * 1
    z = y.pow(2)
    change(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_saved_output_changed_in_place():
    x = leaf(1.0, 2.0)
    y = x.exp()
    z = y.sum()
    with fg.no_grad():
        y.add_(1)
    with pytest.raises(
        RuntimeError, match=r"modified by an inplace operation.*version 1; expected version 0"
    ):
        z.backward()


def test_changing_what_nobody_saved_is_fine():
    x = leaf(1.0, 2.0)
    y = x * 3
    z = y + 1
    with fg.no_grad():
        y.add_(1)
    z.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_parameter_changed_under_no_grad_after_it_was_saved():
    w = leaf(1.0, 2.0)
    x = leaf(1.0, 1.0)
    y = (w * x).sum()
    with fg.no_grad():
        w.sub_(0.1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_a_pass_that_fails_in_the_middle_keeps_what_was_accumulated():
    a, b = leaf(2.0), leaf(3.0)
    old = a * 1
    y = old.exp()
    z = y * b
    with fg.no_grad():
        old.add_(0)
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified"):
        z.backward()
    assert a.grad is None


def test_values_against_finite_differences():
    rng = np.random.default_rng(0)
    w1, w2 = rng.normal(size=(4, 5)), rng.normal(size=(5, 3))
    data = rng.normal(size=(7, 4))

    def loss(a: Any, b: Any) -> Any:
        h = (fg.tensor(data, dtype=fg.float64) @ a).tanh()
        return ((h @ b).exp() + 1).log().mean()

    a = fg.tensor(w1, requires_grad=True)
    b = fg.tensor(w2, requires_grad=True)
    loss(a, b).backward()
    for tensor, array, place in ((a, w1, 0), (b, w2, 1)):
        for index in [(0, 0), (3, 2), (2, 1)]:
            step = np.zeros_like(array)
            step[index] = 1e-6
            both = [[w1, w2], [w1, w2]]
            both[0][place] = array + step
            both[1][place] = array - step
            up, down = (loss(*[fg.tensor(v) for v in pair]).item() for pair in both)
            assert tensor.grad.tolist()[index[0]][index[1]] == pytest.approx(
                (up - down) / 2e-6, rel=1e-6, abs=1e-9
            )


# --- changes in place --------------------------------------------------------------------------------------


def test_a_gradient_that_starts_inside_its_memory_reaches_a_changed_view():
    x = fg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    y[...] = x
    fg.autograd.backward([fg.cat([x, y])], [fg.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])])
    assert x.grad.tolist() == [5.0, 7.0, 9.0]


def add_what_was_made_of_it(y: Any) -> None:
    z = y * y
    y += z


def multiply_with_itself(y: Any) -> None:
    y.mul_(y)


def copy_what_was_made_of_it(y: Any) -> None:
    z = y * y
    y.copy_(z)


def set_a_part(y: Any) -> None:
    z = y * y
    y[0] = z[0]


@pytest.mark.parametrize(
    "change",
    [add_what_was_made_of_it, multiply_with_itself, copy_what_was_made_of_it, set_a_part],
)
def test_a_saved_tensor_that_is_changed_with_what_was_made_of_it_is_freed(change: Callable[[Any], Any]):
    before = fg.debug.live()
    x = fg.ones(2, requires_grad=True)
    y = x * 1
    same = y
    change(y)
    assert y is same
    del x, y, same
    assert fg.debug.live() == before


def test_a_pass_that_does_not_begin_leaves_its_inputs_alone(lib: Any):
    x = lib.ones(2, requires_grad=True)
    y = x * 1
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        y.backward(inputs=[y])
    assert not y.retains_grad
    y.backward(lib.ones(2), inputs=[y])
    assert y.retains_grad
    assert y.grad.tolist() == [1, 1]
