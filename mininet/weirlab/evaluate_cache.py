# SPDX-License-Identifier: Apache-2.0
"""The evaluation's cache: finished runs by the content of what they depend on (weirlab.evaluate_keys).

    runs/KE/KEY/            a finished run; it appears by rename, whole or not at all
      spec.json             what the lab was told
      samples.jsonl.gz      what it measured
      run.json              wall and virtual seconds, and what the key is made of
      metrics-METRICSKEY.json
    drafts/XXXX/            runs under way, each locked by its process; what a dead one left is removed
    failed/SCENARIO/VARIANT/seed-N/
                            what is left of a run that failed, until it is tried again

Several processes may use one cache at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weirlab.results import write_json
from weirlab.scenario import Run

# What is kept of a run's folder.
KEPT = ("spec.json", "samples.jsonl.gz", "decisions.jsonl", "run.json")


@dataclass(frozen=True)
class Entry:
    """A finished run in the cache."""

    folder: Path

    @property
    def samples(self) -> Path:
        return self.folder / "samples.jsonl.gz"

    @property
    def wall_s(self) -> float:
        """What the run cost, in seconds of ours."""
        return json.loads((self.folder / "run.json").read_text())["wall_s"]

    def metrics_path(self, metrics_key: str) -> Path:
        return self.folder / f"metrics-{metrics_key[:32]}.json"

    def metrics(self, metrics_key: str) -> dict[str, Any] | None:
        """The figures made by the code and spec of that key; None if there are none, or not whole."""
        try:
            return json.loads(self.metrics_path(metrics_key).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None

    def put_metrics(self, metrics_key: str, metrics: dict[str, Any]) -> None:
        write_json(self.metrics_path(metrics_key), metrics)


class Cache:
    """A cache in `folder`, which is made if need be. Raises OSError where it can't be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        for name in ("runs", "drafts", "failed"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for draft in (self.folder / "drafts").iterdir():
            with contextlib.suppress(FileNotFoundError), _locked(draft) as mine:
                if mine:
                    shutil.rmtree(draft, ignore_errors=True)

    def path(self, key: str) -> Path:
        return self.folder / "runs" / key[:2] / key

    def find(self, key: str) -> Entry | None:
        folder = self.path(key)
        return Entry(folder) if folder.is_dir() else None

    @contextlib.contextmanager
    def draft(self) -> Iterator[Path]:
        """A folder for a run under way, removed at the end unless `keep` has taken it."""
        while True:
            folder = Path(tempfile.mkdtemp(dir=self.folder / "drafts"))
            with _locked(folder) as mine:
                if not mine or not folder.exists():
                    continue  # another process, just starting, took it for a dead one's
                folder.chmod(0o755)
                try:
                    yield folder
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
            return

    def keep(self, draft: Path, key: str, facts: dict[str, Any]) -> Entry:
        """Make a draft, whose run has ended well, the run of that key. If another process was first, its run stays."""
        write_json(draft / "run.json", facts)
        for path in draft.iterdir():
            if path.name not in KEPT and not path.name.startswith("metrics-"):
                path.unlink()
        final = self.path(key)
        final.parent.mkdir(exist_ok=True)
        try:
            draft.rename(final)
        except OSError:
            if not final.is_dir():
                raise
        return Entry(final)

    def failed_folder(self, run: Run) -> Path:
        return self.folder / "failed" / run.scenario / run.variant / f"seed-{run.seed}"

    def put_failed(self, draft: Path, run: Run) -> Path:
        """Keep what a failed run has left, in place of what an earlier one has."""
        final = self.failed_folder(run)
        self.forget_failed(run)
        final.parent.mkdir(parents=True, exist_ok=True)
        draft.rename(final)
        return final

    def forget_failed(self, run: Run) -> None:
        shutil.rmtree(self.failed_folder(run), ignore_errors=True)

    def drop(self, entry: Entry) -> None:
        """Remove a run whose samples turn out to be damaged."""
        shutil.rmtree(entry.folder, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Hold a folder's lock for as long as this process lives; False if another process does."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)
