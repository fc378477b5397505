# SPDX-License-Identifier: Apache-2.0
"""A run's samples on `campus` in, flat metrics out: by application. Pure but for reading the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weirlab.metrics.estimate import rounded
from weirlab.metrics.paced import LAST_S, figures, met
from weirlab.topologies.campus.commands import AGAIN, requests_due, there_is
from weirlab.topologies.campus.samples import Course, Samples, read_samples

PLAYER_BUFFER_S = 1.0
"""Part of the stream that a player buffers before it starts, and again after each stall."""
AFTER_MOVE_S = 3.0
"""Time after a move in which a silence is counted as the move's."""
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
    "file_mean_s": "time from asking for the file until a receiver had all of it: mean over receivers. One that has "
    "not all of it counts with the time until the run's end",
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
    "kills": "parts that were killed",
    "wrong_files": "receivers whose file is not the publisher's, or whose program said that it failed",
    "unfinished_files": "receivers that did not have all of the file by the end of the run",
    "unfinished_programs": "programs that had not ended 3 s after the run",
}


def compute(samples_path: str | Path, spec: Mapping[str, Any]) -> dict[str, Any]:
    """All metrics of one run, by the names in METRICS; None where the run has nothing to measure it by. Raises
    SamplesError if the file is damaged."""
    return metrics_of(read_samples(samples_path, spec), spec)


TARGETS = ("requests_failed", "wrong_files")
"""Metrics of applications' failures."""


def failures(metrics: Mapping[str, Any]) -> list[str]:
    """The checks that a run's metrics fail, one line each; empty if they all pass."""
    if metrics["kills"]:
        return []  # losses are the subject of the run
    found = []
    for metric, text in (
        ("requests_failed", "requests of the phone ended without all bytes"),
        ("wrong_files", "receivers have not the publisher's file"),
        ("unfinished_programs", "programs did not end with the run"),
    ):
        if metrics[metric]:
            found.append(f"{metrics[metric]} {text}; see the logs in the run's folder")
    return found


def missed(metrics: Mapping[str, Any]) -> list[str]:
    """Those of the failures that are targets missed; the rest make the run's figures doubtful."""
    return failures({name: value if name in (*TARGETS, "kills") else 0 for name, value in metrics.items()})


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
    found["kills"] = len(samples.kills)
    found |= kill_metrics(samples, spec)
    found["unfinished_programs"] = len(samples.unfinished)
    found["bytes_lost_transfers"] = found["requests_failed"] + found["wrong_files"]
    return {name: rounded(value) for name, value in found.items()}


def request_metrics(samples: Samples, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Of the phone's requests; those that are due and were never started, since the one before went on, count, too."""
    end_us = spec["duration_s"] * 1e6
    if not there_is(spec, "requests"):
        return {"requests": 0, "requests_failed": 0}
    by_size: dict[int, list[float]] = {}
    failed = 0
    for number, asked in enumerate(spec["requests"]):
        took = by_size.setdefault(asked["bytes"], [])
        flows = f"request.{number}", f"request.{number + AGAIN}"
        tasks = [task for task in samples.tasks if task.flow in flows]
        failed += sum(task.took_us is None and task.ended_us < end_us for task in tasks)
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
        for number, at_s in enumerate(spec["downloads"]["at_s"] if there_is(spec, "downloads") else ())
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
    no_file = {"wrong_files": 0, "unfinished_files": 0}
    return found | (file_metrics(samples, spec) if there_is(spec, "file") else no_file)


def file_metrics(samples: Samples, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics of the file, over all receivers. A transfer that the run's end cut counts with its age."""
    start_us, end_us = spec["file"]["start_s"] * 1e6, spec["duration_s"] * 1e6
    took_us, wrong, unfinished = [], 0, 0
    for number in range(spec["receivers"]["count"] + 1):
        _, ended_us, status = samples.ends.get(f"file-{number}", (start_us, end_us, 1))
        took_us.append(min(ended_us, end_us) - start_us)
        if ended_us >= end_us:
            unfinished += 1
        elif status != 0 or (spec["has"]["names"] and not samples.files.get(number, False)):
            wrong += 1
    return {"file_mean_s": float(np.mean(took_us)) / 1e6, "wrong_files": wrong, "unfinished_files": unfinished}


def delivered(course: Course, until_us: float) -> float:
    """Bytes until a time."""
    before = course[1][course[0] <= until_us]
    return float(before[-1]) if len(before) else 0.0


def stream_metrics(samples: Samples, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Of the stream, over all receivers."""
    if not there_is(spec, "stream"):
        return {}
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
    """Number and length (us) of a player's stalls between two times, after it has started. A stream that never came to
    its start is one stall of all the time. Between two samples nothing is known to come."""
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


KILL_FIGURES = {
    "stream_silence_ms": "longest time without a byte of the stream, of the receiver that waited longest",
    "requests_silence_ms": "longest time without a byte in the phone's applications",
    "upload_silence_ms": "longest time without a byte of the upload at the server",
}
AFTER_BACK_S = 3.0
"""Time after a part is back in which a silence still counts as its."""


def kill_metrics(samples: Samples, spec: Mapping[str, Any]) -> dict[str, float | None]:
    """KILL_FIGURES of each part that was killed, as PART_FIGURE: the stalled traffic, and the time."""
    found: dict[str, float | None] = {}
    stop_us = spec["upload"]["stop_s"] * 1e6
    for part, killed_us, back_us in samples.kills:
        until_us = min(back_us + AFTER_BACK_S * 1e6, spec["duration_s"] * 1e6)
        requests = [course for flow, course in samples.received.items() if flow.startswith("request.")]
        upload = samples.received.get("upload.0")
        silences = {
            "stream_silence_ms": [silence_ms(course, killed_us, until_us) for course in samples.came.values()],
            "requests_silence_ms": [silence_ms(together(requests), killed_us, until_us)],
        }
        if upload is not None and killed_us < stop_us:
            silences["upload_silence_ms"] = [silence_ms(upload, killed_us, min(until_us, stop_us))]
        found |= {f"{part}_{name}": max(silences.get(name, ()), default=None) for name in KILL_FIGURES}
    return found


def together(courses: Sequence[Course]) -> Course:
    """Bytes of several flows, at each time when one of them was looked at."""
    if not courses:
        return np.array([]), np.array([])
    times = np.unique(np.concatenate([times for times, _ in courses]))
    values = [np.concatenate([[0.0], values])[np.searchsorted(at, times, side="right")] for at, values in courses]
    return times, np.sum(values, axis=0)


def silence_ms(course: Course, from_us: float, until_us: float) -> float:
    """The longest time between two times without a byte more; a gap that began before counts from the last byte on."""
    times, values = course
    grew_us = times[1:][np.diff(values) > 0] if len(times) else times
    before = grew_us[grew_us <= from_us][-1:]
    inside = grew_us[(grew_us > from_us) & (grew_us < until_us)]
    marks = np.concatenate([before if len(before) else [from_us], inside, [until_us]])
    return float(np.diff(marks).max()) / 1e3


def link_metrics(samples: Samples, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Bytes on the backbone and from the publisher, and the share that was merged."""
    found: dict[str, Any] = {}
    backbone, publisher = samples.links.get(("core", "bb")), samples.links.get(("publisher", "eth0"))
    if backbone is not None:
        found["backbone_sent_bytes"] = backbone["sent_bytes"]
    if publisher is not None and there_is(spec, "file"):
        stream_bytes = spec["stream"]["rate_mbit_s"] * 1e6 / 8 * (spec["duration_s"] - spec["stream"]["start_s"])
        found["publisher_sent_bytes"] = publisher["sent_bytes"]
        found["publisher_sent_ratio"] = publisher["sent_bytes"] / (spec["file"]["bytes"] + stream_bytes)
    joined = sum(packets.get("interests_joined", 0) for packets in samples.switches.values())
    kinds = ("interests_joined", "interests_forwarded", "interests_repeated")
    if took := sum(packets.get(kind, 0) for packets in samples.switches.values() for kind in kinds):
        found["joined_percent"] = 100 * joined / took
    return found
