# SPDX-License-Identifier: Apache-2.0
"""JSON documents that are written whole or not at all."""

import json
from pathlib import Path
from typing import Any

from weirlab.store import atomic


class ResultsError(Exception):
    """A results folder that can't be used as asked; the message names the file and the right form."""


def dumps(document: Any, sort_keys: bool = True) -> str:
    """JSON with a newline at the end; NaN and infinity are refused."""
    return json.dumps(document, indent=2, sort_keys=sort_keys, ensure_ascii=False, allow_nan=False) + "\n"


def write_json(path: Path, document: Any, sort_keys: bool = True) -> None:
    """Write a JSON file whole or not at all."""
    atomic.write(path, dumps(document, sort_keys))


def read_json(path: Path) -> Any:
    """Raises ResultsError naming the file if it is missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ResultsError(f"{path}: missing; give a results folder") from None
    except ValueError as error:
        raise ResultsError(f"{path}: damaged ({error}); remove the run's folder and repeat it") from None
