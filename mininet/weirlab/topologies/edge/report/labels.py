# SPDX-License-Identifier: Apache-2.0
"""Settings of the runs in words, and their checks."""

from collections.abc import Mapping
from typing import Any

from weirlab.report import results
from weirlab.report.labels import count
from weirlab.report.model import Check
from weirlab.store.folder import Summary
from weirlab.topologies.edge.deploy import LOCAL

WAY_WORDS = {
    "names": "the file is an object that the publisher offers, fetched by name (weir-icn publish and get)",
    "unicast": "a QUIC download for each receiver over UDP and IP (weir-server and weir-client)",
    "unicast-names": "a QUIC download for each receiver, its datagrams carried by name (weir-icn server and client)",
}


def run_counts(summary: Summary) -> str:
    return f"{results.run_counts(summary)}, in virtual time. All receivers start at the same moment."


def spec_in_words(spec: Mapping[str, Any]) -> list[str]:
    bottleneck, last = spec["bottleneck"], spec["last_hop"]
    rate = f"{last['rate_mbit_s']:g} Mbit/s" if last["rate_mbit_s"] else "no limit of the rate"
    kind = "a link for each receiver" if last["medium"] == "links" else "one segment for all at an edge switch"
    if bottleneck:
        links = [
            f"bottleneck: {bottleneck['rate_mbit_s']:g} Mbit/s, {bottleneck['delay_ms']:g} ms each way, "
            f"{bottleneck['queue_limit_packets']} packets, the law's profile {spec['aqm']['profile']}",
            f"last hop: {kind}, {rate}, {last['delay_ms']:g} ms each way",
        ]
    else:
        links = [
            f"one segment for the publisher and all receivers, {rate} for both directions, {last['delay_ms']:g} ms to "
            f"and from each receiver, {last['queue_limit_packets']} packets, first come, first served"
        ]
    return [
        *links,
        f"losses of each receiver: {last['loss_percent']:g} % of what comes, {last['loss_up_percent']:g} % of what it "
        "sends",
        f"{count(spec['tree']['edges'], 'edge switch').replace('switchs', 'switches')}" if bottleneck else "no switch",
        f"{count(spec['transfer']['receivers'], 'receiver')}",
        f"a file of {spec['transfer']['bytes']} bytes",
        *(
            f"receiver {move['receiver']} moves to edge switch {move['to_edge']} at {move['at_s']:g} s"
            for move in spec["moves"]
        ),
    ]


def way_in_words(spec: Mapping[str, Any]) -> str:
    """Transport of the file in a variant."""
    carrying = spec["carrying"]
    words = WAY_WORDS[carrying["carry"]]
    if carrying["carry"] == "unicast-names":
        words += ", reliable" if carrying["reliable"] else ", not reliable: QUIC repairs its losses"
    if carrying["carry"] != "names":
        words += f", {carrying['cc']}"
    if carrying["cache_mb"]:
        words += f", a cache of {carrying['cache_mb']} MB at each edge switch"
    if carrying["edge_server"]:
        words += ", and an edge server"
        if carrying["edge_server"] == LOCAL:
            words += " that only those at the switch can reach"
    if carrying["repair"]:
        words += ", repair symbols"
    if carrying["beta"] is not None:
        words += f", beta {carrying['beta']:g}"
    return words if carrying["gaps"] else words + ", asking again by the timer alone"


def checks(summary: Summary) -> list[Check]:
    """The checks, passed or failed, and missing runs."""
    found = [
        *results.run_checks(summary),
        *results.soundness(
            summary, "every receiver has the publisher's bytes, no switch dropped a packet for its form."
        ),
    ]
    return found + results.chance_checks(summary)
