# SPDX-License-Identifier: Apache-2.0
import math

import generated_matrix
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.evaluation.matrix.analysis import COMPARED, analyse
from weirlab.evaluation.shared.ratios import at_least, at_most, beats, behind, front, paired_ratio, verdict
from weirlab.evaluation.shared.rows import RunRow
from weirlab.metrics.estimate import Estimate

POINT = st.tuples(st.floats(1, 1e4), st.floats(0.1, 1e3))
POINTS = st.dictionaries(st.sampled_from(COMPARED), POINT, min_size=1)


def rows(figures, group="flows", scenario="flows-10", seeds=3, **more):
    """Rows of a scenario from {variant: (delay, goodput)}; each seed is one per mille off the others."""
    return [
        RunRow(
            scenario,
            group,
            variant,
            seed,
            {"queue_delay_mean_ms": delay * (1 + seed / 1e3), "goodput_total_mbit_s": goodput}
            | {name: values[variant] for name, values in more.items() if variant in values},
        )
        for variant, (delay, goodput) in figures.items()
        for seed in range(1, seeds + 1)
    ]


def claim(matrix, variant, start):
    (found,) = [c for c in matrix.claims if c.variant == variant and c.text.startswith(start)]
    return found


def test_a_front_by_hand():
    points = {"a": (5, 9.0), "b": (10, 9.5), "c": (10, 9.4), "d": (20, 9.5), "e": (100, 9.6)}
    assert front(points) == ("a", "b", "e")
    assert behind(points["a"], [points["b"]]) == 0
    assert behind((11, 9.5), [(10, 9.5)]) == pytest.approx(0.1)
    assert behind((11, 9.5), [(10, 9.5 * 1.03), (12, 20)]) == pytest.approx(0.1)
    assert behind((20, 8.0), [(10, 16.0), (19, 8.0)]) == pytest.approx(1.0)
    assert behind((20, 8.0), [(10, 7.9), (20.3, 9)]) == 0
    assert behind((600, 9.5601), [(5, 9.56)]) == pytest.approx(119)  # a hair of goodput excuses no delay
    assert behind((5, 6.07), [(5.001, 8.13)]) == pytest.approx(8.13 / 6.07 - 1)  # nor the other way round
    assert behind((0.9, 1.0), [(0.1, 1.02)]) == pytest.approx(0.02)  # no delay below the floor is less than another
    assert behind((5, 0.0), [(5, 1.0)]) == math.inf


def test_clearly_better_by_hand():
    assert beats((10, 9.92), (11, 10.0))
    assert not beats((10, 9.88), (11, 10.0))  # costs more than 1 % of goodput
    assert not beats((10, 10.0), (10.4, 10.0))
    assert beats((10, 10.6), (10, 10.0))
    assert not beats((0.2, 10.0), (0.9, 10.0))


def test_verdicts():
    assert verdict(Estimate(0.8, 0.1, 0.1, 3), less_is_better=True) == "win"
    assert verdict(Estimate(0.8, 0.1, 0.1, 3), less_is_better=False) == "loss"
    assert verdict(Estimate(0.8, 0.3, 0.25, 3), less_is_better=True) == "unclear"
    assert verdict(Estimate(0.98, 0.02, 0.025, 3), less_is_better=True) == "tie"
    assert verdict(Estimate(0.98, 0.03, 0.04, 3), less_is_better=True) == "unclear"
    assert verdict(Estimate(0.991, 1e-4, 1e-4, 3), less_is_better=True) == "tie"
    assert verdict(Estimate(0.5, None, None, 1), less_is_better=True) is None


@pytest.mark.parametrize(
    ("mean", "ci95", "most", "least"),
    [(0.9, 0.05, True, False), (1.1, 0.05, False, True), (0.9, 0.2, None, None), (0.9, None, None, None)],
)
def test_a_limit_is_held_against_the_whole_interval(mean, ci95, most, least):
    ratio = Estimate(mean, ci95, ci95, 3)
    assert (at_most(ratio, 1.0), at_least(ratio, 1.0)) == (most, least)


def test_what_the_runs_do_not_tell_is_no_win_and_meets_no_claim():
    goodputs = {"auto": (8.0, 9.4, 8.2), "codel": (9.5, 9.5, 9.5)}
    found = analyse(
        [
            RunRow(
                "flows-10", "flows", variant, seed, {"queue_delay_mean_ms": delay_ms, "goodput_total_mbit_s": goodput}
            )
            for variant, delay_ms in (("auto", 10), ("codel", 11))
            for seed, goodput in enumerate(goodputs[variant], start=1)
        ]
    )
    not_lower = claim(found, "auto", "goodput not lower than codel")
    assert (not_lower.met, not_lower.state, not_lower.reached) == (None, "not shown", 0)
    assert not_lower.measured.startswith("0 of 1, not shown in 1;")
    assert [duel.verdict for duel in found.duels] == ["unclear"]


def test_a_scenario_without_pie_is_told_not_forgotten():
    found = analyse([*rows({"auto": (9, 9), "pie": (9, 9)}), *rows({"auto": (9, 9)}, scenario="flows-2")])
    assert claim(found, "auto", "goodput over pie's").measured == "1 of 1; 1 to 1; not measured in 1 more: flows-2"


def test_near_the_front_by_starving_is_counted():
    found = analyse(rows({"auto": (5, 6.07), "pie": (15, 8.13)}, group="short", scenario="short-mixed"))
    assert (
        "1 of these with less than 0.95 of pie's goodput"
        in claim(found, "auto", "on or within 5 % of the front of all").measured
    )


def test_ratios_are_of_the_same_seed():
    found = [*rows({"auto": (10, 9.0)}, seeds=4), *rows({"pie": (20, 9.0)}, seeds=2)]
    ratio = paired_ratio(found, "auto", "pie", "queue_delay_mean_ms")
    assert (ratio.n, ratio.mean, ratio.ci95) == (2, 0.5, 0.0)
    assert paired_ratio(found, "auto", "red", "queue_delay_mean_ms").mean is None


def test_duels_are_counted_by_both_axes():
    matrix = analyse(
        rows({"auto": (10, 9.5), "pie": (20, 9.5), "codel": (5, 9.0), "fq_codel": (5, 9.5), "red": (10, 9.5)})
    )
    found = {(duel.ours, duel.peer): duel.verdict for duel in matrix.duels}
    assert found == {
        ("auto", "pie"): "win",
        ("auto", "codel"): "trade",
        ("auto", "fq_codel"): "loss",
        ("auto", "red"): "tie",
    }
    (scenario,) = matrix.scenarios
    assert scenario.fronts == {"all": ("fq_codel",), "single": ("codel", "red", "auto")}
    assert scenario.standings["single"]["auto"].beaten_by == ()
    assert scenario.standings["all"]["auto"].beaten_by == ("fq_codel",)
    assert scenario.standings["single"]["pie"].beaten_by == ("red", "auto")


def test_claims_follow_the_figures():
    good = rows(
        {"auto": (15, 9.6), "auto-half": (7, 9.52), "pie": (18, 9.6), "pfifo": (900, 9.6)},
        queue_delay_excess_ms={"auto": 1.0, "pie": 2.5},
        queue_delay_sd_ms={"auto": 4.0, "pie": 7.0},
    )
    matrix = analyse(good)
    assert claim(matrix, "auto", "mean excess").met is True
    sd = claim(matrix, "auto", "sd of delay")
    assert sd.met is False
    assert sd.cases[0].figure.mean == pytest.approx(4 / 7, abs=1e-6)
    assert claim(matrix, "auto", "goodput at half").met is True
    assert claim(matrix, "auto", "goodput not lower than pfifo").met is True
    assert claim(matrix, "auto", "not worse than pie").met is True
    assert claim(matrix, "auto", "no sustained").met is None
    assert claim(matrix, "tuned", "mean excess").met is None  # was not run
    elsewhere = analyse([RunRow("grid-1", "grid", r.variant, r.seed, r.metrics) for r in good])
    assert claim(elsewhere, "auto", "mean excess").met is None  # is about Table II and the flow counts alone


def test_steps_are_counted_over_all_runs():
    steps = {"steps_count": {"auto": 4}, "settled_share": {"auto": 0.75}, "overshoot_mean_ms": {"auto": 10, "pie": 11}}
    matrix = analyse(rows({"auto": (15, 9.6), "pie": (15, 9.6)}, group="steps", **steps))
    settled = claim(matrix, "auto", "settled")
    assert (settled.met, settled.measured) == (False, "9 of 12 steps")
    assert claim(matrix, "auto", "overshoot").met is True


@pytest.mark.parametrize(
    ("ours", "pies", "swings"),
    [((20, 3), (4, 1), True), ((5, 3), (4, 1), False), ((20, 3), (30, 1), False), ((20, 0.5), (4, 1), False)],
)
def test_a_swing_is_above_noise_and_above_pies(ours, pies, swings):
    figures = {
        "spectral_peak_ratio": {"auto": ours[0], "pie": pies[0]},
        "spectral_peak_rms_ms": {"auto": ours[1], "pie": pies[1]},
    }
    matrix = analyse(rows({"auto": (15, 9.6), "pie": (15, 9.6)}, **figures))
    assert claim(matrix, "auto", "no sustained").met is not swings
    more = analyse(
        [row for s in matrix.scenarios for row in s.rows] + rows({"auto": (9, 9), "pie": (9, 9)}, scenario="s")
    )
    found = claim(more, "auto", "no sustained")
    assert (len(found.cases), found.measured.endswith("; not measured in 1 more: s")) == (1, True)


def test_four_in_five_scenarios_are_enough():
    near = {"auto": (15, 9.6), "pie": (15, 9.6)}
    far = {"auto": (30, 9.0), "pie": (15, 9.6)}
    runs = [row for n in range(5) for row in rows(far if n == 0 else near, scenario=f"s{n}")]
    assert claim(analyse(runs), "auto", "on or within 5 % of the front of all").met is True
    few = [*runs, *rows(far, group="long", scenario="steps-long")]
    assert len(claim(analyse(few), "auto", "on or within 5 % of the front of all").cases) == 5  # too few to make one
    more = [*runs, *rows(far, scenario="s9")]
    found = claim(analyse(more), "auto", "on or within 5 % of the front of all")
    assert (found.met, found.reached) == (False, 4)


def test_a_run_given_twice_is_refused():
    found = rows({"auto": (15, 9.6)})
    with pytest.raises(ValueError, match="flows-10, auto, seed 2 is there twice"):
        analyse([*found, found[1]])


@given(POINTS)
def test_the_front_is_what_nobody_beats(points):
    on = front(points)
    assert on
    for name, point in points.items():
        others = [at for other, at in points.items() if other != name]
        assert (behind(point, others) <= 0.05) == (not any(beats(other, point) for other in others))
        if name in on:
            assert not any(o[0] < point[0] and o[1] > point[1] for o in others)
        else:
            assert any(o[0] <= point[0] and o[1] >= point[1] for o in others)


@given(POINT, st.lists(POINT, min_size=1))
def test_a_point_moved_by_its_distance_is_on_the_front(point, others):
    distance = behind(point, others)
    moved = (point[0] / (1 + distance), point[1] * (1 + distance))
    assert distance >= 0
    if moved[0] >= 1:
        assert not any(o[0] < moved[0] * (1 - 1e-9) and o[1] > moved[1] * (1 + 1e-9) for o in others)


@given(POINT, POINT)
def test_no_two_beat_each_other(one, other):
    assert not (beats(one, other) and beats(other, one))


def test_the_made_up_matrix_is_whole():
    matrix = analyse(generated_matrix.rows(), generated_matrix.ABOUT)
    assert {scenario.group for scenario in matrix.scenarios} == set(generated_matrix.GROUPS)
    assert all(claim.cases for claim in matrix.claims)
