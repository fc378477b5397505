# SPDX-License-Identifier: Apache-2.0
"""Test vectors of names: tests/vectors/icn/names.json.

Deterministic: the committed file equals what this prints. The format is in tests/vectors/README.md.
"""

import itertools
import json
from hashlib import sha256

from .text import BadName, components, name_bits, prefix_bits

TEXTS = (
    "/weir",
    "/weir/files",
    "/weir/files/film.mp4",
    "/weir/files/film.mp4/~0123456789abcdef",
    "/weir/files/film.mp4/~0123456789abcdef/~h1",
    "/weir/files/2024/11/23/film.mp4",
    "/weir/web",
    "/weir/web/open",
    "/weir/hosts/phone/00ff00ff00ff00ff",
    "/Weir/files",
    "/ weir/fi les",
    "/weir/Größe/日本語/😀",
    "/weir/~",
    "/...",
    "/.hidden/..b/c.",
    "/a/b/c/d",
    "/a/b/c/d/e",
    "/" + "x" * 254,
    "/a" * 127,
    "/" + "ä" * 127,
)
REFUSED = (
    ("", "does not begin with /"),
    ("weir/files", "does not begin with /"),
    ("/", "has an empty component"),
    ("//weir", "has an empty component"),
    ("/weir/", "has an empty component"),
    ("/weir//files", "has an empty component"),
    ("/.", "has the component ."),
    ("/weir/../files", "has the component .."),
    ("/weir/.", "has the component ."),
    ("/" + "x" * 255, "256 bytes"),
    ("/" + "ä" * 128, "257 bytes"),
)


def _zero_component() -> str:
    """The first number whose hash begins with 16 bits of 0, which `prefix` has as 1."""
    return next(text for text in map(str, itertools.count()) if sha256(text.encode()).digest()[:2] == b"\0\0")


def generate() -> str:
    """The text of the vector file."""
    zero = _zero_component()
    texts = [*TEXTS, f"/{zero}", f"/weir/{zero}/{zero}"]
    names = [
        {
            "text": text,
            "components": len(components(text)),
            "name": _hex(name_bits(text)),
            "prefix": _hex(prefix_bits(text)),
        }
        for text in texts
    ]
    for text, _ in REFUSED:
        try:
            components(text)
        except BadName:
            continue
        raise AssertionError(f"{text!r} is a name")
    refused = [{"text": text, "why": why} for text, why in REFUSED]
    return json.dumps({"names": names, "refused": refused}, indent=1, ensure_ascii=False) + "\n"


def _hex(bits: int) -> str:
    return f"{bits:016x}"
