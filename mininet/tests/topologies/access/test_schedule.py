# SPDX-License-Identifier: Apache-2.0
"""Timeline of the paths: draws, changes, the truth in the samples and the oracle's plan."""

import statistics

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from test_access import path, spec

from weirlab.topologies.access.schedule import Schedule, chances, drawn

SPIKES = {"path": "wan1", "round": 3, "for_rounds": 1, "rtt_ms": 90.0}
WORSE = {"path": "wan1", "round": 6, "rtt_ms": 60.0}


def told(schedule, kind):
    return [line for line in schedule.truth() if line["k"] == kind]


def test_a_change_lasts_as_long_as_it_says_and_is_there_a_millisecond_before_its_round():
    paths = path("wan1", 30), path("wan2", 40)
    schedule = Schedule(spec(*paths, changes=[SPIKES, WORSE], requests=10, interval_ms=200))
    assert [(step.at_us, step.round, {n: s.rtt_ms for n, s in step.paths.items()}) for step in schedule.steps] == [
        (-1000, 0, {"wan1": 30, "wan2": 40}),
        (599_000, 3, {"wan1": 90}),
        (799_000, 4, {"wan1": 30}),
        (1_199_000, 6, {"wan1": 60}),
    ]
    assert told(schedule, "best") == [
        {"k": "best", "round": at, "path": name} for at, name in ((0, "wan1"), (3, "wan2"), (4, "wan1"), (6, "wan2"))
    ]
    assert schedule.plan()[1] == {"task": 3, "path": "wan2"}
    whats = [(line["round"], line["what"]) for line in told(schedule, "change")]
    assert whats == [(3, "rtt_ms = 90.0"), (4, "as before: rtt_ms = 90.0 is over"), (6, "rtt_ms = 60.0")]


def test_the_oracle_takes_a_path_that_gets_better_within_a_round_from_the_next_on():
    changes = [
        {"path": "wan1", "at_s": 0.3, "for_s": 0.15, "rtt_ms": 90.0},
        {"path": "wan1", "at_s": 0.5, "for_s": 0.05, "rtt_ms": 90.0},
    ]
    given = spec(path("wan1", 30), path("wan2", 40), changes=changes, requests=10, interval_ms=200)
    # Worse from 0.3 to 0.45 s, so in round 2's beginning, and from 0.5 to 0.55 s, which no round's beginning is in.
    assert Schedule(given).plan() == [{"task": at, "path": f"wan{k}"} for at, k in ((0, 1), (2, 2), (3, 1))]
    assert Schedule(spec(*given["paths"], changes=changes)).plan() == [{"task": 0, "path": "wan1"}]


def test_of_two_changes_at_once_the_later_in_the_file_counts():
    changes = [{"path": "wan1", "at_s": 1, "rtt_ms": 90.0}, {"path": "wan1", "at_s": 0.5, "for_s": 1, "rtt_ms": 60.0}]
    schedule = Schedule(spec(path("wan1", 30), changes=changes))
    found = [(step.at_us, step.paths["wan1"].rtt_ms) for step in schedule.steps]
    assert found == [(-1000, 30), (500_000, 60), (1_500_000, 90)]


def test_a_path_that_is_gone_is_never_the_best():
    changes = [{"path": "wan1", "at_s": 1, "for_s": 1, "link": link} for link in ("down", "silent")]
    for change in changes:
        schedule = Schedule(spec(path("wan1", 30), path("wan2", 90), changes=[change]))
        assert [line["path"] for line in told(schedule, "best")] == ["wan1", "wan2", "wan1"]


def test_of_equal_paths_the_one_that_loses_less_is_the_best_then_the_faster():
    lossy = path("wan1", 30, loss_percent=4.06), path("wan2", 30, loss_percent=2.79)
    assert told(Schedule(spec(*lossy)), "best")[0]["path"] == "wan2"
    fast = path("wan1", 30), path("wan2", 30, rate_mbit_s=1000)
    assert told(Schedule(spec(*fast)), "best")[0]["path"] == "wan2"


def test_a_rounds_delay_depends_on_seed_path_and_round_alone():
    noisy = {"rtt_sd_ms": 5, "rtt_min_ms": 1}
    plain = Schedule(spec(path("wan1", 30, **noisy), requests=50, interval_ms=200))
    given = spec(path("wan0", 9), path("wan1", 30, **noisy), changes=[SPIKES], requests=99, interval_ms=500)
    other = Schedule({**given, "client": {**given["client"], "strategy": "pps"}})
    ours = {line["round"]: line for line in told(plain, "truth")}
    theirs = {line["round"]: line for line in told(other, "truth") if line["path"] == "wan1"}
    assert len(ours) == 50
    for number in range(50):
        shift = 60 if number == 3 else 0  # the spike's mean is 90 instead of 30; it is as far off it
        assert theirs[number]["rtt_ms"] == pytest.approx(ours[number]["rtt_ms"] + shift, abs=1e-5)
    reseeded = Schedule({**spec(path("wan1", 30, **noisy), requests=50, interval_ms=200), "seed": 2})
    assert [line["rtt_ms"] for line in told(reseeded, "truth")] != [line["rtt_ms"] for line in told(plain, "truth")]


def test_draws_have_the_mean_and_deviation_they_were_given():
    values = [drawn(41.004, 6.458, 2, chance) for chance in chances(1, "wan3", 20_000)]
    assert statistics.fmean(values) == pytest.approx(41.004, abs=0.2)
    assert statistics.stdev(values) == pytest.approx(6.458, rel=0.02)
    cut = [drawn(37.568, 16.756, 2, chance) for chance in chances(1, "wan4", 20_000)]
    assert statistics.fmean(cut) == pytest.approx(37.568, abs=0.4)
    assert statistics.stdev(cut) == pytest.approx(15.1, rel=0.02)  # as in pcm-table5.toml


def test_a_lognormal_tail_keeps_mean_and_deviation_and_is_heavy():
    values = [drawn(45, 20, 15, chance, "lognormal") for chance in chances(1, "wan3", 20_000)]
    mean, sd = statistics.fmean(values), statistics.stdev(values)
    assert (mean, sd) == (pytest.approx(45, abs=0.5), pytest.approx(20, rel=0.1))
    assert min(values) > 15
    assert statistics.fmean(((value - mean) / sd) ** 4 for value in values) > 6  # 3 of a normal distribution
    assert drawn(45, 0, 15, 0.9, "lognormal") == 45


def test_the_oracle_takes_the_path_that_is_best_for_each_size():
    near, far = path("wan1", 10, rate_mbit_s=5), path("wan2", 45, rate_mbit_s=80)
    given = spec(near, far, changes=[{**WORSE, "rtt_ms": 400.0}], requests=9, interval_ms=2000)
    client = {**given["client"], "sizes_bytes": [5_000, 1_000_000]}
    taken = [line["path"] for line in Schedule({**given, "client": client}).plan()]
    assert taken == ["wan1", "wan2"] * 3 + ["wan2"] * 3


@given(st.floats(0.01, 1e4), st.floats(0, 1e4), st.floats(0, 1e4), st.floats(0, 1, exclude_min=True, exclude_max=True))
@example(8.0, 1.0, 0.0, 5.9e-292)
def test_no_draw_is_outside_its_bounds(mean, sd, least, chance):
    value = drawn(mean, sd, least, chance)
    if sd == 0 or mean <= least:
        assert value == mean
    else:
        assert least - 1e-6 * mean <= value <= 2 * mean - least + 1e-6 * mean
