"""Draws the pictures of a page anew, by the programs on the page that save them."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

PROGRAM = re.compile(r"^```python\n(import fastgrad.*?)^```", re.DOTALL | re.MULTILINE)


def draw(app: Sphinx) -> None:
    """Run each program that saves a picture which its page shows."""
    folder = Path(app.srcdir, "pictures")
    for page in sorted(Path(app.srcdir).glob("*.md")):
        text = page.read_text(encoding="utf-8")
        shown = set(re.findall(r"\(pictures/(\w+\.svg)\)", text))
        for program in PROGRAM.findall(text) if shown else ():
            if shown & set(re.findall(r'\.save\("(\w+\.svg)"\)', program)):
                with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
                    exec(compile(program, str(page), "exec"), {"__name__": "__main__"})


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx asks for this."""
    app.connect("builder-inited", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
