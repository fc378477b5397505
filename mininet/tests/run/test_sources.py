# SPDX-License-Identifier: Apache-2.0
"""The list of the parts' sources: complete beside what compilers and Python read, the same for set-up and lab."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from copied_sources import CopiedSources

from weirlab import paths
from weirlab.run import sources
from weirlab.topologies.registry import TOPOLOGIES

REPO = paths.clone()
PARTS = sources.parts(REPO)
INSTALL = (REPO / "setup" / "install.sh").read_text()
STEPS = re.findall(r"before=\$\(sources_now (\w+)\)", INSTALL)


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    return CopiedSources(REPO, tmp_path_factory.mktemp("sources"))


@pytest.fixture
def copy(copied, monkeypatch):
    """A copy of the sources, to be changed at will."""
    monkeypatch.setattr(paths, "clone", lambda: copied.folder)
    yield copied.folder
    copied.put_back()


def of_the_setup(function, step, clone=REPO):
    """Output of a function of the set-up for a step."""
    given = "\n".join(
        re.findall(r"^(?:declare -A PARTS=\(\)|\w+\(\) \{(?:.*\}|[\s\S]*?\n\})|read_parts)$", INSTALL, re.MULTILINE)
    )
    script = f"{given}\ncd {clone} && shopt -s globstar nullglob && {function} {step}"
    done = subprocess.run(
        ["bash", "-euc", script], env={**os.environ, "root": str(clone)}, capture_output=True, check=True
    )
    return done.stdout.decode()


def imported(module):
    """Files of Weir that Python has read after the import of a module."""
    script = (
        "import sys, importlib\nimportlib.import_module(sys.argv[1])\n"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.split('.')[0] in ('weirlab', 'weir') and m.__file__))"
    )
    argv, env = [sys.executable, "-c", script, module], {**os.environ, "PYTHONPATH": paths.import_path()}
    return {
        Path(path) for path in subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout.split()
    }


@pytest.mark.parametrize("part", list(PARTS))
def test_each_line_names_something(part):
    assert PARTS[part]
    for line in PARTS[part]:
        assert sources.files([line.removeprefix("!")]), line


@pytest.mark.parametrize("step", STEPS)
def test_setup_and_lab_read_the_same_files(step):
    assert not any(line.startswith("import ") for line in PARTS[step])
    listed = {REPO / name for name in of_the_setup("sources", step).split("\0") if name}
    assert listed == sources.files([f"@{step}"])


@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=list(TOPOLOGIES))
@pytest.mark.parametrize("kind", ["driver", "figures"])
def test_what_drivers_and_figures_import_is_found(topology, kind):
    module = getattr(topology, kind)
    there = sources.files([f"import {module}"])
    assert imported(module) <= there
    assert REPO / "mininet" / f"{module.replace('.', '/')}.py" in there


@pytest.mark.parametrize("part", ["deployed", "tuner"])
def test_what_commands_import_is_found(part):
    for module in (line.removeprefix("import ") for line in PARTS[part] if line.startswith("import ")):
        without = sources.files([line[1:] for line in PARTS[part] if line[0] == "!"])
        assert imported(module) <= sources.files([f"@{part}"]) | without


@pytest.mark.parametrize(
    ("program", "step"),
    [
        ("cargo/release/weir-client", "rust"),
        ("cargo/release/weir-server", "rust"),
        ("cargo/release/weir-icn", "rust"),
        ("cargo-p4/release/weir-switch", "p4"),
        ("cargo-p4/release/weir-stf", "p4"),
        ("cargo-p4/release/weir-corpus", "p4"),
        ("cargo-p4/release/weir-p4c", "p4"),
        ("cargo-peers/release/noq-server", "peers"),
        ("cargo/release/quinn-bench", "quic_peers"),
        ("cargo/release/quiche-hq-server", "quic_peers"),
    ],
)
def test_what_rust_programs_are_compiled_from_is_listed(program, step):
    """By Cargo's list beside the program, whose paths are those of the clone that built it."""
    note = REPO / "build" / f"{program}.d"
    if not note.exists():
        pytest.skip(f"{program} is not built")
    target, _, names = note.read_text().partition(": ")
    clone = target.removesuffix(f"build/{program}")
    inside = [os.path.normpath(REPO / name.removeprefix(clone)) for name in names.split() if name.startswith(clone)]
    read = {Path(name) for name in inside if os.path.isfile(name) and not name.startswith(str(REPO / "build"))}
    assert read
    assert read - sources.files([f"@{step}"]) == set()


@pytest.mark.parametrize(
    ("folder", "names", "part"),
    [
        ("mininet/tools", ("weir-traffic.c", "program.c"), "traffic"),
        ("mininet/tools", ("weir-paced.c", "program.c"), "paced"),
        ("mininet/tools", ("clock-reads.c",), "lab_tools"),
        ("xdp", ("src/sojourn.bpf.c", "tools/weir-sojourn/*.c"), "sojourn"),
        ("xdp", ("src/weir_tc.bpf.c",), "loader"),
        (
            "xdp",
            ("src/weir_xdp.bpf.c", "src/weir_ahead.bpf.c", "src/weir_coupled.bpf.c", "src/weir_classes.bpf.c"),
            "xdp",
        ),
        ("xdp", ("lib/**/*.c", "tools/weir-xdp/**/*.c"), "loader"),
        ("xdp", ("tools/**/*.c", "lib/**/*.c"), "xdp"),
    ],
)
def test_what_c_programs_are_compiled_from_is_listed(folder, names, part):
    files = [str(path.relative_to(REPO / folder)) for name in names for path in (REPO / folder).glob(name)]
    argv = ["cc", "-MM", "-MG", "-Iinclude", "-Ilib", "-Itools", *files]
    done = subprocess.run(argv, cwd=REPO / folder, capture_output=True, text=True, check=True)
    read = {(REPO / folder / name).resolve() for name in re.sub(r"\S+:|\\", "", done.stdout).split()}
    read = {path for path in read if path.is_file()}
    if part == "sojourn":  # packet.h takes a macro from the law, pins/place.h a length
        read -= {REPO / f"xdp/include/weir/{name}.h" for name in ("law", "params", "maps", "bands", "coupled")}
    assert read - sources.files([f"@{part}"]) == set()


@pytest.mark.parametrize(
    ("file", "steps", "parts"),
    [
        ("quic-client/io/src/deep/new.rs", {"rust", "python_quic"}, {"quic", "receiver"}),
        ("quic-client/core/src/congestion/prague/new.rs", {"rust", "python_quic"}, {"quic"}),
        ("quic-client/quiche/patches/new.patch", {"rust", "python_quic"}, {"quic", "receiver"}),
        ("quic-client/core/src/congestion/pbq/new.rs", {"rust", "python_quic"}, {"learned"}),
        ("icn/src/new.rs", {"rust"}, {"icn"}),
        ("p4/switch/weir-p4/src/new.rs", {"p4"}, {"switch", "deployed"}),
        ("p4/programs/new.p4", set(), {"deployed"}),
        ("xdp/lib/gains/new.inc", {"xdp"}, {"loader"}),
        ("xdp/src/new.bpf.c", {"xdp"}, set()),
        ("mininet/tools/program.h", {"lab_tools"}, {"traffic", "paced"}),
        ("mininet/peers/noq/src/new.rs", {"peers"}, set()),
        ("quic-client/endpoint/README.md", set(), set()),
        ("quic-client/endpoint/tests/it/new.rs", set(), set()),
        ("icn/src/qvdp/tests/new.rs", set(), set()),
        ("p4/README.md", set(), set()),
        ("controller/weir/commands/new.py", set(), set()),
    ],
)
def test_a_source_file_more_builds_the_step_and_runs_again(copy, file, steps, parts):
    def now():
        stamps = {step: of_the_setup("sources_now", step, copy) for step in STEPS if sources.files([f"@{step}"])}
        return stamps, {part: sources.digest([f"@{part}"]) for part in PARTS}

    stamps, digests = now()
    (copy / file).parent.mkdir(parents=True, exist_ok=True)
    with open(copy / file, "a") as source:
        source.write("\n")
    later, changed = now()
    assert {step for step in stamps if later[step] != stamps[step]} == steps
    assert {part for part in PARTS if changed[part] != digests[part]} == steps | parts


def test_words_in_a_python_file_change_no_digest(copy):
    path = copy / "mininet/weirlab/topologies/dumbbell/drive.py"
    lines = [str(path.relative_to(copy))]
    path.write_text('"""Words."""\n\n\ndef f(x):\n    return x + 1\n')
    known = sources.digest(lines)
    path.write_text('"""Other words."""\ndef f( x ):\n    "of it"\n    return x + 1  # more of them\n')
    assert sources.digest(lines) == known
    path.write_text('"""Words."""\n\n\ndef f(x):\n    return x + 2\n')
    assert sources.digest(lines) != known


def test_python_of_another_version_counts_by_its_bytes(copy):
    path = copy / "mininet/weirlab/topologies/dumbbell/drive.py"
    lines = [str(path.relative_to(copy))]
    path.write_text("print 1\n")
    known = sources.digest(lines)
    path.write_text("print 2\n")
    assert sources.digest(lines) != known


def test_imports_are_followed_wherever_they_stand(tmp_path, monkeypatch):
    """Relative and inside of functions, but neither for type checkers nor behind a module that is left out."""
    monkeypatch.setattr(paths, "clone", lambda: tmp_path)
    texts = {
        "__init__": "",
        "a": "from typing import TYPE_CHECKING\nfrom . import b\nif TYPE_CHECKING:\n    from . import types_only\n",
        "b": "def f():\n    from .deep.c import x\n",
        "deep/__init__": "",
        "deep/c": "import weir.d\nfrom ..left import y\n",
        "d": "", "left": "import weir.behind\n", "behind": "", "types_only": "", "idle": "",
    }  # fmt: skip
    for name, text in texts.items():
        path = tmp_path / "controller" / "weir" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = sources.files(["import weir.a", "!controller/weir/left.py"])
    names = {str(path.relative_to(tmp_path / "controller" / "weir").with_suffix("")) for path in found}
    assert names == {"__init__", "a", "b", "deep/__init__", "deep/c", "d"}
