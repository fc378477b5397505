# SPDX-License-Identifier: Apache-2.0
"""From made-up samples to metrics, and what several runs say together."""

import statistics

import generated_edge as made
import numpy as np
import pytest
from generated_samples import write
from hypothesis import given
from hypothesis import strategies as st

from weirlab.metrics.samples import SamplesError
from weirlab.topologies.edge.cross_run_stats import (
    alike,
    beside_unicast,
    fall_of_mean,
    line_r2,
    line_slope,
    over_beta,
    over_receivers,
    over_sizes,
    points_of,
    variance,
)
from weirlab.topologies.edge.metrics import RUN_METRICS, compute, failures


@pytest.fixture
def measure(tmp_path):
    return lambda lines, spec: compute(write(tmp_path / "samples.jsonl", lines), spec)


def by_hand():
    """Two receivers of 1 MB at one edge switch, done after 1 and 2 s."""
    return [
        {"k": "start", "t_us": made.T0_US},
        *made.links("publisher", "eth0", 1_100_000, 50_000),
        made.receiver(1, 1.0, asked=110, asked_again=10, data=100, overheard=5, duplicates=1, marked=4),
        made.receiver(2, 2.0, asked=130, asked_again=30, data=100, overheard=15, duplicates=3, marked=0),
        made.counted("core", 95, 0, 5, 100, 100),
        made.counted("edge1", 95, 140, 5, 100, 200),
    ]


def test_figures_by_hand(measure):
    spec = made.spec(receivers=2, edges=1, beta=6.0)
    found = measure(by_hand(), spec)
    assert set(RUN_METRICS) <= set(found)
    assert (found["receivers_count"], found["file_bytes"], found["beta"]) == (2, 1_000_000, 6)
    assert (found["completion_mean_s"], found["completion_max_s"]) == (1.5, 2)
    assert (found["goodput_mean_mbit_s"], found["goodput_min_mbit_s"]) == (6, 4)
    assert found["goodput_sd_mbit_s"] == pytest.approx(8**0.5, abs=1e-6)
    assert (found["publisher_sent_bytes"], found["publisher_received_bytes"]) == (1_100_000, 50_000)
    assert found["publisher_sent_ratio"] == 1.1
    assert found["retransmissions_percent"] == pytest.approx(100 * 40 / 240, abs=1e-6)
    assert (found["overheard_percent"], found["duplicates_percent"], found["marked_percent"]) == (10, 2, 2)
    assert found["merged_percent"] == pytest.approx(100 * (1 - 100 / 240), abs=1e-6)
    assert found["copies_ratio"] == 2
    assert found["interests_joined_at_edge1"] == 140
    assert (found["move_gap_ms"], found["names_dropped"]) == (None, 0)
    assert failures(found) == []


def on_air(carried, down, *nodes):
    """Counts of broadcast segments, and of what brings the file to them."""
    return [
        line
        for segment, place in zip(("air1", "air2"), nodes, strict=False)
        for line in (*made.links(segment, "air", carried), *made.links(*place, down))
    ]


def test_what_a_broadcast_segment_carried(measure):
    spec = made.spec(receivers=2, edges=0, medium="broadcast", last_rate_mbit_s=10.0)
    lines = [line for line in by_hand() if line["k"] != "switch"]
    lines += made.links("air0", "air", 1_375_000, 1_375_000)
    found = measure(lines, spec)
    assert found["medium_carried_ratio"] == 1.375
    assert found["medium_requests_percent"] == 20
    assert found["medium_busy_percent"] == pytest.approx(55)  # 1.1 s of 2
    assert (found["merged_percent"], found["names_dropped"]) == (None, None)
    assert failures(found) == []
    assert measure(by_hand(), made.spec(receivers=2, edges=1))["medium_carried_ratio"] is None
    lines[4] = made.receiver(2, 2.0, outcome="unfinished", ended_us=None)
    assert measure(lines, spec)["medium_busy_percent"] is None


def test_several_segments_are_counted_together(measure):
    spec = made.spec(receivers=2, edges=2, medium="broadcast", last_rate_mbit_s=10.0)
    found = measure([*by_hand(), *on_air(1_250_000, 1_000_000, ("edge1", "p1"), ("edge2", "p1"))], spec)
    assert found["medium_carried_ratio"] == 2.5
    assert found["medium_requests_percent"] == 20
    assert found["medium_busy_percent"] == pytest.approx(50)


def test_what_caches_send_on_is_not_counted_twice(measure):
    lines = by_hand()
    # 100 went up, and each had come twice: from below and from the cache.
    lines[-1] = made.counted("edge1", 195, 140, 5, 100, 200)
    lines.append({"k": "cache", "node": "cache1", "asked": 120, "hits": 30, "passed_on": 100, "kept": 95, "evicted": 0,
                  "held_bytes": 150_000})  # fmt: skip
    found = measure(lines, made.spec(receivers=2, edges=1, cache_mb=1))
    assert found["cache_hits_percent"] == 25
    assert found["merged_percent"] == pytest.approx(100 * (1 - 100 / 240), abs=1e-6)
    # A hub took 100 of its edge and 100 of its own cache, which does not count for the edges.
    lines += [made.counted("hub", 195, 0, 5, 100, 100), {**lines[-1], "node": "cache0", "hits": 120}]
    with_hub = measure(lines, made.spec(receivers=2, edges=2, cache_mb=1))
    assert [with_hub[name] for name in ("cache_hits_percent", "merged_percent")] == [
        found[name] for name in ("cache_hits_percent", "merged_percent")
    ]


def test_a_download_is_counted_by_its_servers_packets(measure):
    lines = [line for line in by_hand() if line["k"] not in ("receiver", "switch")]
    lines += [made.receiver(1, 1.0, sent=700, lost=7), made.receiver(2, 1.0, sent=300, lost=13)]
    lines.append({"k": "switch", "node": "core", "packets": {}})
    found = measure(lines, made.spec("unicast", receivers=2, edges=1))
    assert found["retransmissions_percent"] == 2
    assert (found["merged_percent"], found["copies_ratio"], found["marked_percent"]) == (None, None, None)


def test_what_went_wrong_is_counted_and_told(measure):
    lines = by_hand()
    lines[3] = made.receiver(1, 1.0, outcome="corrupt")
    lines[4] = made.receiver(2, 1.0, outcome="unfinished", ended_us=None)
    lines[5]["packets"]["malformed"] = 3
    found = measure(lines, made.spec(receivers=2, edges=1))
    assert (found["failed_receivers"], found["corrupt_receivers"], found["names_dropped"]) == (1, 1, 3)
    assert found["goodput_mean_mbit_s"] is None
    assert [line.split()[0] for line in failures(found)] == ["1", "1", "3"]


def test_who_left_did_not_fail_and_connections_are_counted(measure):
    lines = by_hand()
    lines[3] |= {"group_lost": 1, "group_migrated": 2, "group_early_data": 1}
    lines[4] |= {"outcome": "left", "group_lost": 0, "group_migrated": 1, "group_early_data": 0}
    lines += [{"k": "leave", "t_us": made.T0_US, "receiver": 2}, {"k": "publisher", "rekeys": 3}]
    found = measure(lines, made.spec(receivers=2, edges=1))
    assert (found["failed_receivers"], found["left_receivers"], found["rekeys"]) == (0, 1, 3)
    assert (found["group_lost"], found["group_migrated"], found["group_early_data"]) == (1, 3, 1)
    assert failures(found) == []
    assert measure(by_hand(), made.spec(receivers=2, edges=1))["group_lost"] is None


def test_the_gap_at_a_move_is_the_longest_silence_from_then_on(measure):
    spec = made.spec(receivers=1, moves=[{"receiver": 1, "at_s": 1.0, "to_edge": 2}])
    assert measure(made.lines(spec), spec)["move_gap_ms"] == 30
    lines = made.lines(spec)
    late = [{**line, "bytes": 7} if line["k"] == "arrived" else line for line in lines]  # nothing ever came
    assert measure(late, spec)["move_gap_ms"] is None


def moving(**more):
    """A run of which the first of two receivers moves at 1 s, a byte a ms about that with a gap of 30 ms."""
    spec = made.spec(receivers=2, moves=[{"receiver": 1, "at_s": 1.0, "to_edge": 2}])
    lines = made.lines(spec)
    at_us = made.T0_US + 10**6
    said = {"stalls": [[at_us - 5000, 400_000], [at_us + 61_000, 60_000]], "back_us": [at_us + 120_000]}
    first = next(line for line in lines if line["k"] == "receiver")
    first |= {"beta": 8.0, "response_time_us": 6000, **said, **more}
    return lines, spec


def test_a_move_is_measured_by_a_round_trip_and_beta_response_times(measure):
    found = measure(*moving())
    # Links of 5 and 1 ms, there and back; 8 times 6 ms. Gaps that ended before a move are not the move's.
    assert (found["move_bound_ms"], found["move_gap_ms"], found["move_stall_ms"]) == (60, 30, 60)
    assert (found["move_gap_ratio"], found["move_stall_ratio"]) == (0.5, 1)
    assert (found["move_back_ms"], found["moved_wrong_receivers"]) == (120, 0)
    lines, spec = moving(back_us=[made.T0_US + ms * 1000 for ms in (1120, 1900, 2150)])
    lines.append({"k": "move", "t_us": made.T0_US + 2 * 10**6, "receiver": 1, "from_edge": 2, "to_edge": 1})
    assert measure(lines, spec)["move_back_ms"] == 150, "the first after each move"


@pytest.mark.parametrize(("outcome", "wrong"), [("corrupt", 1), ("unfinished", 1), ("failed", 1), ("left", 0)])
def test_a_mover_without_each_byte_once_is_counted(measure, outcome, wrong):
    assert measure(*moving(outcome=outcome))["moved_wrong_receivers"] == wrong


def test_a_mover_that_said_nothing_has_its_gap_alone(measure):
    found = measure(*moving(response_time_us=None))
    assert (found["move_gap_ms"], found["move_gap_ratio"], found["move_bound_ms"]) == (30, None, None)
    assert measure(by_hand(), made.spec(receivers=2, edges=1))["moved_wrong_receivers"] is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[:4] + lines[5:], "there must be one of each of 2"),
        (lambda lines: [*lines, lines[3]], "there must be one of each of 2"),
        (lambda lines: lines[:2] + lines[3:], "1 lines of publisher:eth0"),
        (lambda lines: lines[1:], "start"),
        (lambda lines: [*lines, {"k": "other"}], "unknown kind"),
        (lambda lines: [*lines, {"k": "move", "t_us": 1}], "receiver is missing"),
    ],
)
def test_damaged_samples_are_refused(measure, change, said):
    with pytest.raises(SamplesError, match=said):
        measure(change(by_hand()), made.spec(receivers=2, edges=1))


def points(*cases, seeds=(1, 2)):
    """Points from metrics: label, what the spec differs in, each seed's metrics."""
    specs = {label: made.spec("names", **more) for label, more, _ in cases}
    runs = [(label, seed, metrics[i]) for label, _, metrics in cases for i, seed in enumerate(seeds)]
    return points_of(specs, runs)


def test_from_the_fewest_receivers_to_the_most():
    def run(goodput, time, sent):
        return {"goodput_mean_mbit_s": goodput, "completion_mean_s": time, "publisher_sent_bytes": sent}

    every = points(
        ("names,receivers=7", {"receivers": 7}, [run(9.9, 1.01, 105), run(9.8, 1.02, 110)]),
        ("names,receivers=1", {"receivers": 1}, [run(10.0, 1.0, 100), run(10.0, 1.0, 100)]),
        ("names,receivers=4", {"receivers": 4}, [run(1.0, 9.0, 100), run(1.0, 9.0, 100)]),
        ("unicast,receivers=7", {"receivers": 7}, [run(1.0, 7.0, 700), run(1.0, 7.0, 700)]),
    )
    groups = alike(every, "receivers")
    assert [[point.receivers for point in group] for group in groups.values()] == [[1, 4, 7]]
    found = over_receivers(next(iter(groups.values())))
    assert found["goodput_fall_percent"].mean == pytest.approx(1.5)
    assert found["completion_ratio"].mean == pytest.approx(1.015)
    assert found["sent_ratio"].mean == pytest.approx(1.075)
    beside = beside_unicast(every)
    assert list(beside) == ["names,receivers=7"]
    assert beside["names,receivers=7"]["goodput_vs_unicast"].mean == pytest.approx(9.85)
    assert beside["names,receivers=7"]["completion_vs_unicast_s"].mean == pytest.approx(-5.985)


def test_the_variance_over_receivers_is_of_the_papers_numbers():
    goodputs = {1: 99.0, 4: 10.0, 5: 11.0, 7: 15.0, 32: 1.0}
    every = points(
        *((f"names,receivers={n}", {"receivers": n}, [{"goodput_mean_mbit_s": g}]) for n, g in goodputs.items()),
        seeds=(1,),
    )
    found = over_receivers(next(iter(alike(every, "receivers").values())))
    assert found["goodput_var_receivers"].mean == 7
    ends = [point for point in every if point.receivers in (1, 32)]
    assert over_receivers(ends)["goodput_var_receivers"].mean is None


def sized(receivers, file_bytes, *goodputs):
    label = f"names,receivers={receivers},bytes={file_bytes}"
    return label, {"receivers": receivers, "bytes": file_bytes}, [{"goodput_mean_mbit_s": g} for g in goodputs]


def test_the_fall_of_the_mean_is_over_sizes_that_have_both_ends():
    every = points(
        sized(4, 1000, 10.0, 20.0),
        sized(7, 1000, 9.0, 20.0),
        sized(4, 2000, 30.0, 20.0),
        sized(7, 2000, 27.0, 10.0),
        sized(4, 3000, 50.0, 50.0),  # without the 7: another pair of ends
        sized(5, 3000, 1.0, 1.0),
    )
    found = fall_of_mean(alike(every, "receivers").values())
    assert (found.mean, found.n) == (pytest.approx((10 + 25) / 2), 2)
    assert fall_of_mean([]).mean is None


def over(times, sizes=None, seeds=(1,)):
    """`over_sizes` of one number of receivers: each size's times, a seed after the other."""
    sizes = sizes or [1_000_000 * (i + 1) for i in range(len(times))]
    cases = [
        (f"names,bytes={size}", {"bytes": size}, [{"completion_mean_s": t, "goodput_mean_mbit_s": 8 / t} for t in each])
        for size, each in zip(sizes, times, strict=True)
    ]
    return over_sizes(next(iter(alike(points(*cases, seeds=seeds), "file_bytes").values())))


def test_a_straight_line_over_sizes():
    straight = over([[1.1], [2.1], [3.1], [4.1]])
    assert (straight["completion_r2"].mean, straight["completion_slope_s_mb"].mean) == (1, 1)
    assert over([[1.0], [5.0], [2.0], [4.0]])["completion_r2"].mean < 0.5
    assert over([[1.0], [2.0]])["completion_r2"].mean is None
    assert over([[1.0], [2.0]])["goodput_var_sizes"].mean == 8
    two = over([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]], seeds=(1, 2))
    assert (two["completion_slope_s_mb"].mean, two["completion_slope_s_mb"].n) == (1.5, 2)
    assert two["completion_slope_s_mb"].ci95 > 0


SIZES = st.lists(st.integers(1, 10_000), min_size=3, max_size=6, unique=True)
NUMBERS = st.floats(-1e3, 1e3)


@given(SIZES, st.data())
def test_a_lines_slope_and_r2(sizes, data):
    times = data.draw(st.lists(NUMBERS, min_size=len(sizes), max_size=len(sizes)))
    slope, r2 = line_slope(sizes, times), line_r2(sizes, times)
    assert -1e-9 <= r2 <= 1 + 1e-9
    theirs, at_0 = np.polyfit(sizes, times, 1)
    assert slope == pytest.approx(theirs, abs=1e-6)

    def missed(slope, at_0):
        return sum((t - slope * s - at_0) ** 2 for s, t in zip(sizes, times, strict=True))

    assert missed(slope, np.mean(times) - slope * np.mean(sizes)) <= missed(theirs, at_0) + 1e-6
    exact = [3 * size + 7 for size in sizes]
    assert (line_slope(sizes, exact), line_r2(sizes, exact)) == (pytest.approx(3), pytest.approx(1))
    assert line_r2(sizes, [5.0] * len(sizes)) == 1


@given(st.lists(NUMBERS, min_size=2, max_size=8), NUMBERS, st.floats(-10, 10))
def test_a_variance_does_not_move_and_grows_with_the_square(values, shift, factor):
    found = variance(values)
    assert found >= 0
    assert variance([value + shift for value in values]) == pytest.approx(found, abs=1e-6, rel=1e-6)
    assert variance([value * factor for value in values]) == pytest.approx(found * factor**2, abs=1e-6, rel=1e-6)
    assert found == pytest.approx(statistics.variance(values), abs=1e-6, rel=1e-6)


def test_betas_curve():
    def case(beta, again, goodput):
        return (
            f"timer,beta={beta}",
            {"beta": beta},
            [{"retransmissions_percent": again, "goodput_mean_mbit_s": goodput}],
        )

    every = points(
        case(2, 99.0, 7.0), case(4, 8.0, 9.0), case(20, 2.0, 8.0), case(8, 4.0, 10.0), case(None, 4.0, 9.8), seeds=(1,)
    )
    found = over_beta(next(iter(alike(every, "beta").values())))
    assert found["retransmissions_ratio"].mean == 0.25
    assert found["best_beta"].mean == 8
    assert found["goodput_inside_ratio"].mean == 1.25
    assert found["goodput_of_best"].mean == 0.98
    some = over_beta(next(iter(alike([point for point in every if point.beta in (4, None)], "beta").values())))
    assert some == {}
    few = over_beta(next(iter(alike([point for point in every if point.beta in (4, 20)], "beta").values())))
    assert set(few) == {"retransmissions_ratio", "best_beta"}
