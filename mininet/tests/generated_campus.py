# SPDX-License-Identifier: Apache-2.0
"""A scenario on `campus` and samples to test the arithmetic and the report with: made up, nothing was measured."""

from typing import Any

from weirlab.topologies.campus.commands import FLOWS

T0_US = 17_000_000
DAY_US = 1_767_225_617_000_000
GOOD = """\
[scenario]
name = "small"
title = "Small"
topology = "campus"
duration_s = 10
seeds = 2
[backbone]
rate_mbit_s = 20
up_mbit_s = 8
delay_ms = 10
[cell]
rate_file = "small.csv"
up_mbit_s = 6
delay_ms = 30
[wifi]
rate_mbit_s = 25
up_mbit_s = 20
delay_ms = 3
loss_percent = 0.3
[tether]
rate_mbit_s = 8
up_mbit_s = 4
delay_ms = 20
[receivers]
count = 3
rate_mbit_s = 15
delay_ms = 4
[law]
target_us = 15000
[[requests]]
bytes = 5000
interval_ms = 200
[[requests]]
bytes = 100_000
interval_ms = 2000
start_s = 1
[downloads]
bytes = 1_000_000
at_s = [2, 5]
[upload]
start_s = 2
stop_s = 8
[file]
bytes = 500_000
start_s = 3
[stream]
rate_mbit_s = 0.8
start_s = 1
[neighbours]
cubic_count = 2
bbr_count = 1
web_per_s = 2
calls = 1
burst_mbit_s = 5
[[fades]]
at_s = 4
for_s = 1
loss_percent = 10
[[moves]]
at_s = 5
to_site = 2
[variants.all]
aqm = "law"
[variants.none]
aqm = "pfifo"
paths = "wifi"
window = "double"
upload_cc = "cubic"
names = false
"""
RATES = "time_s,rate_mbit_s\n0,10\n1,4\n2,20\n"


def spec(names: bool = True, **more: Any) -> dict[str, Any]:
    """A spec of a run of 10 s; any of its keys may differ."""
    return {
        "scenario": "made-up",
        "variant": "all" if names else "none",
        "topology": "campus",
        "duration_s": 10.0,
        "warmup_s": 0.0,
        "backbone": {"rate_mbit_s": 20.0, "up_mbit_s": 8.0, "delay_ms": 10.0, "queue_limit_packets": 500},
        "cell": {"rates": [(0.0, 10.0), (1.0, 4.0)], "up_mbit_s": 6.0, "delay_ms": 30.0, "queue_limit_packets": 500},
        "wifi": {
            "rate_mbit_s": 25.0, "up_mbit_s": 20.0, "delay_ms": 3.0, "loss_percent": 0.3, "loss_up_percent": 0.1,
            "queue_limit_packets": 500,
        },
        "tether": {"rate_mbit_s": 8.0, "up_mbit_s": 4.0, "delay_ms": 20.0, "queue_limit_packets": 500},
        "receivers": {"count": 3, "rate_mbit_s": 15.0, "delay_ms": 4.0, "queue_limit_packets": 400},
        "law": {"profile": "tuned", "target_us": 15000},
        "switches": {"target": "embedded"},
        "server": {"cc": "cubic"},
        "requests": [{"bytes": 5000, "interval_ms": 1000.0, "start_s": 0.0}],
        "downloads": {"bytes": 1_000_000, "at_s": [2.0]},
        "upload": {"start_s": 2.0, "stop_s": 8.0},
        "file": {"bytes": 500_000, "start_s": 3.0},
        "stream": {"rate_mbit_s": 0.8, "start_s": 1.0},
        "neighbours": {
            "cubic_count": 1, "bbr_count": 1, "web_per_s": 2.0, "web_bytes_median": 20_000, "web_bytes_sigma": 1.0,
            "calls": 1, "burst_mbit_s": 5.0, "burst_on_s": 0.5, "burst_off_s": 1.0,
        },
        "kills": [],
        "moves": [{"at_s": 5.0, "to_site": 2, "address_after_s": 0.1}],
        "fades": [{"at_s": 4.0, "for_s": 1.0, "loss_percent": 10.0}],
        "has": {
            "aqm": "law" if names else "pfifo", "bands": True, "tune": True, "paths": "choice" if names else "wifi",
            "window": "weir" if names else "double", "upload_cc": "pbq" if names else "cubic", "ecn": names,
            "names": names, "traffic": "all",
        },
        "seed": 1,
        **more,
    }  # fmt: skip


def task(number: int, start_s: float, took_ms: float, outcome: str = "complete", flow: int = 0) -> dict[str, Any]:
    return {
        "k": "task", "t_us": T0_US + round(start_s * 1e6 + took_ms * 1e3), "flow": flow, "task": number, "path": "wifi",
        "start_us": T0_US + round(start_s * 1e6), "tct_us": round(took_ms * 1e3), "bytes": 5000, "outcome": outcome,
        "switched": False, "cold": False,
    }  # fmt: skip


def came(points: list[tuple[float, int]], receiver: int = 0) -> list[dict[str, Any]]:
    """Bytes of the stream that have come by these seconds."""
    return [{"k": "came", "t_us": T0_US + round(at * 1e6), "receiver": receiver, "bytes": n} for at, n in points]


def steady(rate_mbit_s: float, start_s: float, end_s: float) -> list[tuple[float, int]]:
    """Counts of a stream without a pause, every 100 ms."""
    count = round((end_s - start_s) * 10)
    return [(start_s + n / 10, round(rate_mbit_s * 1e6 / 8 * n / 10)) for n in range(count + 1)]


def aqm(device: str, port: str, t_us: int, delay_us: int) -> dict[str, Any]:
    """Controller's sample of a queue."""
    return {
        "k": "aqm", "t_us": t_us, "device": device, "port": port, "backlog_bytes": 0, "tau_us": delay_us, "u": 0.1,
        "drop_probability": 0.01, "dq_rate_bit_s": 0, "seen": t_us // 1000, "passed_bytes": t_us, "marks": 0,
        "drops_aqm": 0, "drops_limit": 0, "row": 0,
    }  # fmt: skip


def links(node: str, device: str, sent_bytes: int) -> list[dict[str, Any]]:
    given = {"k": "link", "node": node, "device": device, "received_bytes": 0, "received_packets": 0}
    return [
        {**given, "t_us": T0_US + at_us, "sent_bytes": sent, "sent_packets": sent // 1000}
        for at_us, sent in ((0, 700), (10**7, 700 + sent_bytes))
    ]


def call(delays_ms: list[float | None]) -> list[dict[str, Any]]:
    """A call's packets every 20 ms; None is lost."""
    found = []
    for seq, delay_ms in enumerate(delays_ms):
        sent_us = T0_US + seq * 20_000
        found.append({"k": "sent", "t_us": sent_us, "flow": 0, "seq": seq})
        if delay_ms is not None:
            t_us = sent_us + round(delay_ms * 1000)
            found.append({"k": "heard", "t_us": t_us, "flow": 0, "seq": seq, "sent_us": sent_us, "bytes": 160, "ce": 0})
    return found


def run_lines() -> list[dict[str, Any]]:
    """The samples of a whole run by name that went well."""
    lines: list[dict[str, Any]] = [{"k": "start", "t_us": T0_US, "time_of_day_us": DAY_US}]
    lines += [task(n, n, 100 + n) for n in range(10)]
    for receiver in range(4):
        lines += came(steady(0.8, 1, 10), receiver)
        name = f"file-{receiver}"
        lines += [
            {"k": "began", "t_us": T0_US + 3 * 10**6, "what": name},
            {"k": "ended", "t_us": T0_US + (4 + receiver) * 10**6, "what": name, "status": 0},
            {"k": "file", "receiver": receiver, "whole": True},
        ]
    lines += [
        {"k": "began", "t_us": T0_US + 2 * 10**6, "what": "download-0"},
        {"k": "ended", "t_us": T0_US + 6 * 10**6, "what": "download-0", "status": 0},
        *(
            {"k": "flow", "t_us": T0_US + at * 10_000, "side": "client", "flow": "download.0", "bytes": at * 2000}
            for at in [*range(200, 500), *range(520, 600)]
        ),
        *(
            {
                "k": "flow", "t_us": T0_US + at * 100_000, "side": side, "flow": "upload.0",
                "bytes": (at - 20) * 50_000, "rtt_us": 40_000, "min_rtt_us": 30_000, "cwnd_bytes": 20_000 + at * 100,
            }
            for at in range(20, 81)
            for side in ("client", "server")
        ),
        *(
            {
                "k": "flow", "t_us": T0_US + at * 100_000, "side": "client", "flow": "request.0", "bytes": at * 500,
                "rtt_us": 30_000, "min_rtt_us": 30_000,
            }
            for at in range(100)
        ),
        {
            "k": "decision", "at": "2026-01-01T00:00:22.500Z", "device": "core", "port": "bb", "action": "trial",
            "changed": {"target_us": [15000, 10000]},
        },
        {"k": "move", "t_us": T0_US + 5 * 10**6, "from_site": 1, "to_site": 2},
        {"k": "fade", "t_us": T0_US + 4 * 10**6, "loss_percent": 10.0},
        {"k": "short", "t_us": T0_US + 10**6, "flow": f"{FLOWS['file']}", "bytes": 20_000, "fct_us": 150_000},
        {"k": "clock", "node": "edge1", "started_us": T0_US - 7 * 10**6},
        {"k": "clock", "node": "edge1", "started_us": T0_US + 6 * 10**6},
        *(aqm("core", "bb", T0_US + at * 10**5, 5000 + at) for at in range(100)),
        *(aqm("edge1", "4", 7 * 10**6 + at * 10**5, 9000) for at in range(50)),
        *(aqm("edge1", "4", at * 10**5, 2000) for at in range(1, 40)),
        *(
            {"k": "names", "t_us": T0_US + at * 10**6, "node": node, "packets": {"interests_joined": at * 30 % 200}}
            for node in ("edge1", "edge2")
            for at in range(10)
        ),
        {"k": "path", "t_us": T0_US + 5 * 10**6, "flow": 200, "path": "cell", "event": "switched", "rtt_us": None},
        {"k": "path", "t_us": T0_US + 6 * 10**6, "flow": 0, "path": "wifi", "event": "lost", "rtt_us": None},
        {"k": "switch", "node": "edge1", "packets": {"interests_forwarded": 100, "interests_joined": 300}},
        *links("core", "bb", 9_000_000),
        *links("publisher", "eth0", 1_500_000),
        *call([None, *(20.0 + n % 10 for n in range(399))]),
    ]  # fmt: skip
    return lines
