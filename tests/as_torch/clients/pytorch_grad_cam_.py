"""Where a network looks: class activation maps."""

import torch
from torch import nn

try:
    import torchvision  # noqa: F401
except RuntimeError:  # of a wheel whose compiled ops do not fit PyTorch's build: it asks for the names of two
    ops = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        ops.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
from pytorch_grad_cam import EigenCAM, GradCAM, GradCAMPlusPlus, HiResCAM, LayerCAM, ScoreCAM, XGradCAM
from pytorch_grad_cam.utils.image import show_cam_on_image
from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

model = nn.Sequential(
    nn.Conv2d(3, 4, 3),
    nn.ReLU(),
    nn.Conv2d(4, 4, 3),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(4, 3),
)
with torch.no_grad():
    for i, p in enumerate(model.parameters()):
        p.copy_(((torch.arange(p.numel(), dtype=torch.float32) + i) * 1.7).sin().view_as(p) * 0.3)
image = (torch.arange(3 * 16 * 16, dtype=torch.float32) * 0.37).sin().view(1, 3, 16, 16)
for kind in (GradCAM, GradCAMPlusPlus, XGradCAM, LayerCAM, HiResCAM, ScoreCAM, EigenCAM):
    with kind(model=model.eval(), target_layers=[model[2]]) as cam:
        gray = cam(input_tensor=image, targets=[ClassifierOutputTarget(0)])
    print(kind.__name__, gray.shape, gray[0, 4, :4].round(3), gray.mean().round(3))
picture = image[0].permute(1, 2, 0).abs().numpy()
print(show_cam_on_image(picture, gray[0], use_rgb=True).shape)
