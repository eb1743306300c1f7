"""Show what a CNN looks at: Grad-CAM, by a forward hook and a full backward hook on its last convolution.

    python examples/mnist.py --model cnn --save cnn.safetensors
    python examples/grad_cam.py --weights cnn.safetensors

Without weights it trains the network first. Method: Selvaraju et al., Grad-CAM, ICCV 2017.
"""

from __future__ import annotations

from typing import Any

import common
import matplotlib.pyplot as plt
import mnist
import models

import fastgrad as fg
import fastgrad.nn.functional as F
from fastgrad import nn
from fastgrad.viz.style import RIGHT, WRONG


class GradCam:
    """Which places of the input speak for a class, seen from one layer.

    Parameters
    ----------
    model : nn.Module
    layer : nn.Module
        A part of it whose output has the shape (N, C, H, W).
    """

    def __init__(self, model: nn.Module, layer: nn.Module) -> None:
        self.model = model
        self.handles = [
            layer.register_forward_hook(self._keep_output),
            layer.register_full_backward_hook(self._keep_gradient),
        ]

    def _keep_output(self, layer: nn.Module, inputs: Any, output: fg.Tensor) -> None:
        self.output = output.detach()

    def _keep_gradient(self, layer: nn.Module, grad_inputs: Any, grad_outputs: tuple[fg.Tensor, ...]) -> None:
        self.gradient = grad_outputs[0]

    def __call__(self, images: fg.Tensor, classes: fg.Tensor) -> fg.Tensor:
        """Maps (N, H, W) with values from 0 to 1 for images (N, 1, 28, 28) and a class each.

        The map is ``relu(sum_c w_c A_c)``, where `A` is the layer's output and ``w_c`` the mean over all places of
        the gradient of the class's logit with regard to ``A_c``.
        """
        logits = self.model(images.clone().requires_grad_())
        logits.gather(1, classes.unsqueeze(1)).sum().backward()
        self.model.zero_grad()
        weights = self.gradient.mean((2, 3), keepdim=True)
        maps = F.relu((weights * self.output).sum(1))
        return maps / maps.amax((1, 2), keepdim=True).clamp(min=1e-8)

    def close(self) -> None:
        """Remove the hooks."""
        for handle in self.handles:
            handle.remove()


def draw(images: fg.Tensor, maps: fg.Tensor, classes: fg.Tensor, labels: fg.Tensor) -> plt.Figure:
    """Each digit beside itself with its map over it."""
    n = len(labels)
    figure, axes = plt.subplots(2, n, figsize=(1.3 * n, 3), layout="constrained")
    for k in range(n):
        for axis in axes[:, k]:
            axis.set_axis_off()
            axis.imshow(images[k, 0].numpy(), cmap="gray_r")
        side = images.shape[-1]
        axes[1, k].imshow(
            maps[k].numpy(),
            cmap="Oranges",
            alpha=0.6,
            extent=(-0.5, side - 0.5, side - 0.5, -0.5),
            interpolation="bilinear",
        )
        right = classes[k].item() == labels[k].item()
        axes[0, k].set_title(f"{classes[k].item()}", color=RIGHT if right else WRONG)
    figure.suptitle("what speaks for the class above each digit")
    return figure


def main(arguments: list[str] | None = None) -> fg.Tensor:
    """Load or train a CNN, draw maps over one test digit of each class. Returns the maps."""
    parser = common.parser(__doc__, "grad_cam.png")
    parser.add_argument(
        "--weights", type=common.Path, help="weights of the CNN as examples/mnist.py saves them"
    )
    parser.add_argument("--epochs", type=int, default=4, help="how long to train without weights (default 4)")
    parser.add_argument("--digits", type=int, default=None, help="use only so many digits")
    given = parser.parse_args(arguments)
    fg.manual_seed(given.seed)
    data = common.digits(given.digits, given.seed)
    model = models.CNN()
    if given.weights:
        model.load_state_dict(fg.load(given.weights))
    else:
        mnist.train(model, data, given.epochs, 64, 3e-3)
    model.eval()
    _, _, images, labels = data
    rows = fg.tensor([labels.tolist().index(k) for k in range(10) if k in labels.tolist()])
    images, labels = images[rows], labels[rows]
    with fg.no_grad():
        classes = model(images).argmax(1)
    cam = GradCam(model, model.features[6])
    maps = cam(images, classes)
    cam.close()
    common.saved(draw(images, maps, classes, labels), given.out)
    return maps


if __name__ == "__main__":
    main()
