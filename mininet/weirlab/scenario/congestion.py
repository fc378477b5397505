# SPDX-License-Identifier: Apache-2.0
"""Congestion controls of QUIC flows: the table of our programs, which `weir-client --list-cc` prints, and noq's."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from typing import Annotated, Any

from pydantic import AfterValidator
from pydantic_core import PydanticKnownError

from weirlab import paths
from weirlab.scenario.errors import ScenarioError

NOQ = ("noq-bbr3", "noq-cubic")
"""Controls of noq-server, a peer that only sends."""
LIST_TIMEOUT_S = 60
LEARNED_CC = "WEIR_LEARNED_CC"
"""Environment variable with the names of `learned()` for a driver in a lab. There no program may be started to list
them: it would change each later random draw of the exact lab."""


@cache
def _table() -> tuple[dict[str, Any], ...]:
    program = paths.build() / "bin" / "weir-client"
    try:
        made = subprocess.run([program, "--list-cc", "--json"], check=True, capture_output=True, timeout=LIST_TIMEOUT_S)
        return tuple(json.loads(made.stdout))
    except FileNotFoundError:
        raise ScenarioError([f"{program} is missing and lists the congestion controls; run `./run build`"]) from None
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise ScenarioError([f"{program} --list-cc --json: {error}; run `./run build`"]) from None


def controls() -> tuple[str, ...]:
    """Names of the controls of weir-client and weir-server, the default first. Raises ScenarioError where weir-client
    is not built."""
    return tuple(row["name"] for row in _table())


def learned() -> tuple[str, ...]:
    """Names of the controls that a trained policy decides for. Raises ScenarioError as `controls` does."""
    return tuple(row["name"] for row in _table() if row["learned"])


def _one_of(name: str, known: tuple[str, ...]) -> str:
    if name not in known:
        raise PydanticKnownError("literal_error", {"expected": ", ".join(f"'{other}'" for other in known)})
    return name


QuicControl = Annotated[str, AfterValidator(lambda name: _one_of(name, controls()))]
"""A control of weir-client and weir-server."""
AnyQuicControl = Annotated[str, AfterValidator(lambda name: _one_of(name, (*controls(), *NOQ)))]
"""The same, or one of noq-server."""
