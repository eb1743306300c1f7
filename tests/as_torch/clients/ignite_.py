"""A training loop of engines, with metrics and handlers."""

import torch
from ignite.engine import Engine, Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import EarlyStopping
from ignite.metrics import Accuracy, Loss, RunningAverage
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

X = torch.sin(torch.arange(160, dtype=torch.float32) * 1.3).view(40, 4)
y = (X.sum(1) > 0).long()
loader = DataLoader(TensorDataset(X, y), batch_size=10)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
with torch.no_grad():
    for i, p in enumerate(model.parameters()):
        p.copy_((torch.arange(p.numel(), dtype=torch.float32) + i).sin().view_as(p) * 0.5)
criterion = nn.CrossEntropyLoss()
trainer = create_supervised_trainer(model, torch.optim.Adam(model.parameters(), lr=1e-2), criterion)
evaluator = create_supervised_evaluator(model, metrics={"accuracy": Accuracy(), "nll": Loss(criterion)})
RunningAverage(output_transform=lambda x: x).attach(trainer, "loss")


@trainer.on(Events.EPOCH_COMPLETED)
def log(engine):
    evaluator.run(loader)
    metrics = evaluator.state.metrics
    print(
        f"{engine.state.epoch} {engine.state.metrics['loss']:.4f} {metrics['accuracy']:.3f} {metrics['nll']:.4f}"
    )


evaluator.add_event_handler(
    Events.COMPLETED,
    EarlyStopping(patience=2, score_function=lambda e: -e.state.metrics["nll"], trainer=trainer),
)
trainer.run(loader, max_epochs=3)
print(Engine(lambda engine, batch: batch).run(range(3)).iteration)
