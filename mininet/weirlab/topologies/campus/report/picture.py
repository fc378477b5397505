# SPDX-License-Identifier: Apache-2.0
"""The network of `campus` as a picture, with the traffic of one run. Pure: counts of interfaces in, SVG out."""

import html
from collections.abc import Mapping
from typing import Any

from weirlab.topologies.campus.sites import SITES, receivers_of

# Boxes: name, its text, its middle and its half width. Colours are the page's variables.
BOXES: dict[str, tuple[str, int, int, int]] = {
    "origin": ("weir-server", 75, 40, 62),
    "publisher": ("file, stream", 75, 130, 62),
    "net": ("others' servers", 75, 220, 62),
    "core": ("core, eBPF", 300, 130, 48),
    "edge1": ("edge1: P4, names", 550, 80, 70),
    "edge2": ("edge2: P4, names", 550, 240, 70),
    "cache1": ("cache1", 480, 20, 34),
    "cache2": ("cache2", 480, 305, 34),
    "receivers1": ("receivers", 620, 20, 42),
    "receivers2": ("receivers", 620, 305, 42),
    "office": ("office", 780, 20, 40),
    "line": ("line, eBPF", 780, 80, 48),
    "cell": ("cell, eBPF", 780, 240, 48),
    "desk": ("desk", 985, 40, 36),
    "phone": ("phone", 985, 165, 44),
}
HALF_HEIGHT = 13
WIDTH, HEIGHT = 1050, 330
# Links: the two boxes, the interface whose counts they have (at the second box unless `sent` says that it sends down),
# and the link's kind.
LINKS: tuple[tuple[str, str, tuple[str, str], bool, str], ...] = (
    ("origin", "core", ("origin", "eth0"), True, ""),
    ("publisher", "core", ("publisher", "eth0"), True, ""),
    ("net", "core", ("net", "eth0"), True, ""),
    ("core", "edge1", ("core", "bb"), True, "backbone"),
    ("edge1", "edge2", ("edge1", "p1"), True, ""),
    ("edge1", "cache1", ("cache1", "eth0"), False, ""),
    ("edge2", "cache2", ("cache2", "eth0"), False, ""),
    ("edge1", "office", ("office", "eth0"), False, ""),
    ("edge1", "receivers1", ("receivers1", "eth0"), False, ""),
    ("edge2", "receivers2", ("receivers2", "eth0"), False, ""),
    ("edge1", "line", ("line", "lineup"), False, ""),
    ("edge2", "cell", ("cell", "cellup"), False, ""),
    ("line", "desk", ("desk", "eth0"), False, ""),
    ("line", "phone", ("phone", "tether"), False, "tether"),
    ("cell", "phone", ("phone", "cell"), False, "cell"),
    ("edge1", "phone", ("walk", "e1"), False, "Wi-Fi"),
    ("edge2", "phone", ("walk", "e2"), False, "Wi-Fi"),
)
MOST_WIDTH, LEAST_WIDTH = 9.0, 1.0


Passed = Mapping[tuple[str, str], Mapping[str, int]]
"""Bytes that an interface sent and received, by node and device."""


def receivers_together(passed: Passed, spec: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, int]]:
    """Counts of the receivers of each site together."""
    found = {}
    for site in SITES:
        names = [each.name for each in receivers_of(spec) if each.site == site]
        own = [passed[name, "eth0"] for name in names if (name, "eth0") in passed]
        if own:
            found[f"receivers{site}", "eth0"] = {key: sum(counts[key] for counts in own) for key in own[0]}
    return found


def picture(counts: Passed, spec: Mapping[str, Any], title: str) -> str:
    """The SVG. Lines are as thick as their traffic both ways; links without counts are dashed."""
    passed = {**counts, **receivers_together(counts, spec)}
    amounts = {
        (one, other): _bytes(passed[counted], sends) for one, other, counted, sends, _ in LINKS if counted in passed
    }
    most = max((down + up for down, up in amounts.values()), default=1) or 1
    parts = [
        f'<svg role="img" viewBox="0 0 {WIDTH} {HEIGHT}" xmlns="http://www.w3.org/2000/svg"><title>{html.escape(title)}'
        "</title>"
    ]
    labels = []
    for one, other, _, _, name in LINKS:
        (_, x1, y1, _), (_, x2, y2, _) = BOXES[one], BOXES[other]
        amount = amounts.get((one, other))
        width = LEAST_WIDTH if amount is None else max(LEAST_WIDTH, MOST_WIDTH * sum(amount) / most)
        dashes = ' stroke-dasharray="4 4"' if amount is None else ""
        parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="var(--tuned)" stroke-opacity="0.45" '
            f'stroke-width="{width:.1f}"{dashes}/>'
        )
        if amount is not None:
            words = f"{name} {amount[0] / 1e6:.1f} / {amount[1] / 1e6:.1f}".strip()
            labels.append((0.5 * (x1 + x2), 0.5 * (y1 + y2), words))
    for text, x, y, half in BOXES.values():
        parts.append(
            f'<rect x="{x - half}" y="{y - HALF_HEIGHT}" width="{2 * half}" height="{2 * HALF_HEIGHT}" rx="4" '
            f'fill="var(--panel)" stroke="var(--dim)"/><text x="{x}" y="{y + 4}" text-anchor="middle" '
            f'font-size="12" fill="var(--ink)">{html.escape(text)}</text>'
        )
    for at_x, at_y, words in labels:
        reach = 2.75 * len(words)
        parts.append(
            f'<rect x="{at_x - reach:.0f}" y="{at_y - 7:.0f}" width="{2 * reach:.0f}" height="13" fill="var(--page)" '
            f'fill-opacity="0.8"/><text x="{at_x:.0f}" y="{at_y + 3:.0f}" text-anchor="middle" font-size="10" '
            f'fill="var(--ink)">{html.escape(words)}</text>'
        )
    return "".join([*parts, "</svg>"])


def _bytes(counts: Mapping[str, int], sends: bool) -> tuple[int, int]:
    """Bytes that a link carried away from the origin, and towards it."""
    down, up = counts["sent_bytes"], counts["received_bytes"]
    return (down, up) if sends else (up, down)
