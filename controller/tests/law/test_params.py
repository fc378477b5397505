# SPDX-License-Identifier: Apache-2.0
"""law/params.toml: every output is the one that the table gives, and a row more or less is all that it takes."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from places import BUILT, REPOSITORY

from weir.gains import help_text
from weir.params import ROWS
from weir.programs import PortLaw
from weir.programs.pid_delay import action_data
from weir.settings import profile

ROW = """
[[param]]
name = "new_q16"
key = "new"
unit = "factor"
form = "factor_or_0"
range = [0, 1048575]
default = 0.0
group = "marking"
level = "expert"
source = "a test"
help = "nothing"
"""
P4_TESTS = "p4/switch/weir-p4/tests/it"
READ = (
    "law",
    "xdp/include",
    "xdp/lib",
    "p4/include",
    "p4/programs",
    P4_TESTS,
    "controller/weir",
    "controller/profiles",
)
PAGES = ("xdp/README.md", "docs/design/law.md")


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("law_generate", REPOSITORY / "law" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


GENERATE = _generator()


def test_every_output_is_what_the_table_gives() -> None:
    differ = [name for name, text in GENERATE.outputs(REPOSITORY).items() if (REPOSITORY / name).read_text() != text]
    assert differ == [], "./run generate writes them anew"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in READ:
        shutil.copytree(REPOSITORY / name, tmp_path / name, symlinks=True)
    for name in PAGES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    return tmp_path


def _ran(*words: object, **environment: str) -> str:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


def _compile_c(root: Path, *sources: str) -> None:
    clang = _ran(REPOSITORY / "setup" / "llvm.sh", "clang").strip()
    flags = ("-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Wno-unused-parameter")
    for source in sources:
        _ran(clang, *flags, "-D_GNU_SOURCE", "-I", root / "xdp/include", "-I", root / "xdp/lib", root / source)


def _compile_p4(*programs: Path) -> None:
    switch = shutil.which("weir-switch", path=str(BUILT))
    if switch is None:
        pytest.skip("weir-switch is not built")
    for program in programs:
        _ran(switch, "--check", "--p4", program)


def _keys(root: Path) -> list[str]:
    code = "from weir.gains import Gains, KEYS; from weir.settings import profile; Gains.from_params(profile('tuned')"
    return _ran(
        sys.executable, "-c", f"{code}.to_params()); print(*KEYS)", PYTHONPATH=str(root / "controller")
    ).split()  # fmt: skip


def test_a_row_more_is_declared_in_every_language(copy: Path) -> None:
    table = copy / "law" / "params.toml"
    before = table.read_text()
    table.write_text(before + ROW)
    assert GENERATE.main([str(copy)]) == 0
    assert _keys(copy) == [*ROWS, "new"]
    for name in GENERATE.outputs(copy):
        assert re.search(r"\bnew(_q16)?\b", (copy / name).read_text()), name
    _compile_c(copy, "xdp/include/weir/law.h", "xdp/lib/gains/gains.c")
    _compile_p4(copy / "p4/programs/law_probe.p4", copy / "p4/programs/pid_delay.p4")
    table.write_text(before)
    assert GENERATE.main([str(copy)]) == 0
    assert all((copy / name).read_text() == (REPOSITORY / name).read_text() for name in GENERATE.outputs(copy))


def test_a_row_less_is_declared_in_no_language(copy: Path) -> None:
    """The step that read it reads a constant."""
    table = copy / "law" / "params.toml"
    rows = table.read_text().split("\n[[")
    table.write_text("\n[[".join(row for row in rows if 'name = "delay_guard_bytes"' not in row))
    for file in (copy / "controller" / "profiles").glob("*.toml"):
        file.write_text(re.sub(r"(?m)^delay_guard_bytes.*\n", "", file.read_text()))
    assert GENERATE.main([str(copy)]) == 0
    assert _keys(copy) == [key for key in ROWS if key != "delay_guard_bytes"]
    for name, used, constant in (
        ("xdp/include/weir/law.h", "p->delay_guard_bytes", "0"),
        ("p4/include/law.p4", "p.delay_guard_bytes", "32w0"),
    ):
        text = (copy / name).read_text()
        assert used in text
        (copy / name).write_text(text.replace(used, constant))
    _compile_c(copy, "xdp/include/weir/law.h", "xdp/lib/gains/gains.c")
    _compile_p4(copy / "p4/programs/law_probe.p4", copy / "p4/programs/pid_delay.p4")


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('form = "whole"', 'form = "hole"', "target_us"),
        ('group = "paper"', 'group = "papers"', "target_us"),
        ('name = "interval_us"', 'name = "target_us"', "target_us"),
        ('unit = "us"\n', "", "unit"),
    ],
)
def test_a_row_that_is_wrong_is_named(copy: Path, capsys, old: str, new: str, named: str) -> None:
    table = copy / "law" / "params.toml"
    table.write_text(table.read_text().replace(old, new, 1))
    assert GENERATE.main([str(copy)]) == 1
    assert named in capsys.readouterr().err


@pytest.mark.parametrize("name", ["paper", "tuned"])
def test_a_profile_of_ours_has_every_key(name: str) -> None:
    assert sorted(tomllib.loads((REPOSITORY / f"controller/profiles/{name}.toml").read_text())) == sorted(ROWS)


def test_what_a_switch_is_sent_and_the_help_follow() -> None:
    assert set(action_data(PortLaw(profile("tuned")))) == {*(row.param for row in ROWS.values()), *PortLaw.OWN_KEYS}
    assert all(name in help_text() for name in ROWS)


def test_the_loader_that_was_built_has_the_same_keys() -> None:
    path = shutil.which("weir-xdp", path=str(BUILT))
    if path is None:
        pytest.skip("weir-xdp is not built")
    said = subprocess.run([path, "--expert", "--help"], capture_output=True, text=True, check=True).stdout
    section = re.search(r"^Keys[^\n]*:\n(.*?)\n\n", said, re.DOTALL | re.MULTILINE)
    assert section is not None, "weir-xdp --help lists no keys; is the built one older than the sources?"
    assert {line.split()[0] for line in section[1].splitlines()} == set(ROWS)
