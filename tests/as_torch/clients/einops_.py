"""Rearranging images and layers of them."""

import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import Rearrange, Reduce

images = torch.arange(2 * 4 * 6 * 3, dtype=torch.float32).view(2, 4, 6, 3)
print(
    rearrange(images, "b h w c -> b (h w) c").shape,
    rearrange(images, "b (h p) w c -> p b h w c", p=2).sum().item(),
)
print(reduce(images, "b (h h2) (w w2) c -> b h w c", "mean", h2=2, w2=3).flatten()[:4])
print(repeat(images[0, 0], "w c -> (w k) c", k=2).shape)
print(einsum(images, images, "b h w c, b h w d -> b c d").flatten()[:3])
packed, sizes = pack([torch.ones(2, 3), torch.zeros(2, 2, 2)], "b *")
print(packed.shape, [part.shape for part in unpack(packed, sizes, "b *")])
net = torch.nn.Sequential(
    Rearrange("b h w c -> b c h w"), Reduce("b c h w -> b c", "max"), torch.nn.Linear(3, 1, bias=False)
)
torch.nn.init.ones_(net[2].weight)
out = net(images)
out.sum().backward()
print(out.flatten(), net[2].weight.grad)
