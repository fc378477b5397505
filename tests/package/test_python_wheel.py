# SPDX-License-Identifier: Apache-2.0
"""The wheel of the QUIC client's Python module, in an environment without anything else."""

import subprocess
import sys
from pathlib import Path

import pytest
from bare_debian import REPO, run_package

SCRIPT = """
import sys, weir_quic
with weir_quic.connect(sys.argv[1], paths=["127.0.0.2", "127.0.0.3"], ca=sys.argv[2]) as connection:
    print(connection.get("/bytes/1000").read() == bytes(1000))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    done = run_package("wheels", "--out", tmp_path_factory.mktemp("wheels"))
    assert done.returncode == 0, done.stderr
    (wheel,) = (Path(line) for line in done.stdout.splitlines() if "/weir_quic-" in line)
    return wheel


def test_it_is_installed_and_used(wheel, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", wheel], check=True)
    state = tmp_path / "state"
    server = subprocess.Popen(
        [REPO / "build/cargo/release/weir-server", "--listen", "127.0.0.1:0", "--state-dir", state],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        url = f"https://{server.stdout.readline().split()[1]}/"
        done = subprocess.run(
            [python, "-I", "-c", SCRIPT, url, state / "weir-server-ca.pem"], capture_output=True, text=True, check=False
        )
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_it_is_for_a_range_of_interpreters_and_has_no_place_of_its_build(wheel, tmp_path):
    assert "-cp311-abi3-manylinux_" in wheel.name
    subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, tmp_path], check=True)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"py.typed", "_native.pyi", "_native.abi3.so"} <= {path.name for path in files}
    assert [path for path in files if str(REPO).encode() in path.read_bytes()] == []
