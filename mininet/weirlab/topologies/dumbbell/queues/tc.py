# SPDX-License-Identifier: Apache-2.0
"""Queue disciplines as tc takes them."""

from __future__ import annotations

from weirlab.topologies.dumbbell.queues.red import red_burst, red_thresholds

# Queues whose own limit must not be what limits: the eBPF program does.
FLOOD_FIFO = "pfifo limit 100000"
DRR = "fq_codel limit 100000 noecn"  # flow queues; `weir-xdp attach --leaf-aqm off` disables their CoDel


def queue_under_test(aqm: dict, limit_packets: int, rate_mbit_s: float) -> str:
    """The tc text of the bottleneck's queue for one variant of a scenario. For `weir` the limit is the program's."""
    kind = aqm["qdisc"]
    min_bytes, max_bytes = red_thresholds(aqm, rate_mbit_s) if kind == "red" else (0, 0)
    words = {
        "pfifo": lambda: f"pfifo limit {limit_packets}",
        "weir": lambda: weir_queue(aqm, limit_packets),
        "pie": lambda: pie(aqm, limit_packets),
        "fq_pie": lambda: " ".join([pie(aqm, limit_packets), *flow_queues(aqm)]),
        "red": lambda: " ".join(
            [
                f"red limit {limit_packets * 1514} min {min_bytes} max {max_bytes}",
                f"avpkt {aqm['avpkt_bytes']} burst {aqm.get('burst_packets') or red_burst(aqm, rate_mbit_s)}",
                f"probability {aqm['probability']:g} bandwidth {rate_mbit_s:g}mbit",
                *(word for word in ("adaptive", "ecn") if aqm[word]),
            ]
        ),
        "codel": lambda: codel(aqm, limit_packets),
        "fq_codel": lambda: " ".join([codel(aqm, limit_packets), *flow_queues(aqm)]),
        "cake": lambda: " ".join(
            [
                f"cake unlimited rtt {aqm['rtt_ms']:g}ms {aqm['isolation']} {aqm['diffserv']}",
                f"memlimit {aqm.get('memory_limit_bytes', limit_packets * 1514)}",
            ]
        ),
        "dualpi2": lambda: "dualpi2",  # its options by netlink: `dualpi2.py`
        "args": lambda: aqm["qdisc_args"],
    }
    return words[kind]()


def weir_queue(aqm: dict, limit_packets: int) -> str:
    """The queue below the law. The limit is the program's; with signal poll it is the queue's own."""
    if aqm.get("flow_queues"):
        return DRR
    return f"pfifo limit {limit_packets}" if aqm.get("signal") == "poll" else FLOOD_FIFO


def bands_of(aqm: dict) -> str:
    """Kind of two bands that a variant has; "" for one queue."""
    return "coupled" if aqm.get("coupled") else "flows" if aqm.get("bands") else ""


def codel(aqm: dict, limit_packets: int) -> str:
    words = [f"{aqm['qdisc']} limit {limit_packets} target {aqm['target_ms']:g}ms interval {aqm['interval_ms']:g}ms"]
    if "ce_threshold_ms" in aqm:
        words.append(f"ce_threshold {aqm['ce_threshold_ms']:g}ms")
    return " ".join([*words, "ecn" if aqm["ecn"] else "noecn"])


def pie(aqm: dict, limit_packets: int) -> str:
    return " ".join(
        [
            f"{aqm['qdisc']} limit {limit_packets} target {aqm['target_ms']:g}ms tupdate {aqm['tupdate_ms']:g}ms",
            *(f"{key} {aqm[key]}" for key in ("alpha", "beta") if key in aqm),
            "ecn" if aqm["ecn"] else "noecn",
            "bytemode" if aqm["bytemode"] else "nobytemode",
            "dq_rate_estimator" if aqm["dq_rate_estimator"] else "no_dq_rate_estimator",
        ]
    )


def flow_queues(aqm: dict) -> list[str]:
    """The words of the disciplines that give each flow a queue."""
    memory = [f"memory_limit {aqm['memory_limit_bytes']}"] if "memory_limit_bytes" in aqm else []
    return [f"flows {aqm['flows']} quantum {aqm['quantum_bytes']}", *memory]
