"""Make the pictures of the gallery (docs/gallery.md) anew: ``python tools/gallery.py`` runs their programs once.

It needs the extra `examples` and some minutes. Names of pictures choose: ``python tools/gallery.py grad_cam``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
PROGRAMS = {
    "mnist_cnn": ["mnist.py", "--model", "cnn"],
    "mnist_lstm": ["mnist.py", "--model", "lstm"],
    "grad_cam": ["grad_cam.py"],
    "char_gpt": ["char_gpt.py"],
    "fused_step": ["fused_step.py"],
}
"""The name of each picture, and the program that draws it."""


def main(names: list[str]) -> int:
    """Run the programs of the pictures named, or of all."""
    unknown = sorted(set(names) - set(PROGRAMS))
    if unknown:
        print(f"there is no picture {', '.join(unknown)}; there are {', '.join(PROGRAMS)}", file=sys.stderr)
        return 2
    PICTURES.mkdir(exist_ok=True)
    for name in names or PROGRAMS:
        command = [*PROGRAMS[name], "--out", str(PICTURES / f"{name}.png")]
        subprocess.run([sys.executable, *command], cwd=ROOT / "examples", check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
