# SPDX-License-Identifier: Apache-2.0
"""The Python packages: no import circle, arrows between packages that point one way, files and functions of a size."""

import ast
from collections.abc import Container, Iterator
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"weirlab": ROOT / "mininet", "weir": ROOT / "controller", "weirtrain": ROOT / "train"}
MOST_LINES_OF_A_FILE = 700
MOST_LINES_OF_A_FUNCTION = 120
# Imports allowed to each package of the lab, from the lowest on: only packages that stand before it, and its own
# modules.
LAYERS = ("paths", "lab", "metrics", "scenario", "store", "report", "topologies", "run", "evaluation", "bench", "cli")


def modules(package: str) -> dict[str, Path]:
    """Dotted name to file of every module of a package."""
    found = {}
    for path in sorted((PACKAGES[package] / package).rglob("*.py")):
        parts = path.relative_to(PACKAGES[package]).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(tree: ast.AST, package: str, known: Container[str], inside_functions: bool) -> Iterator[str]:
    """Our modules that a module imports; with `inside_functions` also those that only its functions do. `package` is
    what its relative imports start from."""
    nodes = ast.walk(tree) if inside_functions else at_import(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            origin = resolve_name("." * node.level + (node.module or ""), package)
            for alias in node.names:
                name = f"{origin}.{alias.name}"
                if name in known:
                    yield name
                elif origin in known:
                    yield origin


def at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that are executed when a module is imported."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from at_import(node)


def arrows(package: str, inside_functions: bool) -> dict[str, set[str]]:
    known = modules(package)
    found = {}
    for name, path in known.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inside = name if path.name == "__init__.py" else name.rpartition(".")[0]
        found[name] = set(imported(tree, inside, known, inside_functions)) - {name}
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_are_seen(package):
    graph = arrows(package, inside_functions=True)
    assert sum(1 for targets in graph.values() if targets) > len(graph) / 2


@pytest.mark.parametrize(
    ("statement", "target"),
    [
        ("from . import b", "p.q.b"),
        ("from .b import x", "p.q.b"),
        ("from .. import c", "p.c"),
        ("from p.c import x", "p.c"),
        ("import p.c", "p.c"),
    ],
)
def test_an_import_in_any_form_is_seen(statement, target):
    known = {"p", "p.c", "p.q", "p.q.a", "p.q.b"}
    assert set(imported(ast.parse(statement), "p.q", known, inside_functions=True)) == {target}


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """One circle for each arrow back that a walk through the graph finds."""
    found: list[list[str]] = []
    done: set[str] = set()

    def walk(name: str, way: list[str]) -> None:
        if name in way:
            found.append([*way[way.index(name) :], name])
        elif name not in done:
            for other in sorted(graph[name]):
                walk(other, [*way, name])
            done.add(name)

    for name in sorted(graph):
        walk(name, [])
    return found


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("inside_functions", [False, True], ids=["at import", "anywhere"])
def test_no_module_imports_itself_by_way_of_others(package, inside_functions):
    assert [" -> ".join(circle) for circle in circles(arrows(package, inside_functions))] == []


def test_a_circle_is_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [["b", "c", "b"]]


def test_the_labs_packages_import_only_those_below_them():
    wrong = []
    for name, others in arrows("weirlab", True).items():
        if name == "weirlab":
            continue
        layer = name.split(".")[1]
        assert layer in LAYERS, f"{name}: a new package; give it its place in LAYERS"
        wrong += [f"{name} -> {o}" for o in others if LAYERS.index(o.split(".")[1]) > LAYERS.index(layer)]
    assert wrong == []


def test_topologies_do_not_know_each_other():
    folders = {name.split(".")[2] for name in modules("weirlab") if name.startswith("weirlab.topologies.")}
    folders -= {"base", "cache_key", "registry", "watching"}
    for name, others in arrows("weirlab", True).items():
        own = name.split(".")[2] if name.startswith("weirlab.topologies.") else None
        if own in folders:
            theirs = [o for o in others if o.startswith("weirlab.topologies.")]
            assert [o for o in theirs if o.split(".")[2] not in (own, "base", "cache_key", "watching")] == []


def test_a_topology_is_named_in_its_own_folder_alone():
    for name, path in modules("weirlab").items():
        if name.endswith(".name"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            # A dumbbell's links have names, too: `access` is one of them.
            if isinstance(node, ast.Constant) and node.value == "dumbbell":
                raise AssertionError(f"{path}:{node.lineno}: names a topology")
            if isinstance(node, ast.Constant) and node.value == "access":
                assert ".topologies.dumbbell." in name, f"{path}:{node.lineno}: names a topology"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_file_and_no_function_is_too_long(package):
    too_long = []
    for path in modules(package).values():
        text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
        if (lines := text.count("\n")) > MOST_LINES_OF_A_FILE:
            too_long.append(f"{name}: {lines} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MOST_LINES_OF_A_FUNCTION:
                    too_long.append(f"{name}:{node.lineno}: {node.name}: {length} lines")
    assert too_long == []


def test_each_test_file_has_a_name_of_its_own():
    """pytest imports two of one name as one module, and says so only in a run of both."""
    places: dict[str, list[Path]] = {}
    for folder in ("controller", "mininet", "p4", "quic-client", "icn", "train", "tests", "xdp"):
        for path in sorted((ROOT / folder).rglob("test_*.py")):
            places.setdefault(path.name, []).append(path)
    assert len(places) > 100
    assert [paths for paths in places.values() if len(paths) > 1] == []
