# SPDX-License-Identifier: Apache-2.0
"""Congestion controls of QUIC flows: those of weir-client and weir-server, and noq's.

`congestion_controls.json` is the output of `weir-client --list-cc --json`, indented; a test compares them. It is
committed because scenarios are also checked where nothing is built.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticKnownError

TABLE = Path(__file__).with_name("congestion_controls.json")
_ROWS = json.loads(TABLE.read_text(encoding="utf-8"))
CONTROLS: tuple[str, ...] = tuple(row["name"] for row in _ROWS)
"""Names, the default first."""
LEARNED: tuple[str, ...] = tuple(row["name"] for row in _ROWS if row["learned"])
"""Those that a trained policy decides for."""
NOQ = ("noq-bbr3", "noq-cubic")
"""Controls of noq-server, a peer that only sends."""


def _one_of(name: str, known: tuple[str, ...]) -> str:
    if name not in known:
        raise PydanticKnownError("literal_error", {"expected": ", ".join(f"'{other}'" for other in known)})
    return name


QuicControl = Annotated[str, AfterValidator(lambda name: _one_of(name, CONTROLS))]
"""A control of weir-client and weir-server."""
AnyQuicControl = Annotated[str, AfterValidator(lambda name: _one_of(name, (*CONTROLS, *NOQ)))]
"""The same, or one of noq-server."""
