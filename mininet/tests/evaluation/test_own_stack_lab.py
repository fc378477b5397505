# SPDX-License-Identifier: Apache-2.0
"""A congestion control of one's own gets its results by one command: as a program on another stack, in Python, and as a
type in the QUIC library, in Rust. A server that fails is named with its log."""

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile

import pytest

from weirlab import paths

SUITE = """\
title = "Tiny"
folder = "few"
seeds = 1
peers = ["cubic"]
[controls.cubic]
stack = "quiche"
cc = "cubic"
[[groups]]
name = "all"
title = "All"
scenarios = ["tiny"]
"""
TINY = """\
[scenario]
name = "tiny"
title = "Tiny"
compares = "senders"
duration_s = 5
warmup_s = 1
[link.access]
rate_mbit_s = 50
delay_ms = 1
[link.bottleneck]
rate_mbit_s = 5
delay_ms = 20
queue_limit_packets = 50
[[flows]]
kind = "quic-download"
count = 2
[variants.fifo]
qdisc = "pfifo"
"""
FIXED_WINDOW = """\
import asyncio, sys

sys.path.insert(0, "{tests}")
import aioquic_server
from aioquic.quic.congestion.base import register_congestion_control
from aioquic.quic.congestion.reno import RenoCongestionControl


class FixedWindow(RenoCongestionControl):
    def on_packet_acked(self, *, now, packet):
        self.bytes_in_flight -= packet.sent_bytes
        self.congestion_window = 7060

    def on_packets_lost(self, *, now, packets):
        self.on_packets_expired(packets=packets)


register_congestion_control("fixed", FixedWindow)
asyncio.run(aioquic_server.main())
"""
WINDOW_BYTES, RTT_S = 7060, 0.042


@pytest.fixture
def suite(tmp_path):
    """A suite over one small scenario; its path."""
    (tmp_path / "few").mkdir()
    (tmp_path / "few" / "tiny.toml").write_text(TINY)
    (tmp_path / "mine.toml").write_text(SUITE)
    return tmp_path / "mine.toml"


def program(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


def evaluate(suite, *words):
    """`./run evaluate` on the suite, with its results beside it."""
    folder = suite.parent
    command = [sys.executable, "-m", "weirlab.cli", "evaluate", "--suite", str(suite), "--json", "--jobs", "1"]
    command += ["--cache", str(folder / "cache"), "--out", str(folder / "out"), *map(str, words)]
    environment = {"PYTHONPATH": paths.import_path(), "PATH": "/usr/bin:/bin", "HOME": str(paths.Path.home())}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def rows(suite):
    with (suite.parent / "out" / "all.csv").open() as file:
        return {row["variant"]: row for row in csv.DictReader(file)}


def scenarios_of_page(suite, control):
    """Scenarios with a line in a table of the control's page."""
    lines = (suite.parent / "out" / "controls" / f"{control}.md").read_text().splitlines()
    assert any(control in line for line in lines if line.startswith("# "))
    return {line.split("|")[1].strip() for line in lines if line.startswith("|")}


@pytest.mark.parametrize("alpn", ["hq-interop", "perf"])
def test_a_program_on_another_stack_gets_its_results_by_one_command(suite, exact, alpn):
    text = f"#!{paths.build()}/venv/bin/python\n" + FIXED_WINDOW.format(tests=paths.clone() / "tests" / "quic")
    server = program(suite.parent / "fixed-window", text)
    argv = "--listen {address}:{port} --cert {cert} --key {key} --max-payload {payload} --cc fixed"
    words = ["--stack", server, "--stack-argv", argv, "--stack-alpn", alpn]
    done = evaluate(suite, *words)
    assert done.returncode == 0, done.stderr
    runs = {run["variant"]: run["metrics"] for run in json.loads(done.stdout)["runs"]}
    assert list(runs) == ["cubic", "fixed-window"]
    assert rows(suite).keys() == runs.keys()
    assert "tiny" in scenarios_of_page(suite, "fixed-window")
    figures = runs["fixed-window"]
    # Two flows of a window each round trip, less headers, with nothing in the queue.
    assert figures["wire_mbit_s"] == pytest.approx(2 * WINDOW_BYTES * 8 / RTT_S / 1e6, rel=0.15)
    assert 42 < figures["rtt_mean_ms"] < 50
    again = evaluate(suite, *words)
    assert (again.returncode, again.stdout) == (0, done.stdout)
    assert " at a time" not in again.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#!/bin/sh\necho 'bad option' >&2\nexit 3\n", "broken ended early (status 3); its log ends with: bad option"),
        ("#!/bin/sh\nexec sleep 100\n", "broken listens at no UDP port 4433"),
        ("#!/usr/bin/python3\nimport socket, sys, time\ns = socket.socket(type=socket.SOCK_DGRAM)\n"
         "s.bind(('0.0.0.0', int(sys.argv[1])))\ntime.sleep(100)\n", "broken sent nothing for GET /bytes/"),
    ],
    ids=["ends", "is silent", "answers nothing"],
)  # fmt: skip
def test_a_server_that_fails_is_named_with_its_log(suite, exact, text, said):
    server = program(suite.parent / "broken", text)
    done = evaluate(suite, "--stack", server, "--stack-argv", "{port}", "--only", "tiny/broken")
    assert done.returncode == 1
    assert said in done.stderr


SHORT = """\
import asyncio, sys

sys.path.insert(0, "{tests}")
import aioquic_server

aioquic_server.size = lambda path: 20_000
asyncio.run(aioquic_server.main())
"""


def test_a_download_that_ends_before_the_run_is_no_result(suite, exact):
    text = f"#!{paths.build()}/venv/bin/python\n" + SHORT.format(tests=paths.clone() / "tests" / "quic")
    server = program(suite.parent / "short", text)
    done = evaluate(suite, "--stack", server, "--stack-alpn", "hq-interop", "--only", "tiny/short")
    assert done.returncode == 1
    assert "ended after 20000 bytes; it has to last for the whole run" in done.stderr


RUST_TYPE = """\
use super::control::CongestionControl;

pub struct FixedWindow;

impl CongestionControl for FixedWindow {
    fn window_bytes(&self) -> Option<usize> {
        Some(7060)
    }
}
"""
RUST_ROW = """\
    ControlKind {
        name: "fixed-window",
        help: "The same window for ever",
        algorithm: Algorithm::CUBIC,
        make: |_, _| Box::new(super::fixed_window::FixedWindow),
        profile: None,
        l4s: false,
    },
];"""


def with_a_type(folder):
    """A copy of the QUIC programs' sources with one more congestion control."""
    for name in ("quic-client", "icn"):
        shutil.copytree(paths.clone() / name, folder / name, ignore=shutil.ignore_patterns("target", "bench", "fuzz"))
    congestion = folder / "quic-client" / "core" / "src" / "congestion"
    (congestion / "fixed_window.rs").write_text(RUST_TYPE)
    module, table = congestion / "mod.rs", congestion / "controls.rs"
    module.write_text(module.read_text().replace("mod driver;", "mod driver;\nmod fixed_window;", 1))
    before, name, rest = table.read_text().partition("pub const CONTROLS")
    table.write_text(before + name + rest.replace("];", RUST_ROW, 1))
    return folder / "quic-client" / "Cargo.toml"


def test_a_type_in_rust_gets_its_results_by_one_command(suite, exact):
    built = paths.build() / "cargo" / "release"
    if shutil.which("cargo") is None or not (built / "weir-server").exists():
        pytest.skip("cargo or the programs of ./run server are missing")
    manifest, server = with_a_type(suite.parent / "source"), suite.parent / "fixed-window"
    with tempfile.TemporaryDirectory(prefix="cargo-own-", dir=paths.build()) as target:
        release = paths.Path(target) / "release"
        release.mkdir()
        for name in (".fingerprint", "build", "deps"):  # as the clone has built them
            shutil.copytree(built / name, release / name, copy_function=os.link)
        words = ["cargo", "build", "--release", "--locked", "--manifest-path", manifest]
        environment = {**os.environ, "CARGO_TARGET_DIR": target}
        done = subprocess.run(words, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        shutil.copy(release / "weir-server", server)
    argv = "--listen {address}:{port} --cert {cert} --key {key} --max-payload {payload} --gso off --cc fixed-window"
    done = evaluate(suite, "--stack", server, "--stack-argv", argv)
    assert done.returncode == 0, done.stderr
    assert rows(suite).keys() == {"cubic", "fixed-window"}
    assert "tiny" in scenarios_of_page(suite, "fixed-window")
    figures = next(run["metrics"] for run in json.loads(done.stdout)["runs"] if run["variant"] == "fixed-window")
    assert figures["wire_mbit_s"] == pytest.approx(2 * WINDOW_BYTES * 8 / RTT_S / 1e6, rel=0.15)
