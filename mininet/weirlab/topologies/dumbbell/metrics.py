# SPDX-License-Identifier: Apache-2.0
"""A run's samples on the dumbbell in, flat metrics out; `samples.py` has the form of a samples file.

`compute` is pure but for reading the file: the same samples and spec give the same metrics to the last digit.
"""

import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from weirlab.metrics.estimate import rounded
from weirlab.metrics.samples import SamplesError
from weirlab.topologies.dumbbell import bands, paced, return_way, senders, step_response
from weirlab.topologies.dumbbell.fairness import jain_index, mean_rate_bit_s
from weirlab.topologies.dumbbell.hops import LINE_QUEUE, QUEUE_UNDER_TEST, RETURN_QUEUE
from weirlab.topologies.dumbbell.samples import (
    COUNTERS,
    RECEIVER,
    RESPONSIVE,
    Packets,
    Samples,
    Shorts,
    read_samples,
)
from weirlab.topologies.dumbbell.traffic import PACED_KINDS, SHORT_KINDS

BULK_PACKET_BYTES = 500
METRICS: dict[str, str] = {
    "goodput_total_mbit_s": "application bytes received by all flows, over the time after warm-up",
    "goodput_per_flow_mean_kbit_s": "application bytes received by each responsive flow while it ran: mean over flows",
    "goodput_per_flow_sd_kbit_s": "the same: standard deviation between flows",
    "goodput_per_flow_min_kbit_s": "the same: least",
    "goodput_per_flow_max_kbit_s": "the same: most",
    "jain_index": "Jain's fairness index of the responsive flows' goodput; where senders are compared, of the "
    "flows under test from the time when the last has started",
    "queue_delay_mean_ms": "time a packet waited in the queue under test: mean over packets",
    "queue_delay_sd_ms": "the same: standard deviation",
    "queue_delay_p50_ms": "the same: median",
    "queue_delay_p95_ms": "the same: 95th percentile",
    "queue_delay_p99_ms": "the same: 99th percentile",
    "queue_delay_max_ms": "the same: largest",
    "queue_delay_bulk_p99_ms": "the same for packets of bulk flows alone (flows that send in half of the seconds "
    f"or more, with {BULK_PACKET_BYTES} bytes a packet or more in the mean): 99th percentile",
    "queue_delay_excess_ms": "mean over packets of what the queue delay is above the reference target",
    "rtt_mean_ms": "round-trip time as the senders (where they are compared, those under test) estimate it, sampled "
    "over time: mean",
    "rtt_p95_ms": "the same: 95th percentile",
    "loss_percent": "packets dropped by the queue under test or lost by a link, of those that reached that queue; "
    "where senders are compared, packets that those under test count as lost, of those that they sent",
    "lost_packets": "packets dropped by the queue under test or lost by a link",
    "drops_aqm_packets": "packets dropped at the queue under test to control it",
    "drops_limit_packets": "packets dropped at the queue under test because it was full",
    "drops_qdisc_packets": "packets dropped at the queue under test by a discipline that doesn't say why",
    "link_lost_packets": "packets lost on links and in other queues",
    "marks_packets": "packets marked CE instead of dropped",
    "rx_packets": "packets that left the queue under test",
    "utilisation_percent": "bits that left the queue under test, of what the link can carry",
    "delay_outside_mean_ms": "what other queues than the one under test held, over the packets that left that one",
    "delay_outside_percent": "share of all queueing delay that arose in other queues than the one under test",
    "unmeasured_percent": "packets that were not measured, of those at the queue under test",
    "unmeasured_outside_percent": "the same at the other hop with the highest share",
    "fct_count": f"short transfers that began after warm-up and {step_response.FCT_LAST_S:g} s before the end",
    "fct_unfinished_percent": "those of them still under way at the end; the times below take their age, a lower bound",
    "fct_mean_ms": "time from a short transfer's opening to its last byte: mean",
    "fct_p95_ms": "the same: 95th percentile",
    **{
        f"fct_{name}_{kind}_ms": f"the same, of transfers {text}: {words}"
        for name, text in (
            ("small", "up to 14,600 bytes, a first window"),
            ("medium", "above that, up to 100,000 bytes"),
            ("large", "above 100,000 bytes"),
        )
        for kind, words in (("mean", "mean"), ("p95", "95th percentile"))
    },
    "steps_count": "changes of link or load after warm-up",
    "settled_share": "share of them after which the queue settled within 2 s, or 10 round trips if longer",
    "settling_mean_s": "time it took to settle, the whole phase where it did not: mean over steps",
    "settling_max_s": "the same: longest",
    "overshoot_mean_ms": "the delay's peak above the reference target after a step: mean over steps",
    "overshoot_max_ms": "the same: highest",
    "spectral_peak_ratio": "highest peak of the queue delay's spectrum over its floor; noise alone gives 2 to 5",
    "spectral_peak_hz": "the same: at which frequency",
    "spectral_peak_rms_ms": "the same: what swings there above the floor, root mean square",
    "decisions_count": "changes of gains that the tuner made, trials and rolling back included",
}
# Where the rate follows a file.
CAPACITY_METRICS: dict[str, str] = {
    "capacity_mean_mbit_s": "what the link can carry: mean over the time after warm-up",
    "goodput_of_capacity_percent": "goodput of all flows, of what the link can carry",
}
# Where a line follows the queue under test.
LINE_METRICS: dict[str, str] = {
    "line_delay_mean_ms": "time a packet waited in the line's fifo, behind the queue under test: mean over packets",
    "line_delay_p99_ms": "the same: 99th percentile",
}
ALL_METRICS = {
    **METRICS,
    **CAPACITY_METRICS,
    **LINE_METRICS,
    **return_way.METRICS,
    **paced.METRICS,
    **bands.METRICS,
    **senders.METRICS,
}
DELAY_OUTSIDE_LIMIT_PERCENT = 5.0
# A link that nobody fills has no queue to speak of; the share of nothing that arose elsewhere says nothing.
DELAY_OUTSIDE_FLOOR_MS = 0.25
UNMEASURED_LIMIT_PERCENT = 0.1
# Other hops serve DELAY_OUTSIDE_LIMIT_PERCENT alone. Unmeasured there are twins, bare acknowledgements with the same
# bytes within a round trip (23 of 18,799 in short-mixed with pfifo), which the sampler can't distinguish.
UNMEASURED_OUTSIDE_LIMIT_PERCENT = 1.0
FCT_CLASSES = (("small", 14_600), ("medium", 100_000), ("large", math.inf))
CHANGES_OF_GAINS = ("set", "trial", "roll-back")


def compute(samples_path: str | Path, spec: Mapping[str, Any]) -> dict[str, Any]:
    """All metrics of one run, by the names in METRICS, plus `delay_share_HOP_percent` for each hop measured,
    `goodput_group_N_mbit_s` where there are several groups of flows, and for each step, counted from 1, `step_N_at_s`,
    `step_N_settling_s`, `step_N_settled` (1 or 0) and `step_N_overshoot_ms` (`step_response.py` defines them). Where
    the scenario has such things, also those in CAPACITY_METRICS, in `return_way.py`, in `bands.py`, in `senders.py`
    and, for all flows of a kind and for each (`voice_1.0_delay_mean_ms`), in `paced.py`.

    Where the spec has `sample_one_in`, other hops than the queue under test timed one packet in so many, and their
    content and losses are that many times the measured ones.

    Numbers are rounded to 6 decimals; None where the run has nothing to measure it by. Raises SamplesError if the file
    is damaged or lacks lines that the spec promises (a flow, the queue under test).
    """
    return metrics_of(read_samples(samples_path, spec), spec, str(samples_path))


def failures(metrics: Mapping[str, Any]) -> list[str]:
    """The checks that a run's metrics fail, one line each; empty if they all pass."""
    found = []
    outside = metrics["delay_outside_percent"]
    if (
        outside is not None
        and outside > DELAY_OUTSIDE_LIMIT_PERCENT
        and (metrics["delay_outside_mean_ms"] > DELAY_OUTSIDE_FLOOR_MS)
    ):
        shares = {
            name.removeprefix("delay_share_").removesuffix("_percent"): value
            for name, value in metrics.items()
            if name.startswith("delay_share_") and name != f"delay_share_{QUEUE_UNDER_TEST}_percent"
        }
        worst = max(shares, key=lambda hop: shares[hop])
        found.append(
            f"{outside:.1f} % of the queueing delay arose outside the {QUEUE_UNDER_TEST} (limit "
            f"{DELAY_OUTSIDE_LIMIT_PERCENT:g} %), most of it at {worst} ({shares[worst]:.1f} %); "
            f"give {worst} a higher rate, or measure the queue there"
        )
    for name, where, limit in (
        ("unmeasured_percent", f"the {QUEUE_UNDER_TEST}", UNMEASURED_LIMIT_PERCENT),
        ("unmeasured_outside_percent", "another hop", UNMEASURED_OUTSIDE_LIMIT_PERCENT),
    ):
        unmeasured = metrics.get(name)
        if unmeasured is not None and unmeasured > limit:
            found.append(
                f"{unmeasured:.2f} % of the packets at {where} were not measured (limit {limit:g} %); "
                f"see the sampler lines of the samples"
            )
    return found


def metrics_of(samples: Samples, spec: Mapping[str, Any], where: str = "samples") -> dict[str, Any]:
    """The metrics of samples in memory; `where` names them in errors. See `compute`."""
    begin_us, end_us = spec["warmup_s"] * 1e6, spec["duration_s"] * 1e6
    found: dict[str, Any] = dict.fromkeys(METRICS)
    if QUEUE_UNDER_TEST not in samples.packets:
        raise SamplesError(f"{where}: no packet left {QUEUE_UNDER_TEST}; there is nothing to measure")
    windowed = {hop: _window(packets, begin_us, end_us) for hop, packets in samples.packets.items()}
    under_test = windowed[QUEUE_UNDER_TEST]
    if not len(under_test.t_us):
        raise SamplesError(f"{where}: no packet left {QUEUE_UNDER_TEST} after the warm-up of {spec['warmup_s']:g} s")
    found |= delay_metrics(under_test.delay_us / 1e3, spec["reference_target_ms"])
    found["queue_delay_bulk_p99_ms"] = bulk_p99_ms(under_test, begin_us, end_us)
    found |= goodput_metrics(samples, spec, where)
    found |= _rtt_metrics(samples, spec, begin_us, end_us)
    one_in = spec.get("sample_one_in", 1)
    found |= _loss_metrics(samples, under_test, begin_us, end_us, one_in)
    capacity_bits = step_response.capacity_bits(spec, spec["warmup_s"], spec["duration_s"])
    if "rates" in spec["link"].get("line", spec["link"]["bottleneck"]):
        found["capacity_mean_mbit_s"] = capacity_bits / (end_us - begin_us)
        found["goodput_of_capacity_percent"] = 100 * found["goodput_total_mbit_s"] / found["capacity_mean_mbit_s"]
    found["utilisation_percent"] = 100 * float(under_test.bytes.sum()) * 8 / capacity_bits
    found["unmeasured_percent"] = samples.unmeasured_percent.get(QUEUE_UNDER_TEST)
    found["unmeasured_outside_percent"] = max(
        (share for hop, share in samples.unmeasured_percent.items() if hop != QUEUE_UNDER_TEST), default=None
    )
    total_delay_us = {
        hop: float(packets.delay_us.sum()) * (1 if hop == QUEUE_UNDER_TEST else one_in)
        for hop, packets in windowed.items()
        if hop not in (RETURN_QUEUE, LINE_QUEUE)  # they have figures of their own
    }
    outside_us = sum(delay_us for hop, delay_us in total_delay_us.items() if hop != QUEUE_UNDER_TEST)
    found["delay_outside_mean_ms"] = outside_us / 1e3 / len(under_test.t_us)
    found |= delay_shares(total_delay_us)
    whole = samples.packets[QUEUE_UNDER_TEST]
    found |= step_response.course_metrics(whole.t_us, whole.delay_us, whole.bytes, spec)
    if any(flow["kind"] in SHORT_KINDS for flow in spec["flows"]):
        done = _completions(samples.shorts, begin_us, end_us)
        found |= step_response.fct_metrics(done.bytes, done.fct_us, done.open > 0, FCT_CLASSES)
    if "return" in spec["link"]:
        back = windowed.get(RETURN_QUEUE, Packets(*(np.array([]) for _ in fields(Packets))))
        found |= return_way.return_metrics(
            back.delay_us,
            back.bytes,
            _counted(samples, RETURN_QUEUE, begin_us, end_us),
            len(under_test.t_us),
            spec["link"]["return"]["rate_mbit_s"],
            (end_us - begin_us) / 1e6,
        )
    if LINE_QUEUE in windowed and len(windowed[LINE_QUEUE].t_us):
        found |= line_metrics(windowed[LINE_QUEUE].delay_us / 1e3)
    found |= paced.paced_metrics(samples.paced, spec)
    if senders.compared(spec):
        several = len(spec["flows"]) > 1
        groups = {n: found[f"goodput_group_{n}_mbit_s" if several else "goodput_total_mbit_s"]
                  for n in range(len(spec["flows"]))}  # fmt: skip
        found |= senders.senders_metrics(samples, spec, groups, under_test)
        done = _completions(samples.shorts, begin_us, end_us)
        found |= senders.completion_metrics(done.fct_us[np.isin(done.group, senders.under_test(spec))])
    if bands.has_both(spec):
        rates = {group: found[f"goodput_group_{group}_mbit_s"] for group in range(len(spec["flows"]))}
        found |= bands.bands_metrics(under_test.delay_us, under_test.bytes, under_test.low > 0, rates, spec)
    if spec.get("aqm", {}).get("tune"):
        found["decisions_count"] = sum(line.get("action") in CHANGES_OF_GAINS for line in samples.decisions)
    return {name: rounded(value) for name, value in found.items()}


def delay_metrics(delay_ms: np.ndarray, target_ms: float) -> dict[str, float]:
    """Figures of at least one packet's queue delay."""
    p50, p95, p99 = np.quantile(delay_ms, (0.5, 0.95, 0.99))
    return {
        "queue_delay_mean_ms": delay_ms.mean(),
        "queue_delay_sd_ms": delay_ms.std(),
        "queue_delay_p50_ms": p50,
        "queue_delay_p95_ms": p95,
        "queue_delay_p99_ms": p99,
        "queue_delay_max_ms": delay_ms.max(),
        "queue_delay_excess_ms": np.maximum(delay_ms - target_ms, 0.0).mean(),
    }


def bulk_p99_ms(packets: Packets, begin_us: float, end_us: float) -> float | None:
    """99th percentile of the delay of packets of bulk flows; None without any, and for samples without flows."""
    flows, places = np.unique(packets.flow, return_inverse=True)
    seconds = ((packets.t_us - begin_us) // 1e6).astype(int)
    active = np.bincount(np.unique(np.stack([places, seconds]), axis=1)[0], minlength=len(flows))
    sizes = np.bincount(places, weights=packets.bytes) / np.bincount(places)
    bulk = (flows > 0) & (active >= (end_us - begin_us) / 2e6) & (sizes >= BULK_PACKET_BYTES)
    delay_us = packets.delay_us[bulk[places]]
    return float(np.quantile(delay_us, 0.99)) / 1e3 if len(delay_us) else None


def line_metrics(delay_ms: np.ndarray) -> dict[str, float]:
    """Figures of at least one packet's delay behind the queue under test."""
    return {"line_delay_mean_ms": delay_ms.mean(), "line_delay_p99_ms": np.quantile(delay_ms, 0.99)}


def goodput_metrics(samples: Samples, spec: Mapping[str, Any], where: str = "samples") -> dict[str, float | None]:
    """Goodput by the receiving ends' counters. A flow is measured while it runs and warm-up is over.

    Of short transfers those count that ended then, and only in the sums.
    """
    begin_us, end_us = spec["warmup_s"] * 1e6, spec["duration_s"] * 1e6
    rates = []
    groups = [0.0] * len(spec["flows"])
    for group, flow in enumerate(spec["flows"]):
        first_us = max(flow["start_s"] * 1e6, begin_us)
        last_us = min(flow["stop_s"] * 1e6, end_us)
        if flow["kind"] in SHORT_KINDS:
            short = samples.shorts
            these = (short.group == group) & (short.t_us >= begin_us) & (short.t_us < end_us) & (short.open == 0)
            groups[group] = float(short.bytes[these].sum()) * 8
            continue
        if flow["kind"] in PACED_KINDS:
            for index in range(flow["count"]):
                if (group, index) not in samples.paced:
                    raise SamplesError(f"{where}: flow {group}.{index} ({flow['kind']}) has sent nothing")
                groups[group] += paced.goodput_bits(samples.paced[group, index], begin_us, end_us)
            continue
        for index in range(flow["count"]):
            side = RECEIVER[flow["kind"]]
            end = samples.flows.get((group, index, side))
            sender = samples.flows.get((group, index, "client" if side == "server" else "server"))
            if end is None and sender is None:
                raise SamplesError(f"{where}: flow {group}.{index} ({flow['kind']}) has no lines from its {side} end")
            if last_us <= first_us:
                continue  # over before warm-up was
            # Where drops are many, a flow may not get its first packet through in the whole run.
            rate_bit_s = 0.0 if end is None else mean_rate_bit_s(end.t_us, end.bytes, first_us, last_us)
            groups[group] += rate_bit_s * (last_us - first_us) / 1e6
            if flow["kind"] in RESPONSIVE:
                rates.append(rate_bit_s)
    found: dict[str, float | None] = {"goodput_total_mbit_s": math.fsum(groups) / (end_us - begin_us)}
    if len(groups) > 1:
        found |= {f"goodput_group_{n}_mbit_s": bits / (end_us - begin_us) for n, bits in enumerate(groups)}
    if rates:
        kbit_s = np.array(rates) / 1e3
        found |= {
            "goodput_per_flow_mean_kbit_s": kbit_s.mean(),
            "goodput_per_flow_sd_kbit_s": kbit_s.std(ddof=1) if len(kbit_s) > 1 else 0.0,
            "goodput_per_flow_min_kbit_s": kbit_s.min(),
            "goodput_per_flow_max_kbit_s": kbit_s.max(),
            "jain_index": jain_index(rates),
        }
    return found


def _completions(short: Shorts, begin_us: float, end_us: float) -> Shorts:
    """The short transfers that count: not those that begin too late to end. One that was under way at the run's end has
    the time until then, and `open`."""
    opened_us = short.t_us - short.fct_us
    these = (opened_us >= begin_us) & (opened_us < end_us - step_response.FCT_LAST_S * 1e6)
    # One that ended in the moments between the scenario's end and the lab's was under way then.
    still = (short.open[these] > 0) | (short.t_us[these] >= end_us)
    fct_us = np.where(still, end_us - opened_us[these], short.fct_us[these])
    return Shorts(short.t_us[these], short.group[these], short.bytes[these], fct_us, still.astype(float))


def delay_shares(total_delay_us: Mapping[str, float]) -> dict[str, float | None]:
    """Each hop's percentage of the queueing delay of all, and that of all but the queue under test."""
    everywhere = sum(total_delay_us.values())
    if everywhere <= 0:
        return {"delay_outside_percent": None}
    shares = {f"delay_share_{hop}_percent": 100 * total_delay_us[hop] / everywhere for hop in sorted(total_delay_us)}
    outside = sum(delay for hop, delay in total_delay_us.items() if hop != QUEUE_UNDER_TEST)
    return {**shares, "delay_outside_percent": 100 * outside / everywhere}


def _window(packets: Packets, begin_us: float, end_us: float) -> Packets:
    first, last = np.searchsorted(packets.t_us, (begin_us, end_us))
    return Packets(*(getattr(packets, field.name)[first:last] for field in fields(Packets)))


def _rtt_metrics(samples: Samples, spec: Mapping[str, Any], begin_us: float, end_us: float) -> dict[str, float]:
    rtts = []
    for (group, _, side), end in samples.flows.items():
        if side != RECEIVER[spec["flows"][group]["kind"]]:
            rtts.append(end.rtt_us[(end.t_us >= begin_us) & (end.t_us < end_us) & (end.rtt_us > 0)])
    rtt_ms = np.sort(np.concatenate(rtts)) / 1e3 if rtts else np.array([])
    return {"rtt_mean_ms": rtt_ms.mean(), "rtt_p95_ms": np.quantile(rtt_ms, 0.95)} if len(rtt_ms) else {}


def _loss_metrics(samples: Samples, left: Packets, begin_us: float, end_us: float, one_in: int) -> dict[str, Any]:
    """Losses by cause and marks after warm-up, from the queue's own counters where it has some, else from packets that
    never came out and, for a discipline of the kernel, from departures (`left`) with CE."""
    lost = {hop: int(np.count_nonzero((t_us >= begin_us) & (t_us < end_us))) for hop, t_us in samples.lost_t_us.items()}
    rx_packets = len(left.t_us)
    found: dict[str, Any] = {"rx_packets": rx_packets, **_counted(samples, QUEUE_UNDER_TEST, begin_us, end_us)}
    if "marks_packets" not in found and any(s["k"] == "qdisc" and s["hop"] == QUEUE_UNDER_TEST for s in samples.states):
        found["marks_packets"] = int(left.ce.sum())
    drops = [found[f"{c}_packets"] for c in COUNTERS if c != "marks" and f"{c}_packets" in found]
    dropped = sum(drops) if drops else lost.get(QUEUE_UNDER_TEST, 0)
    elsewhere = sum(count for hop, count in lost.items() if hop not in (QUEUE_UNDER_TEST, RETURN_QUEUE))
    found["link_lost_packets"] = one_in * elsewhere
    found["lost_packets"] = dropped + found["link_lost_packets"]
    found["loss_percent"] = 100 * (dropped + found["link_lost_packets"]) / (rx_packets + dropped)
    return found


def _counted(samples: Samples, hop: str, begin_us: float, end_us: float) -> dict[str, int]:
    """Counters of a queue between two times, as `drops_aqm_packets` and so on; only those it has."""
    found = {}
    states = [state for state in samples.states if state["hop"] == hop]
    for counter in COUNTERS:
        before, after = {}, {}
        for state in states:
            if counter in state:
                if state["t_us"] <= begin_us:
                    before[state["k"]] = state[counter]
                if state["t_us"] <= end_us:
                    after[state["k"]] = state[counter]
        if after:
            found[f"{counter}_packets"] = sum(after.values()) - sum(before.values())
    return found
