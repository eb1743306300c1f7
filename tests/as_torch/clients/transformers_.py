"""A small GPT-2: its loss and gradients, a few steps, and what it generates."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import GPT2Config, GPT2LMHeadModel

sizes = {"vocab_size": 50, "n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 2}
tokens = {"bos_token_id": 0, "eos_token_id": 49, "pad_token_id": 49}
model = GPT2LMHeadModel(GPT2Config(**sizes, **tokens, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
with torch.no_grad():
    for k, p in enumerate(model.parameters()):
        p.copy_(((torch.arange(float(p.numel())) * 0.37 + k).sin() * 0.3).view_as(p))
ids = torch.arange(20).view(2, 10)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(3):
    optimizer.zero_grad()
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    print(round(loss.item(), 4), [round(p.grad.norm().item(), 3) for p in model.parameters()])
    optimizer.step()
model.eval()
print(model.generate(ids, max_new_tokens=8, do_sample=False).tolist())
print(model.generate(ids, max_new_tokens=8, num_beams=2, do_sample=False).tolist())
