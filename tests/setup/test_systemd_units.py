# SPDX-License-Identifier: Apache-2.0
"""The systemd units: systemd itself finds nothing wrong with them, and they have the privileges that they need."""

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
UNITS = sorted(REPO.glob("*/systemd/*.service")) + sorted(REPO.glob("*/*/systemd/*.service"))
PRIVILEGES = {
    "weir-xdp.service": "CAP_BPF CAP_NET_ADMIN CAP_PERFMON",
    "weir-xdp@.service": "CAP_BPF CAP_NET_ADMIN CAP_PERFMON",
    "weir-tune.service": "CAP_BPF CAP_NET_ADMIN CAP_NET_RAW CAP_PERFMON",
    "weir-switch.service": "CAP_NET_RAW CAP_NET_ADMIN",
}


def service(path: Path) -> dict[str, str]:
    reader = configparser.ConfigParser(strict=False, interpolation=None)
    reader.optionxform = str
    reader.read_string(path.read_text())
    return dict(reader["Service"])


def test_all_units_are_here():
    assert {path.name for path in UNITS} >= set(PRIVILEGES)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_least_privileges(path):
    has = service(path)
    assert has["CapabilityBoundingSet"] == PRIVILEGES[path.name]
    for key, value in {"NoNewPrivileges": "yes", "PrivateTmp": "yes", "ProtectSystem": "strict"}.items():
        assert has[key] == value, key


def test_the_switch_is_never_root():
    has = service(next(path for path in UNITS if path.name == "weir-switch.service"))
    assert has["DynamicUser"] == "yes"
    assert has["AmbientCapabilities"] == has["CapabilityBoundingSet"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_finds_nothing_wrong(path, tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed here")
    # programs are not installed here: in their place something that is
    program = service(path)["ExecStart"].split()[0]
    unit = tmp_path / path.name.replace("@.", "@eth0.")
    unit.write_text(path.read_text().replace(program, "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit], capture_output=True, text=True
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if path.stem.rstrip("@") in line]) == (0, [])
