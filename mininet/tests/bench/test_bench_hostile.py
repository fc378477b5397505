# SPDX-License-Identifier: Apache-2.0
"""`./run bench hostile`: its arithmetic, its frames, and that it leaves nothing behind when it is stopped."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scapy.all import Ether
from scapy.layers.inet import IP

from weirlab import paths
from weirlab.bench.hostile import __main__ as hostile
from weirlab.bench.hostile import attacker, frames, http2, rounds
from weirlab.bench.names import BenchError

MODULE = "weirlab.bench.hostile"


def bench(*words: str, **more) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": "mininet:controller", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", MODULE, *words], cwd=paths.clone(), env=environment, stderr=subprocess.PIPE, text=True,
        **more,
    )  # fmt: skip


def test_what_is_kept_is_taken_round_by_round():
    assert rounds.kept([(100, 90), (50, 50), (10, 4)]) == {"median": 0.9, "least": 0.4, "most": 1}
    with pytest.raises(BenchError, match="nothing to compare with"):
        rounds.kept([(100, 90), (0, 50)])


def test_rounds_are_in_turn_and_disturbed_ones_are_made_again():
    asked = []

    def one(attack: str | None) -> dict[str, float]:
        asked.append(attack)
        return {"value": 80.0 if attack else 100.0, "disturbed": 0.5 if len(asked) < 3 else 0.0}

    found = rounds.in_turn(2, one, "noise")
    assert asked == [None, "noise"] * 3
    assert found["made_again"] == 1
    assert found["kept"]["median"] == 0.8
    assert found["value"]["without"] == {"median": 100, "least": 100, "most": 100}


def test_a_machine_that_is_never_at_rest_is_measured_all_the_same():
    found = rounds.in_turn(3, lambda _attack: {"value": 1.0, "disturbed": 1.0}, "noise")
    assert found["made_again"] == 3 * rounds.AGAIN_MOST
    assert found["kept"]["median"] == 1


def test_only_who_floods_a_port_is_due_a_share_of_a_saturated_switch():
    assert hostile.fair("switch", "broadcasts", "saturating") == 0.5
    assert hostile.fair("switch", "broadcasts", "half") == 1
    assert hostile.fair("switch", "pings", "saturating") == 1
    assert hostile.fair("server", "garbage", "saturating") == 1


def test_the_table_says_what_is_below_the_aim():
    side = {"median": 1.0, "least": 1.0, "most": 1.0}
    both = {"without": side, "with": side}

    def load(kept: float) -> dict:
        return {"kept": {"median": kept, "least": kept, "most": kept}, "made_again": 0, "forwarded": both,
                "attack": both}  # fmt: skip

    found = {"capacity_per_second": 2.0, "attacks": [
        {"attack": "pings", "loads": {"half": load(0.95), "saturating": load(0.6)}, "peak_mb": 20.0},
        {"attack": "broadcasts", "loads": {"saturating": load(0.6)}, "peak_mb": 20.0},
    ]}  # fmt: skip
    lines = hostile.shown("switch", found)[3:]
    assert ["below the aim" in line for line in lines] == [False, True, False]


def test_frames_are_what_they_are_called():
    (measured,) = (Ether(frame) for frame in frames.measured())
    assert measured[IP].dst == f"10.0.{frames.MEASURED_OUT}.1"
    for frame in (*frames.measured(), *frames.to_nowhere(), *frames.long_ones()):
        packet = Ether(frame)
        sum_, packet[IP].chksum = packet[IP].chksum, None
        assert Ether(bytes(packet))[IP].chksum == sum_, "a good checksum"
    assert {len(frame) for frame in frames.long_ones()} == {1514}
    assert all(frame[:6] == b"\xff" * 6 for frame in frames.broadcasts())
    assert not set(frames.malformed()) & set(frames.measured())


@pytest.mark.parametrize("flood", http2.FLOODS, ids=lambda flood: flood.__name__)
def test_floods_are_sent_whole_in_larger_pieces(flood):
    assert b"".join(attacker.pieces(flood(50))) == b"".join(flood(50))
    assert b"".join(flood(2)).startswith(http2.PREFACE)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--repetitions", "0"], "must be 1 or more"),
        (["--seconds", "0"], "0.1 to 600"),
        (["--attacks", "rain"], "there is no attack 'rain'"),
        (["--only", "server", "--attacks", "pings"], "there is no attack 'pings'"),
        (["--only", "lab"], "invalid choice"),
    ],
)
def test_what_can_not_be_measured_is_refused(words, complaint):
    done = bench(*words)
    assert complaint in done.communicate()[1]
    assert done.returncode == 2


def of_session(mark: str) -> list[str]:
    """Programs with this word in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # it has ended
    return found


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_who_stops_it_finds_nothing_left(tmp_path, monkeypatch, how):
    """Ctrl-C or `kill` in the middle of a round: no program and no file stays."""
    if os.geteuid() or not all((paths.build() / "bin" / name).exists() for name in ("weir-switch", "weir-frames")):
        pytest.skip("needs root, weir-switch and weir-frames")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    mark = f"WEIR_TEST_MARK={tmp_path.name}-{os.getpid()}"
    monkeypatch.setenv(*mark.split("="))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with bench("--only", "switch", "--attacks", "pings", stdout=subprocess.DEVNULL) as stopped:
        for line in stopped.stderr:
            if "pings" in line:
                break
        time.sleep(1)
        assert any("weir-switch" in command for command in of_session(mark))
        stopped.send_signal(how)
        said = stopped.communicate(timeout=60)[1]
    assert stopped.returncode == 130, said
    assert said.splitlines()[-1] == "bench hostile: stopped"
    assert [command for command in of_session(mark) if "weir-" in command or "attacker" in command] == []
    assert list(tmp_path.iterdir()) == []
