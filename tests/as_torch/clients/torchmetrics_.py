"""Metrics, as classes over batches and as functions."""

import torch
import torchmetrics
import torchmetrics.functional as tmf
from torchmetrics.classification import MulticlassAccuracy, MulticlassConfusionMatrix, MulticlassF1Score

logits = torch.sin(torch.arange(60, dtype=torch.float32) * 2.1).view(20, 3)
target = torch.arange(20) % 3
metrics = torchmetrics.MetricCollection(
    [
        MulticlassAccuracy(num_classes=3),
        MulticlassF1Score(num_classes=3),
        MulticlassConfusionMatrix(num_classes=3),
    ]
)
for rows in (slice(0, 8), slice(8, 20)):
    metrics.update(logits[rows], target[rows])
for name, value in metrics.compute().items():
    print(name, value)
x, y = logits[:, 0], logits[:, 1] * 0.5
print(tmf.mean_squared_error(x, y), tmf.r2_score(x, x + 0.1 * y), tmf.pearson_corrcoef(x, y))
print(tmf.auroc(logits.softmax(-1), target, task="multiclass", num_classes=3))
mean = torchmetrics.MeanMetric()
mean.update(torch.tensor([1.0, 2.0]))
mean.update(5.0)
print(mean.compute())
