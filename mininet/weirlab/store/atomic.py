# SPDX-License-Identifier: Apache-2.0
"""Files that appear whole or not at all, and stay there when the power goes."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path


def write(path: Path, content: bytes | str) -> None:
    """Write one file. Raises OSError that names it; then what was there before is still there, and nothing else."""
    write_all({path: content})


def write_all(files: Mapping[Path, bytes | str]) -> None:
    """Write several files; none is replaced before all are on the disk. Raises OSError that names the file."""
    drafts: dict[Path, Path] = {}
    try:
        for path, content in files.items():
            drafts[path] = _draft(path, content.encode("utf-8") if isinstance(content, str) else content)
        for path in files:
            os.replace(drafts[path], path)
            del drafts[path]
        for folder in {path.parent for path in files}:
            sync(folder)
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Have the disk hold what a file or a folder holds now."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def copy(source: Path, path: Path, link: bool = False) -> None:
    """Copy a file to where none is, or with `link` have it there, too, if the file system can. Raises OSError that
    names a file."""
    if link:
        with contextlib.suppress(OSError):
            os.link(source, path)
            return
    draft = path.with_name(f".{path.name}-copy")
    try:
        shutil.copyfile(source, draft)
        draft.rename(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def _draft(path: Path, content: bytes) -> Path:
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with open(handle, "wb") as file:
            os.fchmod(handle, 0o644)
            file.write(content)
            file.flush()
            os.fsync(handle)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(name)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    return Path(name)
