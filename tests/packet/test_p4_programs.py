# SPDX-License-Identifier: Apache-2.0
"""p4/ on the reference: p4c takes the programs without a word, and BMv2 does what the embedded target does.

The embedded target runs the same scripts and vectors in p4/switch/weir-p4/tests. Skipped where p4c or BMv2 is not on
PATH.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import json_format, text_format
from p4_probe import BANDS, LAW, vectors
from p4_rig import find

from weir.p4runtime.messages import config

HERE = Path(__file__).resolve().parent
REPO = HERE.parents[1]
PROGRAMS = (
    "pid_delay",
    "programs/pid_delay",
    "programs/pid_delay_l4s",
    "programs/pid_delay_scone",
    "programs/icn",
    "programs/edge",
    "programs/law_probe",
    "programs/bands_probe",
)
COMPILE_LIMIT_S = 120
SCRIPTS = (
    ("pid_delay", "tests"),
    ("programs/pid_delay_l4s", "tests/l4s"),
    ("programs/pid_delay_scone", "tests/scone"),
    ("programs/icn", "tests/icn"),
    ("programs/icn", "tests/icn/alone"),
    ("programs/edge", "tests/icn"),
    ("programs/edge", "tests"),
    ("pid_delay", "tests/flow_bands"),
    ("programs/edge", "tests/flow_bands"),
)
V1MODEL = REPO / "p4" / "switch" / "weir-p4" / "include"


def _needs(*names: str) -> None:
    missing = [name for name in names if not shutil.which(name)]
    if missing:
        pytest.skip(f"not on PATH: {', '.join(missing)}")


def _compiled(program: str, folder: Path) -> subprocess.CompletedProcess:
    source = REPO / "p4" / f"{program}.p4"
    out, info = folder / f"{source.stem}.json", folder / f"{source.stem}.p4info.txtpb"
    command = ["p4c-bm2-ss", "--std", "p4-16", "--p4runtime-files", str(info), "-o", str(out)]
    return subprocess.run([*command, str(source)], capture_output=True, text=True, check=False, timeout=COMPILE_LIMIT_S)


@pytest.mark.parametrize("program", PROGRAMS)
def test_p4c_compiles_without_a_warning(program, tmp_path):
    _needs("p4c-bm2-ss")
    done = _compiled(program, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


FORMATS = {
    "txtpb": lambda data: text_format.Parse(data.decode(), config.P4Info()),
    "json": lambda data: json_format.Parse(data, config.P4Info()),
    "binpb": config.P4Info.FromString,
}


@pytest.mark.parametrize("program", [*PROGRAMS, "switch/weir-p4/tests/p4info/everything"])
def test_p4info_is_one_message_in_all_formats(program, tmp_path):
    """Read by protobuf's own parsers."""
    switch = find("weir-switch")
    if switch is None:
        pytest.skip("weir-switch is neither on PATH nor built")
    read = []
    for suffix, parse in FORMATS.items():
        file = tmp_path / f"p4info.{suffix}"
        command = [switch, "--check", "--p4", str(REPO / "p4" / f"{program}.p4"), "--p4info-out", str(file)]
        subprocess.run(command, check=True, capture_output=True, timeout=COMPILE_LIMIT_S)
        read.append(parse(file.read_bytes()))
    assert read[0].pkg_info.arch == "v1model"
    assert read[0] == read[1] == read[2]


def test_the_short_name_is_the_same_text():
    """p4c reads a program through cpp, so that includes must be found beside the file that names them."""
    _needs("cpp")
    command = ["cpp", "-P", "-undef", "-nostdinc", "-x", "assembler-with-cpp", "-I", str(V1MODEL)]
    texts = [
        subprocess.run([*command, str(REPO / "p4" / f"{name}.p4")], capture_output=True, text=True, check=True).stdout
        for name in ("pid_delay", "programs/pid_delay")
    ]
    assert texts[0] == texts[1]
    assert "WeirIngress" in texts[0]


def _on_bmv2(program: str, what: str, files: list[Path], folder: Path) -> str:
    _needs("p4c-bm2-ss", "simple_switch", "simple_switch_CLI", "ethtool", "ip", "unshare")
    if os.geteuid():
        pytest.skip("needs root, for a network namespace and raw sockets")
    assert _compiled(program, folder).returncode == 0
    assert files
    command = ["unshare", "--net", "--pid", "--fork", "--kill-child", sys.executable, str(HERE / "p4_bmv2.py")]
    command += [str(folder / f"{Path(program).stem}.json"), what, *map(str, files)]
    environment = {**os.environ, "PYTHONPATH": str(REPO / "controller")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_bmv2_passes_the_scripts(tmp_path):
    for program, folder in SCRIPTS:
        files = sorted((REPO / "p4" / folder).glob("*.stf"))
        assert _on_bmv2(program, "stf", files, tmp_path).count(", 0 wrong") == len(files)


def test_bmv2_gives_the_vectors(tmp_path):
    for probe in (LAW, BANDS):
        files = vectors(probe)
        assert _on_bmv2(f"programs/{probe.program}", "vectors", files, tmp_path).count(", 0 wrong") == len(files)
