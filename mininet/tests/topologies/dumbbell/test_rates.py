# SPDX-License-Identifier: Apache-2.0
"""A rate that follows a file: both formats, what is wrong with a file, and the rates that are set."""

import hashlib
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.lab import rates
from weirlab.lab.rates import Capacity, RateFileError, followed, mean_mbit_s, over_run, parse
from weirlab.scenario.cellular import text_of
from weirlab.topologies.dumbbell.step_response import capacity_bits

PACKET_MBIT = rates.FULL_PACKET_BYTES * 8 / 1e6
STEPS = st.lists(
    st.tuples(st.integers(1, 500), st.sampled_from([0.0, 0.002, 0.3, 1.0]) | st.floats(0.001, 200)),
    min_size=1,
    max_size=30,
).map(lambda rows: [(sum(ms for ms, _ in rows[:i]) / 1000, rate) for i, (_, rate) in enumerate(rows)])


def test_a_table_is_read_in_seconds_and_in_milliseconds():
    seconds = parse("# a comment\n\ntime_s,rate_mbit_s\n0,10\n0.1, 2.5\n0.3,0\n")
    assert seconds.steps == [(0, 10), (0.1, 2.5), (0.3, 0)]
    assert seconds.period_s == pytest.approx(0.5)  # the last row lasts as long as the row before
    in_ms = parse("time_ms,rate_mbit_s\n0,10\n100,2.5\n300,0\n")
    assert [rate for _, rate in in_ms.steps] == [10, 2.5, 0]
    assert [at for at, _ in in_ms.steps] == pytest.approx([0, 0.1, 0.3])


def test_a_trace_of_opportunities_becomes_a_rate_for_each_bin():
    # In 20 ms two packets; in the next 20 none; in the last 10 ms one.
    found = parse("5\n20\n50\n")
    assert found.period_s == 0.05
    assert found.steps == [(0.0, 2 * 1504 * 8 / 20e3), (0.02, 0.0), (0.04, 1504 * 8 / 10e3)]
    assert parse("0\n0\n20\n").steps == [(0.0, 3 * 1504 * 8 / 20e3)]


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=40).map(sorted).filter(lambda times: times[-1] > 0))
def test_a_trace_keeps_every_packet(times):
    found = parse("\n".join(map(str, times)))
    assert Capacity(found.steps, found.period_s).bits(0, found.period_s) == pytest.approx(len(times) * 1504 * 8)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: no rates in the file; write"),
        ("# nothing\n", "line 1: no rates in the file"),
        ("time,rate\n0,1\n", "line 1: the header is 'time,rate'; write two columns, time_s or time_ms, then rate"),
        ("time_s,rate_mbit_s\n", "line 1: no row under the header; write at least one"),
        ("time_s,rate_mbit_s\n1,1\n", "line 2: time_s begins at 1; write 0 in the first row"),
        ("time_s,rate_mbit_s\n0,1\n0.5,2\n0.5,3\n", "line 4: time_s 0.5 is less than 1 ms after the row before"),
        ("time_s,rate_mbit_s\n0,1\n0.5,2\n0.2,3\n", "line 4: time_s 0.2 is less than 1 ms after the row before"),
        ("time_s,rate_mbit_s\n0,1,2\n", "line 2: 3 cells; write 2"),
        ("time_s,rate_mbit_s\n0,fast\n", "line 2: rate_mbit_s is 'fast'; write a number from 0"),
        ("time_s,rate_mbit_s\n0,-1\n", "line 2: rate_mbit_s is '-1'; write a number from 0"),
        ("time_s,rate_mbit_s\n0,nan\n", "line 2: rate_mbit_s is 'nan'"),
        ("time_s,rate_mbit_s\n0,1e6\n", "line 2: rate_mbit_s 1e+06; write 0, or a rate from 0.001 to 100000"),
        ("time_s,rate_mbit_s\n0,1\n1e6,1\n", "line 3: time_s 1e+06 is more than a day"),
        ("# no\ntime_s,rate_mbit_s\n0,0\n", "line 3: the link never carries anything; write some rate above 0"),
        ("5\n4\n", "line 2: 4 is before 5; write times in order"),
        ("5\n6.5\n", "line 2: '6.5' is no time; write whole milliseconds"),
        ("0\n0\n", "line 2: the trace ends at 0 ms"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_line(text, said):
    with pytest.raises(RateFileError) as caught:
        parse(text)
    assert said in str(caught.value)
    assert "; " in str(caught.value)


@given(st.text())
def test_any_text_is_rates_or_refused(text):
    try:
        found = parse(text)
    except RateFileError:
        return
    assert found.steps[0][0] == 0
    assert found.period_s > found.steps[-1][0]


def test_a_file_that_is_too_short_starts_over():
    file = parse("time_s,rate_mbit_s\n0,1\n2,3\n")
    assert over_run(file, 3) == [(0, 1), (2, 3)]
    assert over_run(file, 9) == [(0, 1), (2, 3), (4, 1), (6, 3), (8, 1)]
    assert mean_mbit_s(over_run(file, 8), 8) == pytest.approx(2)
    assert over_run(parse("time_s,rate_mbit_s\n0,7\n"), 3600) == [(0, 7)]  # nothing changes
    with pytest.raises(RateFileError, match="changes in the run; write a coarser file"):
        over_run(parse("time_ms,rate_mbit_s\n0,1\n1,2\n"), 3600)


def test_the_figures_take_their_capacity_from_the_rates():
    link = {"rate_mbit_s": 2.0, "delay_ms": 1.0, "rates": [[0, 1.0], [2, 0.0], [3, 5.0]]}
    spec = {"duration_s": 4.0, "link": {"bottleneck": link}}
    assert capacity_bits(spec, 0, 4) == pytest.approx(2e6 + 5e6)
    assert capacity_bits(spec, 1.5, 3.1) == pytest.approx(0.5e6 + 0.5e6)
    assert capacity_bits(spec, 2.1, 2.9) == 0


@given(STEPS, st.floats(0.001, 2))
def test_capacity_is_a_sum_over_the_steps(steps, rest_s):
    end_s = steps[-1][0] + rest_s
    capacity = Capacity(steps, end_s)
    edges = [*(at for at, _ in steps), end_s]
    each = [capacity.bits(at, later) for at, later in pairwise(edges)]
    expected = [rate * 1e6 * (later - at) for (at, rate), later in zip(steps, edges[1:], strict=True)]
    assert each == pytest.approx(expected, abs=1e-3)
    assert capacity.bits(0, end_s) == pytest.approx(sum(expected), abs=1e-3)


@given(STEPS, st.floats(0.001, 2))
def test_no_rate_is_set_at_which_a_packet_outlasts_it(steps, rest_s):
    end_s = steps[-1][0] + rest_s
    found = followed(steps, end_s)
    assert found[0][0] == 0
    for (at, rate), (later, _) in pairwise(found):
        assert later > at
        # A packet that begins at this rate has left soon after the next rate applies: half a gap, and a tenth.
        assert PACKET_MBIT / rate <= 2 * (later - at) / rates.GAP_SHARE + 1e-5 or rate == rates.LEAST_MBIT_S


@given(st.lists(st.tuples(st.integers(10, 100), st.floats(5, 50)), min_size=1, max_size=40))
def test_a_rate_that_every_packet_can_follow_is_left_as_it_is(rows):
    steps = [(sum(ms for ms, _ in rows[:i]) / 1000, rate) for i, (_, rate) in enumerate(rows)]
    assert followed(steps, sum(ms for ms, _ in rows) / 1000) == steps


def departures(found, end_s, size_bytes):
    """When packets of a queue that is never empty go, with a token bucket of one packet, the rates set as `found`."""
    now, place, left = 0.0, 0, []
    while now < end_s:
        while place + 1 < len(found) and found[place + 1][0] <= now:
            place += 1
        left.append(now)
        now += size_bytes * 8 / (found[place][1] * 1e6)
    return left


@given(st.floats(0.02, 10), st.integers(60, 1514), st.floats(0.5, 20), st.floats(0.5, 20))
def test_an_outage_lets_little_through_and_holds_up_little_of_what_follows(out_s, size_bytes, before, after):
    over_s = 0.2 + out_s
    end_s = over_s * 1.2 + 0.5
    found = departures(followed([(0, before), (0.2, 0.0), (over_s, after)], end_s), end_s, size_bytes)
    waits_s = sum(size_bytes * 8 / (rate * 1e6) for rate in (before, after))
    meanwhile = [at for at in found if 0.2 + waits_s < at < over_s - rates.LONG_GAP_S]
    assert len(meanwhile) * size_bytes <= 12 * rates.FULL_PACKET_BYTES
    assert min(at for at in found if at >= over_s) <= over_s + out_s / 8 + rates.LONG_GAP_S + waits_s


@pytest.mark.parametrize(("size_bytes", "within"), [(1514, 0.03), (1454, 0.03), (600, 0.03), (200, 0.03)])
def test_a_cellular_trace_carries_what_it_says(size_bytes, within):
    steps = parse(text_of(Path(), "cellular:2")).steps
    carried = len(departures(followed(steps, 30), 30, size_bytes)) * size_bytes * 8
    assert carried == pytest.approx(Capacity(steps, 30).bits(0, 30), rel=within)


def test_the_trace_of_the_scenarios_is_the_one_of_the_committed_results():
    text = text_of(Path(), "cellular:2")
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert digest == "a665852c609ded35edafb02e7916f8c80d69518d641705148046ae508ce096a8"
    assert 7 < mean_mbit_s(parse(text).steps, 30) < 7.5
    assert text_of(Path(), "cellular:3") != text


@pytest.mark.parametrize("name", ["cellular:", "cellular:-1", "cellular:x", "cellular:1e3", "cellular:" + "9" * 19])
def test_a_seed_that_is_none_is_refused(name):
    with pytest.raises(ValueError, match="seed"):
        text_of(Path(), name)
