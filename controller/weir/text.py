# SPDX-License-Identifier: Apache-2.0
"""Text for terminals and logs: escaped text of others, and times for people."""

from __future__ import annotations

_LINES = frozenset("\n")


def printable(text: object, lines: bool = False) -> str:
    """The same text, with control characters that a terminal would obey written out (`\\x1b`, `\\u202e`). Escaped text
    stays as it is. `lines`: line ends are ours and stay too."""
    text = str(text)
    kept = _LINES if lines else ()
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)


def age(age_s: float | None) -> str:
    """Age in words; "" where it is not known."""
    if age_s is None or age_s < 1:
        return "" if age_s is None else "now"
    return f"{age_s:.0f} s" if age_s < 100 else f"{age_s / 60:.0f} min" if age_s < 6000 else f"{age_s / 3600:.0f} h"
