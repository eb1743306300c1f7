"""`Distribution`: what all of them can do, and which arguments are checked."""

from __future__ import annotations

import warnings
from typing import Any

import fastgrad as fg
from fastgrad.distributions import constraints
from fastgrad.distributions.utils import lazy_property


class Distribution:
    """A distribution of independent events, a batch of them.

    Parameters
    ----------
    batch_shape : Size
        Of the batch; parameters have it.
    event_shape : Size
        Of one event: empty for those of one number.
    validate_args : bool, optional
        Whether parameters, and what `log_prob` and its like get, are compared with the constraints; by default what
        `set_default_validate_args` said.

    Raises
    ------
    ValueError
        If a parameter does not satisfy its constraint.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Say whether distributions compare their arguments with constraints where they are not told.

        Raises
        ------
        ValueError
            If the value is no bool.
        """
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: expected a bool, but got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = fg.Size(batch_shape), fg.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()

    def _validate_parameters(self) -> None:
        try:
            expected = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize "
                "the distribution with `validate_args=False` to turn off validation.",
                stacklevel=4,
            )
            return
        for name, constraint in expected.items():
            computed = isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(constraint) or (name not in vars(self) and computed):
                continue
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of "
                    f"distribution {self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n"
                    f"{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with parameters expanded to a larger batch."""
        raise NotImplementedError(f"{type(self).__name__} does not implement expand")

    def _expanded(
        self, batch_shape: Any, instance: Any, *names: str, event_shape: Any = None, base: type | None = None
    ) -> Any:
        """A copy whose parameters, those of the names that it has, are expanded to a batch."""
        made = self._get_checked_instance(base or type(self), instance)
        shape = fg.Size(batch_shape)
        for name in names:
            if name in vars(self):
                setattr(made, name, getattr(self, name).expand(shape))
        Distribution.__init__(
            made, shape, self._event_shape if event_shape is None else event_shape, validate_args=False
        )
        made._validate_args = self._validate_args
        return made

    @property
    def batch_shape(self) -> Any:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one event."""
        return self._event_shape

    def _lacks(self, name: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} does not implement {name}")

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The constraints of the parameters by name."""
        raise self._lacks("arg_constraints")

    @property
    def support(self) -> Any:
        """The constraint of what the distribution gives."""
        raise self._lacks("support")

    @property
    def mean(self) -> Any:
        """The mean."""
        raise self._lacks("mean")

    @property
    def mode(self) -> Any:
        """The most probable event."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise self._lacks("variance")

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples without history, of the shape ``sample_shape + batch_shape + event_shape``."""
        with fg.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Samples that are differentiable functions of the parameters (where `has_rsample`)."""
        raise self._lacks("rsample")

    def sample_n(self, n: int) -> Any:
        """``sample((n,))``; deprecated."""
        warnings.warn("sample_n will be deprecated. Use .sample((n,)) instead", UserWarning, stacklevel=2)
        return self.sample(fg.Size((n,)))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability, or of its density, at each event of a tensor."""
        raise self._lacks("log_prob")

    def cdf(self, value: Any) -> Any:
        """The probability of what is not larger."""
        raise self._lacks("cdf")

    def icdf(self, value: Any) -> Any:
        """The number whose `cdf` is given."""
        raise self._lacks("icdf")

    def enumerate_support(self, expand: bool = True) -> Any:
        """All events of a discrete distribution along a new first dimension, by default for each of the batch."""
        raise self._lacks("enumerate_support")

    def entropy(self) -> Any:
        """The entropy in nats."""
        raise self._lacks("entropy")

    def perplexity(self) -> Any:
        """The exponential of the entropy."""
        return fg.exp(self.entropy())

    def _extended_shape(self, sample_shape: Any = ()) -> Any:
        return fg.Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _enumerated(self, values: Any, expand: bool) -> Any:
        """Events along a first dimension, with the batch behind it."""
        values = values.reshape(-1, *([1] * len(self._batch_shape)))
        return values.expand(-1, *self._batch_shape) if expand else values

    def _validate_sample(self, value: Any) -> None:
        if not fg.is_tensor(value):
            raise ValueError("The value argument to log_prob must be a Tensor")
        start = value.dim() - len(self._event_shape)
        if tuple(value.shape[max(start, 0) :]) != tuple(self._event_shape):
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{tuple(value.shape)} vs {tuple(self._event_shape)}."
            )
        expected = tuple(self._batch_shape) + tuple(self._event_shape)
        for i, j in zip(reversed(tuple(value.shape)), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {tuple(value.shape)} vs {expected}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation.",
                stacklevel=4,
            )
            return
        if not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _checked(self, value: Any) -> None:
        if self._validate_args:
            self._validate_sample(value)

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in vars(self)]
        values = ((n, vars(self)[n]) for n in names)
        shown = ", ".join(f"{n}: {v if v.numel() == 1 else v.shape}" for n, v in values)
        return f"{type(self).__name__}({shown})"


class OneParameter(Distribution):
    """What distributions given by either `probs` or `logits` share."""

    _binary = True

    def _given(self, probs: Any, logits: Any) -> Any:
        """The one that is given."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        return logits if probs is None else probs

    @property
    def _param(self) -> Any:
        return self.probs if "probs" in vars(self) else self.logits

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._param.shape

    @lazy_property
    def logits(self) -> Any:
        """Log odds, or the logarithms of the probabilities."""
        from fastgrad.distributions.utils import probs_to_logits

        return probs_to_logits(self.probs, is_binary=self._binary)

    @lazy_property
    def probs(self) -> Any:
        """Probabilities."""
        from fastgrad.distributions.utils import logits_to_probs

        return logits_to_probs(self.logits, is_binary=self._binary)
