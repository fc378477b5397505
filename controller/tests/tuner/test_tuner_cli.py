# SPDX-License-Identifier: Apache-2.0
"""`weir tune`: the shell between devices and tuners, and its command line."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue

import pytest
from places import CONTROLLER
from tuner_rig import STEEP, Line

from weir.dataplane.base import DataPlaneError, Device, Down, Event, GainsChanged, Note, Up
from weir.dataplane.bpf import BpfDevice
from weir.dataplane.fleet import Fleet
from weir.gains import Gains
from weir.telemetry.view import View
from weir.tuner.cli import UNJUDGED_MOST, Shell, _Resume, _Rtt, human, main, record, utc
from weir.tuner.decision import Decision, Settings
from weir.tuner.memory import Memory

AT = "2026-01-31T10:00:00.000Z"


class LineDevice(Device):
    """A simulated line as a device. `refuses`: why it can't be written to."""

    def __init__(self, name: str, line: Line):
        self.name, self.line, self.refuses = name, line, ""
        self.writes: list[Gains] = []

    def start(self, events: SimpleQueue[Event]) -> None:
        events.put(Up(self.name, self.read_gains()))

    def read_gains(self) -> dict[str, Gains]:
        return {"p1": self.line.gains}

    def write_gains(self, port: str, gains: Gains) -> None:
        if self.refuses:
            raise DataPlaneError(f"{self.name}: {port}: {self.refuses}")
        self.writes.append(gains)
        self.line.set(gains)

    def close(self) -> None:
        pass


class Bench:
    """A shell over simulated lines; `run` lets time pass and hands it the samples."""

    def __init__(self, lines: dict[str, Line], memory: Memory | None = None, **settings):
        self.devices = {name: LineDevice(name, line) for name, line in lines.items()}
        self.fleet = Fleet(list(self.devices.values()))
        self.told: list = []
        self.shell = Shell(self.fleet, Settings(**settings), self.told.append, self.now_us, memory)
        self.fleet.start()
        self.drain()

    def now_us(self) -> int:
        return round(max(device.line.now_s for device in self.devices.values()) * 1e6)

    def drain(self) -> None:
        """Until all is judged and written."""
        while True:
            try:
                writing = bool(self.shell.writing)
                self.shell.event(self.fleet.events.get(timeout=60 if writing else 0))
            except Empty:
                assert not writing, "a write has no end"
                self.shell.judge()
                if not self.shell.writing:
                    return

    def run(self, seconds: float) -> list:
        before = len(self.told)
        for _ in range(round(seconds * 10)):
            for name, device in self.devices.items():
                device.line.run(device.line.now_s + 0.1)
                sample = device.line.sample()
                self.fleet.events.put(
                    type(sample)(**{**{f: getattr(sample, f) for f in sample.__slots__}, "device": name})
                )
            self.drain()
        return self.told[before:]


def actions(told: list) -> list[str]:
    return [one.action for one in told if isinstance(one, Decision)]


def test_each_port_gets_gains_of_its_own():
    lines = {"slow": Line(1e6, 0.02, 3, STEEP), "fast": Line(20e6, 0.02, 6, STEEP)}
    bench = Bench(lines, hold_target=True, target_us=12_000)
    told = bench.run(5)
    assert {one.device for one in told if one.action == "set"} == {"slow", "fast"}
    slow, fast = (bench.devices[name].line.gains for name in ("slow", "fast"))
    assert fast.interval_us < slow.interval_us
    assert fast.kp > slow.kp
    for one in told:
        assert "\n" not in human(one, AT)
        assert one.reason in human(one, AT)


def test_a_device_that_refuses_keeps_its_gains_and_is_told_of(capsys: pytest.CaptureFixture):
    bench = Bench({"d": Line(10e6, 0.02, 5, STEEP)}, target_us=12_000)
    bench.devices["d"].refuses = "read-only today"
    told = bench.run(3)
    assert "hold" in actions(told)
    assert any("read-only today" in one.reason for one in told)
    assert bench.devices["d"].line.gains == STEEP
    bench.devices["d"].refuses = ""
    bench.run(6)
    assert bench.devices["d"].writes


def test_down_and_up_and_an_operators_hand(capsys: pytest.CaptureFixture):
    bench = Bench({"d": Line(10e6, 0.02, 5, STEEP)}, hold_target=True, target_us=12_000)
    bench.run(3)
    gains = bench.devices["d"].line.gains
    for event in (Down("d", "no answer", 1.0), Up("d", {"p1": gains}), Note("d", "p1", "a gap")):
        bench.shell.event(event)
    assert actions(bench.told)[-2:] == ["hold", "resume"]
    bench.shell.event(GainsChanged("d", "p1", STEEP))
    bench.devices["d"].line.set(STEEP)
    writes = len(bench.devices["d"].writes)
    assert actions(bench.told)[-1] == "stand-down"
    assert bench.run(3) == []
    assert len(bench.devices["d"].writes) == writes
    errors = capsys.readouterr().err
    assert "weir: d: no answer; tried again in 1.0 s" in errors
    assert "weir: d:p1: a gap" in errors


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "no devices: give --fleet FILE, --bpf DEV or --p4 HOST:PORT"),
        (["--bpf", "eth0", "--rtt-ms", "0"], "--rtt-ms 0: must be 0.01 .. 10000 ms"),
        (["--bpf", "eth0", "--target-ms", "nan"], "--target-ms nan: must be 0.1 .. 16777.2 ms"),
        (["--bpf", "eth0", "--capacity-mbit-s", "-1"], "--capacity-mbit-s -1: must be "),
        (["--bpf", "eth0", "--loss-price", "-1"], "--loss-price -1: must be 0 .. 100 % a ms"),
        (["--bpf", "eth0", "--phase-margin-deg", "100"], "--phase-margin-deg 100: must be 5 .. 85 degrees"),
        (["--fleet", "nix.toml"], "--fleet nix.toml: No such file or directory"),
        (["--fleet", "nix.toml", "--bpf", "eth0"], "--fleet: goes without --bpf and --p4"),
        (["--fleet", "nix.toml", "--election-id", "2"], "--election-id: is of --p4"),
        (["--bpf", "eth0", "--metrics", "nowhere:1"], "--metrics nowhere:1: must be PORT or ADDRESS:PORT"),
        (["--bpf", "a b"], "--bpf a b: must be DEV"),
    ],
)
def test_bad_words_are_named(words: list[str], told: str, capsys: pytest.CaptureFixture):
    assert main(words) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("weir tune: error: ")
    assert told in errors
    assert errors.count("\n") == 1


def test_what_cannot_be_opened_is_named(tmp_path: Path, capsys: pytest.CaptureFixture):
    assert main(["--bpf", "eth0", "--decisions", str(tmp_path / "no" / "d.jsonl")]) == 2
    assert f"--decisions {tmp_path}/no/d.jsonl: No such file or directory" in capsys.readouterr().err
    assert main(["--bpf", "eth0", "--observe-rtt", "weirnone0"]) == 1
    assert "weirnone0" in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["--bpf", "eth0", "--metrics", place]) == 1
    assert f"--metrics {place}: Address already in use" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_says_when_it_is_ready_and_ends_when_told(tmp_path: Path, number: int):
    environment = {**os.environ, "PYTHONPATH": str(CONTROLLER), "PATH": str(tmp_path)}
    words = ["tune", "--bpf", "weirnone0", "--decisions", str(tmp_path / "d.jsonl")]
    with subprocess.Popen(
        [sys.executable, "-m", "weir.cli", *words], env=environment, text=True, stderr=subprocess.PIPE
    ) as process:
        lines = iter(process.stderr.readline, "")
        assert "weir-xdp" in next(lines)  # there is none on that PATH, which is said and tried again
        assert "tuning\n" in lines
        process.send_signal(signal.SIGUSR1)  # resumes what stood down: nothing here, and no end
        process.send_signal(number)
        assert process.wait(timeout=60) == 0
    assert (tmp_path / "d.jsonl").read_text() == ""


def test_a_tuner_of_ebpf_queues_starts_with_the_standard_library_alone():
    heavy = "numpy", "scipy", "control", "grpc", "google", "rich", "pydantic", "prometheus_client"
    code = f"import sys, weir.tuner.cli; print([name for name in {heavy!r} if name in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(CONTROLLER)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_lines_for_programs_have_their_keys():
    bench = Bench({"d": Line(10e6, 0.02, 5, STEEP)}, target_us=12_000)
    [line, *_] = bench.run(2)
    found = json.loads(json.dumps(record(line, utc(1769853600.0625))))
    assert found["at"] == "2026-01-31T10:00:00.062Z"
    assert list(found) == [
        "k", "at", "t_us", "device", "port", "action", "reason", "changed", "capacity_bit_s", "rtt_ms", "rtt_source",
        "flows", "stable", "phase_margin_deg", "gain_margin_db", "settling_s", "dry_run",
    ]  # fmt: skip
    assert found["rtt_source"] == "assumed"
    assert found["changed"]["target_us"] == [STEEP.target_us, bench.devices["d"].writes[0].target_us]


def test_lines_that_cannot_be_told_stop_nothing(tmp_path: Path):
    """A full disk behind standard output, and standard error too: gains are written first, and the tuner goes on."""
    code = (
        "import test_tuner_cli as t; from weir.tuner.cli import _Output\n"
        "output = _Output(lambda: None)\n"
        "bench = t.Bench({'d': t.Line(10e6, 0.02, 5, t.STEEP)}, hold_target=True, target_us=12_000)\n"
        "bench.shell.tell = lambda line: output.line(t.human(line, t.AT))\n"
        "bench.shell.event(t.Note('d', 'p1', 'a gap'))\n"
        "bench.run(3)\n"
        "output.close()\n"
        f"open({str(tmp_path / 'writes')!r}, 'w').write(str(len(bench.devices['d'].writes)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{CONTROLLER}:{CONTROLLER / 'tests'}:{Path(__file__).parent}"}
    for both in (False, True):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [sys.executable, "-c", code], env=environment, stdout=full, text=True,
                stderr=full if both else subprocess.PIPE,
            )  # fmt: skip
        # an interpreter whose standard error is full ends with 120 whatever it did
        assert done.returncode in ((0, 120) if both else (0,)), done.stderr
        assert int((tmp_path / "writes").read_text()) > 0
        if not both:
            assert done.stderr.count("standard output: No space left on device; tuning goes on") == 1
        (tmp_path / "writes").unlink()


def test_orders_to_the_shell_are_not_for_those_who_watch_events():
    bench = Bench({"d": Line(10e6, 0.02, 5, STEEP)}, hold_target=True, target_us=12_000)
    view = View()
    bench.shell.on_event.append(lambda event: view.take(event, 0.0))
    bench.run(3)
    bench.shell.event(GainsChanged("d", "p1", STEEP))
    bench.shell.event(_Resume())
    assert actions(bench.told)[-1] == "resume"
    assert view.ports["d", "p1"].gains["kp"] == STEEP.kp


def test_a_device_that_is_slow_to_write_keeps_no_other_waiting(capsys: pytest.CaptureFixture):
    bench = Bench(
        {"slow": Line(4e6, 0.02, 3, STEEP), "fast": Line(20e6, 0.02, 6, STEEP)}, hold_target=True, target_us=12_000
    )
    go_on = threading.Event()
    slow, fast = bench.devices["slow"], bench.devices["fast"]
    write = slow.write_gains

    def late(port: str, gains: Gains) -> None:
        assert go_on.wait(60)
        write(port, gains)

    slow.write_gains = late
    drain = bench.drain

    def impatient() -> None:
        while True:
            try:
                bench.shell.event(bench.fleet.events.get(timeout=60 if bench.shell.writing - {("slow", "p1")} else 0))
            except Empty:
                bench.shell.judge()
                if not bench.shell.writing - {("slow", "p1")}:
                    return

    bench.drain = impatient
    bench.run(8)
    assert fast.writes
    assert not slow.writes
    assert len(bench.shell.unjudged["slow", "p1"]) == UNJUDGED_MOST
    assert "weir: slow:p1: 10 samples passed over" in capsys.readouterr().err
    go_on.set()
    bench.drain = drain
    bench.run(1)
    assert slow.writes
    assert not bench.shell.unjudged["slow", "p1"]
    bench.shell.close()


def test_a_round_trip_is_that_of_the_port_it_was_seen_at():
    fleet = Fleet([BpfDevice("here", ["q0", "q1"]), BpfDevice("blue", ["q0"], netns="blue"), BpfDevice("s", ["q9"])])
    shell = Shell(fleet, Settings(), lambda line: None)

    shell.event(Up("s", {"q9": STEEP}))
    assert [tuner.port for tuner in shell.passed_by("lan0", None)] == ["q9"]  # the only one there is
    shell.event(Up("here", {"q0": STEEP, "q1": STEEP}))
    shell.event(Up("blue", {"q0": STEEP}))
    for place, device in ((("q0", None), "here"), (("q0", "blue"), "blue"), (("q0", "/run/netns/blue"), "blue")):
        assert [tuner.device for tuner in shell.passed_by(*place)] == [device]
    assert shell.passed_by("lan0", None) == []
    shell.event(_Rtt("q1", None, 40_000, "handshakes"))
    told = {key: tuner.operator_set(replace(STEEP, kp=1.0), 1)[0].rtt_ms for key, tuner in shell.tuners.items()}
    assert told == {("s", "q9"): 100, ("here", "q0"): 100, ("here", "q1"): 40, ("blue", "q0"): 100}


def test_the_next_tuner_knows_the_operators_target(tmp_path):
    line = Line(10e6, 0.02, 10, STEEP)
    first = Bench({"d": line}, Memory(tmp_path), loss_price=5.0)
    first.run(16)
    assert line.gains.target_us < 15_000
    second = Bench({"d": line}, Memory(tmp_path), loss_price=5.0)
    assert second.shell.tuners["d", "p1"].base.target_us == 15_000

    line.gains = replace(line.gains, kp=30.0)  # by hand, and not about the target
    second.shell.event(GainsChanged("d", "p1", line.gains))
    third = Bench({"d": line}, Memory(tmp_path), loss_price=5.0)
    assert third.shell.tuners["d", "p1"].base.target_us == 15_000

    line.gains = replace(line.gains, target_us=4_000)
    third.shell.event(GainsChanged("d", "p1", line.gains))
    assert Bench({"d": line}, Memory(tmp_path), loss_price=5.0).shell.tuners["d", "p1"].base.target_us == 4_000
