# SPDX-License-Identifier: Apache-2.0
"""Congestion controls of QUIC flows by weir-client and weir-server.

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


def known_control(name: str) -> str:
    """The name, if it is one of CONTROLS. Raises PydanticKnownError."""
    if name not in CONTROLS:
        raise PydanticKnownError("literal_error", {"expected": ", ".join(f"'{other}'" for other in CONTROLS)})
    return name


QuicControl = Annotated[str, AfterValidator(known_control)]
"""A control of weir-client and weir-server."""
