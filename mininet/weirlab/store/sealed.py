# SPDX-License-Identifier: Apache-2.0
"""JSON files that say what they are and whether they are whole: content, the key it belongs to, a checksum of both."""

from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path
from typing import Any

from weirlab.store import atomic

JSON_LIMIT_BYTES = 64 << 20  # far more than any of ours has; what is longer isn't read


class Damaged(Exception):
    """A file or folder that is not what it should be; the message gives the fault."""


def write(path: Path, key: str, content: Any) -> None:
    """Raises OSError that names the file."""
    document = {"content": content, "key": key, "sha256": _checksum(key, content)}
    atomic.write(path, json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def read(path: Path, key: str) -> Any:
    """Document written under that key; None if there is no such file. Raises Damaged."""
    size = size_of(path)
    if size is None:
        return None
    if size > JSON_LIMIT_BYTES:
        raise Damaged(f"{path.name}: {size} bytes, too large for one of ours")
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise Damaged(f"{path.name}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise Damaged(f"{path.name}: not JSON") from None
    if not isinstance(document, dict) or set(document) != {"content", "key", "sha256"}:
        raise Damaged(f"{path.name}: has no checksum")
    if document["sha256"] != _checksum(document["key"], document["content"]):
        raise Damaged(f"{path.name}: wrong checksum")
    if document["key"] != key:
        raise Damaged(f"{path.name}: belongs to another run")
    return document["content"]


def size_of(path: Path) -> int | None:
    """A file's bytes; None if there is none. Raises Damaged for a folder, a link, a pipe and the like."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Damaged(f"{path.name}: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        raise Damaged(f"{path.name}: not a file")
    return found.st_size


def digest_of(path: Path) -> str:
    """The SHA-256 of a file's content. Raises Damaged."""
    if size_of(path) is None:
        raise Damaged(f"{path.name}: missing")
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise Damaged(f"{path.name}: {error.strerror}") from None


def _checksum(key: Any, content: Any) -> str:
    text = json.dumps([key, content], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
