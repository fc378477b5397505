# SPDX-License-Identifier: Apache-2.0
"""The Python packages: files and functions of a size, names in one place. Imports are checked by lint-imports
(pyproject.toml)."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"weirlab": ROOT / "mininet", "weir": ROOT / "controller", "weirtrain": ROOT / "train"}
PACKAGES["weir_quic"] = ROOT / "quic-client" / "python"
MOST_LINES_OF_A_FILE = 700
MOST_LINES_OF_A_FUNCTION = 120


def modules(package: str) -> dict[str, Path]:
    """Dotted name to file of every module of a package."""
    found = {}
    for path in sorted((PACKAGES[package] / package).rglob("*.py")):
        parts = path.relative_to(PACKAGES[package]).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


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
