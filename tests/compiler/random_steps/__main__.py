"""``python -m tests.compiler.random_steps --seeds 3000 --start 0``: many programs; those that differ are printed."""

from __future__ import annotations

import argparse
import sys

import fastgrad as fg
from tests.compiler.random_steps.draw import draw
from tests.compiler.random_steps.run import check

FUSED_EVERY = 100


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compiler.random_steps", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3000, help="how many programs")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--fused-every", type=int, default=FUSED_EVERY, help="one of so many runs with fused kernels; 0: none"
    )
    options = parser.parse_args()
    fg.set_num_threads(1)
    replayed = failed = 0
    for seed in range(options.start, options.start + options.seeds):
        program = draw(seed)
        fused = bool(options.fused_every) and seed % options.fused_every == options.fused_every - 1
        found, n_replayed = check(program, fused)
        replayed += n_replayed > 0
        if found is not None:
            failed += 1
            print(f"{program}\n{found}\n", flush=True)
    print(
        f"{options.seeds} programs from seed {options.start}: {replayed} replayed, {failed} differ",
        flush=True,
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
