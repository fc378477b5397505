# SPDX-License-Identifier: Apache-2.0
"""The Rust crates: no circle among the modules of a folder, and arrows that point one way where a crate has layers.

The paths `crate::a::b` and `super::a` in a file are its arrows. A folder with a `mod.rs` is one module to those beside
it; a `mod.rs` and the files beside it may use each other, for they are one module in several files.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A crate is added here when it has no circle; then it keeps to that.
CRATES = (
    *("p4/switch/weir-p4", "p4/switch/weir-switch"),
    *("quic-client/core", "quic-client/endpoint", "quic-client/library", "icn", "quic-client/io"),
)
# Modules of a folder from the lowest on: each may use only those that stand before it.
LAYERS = {
    "p4/switch/weir-p4/src": (
        "stack",
        "source",
        "value",
        "p4info",
        "syntax",
        "bytecode",
        "check",
        "exec",
        "bmv2",
        "v1model",
        "stf",
        "package",
        "p4c",
        "fuzz",
    ),
    "p4/switch/weir-p4/src/bytecode": (
        *("operators", "ir", "marks", "code", "source_map", "program", "keys", "call_depth", "cost", "widths"),
        *("accesses", "copies", "lower"),
    ),
    "p4/switch/weir-p4/src/bmv2": (
        *("tree", "layout", "expressions", "graph", "actions", "parsers", "pipelines", "info", "description"),
    ),
    "p4/switch/weir-p4/src/check": (
        *("limits", "types", "notes", "values", "context", "prelude"),
        *("resolve", "expressions", "calls", "statements", "externs"),
        *("def_use", "target_limits", "blocks", "declarations", "p4info"),
    ),
    "quic-client/library/src": (
        *("target", "local_paths", "flow", "error", "tickets", "notifier", "pipe", "connection_state", "streamed"),
        *("config", "driver", "request", "client", "tokio"),
    ),
    "p4/switch/weir-p4/src/exec": (
        *("change", "hash", "lpm", "meter", "packet", "memory", "table", "registers", "state", "trace", "interpreter"),
    ),
}


def code(path: Path) -> str:
    """A file's text without comments, strings and the tests at its end."""
    text = re.sub(r'(?m)//.*$|"(?:\\.|[^"\\])*"', "", path.read_text(encoding="utf-8"))
    return text.split("#[cfg(test)]\nmod tests", 1)[0]


def paths_used(text: str) -> set[str]:
    """Paths that begin at the crate or at a parent, with the groups in braces written out one level deep."""
    found = set()
    for head, group in re.findall(r"\b((?:crate|super)(?:::\w+)*)::(?:\{([^;]*?)\}(?=;))?", text):
        found.add(head)
        found |= {f"{head}::{name}" for name in re.findall(r"(?:^|[{,])\s*(\w+)", group)}
    found |= set(re.findall(r"\b(?:crate|super)(?:::\w+)+", text))
    return found


def module_of(path: Path, source: Path) -> tuple[str, ...]:
    """The module path of a file: `("bytecode", "lower")` for bytecode/lower/mod.rs."""
    parts = path.relative_to(source).with_suffix("").parts
    return parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts


def resolved(used: str, module: tuple[str, ...]) -> tuple[str, ...]:
    """The module path that a path in a file of `module` means."""
    parts = used.split("::")
    if parts[0] == "crate":
        return tuple(parts[1:])
    ups = sum(part == "super" for part in parts)
    return (*module[: len(module) - ups], *parts[ups:])


def arrows(source: Path) -> dict[Path, dict[str, set[str]]]:
    """For each folder of a crate: module -> the modules in the folder that its files use."""
    found: dict[Path, dict[str, set[str]]] = {}
    files = [path for path in sorted(source.rglob("*.rs")) if path.relative_to(source).parts[0] != "bin"]
    for path in files:
        module, text = module_of(path, source), code(path)
        for depth in range(len(module)):
            folder = found.setdefault(source.joinpath(*module[:depth]), {})
            folder.setdefault(module[depth], set())
    for path in files:
        module, text = module_of(path, source), code(path)
        if path.stem == "tests":
            continue
        for used in paths_used(text):
            target = resolved(used, module)
            common = 0
            while common < min(len(module), len(target)) and module[common] == target[common]:
                common += 1
            if common < len(module) and common < len(target):
                neighbours = found[source.joinpath(*module[:common])]
                if target[common] in neighbours:
                    neighbours[module[common]].add(target[common])
    return found


def circle(graph: dict[str, set[str]]) -> list[str]:
    """One circle of a graph, or nothing."""
    done: set[str] = set()

    def walk(name: str, way: list[str]) -> list[str]:
        if name in way:
            return [*way[way.index(name) :], name]
        if name not in done:
            for other in sorted(graph[name]):
                if there := walk(other, [*way, name]):
                    return there
            done.add(name)
        return []

    return next((there for name in sorted(graph) if (there := walk(name, []))), [])


@pytest.mark.parametrize("crate", CRATES)
def test_modules_of_a_folder_do_not_use_each_other_in_a_circle(crate):
    found = {str(folder.relative_to(ROOT)): circle(graph) for folder, graph in arrows(ROOT / crate / "src").items()}
    assert {folder: " -> ".join(there) for folder, there in found.items() if there} == {}


@pytest.mark.parametrize("folder", LAYERS)
def test_layers_use_only_those_below_them(folder):
    crate = next(crate for crate in CRATES if folder.startswith(crate))
    layers, graph = LAYERS[folder], arrows(ROOT / crate / "src")[ROOT / folder]
    assert set(graph) == set(layers), "give each module its place in LAYERS"
    assert [f"{a} -> {b}" for a in graph for b in sorted(graph[a]) if layers.index(b) > layers.index(a)] == []


def test_arrows_are_found(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "a.rs").write_text("use crate::b::{self, X};\n// crate::c\n")
    (tmp_path / "b" / "mod.rs").write_text("mod inner;\nfn f() { super::c::g() }\n")
    (tmp_path / "b" / "inner.rs").write_text("use super::*;\nuse crate::{a::Y, c};\n")
    (tmp_path / "c.rs").write_text("")
    assert arrows(tmp_path)[tmp_path] == {"a": {"b"}, "b": {"a", "c"}, "c": set()}
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
