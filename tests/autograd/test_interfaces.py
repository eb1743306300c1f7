"""Interfaces that code with hooks uses, and the warnings of autograd: in fastgrad and in PyTorch the same."""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np
import pytest

import fastgrad as fg


def test_grad_under_its_other_name(lib: ModuleType):
    x = lib.ones(2, requires_grad=True)
    x._grad = lib.full((2,), 3.0)
    assert x.grad.tolist() == [3.0, 3.0]
    assert x._grad is x.grad
    with pytest.raises(TypeError):
        x._grad = 5
    with pytest.raises(RuntimeError):
        x._grad = lib.ones(3)
    x._grad = None
    assert x.grad is None


def test_is_inference(lib: ModuleType):
    with lib.inference_mode():
        x = lib.ones(2)
    assert lib.is_inference(x)
    assert not lib.is_inference(lib.ones(2))
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        lib.is_inference(5)


def test_names(lib: ModuleType):
    y = lib.ones(2, requires_grad=True).pow(2)
    assert isinstance(y.grad_fn._raw_saved_self, lib.autograd.SavedTensor)
    module = importlib.import_module(f"{lib.__name__}.nn.modules.module")
    handle = module.register_module_forward_hook(lambda *args: None, always_call=True)
    assert handle.id in module._global_forward_hooks_always_called
    handle.remove()
    with pytest.raises(AttributeError):
        module._global_something
    assert lib.is_anomaly_enabled() is False


def test_multithreading():
    with fg.autograd.set_multithreading_enabled(False) as nothing:
        assert nothing is None


def test_both_backward_and_vjp(lib: ModuleType):
    """An error when the derivative is needed."""

    class Both(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad

        @staticmethod
        def vjp(ctx, grad):
            return grad

    y = Both.apply(lib.ones(2, requires_grad=True))
    with pytest.raises(
        RuntimeError, match="Implementing both 'backward' and 'vjp' for a custom Function is not"
    ):
        y.sum().backward()


def test_zeros_for_outputs_without_gradient(lib: ModuleType):
    seen = []

    class Three(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, constants, others):
            a, b, c = x * 1, x * 2, x * 3
            ctx.mark_non_differentiable(b)
            ctx._materialize_non_diff_grads = constants
            ctx.set_materialize_grads(others)
            return a, b, c

        @staticmethod
        def backward(ctx, *grads):
            seen.append([g is None for g in grads])
            return grads[0], None, None

    for constants in (False, True):
        for others in (False, True):
            Three.apply(lib.ones(2, requires_grad=True), constants, others)[0].sum().backward()
            assert seen.pop() == [False, not (constants and others), not others]


def test_mark_dirty_of_something_else(lib: ModuleType):
    class Wrong(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 1
            ctx.mark_dirty(y)
            return y

    with pytest.warns(UserWarning, match=r"mark_dirty\(\) received a tensor that was not an input"):
        Wrong.apply(lib.ones(2, requires_grad=True))


@pytest.mark.parametrize("name", ["no_grad", "enable_grad", "inference_mode"])
def test_decorated_classes(lib: ModuleType, name: str):
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

        @getattr(lib, name)()
        class Made:
            def __init__(self):
                self.mode = lib.is_grad_enabled()

    assert Made().mode is (name == "enable_grad")


def test_numpy_of_what_requires_grad(lib: ModuleType):
    x = lib.ones(2, requires_grad=True)
    for t in (x, x * 1):
        with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad"):
            t.numpy()
        for mode in (lib.no_grad(), lib.inference_mode()):
            with mode:
                assert np.asarray(t.numpy()).tolist() == [1.0, 1.0]


@pytest.mark.filterwarnings("ignore:Error detected in")
def test_anomaly_mode_with_warnings_as_errors():
    """The error of the pass leaves it, and tells what the warning would."""
    x = fg.zeros(2, requires_grad=True)
    with fg.autograd.set_detect_anomaly(True):
        y = (x.sqrt() * 0).sum()
        with pytest.MonkeyPatch.context() as patch:
            anomaly = importlib.import_module("fastgrad.autograd.anomaly")

            def raising(text: str, stacklevel: int) -> None:
                raise UserWarning(text)

            patch.setattr(anomaly.warnings, "warn", raising)
            with pytest.raises(RuntimeError, match="returned nan values in its 0th output") as caught:
                y.backward()
    assert "Error detected in SqrtBackward0. Traceback of forward call" in caught.value.__notes__[0]


def test_checkpoint_gives_the_same_object(lib: ModuleType):
    checkpoint = importlib.import_module(f"{lib.__name__}.utils.checkpoint").checkpoint
    x, constant = lib.ones(2, requires_grad=True), lib.ones(2)
    seen = []

    class Product(lib.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            seen.append((a is x, b is constant))
            return grad * b, None

    checkpoint(Product.apply, x, constant, use_reentrant=False).sum().backward()
    assert seen == [(False, True)]


def test_grad_of_a_non_leaf_warns(lib: ModuleType):
    x = lib.ones(2, requires_grad=True)
    for read in (lambda t: t.grad, lambda t: t._grad):
        with pytest.warns(UserWarning, match="not a leaf") as caught:
            assert read(x * 2) is None
        assert caught[0].filename == __file__
    kept = x * 2
    kept.retain_grad()
    given = x * 2
    given.grad = lib.ones(2)
    with lib.no_grad():
        view = x[:1]
    plain = lib.ones(2) * 2
    assert [t.grad is None for t in (x, kept, given, view, plain)] == [True, True, False, True, True]


@pytest.mark.parametrize("name", ["checkpoint", "checkpoint_sequential"])
def test_the_variant_of_a_checkpoint_is_to_be_chosen(lib: ModuleType, name: str):
    function = getattr(importlib.import_module(f"{lib.__name__}.utils.checkpoint"), name)
    x = lib.ones(2, requires_grad=True)
    args = (lib.exp, x) if name == "checkpoint" else ([lib.exp, lib.sin], 2, x)
    with pytest.warns(UserWarning, match="use_reentrant") as caught:
        assert function(*args).requires_grad
    assert len(caught) == 1
    function(*args, use_reentrant=False)


def test_checkpoints_warn_where_they_are_called():
    x = fg.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match=r"checkpoint\(\): the variant is not chosen") as caught:
        fg.utils.checkpoint.checkpoint(fg.exp, x)
    assert caught[0].filename == __file__


def test_what_the_context_of_changes_knows(lib: ModuleType):
    x = lib.ones(2, requires_grad=True)
    with lib.autograd.graph.allow_mutation_on_saved_tensors() as context:
        y = x * 2
        z = y.pow(2)
        w = x.pow(2)
        assert len(context.tid_to_weakhandle) == 2
        assert len(context.cloned) == 0
        y.mul_(2)
        (copied,) = context.cloned.values()
        assert copied.tolist() == [2.0, 2.0]
        (handle,) = context.cloned
        assert any(handle is kept for kept in context.tid_to_weakhandle.values())
        z.sum().backward()
        assert x.grad.tolist() == [8.0, 8.0]
        del z, handle, copied
        assert len(context.cloned) == 0
        assert len(context.tid_to_weakhandle) == 1
        context.clear()
        assert len(context.tid_to_weakhandle) == 0
        with pytest.raises(AssertionError, match="outside of the 'allow_mutation_on_saved_tensors' context"):
            w.sum().backward()


def test_what_is_saved_twice_is_copied_once(lib: ModuleType):
    x = lib.tensor([2.0, 3.0], requires_grad=True)
    with lib.autograd.graph.allow_mutation_on_saved_tensors() as context:
        y = x.clone()
        z = (y * y).sum() + y.exp().log().sum() * 0 + y.pow(3).sum()
        assert len(context.tid_to_weakhandle) == 2  # y, and the result of exp
        y.mul_(2)
        assert [c.tolist() for c in context.cloned.values()] == [[2.0, 3.0]]
        w = (y * y).sum()
        assert len(context.cloned) == 1
        (z + w).backward()
    assert x.grad.tolist() == [4 + 12 + 16, 6 + 27 + 24]


def test_saved_tensors_are_made_by_nodes_alone(lib: ModuleType):
    with pytest.raises(RuntimeError, match="Trying to create a SavedTensor object from Python is forbidden"):
        lib.autograd.SavedTensor()
    with pytest.raises(TypeError):
        lib.autograd.SavedTensor(lib.ones(2))


@pytest.mark.filterwarnings("ignore::FutureWarning")  # PyTorch's are deprecated
def test_functions_of_old(lib: ModuleType):
    functions = importlib.import_module(f"{lib.__name__}.autograd._functions")
    assert lib.autograd._functions is functions
    x = lib.ones(2, requires_grad=True)
    y = functions.Type.apply(x, lib.float64)
    assert y.dtype is lib.float64
    z = functions.Resize.apply(x, (2, 1))
    assert tuple(z.shape) == (2, 1)
    (y.sum() + z.sum() * 2).backward()
    assert x.grad.dtype is lib.float32
    assert x.grad.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="3 elements in total"):
        functions.Resize.apply(x, (3, 1))
