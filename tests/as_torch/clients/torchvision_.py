"""Models and transforms of images; ops that are compiled for PyTorch need the real one."""

import torch
from torch import nn

try:
    import torchvision  # noqa: F401
except RuntimeError:  # of a wheel whose compiled ops do not fit PyTorch's build: it asks for the names of two
    ops = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        ops.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
from torchvision import models, transforms
from torchvision.transforms import functional, v2


def filled(model):
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(((torch.arange(p.numel(), dtype=torch.float32) + i) * 1.7).sin().view_as(p) * 0.1)
    return model


images = (torch.arange(2 * 3 * 64 * 64, dtype=torch.float32) * 0.37).sin().view(2, 3, 64, 64)
for build in (models.resnet18, models.mobilenet_v3_small, models.squeezenet1_1):
    net = filled(build(weights=None, num_classes=5)).eval()
    loss = nn.functional.cross_entropy(net(images), torch.tensor([1, 3]))
    loss.backward()
    norm = sum(p.grad.double().square().sum() for p in net.parameters()).sqrt()
    print(build.__name__, f"{loss.item():.4f} {norm.item():.3e}", sum(p.numel() for p in net.parameters()))
prepare = transforms.Compose(
    [
        transforms.Resize(32),
        transforms.CenterCrop(24),
        transforms.Normalize((0.5, 0.4, 0.3), (0.2, 0.2, 0.2)),
        transforms.Grayscale(),
    ]
)
print(prepare(images).shape, prepare(images)[0, 0, 0, :4])
print(functional.rotate(images, 30.0).mean(), functional.gaussian_blur(images, [3, 3])[0, 0, 0, :3])
print(functional.adjust_contrast(images.abs(), 1.5).mean(), functional.hflip(images)[0, 0, 0, :3])
print(v2.functional.resize(images, [16, 16], antialias=True)[0, 0, 0, :3])
