"""The addresses of the project that a package names, where its repository has one.

A build on GitHub knows its repository from the environment, a clone from its remote `origin`, if that is on one of
the hosts that are known here; a path, a machine of somebody's own and whatever else says nothing, and then a package
names none. What is built of a source distribution names those of the source distribution, which hatchling takes from
there. So a package that is built in a job of another project's does not name that project.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# What stands between the address of a repository and what is shown of it: its issues, a file, a folder.
_GITHUB = ("/issues", "/blob/main/", "/tree/main/")
_LAYOUTS = {
    "github.com": _GITHUB,
    "gitlab.com": ("/-/issues", "/-/blob/main/", "/-/tree/main/"),
    "codeberg.org": ("/issues", "/src/branch/main/", "/src/branch/main/"),
}
_PATH = re.compile(r"[\w.-]+(/[\w.-]+)+")
_HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z]{2,}")
# Of https, of ssh, and of ssh in its short form; who logs in is left out.
_REMOTES = (
    re.compile(r"https://(?:[^@/]*@)?(?P<host>[^/:@]+)/(?P<path>.+)"),
    re.compile(r"ssh://(?:[^@/]*@)?(?P<host>[^/:@]+)(?::\d+)?/(?P<path>.+)"),
    re.compile(r"(?:[^@/:]*@)(?P<host>[^/:@]+):(?P<path>[^/].*)"),
)


def of_github(environment: Mapping[str, str], root: str) -> dict[str, str]:
    """The addresses for a build on GitHub of what the job is for, by its environment; none elsewhere."""
    place = environment.get("GITHUB_WORKSPACE")
    if not place or Path(place).resolve() != Path(root).resolve():
        return {}
    server = re.fullmatch(r"https://([^/]+)/?", environment.get("GITHUB_SERVER_URL", ""))
    path = environment.get("GITHUB_REPOSITORY", "")
    if server is None or not _HOST.fullmatch(server[1].lower()) or not _PATH.fullmatch(path):
        return {}
    return _addresses(f"https://{server[1].lower()}/{path}", _GITHUB)


def of_remote(remote: str) -> dict[str, str]:
    """The addresses for a remote of a clone; none if it is not on a host that is known."""
    for form in _REMOTES:
        found = form.fullmatch(remote.strip())
        if found is None:
            continue
        host, path = found["host"].lower(), found["path"].rstrip("/").removesuffix(".git")
        if host in _LAYOUTS and _PATH.fullmatch(path):
            return _addresses(f"https://{host}/{path}", _LAYOUTS[host])
    return {}


def _addresses(repository: str, layout: tuple[str, str, str]) -> dict[str, str]:
    issues, file, folder = layout
    return {
        "Homepage": repository,
        "Source": repository,
        "Issues": f"{repository}{issues}",
        "Changelog": f"{repository}{file}CHANGELOG.md",
        "Documentation": f"{repository}{folder}docs",
    }


def remote_of(root: str) -> str:
    """The remote `origin` of a clone, as it was given; empty if the folder is none, or has none."""
    if not Path(root, ".git").exists():  # of a folder within another clone, that one would answer
        return ""
    command = ["git", "-C", root, "config", "--get", "remote.origin.url"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=10).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):  # there is no git
        return ""


class CustomMetadataHook(MetadataHookInterface):
    """Gives the project its addresses."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `urls`, unless it is for a source distribution to say what they are."""
        if not Path(self.root, "PKG-INFO").is_file():
            metadata["urls"] = of_github(os.environ, self.root) or of_remote(remote_of(self.root))
