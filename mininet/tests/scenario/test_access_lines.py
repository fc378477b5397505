# SPDX-License-Identifier: Apache-2.0
"""Synthetic lines of varying rate."""

from itertools import pairwise

import pytest

from weirlab.lab.rates import mean_mbit_s, over_run, parse
from weirlab.scenario.access_lines import SECONDS, WIFI_MBIT_S, WIFI_SECONDS, docsis, lte, starlink, wifi

LINES = {docsis: (0.5, 20), lte: (0, 40), starlink: (0, 30), wifi: (0.5, 120)}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("seed", [0, 1, 11, 10**17])
def test_a_line_is_a_rate_file_and_repeatable(line, seed):
    text = line(seed)
    assert text == line(seed) != line(seed + 1)
    least, most = LINES[line]
    found = over_run(parse(text), SECONDS)
    assert all(least <= rate <= most for _, rate in found)
    assert max(rate for _, rate in found) > 1.3 * min(rate for _, rate in found if rate)
    assert 4 < mean_mbit_s(found, SECONDS) < 25


def test_outages_are_short():
    for line in (lte, starlink):
        steps = over_run(parse(line(3)), SECONDS)
        outages = [then[0] - at for (at, rate), then in pairwise(steps) if not rate]
        assert all(length < 0.2 for length in outages)


@pytest.mark.parametrize("seed", range(20))
def test_wifi_has_its_mean_over_the_length_of_a_run(seed):
    assert mean_mbit_s(over_run(parse(wifi(seed)), WIFI_SECONDS), WIFI_SECONDS) == pytest.approx(WIFI_MBIT_S, abs=0.01)
