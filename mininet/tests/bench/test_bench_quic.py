# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of `./run bench quic`, and how it finds out that a port is taken."""

import hashlib
import json
import socket
import subprocess
import sys

import pytest

from weirlab import paths
from weirlab.bench import decisions, quic


def row(peer: str, mode: str, repetition: int, mbit_s: float, client: float, server: float) -> dict:
    return {
        "peer": peer,
        "mode": mode,
        "repetition": repetition,
        "goodput_mbit_s": mbit_s,
        "client_cpu_s_per_gb": client,
        "server_cpu_s_per_gb": server,
    }


def test_ratios_are_taken_within_a_repetition_and_a_mode():
    rows = [
        row("weir", "default", 0, 3000, 1, 1),
        row("weir", "equal", 0, 2000, 1, 2),
        row("weir", "large packets", 0, 9000, 0.1, 0.1),
        row(quic.QUICHE, "default", 0, 1000, 2, 4),
        row("quinn", "equal", 0, 4000, 1, 1),
        row("weir", "default", 1, 300, 2, 2),
        row("weir", "equal", 1, 200, 2, 4),
        row("weir", "large packets", 1, 900, 0.1, 0.1),
        row(quic.QUICHE, "default", 1, 200, 2, 2),
        row("quinn", "equal", 1, 100, 3, 3),
    ]
    found = {(r["peer"], r["mode"]): r for r in quic.ratios(rows)}
    # quiche's examples have one mode, and both of our programs for comparisons are held against it.
    assert set(found) == {(quic.QUICHE, "default"), (quic.QUICHE, "equal"), ("quinn", "equal")}
    assert found[quic.QUICHE, "default"]["goodput"] == {"median": 2.25, "least": 1.5, "most": 3}
    assert found[quic.QUICHE, "equal"]["cpu_per_byte"] == {"median": 1, "least": 0.5, "most": 1.5}
    assert found["quinn", "equal"]["goodput"] == {"median": 1.25, "least": 0.5, "most": 2}


def test_a_tireless_policy_is_the_built_in_one_that_always_grows():
    first, _, content = decisions.tireless(decisions.built_in()).partition(b"\n")
    assert first == b"weir-pbq-weights 1 sha256:" + hashlib.sha256(content).hexdigest().encode()
    ours, theirs = json.loads(content), json.loads(decisions.built_in().partition(b"\n")[2])
    shapes = [[[len(row) for row in layer["weights"]] for layer in each["layers"]] for each in (ours, theirs)]
    assert shapes[0] == shapes[1]
    assert (ours["guard"], ours["pacing"], ours["layers"][-1]["bias"]) == (None, "bbr", "3f800000")


@pytest.mark.parametrize(("kind", "tcp"), [(socket.SOCK_DGRAM, False), (socket.SOCK_STREAM, True)])
def test_a_taken_port_is_seen(kind, tcp, monkeypatch):
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setattr(quic, "PORT", taken.getsockname()[1])
        if tcp:
            assert not quic.listening(tcp)
            taken.listen()
        assert quic.listening(tcp)
        assert not quic.listening(not tcp)
    assert not quic.listening(tcp)


def test_a_server_that_ends_is_named_with_its_complaint():
    words = [sys.executable, "-c", "import sys; sys.exit('no such certificate')"]
    with (
        pytest.raises(quic.BenchError, match=r"ended with status 1: no such certificate"),
        quic.serving(words, None, False),
    ):
        pass


@pytest.mark.parametrize("words", [["--repetitions", "0"], ["--bytes", "0"], ["--connections", "10"]])
def test_numbers_that_measure_nothing_are_refused(words):
    done = subprocess.run(
        [sys.executable, "-m", "weirlab.bench.quic", *words], capture_output=True, text=True, check=False,
        cwd=paths.clone() / "mininet",
    )  # fmt: skip
    assert done.returncode == 2
    assert "must be 1 or more" in done.stderr
