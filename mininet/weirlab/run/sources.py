# SPDX-License-Identifier: Apache-2.0
"""Sources of the project's parts, as setup/sources.txt lists them: files, and a digest of their content.

Imports are computed, those inside of functions too; modules that a program chooses by name have lines of their own.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from weirlab import paths

LIST = "setup/sources.txt"
FOLDERS = {"weir": "controller", "weirlab": "mininet"}  # of the packages whose imports are followed


def parts(clone: Path) -> dict[str, tuple[str, ...]]:
    """Lines of each part in the list of a clone."""
    text = (clone / LIST).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and line[0] != "#"]
    heads = [at for at, line in enumerate(lines) if line[0] == "["]
    return {lines[at][1:-1]: tuple(lines[at + 1 : end]) for at, end in zip(heads, [*heads[1:], None], strict=True)}


def files(lines: Iterable[str]) -> set[Path]:
    """Files of lines in the list's format, or of whole paths. A pattern without a file adds nothing."""
    given = list(lines)
    without = {path for line in given if line[0] == "!" for path in _matching(line[1:])}
    found = {path for line in given if line[0] not in "!@" and " " not in line for path in _matching(line)} - without
    found |= _imported({line.removeprefix("import ") for line in given if line.startswith("import ")}, without)
    return found.union(*(files(parts(paths.clone())[line[1:]]) for line in given if line[0] == "@")) - without


def digest(lines: Iterable[str]) -> str:
    """SHA-256 over the names and contents of these files."""
    total = hashlib.sha256()
    for path in sorted(files(lines)):
        name = path.relative_to(paths.clone()) if path.is_relative_to(paths.clone()) else path
        total.update(f"{name.as_posix()} {_content(path)[0]}\n".encode())
    return total.hexdigest()


def _matching(pattern: str) -> Iterator[Path]:
    found = [Path(pattern)] if pattern.startswith("/") else paths.clone().glob(pattern)
    return (path for path in found if path.is_file())


def _imported(modules: set[str], without: set[Path]) -> set[Path]:
    """Files of modules and of all that they import, except through the files of `without`."""
    found: dict[str, Path] = {}
    left = set(modules)
    while left:
        name = left.pop()
        package, _, _ = name.rpartition(".")
        path = _file_of(name)
        if path is None or path in without or name in found:
            continue
        found[name] = path
        left |= {package, *_content(path)[1]} - found.keys()
    return set(found.values())


def _file_of(module: str) -> Path | None:
    folder = FOLDERS.get(module.partition(".")[0])
    if folder is None:
        return None
    place = paths.clone() / folder / module.replace(".", "/")
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def _content(path: Path) -> tuple[str, frozenset[str]]:
    stat = path.stat()
    return _read(path, stat.st_mtime_ns, stat.st_size)


def _tree(content: bytes) -> ast.Module | None:
    """None for a program of other people's in another version of Python; then each byte counts."""
    try:
        return ast.parse(content)
    except (SyntaxError, ValueError, RecursionError):
        return None


@lru_cache(maxsize=4096)
def _read(path: Path, mtime_ns: int, size: int) -> tuple[str, frozenset[str]]:
    """Digest of a file, and the modules that it may import. Comments and docstrings of Python don't count: they may
    change under finished runs."""
    content = path.read_bytes()
    names: frozenset[str] = frozenset()
    tree = _tree(content) if path.suffix == ".py" else None
    if tree is not None:
        folder = next((f for f in FOLDERS.values() if path.is_relative_to(paths.clone() / f)), None)
        if folder is not None:
            package = path.relative_to(paths.clone() / folder).parent.parts
            names = frozenset(_names(tree, package))
        content = ast.dump(_without_docstrings(tree)).encode()
    return hashlib.sha256(content).hexdigest(), names


def _names(node: ast.AST, package: tuple[str, ...]) -> Iterator[str]:
    """Names that the imports below a node give, a module or a name in one; none of those for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            above = package[: len(package) + 1 - child.level] if child.level else ()
            module = ".".join([*above, *filter(None, [child.module])])
            yield from (module, *(f"{module}.{alias.name}" for alias in child.names))
        elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            for other in child.orelse:
                yield from _names(other, package)
        else:
            yield from _names(child, package)


def _without_docstrings(tree: ast.AST) -> ast.AST:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return tree
