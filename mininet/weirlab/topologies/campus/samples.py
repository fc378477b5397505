# SPDX-License-Identifier: Apache-2.0
"""Reads a run's samples on `campus`: lines in, arrays out.

One JSON object a line, `t_us` the lab's CLOCK_MONOTONIC in microseconds. Kinds (`k`):

- `start`: the run's time 0, exactly one; `time_of_day_us` is then, which is the controller's clock.
- `clock`: when the clock of a switch (`node`) was 0, `started_us`; one more each time that it is started again.
- `began`, `ended`: a program of the run: `what`, and the `status` it ended with. `unfinished`: one that did not end.
- `link`: counts of a network interface since it was made: `node`, `device`, bytes and packets sent and received. Each
  has two lines, of the start and of the end.
- `came`: bytes of the stream that have come by name to a `receiver` (0: the phone), every 100 ms.
- `file`: whether the file that came by name to a `receiver` is the publisher's (`whole`).
- `switch`: at the end, `packets` of a switch (`node`) by the names of its counter `names` (docs/design/icn.md).
- `names`: the same every second of the run; after a switch was killed it counts anew.
- `aqm`: the controller's state of a queue, every 100 ms (controller/weir/telemetry/jsonl.py): `device`, `port`, its
  delay `tau_us`. `t_us` of a switch is by its own clock.
- `move`, `fade`: changes of the phone's Wi-Fi: `from_site`, `to_site`; `loss_percent` from then on.
- `killed`, `back`: a `part` of the network was killed, or was started again.
- `flow`, `end`: one end of a flow, by the name of commands.py's `flow_name` or a competing flow's number.
- `task` and others of weir-client's `--events` (quic-client/endpoint/README.md), by the flow's number.
- `short`: a web-like transfer ended: `bytes`, `fct_us`; with `open` 1 it had not at the run's end.
- `sent`, `heard`: a packet of a call: `flow`, `seq`, and `bytes` where it was heard.
- `decision`, `effect`: actions of the controller and their results: `device`, `port`, and `action` or `verdict`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from weirlab.metrics.paced import Stream
from weirlab.metrics.samples import SamplesError, column, grouped, read_kinds
from weirlab.topologies.campus.commands import flow_name

EVENTS = ("task-retry", "move", "answers-elsewhere", "choice", "path", "cid", "window", "promised", "decision")
COUNTS = ("sent_bytes", "sent_packets", "received_bytes", "received_packets")
FIELDS: dict[str, tuple[str, ...]] = {
    "start": ("t_us", "time_of_day_us"),
    "clock": ("node", "started_us"),
    "began": ("t_us", "what"),
    "ended": ("t_us", "what", "status"),
    "unfinished": ("what",),
    "link": ("t_us", "node", "device", *COUNTS),
    "came": ("t_us", "receiver", "bytes"),
    "file": ("receiver", "whole"),
    "switch": ("node", "packets"),
    "names": ("t_us", "node", "packets"),
    "aqm": ("t_us", "device", "port", "tau_us"),
    "fade": ("t_us", "loss_percent"),
    "killed": ("t_us", "part"),
    "back": ("t_us", "part"),
    "task": ("t_us", "flow", "task", "path", "start_us", "tct_us", "bytes", "outcome"),
    "flow": ("t_us", "side", "flow", "bytes"),
    "end": ("t_us", "side", "flow", "bytes"),
    "short": ("t_us", "bytes", "fct_us"),
    "sent": ("t_us", "flow", "seq"),
    "heard": ("t_us", "flow", "seq", "bytes"),
    "effect": ("device", "port", "verdict"),
    **{kind: () for kind in EVENTS},
}
NUMBERS: dict[str, tuple[str, ...]] = {
    "start": ("t_us", "time_of_day_us"),
    "clock": ("started_us",),
    "link": ("t_us", *COUNTS),
    "names": ("t_us",),
    "aqm": ("t_us", "tau_us"),
    "came": ("t_us", "receiver", "bytes"),
    "task": ("t_us", "flow", "start_us", "bytes"),
    "short": ("t_us", "fct_us"),
}
Course = tuple[np.ndarray, np.ndarray]
"""Times (us of the run) and values."""


@dataclass(frozen=True)
class Task:
    """One request of the phone, or a transfer of one; times in us of the run. `took_us` None: not complete."""

    flow: str
    start_us: float
    took_us: float | None
    bytes: int
    path: str
    ended_us: float


@dataclass(frozen=True)
class Samples:
    """One run's samples, times in us of the run.

    `received`: application bytes that came to a client so far, of an upload to the server, by flow; `rtt_ms`: the
    client's smoothed round trips, `window_bytes` its congestion windows. `came`: bytes of the stream, by receiver,
    however they came. `ends`: when a program began and ended, and its status. `links`: what passed in the run, by node
    and device. `files`: by receiver, whether the file is whole. `kills`: part, from when to when it was away.
    `queues_ms`: delays, by device and port. `names`: by switch, the counts of names as they grew, a restart's from 0 on
    again. `switched`: a connection of the phone went over to another path: when, flow, path. The others are lines, in
    order.
    """

    tasks: tuple[Task, ...]
    received: dict[str, Course]
    rtt_ms: dict[str, Course]
    window_bytes: dict[str, Course]
    came: dict[int, Course]
    ends: dict[str, tuple[float, float, int]]
    files: dict[int, bool]
    links: dict[tuple[str, str], dict[str, int]]
    switches: dict[str, dict[str, int]]
    kills: tuple[tuple[str, float, float], ...]
    moves: tuple[dict[str, Any], ...]
    fades: tuple[dict[str, Any], ...]
    switched: tuple[tuple[float, str, str], ...]
    queues_ms: dict[tuple[str, str], Course]
    names: dict[str, tuple[tuple[float, Mapping[str, int]], ...]]
    decisions: tuple[dict[str, Any], ...]
    calls: dict[int, Stream]
    web_ms: np.ndarray
    unfinished: tuple[str, ...]


def read_samples(path: str | Path, spec: Mapping[str, Any]) -> Samples:
    """Read a samples file (`.gz` or plain). Raises SamplesError naming file and line, OSError if it can't be read."""
    path = Path(path)
    by_kind = read_kinds(path, FIELDS, NUMBERS)
    t0_us = by_kind["start"][0]["t_us"]
    clients = grouped([line for line in by_kind["flow"] + by_kind["end"] if line["side"] == "client"], _flow)
    for lines in clients.values():
        lines.sort(key=lambda line: line["t_us"])
    received = {flow: _course(path, lines, "bytes", t0_us) for flow, lines in clients.items()}
    uploads = [line for line in by_kind["flow"] + by_kind["end"] if line["side"] == "server" and _is_upload(line)]
    for flow, lines in grouped(sorted(uploads, key=lambda line: line["t_us"]), _flow).items():
        received[flow] = _course(path, lines, "bytes", t0_us)
    rtts = {
        flow: [line for line in lines if line.get("rtt_us") and line.get("min_rtt_us")]
        for flow, lines in clients.items()
    }
    windows = {flow: [line for line in lines if line.get("cwnd_bytes")] for flow, lines in clients.items()}
    came = {number: _course(path, lines, "bytes", t0_us) for number, lines in _by_receiver(by_kind["came"]).items()}
    came |= {int(flow[7:]): course for flow, course in received.items() if flow.startswith("stream.")}
    moved = [line for line in by_kind["move"] if "to_site" in line]
    return Samples(
        tasks=tuple(_task(line, t0_us) for line in by_kind["task"]),
        received=received,
        rtt_ms={flow: _scaled(_course(path, lines, "rtt_us", t0_us), 1e-3) for flow, lines in rtts.items()},
        window_bytes={flow: _course(path, lines, "cwnd_bytes", t0_us) for flow, lines in windows.items()},
        came=came,
        ends=_ends(path, by_kind["began"], by_kind["ended"], t0_us),
        files={line["receiver"]: line["whole"] for line in by_kind["file"]},
        links=_passed(path, by_kind["link"]),
        switches={line["node"]: line["packets"] for line in by_kind["switch"]},
        kills=_kills(path, by_kind["killed"], by_kind["back"], t0_us),
        moves=_since(moved, t0_us),
        fades=_since(by_kind["fade"], t0_us),
        switched=_switched(by_kind["path"], t0_us),
        queues_ms=_queues(path, by_kind["aqm"], by_kind["clock"], t0_us),
        names={
            node: tuple((line["t_us"] - t0_us, line["packets"]) for line in lines)
            for node, lines in grouped(by_kind["names"], lambda line: line["node"]).items()
        },
        decisions=_decisions(path, by_kind["decision"], by_kind["start"][0]["time_of_day_us"]),
        calls=_calls(path, by_kind["sent"], by_kind["heard"], t0_us),
        web_ms=column(path, by_kind["short"], "fct_us") / 1e3,
        unfinished=tuple(line["what"] for line in by_kind["unfinished"]),
    )


def _flow(line: Mapping[str, Any]) -> str:
    return str(line["flow"])


def _is_upload(line: Mapping[str, Any]) -> bool:
    return _flow(line).startswith("upload.")


def _by_receiver(lines: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    return grouped(lines, lambda line: line["receiver"])


def _since(lines: list[dict[str, Any]], t0_us: float) -> tuple[dict[str, Any], ...]:
    return tuple({**line, "t_us": line["t_us"] - t0_us} for line in sorted(lines, key=lambda line: line["t_us"]))


def _course(path: Path, lines: list[dict[str, Any]], field: str, t0_us: float) -> Course:
    return column(path, lines, "t_us") - t0_us, column(path, lines, field)


def _scaled(course: Course, factor: float) -> Course:
    return course[0], course[1] * factor


def _task(line: Mapping[str, Any], t0_us: float) -> Task:
    ended = line["t_us"] - t0_us
    took = line["tct_us"] if line["outcome"] == "complete" else None
    return Task(flow_name(int(line["flow"])), line["start_us"] - t0_us, took, line["bytes"], str(line["path"]), ended)


def _switched(lines: list[dict[str, Any]], t0_us: float) -> tuple[tuple[float, str, str], ...]:
    there = [line for line in lines if line.get("event") == "switched"]
    return tuple((line["t_us"] - t0_us, flow_name(int(line["flow"])), line["path"]) for line in _since(there, 0))


def _queues(
    path: Path, lines: list[dict[str, Any]], clocks: list[dict[str, Any]], t0_us: float
) -> dict[tuple[str, str], Course]:
    """The delay of each queue (ms). A switch that was started again began its clock anew, as its samples show."""
    started = {node: [line["started_us"] for line in these] for node, these in grouped(clocks, _node).items()}
    found = {}
    for (device, port), these in grouped(lines, lambda line: (line["device"], str(line["port"]))).items():
        times = column(path, these, "t_us")
        if device in started:
            again = np.concatenate([[0], np.cumsum(np.diff(times) < 0)])
            if again[-1] >= len(started[device]):
                raise SamplesError(f"{path}: the clock of {device} went back more often than it was started")
            times = times + np.array(started[device])[again]
        found[device, port] = times - t0_us, column(path, these, "tau_us") / 1e3
    return found


def _node(line: Mapping[str, Any]) -> str:
    return str(line["node"])


def _decisions(path: Path, lines: list[dict[str, Any]], day_us: float) -> tuple[dict[str, Any], ...]:
    """The controller's changes, by the run's time; decisions of a learned congestion control have the same kind."""
    found = []
    for line in lines:
        if "device" in line and line.get("changed"):
            try:
                at = datetime.fromisoformat(line["at"])
            except (KeyError, TypeError, ValueError):
                raise SamplesError(f"{path}: a decision of {line['device']} without its time `at`") from None
            found.append({**line, "t_us": at.timestamp() * 1e6 - day_us})
    return tuple(found)


def _kills(
    path: Path, killed: list[dict[str, Any]], back: list[dict[str, Any]], t0_us: float
) -> tuple[tuple[str, float, float], ...]:
    """Each part that was killed: when, and when it was started again."""
    returns = {line["part"]: line["t_us"] - t0_us for line in back}
    if missing := {line["part"] for line in killed} - set(returns):
        raise SamplesError(f"{path}: {min(missing)} was killed and is not back; the run was cut short")
    return tuple((line["part"], line["t_us"] - t0_us, returns[line["part"]]) for line in killed)


def _ends(
    path: Path, began: list[dict[str, Any]], ended: list[dict[str, Any]], t0_us: float
) -> dict[str, tuple[float, float, int]]:
    """When each program began and ended, and its status; those that did not end are left out."""
    starts = {line["what"]: line["t_us"] - t0_us for line in began}
    for line in ended:
        if line["what"] not in starts:
            raise SamplesError(f"{path}: {line['what']} ended and never began; the file lacks lines")
    return {line["what"]: (starts[line["what"]], line["t_us"] - t0_us, line["status"]) for line in ended}


def _passed(path: Path, lines: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, int]]:
    """Growth of each interface's counters."""
    found = {}
    for (node, device), pair in grouped(lines, lambda line: (line["node"], line["device"])).items():
        if len(pair) != 2:
            raise SamplesError(f"{path}: {len(pair)} lines of {node}:{device}; there must be one at start and end each")
        first, last = sorted(pair, key=lambda line: line["t_us"])
        found[node, device] = {key: last[key] - first[key] for key in COUNTS}
    return found


def _calls(path: Path, sent: list[dict[str, Any]], heard: list[dict[str, Any]], t0_us: float) -> dict[int, Stream]:
    found = {}
    heard_of = grouped(heard, lambda line: line["flow"])
    for flow, lines in grouped(sent, lambda line: line["flow"]).items():
        there = heard_of.get(flow, [])
        found[flow] = Stream(
            sent_us=column(path, lines, "t_us") - t0_us,
            heard_place=column(path, there, "seq"),
            heard_us=column(path, there, "t_us") - t0_us,
            heard_bytes=column(path, there, "bytes"),
        )
    return found
