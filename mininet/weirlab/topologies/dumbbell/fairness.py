# SPDX-License-Identifier: Apache-2.0
"""Sharing of a link by flows: rates from counts, Jain's index, and the time until the shares have become even. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

BIN_S = 1.0
BAND = 0.2  # a share is fair while it is within this of the mean of all
HOLD_S = 5.0


def jain_index(rates: Sequence[float]) -> float | None:
    """Jain's fairness index, above 0 and up to 1; None where nobody got anything."""
    top = max(rates, default=0.0)
    if top <= 0:
        return None
    shares = np.asarray(rates, dtype=float) / top  # scaled, or the squares of tiny rates would vanish
    return min(float(shares.sum() ** 2 / (len(shares) * (shares**2).sum())), 1.0)


def mean_rate_bit_s(t_us: np.ndarray, counted_bytes: np.ndarray, first_us: float, last_us: float) -> float:
    """Mean rate between two times, the count taken as linear between samples and 0 before the first.

    The last sample is taken up to a second before the end; a flow that fell silent earlier pays for the silence.
    """
    silent_us = last_us - t_us[-1]
    until_us = t_us[-1] if 0 < silent_us <= min(1e6, (last_us - first_us) / 2) else last_us
    received = np.interp((first_us, until_us), t_us, counted_bytes, left=0.0)
    return float(received[1] - received[0]) * 8e6 / (until_us - first_us)


def convergence_s(rates: np.ndarray) -> float | None:
    """When the shares have become even: seconds from the first bin to the first of HOLD_S in a row in which each flow's
    rate is within BAND of the mean of all. `rates` has a row for each flow and a column for each BIN_S. None if that
    never comes, for fewer than two flows, and where nobody gets anything."""
    flows, bins = rates.shape
    hold = round(HOLD_S / BIN_S)
    if flows < 2 or bins < hold:
        return None
    fair = rates.mean(axis=0)
    even = (fair > 0) & (np.abs(rates - fair) <= BAND * fair * (1 + 1e-9)).all(axis=0)
    runs = np.lib.stride_tricks.sliding_window_view(even, hold).all(axis=1)
    return float(np.argmax(runs)) * BIN_S if runs.any() else None
