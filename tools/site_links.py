"""Check the links within built pages: ``python tools/site_links.py build/site`` lists those that lead nowhere.

A link leads somewhere if its file is there and has the place that the link names. Links to other sites are left alone.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page and the places that links can name.

    Parameters
    ----------
    path : Path
        The file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag links to, and its name."""
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name in ("id", "name") and value:
                self.places.add(value)


def broken(folder: Path) -> list[str]:
    """What is wrong with the links of the pages in a folder, a line each."""
    pages = {path.resolve(): Page(path) for path in sorted(folder.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                found.append(f"{path.relative_to(folder.resolve())}: there is no file {link}")
            elif target in pages and unquote(parts.fragment) not in pages[target].places:
                found.append(f"{path.relative_to(folder.resolve())}: there is no such place: {link}")
    return found


def main(arguments: list[str]) -> int:
    """Check the pages in the folder that is named."""
    if len(arguments) != 1 or not Path(arguments[0], "index.html").is_file():
        print("usage: site_links.py FOLDER, one with an index.html", file=sys.stderr)
        return 2
    wrong = broken(Path(arguments[0]))
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
