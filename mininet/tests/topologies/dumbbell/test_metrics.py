# SPDX-License-Identifier: Apache-2.0
import gzip
import json
import math
import statistics
from dataclasses import replace

import generated_samples
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.metrics.estimate import estimate, student_t95
from weirlab.metrics.samples import SamplesError
from weirlab.topologies.dumbbell import samples as metrics
from weirlab.topologies.dumbbell.metrics import (
    METRICS,
    bulk_p99_ms,
    compute,
    delay_metrics,
    delay_shares,
    failures,
    jain_index,
)

CAPTURED = generated_samples.CAPTURED
SPEC = {
    "scenario": "hand",
    "variant": "pie",
    "seed": 1,
    "duration_s": 4.0,
    "warmup_s": 1.0,
    "reference_target_ms": 15.0,
    "link": {"access": {"delay_ms": 1.0}, "bottleneck": {"rate_mbit_s": 10.0, "delay_ms": 50.0}},
    "aqm": {"qdisc": "pie"},
    "flows": [
        {"kind": "quic-download", "count": 2, "start_s": 0.0, "stop_s": 4.0},
        {"kind": "udp", "count": 1, "start_s": 2.0, "stop_s": 4.0},
    ],
}
T0_US = 5_000_000


def pkt(t_s, sojourn_us, hop="bottleneck", size_bytes=1440):
    t_us = T0_US + round(t_s * 1e6)
    return {"k": "pkt", "t_us": t_us, "hop": hop, "sojourn_us": sojourn_us, "bytes": size_bytes, "ce": 0}


def flow(t_s, name, side, received_bytes, **more):
    return {"k": "flow", "t_us": T0_US + round(t_s * 1e6), "flow": name, "side": side, "bytes": received_bytes, **more}


def sampler(hop, stamped, **escaped):
    return {
        "k": "sampler",
        "hop": hop,
        "stamped": stamped,
        "collisions": 0,
        "full": 0,
        "strays": 0,
        "ring_drops": 0,
    } | escaped


def hand_made():
    """Three seconds worth knowing, each figure of which can be done in the head."""
    return [
        {"k": "start", "t_us": T0_US},
        {"k": "hop", "hop": "bottleneck", "propagation_us": 100},
        {"k": "hop", "hop": "access", "propagation_us": 1000, "rate_mbit_s": 50},
        pkt(0.5, 900_100),  # warm-up
        pkt(1.5, 10_100),
        pkt(2.0, 20_100),
        pkt(3.0, 30_100),
        pkt(4.5, 900_100),  # after the end
        pkt(3.5, 40_100),  # lines come in any order
        pkt(1.6, 1000 + 230 + 1000, hop="access", size_bytes=1437.5),
        pkt(1.7, 10, hop="access", size_bytes=100),  # less than the hop can take: no negative queue
        {"k": "lost", "t_us": T0_US + 2_000_000, "hop": "egress", "bytes": 1440},
        {"k": "lost", "t_us": T0_US + 200_000, "hop": "egress", "bytes": 1440},
        {"k": "lost", "t_us": T0_US + 2_000_000, "hop": "bottleneck", "bytes": 1440},
        *(
            {"k": "qdisc", "t_us": T0_US + t, "hop": "bottleneck", "drops_aqm": n, "drops_limit": 1, "marks": 2 * n}
            for t, n in ((0, 0), (1_000_000, 3), (3_000_000, 4), (4_000_000, 5), (4_100_000, 9))
        ),
        *(flow(t, "0.0", "client", round(125_000 * t)) for t in np.arange(0, 4.01, 0.5)),
        *(flow(t, "0.1", "client", round(375_000 * t)) for t in np.arange(0, 4.01, 0.5)),
        *(flow(t, "1.0", "server", round(250_000 * (t - 2))) for t in np.arange(2, 4.01, 0.5)),
        *(flow(t, "0.0", "server", 0, rtt_us=100_000 + 1e4 * t) for t in (0.5, 1, 2, 3, 4)),
        flow(2, "0.1", "server", 0, rtt_us=0),
        flow(2, "0.1", "server", 0, rtt_us=333_000, min_rtt_us=None),  # quiche's guess before it has measured
        {"k": "end", "t_us": T0_US + 4_000_000, "side": "client", "flow": "0.0", "bytes": 500_000},
        sampler("bottleneck", 1000),
        sampler("access", 1000),
        sampler("access", 1000, ring_drops=1),
        flow(2, "0.1", "client", 0, rtt_us=77),
    ]


@pytest.fixture
def run(tmp_path):
    def compute_lines(records, spec=SPEC):
        return compute(generated_samples.write(tmp_path / "samples.jsonl", records), spec)

    return compute_lines


def test_figures_done_by_hand(run):
    records = [r for r in hand_made() if r.get("rtt_us") != 77]
    found = run(records)
    assert {name: value for name, value in found.items() if name in EXPECTED} == EXPECTED
    more = {f"step_1_{name}" for name in ("at_s", "settling_s", "settled", "overshoot_ms")}
    more |= {f"delay_share_{hop}_percent" for hop in ("bottleneck", "access")}
    assert set(found) == set(METRICS) | more | {"goodput_group_0_mbit_s", "goodput_group_1_mbit_s"}


EXPECTED = {
    "queue_delay_mean_ms": 25.0,
    "queue_delay_sd_ms": round(math.sqrt(125), 6),
    "queue_delay_p50_ms": 25.0,
    "queue_delay_p95_ms": 38.5,
    "queue_delay_p99_ms": 39.7,
    "queue_delay_max_ms": 40.0,
    "queue_delay_excess_ms": 11.25,
    "goodput_total_mbit_s": round(1 + 3 + 2 * 2 / 3, 6),
    "goodput_per_flow_mean_kbit_s": 2000.0,
    "goodput_per_flow_min_kbit_s": 1000.0,
    "goodput_per_flow_max_kbit_s": 3000.0,
    "goodput_per_flow_sd_kbit_s": round(1000 * math.sqrt(2), 6),
    "jain_index": 0.8,
    "rtt_mean_ms": 120.0,
    "rtt_p95_ms": 129.0,
    "rx_packets": 4,
    "drops_aqm_packets": 2,
    "drops_limit_packets": 0,
    "drops_qdisc_packets": None,
    "marks_packets": 4,
    "link_lost_packets": 1,
    "loss_percent": 50.0,
    "lost_packets": 3,
    "goodput_group_0_mbit_s": 4.0,
    "goodput_group_1_mbit_s": round(2 * 2 / 3, 6),
    "steps_count": 1,
    "step_1_at_s": 2.0,
    "fct_count": None,
    "decisions_count": None,
    "spectral_peak_ratio": None,
    "utilisation_percent": round(100 * 4 * 1440 * 8 / 30e6, 6),
    "delay_outside_percent": round(100 / 101, 6),
    "delay_share_access_percent": round(100 / 101, 6),
    "unmeasured_percent": 0.0,
    "unmeasured_outside_percent": 0.05,
}


def test_without_counters_what_never_came_out_is_the_loss(run):
    found = run([r for r in hand_made() if r["k"] != "qdisc" and r.get("rtt_us") != 77])
    assert found["drops_aqm_packets"] is None
    assert found["loss_percent"] == 40.0


def test_what_was_not_measured_is_none(run):
    found = run([r for r in hand_made() if "rtt_us" not in r or r["rtt_us"] == 333_000])
    assert found["rtt_mean_ms"] is None


def test_a_silent_flow_pays_for_its_silence(run):
    records = [
        r for r in hand_made() if not (r["k"] == "flow" and r["flow"] == "0.1" and r["t_us"] > T0_US + 2_000_000)
    ]
    assert run(records)["goodput_per_flow_max_kbit_s"] == 1000.0


def test_a_flow_that_got_nothing_through_has_nothing(run):
    records = [r for r in hand_made() if not (r.get("flow") == "0.1" and r["side"] == "client")]
    found = run([*records, flow(3, "0.1", "server", 8, rtt_us=1000)])
    assert found["goodput_per_flow_min_kbit_s"] == 0.0
    assert found["goodput_per_flow_max_kbit_s"] == 1000.0


def test_a_last_sample_shortly_before_the_end_costs_nothing(run):
    records = [r for r in hand_made() if not (r["k"] == "flow" and r["t_us"] > T0_US + 3_500_000)]
    assert run(records)["jain_index"] == 0.8


def test_delay_in_another_queue_fails_the_run_and_names_it(run):
    good = run(hand_made())
    assert failures(good) == []
    bad = run([*hand_made(), *(pkt(2, 7000, hop="access") for _ in range(2))])
    (line,) = failures(bad)
    assert "at access" in line
    assert "limit 5 %" in line


def test_packets_that_escape_measurement_fail_the_run(run):
    (line,) = failures(run([*hand_made(), sampler("bottleneck", 1000, full=1, collisions=2, strays=3)]))
    assert line.startswith("0.15 % of the packets at the bottleneck")  # one not stamped is the stray that comes out
    twins = sampler("reverse", 1000, collisions=5, strays=5)
    assert failures(run([*hand_made(), twins])) == []  # less than could hide delay there
    (line,) = failures(run([*hand_made(), twins, sampler("reverse", 1000, ring_drops=20)]))
    assert line.startswith("1.25 % of the packets at another hop")


def test_transfers_under_way_at_the_end_count_with_their_age(run):
    def short(t_s, number, fct_s, **more):
        line = {"k": "short", "t_us": T0_US + round(t_s * 1e6), "flow": f"1.{number}", "bytes": 10_000}
        return line | {"fct_us": round(fct_s * 1e6)} | more

    flows = [SPEC["flows"][0], {"kind": "tcp-short", "count": 1, "start_s": 0.0, "stop_s": 12.0}]
    records = [r for r in hand_made() if r.get("flow") != "1.0"]
    records += [
        short(1.5, 0, 1.0),  # opened before the warm-up ended
        short(3, 1, 1.0),
        short(5, 2, 2.0),
        short(9, 3, 0.1),  # opened too late
        short(12.01, 4, 6.01, open=1),  # opened at 6 s
        short(12.005, 5, 6.005),  # ended after the end, at which it was under way
        short(11.99, 6, 1.0, open=1),
    ]
    found = run(records, SPEC | {"duration_s": 12.0, "flows": flows})
    assert (found["fct_count"], found["fct_unfinished_percent"]) == (4, 50.0)
    assert found["fct_mean_ms"] == 1000 * (1 + 2 + 6 + 6) / 4
    assert found["goodput_group_1_mbit_s"] == round(4 * 10_000 * 8 / 11e6, 6)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: [*r, {"k": "pktt"}], "samples.jsonl:55: unknown kind 'pktt'"),
        (lambda r: [*r, {"k": "pkt", "t_us": 1}], ":55: hop is missing; a pkt line has"),
        (lambda r: [*r, 7], ":55: unknown kind None"),
        (lambda r: r[1:], "0 start lines"),
        (lambda r: [r[0], *r], "2 start lines"),
        (lambda r: [x for x in r if x["k"] != "hop"], "no hop line for access"),
        (lambda r: [x for x in r if x["k"] != "pkt"], "no packet left bottleneck"),
        (lambda r: [x for x in r if x["k"] != "pkt" or x["t_us"] < T0_US + 1e6], "after the warm-up of 1 s"),
        (lambda r: [x for x in r if x.get("flow") != "0.1"], "flow 0.1 (quic-download) has no lines from its client"),
        (lambda r: [*r, flow(2, "0.2", "client", 0)], "flow '0.2' is not in the scenario"),
        (lambda r: [*r, flow(2, 3, "client", 0)], "flow 3 is not in the scenario"),
        (lambda r: [*r, pkt(2, "x")], "sojourn_us is 'x' in a pkt line"),
        (lambda r: [*r, {**r[1], "propagation_us": "1"}], ":55: propagation_us is '1'"),
        (lambda r: [*r, {"k": "aqm", "t_us": 1, "hop": "x", "marks": None}], ":55: marks is None"),
        (lambda r: [*r, pkt(2, float("nan"))], "sojourn_us is nan in a pkt line"),
        (lambda r: [*r, pkt(2, "5")], "sojourn_us is '5' in a pkt line"),
        (lambda r: [*r, pkt(2, None)], "sojourn_us is None in a pkt line"),
    ],
)  # fmt: skip
def test_unusable_samples_are_refused(run, change, said):
    with pytest.raises(SamplesError) as caught:
        run(change(hand_made()))
    assert said in str(caught.value)


def test_a_truncated_last_line_is_an_error_with_its_number(tmp_path):
    path = generated_samples.write(tmp_path / "samples.jsonl", hand_made())
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(SamplesError, match=r"samples\.jsonl:54: the last line is cut short"):
        compute(path, SPEC)


def test_a_damaged_line_is_an_error_with_its_number(tmp_path):
    path = generated_samples.write(tmp_path / "samples.jsonl", hand_made())
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:5], '{"k": "pk\n', *lines[6:]]))
    with pytest.raises(SamplesError, match=r"samples\.jsonl:6: not JSON"):
        compute(path, SPEC)


def test_gzip_gives_the_same_and_a_cut_one_is_an_error(tmp_path, run):
    plain = run(hand_made())
    data = gzip.compress("".join(json.dumps(r) + "\n" for r in hand_made()).encode())
    path = tmp_path / "samples.jsonl.gz"
    path.write_bytes(data)
    assert compute(path, SPEC) == plain
    path.write_bytes(data[:-20])
    with pytest.raises(SamplesError, match=r"samples\.jsonl\.gz: cut short"):
        compute(path, SPEC)


@pytest.mark.parametrize("name", ["pie", "tuned"])
def test_captured_output_agrees_with_a_plain_count(name):
    spec = json.loads((CAPTURED / f"{name}.spec.json").read_text())
    path = CAPTURED / f"{name}.jsonl.gz"
    found = compute(path, spec)
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    (t0_us,) = (line["t_us"] for line in lines if line["k"] == "start")
    begin_us, end_us = t0_us + spec["warmup_s"] * 1e6, t0_us + spec["duration_s"] * 1e6
    inside = [line for line in lines if begin_us <= line.get("t_us", 0) < end_us]
    delays_ms = [x["sojourn_us"] / 1e3 for x in inside if x["k"] == "pkt" and x["hop"] == "bottleneck"]
    assert found["rx_packets"] == len(delays_ms) > 100
    assert found["queue_delay_mean_ms"] == pytest.approx(statistics.fmean(delays_ms), abs=1e-5)
    assert found["queue_delay_sd_ms"] == pytest.approx(statistics.pstdev(delays_ms), abs=1e-5)
    assert found["queue_delay_p50_ms"] == pytest.approx(statistics.median(delays_ms), abs=1e-5)
    assert found["queue_delay_excess_ms"] == pytest.approx(
        statistics.fmean(max(0, d - 15) for d in delays_ms), abs=1e-5
    )
    assert found["link_lost_packets"] == sum(x["k"] == "lost" and x["hop"] != "bottleneck" for x in inside)
    counter = "drops_qdisc" if name == "pie" else "drops_aqm"
    counts = [line[counter] for line in inside if counter in line]
    assert 0 <= found[f"{counter}_packets"] - (counts[-1] - counts[0]) <= 30  # one sample's worth at the edges
    assert found["unmeasured_percent"] == 0
    assert failures(found) == []
    # The link bounds what can be received, but for what waited behind a hole in a stream when the warm-up ended.
    assert 0.5 < found["goodput_total_mbit_s"] < 1.1
    assert found["rtt_mean_ms"] > 2 * (10 + 1)


RATES = st.lists(st.floats(0, 1e12), min_size=1, max_size=60)
DELAYS = st.lists(st.floats(0, 1e5), min_size=1, max_size=200).map(np.array)


@given(RATES)
def test_jain_is_above_0_and_at_most_1(rates):
    index = jain_index(rates)
    if max(rates) == 0:
        assert index is None
    else:
        assert 1 / len(rates) - 1e-9 <= index <= 1


@given(st.integers(1, 50), st.floats(1e-300, 1e300))
def test_equal_shares_are_fair(n, rate):
    assert jain_index([rate] * n) == pytest.approx(1)


@given(DELAYS, st.floats(0.1, 1e5))
def test_delay_figures_are_ordered(delay_ms, target_ms):
    found = delay_metrics(delay_ms, target_ms)
    order = [found[f"queue_delay_{name}_ms"] for name in ("p50", "p95", "p99", "max")]
    assert order == sorted(order)
    mean, excess = found["queue_delay_mean_ms"], found["queue_delay_excess_ms"]
    assert excess >= max(0.0, mean - target_ms) - 1e-6
    assert excess <= mean + 1e-6
    assert 0 <= found["queue_delay_sd_ms"] <= found["queue_delay_max_ms"] + 1e-6


@given(st.dictionaries(st.sampled_from(["bottleneck", "access", "egress"]), st.floats(0, 1e15), min_size=1))
def test_shares_of_delay_make_a_whole(total_us):
    shares = delay_shares(total_us)
    outside = shares.pop("delay_outside_percent")
    if outside is not None:
        assert sum(shares.values()) == pytest.approx(100)
        assert outside == pytest.approx(100 - shares.get("delay_share_bottleneck_percent", 0), abs=1e-6)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40), st.floats(-1e6, 1e6))
def test_an_estimate_moves_with_its_values(values, shift):
    one, other = estimate(values), estimate([value + shift for value in values])
    assert other.mean == pytest.approx(one.mean + shift, abs=1e-4)
    assert other.sd == pytest.approx(one.sd, abs=1e-3)
    assert one.ci95 >= 0
    assert min(values) - 1e-5 <= one.mean <= max(values) + 1e-5


def test_estimate_by_hand():
    found = estimate([1.0, 2.0, 3.0])
    assert (found.mean, found.sd, found.n) == (2.0, 1.0, 3)
    assert found.ci95 == pytest.approx(4.303 / math.sqrt(3), abs=1e-6)
    assert estimate([5.0]).ci95 is None
    assert estimate([5.0, None]).mean is None
    assert estimate([]).mean is None


def test_student_t_falls_towards_the_normal():
    values = [student_t95(n) for n in range(1, 400)]
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(1.96, abs=0.03)
    with pytest.raises(ValueError, match="at least two"):
        student_t95(0)


def test_the_p99_of_bulk_is_of_flows_with_large_packets_in_half_of_the_seconds():
    """Flow 1 is bulk; 2 is short, 3 has small packets, and the flow of 0 is not known."""
    t_us = np.concatenate([np.arange(0, 10e6, 1e5), np.arange(0, 4e6, 1e5), np.arange(0, 10e6, 1e5), [1.0]])
    flow = np.repeat([1, 2, 3, 0], [100, 40, 100, 1]).astype(float)
    delay_us = np.choose(flow.astype(int), [9e6, 5e3, 80e3, 90e3])
    size_bytes = np.choose(flow.astype(int), [1500, 1500, 1500, 200]).astype(float)
    order = np.argsort(t_us, kind="stable")
    nothing = np.zeros(len(t_us))
    packets = metrics.Packets(t_us[order], delay_us[order], size_bytes[order], nothing, nothing, flow[order])
    assert bulk_p99_ms(packets, 0, 10e6) == pytest.approx(5)
    assert bulk_p99_ms(replace(packets, flow=nothing), 0, 10e6) is None


HEAD_LINES = [b'{"k":"start","t_us":7}', b'{"k":"hop","hop":"bottleneck","propagation_us":0}']
AS_WRITTEN = st.builds(
    lambda t, hop, sojourn, size, ce, more: (
        b'{"k":"pkt","t_us":%d,"hop":"%s","sojourn_us":%d,"bytes":%d,"ce":%d%s}' % (t, hop, sojourn, size, ce, more)
    ),
    st.integers(0, 10**16),
    st.sampled_from([b"bottleneck", b"access", b"in-2.x", b"h\xc3\xb6p"]),
    st.integers(0, 10**6),
    st.integers(0, 2000),
    st.integers(0, 2),
    st.sampled_from(
        [b"", b',"low":0', b',"low":1', b',"low":2', b',"low":1,"flow":7', b',"flow":0', b',"flow":1048575']
    ),
)
# Harmless rewrites of a line by another writer, and damage.
OTHERWISE = st.sampled_from(
    [
        lambda line: line.replace(b",", b", "),
        lambda line: line.replace(b'"ce"', b'"more":[{}],"ce"'),
        lambda line: line.replace(b'"bytes":', b'"bytes":0'),
        lambda line: line.replace(b'"t_us":', b'"t_us":1.5e'),
        lambda line: line.replace(b'"t_us":', b'"t_us":-'),
        lambda line: line.replace(b'"sojourn_us":', b'"sojourn":'),
        lambda line: line[:-1],
        lambda line: line[4:],
        lambda line: line + line,
        lambda line: line + b"\r",
        lambda line: b" " + line,
        lambda line: b"",
        lambda line: line.replace(b"}", b"\n}"),
        lambda line: b'{"k":"lost","t_us":9,"hop":"bottleneck","bytes":10}',
        lambda line: b'{"k":"flow","t_us":9,"flow":"0.0","side":"client","bytes":10}',
    ]
)
LINES = st.lists(AS_WRITTEN | st.builds(lambda change, line: change(line), OTHERWISE, AS_WRITTEN), max_size=12)


@given(LINES, st.booleans(), st.integers(20, 200))
def test_the_quick_road_reads_what_the_checked_one_does_or_nothing(tmp_path_factory, lines, whole, block_bytes):
    path = tmp_path_factory.mktemp("roads") / "samples.jsonl"
    path.write_bytes(b"\n".join(HEAD_LINES + lines) + (b"\n" if whole else b""))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "BLOCK_BYTES", block_bytes)
        quick = metrics._read_quickly(path)
    try:
        by_kind, exits = metrics._read_checked(path)
    except SamplesError:
        assert quick is None
        return
    if quick is not None:
        assert quick[0] == by_kind
        assert set(quick[1]) == set(exits)
        for hop, columns in exits.items():
            for one, other in zip(quick[1][hop], columns, strict=True):
                assert one.dtype == other.dtype
                assert one.tolist() == other.tolist()


def test_a_samplers_own_lines_take_the_quick_road():
    by_kind, exits = metrics._read_quickly(CAPTURED / "pie.jsonl.gz")
    assert {"bottleneck", "access", "egress", "reverse"} == set(exits)
    assert by_kind["flow"]
    assert by_kind["qdisc"]


def test_two_halves_of_lines_are_not_one(tmp_path):
    path = tmp_path / "samples.jsonl"
    path.write_text('{"k":"start","t_us":1}\n{"k":"lost","t_us":1\n"hop":"x","bytes":1}\n')
    with pytest.raises(SamplesError, match=r"samples\.jsonl:2: not JSON"):
        compute(path, SPEC)


def test_a_longer_way_is_not_a_queue(run):
    egress = [
        {"k": "hop", "hop": "egress", "propagation_us": 50_000},
        pkt(1.9, 50_000, hop="egress"),
        pkt(2.0, 50_000, hop="egress"),  # in before the change, out after it
        pkt(2.5, 80_000, hop="egress"),
    ]
    change = {"k": "change", "t_us": T0_US + 1_960_000, "what": {"delay_ms": 80}}
    assert run([*hand_made(), *egress, change])["delay_share_egress_percent"] == 0
    assert run([*hand_made(), *egress])["delay_share_egress_percent"] > 10


@pytest.mark.parametrize("what", [{}, 5, {"rate_mbit_s": "10"}, {"rate": 10}])
def test_a_change_says_what_it_is(run, what):
    with pytest.raises(SamplesError, match="in a change line; it must be numbers by rate_mbit_s, delay_ms"):
        run([*hand_made(), {"k": "change", "t_us": T0_US, "what": what}])
