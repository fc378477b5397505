# SPDX-License-Identifier: Apache-2.0
"""Debian packages by the names of each release, and the programs of LLVM by any version that will do."""

import subprocess
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
TABLE = [
    line.split()
    for line in (REPO / "setup" / "debian-packages.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
RELEASES = TABLE[0][2:]
ALL_PARTS = "python rust p4 xdp lab_tools kernel peers tquic aqm quic lab packaged bench package oci test"
ASK = """
root=$1
die() { echo "$*" >&2; exit 1; }
say() { echo "$*" >&2; }
. "$root/setup/packages.sh"
look_for_packages $2
warn_of_release
printf '%s\\n' "${missing[@]}"
"""


def program(folder, name, text):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def ask(tmp_path, release, parts=ALL_PARTS, installed=()):
    """(missing packages, warning) on a machine of that release."""
    program(tmp_path / "bin", "dpkg-query", "".join(f"echo 'installed {name}'\n" for name in installed))
    (tmp_path / "os-release").write_text(release)
    done = subprocess.run(
        ["bash", "-euc", ASK, "bash", REPO, parts],
        env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "WEIR_OS_RELEASE": str(tmp_path / "os-release")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(done.stdout.split()), done.stderr


def os_release(name):
    distribution, _, version = name.partition("-")
    return f'NAME="a name"\nID={distribution}\nVERSION_ID="{version}"\n'


def test_rows_are_whole():
    for row in TABLE:
        assert len(row) == 2 + len(RELEASES), row
    for row in TABLE[1:]:
        assert set(row[1].split(",")) <= set(ALL_PARTS.split()), row
        assert ("N" in row[0]) == all(cell.isdigit() for cell in row[2:]), row
    names = [row[0].replace("-N", "") for row in TABLE[1:]]
    assert names == sorted(set(names))


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_of_the_table(tmp_path, name):
    missing, warning = ask(tmp_path, os_release(name))
    column = RELEASES.index(name) + 2
    llvm = next(row[column] for row in TABLE if row[0] == "clang-N")
    assert {"cmake", f"clang-{llvm}", f"libclang1-{llvm}"} <= missing
    assert not any(set("=+N") & set(package) for package in missing)
    assert "-" not in missing
    assert warning == ""
    assert ask(tmp_path, os_release(name), installed=missing)[0] == set()


def test_a_package_that_a_release_has_not_is_not_asked_for(tmp_path):
    missing, _ = ask(tmp_path, os_release("ubuntu-24.04"))
    assert not {"linux-source-6.12", "user-mode-linux", "bpftool"} & missing
    assert {"linux-tools-common", "linux-tools-generic"} <= missing


@pytest.mark.parametrize(
    ("release", "column"),
    [
        ('ID=debian\nVERSION_ID="14"\n', "debian-13"),
        ("ID=debian\n", "debian-13"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="22"\n', "ubuntu-24.04"),
        ("ID=other\n", "debian-13"),
    ],
)
def test_another_release_gets_a_warning_and_names(tmp_path, release, column):
    missing, warning = ask(tmp_path, release)
    assert missing == ask(tmp_path, os_release(column))[0]
    assert column in warning


@pytest.mark.parametrize("version", [14, 17, 20])
def test_any_clang_will_do(tmp_path, version):
    assert (
        ask(tmp_path, os_release("debian-13"), "xdp", [f"clang-{version}"])[0]
        == ask(tmp_path, os_release("debian-13"), "xdp", ["clang-19"])[0]
    )


def test_a_clang_that_is_too_old_will_not_do(tmp_path):
    assert "clang-19" in ask(tmp_path, os_release("debian-13"), "xdp", ["clang-13", "clang-191"])[0]


@pytest.mark.parametrize(
    ("programs", "found"),
    [
        ({"clang-19": "", "clang-16": ""}, "clang-16"),
        ({"clang": "echo Debian clang version 18.1.3 '(1)'"}, "clang"),
        ({"clang": "echo clang version 13.0.1"}, None),
        ({"clang-13": ""}, None),
    ],
)
def test_the_program_of_llvm(tmp_path, programs, found):
    for name, text in programs.items():
        program(tmp_path / "bin", name, text)
    for name in ("sed", "head", "bash"):
        (tmp_path / "bin" / name).symlink_to(f"/usr/bin/{name}")
    done = subprocess.run(
        ["/usr/bin/bash", REPO / "setup" / "llvm.sh", "clang"],
        env={"PATH": f"{tmp_path}/bin"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == (0 if found else 1)
    assert done.stdout.strip() == (found or "")
