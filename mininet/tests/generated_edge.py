# SPDX-License-Identifier: Apache-2.0
"""Samples of the topology `edge` to test the arithmetic and the report with: made up, nothing was measured."""

from typing import Any

from weirlab.topologies.edge.tree import AIR_RATE_DEVICE, PUBLISHER, tree_of

T0_US = 16_000_000


def spec(carry: str = "names", seed: int = 1, **more: Any) -> dict[str, Any]:
    """A spec; `receivers`, `bytes`, `edges`, `beta`, `loss_percent`, `medium`, `moves`, `cache_mb`,
    `edge_server` and `rate_mbit_s` may differ. Without edges there is no bottleneck."""
    bottleneck = {"rate_mbit_s": more.get("rate_mbit_s", 16.0), "delay_ms": 5.0, "queue_limit_packets": 1000}
    return {
        "scenario": "made-up",
        "variant": carry,
        "topology": "edge",
        "duration_s": 60.0,
        "tree": {"edges": more.get("edges", 2)},
        "bottleneck": bottleneck if more.get("edges", 2) else None,
        "last_hop": {
            "medium": more.get("medium", "links"),
            "rate_mbit_s": more.get("last_rate_mbit_s"),
            "delay_ms": 1.0,
            "loss_percent": more.get("loss_percent", 1.0),
            "loss_up_percent": 0.0,
            "queue_limit_packets": 500,
        },
        "aqm": {"profile": "tuned"},
        "transfer": {"receivers": more.get("receivers", 4), "bytes": more.get("bytes", 1_000_000)},
        "moves": more.get("moves", []),
        "carrying": {
            "carry": carry,
            "beta": more.get("beta"),
            "gaps": True,
            "cache_mb": more.get("cache_mb"),
            "edge_server": more.get("edge_server", False),
            "repair": False,
            "reliable": False,
            "cc": "cubic",
        },
        "leaves": more.get("leaves", []),
        "seed": seed,
    }


def receiver(number: int, took_s: float, **more: Any) -> dict[str, Any]:
    given = {"k": "receiver", "receiver": number, "edge": 1, "started_us": T0_US, "status": 0, "bytes": 1_000_000}
    return {**given, "ended_us": T0_US + round(took_s * 1e6), "outcome": "complete", **more}


def links(node: str, device: str, sent_bytes: int, received_bytes: int = 0, before: int = 700) -> list[dict[str, Any]]:
    """The two lines of an interface that had sent and got `before` bytes already."""
    given = {"k": "link", "node": node, "device": device}
    return [
        {**given, "t_us": t_us, "sent_packets": 1, "received_packets": 1, "sent_bytes": sent, "received_bytes": got}
        for t_us, sent, got in (
            (T0_US, before, before),
            (T0_US + 10**6, before + sent_bytes, before + received_bytes),
        )
    ]


def counted(node: str, forwarded: int, joined: int, repeated: int, data: int, copies: int) -> dict[str, Any]:
    packets = {"interests_forwarded": forwarded, "interests_joined": joined, "interests_repeated": repeated}
    packets |= {"data_forwarded": data, "data_copies": copies}
    return {"k": "switch", "node": node, "packets": {counter: number for counter, number in packets.items() if number}}


def lines(made: dict[str, Any]) -> list[dict[str, Any]]:
    """A run in which all went well: by name one copy of the file leaves the publisher, else one for each receiver."""
    count, file_bytes = made["transfer"]["receivers"], made["transfer"]["bytes"]
    named = made["carrying"]["carry"] == "names"
    copies = 1 if named else count
    beta = made["carrying"]["beta"] or 8.0
    rate_mbit_s = (made["bottleneck"] or made["last_hop"])["rate_mbit_s"]
    took_s = copies * file_bytes * 8 / 1e6 / rate_mbit_s + 0.01 * made["seed"]
    asked = file_bytes // 1440 + 1
    again = round(asked * made["last_hop"]["loss_percent"] / 100 * (1 + 4 / beta))
    found: list[dict[str, Any]] = [{"k": "start", "t_us": T0_US}]
    found += links("publisher", "eth0", round(copies * file_bytes * 1.05), 9000)
    for segment, (node, device) in tree_of(made).segments.items():
        found += links(segment, AIR_RATE_DEVICE, round(copies * file_bytes * 1.25))
        found += links(node, device, round(copies * file_bytes * 1.05), 9000) if node != PUBLISHER else []
    for each in tree_of(made).receivers:
        said = {"asked": asked + again, "asked_again": again, "data": asked, "overheard": 0, "marked": 5}
        said = said | {"duplicates": 1} if named else {"sent": asked, "lost": again}
        found.append(receiver(each.number, took_s, edge=each.edge, bytes=file_bytes, **said))
    for switch in tree_of(made).switches:
        below = len(switch.all_below())
        if named:
            joined = asked * (len(switch.below) - 1) if below else 0
            found.append(counted(switch.name, asked, joined, again, asked, asked * len(switch.below)))
        else:
            found.append({"k": "switch", "node": switch.name, "packets": {}})
    for move in made["moves"]:
        at_us = T0_US + round(move["at_s"] * 1e6)
        found.append({"k": "move", "t_us": at_us, "receiver": 1, "from_edge": 1, "to_edge": move["to_edge"]})
        found += arrivals(at_us, gap_ms=30)
    return found


def arrivals(at_us: int, gap_ms: int, receiver: int = 1) -> list[dict[str, Any]]:
    """A byte each ms about a time, with a gap that begins 5 ms after it."""
    points, so_far = [], 0
    for ms in range(-50, 200):
        so_far += not 5 < ms < 5 + gap_ms
        points.append({"k": "arrived", "t_us": at_us + ms * 1000, "receiver": receiver, "bytes": so_far})
    return points
