"""Functions of single elements, for the tests of `vmap`: what each is called with, and which arguments have a batch.

A function gets the package (this one or PyTorch), its ``nn.functional``, and tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

_rng = np.random.default_rng(7)


def normal(*sizes: int) -> np.ndarray:
    return _rng.standard_normal(sizes).astype(np.float32)


class Case(NamedTuple):
    name: str
    function: Callable[..., Any]
    arguments: list[np.ndarray]
    in_dims: Any = 0
    warns: bool = False


INDICES = np.array([[0, 1], [2, 0], [1, 1], [2, 2]])


def _in_place(fg, f, x):
    y = x.clone()
    y.add_(1)
    y[0] = 3
    y[:, 1] = x[:, 0]
    y.mul_(x)
    y[1].fill_(2)
    y.clamp_(min=0)
    y.copy_(y * 2)
    y.relu_()
    return y


CASES = [
    Case(
        "arithmetic",
        lambda fg, f, x, y, z: (x + y, x * z, y - z, z / x, x**2, 2**x, z > y, x == x),
        [normal(4, 3, 5), normal(4, 5), normal(4)],
    ),
    Case(
        "selections",
        lambda fg, f, x, y: (fg.where(x > 0, x, y), fg.maximum(x, y), x.clamp(min=0.1)),
        [normal(4, 3, 5), normal(4, 5)],
    ),
    Case(
        "same for all",
        lambda fg, f, x, w: (x + w, x @ w.t(), w @ x.t(), fg.cat([x, w]), fg.stack([x, w], 1), w * 2),
        [normal(4, 3, 5), normal(3, 5)],
        (0, None),
    ),
    Case(
        "promotion",
        lambda fg, f, z, i: (z * i, i * 1.5, i / 2, i + fg.tensor(1.0), i * fg.tensor([1, 2])),
        [normal(4), np.arange(4)],
    ),
    Case(
        "wide numbers",
        lambda fg, f, z: (z + fg.ones(2), z + fg.ones(()), z * fg.ones(2, dtype=fg.int64)),
        [normal(4).astype(np.float64)],
    ),
    Case(
        "products",
        lambda fg, f, x, y: (
            x @ y,
            y @ x.t(),
            fg.dot(y, y),
            fg.mv(x, y),
            x @ x.t(),
            fg.bmm(x[None], x.t()[None]),
        ),
        [normal(4, 3, 5), normal(4, 5)],
    ),
    Case(
        "linear",
        lambda fg, f, x, w, b: f.linear(x, w, b),
        [normal(4, 5), normal(3, 5), normal(3)],
        (0, None, None),
    ),
    Case(
        "linear, each",
        lambda fg, f, x, w, b: f.linear(x, w, b),
        [normal(4, 5), normal(4, 3, 5), normal(4, 3)],
    ),
    Case(
        "linear, weights",
        lambda fg, f, x, w, b: f.linear(x, w, b),
        [normal(2, 5), normal(4, 3, 5), normal(4, 3)],
        (None, 0, 0),
    ),
    Case(
        "addmm",
        lambda fg, f, x, w, b: (fg.addmm(b, x, w), fg.addmm(b, x, w, beta=2, alpha=3)),
        [normal(4, 2, 5), normal(4, 5, 3), normal(4, 3)],
    ),
    Case(
        "pooling",
        lambda fg, f, x: (
            f.max_pool2d(x, 2),
            f.avg_pool2d(x, 2),
            f.adaptive_avg_pool2d(x, 3),
            f.max_pool2d(x, 2, return_indices=True)[1],
        ),
        [normal(4, 2, 6, 8, 8)],
    ),
    Case(
        "pooling of one",
        lambda fg, f, x: (f.max_pool2d(x, 2), f.avg_pool2d(x, 2), f.max_pool1d(x[0], 2)),
        [normal(4, 6, 8, 8)],
    ),
    Case(
        "padding",
        lambda fg, f, x: (
            f.pad(x, (1, 2)),
            f.pad(x, (1, 2, 0, 1), value=3.0),
            f.pad(x, (1, 2), mode="reflect"),
            f.pad(x, (1, 1), mode="circular"),
            f.pad(x, (1, 1), mode="replicate"),
        ),
        [normal(4, 3, 5)],
    ),
    Case(
        "losses of pairs",
        lambda fg, f, x, y: (
            f.mse_loss(x, y),
            f.mse_loss(x, y, reduction="sum"),
            f.mse_loss(x, y, reduction="none"),
            f.smooth_l1_loss(x, y),
            f.huber_loss(x, y),
            f.l1_loss(x, y),
            f.binary_cross_entropy_with_logits(x, y.sigmoid()),
        ),
        [normal(4, 3), normal(4, 3)],
    ),
    Case(
        "loss of classes",
        lambda fg, f, x, t: (
            f.cross_entropy(x, t),
            f.cross_entropy(x, t, reduction="sum"),
            f.cross_entropy(x, t, reduction="none"),
            f.cross_entropy(x, t, label_smoothing=0.1),
        ),
        [normal(4, 2, 3), np.array([[0, 1], [2, 0], [1, 1], [2, -100]])],
    ),
    Case(
        "loss of one class", lambda fg, f, x, t: f.cross_entropy(x, t), [normal(4, 3), np.array([0, 1, 2, 0])]
    ),
    Case(
        "loss with weights",
        lambda fg, f, x, t, w: f.cross_entropy(x, t, w),
        [normal(4, 2, 3), np.array([[0, 1], [2, 0], [1, 1], [2, 1]]), np.abs(normal(3))],
        (0, 0, None),
    ),
    Case(
        "attention",
        lambda fg, f, q, k: f.scaled_dot_product_attention(q, k, k),
        [normal(4, 2, 2, 3, 5), normal(4, 2, 2, 6, 5)],
    ),
    Case("tables", lambda fg, f, i, w: f.embedding(i, w), [INDICES, normal(3, 5)], (0, None)),
    Case("tables, each", lambda fg, f, i, w: f.embedding(i, w), [INDICES, normal(4, 3, 5)]),
    Case(
        "tables, weights",
        lambda fg, f, i, w: f.embedding(i, w),
        [np.array([0, 1]), normal(4, 3, 5)],
        (None, 0),
    ),
    *(
        Case(
            f"tables with padding {own}",
            lambda fg, f, i, w: f.embedding(i, w, padding_idx=1),
            [INDICES if own[0] == 0 else np.array([[0, 1], [1, 2]]), normal(*(4,) * (own[1] == 0), 3, 5)],
            own,
        )
        for own in ((0, None), (None, 0), (0, 0))
    ),
    Case(
        "quotients of integers",
        lambda fg, f, a, b: (
            a // b,
            a % b,
            fg.fmod(a, b),
            fg.div(a, b, rounding_mode="floor"),
            7 // b,
            a.clone().floor_divide_(b),
        ),
        [np.array([[7, -7], [5, 3]]), np.array([[2, -2], [3, -1]])],
    ),
    Case(
        "quotients of integers by the same",
        lambda fg, f, a, b: (a // b, a % b, b // a),
        [np.array([[7, -7], [5, 3]]), np.array([2, -3])],
        (0, None),
    ),
    Case(
        "reading",
        lambda fg, f, x, i: (
            fg.gather(x, 0, i[None]),
            x[i],
            x[:, i],
            x[i, i],
            fg.index_select(x, 0, i),
            fg.take_along_dim(x, i[:, None], 0),
        ),
        [normal(4, 3, 5), INDICES],
    ),
    Case(
        "reading, same places",
        lambda fg, f, x, i: (x[i], x[:, i], x[i, i]),
        [normal(4, 3, 5), np.array([0, 1])],
        (0, None),
    ),
    Case(
        "reading, same values",
        lambda fg, f, x, i: (x[i], x[:, i], x[i, i]),
        [normal(3, 5), INDICES],
        (None, 0),
    ),
    Case(
        "writing",
        lambda fg, f, x, i, s: (
            x.scatter(0, i, s),
            x.scatter_add(0, i, s),
            x.scatter(0, i, 1.0),
            x.index_add(0, fg.tensor([0, 1]), s),
        ),
        [normal(4, 3), INDICES, normal(4, 2)],
    ),
    Case("in place", _in_place, [normal(4, 3, 5)]),
    Case("nested", lambda fg, f, x: fg.func.vmap(lambda r: r * x.sum() + r.sum())(x), [normal(4, 3, 5)]),
    Case(
        "nested, both",
        lambda fg, f, x, y: fg.func.vmap(
            lambda r, q: (r @ q, r.sum() * q, fg.func.grad(lambda s: (s * q).sin().sum())(r)),
            in_dims=(0, None),
        )(x, y),
        [normal(4, 3, 5), normal(4, 5)],
    ),
    Case("grad", lambda fg, f, x: fg.func.grad(lambda s: s.sin().sum())(x), [normal(4, 3, 5)]),
    Case(
        "grad of weights",
        lambda fg, f, w, x: fg.func.grad(lambda v: f.linear(x, v).sin().sum())(w),
        [normal(3, 5), normal(4, 5)],
        (None, 0),
    ),
    Case("hessian", lambda fg, f, x: fg.func.hessian(lambda s: (s.sin() * s.sum()).sum())(x), [normal(4, 5)]),
    Case(
        "jacobians",
        lambda fg, f, x: (
            fg.func.jacrev(lambda s: s.sin() * s.sum())(x),
            fg.func.jacfwd(lambda s: s.sin() * s.sum())(x),
        ),
        [normal(4, 5)],
    ),
    Case(
        "jvp",
        lambda fg, f, x, y: fg.func.jvp(lambda s: s.sin() * s.sum(), (x,), (y,)),
        [normal(4, 5), normal(4, 5)],
    ),
    Case(
        "vectors of vjp",
        lambda fg, f, x, y: fg.func.vjp(lambda s: s.sin() * s.sum(), x)[1](y),
        [normal(5), normal(4, 5)],
        (None, 0),
    ),
    Case(
        "vectors of jvp",
        lambda fg, f, x, y: fg.func.jvp(lambda s: s.sin() * s.sum(), (x,), (y,)),
        [normal(5), normal(4, 5)],
        (None, 0),
    ),
    Case(
        "made beside",
        lambda fg, f, x: (
            fg.zeros_like(x),
            x.new_zeros(3) + x[:, 0],
            fg.eye(3) @ x,
            f.one_hot(fg.tensor([0, 1]), 3) * x[0, 0],
        ),
        [normal(4, 3, 5)],
    ),
    Case(
        "composed",
        lambda fg, f, x: (
            f.gelu(x),
            f.interpolate(x[None], size=7),
            fg.outer(x[0], x[1]),
            fg.einsum("ij,kj->ik", x, x),
            fg.roll(x, 1, 0),
            x.repeat(2, 1),
            fg.norm(x),
            f.normalize(x),
        ),
        [normal(4, 3, 5)],
    ),
]

for _dim, _sizes in ((0, (4, 3, 5)), (1, (3, 4, 5)), (-1, (3, 5, 4))):
    _x = normal(*_sizes)
    CASES += [
        Case(
            f"reductions {_dim}",
            lambda fg, f, x: (
                x.sum(),
                x.sum(0),
                x.mean(-1, keepdim=True),
                x.amax(1),
                x.max(),
                x.min(),
                x.var(),
                x.std(0),
                (x > 0).any(),
                (x > 0).all(1),
            ),
            [_x],
            _dim,
        ),
        Case(
            f"rows {_dim}",
            lambda fg, f, x: (
                x.softmax(0),
                x.log_softmax(-1),
                x.cumsum(0),
                x.argmax(),
                x.argmax(1),
                x.max(1).values,
                x.min(-1).indices,
                x.prod(0),
                x.prod(),
                x.logsumexp(0),
                x.sort(0).values,
                x.topk(2, -1)[0],
            ),
            [_x],
            _dim,
        ),
        Case(
            f"views {_dim}",
            lambda fg, f, x: (
                x.t(),
                x.transpose(0, -1),
                x.reshape(-1),
                x.reshape(5, 3),
                x[0],
                x[:, 1:4:2],
                x[..., None],
                x[-1, 2],
                x.unsqueeze(-1),
                x.unsqueeze(0).squeeze(),
                x.permute(1, 0),
                x.flip(0),
                x.unbind(0),
                x.split(2, 1),
                x.narrow(1, 1, 2),
                x.diagonal(),
                x.expand(2, 3, 5),
                x.tril(),
                x.movedim(0, 1),
                x.clone(),
                x.double(),
                x.contiguous(),
            ),
            [_x],
            _dim,
        ),
        Case(
            f"no dimensions {_dim}",
            lambda fg, f, x: fg.func.vmap(
                fg.func.vmap(
                    lambda v: (
                        v.sum(),
                        v.max(),
                        v.softmax(0),
                        v.cumsum(0),
                        v.prod(),
                        v.argmax(),
                        v.reshape(1),
                        v.squeeze(),
                        v.logsumexp(0),
                    )
                )
            )(x),
            [_x],
            _dim,
        ),
    ]

for _own in ((0, None, None), (None, 0, None), (0, 0, 0), (None, None, 0), (0, None, 0), (None, 0, 0)):
    _front = [(4,) if d == 0 else () for d in _own]
    _images, _weights, _bias = normal(*_front[0], 2, 6, 8, 8), _front[1], normal(*_front[2], 10)
    CASES += [
        Case(
            f"conv2d {_own}",
            lambda fg, f, x, w, b: f.conv2d(x, w, b, stride=2, padding=1),
            [_images, normal(*_weights, 10, 6, 3, 3), _bias],
            _own,
        ),
        Case(
            f"conv2d in groups {_own}",
            lambda fg, f, x, w, b: f.conv2d(x, w, b, groups=2),
            [_images, normal(*_weights, 10, 3, 3, 3), _bias],
            _own,
        ),
        Case(
            f"conv_transpose2d {_own}",
            lambda fg, f, x, w, b: f.conv_transpose2d(x, w, b, groups=2),
            [_images, normal(*_weights, 6, 5, 3, 3), _bias],
            _own,
        ),
        Case(
            f"conv3d {_own}",
            lambda fg, f, x, w, b: f.conv3d(x, w, b, stride=(1, 2, 1), padding=1),
            [_images.reshape(*_front[0], 2, 6, 4, 4, 4), normal(*_weights, 10, 6, 3, 2, 3) / 8, _bias],
            _own,
        ),
        Case(
            f"conv_transpose3d {_own}",
            lambda fg, f, x, w, b: f.conv_transpose3d(x, w, b, groups=2),
            [_images.reshape(*_front[0], 2, 6, 4, 4, 4), normal(*_weights, 6, 5, 2, 3, 3) / 8, _bias],
            _own,
        ),
        Case(
            f"conv1d {_own}",
            lambda fg, f, x, w, b: f.conv1d(x, w, b),
            [_images[..., 0], normal(*_weights, 10, 6, 3), _bias],
            _own,
        ),
    ]
    if _own[0] == 0:
        CASES += [
            Case(
                f"layer_norm {_own}",
                lambda fg, f, x, w, b: (
                    f.layer_norm(x, (3,), w, b),
                    f.layer_norm(x, (3,)),
                    f.rms_norm(x, (3,), w),
                ),
                [normal(4, 2, 3), normal(*_front[1], 3), normal(*_front[2], 3)],
                _own,
            ),
            Case(
                f"group_norm {_own}",
                lambda fg, f, x, w, b: (f.group_norm(x, 2, w, b), f.group_norm(x, 2)),
                [normal(4, 2, 6, 3), normal(*_front[1], 6), normal(*_front[2], 6)],
                _own,
            ),
            Case(
                f"batch_norm {_own}",
                lambda fg, f, x, w, b: (f.batch_norm(x, None, None, w, b, True), f.batch_norm(x, w, b * b)),
                [normal(4, 2, 6, 3), normal(*_front[1], 6), normal(*_front[2], 6)],
                _own,
            ),
        ]
