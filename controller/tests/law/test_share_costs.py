# SPDX-License-Identifier: Apache-2.0
"""What law.md says that waiting hits cost, as bounds that hold for any seed."""

import pytest
from share_costs import PARAMS, beside_many, sharing


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
