"""A decoder that learns, and an encoder."""

import warnings

import torch

warnings.simplefilter("ignore")
from x_transformers import AutoregressiveWrapper, Decoder, Encoder, TransformerWrapper  # noqa: E402


def filled(model):
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(((torch.arange(p.numel(), dtype=torch.float32) + i) * 1.7).sin().view_as(p) * 0.1)
    return model


layers = Decoder(dim=16, depth=2, heads=2, attn_dim_head=8, rotary_pos_emb=True)
model = filled(AutoregressiveWrapper(TransformerWrapper(num_tokens=16, max_seq_len=12, attn_layers=layers)))
tokens = torch.arange(24).view(2, 12) % 16
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for _ in range(3):
    optimizer.zero_grad()
    loss = model(tokens)
    loss.backward()
    optimizer.step()
    print(round(loss.item(), 4))
layers = Encoder(dim=16, depth=1, heads=2, attn_dim_head=8, use_rmsnorm=True, ff_glu=True, attn_flash=True)
print(filled(TransformerWrapper(num_tokens=16, max_seq_len=12, attn_layers=layers))(tokens)[0, 0, :4])
