# SPDX-License-Identifier: Apache-2.0
"""Cost of waiting drops and marks as in law.md, as bounds that hold for any seed."""

import pytest
from share_costs import PARAMS, beside_many, flood_ms, sharing

from weir.law import Size


@pytest.mark.parametrize(("share", "p"), [(0.5, 0.01), (0.1, 0.01), (0.1, 0.2), (0.02, 0.2)])
def test_a_flow_beside_many_small_ones_loses_more_than_p_and_less_than_the_wait(share: float, p: float) -> None:
    first, others = beside_many(share, p, packets=15000)
    wait = (PARAMS.space_most_q16 - PARAMS.space_least_q16) / PARAMS.space_most_q16
    assert others < p < first < wait + 0.1
    assert share * first + (1 - share) * others < 1.1 * p


def test_flows_that_share_a_counter_are_hit_more_often() -> None:
    alone, hit_alone, hit_together = sharing(50, 256, 0.02, packets=30000, placings=1)
    assert 0 < alone < 1
    assert hit_alone < 1 < hit_together


@pytest.mark.parametrize("factor", [1.5, 3])
def test_a_flood_stands_at_a_bound_in_time_whatever_ports_it_takes(factor: float) -> None:
    """Within four packets (5 ms) of the first bound, of the second, and of the delay from which nobody is spared."""
    few, many, new = (flood_ms(factor, size, until_s=4.0) for size in (Size.LARGE, Size.SMALL, Size.NEW))
    assert few < PARAMS.delay_bound_us / 1000 + 5
    assert many < PARAMS.delay_limit_us / 1000 + 5
    assert new < PARAMS.ecn_drop_us / 1000 + 5
