"""What the wheel gets besides the sources: the pages of the documentation, if ``bash .ci/docs`` has built them, and
object code, compiled for the machine that builds it.

``pip install`` builds a wheel on the machine that it installs to, so a first program finds the runtime and the kernels
that it needs compiled. They are looked up by everything that they depend on, the processor included: elsewhere they are
left alone, and what is needed is compiled at first use. ``FASTGRAD_BUILD=pure`` leaves them out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles what `fastgrad.demo.rehearsal` asks for, and puts it into the wheel."""

    _scratch = ""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add pages and compiled code to what the wheel holds; an editable installation has none."""
        if version == "editable":
            return
        site = Path(self.root, "build", "site")
        if Path(site, "index.html").is_file():
            build_data["force_include"][str(site)] = "fastgrad/site"
        if os.environ.get("FASTGRAD_BUILD") == "pure":
            return
        self._scratch = tempfile.mkdtemp(prefix="fastgrad-build-")
        cache = Path(self._scratch, "cache")
        # The build's own packages are on this process's path, which no child would have by itself.
        path = os.pathsep.join([self.root, *filter(None, sys.path)])
        environment = {
            **os.environ, "FASTGRAD_CACHE": str(cache), "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        for name in ("FASTGRAD_DEBUG", "FASTGRAD_NUM_THREADS"):
            environment.pop(name, None)
        self.app.display_info("compiling the runtime and the kernels of first programs (about a minute)")
        command = [sys.executable, "-m", "fastgrad.demo.rehearsal"]
        done = subprocess.run(command, cwd=self._scratch, env=environment, check=False)
        if done.returncode:
            self.app.display_warning(
                f"compiling ended with {done.returncode}; the wheel is built without compiled code, which "
                "fastgrad then compiles when it is first used"
            )
            return
        for folder in filter(Path.is_dir, cache.iterdir()):  # beside them lies what compiling anew would use
            build_data["force_include"][str(folder)] = f"fastgrad/compiled/{folder.name}"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled: the wheel has it."""
        if self._scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)
