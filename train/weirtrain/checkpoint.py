# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: one file that holds all of a training, replaced as a whole after each update."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import torch

FIRST = b"weir-train-checkpoint 1 sha256:"


class CheckpointError(Exception):
    """A checkpoint that can't be gone on from: what is wrong, and what to do."""


def content(training: dict[str, Any]) -> bytes:
    """Content of the file."""
    out = io.BytesIO()
    torch.save(training, out)
    body = out.getvalue()
    return FIRST + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def read(path: Path) -> dict[str, Any]:
    """Raises CheckpointError."""
    try:
        first, _, body = path.read_bytes().partition(b"\n")
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}; without --resume a training begins") from None
    if first != FIRST + hashlib.sha256(body).hexdigest().encode():
        raise CheckpointError(f"{path}: truncated, changed or of another version; begin anew with another --out")
    return torch.load(io.BytesIO(body), weights_only=True)
