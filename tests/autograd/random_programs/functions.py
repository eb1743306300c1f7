"""Custom functions for programs to apply."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def functions(run: Any) -> SimpleNamespace:
    """The functions, each as a class of the run's library; what they see goes into the run's log."""
    from tests.autograd.random_programs.run import StopError, seen

    lib = run.lib
    base = lib.autograd.Function

    def note(name: str, ctx: Any, *grads: Any) -> None:
        run.log.append((name, lib.is_grad_enabled(), ctx.needs_input_grad, seen(grads)))

    class Double(base):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            note("Double", ctx, g)
            return g * 2

    class Square(base):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        def backward(ctx, g):
            note("Square", ctx, g)
            (a,) = ctx.saved_tensors
            return g * 2 * a

    class Output(base):
        @staticmethod
        def forward(ctx, a):
            y = a.tanh()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            note("Output", ctx, g)
            (y,) = ctx.saved_tensors
            return g * (1 - y * y)

    class Within(base):
        """Saves a tensor that has a history of its own, by which a second derivative reaches the input."""

        @staticmethod
        def forward(ctx, a):
            with lib.enable_grad():
                b = a * 2
            ctx.save_for_backward(b, None, a)
            return a * a

        @staticmethod
        def backward(ctx, g):
            note("Within", ctx, g)
            b, _, a = ctx.saved_tensors
            run.log.append(("saved", a.is_leaf, b.is_leaf, a.requires_grad, b.requires_grad))
            return g * b

    class Dirty(base):
        @staticmethod
        def forward(ctx, a):
            a *= 2
            ctx.mark_dirty(a)
            return a

        @staticmethod
        def backward(ctx, g):
            note("Dirty", ctx, g)
            return g * 2

    class Pair(base):
        @staticmethod
        def forward(ctx, a, b):
            return a * 2, b * 3

        @staticmethod
        def backward(ctx, g, h):
            note("Pair", ctx, g, h)
            return g * 2, h * 3

    class Nothing(base):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, g):
            note("Nothing", ctx, g)

    class Raw(base):
        @staticmethod
        def forward(ctx, a):
            ctx.set_materialize_grads(False)
            return a * 1

        @staticmethod
        def backward(ctx, g):
            note("Raw", ctx, g)
            return g

    class Short(base):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, g):
            note("Short", ctx, g)
            return g, None, None

    class Stop(base):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, g):
            note("Stop", ctx, g)
            if "Stop" not in run.stopped:
                run.stopped.add("Stop")
                raise StopError("from a function")
            return g

    class Once(base):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        @lib.autograd.function.once_differentiable
        def backward(ctx, g):
            note("Once", ctx, g)
            return g * 2 * ctx.saved_tensors[0]

    class Inner(base):
        @staticmethod
        def forward(ctx, a):
            with lib.enable_grad():
                ctx.a = a.detach().requires_grad_()
                ctx.b = ctx.a * 2
            return ctx.b.detach()

        @staticmethod
        def backward(ctx, g):
            note("Inner", ctx, g)
            return lib.autograd.grad(ctx.b, ctx.a, g, retain_graph=True)[0]

    class Hooked(base):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            note("Hooked", ctx, g)
            ctx.register_hook(lambda gi, go: run.log.append(("Hooked.hook", seen(gi), seen(go))))
            return g * 2

    made = (Double, Square, Output, Within, Dirty, Pair, Nothing, Raw, Short, Stop, Once, Inner, Hooked)
    return SimpleNamespace(**{one.__name__: one for one in made})
