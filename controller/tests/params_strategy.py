# SPDX-License-Identifier: Apache-2.0
"""Parameters of the law that profiles may have, for property tests here and in tests/packet."""

from dataclasses import replace

from hypothesis import strategies as st

from weir.law import RANGES, U32_MAX, Params


def ordered_params() -> st.SearchStrategy[Params]:
    """Any in range, in the order that Z and M must have."""
    ranges = {name: st.integers(least, most) for name, (least, most) in RANGES.items()}
    ranges |= {"z3_q16": st.integers(1, 2**16 - 1), "z2_q16": st.integers(2**16 + 1, 2**19)}
    ranges |= {"z1_q16": st.integers(2**19 + 1, 2**20 - 1), "m2_us": st.integers(0, 2**23)}
    ranges |= {"m1_us": st.integers(2**23 + 1, 2**24 - 1), "integral_drop_max": st.sampled_from([0, 1, 7, U32_MAX])}
    return st.builds(Params, **ranges).map(
        lambda params: replace(
            params,
            min_delay_us=min(params.min_delay_us, params.target_us),
            space_least_q16=min(params.space_least_q16, params.space_most_q16),
            delay_bound_us=min(params.delay_bound_us, params.delay_limit_us or params.delay_bound_us),
        )
    )
