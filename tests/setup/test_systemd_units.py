# SPDX-License-Identifier: Apache-2.0
"""The systemd units: systemd itself finds nothing wrong with them, and they have the privileges that they need."""

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


SANDBOX = {
    "NoNewPrivileges": "yes", "PrivateTmp": "yes", "ProtectSystem": "strict", "ProtectHome": "yes",
    "ProtectKernelTunables": "yes", "ProtectKernelModules": "yes", "ProtectKernelLogs": "yes",
    "ProtectControlGroups": "yes", "ProtectProc": "invisible", "ProtectClock": "yes", "ProtectHostname": "yes",
    "PrivateDevices": "yes", "LockPersonality": "yes", "RestrictRealtime": "yes", "RestrictSUIDSGID": "yes",
    "SystemCallArchitectures": "native",
}  # fmt: skip
EXPOSURE_MOST = 25  # tenths of the scale of `systemd-analyze security`


def service(path: Path) -> dict[str, str]:
    """The directives of [Service]; of one that is there more than once the values, separated by new lines."""
    section, found = "", {}
    for line in path.read_text().splitlines():
        if line.startswith("["):
            section = line
        elif section == "[Service]" and line and line[0] not in "#;":
            key, _, value = line.partition("=")
            found[key] = f"{found[key]}\n{value}" if key in found else value
    return found


def test_all_units_are_here():
    assert {path.name for path in UNITS} >= set(PRIVILEGES)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_least_privileges(path):
    """No unit is root's: a user of its own, with ambient capabilities and no more."""
    has = service(path)
    assert has["CapabilityBoundingSet"] == has["AmbientCapabilities"] == PRIVILEGES[path.name]
    assert has.get("DynamicUser") == "yes" or has["User"] not in ("root", "0")
    assert {key: has.get(key) for key in SANDBOX} == SANDBOX
    assert has["SystemCallFilter"].startswith("@system-service")
    assert int(has["UMask"], 8) & 0o007 == 0o007


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_only_what_makes_the_pins_folder_is_root(path):
    """A command with `+` has all privileges. The rest of a BPF file system is out of the service's sight."""
    has = service(path)
    full = [value for key, text in has.items() if key.startswith("Exec") for value in text.splitlines() if "+" in value]
    assert [line for line in full if "/sys/fs/bpf/weir" not in line] == []
    if "CAP_BPF" in has["CapabilityBoundingSet"]:
        assert (has["TemporaryFileSystem"], has["BindPaths"]) == ("/sys/fs/bpf:ro", "/sys/fs/bpf/weir")
        assert has["User"] in full[0]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_exposure(path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed here")
    words = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MOST}", "--no-pager", path]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze can't judge a file (older than 250)")
    assert done.returncode == 0, done.stdout.splitlines()[-1:]


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
