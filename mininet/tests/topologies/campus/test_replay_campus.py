# SPDX-License-Identifier: Apache-2.0
"""`./run replay`: a run that is over, in a Prometheus of its own."""

import gzip
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import pytest
from boards_rig import board_queries, tool

from weir.sample import Sample
from weirlab import paths
from weirlab.metrics.samples import SamplesError
from weirlab.run.replay import ReplayError, history, read

PATIENCE_S = 60
DAY_S = 1_767_225_600
CONTROLLER = ("Queue", "Share", "What the next", "Throughput", "Backlog", "Gains", "Times", "Decisions", "Devices")


def aqm(device: str, port: str, t_us: int, n: int) -> dict:
    return {
        "k": "aqm", "t_us": t_us, "device": device, "port": port, "backlog_bytes": 3000, "tau_us": 4000 + n, "u": 0.1,
        "drop_probability": 0.01, "dq_rate_bit_s": 8_000_000, "seen": 10 * n, "passed_bytes": 9000 * n, "marks": n // 5,
        "drops_aqm": n, "drops_limit": 0, "row": 5, "age_us": 50, "rate_age_us": 50,
    }  # fmt: skip


def lines() -> list[dict]:
    """Ten seconds of a router's queue, and of a switch that was started again in the middle: its clock and its counts
    are then at 0 again."""
    found = [
        {"k": "start", "t_us": 17_000_000, "time_of_day_us": DAY_S * 10**6},
        {"k": "clock", "t_us": 17_000_000, "node": "edge1", "started_us": 16_000_000},
        {"k": "clock", "t_us": 22_000_000, "node": "edge1", "started_us": 22_000_000},
    ]
    for n in range(100):
        found.append(aqm("core", "bb", 17_000_000 + n * 100_000, n))
        again = n >= 60
        found.append(aqm("edge1", "0", (n * 100_000 - 5_000_000) if again else 1_000_000 + n * 100_000, n - 60 * again))
    decided = {"device": "core", "port": "bb", "t_us": 25_000_000, "at": "2026-01-01T00:00:08.000Z"}
    changed = {"target_us": [15000, 10000], "m1_us": [20000, 13333]}
    found.append({"k": "decision", **decided, "action": "set", "changed": changed})
    # PBQ's decisions are not the controller's.
    return [
        *found,
        {"k": "decision", "n": 3, "state": [0.0], "action": 0.5, "t_us": 20_000_000},
        {"k": "flow", "t_us": 1},
    ]


def folder_of(tmp_path, content: list[dict]):
    with gzip.open(tmp_path / "samples.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in content)
    (tmp_path / "spec.json").write_text(
        json.dumps({"topology": "campus", "law": {"profile": "tuned", "target_us": 15000}})
    )
    return tmp_path


def test_events_are_in_order_by_the_time_of_day(tmp_path):
    events = read(folder_of(tmp_path, lines()))
    times = [at for at, _ in events]
    assert times == sorted(times)
    assert len(times) == 2 + 201  # each device answers, and then there are samples and a decision
    assert (times[0], times[-1]) == (DAY_S, pytest.approx(DAY_S + 9.9))
    at_switch = [at - DAY_S for at, event in events if isinstance(event, Sample) and event.device == "edge1"]
    assert at_switch[:2] == pytest.approx([0.0, 0.1])
    assert at_switch[60:62] == pytest.approx([6.0, 6.1])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], "no start of the run in it"),
        ([lines()[0], {**aqm("core", "bb", 17_000_000, 1), "u": 7}], "line 2: u = 7: must be a probability"),
        ([lines()[0], {"k": "aqm", "t_us": 1}], "line 2: device is missing; a sample must have it"),
        ([lines()[0], {"k": "clock", "node": "edge1"}], "line 2: not a line of the run's clocks"),
        ([lines()[0], {"k": "decision", "device": "a", "port": "b"}], "line 2: a decision without its time"),
    ],
)
def test_a_damaged_file_is_refused_with_its_line(tmp_path, content, words):
    with pytest.raises(SamplesError, match=words):
        read(folder_of(tmp_path, content))


def test_half_a_file_is_refused(tmp_path):
    path = folder_of(tmp_path, lines()) / "samples.jsonl.gz"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(SamplesError, match="damaged"):
        read(tmp_path)


def test_a_folder_that_is_none_of_such_a_run_is_refused(tmp_path):
    with pytest.raises(
        ReplayError,
        match=r"spec.json: No such file or directory; give the folder of one run, as results/.../runs/all/seed-1",
    ):
        read(tmp_path)
    (folder_of(tmp_path, lines()) / "samples.jsonl.gz").unlink()
    with pytest.raises(ReplayError, match=r"no samples\.jsonl\.gz in it"):
        read(tmp_path)
    with pytest.raises(ReplayError, match="the run had no controller"):
        read(folder_of(tmp_path, [lines()[0]]))
    (tmp_path / "spec.json").write_text('{"topology": "dumbbell"}')
    with pytest.raises(ReplayError, match="the run had no controller"):
        read(tmp_path)


def test_the_text_is_the_same_each_time(tmp_path):
    folder = folder_of(tmp_path, lines())
    assert history(read(folder)) == history(read(folder))


def ask(port: int, what: str, **parameters: object) -> dict:
    url = f"http://127.0.0.1:{port}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as found:
        return json.load(found)["data"]


def test_the_board_finds_the_run(tmp_path):
    """Each panel about queues and their controller has data from Prometheus, for the time of the run."""
    tool("prometheus")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = folder_of(tmp_path, lines())
    words = [sys.executable, "-m", "weirlab.cli", "replay", str(folder), "--port", str(port)]
    environment = {"PYTHONPATH": paths.import_path(), "WEIR_ROOT": str(paths.clone()), "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "2026-01-01 00:00:00 to 2026-01-01 00:00:09 UTC" in process.stdout.readline()
            deadline = time.monotonic() + PATIENCE_S
            while not _answers(port):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
            silent = []
            for name, query in board_queries().items():
                of_queues = name.startswith(CONTROLLER) and " by " not in name  # a run has neither
                if of_queues and not ask(port, "query", query=query, time=DAY_S + 10)["result"]:
                    silent.append(name)
            assert silent == []
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 128 + signal.SIGINT


def _answers(port: int) -> bool:
    try:
        return bool(ask(port, "query", query="up", time=DAY_S + 10)["result"])
    except OSError:
        return False
