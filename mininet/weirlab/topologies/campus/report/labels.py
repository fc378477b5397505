# SPDX-License-Identifier: Apache-2.0
"""Settings of the runs in words, and their checks."""

from collections.abc import Mapping
from typing import Any

from weirlab.report import results
from weirlab.report.labels import count
from weirlab.report.model import Check
from weirlab.store.folder import Summary
from weirlab.topologies.campus.sites import FIRST_RECEIVER_PORT, OFFICE_PORT, SITES, UP, WIFI_PORT, switch_of

AQM_WORDS = {
    "law": "PID-Delay on every queue, in P4 and eBPF",
    "pfifo": "drop-tail queues",
    "pie": "pie on every queue",
    "fq_codel": "fq_codel on every queue",
}


TRAFFIC_WORDS = {
    "requests": "the phone's requests",
    "downloads": "the phone's downloads",
    "upload": "the phone's upload",
    "shared": "the file and the stream",
    "neighbours": "the neighbours'",
}
QUEUES = {
    ("core", "bb"): "backbone down",
    (switch_of(SITES[0]), str(UP)): "backbone up",
    ("cell", "celldown"): "cell down",
    ("cell", "cellup"): "cell up",
    ("line", "linedown"): "tether, desk down",
    ("line", "lineup"): "tether, desk up",
    **{(switch_of(site), str(WIFI_PORT)): f"Wi-Fi {site} down" for site in SITES},
    (switch_of(SITES[0]), str(OFFICE_PORT)): "office",
}
"""Names of queues for readers, by the controller's names."""


def queue_name(device: str, port: str) -> str:
    """A queue in words. A queue without another name is a receiver's; they are dealt out to the sites in turn."""
    if (device, port) in QUEUES:
        return QUEUES[device, port]
    site = next(site for site in SITES if switch_of(site) == device)
    return f"receiver {(int(port) - FIRST_RECEIVER_PORT) * len(SITES) + site}"


def run_counts(summary: Summary) -> str:
    return f"{results.run_counts(summary)}, in virtual time."


def in_words(spec: Mapping[str, Any]) -> list[str]:
    """Settings that all variants have in common, a sentence for each part."""
    backbone, cell, wifi, tether, receivers = (spec[k] for k in ("backbone", "cell", "wifi", "tether", "receivers"))
    rates = [rate for _, rate in cell["rates"]]
    flows = spec["neighbours"]
    return [
        f"backbone: {backbone['rate_mbit_s']:g} Mbit/s down, {backbone['up_mbit_s']:g} up, {backbone['delay_ms']:g} ms "
        "each way",
        f"cell: {min(rates):g} to {max(rates):g} Mbit/s down, {cell['up_mbit_s']:g} up, {cell['delay_ms']:g} ms",
        f"Wi-Fi: {wifi['rate_mbit_s']:g} Mbit/s, {wifi['delay_ms']:g} ms each way, {wifi['loss_percent']:g} % lost",
        f"tether: {tether['rate_mbit_s']:g} Mbit/s down, {tether['up_mbit_s']:g} up, {tether['delay_ms']:g} ms",
        f"{count(receivers['count'], 'receiver')} beside the phone, each with {receivers['rate_mbit_s']:g} Mbit/s",
        *(f"the phone asks for {each['bytes']} bytes every {each['interval_ms']:g} ms" for each in spec["requests"]),
        f"it downloads {spec['downloads']['bytes']} bytes {count(len(spec['downloads']['at_s']), 'time')}",
        f"it uploads from {spec['upload']['start_s']:g} to {spec['upload']['stop_s']:g} s",
        f"a file of {spec['file']['bytes']} bytes and a stream of {spec['stream']['rate_mbit_s']:g} Mbit/s for all",
        f"neighbours: {count(flows['cubic_count'], 'CUBIC download')}, {count(flows['bbr_count'], 'BBR download')}, "
        f"{flows['web_per_s']:g} web-like transfers a second, {count(flows['calls'], 'call')}, bursts of "
        f"{flows['burst_mbit_s']:g} Mbit/s",
        *(
            f"from {fade['at_s']:g} s on for {fade['for_s']:g} s Wi-Fi loses {fade['loss_percent']:g} %"
            for fade in spec["fades"]
        ),
        *(f"at {move['at_s']:g} s the phone moves to site {move['to_site']}" for move in spec["moves"]),
    ]


def has_in_words(has: Mapping[str, Any]) -> str:
    """Systems of a variant."""
    bands = ", two bands" if has["aqm"] == "law" and has["bands"] else ""
    tuned = ", tuned by one controller" if has["aqm"] == "law" and has["tune"] else ""
    paths = "a network chosen for each request" if has["paths"] == "choice" else f"{has['paths']} only"
    traffic = "" if has["traffic"] == "all" else f"; no traffic but {TRAFFIC_WORDS[has['traffic']]}"
    names = "file and stream by name" if has["names"] else "a QUIC download of file and stream for each receiver"
    windows = f"receive windows by the rule {has['window']}"
    return f"{AQM_WORDS[has['aqm']]}{bands}{tuned}; {paths}; {windows}; uploads by {has['upload_cc']}; {names}{traffic}"


def checks(summary: Summary) -> list[Check]:
    """The checks, passed or failed, and missing runs."""
    found = [
        *results.run_checks(summary),
        *results.soundness(
            summary,
            "no request of the phone ended without its bytes, every receiver has the publisher's file, every program "
            "ended with the run.",
        ),
    ]
    return found + results.chance_checks(summary)
