# SPDX-License-Identifier: Apache-2.0
"""Requirements in figures: the runs they apply to, and when one is met."""

import generated_edge as made
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.metrics.estimate import Estimate
from weirlab.topologies.edge.cross_run_stats import points_of
from weirlab.topologies.edge.requirements import FIGURES, MET, MISSED, NOT_ASKED, OPEN, answers, as_documents

FIGURE = {asked.metric: asked for asked in FIGURES}


def told(cases, seeds=(1, 2)):
    """Answers by variant and metric. `cases`: what the spec differs in, and each seed's metrics."""
    specs, runs = {}, []
    for i, (way, more, metrics) in enumerate(cases):
        specs[f"{way},case={i}"] = made.spec(more.pop("carry", "names"), **more)
        runs += [(f"{way},case={i}", seed, found) for seed, found in zip(seeds, metrics, strict=True)]
    return {(answer.way, answer.asked.metric): answer for answer in answers(points_of(specs, runs))}


def run(goodput, time=1.0, sent=100):
    return {"goodput_mean_mbit_s": goodput, "completion_mean_s": time, "publisher_sent_bytes": sent}


def test_a_fall_is_asked_of_32_receivers_beside_one():
    def pair(last, count=32, loss=1.0):
        found = told(
            [
                ("names", {"receivers": 1, "loss_percent": loss}, [run(10.0), run(20.0)]),
                ("names", {"receivers": count, "loss_percent": loss}, [run(10.0 * last), run(20.0 * last)]),
            ]
        )
        return found["names", "goodput_fall_percent"]

    assert pair(0.995).verdict == MET
    assert pair(0.98).verdict == MISSED
    assert pair(0.98).worst.found.mean == pytest.approx(2)
    assert pair(0.98, count=7).verdict == NOT_ASKED
    assert pair(0.98, loss=5.0).verdict == NOT_ASKED


def test_a_move_is_asked_of_runs_in_which_one_moves():
    def moved(*ratios, wrong=(0, 0)):
        both = zip(ratios, wrong, strict=True)
        metrics = [{"move_gap_ratio": ratio, "moved_wrong_receivers": count} for ratio, count in both]
        return told([("names", {}, metrics)])

    found = moved(0.5, 0.52)
    assert [answer.verdict for answer in found.values()] == [MET, MET]
    assert found["names", "move_gap_ratio"].worst.where == "1 % loss"
    assert moved(0.5, 1.1)["names", "move_gap_ratio"].verdict == OPEN
    assert moved(1.5, 1.52)["names", "move_gap_ratio"].verdict == MISSED
    assert moved(0.5, 0.52, wrong=(1, 1))["names", "moved_wrong_receivers"].verdict == MISSED
    assert told([("names", {}, [run(10.0), run(10.0)])]) == {}


def test_a_bound_inside_of_the_interval_leaves_it_open():
    cases = [
        ("names", {"receivers": 1}, [run(10.0), run(10.0)]),
        ("names", {"receivers": 32}, [run(10.0), run(9.9)]),
    ]
    found = told(cases)
    assert found["names", "goodput_fall_percent"].verdict == OPEN
    assert found["names", "completion_ratio"].verdict == MET
    alone = told([(way, more, metrics[:1]) for way, more, metrics in cases], seeds=(1,))
    assert alone["names", "goodput_fall_percent"].verdict == MET, "one seed has no interval"


def test_one_case_that_misses_is_told_and_makes_the_figure_missed():
    found = told(
        [
            (way, {"receivers": n, "bytes": size}, [run(10.0, sent=sent)] * 2)
            for way, most in (("names", 105), ("unicast", 3200))
            for size in (1_000_000, 2_000_000)
            for n, sent in ((1, 100), (32, most if size == 1_000_000 else 100))
        ]
    )
    assert found["names", "sent_ratio"].verdict == MET
    unicast = found["unicast", "sent_ratio"]
    assert (unicast.verdict, unicast.worst.where, unicast.verdicts) == (MISSED, "1000 kB, 1 to 32", [MISSED, MET])
    assert found["names", "goodput_fall_of_mean_percent"].cases[0].where == "1 to 32"
    documents = as_documents(list(found.values()), lambda way, metric: 7.36 if way == "names" else None)
    assert {each["metric"] for each in documents} <= set(FIGURE)
    sent = [each for each in documents if (each["variant"], each["metric"]) == ("unicast", "sent_ratio")]
    assert [(each["where"], each["mean"], each["met"]) for each in sent] == [
        ("1000 kB, 1 to 32", 32, "missed"),
        ("2000 kB, 1 to 32", 1, "met"),
    ]
    assert (sent[0]["ci95"], sent[0]["n"], sent[0]["asked"], sent[0]["paper"]) == (0, 2, "at most 1.1", None)


def test_beta_is_asked_at_each_loss():
    goodputs = {2.0: 8.0, 4.0: 9.0, 8.0: 10.0, 20.0: 7.0, None: 9.9}
    found = told(
        [
            (
                "timer",
                {"beta": beta, "loss_percent": loss},
                [{"goodput_mean_mbit_s": goodput - (0.3 if beta is None and loss == 5 else 0), **again}] * 2,
            )
            for loss in (1.0, 5.0)
            for beta, goodput in goodputs.items()
            for again in [{"retransmissions_percent": 2.0 if beta == 20 else 8.0}]
        ]
    )
    assert found["timer", "retransmissions_ratio"].verdicts == [MET, MET]
    assert found["timer", "goodput_inside_ratio"].verdict == MET
    own = found["timer", "goodput_of_best"]
    assert (own.verdicts, own.worst.where) == ([MET, MISSED], "5 % loss")


@given(st.sampled_from(FIGURES), st.floats(-5, 5), st.floats(0, 5))
def test_met_and_missed_are_never_both_possible(asked, mean, half):
    """Met means that both ends are within; missed that neither is, on one side."""
    verdict = asked.verdict(Estimate(mean, 1.0, half, 3))
    ends = [asked.outside(mean - half) <= 0, asked.outside(mean + half) <= 0]
    assert (verdict == MET) == all(ends)
    if verdict == MISSED:
        assert not any(ends)
        assert asked.outside(mean) > 0
    assert asked.verdict(Estimate(None, None, None, 3)) == OPEN


def test_nothing_is_told_of_runs_that_say_nothing():
    assert told([("names", {"receivers": 4}, [run(10.0), run(11.0)])]) == {}
    assert told([("names", {"receivers": n}, [{}, {}]) for n in (1, 32)]) == {}


def test_quic_over_names_is_asked_beside_udp_and_other_ways_are_not():
    def first(goodput, handshake_ms, first_byte_ms):
        return {"goodput_mean_mbit_s": goodput, "handshake_ms": handshake_ms, "first_byte_ms": first_byte_ms}

    def beside(goodput, handshake_ms):
        return told(
            [
                ("unicast", {"carry": "unicast"}, [first(10.0, 22.0, 44.0)] * 2),
                ("unicast-names", {"carry": "unicast-names"}, [first(goodput, handshake_ms, 45.0)] * 2),
                ("names", {}, [first(1.0, 99.0, 99.0)] * 2),
            ]
        )

    found = beside(9.6, 22.5)
    verdicts = {metric: answer.verdict for (way, metric), answer in found.items() if way == "unicast-names"}
    assert verdicts == dict.fromkeys(("goodput_vs_unicast", "handshake_more_rtts", "first_byte_more_rtts"), MET)
    assert [way for way, metric in found if metric == "goodput_vs_unicast"] == ["unicast-names"]
    worse = beside(9.4, 22.0 + 12.0)
    assert worse["unicast-names", "goodput_vs_unicast"].verdict == MISSED
    assert worse["unicast-names", "handshake_more_rtts"].worst.found.mean == pytest.approx(12.0 / path_rtt_ms())
    assert worse["unicast-names", "handshake_more_rtts"].verdict == MISSED


def path_rtt_ms():
    spec = made.spec("unicast")
    return 2 * (spec["bottleneck"]["delay_ms"] + spec["last_hop"]["delay_ms"])
