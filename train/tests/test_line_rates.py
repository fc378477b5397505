# SPDX-License-Identifier: Apache-2.0
"""Rates of lines that vary: about their mean, in order, and the same for the same seed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weirlab.lab.rates import mean_mbit_s, over_run, parse
from weirtrain import line_rates

KINDS = ("steps", "wifi", "fading", *line_rates.LAB_LINES)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(mean=st.floats(1, 220), duration_s=st.integers(4, 40), seed=st.integers(0, 2**48))
def test_rates_have_their_mean_and_begin_with_the_run(kind, mean, duration_s, seed):
    found = line_rates.rates(kind, mean, duration_s, seed)
    assert found == line_rates.rates(kind, mean, duration_s, seed)
    times, rates = zip(*found, strict=True)
    assert times[0] == 0
    assert list(times) == sorted(set(times))
    assert times[-1] < duration_s
    assert all(rate == 0 or rate >= line_rates.LEAST_MBIT_S for rate in rates)
    assert mean_mbit_s(found, duration_s) == pytest.approx(mean, rel=0.02)
    assert len(set(rates)) > 1 or duration_s <= 6
    assert tuple(over_run(parse(line_rates.text(found, duration_s)), duration_s)) == found


def test_a_constant_rate_has_no_steps():
    assert line_rates.rates("constant", 10, 20, 1) == ()


def test_an_unknown_kind_is_named():
    with pytest.raises(ValueError, match="'tide'"):
        line_rates.rates("tide", 10, 20, 1)
