# SPDX-License-Identifier: Apache-2.0
"""docs/design/threats.md: every program and unit is on it, every limit has tests, and the tests exist."""

import re
import tomllib
from pathlib import Path

import pytest

from weir.cli import COMMANDS

REPO = Path(__file__).resolve().parents[2]
PAGE = REPO / "docs" / "design" / "threats.md"
TEXT = PAGE.read_text(encoding="utf-8")
MOST_WORDS = 1200
TEST = re.compile(r"`([\w./-]+\.(?:py|rs))::(\w+)`")


def rows(heading: str) -> list[list[str]]:
    """Cells of the table below a heading, without its head."""
    section = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def cargo_binaries() -> set[str]:
    """Programs of all Rust workspaces but the fuzz targets."""
    found = set()
    for path in REPO.rglob("Cargo.toml"):
        folder = path.parent
        if folder.name == "fuzz" or "build" in folder.relative_to(REPO).parts:
            continue
        manifest = tomllib.loads(path.read_text(encoding="utf-8"))
        named = [binary["name"] for binary in manifest.get("bin", [])]
        found.update(named or [source.stem for source in folder.glob("src/bin/*.rs")])
        if "package" in manifest and not named and (folder / "src" / "main.rs").is_file():
            found.add(manifest["package"]["name"])
    return found


def icn_commands() -> set[str]:
    source = (REPO / "icn" / "src" / "commands" / "mod.rs").read_text(encoding="utf-8")
    variants = source.partition("enum Command {")[2].partition("}")[0]
    return {f"weir-icn {name.lower()}" for name in re.findall(r"^\s+([A-Z]\w+)\(", variants, re.MULTILINE)}


def programs() -> dict[str, set[str]]:
    """Programs by what builds them."""
    scripts = [tomllib.loads(path.read_text())["project"].get("scripts", {})
               for path in (REPO / "controller" / "pyproject.toml", REPO / "mininet" / "pyproject.toml")]  # fmt: skip
    return {
        "Cargo workspaces": cargo_binaries() - {"weir-icn"},
        "xdp/tools": {path.parent.name for path in REPO.glob("xdp/tools/*/main.c")},
        "mininet/tools": {path.stem for path in REPO.glob("mininet/tools/weir-*.c")},
        "weir-icn": icn_commands(),
        "weir": {f"weir {command}" for command in COMMANDS},
        "Python": {name for script in scripts for name in script} - {"weir"},
    }


def test_the_page_is_short():
    assert sum(any(c.isalnum() for c in word) for word in TEXT.split()) <= MOST_WORDS


@pytest.mark.parametrize("builder", programs())
def test_each_program_has_a_row(builder):
    wanted = programs()[builder]
    named = {name for row in rows("Programs") for name in re.findall(r"`([^`]+)`", row[0])}
    assert wanted
    assert wanted - named == set()


def test_each_row_of_programs_is_whole():
    """Program, sockets, reads, writes, privilege; a program that is not installed has its kind in place of sockets."""
    assert {len(row) for row in rows("Programs")} == {5}
    assert [row[0] for row in rows("Programs") if not (row[1] and row[4])] == []


def test_each_unit_is_named():
    units = {path.name for path in REPO.glob("**/systemd/*.service") if "build" not in path.parts}
    assert units
    assert {unit for unit in units if f"`{unit}`" not in TEXT} == set()


def test_each_limit_has_tests():
    limits = rows("Limits")
    assert limits
    assert [row for row in limits if not TEST.search(row[-1])] == []


def test_the_tests_exist():
    missing = []
    for path, name in TEST.findall(TEXT):
        source = REPO / path
        kind = "def" if path.endswith(".py") else "fn"
        if not source.is_file() or not re.search(rf"\b{kind} {name}\b\s*[(<]", source.read_text(encoding="utf-8")):
            missing.append(f"{path}::{name}")
    assert missing == []
