# SPDX-License-Identifier: Apache-2.0
"""The text of a scenario file: read, parsed, and which line each key is on."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from weirlab.scenario.errors import ScenarioError


def read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ScenarioError([f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8"]) from None


def parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"\s*\(at line (\d+), column (\d+)\)$", str(error))
        where = f"{path}:{at[1]}" if at else str(path)
        what = str(error)[: at.start()] if at else str(error)
        raise ScenarioError([f"{where}: not TOML: {what}; each key once, in the form `key = value`"]) from None


def key_lines(text: str) -> dict[str, int]:
    """Dotted key to line number, read from the text since tomllib lacks it; a key not found has no line."""
    lines: dict[str, int] = {}
    arrays: dict[str, int] = {}
    prefix, quoted = "", ""
    for number, line in enumerate(text.splitlines(), start=1):
        if quoted:
            quoted = "" if quoted in line else quoted
            continue
        table = re.match(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$", line)
        key = re.match(r"""\s*((?:[\w-]+|"[^"]+"|'[^']+')(?:\s*\.\s*(?:[\w-]+|"[^"]+"|'[^']+'))*)\s*=(.*)$""", line)
        if table:
            prefix = re.sub(r"""["'\s]""", "", table[2])
            if table[1] == "[[":
                arrays[prefix] = arrays.get(prefix, -1) + 1
                prefix = f"{prefix}.{arrays[prefix]}"
            lines.setdefault(prefix, number)
        elif key:
            name = re.sub(r"""["'\s]""", "", key[1])
            lines.setdefault(f"{prefix}.{name}" if prefix else name, number)
            for mark in ('"""', "'''"):
                if key[2].count(mark) == 1:
                    quoted = mark
    return lines
