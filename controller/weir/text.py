# SPDX-License-Identifier: Apache-2.0
"""Text of others on the way to a terminal or a log."""

from __future__ import annotations

_LINES = frozenset("\n")


def printable(text: object, lines: bool = False) -> str:
    """The same text, with what a terminal would obey written out (`\\x1b`, `\\u202e`). What was written out once stays
    as it is. `lines`: line ends are ours and stay too."""
    text = str(text)
    kept = _LINES if lines else ()
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)
