# SPDX-License-Identifier: Apache-2.0
"""weir-sojourn on the host's kernel (JIT) and in the exact lab (virtual time, no JIT, no BTF)."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from scene import FRAMES

from weirlab import paths
from weirlab.lab.kernels import ExactLab, HostLab, Job, LabError

REPO = paths.clone()

HERE = Path(__file__).resolve().parent
PACKET_US = 1014 * 8 / 10
"""A packet of the burst at 10 Mbit/s."""
BURST_US = 1540 * 8 / 10
CLOCK_US = 40
"""In the exact lab a call that would block takes 1 us; this is room for what happens while a packet is on its way."""


@pytest.fixture(scope="session")
def binary() -> Path:
    target = REPO / "build" / "xdp" / "weir-sojourn"
    made = subprocess.run(["make", "-s", "-C", REPO / "xdp", target], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return target


class Play:
    """Plays scenes in one lab, each once."""

    def __init__(self, lab, binary: Path, folder: Path) -> None:
        self.lab, self.binary, self.folder = lab, binary, folder
        self.exact = lab.name == "exact"
        self.seen: dict[str, dict] = {}

    def __call__(self, scene: str) -> dict:
        if scene not in self.seen:
            folder = self.folder / scene
            command = [sys.executable, str(HERE / "scene.py"), scene, str(self.binary)]
            done = self.lab.run(Job(command, folder, wall_limit_s=120, virtual_limit_s=100))
            assert done.status == 0, (done.stdout + done.stderr).decode()
            self.seen[scene] = json.loads((folder / "result.json").read_text())
        return self.seen[scene]


@pytest.fixture(scope="session", params=["host", "exact"])
def play(request: pytest.FixtureRequest, binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Play:
    if request.param == "host" and os.geteuid():
        pytest.skip("attaching programs on the host needs root")
    try:
        lab = {"host": HostLab, "exact": ExactLab}[request.param]()
    except LabError as reason:
        pytest.skip(str(reason))
    return Play(lab, binary, tmp_path_factory.mktemp(request.param))


def of(lines: list[dict], kind: str) -> list[dict]:
    return [line for line in lines if line["k"] == kind]


def test_a_burst_waits_as_long_as_the_rate_says(play) -> None:
    seen = play("burst")
    assert seen["status"] == 0
    packets, lost, (sampler,) = of(seen["lines"], "pkt"), of(seen["lines"], "lost"), of(seen["lines"], "sampler")
    assert (len(packets), len(lost)) == (sampler["matched"], sampler["lost"])
    assert len(packets) + len(lost) == sampler["stamped"] == 30
    assert [sampler[key] for key in ("inside", "collisions", "full", "strays", "ring_drops")] == [0] * 5
    assert len(packets) >= 21, "20 wait and one is sent at least"
    assert {line["bytes"] for line in packets + lost} == {1014}
    assert [line["ce"] for line in packets] == [0, 0, 1, 1] + [0] * (len(packets) - 4)
    exits_us = [line["t_us"] for line in packets]
    assert exits_us == sorted(exits_us)
    entries_us = [line["t_us"] - line["sojourn_us"] for line in packets]
    assert all(b >= a - 1 for a, b in pairwise(entries_us)), "first in, first out; each time is rounded down"
    for k, exit_us in enumerate(exits_us):  # a rate is a promise in one direction however slow the machine is
        assert exit_us - exits_us[0] >= k * PACKET_US - BURST_US - PACKET_US
    if play.exact:
        assert lost
        for k in range(3, len(packets)):
            assert packets[k]["t_us"] - packets[2]["t_us"] == pytest.approx((k - 2) * PACKET_US, abs=CLOCK_US)
            waited = packets[k]["sojourn_us"] - packets[2]["sojourn_us"]
            entered = entries_us[k] - entries_us[2]
            assert waited == pytest.approx((k - 2) * PACKET_US - entered, abs=CLOCK_US)


def test_queue_lines_follow_from_the_packets(play) -> None:
    seen = play("burst")
    packets, queue = of(seen["lines"], "pkt"), of(seen["lines"], "queue")
    spans = [(line["t_us"] - line["sojourn_us"], line["t_us"]) for line in packets]
    assert {b["t_us"] - a["t_us"] for a, b in pairwise(queue)} <= {1999, 2000, 2001}
    assert max(line["backlog_packets"] for line in queue) > 1
    for line in queue:
        at_us = line["t_us"]
        surely = sum(entry + 1 < at_us < exit - 1 for entry, exit in spans)
        perhaps = sum(entry - 1 <= at_us <= exit + 1 for entry, exit in spans)
        assert surely <= line["backlog_packets"] <= perhaps
        assert line["backlog_bytes"] == 1014 * line["backlog_packets"]


def test_frames_pass_bit_for_bit_and_ip_is_timed(play) -> None:
    seen = play("transparent")
    assert seen["status"] == 0
    assert seen["with"] == seen["without"]
    assert len(seen["with"]) == len(FRAMES)
    (sampler,) = of(seen["lines"], "sampler")
    timed = [(name, frame) for name, frame, is_timed in FRAMES if is_timed]
    packets = of(seen["lines"], "pkt")
    assert sampler["stamped"] == sampler["matched"] == len(packets) == len(timed)
    assert [line["bytes"] for line in packets] == [len(frame) for _, frame in timed]
    assert [name for (name, _), line in zip(timed, packets, strict=True) if line["ce"]] == ["ce"]
    assert [name for (name, _), line in zip(timed, packets, strict=True) if line["low"]] == ["ce", "ect1"]


def test_packets_alike_are_counted_and_not_mixed_up(play) -> None:
    seen = play("same_packets")
    (sampler,) = of(seen["lines"], "sampler")
    assert [sampler[key] for key in ("stamped", "matched", "collisions", "strays")] == [21, 21, 1, 1]
    packets = of(seen["lines"], "pkt")
    assert [line["bytes"] for line in packets] == [1442] * 20 + [len(FRAMES[0][1])]
    assert len({line["flow"] for line in packets[:20]}) == 1
    assert packets[20]["flow"] != packets[0]["flow"] != 0
    exits_us = [line["t_us"] for line in packets]
    assert exits_us == sorted(exits_us)


def test_it_attaches_detaches_and_survives_being_killed(play) -> None:
    seen = play("life")
    assert seen["before"] == []
    attached = "\n".join(seen["attached"])
    assert attached.count("clsact") == 2
    assert "pref 65520 bpf chain 0 handle 0x1 sojourn_entry" in attached
    assert "pref 1 bpf chain 0 handle 0x1 sojourn_exit" in attached
    status, stdout, stderr, left_a_file = seen["rival"]
    assert (status, stdout, left_a_file) == (1, "", False)
    assert stderr == "weir-sojourn: sb: another weir-sojourn is attached to this side of it\n"
    assert seen["with rival"] == seen["attached"] == seen["killed"]
    assert len(seen["restarted"]) == len(seen["attached"])
    assert seen["second status"] == 0
    assert len(of(seen["second lines"], "pkt")) == 1
    assert seen["after second"] == []
    for kept in (seen["foreign clsact"], seen["foreign filter on ours"]):
        assert any("clsact" in line for line in kept)
        assert any("u32" in line for line in kept)
        assert not any("sojourn" in line for line in kept)
    assert seen["device gone"] == 0


def test_both_ways_at_once_and_after_what_drops(play) -> None:
    seen = play("both_ways")
    assert seen["status"] == 0
    counted = {line["hop"]: line for line in of(seen["lines"], "sampler")}
    sent = 4 + (1 if seen["dropping"] else 3)  # packets dropped by an earlier filter never entered the queue
    assert counted["there"]["stamped"] == counted["there"]["matched"] == sent
    assert counted["back"]["stamped"] == counted["back"]["matched"] >= 4
    assert counted["there"]["lost"] == counted["back"]["lost"] == 0
    assert not any("sojourn" in line for line in seen["hooks"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no --hop; see --help"),
        (["--hop", "a:lo:lo"], "no --out; see --help"),
        (["--out"], "--out: a value must follow; see --help"),
        (["--speed", "1"], "--speed: no such option; see --help"),
        (["--hop", "a:lo"], "--hop a:lo: must be NAME:DEV[@NETNS]:PEER[@NETNS]"),
        (["--hop", 'q":lo:lo'], "NAME of letters, digits and _.-"),
        (["--hop", "a:nosuchdev:lo"], "--hop a:nosuchdev:lo: no interface nosuchdev"),
        (["--hop", "a:lo:lo@/nonexistent"], "/nonexistent: can't enter this network namespace: No such file"),
        (["--hop", "a:lo:lo@/etc/passwd"], "/etc/passwd: can't enter this network namespace: it is not one"),
        (["--every-ms", "0"], "--every-ms 0: must be a whole number of milliseconds, 1 .. 3600000"),
        (["--lost-after-ms", "3s"], "--lost-after-ms 3s: must be a whole number"),
        (["--one-in", "0"], "--one-in 0: must be a whole number, 1 .. 1000"),
    ],
)
def test_wrong_use_is_one_line(binary: Path, arguments: list[str], message: str) -> None:
    if os.geteuid() and "can't enter" in message:
        pytest.skip("entering namespaces needs root")
    done = subprocess.run([binary, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("weir-sojourn: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_permission_it_says_so(binary: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the clone's own may be root's alone
        out = Path(folder) / "x.jsonl"
        argv = [shutil.copy(binary, folder), "--hop", "a:lo:lo", "--out", out]
        if not os.geteuid():
            argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *argv]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd="/")
        assert done.returncode == 1
        assert "not permitted (needs root" in done.stderr
        assert done.stderr.count("\n") == 1
        assert not out.exists()


def test_a_file_that_can_t_be_written_leaves_nothing_attached(binary: Path, tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("attaching programs on the host needs root")
    script = f"ip link set lo up; {binary} --hop a:lo:lo --out {tmp_path}/no/such/file; echo $?; tc qdisc show dev lo"
    done = subprocess.run(["unshare", "-n", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[0] == "1"
    assert "clsact" not in done.stdout
    assert done.stderr == f"weir-sojourn: --out {tmp_path}/no/such/file: No such file or directory\n"
