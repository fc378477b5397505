# SPDX-License-Identifier: Apache-2.0
"""`./run replay`: the controller's metrics of a run that is over, in a Prometheus of its own, for a board."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from weir.telemetry.history import History
from weir.telemetry.view import Decision, View
from weirlab import paths
from weirlab.topologies.base import Recorded
from weirlab.topologies.registry import topology_of

EVERY_S = 1.0
"""Between two scrapes, of the run's time."""
LABELS = {"job": "weir", "instance": "replay"}
KEPT = "100y"
"""A run's time of day is long ago, and Prometheus would throw it away at once."""


class ReplayError(Exception):
    """Reason why a run can't be replayed: fault, place, right form."""


def read(folder: Path) -> Recorded:
    """Samples and decisions of the controller in the run of this folder. Raises ReplayError, and SamplesError for a
    damaged file."""
    try:
        spec = json.loads((folder / "spec.json").read_text(encoding="utf-8"))
        topology = topology_of(spec["topology"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        right = "give the folder of one run, as results/.../runs/all/seed-1"
        fault = error.strerror if isinstance(error, OSError) else error
        raise ReplayError(f"{folder / 'spec.json'}: {fault}; {right}") from None
    samples = next((path for name in ("samples.jsonl.gz", "samples.jsonl") if (path := folder / name).is_file()), None)
    if samples is None:
        raise ReplayError(f"{folder}: no samples.jsonl.gz in it; the run has not ended well")
    events = topology.recorded(samples, spec)
    if not events:
        raise ReplayError(f"{folder}: the run had no controller; give one of `together` with the law, as all")
    return events


def history(events: Recorded) -> str:
    """The OpenMetrics text of scrapes each EVERY_S, from the first event to the last."""
    view = View(tuned=any(isinstance(event, Decision) for _, event in events))
    kept = History(view, LABELS)
    due_s = events[0][0] + EVERY_S
    for now_s, event in events:
        while now_s >= due_s:
            kept.scrape(due_s)
            due_s += EVERY_S
        view.take(event, now_s)
    kept.scrape(due_s)
    return kept.text()


def _tool(name: str) -> str:
    unpacked = paths.build() / "prometheus" / "usr" / "bin" / name
    found = str(unpacked) if unpacked.is_file() else shutil.which(name)
    if found is None:
        raise ReplayError(f"{name} is not there; install Debian's package prometheus, or write the metrics with --out")
    return found


def serve(text: str, span_s: tuple[float, float], port: int) -> int:
    """Puts it into a Prometheus at 127.0.0.1:`port` until that ends. Gives its exit status."""
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            free.bind(("127.0.0.1", port))
        except OSError as error:
            raise ReplayError(f"127.0.0.1:{port}: {error.strerror}; give another port with --port") from None
    with tempfile.TemporaryDirectory(prefix="weir-replay-") as folder:
        source, data, config = Path(folder, "metrics"), Path(folder, "data"), Path(folder, "prometheus.yml")
        source.write_text(text, encoding="utf-8")
        config.write_text(f"global: {{scrape_interval: {EVERY_S:g}s}}\n", encoding="utf-8")
        made = subprocess.run(
            [_tool("promtool"), "tsdb", "create-blocks-from", "openmetrics", source, data],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if made.returncode:
            raise ReplayError(f"promtool refused it: {made.stderr.strip() or made.stdout.strip()}")
        first, last = (datetime.fromtimestamp(s, UTC).strftime("%Y-%m-%d %H:%M:%S") for s in span_s)
        print(f"Prometheus at http://127.0.0.1:{port} has the run from {first} to {last} UTC; Ctrl-C ends it.\n"
              "In Grafana: a data source of type Prometheus with that address and 1s as its scrape interval, the board "
              "controller/boards/weir.json, and that range of time.", flush=True)  # fmt: skip
        process = subprocess.Popen(
            [_tool("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={data}",
             f"--storage.tsdb.retention.time={KEPT}", f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"],
        )  # fmt: skip
        try:
            return process.wait()
        finally:
            process.terminate()
            process.wait()


def main_replay(folder: Path, out: Path | None, port: int) -> int:
    """Replays the run in `folder`, or writes its metrics to `out`. Gives the exit status. Raises ReplayError,
    SamplesError, OSError."""
    events = read(folder)
    text = history(events)
    if out is None:
        return serve(text, (events[0][0], events[-1][0]), port)
    out.write_text(text, encoding="utf-8")
    return 0
