# SPDX-License-Identifier: Apache-2.0
"""By what a run and its figures are known in the cache: the content of all that they depend on.

A run's key is made of its spec, the lab's kernel and the sources of the parts of that run, so that a change of the
tuner asks for the tuner's runs again and leaves the kernel's queue disciplines alone. The run's topology names its
parts (weirlab/topologies/cache_key.py). Sources rather than programs are hashed: `./run` builds what is not up to date
before it comes here, and a build is not the same bytes twice. Comments and docstrings of Python don't count.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from weirlab import paths
from weirlab.lab.kernels import ExactLab
from weirlab.topologies.cache_key import Keeping
from weirlab.topologies.registry import topology_of

METRICS_LIBRARIES = ("numpy", "scipy")


def digest(patterns: Iterable[str]) -> str:
    """SHA-256 over the names and contents of the files that match, from the repository's top or by a whole path. A
    pattern without a file adds nothing, and one that begins with "!" takes its files away."""
    given = list(patterns)
    found = {path for pattern in given if pattern[0] != "!" for path in _matching(pattern) if path.is_file()}
    found -= {path for pattern in given if pattern[0] == "!" for path in _matching(pattern[1:])}
    total = hashlib.sha256()
    for path in sorted(found):
        stat = path.stat()
        content = _content_digest(path, stat.st_mtime_ns, stat.st_size)
        name = path.relative_to(paths.clone()) if path.is_relative_to(paths.clone()) else path
        total.update(f"{name.as_posix()} {content}\n".encode())
    return total.hexdigest()


def _matching(pattern: str) -> Iterable[Path]:
    return [Path(pattern)] if pattern.startswith("/") else paths.clone().glob(pattern)


@lru_cache(maxsize=4096)
def _content_digest(path: Path, mtime_ns: int, size: int) -> str:
    """Of a Python file, the digest of what it does: words and layout may change under finished runs."""
    content = path.read_bytes()
    if path.suffix == ".py":
        content = ast.dump(_without_docstrings(ast.parse(content))).encode()
    return hashlib.sha256(content).hexdigest()


def _without_docstrings(tree: ast.AST) -> ast.AST:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return tree


@cache
def lab_kernel() -> str:
    """The lab kernel's version and configuration, by its folder's name. Raises LabError if there is none."""
    return ExactLab().folder.name


class Keys:
    """Keys by the sources as they are now: make a new one to read again."""

    def __init__(self) -> None:
        self._digests: dict[tuple[str, ...], str] = {}

    def _digest(self, patterns: tuple[str, ...]) -> str:
        if patterns not in self._digests:
            self._digests[patterns] = digest(patterns)
        return self._digests[patterns]

    def facts(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """All that a run's samples depend on."""
        keeping = keeping_of(spec)
        return {
            "spec": {key: value for key, value in spec.items() if key not in keeping.not_the_runs},
            "kernel": lab_kernel(),
            "sources": {name: self._digest(patterns) for name, patterns in keeping.sources(spec).items()},
        }

    def run(self, spec: Mapping[str, Any]) -> str:
        """The key of a run's samples; `spec` has the seed in it."""
        return _sha256(self.facts(spec))

    def metrics(self, spec: Mapping[str, Any]) -> str:
        """The key of what is computed from those samples."""
        libraries = {name: version(name) for name in METRICS_LIBRARIES}
        sources = self._digest(keeping_of(spec).figures)
        return _sha256({"spec": spec, "sources": sources, "libraries": libraries})

    def further(self, spec: Mapping[str, Any], patterns: tuple[str, ...]) -> str:
        """The key of what these sources compute from them, too."""
        return _sha256({"metrics": self.metrics(spec), "sources": self._digest(patterns)})


def keeping_of(spec: Mapping[str, Any]) -> Keeping:
    """Rules for keeping runs with that spec."""
    return topology_of(spec["topology"]).keeping


def _sha256(document: Any) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
