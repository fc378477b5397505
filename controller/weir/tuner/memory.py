# SPDX-License-Identifier: Apache-2.0
"""State that a tuner that starts anew can't see in the data plane: the operator's target, where a lower one applies.

One small file a port, written before the gains it is about, in a folder that a restart of the machine empties, as it
empties the eBPF data plane (a P4 switch elsewhere it does not: docs/use/tuning.md). A file about other gains than those
found in force says nothing: somebody has set them since.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

from ..files import write_whole
from ..gains import Gains


class Memory:
    """Of all ports; `folder` None remembers nothing. OSError where a file can't be written."""

    def __init__(self, folder: Path | None):
        self._folder = folder

    def recall(self, port: str, gains: Gains) -> int | None:
        """The operator's target in us, where `gains` are a tuner's; None where nothing is known."""
        if self._folder is None:
            return None
        try:
            kept = json.loads(self._file(port).read_text(encoding="utf-8"))
            target_us, of = kept["target_us"], kept["of"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        known = isinstance(of, list) and _mark(gains) in of
        return target_us if known and type(target_us) is int and 0 < target_us < 2**24 else None

    def keep(self, port: str, target_us: int, now: Gains, soon: Gains) -> str | None:
        """Before `soon` is written over `now`: the next tuner may find either of them, and `now` may be an operator's.
        Returns the earlier record, for `put_back`."""
        if self._folder is None:
            return None
        path = self._file(port)
        before = path.read_text("utf-8", "replace") if path.is_file() else None
        of = [_mark(soon)] if self.recall(port, now) is None else [_mark(now), _mark(soon)]
        if soon.target_us == now.target_us == target_us:
            path.unlink(missing_ok=True)
            return before
        self._write(path, json.dumps({"target_us": target_us, "of": of}) + "\n")
        return before

    def put_back(self, port: str, before: str | None) -> None:
        """`soon` was not written after all, perhaps because the port is another tuner's."""
        if self._folder is None:
            return
        if before is None:
            self._file(port).unlink(missing_ok=True)
        else:
            self._write(self._file(port), before)

    @staticmethod
    def _write(path: Path, text: str) -> None:
        write_whole(path, text.encode())

    def _file(self, port: str) -> Path:
        assert self._folder is not None
        return self._folder / f"target-{quote(port, safe='@:,')}.json"


def _mark(gains: Gains) -> str:
    """The same for gains that are the same to the law."""
    return repr(gains.to_params())
