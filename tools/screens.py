"""Pictures of built pages, on a desk and on a phone, in light and in dark, and what is wrong with them.

    python tools/screens.py build/site build/screens

It needs Chromium or Chrome, and Pillow. A page is wrong if something is wider than the window, a text hardly stands out
from what is behind it, a script or the console complains, or there is nothing to be seen.
"""

from __future__ import annotations

import io
import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from browser import Browser, Page, find

SIZES = {"desk": (1280, 900), "phone": (390, 844)}
SCHEMES = ("light", "dark")
PAGES = (
    "index",
    "hooks_guide",
    "gallery",
    "distributed",
    "looking",
    "performance",
    "api/fastgrad.autograd.graph",
)
LEAST_CONTRAST = 4.5
"""What the Web Content Accessibility Guidelines want of texts (level AA)."""

LEAST_SEEN = 0.002
"""The part of a picture that is of another colour than most of it."""


@dataclass(frozen=True)
class View:
    """A way to look at a page.

    Parameters
    ----------
    size : str
        One of `SIZES`.
    scheme : str
        One of `SCHEMES`.
    """

    size: str
    scheme: str

    def __str__(self) -> str:
        return f"{self.size}-{self.scheme}"


VIEWS = tuple(itertools.starmap(View, itertools.product(SIZES, SCHEMES)))


@cache
def _script() -> str:
    return Path(__file__).with_name("page_flaws.js").read_text(encoding="utf-8")


def seen(png: bytes) -> float:
    """The part of a picture that is of another colour than most of it."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as picture:
        flat = picture.convert("RGB")
        colours = flat.getcolors(flat.width * flat.height) or []
    return 1 - max(n for n, _ in colours) / (flat.width * flat.height)


def look(browser: Browser, path: Path, view: View) -> tuple[bytes, list[str]]:
    """A picture of a page's beginning, and what is wrong with the page, a line each."""
    width, height = SIZES[view.size]
    page = Page(browser, path.resolve().as_uri(), width, height, view.scheme)
    try:
        picture = page.picture()
        whole = page.evaluate("document.documentElement.scrollHeight")
        page.resize(width, max(height, min(whole, 16000)))  # positions are those in the window
        wrong: list[str] = page.evaluate(f"({_script()})({width}, {LEAST_CONTRAST})")
        wrong += page.complaints()
    finally:
        page.close()
    if (part := seen(picture)) < LEAST_SEEN:
        wrong.append(f"only {part:.2%} of the picture is of another colour than the rest")
    return picture, wrong


def look_at_all(browser: Browser, site: Path, out: Path) -> Iterator[str]:
    """Write pictures of the pages that are worth it; what is wrong with them, a line each."""
    out.mkdir(parents=True, exist_ok=True)
    for name, view in itertools.product(PAGES, VIEWS):
        picture, wrong = look(browser, site / f"{name}.html", view)
        (out / f"{name.replace('/', '-')}-{view}.png").write_bytes(picture)
        yield from (f"{name}, {view}: {text}" for text in wrong)


def main(arguments: list[str]) -> int:
    """Look at the pages in a folder; pictures go to another one."""
    if len(arguments) != 2 or not Path(arguments[0], "index.html").is_file():
        print("usage: screens.py SITE PICTURES, the first one with an index.html", file=sys.stderr)
        return 2
    binary = find()
    if binary is None:
        print("screens.py needs Chromium or Chrome, which was not found", file=sys.stderr)
        return 2
    with Browser(binary) as browser:
        wrong = list(look_at_all(browser, Path(arguments[0]), Path(arguments[1])))
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
