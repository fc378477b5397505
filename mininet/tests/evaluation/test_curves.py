# SPDX-License-Identifier: Apache-2.0
"""Curves with known answers, and what holds of any curves."""

import math
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from weirlab.evaluation.envelope.curves import (
    At,
    area,
    at_equal_x,
    curve_of,
    jackknife,
    x_at_equal_y,
)
from weirlab.metrics.estimate import estimate

POINT = st.tuples(st.floats(0.5, 100), st.floats(1, 1e3))
POINTS = st.lists(POINT, min_size=1, max_size=8)
NEAR = 1e-9


def curve(*points):
    return curve_of([At(x, y, {"loss": 10 * x}, str(i)) for i, (x, y) in enumerate(points)])


def test_a_curve_is_what_none_of_its_own_points_beats():
    found = curve((9.0, 5), (9.5, 10), (9.4, 10), (9.5, 20), (9.6, 100), (8.0, 5))
    assert [(at.x, at.y) for at in found.points] == [(9.0, 5), (9.5, 10), (9.6, 100)]
    assert [at.name for at in found.points] == ["0", "1", "4"]
    assert curve_of([]) is None
    with pytest.raises(ValueError, match="y = 0 at x = 9"):
        curve((9, 0))


def test_between_two_points_y_goes_by_its_logarithm_and_both_ways_agree():
    found = curve((8, 4), (10, 16))
    middle = found.at_x(9)
    assert (middle.x, middle.y, middle.name) == (9, pytest.approx(8), "0 to 1")
    assert middle.more["loss"] == pytest.approx(90)
    assert found.at_y(8).x == pytest.approx(9)
    assert found.at_x(10) is found.last


def test_beyond_its_ends_a_curve_gives_what_it_can_do_at_least():
    found = curve((8, 4), (10, 16))
    assert found.at_x(5) is found.first
    assert found.at_x(10.001) is None
    assert found.at_y(50) is found.last
    assert found.at_y(3.999) is None


def test_at_equal_goodput_each_takes_its_least_delay():
    pie, ours = curve((9.0, 20), (10.0, 40)), curve((9.0, 10), (9.99, 30), (10.5, 90))
    one, other = at_equal_x(ours, pie, tolerance=0)
    assert (one.x, other.x, other.y) == (10, 10, 40)
    assert one.y == pytest.approx(30 * 3 ** (0.01 / 0.51))
    one, other = at_equal_x(ours, pie)  # to 0.5 %: both may go down to 9.95
    assert other.y == pytest.approx(20 * 2**0.95)
    assert one.y == pytest.approx(10 * 3 ** (0.95 / 0.99))
    # One that never carries so much is compared where it can be.
    assert at_equal_x(curve((5, 2)), pie)[1] is pie.first


def test_areas_by_hand():
    half, whole = curve((8, 5), (10, 10)), curve((8, 10), (10, 20))
    assert math.exp(area(half, whole)) == pytest.approx(0.5)
    # The same least delay, but the other carries up to 10: over the upper half of the goodput one counts with 40.
    low, high = curve((8, 10), (9, 20)), curve((8, 10), (9, 20), (10, 40))
    assert area(low, high) == pytest.approx((math.log(40) - (math.log(20) + math.log(40)) / 2) / 2)
    # Less delay at less goodput: over the lower half the other can do no better than its first point.
    assert area(curve((8, 5), (9, 10), (10, 20)), curve((9, 10), (10, 20))) == pytest.approx(
        (math.log(5) + math.log(10)) / 4 - math.log(10) / 2
    )
    assert area(curve((8, 5)), curve((8, 10))) == pytest.approx(math.log(0.5))


def test_at_equal_delay_by_hand():
    ours, peer = curve((8, 1), (10, 16)), curve((4, 1), (5, 16))
    assert x_at_equal_y(ours, peer) == pytest.approx(2)
    assert x_at_equal_y(curve((8, 1), (10, 4)), curve((9, 2), (9.5, 16))) == pytest.approx(9.5 / (9 + 0.5 / 6))
    assert x_at_equal_y(curve((8, 1)), curve((4, 3), (9, 9))) == pytest.approx(2)  # nothing in common: at 3
    assert x_at_equal_y(curve((8, 1)), curve((0, 1))) is None


@given(POINTS, st.randoms())
def test_the_order_of_points_does_not_matter(points, draw):
    shuffled = list(points)
    draw.shuffle(shuffled)
    assert curve_of([At(*p) for p in points]) == curve_of([At(*p) for p in shuffled])


@given(POINTS, POINTS)
def test_two_curves_say_the_opposite_of_each_other(mine, theirs):
    one, other = curve(*mine), curve(*theirs)
    assert area(one, other) == pytest.approx(-area(other, one), abs=NEAR)
    assert x_at_equal_y(one, other) == pytest.approx(1 / x_at_equal_y(other, one))
    assert at_equal_x(one, other) == tuple(reversed(at_equal_x(other, one)))
    assert area(one, one) == 0
    assert x_at_equal_y(one, one) == pytest.approx(1)


@given(POINTS, POINT)
def test_points_that_a_curve_beats_change_nothing(points, more):
    found = curve(*points)
    there = found.at_x(more[0])
    if there is not None and there in found.points and there.y < more[1]:
        assert curve(*points, more).points == found.points


@given(POINTS)
def test_a_curve_only_grows(points):
    found = curve(*points).points
    assert all(a.x < b.x and a.y < b.y for a, b in pairwise(found))


@given(POINTS, POINTS, st.floats(0.1, 1))
@example([(1.0, 999.9999999999999), (2.0, 1000.0)], [(1.0, 1.0)], 1.0)
@example([(1.0, 1.9999999999999998), (2.0, 2.0)], [(1.0, 1.0)], 1.0)
def test_less_delay_everywhere_is_never_worse(mine, theirs, factor):
    one, other = curve(*mine), curve(*theirs)
    less = curve(*((x, factor * y) for x, y in mine))
    assert area(less, other) <= area(one, other) + NEAR
    assert x_at_equal_y(less, one) >= 1 - NEAR
    assert at_equal_x(less, other)[0].y == pytest.approx(factor * at_equal_x(one, other)[0].y)


@given(POINTS, st.floats(1, 2), st.floats(0.1, 1))
def test_one_that_is_better_in_both_has_the_area(points, more, less):
    worse, better = curve(*points), curve(*((more * x, less * y) for x, y in points))
    assert area(better, worse) <= NEAR
    assert x_at_equal_y(better, worse) >= 1 - NEAR


@given(st.floats(0.5, 2), st.floats(0.5, 2), POINTS, POINTS)
def test_units_do_not_matter(x_unit, y_unit, mine, theirs):
    one, other = curve(*mine), curve(*theirs)
    again = [curve(*((x_unit * x, y_unit * y) for x, y in points)) for points in (mine, theirs)]
    assert area(*again) == pytest.approx(area(one, other), abs=1e-6)
    assert x_at_equal_y(*again) == pytest.approx(x_at_equal_y(one, other), rel=1e-6)


def test_the_interval_of_a_mean_is_students():
    logs = [0.1, 0.3, -0.2, 0.05]
    found = jackknife(lambda seeds: math.exp(math.fsum(logs[s] for s in seeds) / len(seeds)), range(4))
    expected = estimate(logs)
    assert math.log(found.ratio) == pytest.approx(expected.mean)
    assert math.log(found.high) - math.log(found.ratio) == pytest.approx(expected.ci95, abs=1e-5)
    assert found.low * found.high == pytest.approx(found.ratio**2)
    assert found.seeds == 4


def test_without_several_seeds_there_is_no_interval():
    assert jackknife(lambda _: 0.5, [7]).low is None
    assert jackknife(lambda _: None, [1, 2]) is None
    assert jackknife(lambda seeds: 0.5 if len(seeds) == 2 else None, [1, 2]).high is None
    assert jackknife(lambda _: 0.0, [1, 2]).low is None
