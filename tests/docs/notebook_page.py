"""A page with what notebooks show of tensors, modules, graphs and summaries."""

from __future__ import annotations

import fastgrad as fg
from fastgrad import nn

FRAME = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A notebook</title>
<meta name="viewport" content="width=device-width"><style>
:root { color-scheme: light dark }
body { margin: 8px; font: 14px sans-serif; background: #fff; color: #1b1b1b }
@media (prefers-color-scheme: dark) { body { background: #111; color: #e0e0e0 } }
</style></head><body>%s</body></html>"""


def page() -> str:
    """The page's text; frontends of notebooks have such colours."""
    fg.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(5408, 10))
    net[4].register_forward_hook(lambda *_: None)
    net[0].weight.register_hook(lambda grad: None)
    x = fg.randn(2, 1, 28, 28)
    loss = nn.functional.cross_entropy(net(x), fg.tensor([1, 2]))
    values = fg.randn(40, 30, requires_grad=True)
    values.register_hook(lambda grad: None)
    shown = [values, fg.tensor([1.0, float("nan"), float("inf")]), fg.ones(0), net, loss, loss.grad_fn]
    large = fg.empty(11111, 2222, 1111, 2222, device="meta", requires_grad=True)
    shown.append((large * 2).grad_fn)  # long sizes have to fit into a box
    pieces = [one._repr_html_() for one in (*shown, fg.summary(net, x))]
    return FRAME % "<hr>".join(pieces)
