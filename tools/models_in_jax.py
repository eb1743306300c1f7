"""The examples' networks and optimizers in JAX, for `compare_models.py`: what a step of `jax.jit` takes.

Written as people write them in JAX: pure functions of a dict of weights, whose names are those of the modules in
`examples/models.py`, differentiated by `value_and_grad`, with the optimizer's step in the same compiled function, whose
buffers it may use again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Weights = dict[str, Any]
Loss = Callable[[Weights, Any, Any], Any]


def cross_entropy(logits: Any, targets: Any) -> Any:
    """The mean over rows."""
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[:, None], 1)
    return -chosen.mean()


def _linear(w: Weights, name: str, x: Any) -> Any:
    bias = w.get(f"{name}.bias")
    product = x @ w[f"{name}.weight"].T
    return product if bias is None else product + bias


def _layer_norm(w: Weights, name: str, x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]


def _batch_norm(w: Weights, name: str, x: Any) -> Any:
    mean = x.mean((0, 2, 3), keepdims=True)
    variance = ((x - mean) ** 2).mean((0, 2, 3), keepdims=True)
    scale, shift = (w[f"{name}.{part}"][None, :, None, None] for part in ("weight", "bias"))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


def gpt(w: Weights, indices: Any, targets: Any) -> Any:
    """The loss of the GPT with 4 layers and 4 heads."""
    n, steps = indices.shape
    x = w["tokens.weight"][indices] + w["positions.weight"][:steps]
    masked = jnp.tril(jnp.ones((steps, steps), bool))
    for layer in range(4):
        block = f"blocks.{layer}"
        y = _linear(w, f"{block}.attention.qkv", _layer_norm(w, f"{block}.norm1", x))
        query, key, value = y.reshape(n, steps, 3, 4, -1).transpose(2, 0, 3, 1, 4)
        scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]).astype(np.float32)
        mixed = jax.nn.softmax(jnp.where(masked, scores, -jnp.inf)) @ value
        x = x + _linear(w, f"{block}.attention.out", mixed.transpose(0, 2, 1, 3).reshape(x.shape))
        hidden = jax.nn.gelu(
            _linear(w, f"{block}.mlp.0", _layer_norm(w, f"{block}.norm2", x)), approximate=False
        )
        x = x + _linear(w, f"{block}.mlp.2", hidden)
    logits = _linear(w, "head", _layer_norm(w, "norm", x))
    return cross_entropy(logits.reshape(n * steps, -1), targets.reshape(-1))


def cnn(w: Weights, images: Any, targets: Any) -> Any:
    """The loss of the CNN without dropout. Running statistics are not kept."""
    x = images
    for place in (0, 4):
        x = lax.conv_general_dilated(x, w[f"features.{place}.weight"], (1, 1), "SAME")
        x = x + w[f"features.{place}.bias"][None, :, None, None]
        x = jax.nn.relu(_batch_norm(w, f"features.{place + 1}", x))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    hidden = jax.nn.relu(_linear(w, "classifier.1", x.reshape(len(x), -1)))
    return cross_entropy(_linear(w, "classifier.4", hidden), targets)


def lstm(w: Weights, images: Any, targets: Any) -> Any:
    """The loss of the LSTM over rows."""
    x = (
        images.reshape(len(images), 28, 28) @ w["lstm.weight_ih_l0"].T
        + w["lstm.bias_ih_l0"]
        + w["lstm.bias_hh_l0"]
    )

    def step(carry: Any, gates: Any) -> Any:
        hidden, cell = carry
        enter, forget, new, leave = jnp.split(gates + hidden @ w["lstm.weight_hh_l0"].T, 4, 1)
        cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(enter) * jnp.tanh(new)
        return (jax.nn.sigmoid(leave) * jnp.tanh(cell), cell), None

    zeros = jnp.zeros((len(x), w["lstm.weight_hh_l0"].shape[1]), x.dtype)
    (hidden, _), _ = lax.scan(step, (zeros, zeros), x.swapaxes(0, 1))
    return cross_entropy(_linear(w, "head", hidden), targets)


def training(
    loss: Loss, weights: dict[str, np.ndarray], inputs: np.ndarray, targets: np.ndarray, decay: float = 0.0
) -> Callable[[], Any]:
    """Steps with Adam at a rate of 1e-4, or with AdamW of this decay of weights."""
    learnt = {k: jnp.asarray(v) for k, v in weights.items() if "running" not in k and "num_batches" not in k}
    zeros = jax.tree.map(jnp.zeros_like, learnt)
    state = [learnt, zeros, jax.tree.map(jnp.zeros_like, learnt), jnp.zeros((), jnp.int32)]
    x, y = jnp.asarray(inputs), jnp.asarray(targets)

    def update(w: Any, first: Any, second: Any, count: Any, x: Any, y: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(w, x, y)
        count = count + 1
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
        size = 1e-4 / (1 - 0.9**count)
        root = jnp.sqrt(1 - 0.999**count)
        w = jax.tree.map(
            lambda p, m, v: p * (1 - 1e-4 * decay) - size * m / (jnp.sqrt(v) / root + 1e-8), w, first, second
        )
        return [w, first, second, count], value

    compiled = jax.jit(update, donate_argnums=(0, 1, 2, 3))

    def step() -> Any:
        state[:], value = compiled(*state, x, y)
        return jax.block_until_ready(value)

    return step
