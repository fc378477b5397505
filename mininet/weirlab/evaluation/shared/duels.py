# SPDX-License-Identifier: Apache-2.0
"""Verdicts of two disciplines or controls beside each other, counted by scenario, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weirlab.report.model import Block, Layout, Paragraph, Section, table

VERDICTS = ("win", "tie", "trade", "loss", "unclear", "untold")
HEADS = ("", "peer", "wins", "ties", "trades", "losses", "unclear", "no interval")


def section(counted: Iterable[tuple[str, str, Mapping[str, int]]], amount: str, caution: str) -> Section:
    """Counts of verdicts of ours and peers; `amount` is compared beside delay. Pairs without verdicts are left out."""
    rows = [
        [ours, peer, *(str(counts[key]) for key in VERDICTS)] for ours, peer, counts in counted if any(counts.values())
    ]
    words = (
        f"Seed by seed against each peer, counted by scenario. Win: less delay or more {amount}, and as good in the "
        "other; trade: better in one, worse in the other; tie: the whole interval of the ratio is within 5 % of 1, in "
        "both; unclear: the runs do not decide at least one of them; no interval: there is one seed only."
    )
    blocks: list[Block] = [Paragraph(words), Paragraph(caution), table(HEADS, rows, Layout.DENSE)]
    return Section("Wins, ties and losses", blocks if rows else [])
