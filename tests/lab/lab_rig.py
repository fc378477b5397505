# SPDX-License-Identifier: Apache-2.0
"""A small scenario for tests of whole runs, and what they ask of it."""

import json
import os
import time
from pathlib import Path

import pytest

SMALL = """
[scenario]
name = "small"
title = "a small dumbbell"
duration_s = 8
warmup_s = 2
seeds = [3]
[link.access]
rate_mbit_s = 50
delay_ms = 1
queue_limit_packets = 1000
[link.bottleneck]
rate_mbit_s = 10
delay_ms = 10
loss_percent = 0
queue_limit_packets = 200
[[flows]]
kind = "quic-download"
count = 3
[variants.pfifo]
qdisc = "pfifo"
[variants.pie]
qdisc = "pie"
[variants.paper]
qdisc = "weir"
profile = "paper"
[variants.tuned]
qdisc = "weir"
profile = "tuned"
"""


ACCESS = """
[scenario]
name = "small"
title = "two access networks"
topology = "access"
duration_s = 30
seeds = [3]
[[paths]]
name = "near"
rate_mbit_s = 50
rtt_ms = 20
rtt_sd_ms = 2
rtt_min_ms = 10
[[paths]]
name = "far"
rate_mbit_s = 20
rtt_ms = 60
rtt_sd_ms = 2
rtt_min_ms = 10
[client]
requests = 20
interval_ms = 300
bytes = 5000
[[changes]]
path = "near"
round = 10
rtt_ms = 90
[variants.polling]
strategy = "polling"
[variants.polling-cold]
strategy = "polling"
standby = "cold"
[variants.oracle]
strategy = "oracle"
[variants.weir]
strategy = "weir"
"""


CAMPUS = """
[scenario]
name = "small"
title = "everything at once, and little of it"
topology = "campus"
duration_s = 7
seeds = [3]
[backbone]
rate_mbit_s = 8
up_mbit_s = 3
delay_ms = 5
[cell]
rate_file = "small.csv"
up_mbit_s = 3
delay_ms = 20
[wifi]
rate_mbit_s = 10
up_mbit_s = 10
delay_ms = 2
[tether]
rate_mbit_s = 4
up_mbit_s = 2
delay_ms = 10
[receivers]
count = 2
rate_mbit_s = 10
delay_ms = 2
[[requests]]
bytes = 5000
interval_ms = 250
[downloads]
bytes = 200_000
at_s = [3]
[upload]
start_s = 1
stop_s = 6
[file]
bytes = 100_000
start_s = 1
[stream]
rate_mbit_s = 0.4
start_s = 0.5
[neighbours]
cubic_count = 1
calls = 1
web_per_s = 2
[[moves]]
at_s = 4
to_site = 2
"""
ALL = """
[variants.all]
aqm = "law"
"""
CELL_RATES = "time_s,rate_mbit_s\n0,6\n2,2\n4,5\n"
"""The file that CAMPUS names: small.csv beside it."""


def small(*changes: tuple[str, str], text: str = SMALL) -> str:
    """SMALL, or another scenario, with each (old, new) exchanged."""
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


def metrics_of(done) -> dict[str, dict]:
    assert done.returncode == 0, done.stderr
    return {run["variant"]: run["metrics"] for run in json.loads(done.stdout)["runs"]}


def folder_of(done) -> Path:
    return Path(done.stderr.splitlines()[-1]).parent


def wait_for(condition) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    pytest.fail("waited a minute in vain")


def labs_of(folder: Path) -> list[Path]:
    """Processes whose working folder lies in `folder` and that a lab's seed was given to."""
    found = (entry for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return [entry for entry in found if (e := _environment(entry)) and bytes(folder) in e and b"WEIR_LAB_SEED" in e]


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes() + os.fsencode(os.readlink(process / "cwd"))
    except OSError:
        return b""
