# SPDX-License-Identifier: Apache-2.0
"""Settings of the runs in words, and their checks."""

from collections.abc import Mapping
from typing import Any

from weirlab.report import results
from weirlab.report.labels import count, plain
from weirlab.report.model import Check, State
from weirlab.store.folder import Summary
from weirlab.topologies.dumbbell.metrics import (
    DELAY_OUTSIDE_FLOOR_MS,
    DELAY_OUTSIDE_LIMIT_PERCENT,
    UNMEASURED_LIMIT_PERCENT,
    failures,
)
from weirlab.topologies.dumbbell.senders import compared, under_test
from weirlab.topologies.dumbbell.traffic import PACED_KINDS, SHORT_KINDS

P4_TARGETS = {"embedded": "weir-switch", "bmv2": "BMv2"}


def run_counts(facts: Mapping[str, Any], summary: Summary) -> str:
    return (
        f"{results.run_counts(summary)} of {facts['duration_s']:g} s of virtual time each; the first "
        f"{facts['warmup_s']:g} s are left out of every figure. The excess is over {facts['reference_target_ms']:g} ms "
        f"for all."
    )


KINDS = {
    "quic-download": "QUIC download",
    "quic-upload": "QUIC upload",
    "tcp": "TCP transfer",
    "quic-short": "place of short QUIC transfers",
    "tcp-short": "place of short TCP transfers",
    "udp": "UDP flow",
    "voice": "voice flow",
    "game": "game flow",
    "ping": "ping flow",
}


def in_words(spec: Mapping[str, Any]) -> list[str]:
    """Settings of a run, a sentence for each part. Variants name their flows under test themselves."""
    lines = []
    for group, flow in enumerate(spec["flows"]):
        tested = compared(spec) and group in under_test(spec)
        text = count(flow["count"], "flow under test" if tested else KINDS[flow["kind"]])
        if flow["kind"] == "udp":
            text += f", unresponsive, {flow['rate_mbit_s']:g} Mbit/s each"
            if "on_s" in flow:
                text += f" for {flow['on_s']:g} s, then silent for {flow['off_s']:g} s, in turn"
        elif flow["kind"] in PACED_KINDS:
            text += f", {flow['packets_per_s']:g} packets a second each"
            text += f", DSCP {flow['dscp']}" if flow["dscp"] else ""
            text += ", ECT(0)" if flow["ecn"] else ""
        elif not tested:
            text += f", {flow['cc']}"
        if flow["kind"] in SHORT_KINDS:
            drawn = "bytes" not in flow
            size = f"median {flow['bytes_median']:g} bytes, log-normal" if drawn else f"{flow['bytes']} bytes each"
            text += f", {flow['arrivals_per_s']:g} arriving a second in all, {size}"
        if "burst_bytes" in flow:
            text += f", {flow['burst_bytes']} bytes to send every {flow['burst_every_ms']} ms and nothing else"
        if flow.get("extra_rtt_ms"):
            text += f", {flow['extra_rtt_ms']:g} ms more of round trip than the others"
        if not tested:
            most = "" if flow["kind"] in PACED_KINDS else "up to "
            text += f", {most}{flow['payload_bytes']} bytes of payload a packet"
        lines.append(f"{text}, from {flow['start_s']:g} to {flow['stop_s']:g} s")
    access, bottleneck = spec["link"]["access"], spec["link"]["bottleneck"]
    lines.append(f"access links, one for each sender: {link_in_words(access)}")
    lines.append(f"bottleneck, shared by all: {link_in_words(bottleneck)}")
    if back := spec["link"].get("return"):
        lines.append(
            f"way back of the bottleneck: {back['rate_mbit_s']:g} Mbit/s, queue of {back['queue_limit_packets']} "
            f"packets, {aqm_in_words(back['queue'])} unless the variant has its own"
        )
    words = {"rate_mbit_s": "{:g} Mbit/s", "delay_ms": "{:g} ms one way", "loss_percent": "{:g} % lost at random"}
    for change in spec.get("changes", ()):
        what = ", ".join(text.format(change[key]) for key, text in words.items() if key in change)
        lines.append(f"from {change['at_s']:g} s on the bottleneck has {what}")
    return lines


def variant_in_words(spec: Mapping[str, Any]) -> str:
    """A variant's discipline, and that of the way back where it has its own; its senders, where these are compared."""
    text = aqm_in_words(spec["aqm"])
    if compared(spec):
        flows = (spec["flows"][group] for group in under_test(spec))
        senders = dict.fromkeys(f"{KINDS[flow['kind']]}, {flow.get('cc', 'no control')}" for flow in flows)
        text = f"{'; '.join(senders)}; {text}"
    return f"{text}; on the way back {aqm_in_words(spec['return_aqm'])}" if "return_aqm" in spec else text


def aqm_in_words(aqm: Mapping[str, Any]) -> str:
    """A discipline and its options."""
    own = (
        "qdisc", "profile", "signal", "switch", "program", "tune", "coupled", "bands", "flow_queues", "qdisc_args",
    )  # fmt: skip
    rest = {key: value for key, value in aqm.items() if key not in own}
    match aqm["qdisc"]:
        case "weir":
            name = f"PID law as tc eBPF, profile {aqm['profile']}"
        case "p4":
            name = f"PID law in {aqm['program']} on {P4_TARGETS[aqm['switch']]}, profile {aqm['profile']}"
        case "args":
            return f"kernel {aqm['qdisc_args']}"
        case kind:
            name = f"kernel {kind}"
    if "signal" in aqm:
        name += f", signal {aqm['signal']}"
    if aqm.get("coupled"):
        name += ", two coupled bands"
    if aqm.get("bands"):
        name += ", two bands of flows"
    if aqm.get("flow_queues"):
        name += ", flow queues"
    if aqm.get("tune"):
        name += ", the tuner running beside it and starting from"
    return f"{name}: {', '.join(f'{k} {plain(v)}' for k, v in rest.items())}" if rest else f"{name} (drop-tail)"


def checks(summary: Summary) -> list[Check]:
    """The checks, passed or failed, and missing runs."""
    found = results.run_checks(summary)
    for metric, name, what, limit in (
        (
            "delay_outside_percent",
            "Place of the delay",
            f"of the queueing delay was in other queues than the one under test, where it was over "
            f"{DELAY_OUTSIDE_FLOOR_MS:g} ms there",
            DELAY_OUTSIDE_LIMIT_PERCENT,
        ),
        (
            "unmeasured_percent",
            "Measured packets",
            "of the packets at the queue under test were not measured",
            UNMEASURED_LIMIT_PERCENT,
        ),
    ):
        known = [
            # A share of next to nothing says nothing.
            value if metric != "delay_outside_percent" or _counts(run.metrics) else 0.0
            for run in summary.runs
            if (value := run.metrics[metric]) is not None
        ]
        if known:
            passed = sum(value <= limit for value in known)
            value = f"{passed} of {count(len(summary.runs), 'run')} passed; at most {max(known):.2f} % {what}"
            state = State.PASSED if passed == len(summary.runs) else State.PARTIAL
            found.append(Check(name, state, value, f"{limit:g} %", failures.__module__))
    return found + results.chance_checks(summary)


def _counts(metrics: Mapping[str, Any]) -> bool:
    return bool(metrics["delay_outside_mean_ms"] > DELAY_OUTSIDE_FLOOR_MS)


def link_in_words(link: Mapping[str, Any]) -> str:
    loss = f", {link['loss_percent']:g} % random loss" if link["loss_percent"] else ", no random loss"
    queue = f"queue of {link['queue_limit_packets']} packets"
    rate = f"{link['rate_mbit_s']:g} Mbit/s"
    if "rates" in link:
        least, most = (limit(rate for _, rate in link["rates"]) for limit in (min, max))
        rate = f"a rate that follows {link['rate_file']} ({least:.3g} to {most:.3g} Mbit/s, mean {rate})"
    return f"{rate}, {link['delay_ms']:g} ms one way{loss}, {queue}"
