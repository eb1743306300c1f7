"""Transformers of images."""

import torch

try:
    import torchvision  # noqa: F401
except RuntimeError:  # of a wheel whose compiled ops do not fit PyTorch's build: it asks for the names of two
    ops = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        ops.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
from vit_pytorch import SimpleViT, ViT
from vit_pytorch.deepvit import DeepViT

images = (torch.arange(2 * 3 * 32 * 32, dtype=torch.float32) * 0.37).sin().view(2, 3, 32, 32)
for kind in (ViT, SimpleViT, DeepViT):
    model = kind(image_size=32, patch_size=8, num_classes=5, dim=16, depth=2, heads=2, mlp_dim=32)
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(((torch.arange(p.numel(), dtype=torch.float32) + i) * 1.7).sin().view_as(p) * 0.1)
    out = model(images)
    out.square().sum().backward()
    norm = sum(p.grad.double().square().sum() for p in model.parameters()).sqrt()
    print(kind.__name__, out[0], f"{norm.item():.3e}")
