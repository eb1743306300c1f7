"""Models and weights by their addresses: repositories with a ``hubconf.py``, files of weights that are kept.

The folder is PyTorch's (``$TORCH_HOME/hub``), so that what one has downloaded the other finds.
"""

from __future__ import annotations

import builtins
import contextlib
import hashlib
import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlparse
from urllib.request import Request, urlopen

from fastgrad import serialization
from fastgrad.functions.arguments import need_type
from fastgrad.module_names import getattr_of as _getattr_of

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]

ENV_GITHUB_TOKEN, ENV_TORCH_HOME, ENV_XDG_CACHE_HOME = "GITHUB_TOKEN", "TORCH_HOME", "XDG_CACHE_HOME"
DEFAULT_CACHE_DIR, MODULE_HUBCONF, VAR_DEPENDENCY = "~/.cache", "hubconf.py", "dependencies"
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
READ_DATA_CHUNK = 128 * 1024
_TRUSTED = "trusted_list"
_OWNERS = ("facebookresearch", "facebookincubator", "pytorch", "fairinternal")
"""Whose repositories nobody is asked about."""
_PAGES = 100
"""Pages of branches or tags that are read at most."""
_folder: str | None = None


class _Repository(NamedTuple):
    """A repository on GitHub, and a branch, tag or commit of it."""

    owner: str
    name: str
    ref: str

    @property
    def folder(self) -> str:
        return "_".join((self.owner, self.name, self.ref.replace("/", "_")))


def get_dir() -> str:
    """The folder for what is downloaded: what `set_dir` was given, else ``$TORCH_HOME/hub``.

    Without ``TORCH_HOME`` that is ``$XDG_CACHE_HOME/torch/hub``, or ``~/.cache/torch/hub``.

    Examples
    --------
    >>> import fastgrad as fg
    >>> fg.hub.get_dir().endswith("hub")
    True
    """
    if _folder is not None:
        return _folder
    return os.path.join(_get_torch_home(), "hub")


def _get_torch_home() -> str:
    """The folder around it; libraries ask for it by this name."""
    cache = os.path.join(os.getenv(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR), "torch")
    return os.path.expanduser(os.getenv(ENV_TORCH_HOME, cache))


def set_dir(d: str | os.PathLike[str]) -> None:
    """Choose the folder for what is downloaded.

    Parameters
    ----------
    d : str or PathLike

    Examples
    --------
    >>> import fastgrad as fg
    >>> before = fg.hub.get_dir()
    >>> fg.hub.set_dir("/tmp/models")
    >>> fg.hub.get_dir()
    '/tmp/models'
    >>> fg.hub.set_dir(before)
    """
    global _folder
    _folder = os.path.expanduser(os.fspath(d))


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Download a file; it is there as a whole or not at all.

    Parameters
    ----------
    url : str
    dst : str
        The path to write.
    hash_prefix : str, optional
        With what the SHA-256 of the file must begin.
    progress : bool
        Whether to say on stderr how much has come.

    Raises
    ------
    RuntimeError
        If the file has another hash.

    Examples
    --------
    >>> import pathlib, tempfile, fastgrad as fg
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("weights")
    >>> fg.hub.download_url_to_file((folder / "a.txt").as_uri(), str(folder / "b.txt"), progress=False)
    >>> (folder / "b.txt").read_text()
    'weights'
    """
    need_type("download_url_to_file", url, str, "url")
    dst = os.path.expanduser(dst)
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(
        dir=os.path.dirname(dst) or ".", suffix=".partial", delete=False
    ) as file:
        try:
            for chunk in _chunks(url, progress):
                file.write(chunk)
                digest.update(chunk)
            file.close()
            if hash_prefix and not digest.hexdigest().startswith(hash_prefix):
                found = digest.hexdigest()[: len(hash_prefix)]
                raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')
            shutil.move(file.name, dst)
        finally:
            file.close()
            Path(file.name).unlink(missing_ok=True)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """Load what an address has, which is downloaded unless the folder has it already.

    Parameters
    ----------
    url : str
    model_dir : str, optional
        The folder to keep it in: by default ``checkpoints`` in that of `get_dir`.
    map_location, weights_only
        See `fastgrad.load`.
    progress : bool
        Whether to say on stderr how much has come.
    check_hash : bool
        Whether the file's name says with what its SHA-256 begins: ``name-<digits>.pth``.
    file_name : str, optional
        The name to keep it by: by default the last part of the address.

    Raises
    ------
    RuntimeError
        If the file has another hash than its name says.

    Examples
    --------
    >>> import pathlib, tempfile, fastgrad as fg
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> fg.save({"weight": fg.ones(2)}, folder / "there.pt")
    >>> fg.hub.load_state_dict_from_url((folder / "there.pt").as_uri(), str(folder / "here"), progress=False)
    {'weight': tensor([1., 1.])}
    """
    need_type("load_state_dict_from_url", url, str, "url")
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = file_name if file_name is not None else os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        sys.stderr.write(f'Downloading: "{url}" to {path}\n')
        match = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, match[1] if match else None, progress)
    return _loaded(path, map_location, weights_only)


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: bool | str | None = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a function of a repository's ``hubconf.py``, which mostly makes a model.

    The code of the repository runs: only load from those that you trust.

    Parameters
    ----------
    repo_or_dir : str
        ``owner/name`` or ``owner/name:branch`` on GitHub, or the folder if `source` is ``"local"``.
    model : str
        The function's name.
    *args, **kwargs
        What it is called with.
    source : {"github", "local"}
    trust_repo : bool or "check"
        Whether the repository is trusted, from now on; "check" asks, unless it was said before.
    force_reload : bool
        Whether to download it again.
    verbose : bool
        Whether to say that it is there already.
    skip_validation : bool
        Whether not to ask GitHub if the branch belongs to the repository, and not to a copy of it.

    Raises
    ------
    FileNotFoundError
        If there is no ``hubconf.py``.
    RuntimeError
        If it has no such function, or needs packages that are not there.
    ValueError
        If `source` is something else, or the repository's name is malformed.

    Examples
    --------
    >>> import pathlib, tempfile, fastgrad as fg
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "hubconf.py").write_text("double = lambda x: 2 * x")
    >>> fg.hub.load(str(folder), "double", fg.ones(2), source="local")
    tensor([2., 2.])
    """
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        repo_or_dir = _fetched(repo_or_dir, "load", force_reload, trust_repo, verbose, skip_validation)
    with _hubconf(repo_or_dir) as module:
        return _entry(module, model)(*args, **kwargs)


def list(  # noqa: A001 - PyTorch's name
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: bool | str | None = "check",
    verbose: bool = True,
) -> builtins.list[str]:
    """The names of the functions of a repository's ``hubconf.py``.

    Parameters
    ----------
    github : str
        ``owner/name`` or ``owner/name:branch``.
    force_reload, skip_validation, trust_repo, verbose
        See `load`.

    Examples
    --------
    >>> fastgrad.hub.list("pytorch/vision")  # doctest: +SKIP
    ['alexnet', 'convnext_base', ...]
    """
    folder = _fetched(github, "list", force_reload, trust_repo, verbose, skip_validation)
    with _hubconf(folder) as module:
        return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(  # noqa: A001 - PyTorch's name
    github: str,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: bool | str | None = "check",
) -> str | None:
    """The docstring of a function of a repository's ``hubconf.py``.

    Parameters
    ----------
    github : str
        ``owner/name`` or ``owner/name:branch``.
    model : str
        The function's name.
    force_reload, skip_validation, trust_repo
        See `load`.

    Examples
    --------
    >>> print(fastgrad.hub.help("pytorch/vision", "resnet18"))  # doctest: +SKIP
    """
    folder = _fetched(github, "help", force_reload, trust_repo, True, skip_validation)
    with _hubconf(folder) as module:
        return _entry(module, model).__doc__  # type: ignore[no-any-return]


def _loaded(path: str, map_location: Any, weights_only: bool) -> Any:
    """What a file holds. Files of old had the one file that counts within a zip archive."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            inside = archive.infolist()
            if len(inside) == 1 and not inside[0].is_dir() and "/" not in inside[0].filename:
                folder = os.path.dirname(path)
                archive.extract(inside[0], folder)
                path = os.path.join(folder, inside[0].filename)
    return serialization.load(path, map_location=map_location, weights_only=weights_only)


def _request(url: str) -> Request:
    headers = {"User-Agent": "torch.hub"}
    token = os.environ.get(ENV_GITHUB_TOKEN)
    if token and urlparse(url).hostname == "api.github.com":  # nobody else gets to know it
        headers["Authorization"] = f"token {token}"
    return Request(url, headers=headers)


def _chunks(url: str, progress: bool) -> Iterator[bytes]:
    """What an address has, piece by piece."""
    with urlopen(_request(url)) as answer:
        length = answer.headers.get("Content-Length")
        got = 0
        while chunk := answer.read(READ_DATA_CHUNK):
            got += len(chunk)
            if progress:
                whole = f" of {int(length):,}" if length else ""
                sys.stderr.write(f"\r{got:,}{whole} bytes")
            yield chunk
        if progress:
            sys.stderr.write("\n")


def _exists(url: str) -> bool:
    try:
        with urlopen(_request(url)):
            return True
    except HTTPError as error:
        if error.code == 404:
            return False
        raise


def _parsed(github: str) -> _Repository:
    """The parts of ``owner/name:ref``; without a ref it is main if there is such a branch, else master."""
    repository, colon, ref = need_type("hub", github, str, "repo_or_dir").partition(":")
    parts = repository.split("/")
    if len(parts) != 2 or not all(re.fullmatch(r"[\w.-]+", part) for part in parts):
        raise ValueError(
            f"hub: expected a repository like 'owner/name' or 'owner/name:branch', but got {github!r}"
        )
    owner, name = parts
    if not colon:
        ref = "main" if _exists(f"https://github.com/{owner}/{name}/tree/main/") else "master"
    if not re.fullmatch(r"[\w./-]+", ref) or ".." in ref:
        raise ValueError(f"hub: {ref!r} is no name of a branch, a tag or a commit")
    return _Repository(owner, name, ref)


def _validate(repository: _Repository) -> None:
    """Refuse a commit that GitHub would give although it belongs to somebody's copy of the repository."""
    base = f"https://api.github.com/repos/{repository.owner}/{repository.name}"
    for kind in ("branches", "tags"):
        for page in range(1, _PAGES + 1):
            with urlopen(_request(f"{base}/{kind}?per_page=100&page={page}")) as answer:
                found = json.loads(answer.read())
            if not found:
                break
            for one in found:
                if one["name"] == repository.ref or one["commit"]["sha"].startswith(repository.ref):
                    return
    raise ValueError(
        f"Cannot find {repository.ref} in https://github.com/{repository.owner}/{repository.name}. If it's a commit "
        "from a forked repo, please call hub.load() with forked repo directly."
    )


def _fetched(
    github: str,
    caller: str,
    force_reload: bool,
    trust: bool | str | None,
    verbose: bool,
    skip_validation: bool,
) -> str:
    """The folder of a repository, downloaded unless it is there."""
    if not isinstance(trust, bool) and trust not in (None, "check"):
        raise ValueError(
            f"hub.{caller}(): expected trust_repo to be True, False or 'check', but got {trust!r}"
        )
    repository = _parsed(github)
    hub = get_dir()
    os.makedirs(hub, exist_ok=True)
    folder = os.path.join(hub, repository.folder)
    _ask_for_trust(repository, folder, trust)
    if os.path.exists(folder) and not force_reload:
        if verbose:
            sys.stderr.write(f"Using cache found in {folder}\n")
        return folder
    if not skip_validation:
        _validate(repository)
    url = f"https://github.com/{repository.owner}/{repository.name}/zipball/{repository.ref}"
    sys.stderr.write(f'Downloading: "{url}" to {folder}.zip\n')
    with tempfile.TemporaryDirectory(dir=hub) as scratch:
        archive = os.path.join(scratch, "archive.zip")
        download_url_to_file(url, archive, progress=False)
        with zipfile.ZipFile(archive) as unpacked:
            inside = unpacked.namelist()[0].split("/")[0]
            unpacked.extractall(scratch)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(os.path.join(scratch, inside), folder)
    return folder


def _ask_for_trust(repository: _Repository, folder: str, trust: bool | str | None) -> None:
    """Note that a repository is trusted, or ask. What is there already was trusted when it came."""
    path = Path(get_dir()) / _TRUSTED
    name = f"{repository.owner}_{repository.name}"
    known = path.exists() and name in path.read_text().split()
    trusted = known or repository.owner in _OWNERS or os.path.exists(folder)
    if trust is False or (trust is not True and not trusted):
        question = (
            f"The repository {repository.owner}/{repository.name} does not belong to the list of trusted repositories "
            "and as such cannot be downloaded. Do you trust this repository and wish to add it to the trusted list "
            "of repositories (y/N)? "
        )
        if input(question).strip().lower() not in ("y", "yes"):
            raise Exception("Untrusted repository.")  # PyTorch's class
        trust = True
    if trust is True and not known:
        with path.open("a") as file:
            file.write(f"{name}\n")


@contextlib.contextmanager
def _hubconf(folder: str) -> Iterator[ModuleType]:
    """The module ``hubconf``, which finds those beside it while it is used."""
    folder = os.path.expanduser(os.fspath(folder))
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location(MODULE_HUBCONF, os.path.join(folder, MODULE_HUBCONF))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def _entry(module: ModuleType, name: Any) -> Any:
    """A function of ``hubconf``, whose packages are all there."""
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    needed = getattr(module, VAR_DEPENDENCY, None) or ()
    missing = [package for package in needed if importlib.util.find_spec(package) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    found = getattr(module, name, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return found


__getattr__ = _getattr_of(__name__)
