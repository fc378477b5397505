# SPDX-License-Identifier: Apache-2.0
"""Command lines of the lab's traffic programs: help, and the status of a wrong call."""

import subprocess
from pathlib import Path

import pytest

from weirlab import paths

PROGRAMS = ("weir-paced", "weir-traffic")


def run(name: str, *words: str) -> subprocess.CompletedProcess:
    program: Path = paths.build() / "bin" / name
    if not program.exists():
        pytest.skip(f"{name} is not built; ./run test builds it")
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("words", [["--help"], ["-h"], ["udp", "--help"]])
def test_help_is_no_failure(name, words):
    done = run(name, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: {name} ")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *((name, words) for name in PROGRAMS for words in ([], ["--nope"], ["nope"])),
        ("weir-paced", ["receive"]),
        ("weir-paced", ["send", "--out", "x", "--nope"]),
        ("weir-paced", ["send", "--out", "x", "--to", "127.0.0.1:1", "--packets-per-s", "many"]),
        ("weir-traffic", ["udp", "--nope"]),
        ("weir-traffic", ["udp", "--to", "127.0.0.1"]),
        ("weir-traffic", ["udp", "--to", "127.0.0.1:1", "--rate-bit-s", "0"]),
        ("weir-traffic", ["tcp", "--to", "127.0.0.1:1"]),
    ],
)
def test_a_wrong_call_ends_with_2_and_names_the_program(name, words):
    done = run(name, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{name}: ")


@pytest.mark.parametrize("words", [["weir-paced", "receive", "--out"], ["weir-traffic", "sink", "--stats"]])
def test_a_file_that_cannot_be_made_is_a_failure(words):
    done = run(*words, "/nonexistent/x")
    assert done.returncode == 1
    assert "/nonexistent/x" in done.stderr
