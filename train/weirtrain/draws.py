# SPDX-License-Identifier: Apache-2.0
"""Numbers out of the training's seed and what they are for: none depends on what was drawn before it."""

from __future__ import annotations

import hashlib


def number(seed: int, *what: str | int, bits: int = 63) -> int:
    """A number of so many bits."""
    text = "/".join(map(str, (seed, *what))).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8]) >> (64 - bits)
