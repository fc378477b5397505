# SPDX-License-Identifier: Apache-2.0
"""Copies of the sources that keys of runs are made of, for tests that change them."""

import shutil
from pathlib import Path

from weirlab.run import sources
from weirlab.topologies.registry import TOPOLOGIES


class CopiedSources:
    """The files of all parts, drivers and figures, copied once. `put_back` undoes what a test did to them: a copy of
    its own would have to be read again, file by file."""

    def __init__(self, clone: Path, folder: Path):
        self.clone, self.folder = clone, folder
        lines = [sources.LIST, *(f"@{name}" for name in sources.parts(clone))]
        lines += [
            f"import {module}" for topology in TOPOLOGIES.values() for module in (topology.driver, topology.figures)
        ]
        for path in sources.files(lines):
            target = folder / path.relative_to(clone)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        self._stamps = self._now()

    def put_back(self) -> None:
        now = self._now()
        for path in now.keys() - self._stamps.keys():
            path.unlink()
        for path, stamp in self._stamps.items():
            if now.get(path) != stamp:
                shutil.copy(self.clone / path.relative_to(self.folder), path)
        self._stamps = self._now()

    def _now(self) -> dict[Path, tuple[int, int]]:
        """When each file was written, and its size in bytes."""
        stats = {path: path.stat() for path in self.folder.rglob("*") if path.is_file()}
        return {path: (stat.st_mtime_ns, stat.st_size) for path, stat in stats.items()}
