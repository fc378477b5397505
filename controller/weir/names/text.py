# SPDX-License-Identifier: Apache-2.0
"""From the text of a name to the bits that switches see (docs/design/icn-formats.md, "Names")."""

from hashlib import sha256

BYTES_MOST = 255
COMPONENTS_MATCHED = 4
"""Of a name, from the first on: `prefix` holds no more."""
COMPONENT_BITS = 16
PREFIX_BITS = COMPONENTS_MATCHED * COMPONENT_BITS


class BadName(ValueError):
    """A text that is no name; the message gives the reason and the right form."""


def components(text: str) -> tuple[str, ...]:
    """The parts of a name without their `/`. Raises BadName."""
    data = _utf8(text)
    if len(data) > BYTES_MOST:
        raise BadName(f"a name of {len(data)} bytes; must be at most {BYTES_MOST}")
    if not text.startswith("/"):
        raise BadName(f"{text!r}: must begin with /, like /weir/files")
    parts = tuple(text[1:].split("/"))
    for part in parts:
        if not part:
            raise BadName(f"{text!r}: has an empty component; must be like /weir/files, without / at its end")
        if part in (".", ".."):
            raise BadName(f"{text!r}: has the component {part!r}; names are not paths, it has no meaning in them")
    return parts


def name_bits(text: str) -> int:
    """`name`, 64 bits, never 0. Raises BadName."""
    components(text)
    bits = int.from_bytes(sha256(_utf8(text)).digest()[:8], "big")
    if bits == 0:
        raise BadName(f"{text!r}: its hash is 0, which stands for no name; choose another")
    return bits


def prefix_bits(text: str) -> int:
    """`prefix`, 64 bits: 16 for each of the first four components, from the highest on. Raises BadName."""
    bits = 0
    for index, part in enumerate(components(text)[:COMPONENTS_MATCHED]):
        bits |= _component_bits(part) << PREFIX_BITS - COMPONENT_BITS * (index + 1)
    return bits


def route_bits(text: str) -> tuple[int, int]:
    """Key of a longest-prefix table for all names that begin with these components: bits, and how many of them count.
    `/` is the beginning of all names. Raises BadName, also for more components than a prefix has."""
    if text == "/":
        return 0, 0
    parts = components(text)
    if len(parts) > COMPONENTS_MATCHED:
        raise BadName(
            f"{text!r}: has {len(parts)} components; switches look at the first {COMPONENTS_MATCHED}, so a prefix has "
            "no more"
        )
    return prefix_bits(text), COMPONENT_BITS * len(parts)


def _component_bits(part: str) -> int:
    return int.from_bytes(sha256(_utf8(part)).digest()[:2], "big") or 1


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadName(f"{text!r}: no UTF-8 text ({error.reason})") from None
