# SPDX-License-Identifier: Apache-2.0
"""Files that are followed, `weir watch`, and `weir top` on a terminal."""

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import urllib.error
import urllib.request
from dataclasses import replace
from queue import SimpleQueue

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import CONTROLLER
from rich.console import Console

from weir.dataplane.base import Down, Note, Sample, Up
from weir.resources import PROFILES
from weir.settings import load
from weir.telemetry.jsonl import to_line
from weir.telemetry.source import End, Tail
from weir.telemetry.top import SORTS, Screen, sparkline
from weir.telemetry.view import Decision, View

TUNED = load(PROFILES / "tuned.toml")
ENVIRONMENT = {
    **os.environ,
    "COLUMNS": "200",
    "PYTHONPATH": str(CONTROLLER),
    "PYTHONDONTWRITEBYTECODE": "1",
}
WEIR = [sys.executable, "-m", "weir.cli"]


def sample(t_ms: int, port: str = "eth0", delay_us: int = 15000) -> Sample:
    return Sample(
        "bpf", port, t_ms * 1000, delay_us, 0.3, 0.09, 30000, 8_000_000, t_ms, t_ms * 1000, 0, t_ms // 10, 0, 5
    )


SAMPLES = [sample(t, port, 1000 * i) for t in range(0, 3000, 100) for i, port in enumerate(("eth0", "eth1", "wan7"))]
DECISION = {"k": "decision", "t_us": 1, "device": "bpf", "port": "eth1", "action": "trial", "reason": "it swings",
            "changed": {"kp": [32.0, 24.0], "integral": ["drop", "keep"]}, "dry_run": False}  # fmt: skip


def weir(*words, **more) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*WEIR, *map(str, words)], capture_output=True, text=True, timeout=60, env=ENVIRONMENT, **more
    )


@pytest.fixture
def recorded(tmp_path):
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(f"{to_line(each)}\n" for each in SAMPLES))
    return path


@pytest.fixture
def tailed():
    tails = []

    def start(path, follow):
        events = SimpleQueue()
        tails.append(Tail(path, events, follow))
        tails[-1].start()
        return lambda: events.get(timeout=60)

    yield start
    for tail in tails:
        tail.close()


def test_a_file_is_read_to_its_end_and_what_is_wrong_in_it_is_named(tmp_path, tailed) -> None:
    lines = [
        to_line(SAMPLES[0]),
        "",
        '{"k":"aqm"}',
        '{"k":"start","t_us":1}',
        json.dumps(DECISION),
        "[1]",
        "x" * 2_000_000,
    ]
    lines += ['{"k":"decision","device":1}'] * 8 + [to_line(SAMPLES[1])]
    (tmp_path / "s").write_text("\n".join(lines))
    get = tailed(tmp_path / "s", False)
    assert get() == SAMPLES[0]
    assert get() == Note(str(tmp_path / "s"), None, "line 3: device is missing; a sample must have it")
    assert get() == Decision(DECISION)
    assert get().text == "line 14: device = 1: must be text (10 such lines)"
    assert get() == SAMPLES[1]
    assert isinstance(get(), End)


def test_a_followed_file_may_come_late_grow_by_half_lines_and_be_replaced(tmp_path, tailed) -> None:
    path = tmp_path / "s"
    get = tailed(path, True)
    first, second = (to_line(each) for each in SAMPLES[:2])
    with open(path, "w") as file:
        file.write(first[:20])
        file.flush()
        file.write(f"{first[20:]}\n{second}\n")
    assert [get(), get()] == SAMPLES[:2]
    path.write_text(f"{first}\n")  # begun anew, shorter
    assert get() == SAMPLES[0]
    (tmp_path / "new").write_text(f"{second}\n" * 3)
    (tmp_path / "new").rename(path)
    assert [get(), get(), get()] == [SAMPLES[1]] * 3


def test_watch_gives_a_files_samples_back(recorded, tmp_path) -> None:
    done = weir("watch", "--from", recorded)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == recorded.read_text()
    done = weir("watch", "--from", recorded, "--count", "4", "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "out").read_text().splitlines() == recorded.read_text().splitlines()[:4]


def test_watch_says_what_is_wrong_with_samples(tmp_path) -> None:
    late = [SAMPLES[0], replace(SAMPLES[3], delay_us=7), SAMPLES[3], SAMPLES[0], replace(SAMPLES[6], device="\x1b[2J")]
    (tmp_path / "s").write_text("".join(f"{to_line(each)}\n" for each in late) + "nonsense\n")
    done = weir("watch", "--from", tmp_path / "s")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 5  # all of them, as they came
    assert [line.partition(": ")[2] for line in done.stderr.splitlines()] == [
        "bpf eth0: repeat: a second sample of 100000 us",
        "bpf eth0: time going back: 100000 us before the last sample",
        f"{tmp_path / 's'}: line 6: not a line of JSON: Expecting value: line 1 column 1 (char 0)",
    ]


def test_watch_serves_metrics_while_it_follows(recorded) -> None:
    for port in range(19400, 19500):
        words = ["watch", "--from", recorded, "--follow", "--metrics", str(port)]
        process = subprocess.Popen(
            [*WEIR, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
        with process:
            try:
                if not process.stdout.readline():
                    assert f"--metrics 127.0.0.1:{port}: Address already in use" in process.stderr.read()
                    continue
                for _ in range(len(SAMPLES) - 1):
                    process.stdout.readline()
                url = f"http://127.0.0.1:{port}/metrics"
                found = ""
                while 'weir_passed_packets_total{device="bpf",port="wan7"} 2900.0' not in found:
                    with urllib.request.urlopen(url, timeout=60) as answer:
                        found = answer.read().decode()
                with pytest.raises(urllib.error.HTTPError, match="404"):
                    urllib.request.urlopen(url + "/other", timeout=60)
                process.send_signal(signal.SIGINT)
                assert process.wait(timeout=60) == 0
                return
            finally:
                process.kill()
    pytest.fail("no port is free")


def test_a_reader_that_leaves_and_a_full_disk(recorded) -> None:
    longer = recorded.read_text() * 100  # more than a pipe holds
    recorded.write_text(longer)
    with subprocess.Popen(
        [*WEIR, "watch", "--from", recorded, "--follow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT,
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=60) == 0
    recorded.write_text(longer[: len(longer) // 100])
    done = weir("watch", "--from", recorded, "--out", "/dev/full")
    assert done.returncode == 1
    assert done.stderr.splitlines()[1:] == [f"weir: /dev/full: {len(SAMPLES)} lines are missing at its end"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*WEIR, "watch", "--from", recorded], stdout=full, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
    assert (done.returncode, done.stderr) == (1, "weir watch: error: standard output: No space left on device\n")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["watch", "--from", "no-such"], 2, "no-such: No such file or directory"),
        (["top", "--from", "no-such"], 2, "no-such: No such file or directory"),
        (["watch", "--from", "x", "--p4", "h:1"], 2, "--from: goes without --fleet, --bpf and --p4"),
        (["watch", "--follow"], 2, "--follow: goes with --from FILE; devices are followed anyway"),
        (["watch", "--metrics", "80x"], 2, "--metrics 80x: must be PORT or ADDRESS:PORT (127.0.0.1:9464)"),
        (["watch", "--count", "0"], 2, "argument --count: '0': must be a whole number above 0"),
        (["top", "--seconds", "x"], 2, "argument --seconds: 'x': must be a number of seconds"),
        (["watch", "--out", "/no/such"], 2, "/no/such: No such file or directory"),
    ],
)
def test_wrong_calls_are_named(words, status, said) -> None:
    done = weir(*words)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.splitlines()[-1] == f"weir {words[0]}: error: {said}"


def test_top_prints_a_table_where_there_is_no_terminal(recorded, tmp_path) -> None:
    (tmp_path / "d").write_text(json.dumps(DECISION) + "\n")
    done = weir("top", "--from", recorded, "--sort", "delay", "--decisions", tmp_path / "d", "--filter", "ETH")
    assert (done.returncode, done.stderr) == (0, "")
    head, columns, *rows = done.stdout.splitlines()
    assert "2 queues, 16Mbit/s, 200 drops/s" in head
    assert columns.split()[:4] == ["device", "port", "delay", "ms"]
    assert [row.split()[1] for row in rows] == ["eth1", "eth0"]
    assert "3 s ago: trial; it swings; kp 32 to 24, integral drop to keep" in rows[0]


def test_top_fails_where_no_queue_says_anything() -> None:
    done = weir("top", "--once", "--seconds", "0.5", "--bpf", "weirnone0")
    assert done.returncode == 1
    [said] = done.stderr.splitlines()
    assert said.startswith("weir top: no sample from any queue: bpf: ")


class Terminal:
    """A command on a terminal of 180 by 12."""

    def __init__(self, *words):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 180, 0, 0))
        self.before = termios.tcgetattr(theirs)
        self.process = subprocess.Popen(
            [*WEIR, *map(str, words)], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE,
            env={**ENVIRONMENT, "TERM": "xterm"},
        )  # fmt: skip
        self.ours, self.theirs, self.seen = ours, theirs, ""

    def until(self, text: str) -> None:
        self.seen = ""
        while text not in self.seen:
            assert select.select([self.ours], [], [], 20)[0], f"not seen in 20 s: {text}; but: {self.seen}"
            self.seen += os.read(self.ours, 65536).decode(errors="replace")

    def type(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        os.close(self.ours)
        os.close(self.theirs)


def test_top_on_a_terminal(recorded) -> None:
    with contextlib.closing(Terminal("top", "--from", recorded)) as terminal:
        terminal.until("3 queues")
        assert "port" in terminal.seen
        terminal.type(b"s")
        terminal.until("delay ms ▼")
        terminal.type(b"r")
        terminal.until("delay ms ▲")
        terminal.type(b"/wan\r")
        terminal.until("only: wan")
        assert "eth0" not in terminal.seen[terminal.seen.rindex("weir top") :]
        terminal.type(b"q")
        terminal.until("\x1b[?1049l")  # the screen as it was
        assert terminal.process.wait(timeout=60) == 0
        assert terminal.process.stderr.read() == b""
        assert termios.tcgetattr(terminal.theirs) == terminal.before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_top_gives_the_terminal_back_when_it_is_stopped(recorded, number) -> None:
    with contextlib.closing(Terminal("top", "--from", recorded)) as terminal:
        terminal.until("3 queues")
        terminal.process.send_signal(number)
        terminal.until("\x1b[?1049l")
        assert terminal.process.wait(timeout=60) == 0
        assert termios.tcgetattr(terminal.theirs) == terminal.before


def shown(screen: Screen, view: View, now_s: float = 1.0, width: int = 180, height: int = 12) -> list[str]:
    console = Console(width=width, height=height)
    with console.capture() as capture:
        console.print(screen.render(view, now_s, width, height))
    return capture.get().splitlines()


def many(ports: int) -> View:
    view = View()
    view.take(Up("s1", {}), 1.0)
    for t in (0, 100, 200):
        for port in range(ports):
            view.take(replace(sample(t, str(port), port), device="s1"), 1.0)
    return view


def test_a_thousand_ports_are_scrolled() -> None:
    view, screen = many(1000), Screen()
    lines = shown(screen, view)
    assert len(lines) <= 12
    assert lines[-1].startswith("1..8 of 1000")
    screen.keys(b"\x1b[B\x1b[6~")
    assert shown(screen, view)[-1].startswith("10..17 of 1000")
    screen.keys(b"\x1b[F")
    assert shown(screen, view)[-1].startswith("993..1000 of 1000")
    screen.keys(b"ss\x1b[H")
    screen.keys(b"\x1b[A")
    assert "probability" in screen.sort
    assert shown(screen, view)[-1].startswith("1..8 of")


@pytest.mark.parametrize("width", [80, 100, 120, 140, 200])
def test_no_column_is_cut(width) -> None:
    view = many(12)
    view.take(Up("s1", {str(port): TUNED for port in range(12)}), 1.0)
    for sort in SORTS:
        _, columns, *rows = shown(Screen(sort), view, width=width)
        assert "…" not in columns
        assert not any("…" in row for row in rows)


def test_what_is_down_or_old_is_said() -> None:
    view = many(2)
    view.take(Down("s1", "no answer \x1b[2J", 3.0), 2.0)
    lines = shown(Screen(), view)
    assert "0 devices up" in lines[0]
    assert "down: s1: no answer \\x1b[2J" in lines[0]
    assert "s1: no answer \\x1b[2J; tried again in 3.0 s" in lines[-2]


def test_an_old_reading_is_not_shown_as_if_it_were_new() -> None:
    """A queue that had a drop probability of 9 % and is silent now, beside one whose law has not stepped for 40 s."""
    view = View()
    view.take(Up("s1", {}), 1.0)
    for t in (0, 100):
        view.take(sample(t, "silent"), 1.0)
    for t in range(0, 13_000, 100):
        view.take(replace(sample(t, "idle"), drop_probability=0.0, age_us=40_000_000), 1.0 + t / 1000)
    silent, idle = (
        next(line for line in shown(Screen(), view, now_s=14.0) if name in line) for name in ("silent", "idle")
    )
    assert silent.split() == ["bpf", "silent", "13", "s"]
    assert " 0.00 " in idle
    assert "40 s" in idle
    assert " 9.00 " in next(line for line in shown(Screen(), view, now_s=3.0) if "silent" in line)
    # a recording does not grow old
    assert " 9.00 " in next(line for line in shown(Screen(recorded=True), view, now_s=14.0) if "silent" in line)


@given(st.binary(max_size=30))
def test_any_key_can_be_pressed(data) -> None:
    view, screen = many(3), Screen()
    screen.keys(data)
    shown(screen, view)


@given(st.lists(st.integers(0, 2**24 - 1), max_size=40), st.none() | st.integers(1, 2**24 - 1))
def test_sparklines_are_as_wide_as_their_column(delays, target_us) -> None:
    assert len(sparkline(delays, target_us)) == 24
