# SPDX-License-Identifier: Apache-2.0
"""Weights files as the sender reads them (docs/design/pbq-weights-format.md, "The weights file")."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

FIRST = b"weir-pbq-weights 1 sha256:"
DIGITS = 64
Layer = tuple[np.ndarray, np.ndarray]


class WeightsError(Exception):
    """A weights file that can't be used: what it has, and what was expected."""


def write(document: dict[str, Any], layers: Sequence[Layer], log_deviation: float) -> bytes:
    """A file's content. `document` has all members but `layers` and `log_deviation`; a layer is weights [units, units
    before] and bias [units], IEEE singles. Raises WeightsError where a number is not finite."""
    _check(layers)
    text = [{"weights": [_hex(row) for row in weights], "bias": _hex(bias)} for weights, bias in layers]
    members = document | {"log_deviation": log_deviation, "layers": text}
    content = json.dumps(members, indent=1, allow_nan=False).encode() + b"\n"
    return FIRST + hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def digest(file: bytes) -> str:
    """By which trajectories name the policy."""
    return file[len(FIRST) : len(FIRST) + DIGITS].decode("ascii")


def read(file: bytes) -> tuple[dict[str, Any], list[Layer]]:
    """All members but `layers`, and the layers. Raises WeightsError. The sender checks more."""
    first, _, content = file.partition(b"\n")
    if not first.startswith(FIRST) or len(first) != len(FIRST) + DIGITS:
        raise WeightsError(f"begins with {first[:40]!r}, expected {FIRST.decode()} and {DIGITS} hexadecimal digits")
    if hashlib.sha256(content).hexdigest() != digest(file):
        raise WeightsError("wrong checksum: the file is truncated or was changed")
    try:
        document = json.loads(content)
        layers = [(np.stack([_singles(row) for row in layer["weights"]]), _singles(layer["bias"]))
                  for layer in document.pop("layers")]  # fmt: skip
    except (ValueError, TypeError, LookupError) as error:
        raise WeightsError(f"not an object with layers of weights and bias: {error!r}") from None
    _check(layers)
    return document, layers


def _check(layers: Sequence[Layer]) -> None:
    for n, layer in enumerate(layers):
        if not all(np.isfinite(numbers).all() for numbers in layer):
            raise WeightsError(f"layers[{n}]: not finite, expected finite numbers")


def _hex(numbers: np.ndarray) -> str:
    return np.ascontiguousarray(numbers).astype(">f4").tobytes().hex()


def _singles(text: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(text), ">f4").astype(np.float32)
