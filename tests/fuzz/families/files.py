"""Files of weights that are cut, flipped, filled with zeros, spliced, or put together wrongly with checksums that fit."""

from __future__ import annotations

import random

CONTENTS = (
    "{'w': fg.rand(2, 3), 'n': 3}", "nn.Linear(3, 3).state_dict()", "fg.ones(2, 3).t()", "fg.ones(0, 3)",
    "[fg.ones(2, dtype=fg.int64), fg.ones(2) > 0, 'text', b'bytes', None, (1.5, 2)]", "nn.Parameter(fg.ones(3))",
    "{'a': fg.ones(6)[1:4], 'b': fg.ones(6).view(2, 3)[:, ::2]}", "fg.ones(1).expand(1000, 1000)",
    "fg.optim.Adam([fg.ones(2, requires_grad=True)]).state_dict()", "fg.Size((2, 3))", "fg.float32", "{}",
)  # fmt: skip
TENSORS = (
    "{'w': fg.rand(2, 3), 'n': fg.ones(3, dtype=fg.int64)}",
    "{}",
    "{'e': fg.ones(0, 3), 'b': fg.ones(2) > 0}",
)

CHANGES = (
    "{d}[:{k} % (len({d}) + 1)]", "{d}[{k} % (len({d}) + 1):]", "{d}[:-{s}]", "{d} + {d}", "{d} + bytes({s})", "b''",
    "bytes(len({d}))", "bytes(b ^ (i == {k} % len({d})) << {bit} for i, b in enumerate({d}))",
    "bytes(b ^ (i == {k} % len({d})) << {bit} for i, b in enumerate({d}))",
    "bytes(0 if i // 16 == {k} % max(1, len({d}) // 16) else b for i, b in enumerate({d}))",
    "{d}[:{k} % len({d})] + {d}[{j} % len({d}):]", "bytes(255 if i % 97 == {s} else b for i, b in enumerate({d}))",
    "{d}.replace(b'{old}', b'{new}')",
)  # fmt: skip
REPLACED = (
    ("K\\x02", "K\\xff"), ("K\\x03", "J\\xff\\xff\\xff\\x7f"), ("F32", "F64"), ("F32", "BF16"), ("[2,3]", "[9,3]"),
    ("FloatStorage", "IntStorage__"), ("fastgrad", "builtins"), ("K\\x01", "K\\x00"), ("q\\x00", "q\\x01"), ("cpu", "gpu"),
    ("K\\x06", "\\x8a\\x08\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x7f"), ("K\\x02K\\x03\\x86", "K\\x02]\\x86"), ("(", "}}"),
    ("[0,24]", "[0,99]"), ("[0,24]", "[24,0]"), ("[2,3]", "[-2,-3]"), ("[2,3]", "[18446744073709551615,3]"), ("N", "K\\x05"),
)  # fmt: skip
PARTS = ("data.pkl", "data.pkl", "data.pkl", "version", "byteorder", "data/0", ".format_version")


def changed(rng: random.Random, name: str) -> str:
    """An expression for damaged data."""
    old, new = rng.choice(REPLACED)
    fields = {
        "k": rng.randrange(10**6),
        "j": rng.randrange(10**6),
        "s": rng.randrange(1, 64),
        "bit": rng.randrange(8),
    }
    return rng.choice(CHANGES).format(d=name, old=old, new=new, **fields)


def draw(rng: random.Random) -> list[str]:
    tensors = rng.random() < 0.25
    steps = [
        f"data = saved_tensors({rng.choice(TENSORS)})" if tensors else f"data = saved({rng.choice(CONTENTS)})"
    ]
    options = rng.choice(
        ("", "", ", weights_only=True", ", map_location='cpu'", ", map_location=lambda s, where: s")
    )
    for _ in range(rng.randint(1, 6)):
        expression = changed(rng, "data")
        if not tensors and rng.random() < 0.6:
            expression = f"rezipped(data, '{rng.choice(PARTS)}', lambda part: {changed(rng, 'part')})"
        steps.append(f"damaged = {expression}")
        steps.append(f"load(damaged, '{'.safetensors' if tensors else '.pt'}'{options})")
    return steps
