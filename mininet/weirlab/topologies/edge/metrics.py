# SPDX-License-Identifier: Apache-2.0
"""A run's samples on `edge` in, flat metrics out: goodput, completion, what the publisher sent, what was merged.

`compute` is pure but for reading the file: the same samples and spec give the same metrics to the last digit.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from weirlab.metrics.estimate import rounded
from weirlab.topologies.edge.cross_run_stats import CROSS_METRICS, path_rtt_ms
from weirlab.topologies.edge.samples import Samples, read_samples
from weirlab.topologies.edge.tree import AIR_RATE_DEVICE, cache_of, tree_of

RUN_METRICS: dict[str, str] = {
    "receivers_count": "receivers that wanted the file, all at once",
    "file_bytes": "size of the file",
    "beta": "what is not answered is asked for again after so many smoothed response times; None where nothing asks "
    "again by it",
    "goodput_mean_mbit_s": "the file's bits over the time from the start until a receiver had all of it: mean over the "
    "receivers that have it. Connecting, the manifest and its check are in that time",
    "goodput_min_mbit_s": "the same: least",
    "goodput_sd_mbit_s": "the same: standard deviation over the receivers of a run",
    "completion_mean_s": "that time: mean over receivers",
    "completion_max_s": "the same: longest",
    "publisher_sent_bytes": "bytes of all frames that the publisher sent, from the Ethernet header on, until the last "
    "receiver was done",
    "publisher_sent_ratio": "the same over the file's size: 1 is one copy without any header",
    "publisher_received_bytes": "bytes of all frames that came to the publisher: Interests, or acknowledgements",
    "medium_carried_ratio": "bytes of all frames that crossed the broadcast segments, each counted once however many "
    "hear it, over the file's size",
    "medium_busy_percent": "the time that these bytes take at the segment's rate, in percent of the time until the "
    "last receiver was done; the mean of several segments",
    "medium_requests_percent": "of these bytes those that receivers sent, Interests or acknowledgements, in percent",
    "handshake_ms": "of QUIC downloads: time from the first packet to the end of the handshake, mean over receivers",
    "first_byte_ms": "the same, until the first byte of the file",
    "retransmissions_percent": "by name: segments asked for again, in percent of all that was asked for. By QUIC: "
    "packets that the server counts as lost, in percent of those sent. All receivers together",
    "merged_percent": "of the Interests that came to the edge switches from below, those that did not come to the "
    "publisher, because the name was pending at a switch or in a cache: in percent",
    "cache_hits_percent": "of the segments that the edge switches asked their caches for, those that were there: in "
    "percent",
    "copies_ratio": "copies that the edge switches sent for each Data that came to them",
    "marked_percent": "Data with a congestion mark, in percent of all Data that came to receivers",
    "overheard_percent": "Data that a receiver took in because another had asked for it, in percent",
    "duplicates_percent": "Data that a receiver had already, in percent",
    "move_gap_ms": "longest time without a byte at a receiver that moves, from a move on; looked at every 1 ms",
    "move_stall_ms": "longest time without content that is checked, at the program of a receiver that moves, from a "
    "move on; 10 ms or more",
    "move_bound_ms": "what a gap at a move may be: a round trip of the links without a queue, and beta times the "
    "response time of the receiver that moves, at its end",
    "move_gap_ratio": "move_gap_ms over move_bound_ms: the receiver's for which it is most",
    "move_stall_ratio": "move_stall_ms over move_bound_ms: the receiver's for which it is most",
    "move_back_ms": "time from a move until a server of the group answered from there, by the connection that there "
    "was or another: longest",
    "moved_wrong_receivers": "receivers that moved and, when all is over, have not the publisher's bytes, each once",
    "left_receivers": "receivers that wanted the file no longer before they had it",
    "rekeys": "keys that the publisher drew because receivers left",
    "group_migrated": "times that a receiver's connection to the publisher went on from another address",
    "group_lost": "times that such a connection was dead, and another one was begun",
    "group_reconnected": "connections after the first, because that was dead or another server answered first at a new "
    "address",
    "group_resumed": "of these, those that went on from an earlier one's ticket",
    "group_early_data": "of these, those whose request travelled with the first packets (0-RTT)",
    "failed_receivers": "receivers without the file at the end",
    "corrupt_receivers": "receivers whose file is not the publisher's",
    "names_dropped": "packets that switches dropped as malformed, as too far travelled or as come by a wrong port",
}
METRICS: dict[str, str] = {**RUN_METRICS, **CROSS_METRICS}
SHOWN_COUNTERS = (
    "interests_forwarded",
    "interests_joined",
    "interests_repeated",
    "data_forwarded",
    "data_copies",
)
"""Of each switch, as COUNTER_at_SWITCH among a run's metrics; what they are stands in docs/design/icn.md."""
DROPPED = ("malformed", "hop_limit", "bad_port")


def compute(samples_path: str | Path, spec: Mapping[str, Any]) -> dict[str, Any]:
    """All metrics of one run, by the names in RUN_METRICS, plus SHOWN_COUNTERS of each switch.

    Numbers are rounded to 6 decimals; None where the run has nothing to measure it by. Raises SamplesError if the file
    is damaged or lacks what the spec promises (a line of each receiver).
    """
    return metrics_of(read_samples(samples_path, spec), spec)


TARGETS = ("failed_receivers",)
"""Metrics that count what applications did not get."""


def failures(metrics: Mapping[str, Any]) -> list[str]:
    """The checks that a run's metrics fail, one line each; empty if they all pass."""
    found = []
    for metric, text in (
        ("failed_receivers", "receivers did not get the file; see the logs of their programs in the run's folder"),
        ("corrupt_receivers", "receivers have other bytes than the publisher's"),
        ("names_dropped", "packets by name were dropped as malformed, looping or from a wrong port"),
    ):
        if metrics[metric]:
            found.append(f"{metrics[metric]} {text}")
    return found


def missed(metrics: Mapping[str, Any]) -> list[str]:
    """Those of the failures that are targets missed; the rest make the run's figures doubtful."""
    return failures({name: value if name in TARGETS else 0 for name, value in metrics.items()})


def metrics_of(samples: Samples, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of samples in memory. See `compute`."""
    file_bytes = spec["transfer"]["bytes"]
    found: dict[str, Any] = dict.fromkeys(RUN_METRICS)
    found["receivers_count"] = len(samples.receivers)
    found["file_bytes"] = file_bytes
    told = [line["beta"] for line in samples.receivers if line.get("beta") is not None]
    found["beta"] = told[0] if told else spec["carrying"]["beta"]
    found["failed_receivers"] = sum(line["outcome"] in ("failed", "unfinished") for line in samples.receivers)
    found["corrupt_receivers"] = sum(line["outcome"] == "corrupt" for line in samples.receivers)
    done = [line for line in samples.receivers if line["outcome"] == "complete"]
    if done:
        took_s = np.array([(line["ended_us"] - line["started_us"]) / 1e6 for line in done])
        goodput = file_bytes * 8 / 1e6 / took_s
        found |= {"completion_mean_s": took_s.mean(), "completion_max_s": took_s.max()}
        found |= {"goodput_mean_mbit_s": goodput.mean(), "goodput_min_mbit_s": goodput.min()}
        found["goodput_sd_mbit_s"] = goodput.std(ddof=1) if len(goodput) > 1 else None
    for metric in ("handshake", "first_byte"):
        if known_us := [line[f"{metric}_us"] for line in samples.receivers if f"{metric}_us" in line]:
            found[f"{metric}_ms"] = float(np.mean(known_us)) / 1e3
    publisher = samples.links.get(("publisher", "eth0"))
    if publisher is not None:
        found["publisher_sent_bytes"] = publisher["sent_bytes"]
        found["publisher_sent_ratio"] = publisher["sent_bytes"] / file_bytes
        found["publisher_received_bytes"] = publisher["received_bytes"]
    found |= medium_metrics(samples, spec)
    found |= asking_metrics(samples.receivers)
    found |= merging_metrics(samples.switches, bool(samples.caches))
    at_edges = [counts for node, counts in samples.caches.items() if node != cache_of(0)]
    found["cache_hits_percent"] = _percent(at_edges, "hits", "asked")
    found["left_receivers"] = sum(line["outcome"] == "left" for line in samples.receivers)
    found["rekeys"] = samples.rekeys
    for metric in ("group_migrated", "group_lost", "group_reconnected", "group_resumed", "group_early_data"):
        told = [line[metric] for line in samples.receivers if metric in line]
        found[metric] = sum(told) if told else None
    found |= move_metrics(samples, path_rtt_ms(spec))
    for node, packets in samples.switches.items():
        if packets:
            found |= {f"{counter}_at_{node}": packets.get(counter, 0) for counter in SHOWN_COUNTERS}
    return {name: rounded(value) for name, value in found.items()}


def medium_metrics(samples: Samples, spec: Mapping[str, Any]) -> dict[str, float | None]:
    """Load of the broadcast segments; nothing where there are none, or for samples that don't count it."""
    segments = tree_of(spec).segments
    carried = [samples.links.get((node, AIR_RATE_DEVICE)) for node in segments]
    brought = [samples.links.get(place) for place in segments.values()]
    ended_us = [line["ended_us"] for line in samples.receivers]
    if not segments or None in carried or None in brought:
        return {}
    all_bytes = sum(counts["sent_bytes"] for counts in carried if counts)
    down_bytes = sum(counts["sent_bytes"] for counts in brought if counts)
    found: dict[str, float | None] = {"medium_carried_ratio": all_bytes / spec["transfer"]["bytes"]}
    if all_bytes:
        found["medium_requests_percent"] = 100 * (1 - down_bytes / all_bytes)
    if None not in ended_us:
        took_s = (max(ended_us) - samples.receivers[0]["started_us"]) / 1e6
        rate_bytes_s = spec["last_hop"]["rate_mbit_s"] * 1e6 / 8
        found["medium_busy_percent"] = 100 * all_bytes / len(segments) / rate_bytes_s / took_s
    return found


def asking_metrics(receivers: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Interests sent or repeated, and use of the Data that came."""
    again, all_asked = ("asked_again", "asked") if any("asked" in line for line in receivers) else ("lost", "sent")
    return {
        "retransmissions_percent": _percent(receivers, again, all_asked),
        "marked_percent": _percent(receivers, "marked", "data"),
        "overheard_percent": _percent(receivers, "overheard", "data"),
        "duplicates_percent": _percent(receivers, "duplicates", "data"),
    }


def _percent(lines: Sequence[Mapping[str, Any]], part: str, whole: str) -> float | None:
    total = sum(line.get(whole, 0) for line in lines)
    return 100 * sum(line.get(part, 0) for line in lines) / total if total else None


def merging_metrics(switches: Mapping[str, Mapping[str, int]], cached: bool = False) -> dict[str, float | None]:
    """Interests merged by the switches; nothing where no name passed them. With caches a switch counts those it sent on
    up twice: from below, and from its cache."""
    found: dict[str, float | None] = {}
    counting = [packets for packets in switches.values() if packets]
    if counting:
        found["names_dropped"] = sum(packets.get(counter, 0) for packets in counting for counter in DROPPED)
    edges = [packets for node, packets in switches.items() if node.startswith("edge") and packets]
    came = sum(looked_at(packets) for packets in edges)
    if cached:
        went_up = looked_at(switches["core"])
        came -= looked_at(switches["hub"]) - went_up if "hub" in switches else went_up
    if came:
        found["merged_percent"] = 100 * (1 - forwarded(switches["core"]) / came)
    arrived = sum(packets.get("data_forwarded", 0) for packets in edges)
    if arrived:
        found["copies_ratio"] = sum(packets.get("data_copies", 0) for packets in edges) / arrived
    return found


def looked_at(packets: Mapping[str, int]) -> int:
    """Interests that a switch took."""
    return forwarded(packets) + packets.get("interests_joined", 0)


def forwarded(packets: Mapping[str, int]) -> int:
    """Interests that a switch sent on."""
    return packets.get("interests_forwarded", 0) + packets.get("interests_repeated", 0)


def move_metrics(samples: Samples, rtt_ms: float) -> dict[str, float | None]:
    """Effects of moves on receivers that moved; nothing where none did. Ratios are of those that have the file."""
    movers = {move["receiver"]: samples.receivers[move["receiver"] - 1] for move in samples.moves}
    if not movers:
        return {}
    found: dict[str, list[float]] = {}
    for number, line in movers.items():
        moved_us = [move["t_us"] for move in samples.moves if move["receiver"] == number]
        gaps_ms = {"gap": longest_ms(gaps_of(samples.arrived.get(number, ())), moved_us)}
        if "stalls" in line:
            gaps_ms["stall"] = longest_ms([(t_us - waited_us, t_us) for t_us, waited_us in line["stalls"]], moved_us)
            found.setdefault("move_back_ms", []).extend(back_ms(line["back_us"], moved_us))
        bound_ms = None
        if line.get("beta") is not None and line.get("response_time_us") is not None:
            bound_ms = rtt_ms + line["beta"] * line["response_time_us"] / 1e3
            found.setdefault("move_bound_ms", []).append(bound_ms)
        for name, gap_ms in gaps_ms.items():
            if gap_ms is not None:
                found.setdefault(f"move_{name}_ms", []).append(gap_ms)
                if bound_ms is not None:
                    found.setdefault(f"move_{name}_ratio", []).append(gap_ms / bound_ms)
    told: dict[str, float | None] = {metric: max(values) for metric, values in found.items() if values}
    told["moved_wrong_receivers"] = sum(line["outcome"] not in ("complete", "left") for line in movers.values())
    return told


def gaps_of(points: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Between which times (us) no byte came, of times and bytes that had come by then."""
    grew_us = [now_us for (_, before), (now_us, now) in pairwise(points) if now > before]
    return list(pairwise(grew_us))


def longest_ms(gaps: Sequence[tuple[int, int]], moved_us: Sequence[int]) -> float | None:
    """The longest gap of those that end after a move and begin before it is over, or soon after it."""
    found = [
        later - earlier
        for earlier, later in gaps
        if any(later > at_us and earlier < at_us + AFTER_MOVE_US for at_us in moved_us)
    ]
    return max(found) / 1e3 if found else None


def back_ms(back_us: Sequence[int], moved_us: Sequence[int]) -> list[float]:
    """From each move on to the first answer of a server before the next move."""
    found = []
    for at_us, next_us in pairwise([*moved_us, float("inf")]):
        answered = [t_us for t_us in back_us if at_us < t_us < next_us]
        found += [(answered[0] - at_us) / 1e3] if answered else []
    return found


AFTER_MOVE_US = 2_000_000
"""Time after a move in which a gap is counted as the move's: as long as it is watched closely."""
