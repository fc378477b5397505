# SPDX-License-Identifier: Apache-2.0
"""Files that a run's programs hand over, and whether they came as they were."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

CHUNK_BYTES = 1 << 20


def draw_file(path: Path, size_bytes: int, seed: int) -> str:
    """Write a file that is drawn from the seed; its SHA-256."""
    draw, rest, digest = random.Random(seed), size_bytes, hashlib.sha256()
    with open(path, "wb") as file:
        while rest:
            chunk = draw.randbytes(min(rest, CHUNK_BYTES))
            file.write(chunk)
            digest.update(chunk)
            rest -= len(chunk)
    return digest.hexdigest()


def sha256_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
