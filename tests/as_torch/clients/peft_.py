"""Low-rank changes of two layers that learn, and are put into the layers."""

import torch
from peft import LoraConfig, get_peft_model
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.second(self.first(x).relu())


config = LoraConfig(target_modules=["first", "second"], r=2, lora_alpha=4, lora_dropout=0.0)
model = get_peft_model(Net(), config)
with torch.no_grad():
    for k, p in enumerate(model.parameters()):
        p.copy_(((torch.arange(float(p.numel())) * 0.37 + k).sin() * 0.3).view_as(p))
model.print_trainable_parameters()
x = torch.arange(12.0).view(3, 4).cos()
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    print(round(loss.item(), 4))
print(model.merge_and_unload()(x))
