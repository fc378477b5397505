# SPDX-License-Identifier: Apache-2.0
"""Standard output that is full or closed: every command that writes there fails, in one line; none crashes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from packet_rig import BUILD, REPO, WEIR

PROGRAMS = REPO / "build" / "bin"
CONTROLLER = {**os.environ, "PYTHONPATH": str(REPO / "controller")}
SWITCH = PROGRAMS / "weir-switch"
P4 = REPO / "p4" / "pid_delay.p4"
CALLS = [
    *((BUILD / name, word) for name in ("weir-xdp", "weir-sojourn") for word in ("--help", "--version")),
    (WEIR, "--expert", "--help"),
    (WEIR, "status", "--help"),
    *(
        (PROGRAMS / name, word)
        for name in ("weir-client", "weir-server", "weir-icn", "weir-switch")
        for word in ("--help", "--version")
    ),
    (PROGRAMS / "weir-client", "--list-cc"),
    (PROGRAMS / "weir-client", "--list-cc", "--json"),
    (PROGRAMS / "weir-server", "--listen", "127.0.0.1:0"),
    (PROGRAMS / "weir-icn", "get", "--help"),
    (SWITCH, "--check", "--p4", P4, "--p4info-out", "-"),
    (SWITCH, "--no-p4", "--grpc-server-addr", "127.0.0.1:0"),
    *((sys.executable, "-m", "weir.cli", *words) for words in (["--help"], ["--version"])),
    *((sys.executable, "-m", "weir.cli", name, "--help") for name in ("status", "watch", "gains", "p4", "model")),
]


def call(words: tuple, output: str, folder: Path) -> subprocess.CompletedProcess:
    """Runs a program with its output at the end of a disk, or with none."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {output}', "sh", *map(str, words)],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        cwd=folder,
        timeout=120,  # a patience, not a measurement
        env=CONTROLLER,
    )


@pytest.mark.parametrize("words", CALLS, ids=lambda words: " ".join([Path(words[0]).name, *map(str, words[1:])])[-60:])
def test_output_that_is_lost_is_an_error(tools, tmp_path, words):
    if not Path(words[0]).exists():
        pytest.skip(f"not built: {Path(words[0]).name}")
    done = call(words, ">/dev/full", tmp_path)
    assert done.returncode not in (0, 101), done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("output", [">/dev/full", ">&-"])
def test_of_a_law_too(rig, tmp_path, output):
    rig.shape("1gbit", 100000)

    def status_of(*words: object) -> int:
        return rig.router.run("sh", "-c", f'exec "$@" {output}', "sh", WEIR, *words, check=False).returncode

    try:
        assert status_of("attach", "rb") == 1
        for words in (["status"], ["status", "--json"], ["status", "rb"], ["status", "rb", "--json"]):
            assert status_of(*words) == 1, words
        for words in (["rb"], ["rb", "--json"], ["rb", "target=9ms", "--json"]):
            assert status_of("ensure", *words) == 1, words
        assert status_of("set", "rb", "target=8ms", "--json") == 1
        assert status_of("watch", "rb", "--count", "1") == 1
        assert rig.status()["gains"]["target_us"] == 8000
        assert status_of("detach", "rb") == 0
    finally:
        rig.weir("detach", "rb", check=False)
        rig.unshape()


def test_p4info_goes_to_standard_output(tools, tmp_path):
    done = subprocess.run(
        [SWITCH, "--check", "--p4", P4, "--p4info-out", "-"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    subprocess.run([SWITCH, "--check", "--p4", P4, "--p4info-out", tmp_path / "a.txtpb"], check=True)
    assert done.stdout == (tmp_path / "a.txtpb").read_text()
    assert [one.name for one in tmp_path.iterdir()] == ["a.txtpb"]
