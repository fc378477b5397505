# SPDX-License-Identifier: Apache-2.0
"""C sources stay readable: no long file, no long function, and `#include` only downwards in xdp/.

clang-format (a linter of its own) puts the braces of a function alone on their lines, in the first column; that is how
its length is told here, with no parser to install.
"""

import re
import subprocess
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
FILE_LINES_MAX, FUNCTION_LINES_MAX = 700, 120

# xdp/: what stands further up never includes what stands further down. The law's header is below all of it.
LAYERS = (
    ("include/weir/",),
    ("lib/error.", "lib/output.", "lib/printable.", "lib/clock.", "lib/version."),
    ("lib/gains/", "lib/net/"),
    ("lib/pins/",),
    ("lib/hooks/", "lib/signal/"),
    ("lib/undo.",),
    ("lib/remains.",),
    ("tools/weir-xdp/request.",),
    ("tools/weir-xdp/values.", "tools/weir-xdp/objects.", "tools/weir-xdp/directions."),
    ("tools/weir-xdp/options.", "tools/weir-xdp/view/"),
    ("tools/weir-xdp/interface.", "tools/weir-xdp/leaves."),
    ("tools/weir-xdp/laws.",),
    ("tools/weir-xdp/plan.",),
    ("tools/weir-xdp/ensure.",),
    ("tools/weir-xdp/daemon/",),
    ("tools/weir-xdp/commands/",),
    ("tools/weir-xdp/main.c",),
)
ROOTS = ("include", "lib", "tools")


def sources() -> list[Path]:
    """Every C source and header that is no test."""
    done = subprocess.run(
        ["git", "-c", f"safe.directory={REPO}", "-C", REPO, "ls-files", "-z", "*.c", "*.h"],
        capture_output=True,
        text=True,
        check=True,
    )
    names = [name for name in done.stdout.split("\0") if name and "tests" not in Path(name).parts]
    return [path for path in (REPO / name for name in names) if path.exists()]


def functions(text: str) -> Iterator[tuple[str, int]]:
    """The name of each function and its lines, from its first brace to its last."""
    lines = text.splitlines()
    start = None
    for number, line in enumerate(lines):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            yield name_before(lines, start), number - start + 1
            start = None


def name_before(lines: list[str], brace: int) -> str:
    """The function whose signature ends in the line before its brace: it begins where a line is not indented."""
    first = next(number for number in range(brace - 1, -1, -1) if re.match(r"\w", lines[number]))
    return re.search(r"(\w+)\(", " ".join(lines[first:brace])).group(1)


def test_the_measure_finds_functions():
    text = (
        "int a;\n\nstatic int one(void)\n{\n\tif (a) {\n\t}\n}\n\nstruct s {\n\tint b;\n};\n\n"
        "void two(int a,\n\t int b)\n{\n}\n"
    )
    assert list(functions(text)) == [("one", 4), ("two", 2)]
    found = {name for path in sources() for name, _ in functions(path.read_text())}
    assert {"weir_update", "weir_egress", "weir_hook_attach", "command_attach", "main"} <= found


def test_no_c_file_is_long():
    lengths = {path.relative_to(REPO).as_posix(): len(path.read_text().splitlines()) for path in sources()}
    assert lengths, "no C source found: is this a git checkout?"
    assert {name: lines for name, lines in lengths.items() if lines > FILE_LINES_MAX} == {}


def test_no_c_function_is_long():
    long = {
        f"{path.relative_to(REPO)}: {name}"
        for path in sources()
        for name, lines in functions(path.read_text())
        if lines > FUNCTION_LINES_MAX
    }
    assert long == set()


def layer(name: str) -> int | None:
    """Of a file of xdp/, by the longest prefix that fits; None where it has none (programs of their own)."""
    fits = [
        (len(prefix), place) for place, prefixes in enumerate(LAYERS) for prefix in prefixes if name.startswith(prefix)
    ]
    return max(fits)[1] if fits else None


def included(path: Path) -> Iterator[str]:
    """Files of xdp/ that a file includes, relative to xdp/."""
    for name in re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE):
        for folder in (path.parent, *(REPO / "xdp" / root for root in ROOTS)):
            if (folder / name).exists():
                yield (folder / name).relative_to(REPO / "xdp").as_posix()
                break


@pytest.mark.parametrize("folder", ["include", "lib", "tools"])
def test_includes_of_xdp_go_down(folder):
    paths = [path for path in sources() if path.is_relative_to(REPO / "xdp" / folder)]
    assert paths
    for path in paths:
        name = path.relative_to(REPO / "xdp").as_posix()
        assert layer(name) is not None or name.startswith("tools/weir-sojourn/"), f"{name}: in no layer of {__file__}"
        for other in included(path):
            assert layer(name) is None or layer(other) <= layer(name), f"{name} includes {other}, which is above it"


def test_hooks_and_signals_do_not_include_each_other():
    """They are on one layer, and beside each other."""
    for one, other in (("hooks", "signal"), ("signal", "hooks"), ("gains", "net"), ("net", "gains")):
        for path in (REPO / "xdp" / "lib" / one).rglob("*.[ch]"):
            assert not [name for name in included(path) if name.startswith(f"lib/{other}/")], path.name


def exported(text: str) -> set[str]:
    """Functions of a file that others can call."""
    heads = re.findall(r"^(\w[^;{}#=]*?)\b(\w+)\([^;{}]*\)\n\{", text, re.MULTILINE)
    return {name for before, name in heads if "static" not in before.split()}


def cycle(texts: dict[str, str]) -> list[str]:
    """Files that call each other in a circle; empty if none do."""
    home = {name: path for path, text in texts.items() for name in exported(text)}
    calls = {
        path: {home[name] for name in re.findall(r"\b(\w+)\(", text) if home.get(name, path) != path}
        for path, text in texts.items()
    }
    try:
        TopologicalSorter(calls).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_a_cycle_is_found():
    one, other = "int one(void)\n{\n\treturn other(1);\n}\n", "int other(int a)\n{\n\treturn one();\n}\n"
    assert set(cycle({"a.c": one, "b.c": other})) == {"a.c", "b.c"}
    assert cycle({"a.c": one, "b.c": other.replace("one()", "a")}) == []


def test_no_files_of_xdp_call_each_other_in_a_circle():
    folders = [REPO / "xdp" / name for name in ("lib", "tools/weir-xdp")]
    texts = {
        path.relative_to(REPO).as_posix(): path.read_text()
        for path in sources()
        if path.suffix == ".c" and any(path.is_relative_to(folder) for folder in folders)
    }
    assert "weir_attachment_open" in exported(texts["xdp/lib/pins/attachment.c"])
    assert cycle(texts) == []
