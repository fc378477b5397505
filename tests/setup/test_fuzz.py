# SPDX-License-Identifier: Apache-2.0
"""`./run fuzz`: each target is built, listed and in a table of parsers, and a finding can be replayed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
TABLES = {folder: REPO / folder / "fuzz" / "README.md" for folder in ("quic-client", "p4/switch", "xdp")}
CARGO = """#!{python}
import os, pathlib, sys
if "--version" in sys.argv:
    sys.exit(0)
target = pathlib.Path(sys.argv[sys.argv.index("--target-dir") + 1], "any", "release")
target.mkdir(parents=True, exist_ok=True)
program = target / sys.argv[-1]
program.write_text({program!r})
program.chmod(0o755)
"""
PROGRAM = """#!{python}
import sys
prefix = next(word.partition("=")[2] for word in sys.argv if word.startswith("-artifact_prefix="))
open(prefix + "crash-1", "wb").write(b"\\x00bad")
sys.exit(77)
"""


def run(*words: object, path: str, repo: Path = REPO) -> subprocess.CompletedProcess:
    command = [sys.executable, repo / "setup" / "fuzz.py", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path})


def listed() -> set[str]:
    return set(run("--list", path=os.environ["PATH"]).stdout.split())


@pytest.fixture
def clone(tmp_path):
    """The runner, and a target, in a folder of their own."""
    (tmp_path / "setup").mkdir()
    for name in ("fuzz.py", "llvm.sh"):
        shutil.copy(REPO / "setup" / name, tmp_path / "setup")
    (tmp_path / "quic-client" / "fuzz" / "fuzz_targets").mkdir(parents=True)
    (tmp_path / "quic-client" / "fuzz" / "fuzz_targets" / "request.rs").touch()
    (tmp_path / "bin").mkdir()
    return tmp_path


@pytest.mark.parametrize("folder", TABLES)
def test_each_target_is_in_the_table_of_parsers(folder):
    rows = [line for line in TABLES[folder].read_text().splitlines() if line.startswith("| ")]
    named = {name for row in rows for name in re.findall(r"^`(\w+)`", row.strip("| ").rpartition(" | ")[2])}
    targets = {name.rpartition("/")[2] for name in listed() if name.rpartition("/")[0] == folder}
    assert named == targets != set()


@pytest.mark.parametrize("folder", ["quic-client", "p4/switch"])
def test_each_target_of_rust_is_a_binary(folder):
    manifest = (REPO / folder / "fuzz" / "Cargo.toml").read_text()
    named = set(re.findall(r'path = "fuzz_targets/(\w+)\.rs"', manifest))
    assert {f"{folder}/{name}" for name in named} == {n for n in listed() if n.startswith(f"{folder}/")}


def test_a_target_without_its_tools_is_not_tried(clone):
    done = run("request", path=str(clone / "bin"), repo=clone)
    assert done.returncode == 0
    assert done.stdout.startswith("not-tried quic-client/request")


def test_a_finding_is_shown_with_its_replay(clone):
    cargo = clone / "bin" / "cargo"
    cargo.write_text(CARGO.format(python=sys.executable, program=PROGRAM.format(python=sys.executable)))
    cargo.chmod(0o755)
    done = run("request", "--minutes", "0.1", path=f"{clone / 'bin'}:{os.environ['PATH']}", repo=clone)
    assert done.returncode == 1
    assert done.stdout.startswith("found quic-client/request")
    assert r"b'\x00bad'" in done.stdout
    program, finding = re.search(r"replay: (\S+) (\S+)", done.stdout).groups()
    assert (clone / program).exists()
    assert (clone / finding).read_bytes() == b"\x00bad"


def test_an_unknown_target_is_refused():
    assert run("no-such-target", path=os.environ["PATH"]).returncode == 2
