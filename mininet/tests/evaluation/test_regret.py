# SPDX-License-Identifier: Apache-2.0
"""Regret of congestion controls: its arithmetic by properties, the ranking of made-up figures, and pages by control."""

import csv
import io
import math

import generated_controls
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from weirlab.evaluation.cc import control_page
from weirlab.evaluation.cc.analysis import analyse
from weirlab.evaluation.cc.ranking_section import section
from weirlab.evaluation.cc.regret import POWER, bootstrap, csv_of, ranking, ranks, regrets, regrets_of
from weirlab.evaluation.report import about
from weirlab.evaluation.shared.rows import RunRow
from weirlab.evaluation.suites import load_suite
from weirlab.report import markdown
from weirlab.report.model import Report

logs = st.floats(-7, 7)


def pairs(least=1, most=6):
    return st.integers(least, most).flatmap(
        lambda n: st.tuples(arrays(float, n, elements=logs), arrays(float, n, elements=logs))
    )


@pytest.fixture(scope="module")
def plan():
    return load_suite("cc")


@pytest.fixture(scope="module")
def bench(plan):
    rows = generated_controls.rows(plan)
    return analyse(rows, plan.controls, {group.name: group.title for group in plan.groups}, about(plan))


@given(pairs(), st.floats(-5, 5), st.floats(-5, 5))
def test_regret_is_zero_for_the_best_and_knows_ratios_alone(pair, faster, farther):
    throughput, delay = pair
    found = regrets(throughput, delay)
    assert found.min() >= 0
    assert np.all(found.min(axis=1) == 0)
    assert np.allclose(regrets(throughput + faster, delay + farther), found, atol=1e-9)
    assert np.all(found[POWER] <= found[1] + found[2] + 1e-9)


@given(pairs(2), st.floats(0, 3), st.floats(0, 3))
def test_a_control_that_another_beats_changes_no_regret(pair, less, more):
    throughput, delay = pair
    found = regrets(np.append(throughput, throughput[0] - less), np.append(delay, delay[0] + more))
    assert np.allclose(found[:, :-1], regrets(throughput, delay), atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.lists(arrays(float, (2, 3, 4), elements=logs), min_size=1, max_size=4), st.integers(0, 3))
def test_replicates_lie_within_the_seeds_extremes_and_repeat(tables, seed):
    samples = [(table[0], table[1]) for table in tables]
    weights = np.full(len(samples), 1 / len(samples))
    found = bootstrap(samples, weights, 50, seed)
    assert np.array_equal(found, bootstrap(samples, weights, 50, seed))
    assert found.min() >= 0
    most = max(np.ptp(throughput) + np.ptp(delay) for throughput, delay in samples)
    assert found.max() <= most + 1e-9


@given(st.integers(2, 5), st.integers(2, 40))
def test_equal_scores_tie_and_order_decides_otherwise(controls, replicates):
    same = np.ones((replicates, controls))
    first, last = ranks(same)
    assert (list(first), list(last)) == ([1] * controls, [controls] * controls)
    first, last = ranks(same * np.arange(controls))
    assert list(first) == list(last) == list(range(1, controls + 1))


def test_one_seed_and_one_scenario_have_no_spread():
    table = np.array([[1.0], [2.0]]), np.array([[0.5], [0.5]])
    found = bootstrap([table], np.array([1.0]), 20)
    assert np.all(found == found[0])
    assert found[0, POWER].tolist() == [1.0, 0.0]


def test_the_ranking_of_known_figures(bench):
    found = ranking(bench)
    best, *others = found.rows
    assert (best.control, best.rank) == ("pbq", "1")
    assert all(row.first > 1 for row in others)
    assert "upload" not in best.groups  # only controls of our client are in it
    assert found == ranking(bench)
    for row in found.rows:
        assert all(score.low <= score.mean <= score.high for score in row.scores)
    lines = list(csv.DictReader(io.StringIO(csv_of(found, bench.controls.stacks))))
    assert [line["control"] for line in lines] == [row.control for row in found.rows]
    assert float(lines[0]["power_regret_mean_nats"]) == pytest.approx(best.scores[POWER].mean, abs=1e-4)


def test_controls_of_few_groups_are_named_and_not_ranked(plan):
    every = generated_controls.rows(plan)
    rows = [row for row in every if row.variant != "tcp-vegas" or row.group in ("loss", "flows")]
    found = analyse(rows, plan.controls)
    ranked = ranking(found)
    assert "tcp-vegas" not in [row.control for row in ranked.rows]
    assert set(ranked.left_out) == {"tcp-vegas", "quic-go-reno"}
    assert "`tcp-vegas`" in markdown.render(Report("", [section(found, ranked)]))


def test_scenarios_outside_of_the_ranking_are_named(plan):
    rows = generated_controls.rows(plan)
    gone = rows[0].scenario
    bench = analyse([row for row in rows if (row.scenario, row.variant) != (gone, "pbq")], plan.controls)
    text = markdown.render(Report("a", [section(bench, ranking(bench, 10))]))
    assert f"no run there: `{gone}`" in text


def test_one_control_has_no_ranking(plan):
    rows = [row for row in generated_controls.rows(plan) if row.variant == "pbq"]
    found = analyse(rows, plan.controls)
    assert ranking(found) is None
    assert markdown.render(Report("", [section(found, None)])).count("Ranking") == 0


def test_beside_competing_flows_no_more_than_the_fair_share_counts(plan):
    """A control that takes all of the link has the throughput regret of one that takes its share."""
    found = about(plan)
    assert found["friendly-cubic-1"]["fair_mbit_s"] == 5
    assert found["beside-one"]["fair_mbit_s"] == pytest.approx(12.8)
    assert found["leaving"]["fair_mbit_s"] is None  # the competing flow leaves
    assert found["short-beside"]["fair_mbit_s"] is None
    assert found["fairness-4"]["fair_mbit_s"] is None
    rows = [
        RunRow("friendly-cubic-1", "friendliness", name, 1, {"wire_mbit_s": wire, "rtt_mean_ms": 50.0})
        for name, wire in (("pbq", 2.5), ("cubic", 5.0), ("tcp-bbr", 10.0))
    ]
    (scenario,) = analyse(rows, plan.controls, about=about(plan)).scenarios
    found = {name: of.tolist() for name, of in regrets_of(scenario).items()}
    assert found["cubic"] == found["tcp-bbr"] == [0, 0, 0]
    assert found["pbq"] == pytest.approx([math.log(2), math.log(2), 0])


def test_a_control_has_a_page_with_what_it_wins_loses_and_costs(bench):
    pages = control_page.pages(bench, ranking(bench))
    assert set(pages) == set(bench.controls.stacks)
    of = control_page.places(bench)["pbq"]
    lost = [place.scenario.name for place in of if not place.is_won]
    assert generated_controls.LOSING in lost
    text = markdown.render(pages["pbq"])
    for place in of:
        assert f"| {place.scenario.name} |" in text
    regret = [float(row[1]) for row in control_page.loss_rows("pbq", of)]
    assert regret == sorted(regret, reverse=True)
    assert all(row[4] != "pbq" for row in control_page.loss_rows("pbq", of))
