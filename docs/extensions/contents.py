"""The contents of the first page: a line with a ``*`` stands for the pages of such names that no other line has."""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx


def expanded(text: str, pages: set[str]) -> str:
    """The text of the first page with names of pages in place of patterns.

    So a page that comes along is found without being entered, and one that is not there is not missed.
    """
    lines = text.splitlines()
    named = set(lines) | {"index"}
    found: list[str] = []
    for line in lines:
        if line.endswith("*") and " " not in line:
            matching = sorted(fnmatch.filter(pages - named, line))
            named.update(matching)
            found += matching
        else:
            found.append(line)
    return "\n".join(found) + "\n"


def expand(app: Sphinx, docname: str, source: list[str]) -> None:
    """Sphinx calls this with each page that it reads."""
    if docname == "index":
        source[0] = expanded(source[0], {path.stem for path in Path(app.srcdir).glob("*.md")})


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx asks for this."""
    app.connect("source-read", expand)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
