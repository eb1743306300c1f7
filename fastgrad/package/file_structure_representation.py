"""The files of a package as a tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fastgrad.package.glob_group import GlobGroup, GlobPattern


class Directory:
    """A directory, or a file, of a package; `PackageImporter.file_structure` gives the root.

    Printed, it is drawn as a tree: directories first, each kind by name.

    Attributes
    ----------
    name : str
    is_dir : bool
    children : dict of str to Directory

    Examples
    --------
    >>> import io
    >>> from fastgrad.package import PackageExporter, PackageImporter
    >>> file = io.BytesIO()
    >>> with PackageExporter(file) as exporter:
    ...     exporter.save_text("notes", "today.txt", "sunny")
    >>> print(PackageImporter(file).file_structure(include="notes/**"))
    ─── <binary>
        └── notes
            └── today.txt
    <BLANKLINE>
    """

    def __init__(self, name: str, is_dir: bool) -> None:
        self.name = name
        self.is_dir = is_dir
        self.children: dict[str, Directory] = {}

    def has_file(self, filename: str) -> bool:
        """Whether a file or directory is there; names of directories stand before it, with slashes."""
        found: Directory | None = self
        for part in filename.split("/"):
            found = found.children.get(part) if found else None
        return found is not None

    def _add(self, path: str) -> None:
        *directories, file = path.split("/")
        here = self
        for name in directories:
            here = here.children.setdefault(name, Directory(name, True))
        here.children[file] = Directory(file, False)

    def _lines(self) -> Iterator[str]:
        inside = sorted(self.children.values(), key=lambda child: (not child.is_dir, child.name))
        for child in inside:
            last = child is inside[-1]
            yield ("└── " if last else "├── ") + child.name
            for line in child._lines():
                yield ("    " if last else "│   ") + line

    def __str__(self) -> str:
        return f"─── {self.name}\n" + "".join(f"    {line}\n" for line in self._lines())


def directory_of(name: str, files: Iterable[str], include: GlobPattern, exclude: GlobPattern) -> Directory:
    """The tree of those files that match."""
    group = GlobGroup(include, exclude=exclude, separator="/")
    root = Directory(name, True)
    for file in files:
        if group.matches(file):
            root._add(file)
    return root
