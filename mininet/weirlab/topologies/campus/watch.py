# SPDX-License-Identifier: Apache-2.0
"""A run on `campus` under way: the queues as `weir top` shows them, the data of the phone and the receivers, and the
events. Pure: lines of the run's files in (samples.py has their form), text out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, ClassVar

from rich.console import Group, RenderableType
from rich.text import Text

from weir.telemetry.source import parsed
from weir.telemetry.top import Screen
from weir.telemetry.view import View
from weirlab.topologies.campus.commands import flow_name, there_is
from weirlab.topologies.campus.report.labels import QUEUES, queue_name
from weirlab.topologies.watching import Watch

OVER_US = 1e6
"""Rates are of so long before now."""
EVENTS = 8
"""As many of the last ones are on the screen."""
LONG_MS = 1.0
"""A line for other than a terminal names the queues in which packets wait longer, or are dropped."""


class Grown:
    """Bytes that grow, and how fast of late."""

    def __init__(self) -> None:
        self.points: deque[tuple[float, float]] = deque()

    def take(self, t_us: float, size: float) -> None:
        self.points.append((t_us, size))
        while len(self.points) > 2 and self.points[1][0] <= t_us - OVER_US:
            self.points.popleft()

    @property
    def bytes(self) -> float:
        return self.points[-1][1] if self.points else 0.0

    def mbit_s(self, now_us: float) -> float:
        """Over OVER_US before now; 0 where nothing was heard for as long."""
        (first_us, first), (last_us, last) = self.points[0], self.points[-1]
        if last_us <= max(first_us, now_us - OVER_US):
            return 0.0
        return (last - first) * 8 / (last_us - first_us)


class CampusWatch(Watch):
    """The state of a run of this spec."""

    files: ClassVar[tuple[str, ...]] = (
        "run.jsonl", "names.jsonl", "queues.jsonl", "decisions.jsonl", "tasks-*.jsonl", "flows-server-*.jsonl",
        "flows-request-*.jsonl", "flows-download-*.jsonl", "flows-upload-*.jsonl", "flows-stream-*.jsonl",
    )  # fmt: skip

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec = spec
        self.view, self.top = View(), Screen("delay", typed=False)
        self.t0_us: float | None = None
        self.day_us = 0.0  # the time of day less the monotonic clock
        self.now_us = 0.0
        self.paths: dict[str, str] = {}  # of the phone's flows, where they are
        self.done, self.failed, self.last_ms = 0, 0, 0.0
        self.upload: Mapping[str, Any] = {}
        self.sizes: dict[str, Grown] = {}  # by flow; of the stream, by receiver, `stream.N`
        self.names: dict[str, Mapping[str, int]] = {}
        self.grown: dict[str, dict[str, int]] = {}  # of each switch's counts, in the last second
        self.files_whole: set[str] = set()
        self.events: deque[str] = deque(maxlen=EVENTS)

    def time_us(self, line: Mapping[str, Any]) -> float | None:
        if line.get("k") == "aqm":
            return None if str(line.get("port")).isdigit() else line["t_us"]  # a switch has a clock of its own
        if "at" in line and self.t0_us is None:
            return None  # the controller's clock is not known yet
        if "at" in line:
            return datetime.fromisoformat(line["at"]).timestamp() * 1e6 - self.day_us
        return line.get("t_us")

    def take(self, line: Mapping[str, Any]) -> str | None:
        t_us = self.time_us(line)
        if t_us is not None and t_us > self.now_us:
            self.now_us = t_us
            if self.t0_us is not None:
                self.now_s = (t_us - self.t0_us) / 1e6
        found = self._happened(line)
        if found is None:
            self._flow(line)
        elif self.now_s is not None:
            self.events.append(f"{self.now_s:6.2f} s  {found}")
        return found

    def _happened(self, line: Mapping[str, Any]) -> str | None:
        """Lines that change more than a number; their meaning."""
        match line.get("k"):
            case "start":
                self.t0_us = line["t_us"]
                self.day_us = line["time_of_day_us"] - line["t_us"]
            case "aqm" | "decision" | "effect" if "device" in line:
                return self._queue(line)
            case "names":
                before = self.names.get(line["node"], {})
                self.names[line["node"]] = line["packets"]
                if any(line["packets"].get(kind, 0) < count for kind, count in before.items()):
                    before = {}  # it was started again
                self.grown[line["node"]] = {kind: n - before.get(kind, 0) for kind, n in line["packets"].items()}
            case "fade":
                return f"Wi-Fi loses {line['loss_percent']:g} % of what comes to the phone"
            case "move" if "to_site" in line:
                return f"the phone moves to site {line['to_site']}"
            case "killed":
                return f"{line['part']} is killed"
            case "back":
                return f"{line['part']} is back"
            case "path" if line["event"] in ("switched", "lost"):
                flow = flow_name(int(line["flow"]))
                if line["event"] == "switched":
                    self.paths[flow] = line["path"]
                return f"{flow} {'goes over to' if line['event'] == 'switched' else 'has lost'} {line['path']}"
            case "ended":
                return self._ended(line["what"], line["status"])
        return None

    def _queue(self, line: Mapping[str, Any]) -> str | None:
        event = parsed(dict(line))
        if event is None:
            return None
        told = self.view.take(event, self.now_us / 1e6)
        if line["k"] == "decision" and line.get("changed"):
            changes = ", ".join(f"{key} {old:g} to {new:g}" for key, (old, new) in line["changed"].items())
            return f"controller: {line.get('action')} at {queue_name(line['device'], line['port'])}: {changes}"
        if line["k"] == "effect":
            return f"controller: {queue_name(line['device'], line['port'])}: {line.get('verdict')}"
        return told

    def _ended(self, what: str, status: int) -> str | None:
        if what.startswith("file-") and status == 0:
            self.files_whole.add(what)
        over = self.now_s is None or self.now_s >= self.spec["duration_s"]  # the run ends what still goes
        if over or not (status or what.startswith("download-")):
            return None
        return f"{what} ended with status {status}"

    def _flow(self, line: Mapping[str, Any]) -> None:
        """Lines of flows: how much has come, and where it goes."""
        match line.get("k"):
            case "came":
                self.sizes.setdefault(f"stream.{line['receiver']}", Grown()).take(line["t_us"], line["bytes"])
            case "choice":
                self.paths[flow_name(int(line["flow"]))] = line["path"]
            case "task" if flow_name(int(line["flow"])).startswith("request."):
                if line["outcome"] == "complete":
                    self.done, self.last_ms = self.done + 1, line["tct_us"] / 1e3
                else:
                    self.failed += 1
            case "flow" | "end" if line.get("flow") is not None and str(line["flow"]).isdigit():
                flow = flow_name(int(line["flow"]))
                uploads = flow.startswith("upload.")
                if line["side"] == ("server" if uploads else "client"):
                    self.sizes.setdefault(flow, Grown()).take(line["t_us"], line["bytes"])
                elif uploads and line["k"] == "flow":
                    self.upload = line

    def summary(self) -> str:
        delays_ms: dict[str, float] = {}
        drops_s: dict[str, float] = {}
        for queue, port in self.top.rows(self.view):
            if port.sample is not None and not port.is_stale(self.now_us / 1e6):
                name = queue_name(*queue) if queue in QUEUES else "receivers"  # theirs are alike: the longest tells
                delays_ms[name] = max(delays_ms.get(name, 0.0), port.sample.delay_us / 1e3)
                drops_s[name] = drops_s.get(name, 0.0) + (port.rates.drops_s if port.rates is not None else 0.0)
        waiting = [
            f"{name} {delay_ms:.0f} ms" + (f" {drops_s[name]:.0f} drops/s" if drops_s[name] >= 1 else "")
            for name, delay_ms in delays_ms.items()
            if delay_ms > LONG_MS or drops_s[name] >= 1
        ]
        queues = ", ".join(waiting) if waiting else "none" if self.view.ports else "not told without the law"
        return f"{self.now_s or 0:5.1f} s  queues: {queues}; {'; '.join(self.phone())}"

    def phone(self) -> Iterator[str]:
        """State of the phone and the receivers, a sentence for each kind of traffic that there is."""
        if there_is(self.spec, "requests"):
            failed = f", {self.failed} failed" if self.failed else ""
            networks = sorted({path for flow, path in self.paths.items() if flow.startswith("request.")})
            on = f" on {', '.join(networks)}" if networks else ""
            yield f"requests: {self.done} done{failed}, the last in {self.last_ms:.0f} ms{on}"
        for flow, size in self.sizes.items():
            if flow.startswith("download.") and size.bytes < self.spec["downloads"]["bytes"]:
                yield (
                    f"{flow}: {size.bytes / 1e6:.2f} of {self.spec['downloads']['bytes'] / 1e6:g} MB, "
                    f"{size.mbit_s(self.now_us):.2f} Mbit/s{self._on(flow)}"
                )
        if there_is(self.spec, "upload") and self.upload and "upload.0" in self.sizes:
            yield (
                f"upload: {self.sizes['upload.0'].mbit_s(self.now_us):.2f} Mbit/s, window "
                f"{self.upload['cwnd_bytes'] / 1e3:.0f} kB, round trip {(self.upload['rtt_us'] or 0) / 1e3:.0f} ms"
                f"{self._on('upload.0')}"
            )
        receivers = self.spec["receivers"]["count"] + 1
        if there_is(self.spec, "stream"):
            rates = [size.mbit_s(self.now_us) for flow, size in self.sizes.items() if flow.startswith("stream.")]
            yield f"stream: {sum(rates) / receivers:.2f} Mbit/s on average, least {min(rates, default=0.0):.2f}"
        if there_is(self.spec, "file"):
            yield f"file: whole at {len(self.files_whole)} of {receivers}"
        if self.grown:
            joined, asked = (
                sum(grown.get(kind, 0) for grown in self.grown.values())
                for kind in ("interests_joined", "interests_forwarded")
            )
            yield f"switches: {asked} Interests/s asked on, {joined} merged"

    def _on(self, flow: str) -> str:
        return f" on {self.paths[flow]}" if flow in self.paths else ""

    def screen(self, width: int, height: int) -> RenderableType:
        head = f"{self.spec['scenario']}, {self.spec['variant']}, seed {self.spec['seed']}: "
        head += "the network is being set up" if self.now_s is None else f"{self.now_s:.1f} s"
        lines = [Text(f"{head} of {self.spec['duration_s']:g} s, in virtual time", style="bold")]
        lines += [Text(line, no_wrap=True, overflow="ellipsis") for line in self.phone()]
        happened = [Text(line, no_wrap=True, overflow="ellipsis", style="dim") for line in self.events]
        parts: list[RenderableType] = [*lines, ""]
        if self.view.ports:
            room = max(6, height - len(lines) - len(happened) - 3)
            parts.append(self.top.render(self.view, self.now_us / 1e6, width, room))
        elif self.now_s is not None:
            parts.append(Text("no samples of queues: the kernel's disciplines tell none while they run", style="dim"))
        return Group(*parts, "", *happened)
