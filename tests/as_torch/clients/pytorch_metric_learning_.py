"""Losses and miners of embeddings."""

import torch
from pytorch_metric_learning import losses, miners

embeddings = (torch.arange(32, dtype=torch.float32) * 0.37).sin().view(8, 4).requires_grad_()
labels = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])
for kind in (
    "TripletMarginLoss",
    "NTXentLoss",
    "ContrastiveLoss",
    "MultiSimilarityLoss",
    "SupConLoss",
    "CircleLoss",
):
    loss = getattr(losses, kind)()(embeddings, labels)
    (grad,) = torch.autograd.grad(loss, embeddings)
    print(kind, f"{loss.item():.4f} {grad.norm().item():.4f}")
print([len(found) for found in miners.MultiSimilarityMiner()(embeddings, labels)])
