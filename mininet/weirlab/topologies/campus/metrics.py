# SPDX-License-Identifier: Apache-2.0
"""A run's samples on `campus` in, flat metrics out: what each application met. Pure but for reading the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from weirlab.metrics.estimate import rounded
from weirlab.metrics.paced import LAST_S, figures, met
from weirlab.topologies.campus.commands import requests_due
from weirlab.topologies.campus.samples import Course, Samples, read_samples

PLAYER_BUFFER_S = 1.0
"""What of the stream a player has before it starts, and again after each stall."""
AFTER_MOVE_S = 3.0
"""How long after a move a silence is counted as the move's."""
BEFORE_MOVE_S = 2.0
"""So long before a move round trips are taken for the probe timeout."""
MAX_ACK_DELAY_MS = 25.0
METRICS: dict[str, str] = {
    "request_p50_ms": "completion time of the phone's requests, all applications together: median. One that was not "
    "complete counts with its age at the run's end",
    "request_p99_ms": "the same: 99th percentile",
    "request_small_p99_ms": "the same, of the application with the smallest requests: 99th percentile",
    "requests": "requests of the phone that were due in the run",
    "requests_failed": "of these, those that ended without all bytes",
    "download_mean_s": "time from starting a download's program to its last byte: mean over the phone's downloads",
    "upload_mbit_s": "application bytes that the phone's upload delivered, over its time",
    "upload_rtt_mean_ms": "the phone's smoothed round-trip time in the upload: mean of samples every 100 ms",
    "stream_goodput_mbit_s": "bytes of the stream that came to the receivers, over its time: mean over receivers, the "
    "phone among them",
    "stream_stalls": f"times that a player stood still, all receivers together. It starts with {PLAYER_BUFFER_S:g} s "
    "of the stream, and after a stall again",
    "stream_stalled_s": "how long they stood, all together",
    "file_mean_s": "time from asking for the file until a receiver had all of it: mean over receivers",
    "voice_delay_p99_ms": "one-way delay of the calls' packets: 99th percentile",
    "voice_loss_percent": "packets of the calls that did not arrive",
    "web_p99_ms": "completion time of the web-like transfers: 99th percentile",
    "handover_gap_ms": "longest time without a byte in the phone's downloads and its stream, of those that end in the "
    f"{AFTER_MOVE_S:g} s after a move: the least of the two, since the phone heard one of them",
    "handover_gap_ptos": "the same in probe timeouts: smoothed round trip, four deviations and the acknowledgements' "
    f"delay ({MAX_ACK_DELAY_MS:g} ms), of the requests {BEFORE_MOVE_S:g} s before the move",
    "backbone_sent_bytes": "bytes of all frames that the core sent down the backbone",
    "publisher_sent_bytes": "bytes of all frames that the publisher sent: the file and the stream",
    "publisher_sent_ratio": "the same over the file's and the stream's own bytes: 1 is one copy without any header",
    "joined_percent": "of the Interests that came to the switches, those that were joined to one that was out",
    "decisions": "changes of gains that the controller made",
    "bytes_lost_transfers": "requests, downloads and files that ended without all bytes, or with others",
    "wrong_files": "receivers whose file is not the publisher's, or that have none",
    "unfinished_programs": "programs that had not ended 3 s after the run",
}


def compute(samples_path: str | Path, spec: Mapping[str, Any]) -> dict[str, Any]:
    """All metrics of one run, by the names in METRICS; None where the run has nothing to measure it by. Raises
    SamplesError if the file is damaged."""
    return metrics_of(read_samples(samples_path, spec), spec)


def failures(metrics: Mapping[str, Any]) -> list[str]:
    """The checks that a run's metrics fail, one line each; empty if they all pass."""
    found = []
    for metric, text in (
        ("requests_failed", "requests of the phone ended without all bytes"),
        ("wrong_files", "receivers have not the publisher's file"),
        ("unfinished_programs", "programs did not end with the run"),
    ):
        if metrics[metric]:
            found.append(f"{metrics[metric]} {text}; see the logs in the run's folder")
    return found


def metrics_of(samples: Samples, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of samples in memory. See `compute`."""
    found: dict[str, Any] = dict.fromkeys(METRICS)
    found |= request_metrics(samples, spec)
    found |= transfer_metrics(samples, spec)
    found |= stream_metrics(samples, spec)
    end_us = (spec["duration_s"] - LAST_S) * 1e6
    heard = figures([met(stream, 0, end_us) for stream in samples.calls.values()])
    found["voice_delay_p99_ms"], found["voice_loss_percent"] = heard["delay_p99_ms"], heard["loss_percent"]
    if len(samples.web_ms):
        found["web_p99_ms"] = float(np.quantile(samples.web_ms, 0.99))
    found |= handover_metrics(samples)
    found |= link_metrics(samples, spec)
    found["decisions"] = len(samples.decisions)
    found["unfinished_programs"] = len(samples.unfinished)
    found["bytes_lost_transfers"] = found["requests_failed"] + found["wrong_files"]
    return {name: rounded(value) for name, value in found.items()}


def request_metrics(samples: Samples, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Of the phone's requests; those that are due and were never started, since the one before went on, count, too."""
    end_us = spec["duration_s"] * 1e6
    by_size: dict[int, list[float]] = {}
    failed = 0
    for number, asked in enumerate(spec["requests"]):
        took = by_size.setdefault(asked["bytes"], [])
        tasks = [task for task in samples.tasks if task.flow == f"request.{number}"]
        failed += sum(task.took_us is None and task.start_us < end_us for task in tasks)
        took += [(end_us - task.start_us if task.took_us is None else task.took_us) / 1e3 for task in tasks]
        first_us = asked["start_s"] * 1e6
        for missing in range(len(tasks), requests_due(asked, spec["duration_s"])):
            took.append((end_us - first_us - missing * asked["interval_ms"] * 1e3) / 1e3)
    every = [each for took in by_size.values() for each in took]
    found: dict[str, Any] = {"requests": len(every), "requests_failed": failed}
    if every:
        found["request_p50_ms"], found["request_p99_ms"] = np.quantile(every, (0.5, 0.99))
        found["request_small_p99_ms"] = np.quantile(by_size[min(by_size)], 0.99)
    return found


def transfer_metrics(samples: Samples, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Of the downloads, the upload and the file."""
    found: dict[str, Any] = {}
    end_us = spec["duration_s"] * 1e6
    downloads = [
        min(samples.ends[name][1], end_us) - at_s * 1e6 if name in samples.ends else end_us - at_s * 1e6
        for number, at_s in enumerate(spec["downloads"]["at_s"])
        for name in (f"download-{number}",)
    ]
    if downloads:
        found["download_mean_s"] = float(np.mean(downloads)) / 1e6
    upload = samples.received.get("upload.0")
    if upload is not None:
        lasts_s = spec["upload"]["stop_s"] - spec["upload"]["start_s"]
        found["upload_mbit_s"] = delivered(upload, end_us) * 8 / 1e6 / lasts_s
    if "upload.0" in samples.rtt_ms and len(samples.rtt_ms["upload.0"][1]):
        found["upload_rtt_mean_ms"] = float(samples.rtt_ms["upload.0"][1].mean())
    hosts = range(spec["receivers"]["count"] + 1)
    took = [
        samples.ends[name][1] - samples.ends[name][0] for name in (f"file-{n}" for n in hosts) if name in samples.ends
    ]
    if took:
        found["file_mean_s"] = float(np.mean(took)) / 1e6
    if spec["has"]["names"]:
        found["wrong_files"] = sum(not samples.files.get(number, False) for number in hosts)
    else:
        found["wrong_files"] = sum(samples.ends.get(f"file-{n}", (0, 0, 1))[2] != 0 for n in hosts)
    return found


def delivered(course: Course, until_us: float) -> float:
    """Bytes until a time."""
    before = course[1][course[0] <= until_us]
    return float(before[-1]) if len(before) else 0.0


def stream_metrics(samples: Samples, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Of the stream, over all receivers."""
    start_us, end_us = spec["stream"]["start_s"] * 1e6, spec["duration_s"] * 1e6
    rate_bytes_us = spec["stream"]["rate_mbit_s"] / 8
    nothing = (np.array([]), np.array([]))
    courses = [samples.came.get(number, nothing) for number in range(spec["receivers"]["count"] + 1)]
    goodput = [delivered(course, end_us) * 8 / (end_us - start_us) for course in courses]
    stood = [stalls(course, rate_bytes_us, start_us, end_us) for course in courses]
    return {
        "stream_goodput_mbit_s": float(np.mean(goodput)),
        "stream_stalls": sum(count for count, _ in stood),
        "stream_stalled_s": sum(stalled_us for _, stalled_us in stood) / 1e6,
    }


def stalls(course: Course, rate_bytes_us: float, start_us: float, end_us: float) -> tuple[int, float]:
    """How often, and how long (us), a player of the stream stands still between two times, after it has started. What
    never came to its start is one stall of all the time. Between two samples nothing is known to come."""
    buffer = PLAYER_BUFFER_S * 1e6 * rate_bytes_us
    times, values = course
    last = float(values[-1]) if len(values) else 0.0
    count, stalled_us, began, playing = 0, 0.0, False, False
    now_us, had, played = start_us, 0.0, 0.0
    for t_us, total in zip([*times.tolist(), end_us], [*values.tolist(), last], strict=True):
        passed_us = min(t_us, end_us) - now_us
        if passed_us < 0:
            continue
        lasts_us = (had - played) / rate_bytes_us
        if playing and lasts_us < passed_us:
            count, playing = count + 1, False
            stalled_us, played = stalled_us + passed_us - lasts_us, had
        elif playing:
            played += passed_us * rate_bytes_us
        elif began:
            stalled_us += passed_us
        now_us, had = now_us + passed_us, float(total)
        if not playing and had - played >= buffer:
            playing = began = True
    return (count, stalled_us) if began else (1, end_us - start_us)


def handover_metrics(samples: Samples) -> dict[str, Any]:
    """The silence at the phone's moves."""
    courses = [course for flow, course in samples.received.items() if flow.startswith("download.")]
    courses += [samples.came[0]] if 0 in samples.came else []
    gaps_ms, ptos = [], []
    for move in samples.moves:
        gaps = [gap for gap in (gap_ms(course, move["t_us"]) for course in courses) if gap is not None]
        if gaps:
            gaps_ms.append(min(gaps))
            pto = pto_ms(samples, move["t_us"])
            ptos += [min(gaps) / pto] if pto else []
    return {
        "handover_gap_ms": max(gaps_ms) if gaps_ms else None,
        "handover_gap_ptos": max(ptos) if ptos else None,
    }


def gap_ms(course: Course, move_us: float) -> float | None:
    """The longest time without a byte more, from a move on; None where nothing came before it or after it."""
    times, values = course
    grew_us = times[1:][np.diff(values) > 0]
    after = np.searchsorted(grew_us, move_us)
    last = np.searchsorted(grew_us, move_us + AFTER_MOVE_S * 1e6)
    if after == 0 or after == len(grew_us):
        return None
    gaps = np.diff(grew_us[after - 1 : max(last, after) + 1])
    return float(gaps.max()) / 1e3 if len(gaps) else None


def pto_ms(samples: Samples, move_us: float) -> float | None:
    """The probe timeout (RFC 9002 6.2.1) of the phone's requests before a move."""
    found = []
    for flow, (times, rtt_ms) in samples.rtt_ms.items():
        if flow.startswith("request."):
            these = rtt_ms[(times >= move_us - BEFORE_MOVE_S * 1e6) & (times < move_us)]
            if len(these):
                deviation = float(np.abs(these - these.mean()).mean())
                found.append(float(these.mean()) + max(4 * deviation, 1.0) + MAX_ACK_DELAY_MS)
    return float(np.mean(found)) if found else None


def link_metrics(samples: Samples, spec: Mapping[str, Any]) -> dict[str, Any]:
    """What the backbone and the publisher carried, and what was merged."""
    found: dict[str, Any] = {}
    backbone, publisher = samples.links.get(("core", "bb")), samples.links.get(("publisher", "eth0"))
    if backbone is not None:
        found["backbone_sent_bytes"] = backbone["sent_bytes"]
    if publisher is not None:
        stream_bytes = spec["stream"]["rate_mbit_s"] * 1e6 / 8 * (spec["duration_s"] - spec["stream"]["start_s"])
        found["publisher_sent_bytes"] = publisher["sent_bytes"]
        found["publisher_sent_ratio"] = publisher["sent_bytes"] / (spec["file"]["bytes"] + stream_bytes)
    joined = sum(packets.get("interests_joined", 0) for packets in samples.switches.values())
    kinds = ("interests_joined", "interests_forwarded", "interests_repeated")
    if took := sum(packets.get(kind, 0) for packets in samples.switches.values() for kind in kinds):
        found["joined_percent"] = 100 * joined / took
    return found
