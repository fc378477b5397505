# SPDX-License-Identifier: Apache-2.0
"""The cache: finished runs by the content of their dependencies (weirlab/run/keys.py).

    runs/KE/KEY/            a finished run; it appears by rename, whole or not at all
      spec.json             the lab's input
      samples.jsonl.gz      what it measured
      ...                   what else its topology keeps (weirlab/topologies/cache_key.py)
      run.json              sealed: wall and virtual seconds, what the key is made of, size and digest of each file
      metrics-METRICSKEY.json
                            sealed: figures of exactly these samples
    drafts/XXXX/            runs under way, each locked by its process; what a dead one left is removed
    failed/SCENARIO/VARIANT/seed-N/
                            what is left of a run that failed, until it is tried again
    damaged/KEY/            an entry that was not what it should be, to inspect; the last of each key

Nothing of an entry is used before all of it has been held against its digests. Several processes may use one cache at
once.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weirlab.scenario.model import Run
from weirlab.store import atomic, sealed
from weirlab.store.sealed import Damaged

NEEDED = ("spec.json", "samples.jsonl.gz")
# Notes of a run, as logs: larger ones are left out, and so is what comes when there are so many of them.
NOTE_BYTES = 256 << 10
NOTES_BYTES = 4 << 20


@dataclass(frozen=True)
class Entry:
    """A finished run, whole when it was read; `facts` of it by its maker."""

    folder: Path
    facts: Mapping[str, Any]
    digests: Mapping[str, str]

    @property
    def samples(self) -> Path:
        return self.folder / "samples.jsonl.gz"

    @property
    def wall_s(self) -> float:
        """Wall time of the run, in seconds."""
        return self.facts["wall_s"]

    def metrics_path(self, metrics_key: str) -> Path:
        return self.folder / f"metrics-{metrics_key[:32]}.json"

    def metrics(self, metrics_key: str) -> dict[str, Any] | None:
        """The figures made of these samples by the code and spec of that key; None if there are none. Raises Damaged:
        they are then to be made anew, the samples being what they were."""
        return sealed.read(self.metrics_path(metrics_key), self._seal(metrics_key))

    def put_metrics(self, metrics_key: str, metrics: Mapping[str, Any]) -> None:
        """Raises OSError that names the file."""
        path = self.metrics_path(metrics_key)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        sealed.write(path, self._seal(metrics_key), metrics)

    def _seal(self, metrics_key: str) -> str:
        return f"{metrics_key} of {self.digests['samples.jsonl.gz']}"


@dataclass(frozen=True)
class Kept:
    """Files kept of a run's folder beside spec and samples, as patterns from there: `whole` at any size, `notes` up to
    NOTE_BYTES each and NOTES_BYTES in all, in the order of their names."""

    whole: Sequence[str] = ()
    notes: Sequence[str] = ()

    def names(self, folder: Path) -> list[str]:
        """The files to keep of a folder, in order. Links and other non-files are never kept."""
        there = {path: path.lstat() for path in folder.rglob("*")}
        files = {path: found.st_size for path, found in there.items() if stat.S_ISREG(found.st_mode)}
        whole = {folder / name for name in NEEDED} | {path for each in self.whole for path in folder.glob(each)}
        notes, room = set(), NOTES_BYTES
        for path in sorted({path for each in self.notes for path in folder.glob(each)} - whole):
            if files.get(path, NOTE_BYTES + 1) <= min(NOTE_BYTES, room):
                notes.add(path)
                room -= files[path]
        return sorted(path.relative_to(folder).as_posix() for path in (whole | notes) & set(files))


def seal(folder: Path, key: str, facts: Mapping[str, Any], kept: Kept) -> Entry:
    """Make a folder, in which a run has ended well, that run's entry: other files are removed, the rest gets its
    digests.

    Raises OSError that names the file.
    """
    names = kept.names(folder)
    for path in sorted(folder.rglob("*"), reverse=True):  # a folder's content before the folder
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.relative_to(folder).as_posix() not in names:
            path.unlink()
    digests = {name: sealed.digest_of(folder / name) for name in names}
    for name in digests:
        atomic.sync(folder / name)
    for path in {(folder / name).parent for name in names} - {folder}:
        atomic.sync(path)
    sizes = {name: (folder / name).stat().st_size for name in digests}
    files = {name: {"bytes": sizes[name], "sha256": digests[name]} for name in digests}
    sealed.write(folder / "run.json", key, {"facts": dict(facts), "files": files})
    return Entry(folder, dict(facts), digests)


def unseal(folder: Path, key: str) -> Entry:
    """The entry of that key in a folder, all of it held against its digests. Raises Damaged."""
    content = sealed.read(folder / "run.json", key)
    if content is None:
        raise Damaged("run.json: missing")
    for name in NEEDED:
        if name not in content["files"]:
            raise Damaged(f"run.json: no entry for {name}")
    for name, known in content["files"].items():
        if sealed.size_of(folder / name) not in (None, known["bytes"]):
            raise Damaged(f"{name}: wrong length")
        if sealed.digest_of(folder / name) != known["sha256"]:
            raise Damaged(f"{name}: wrong checksum")
    return Entry(folder, content["facts"], {name: known["sha256"] for name, known in content["files"].items()})


class Cache:
    """A cache in `folder`, which is made if need be. Raises OSError where it can't be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        for name in ("runs", "drafts", "failed", "damaged"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for draft in (self.folder / "drafts").iterdir():
            with contextlib.suppress(FileNotFoundError, NotADirectoryError), _locked(draft) as mine:
                if mine:
                    shutil.rmtree(draft, ignore_errors=True)

    def path(self, key: str) -> Path:
        return self.folder / "runs" / key[:2] / key

    def find(self, key: str) -> Entry | None:
        """The run of that key, whole; None if there is none. Raises Damaged, then `set_aside` it."""
        folder = self.path(key)
        for place in (folder.parent, folder):
            try:
                if not stat.S_ISDIR(place.lstat().st_mode):
                    raise Damaged("not a folder")
            except FileNotFoundError:
                return None
        try:
            return unseal(folder, key)
        except Damaged:
            if not folder.exists():
                return None  # another process has just set it aside
            raise

    def set_aside(self, key: str) -> Path:
        """Take an entry that is damaged out of the way; where it is now. Raises OSError."""
        found = self.path(key)
        if not found.parent.is_dir() or found.parent.is_symlink():
            found = found.parent
        place = self.folder / "damaged" / key
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):  # another process was first
            found.rename(place)
        return place

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

    def forget(self, key: str) -> None:
        """Take an entry out, as its run has been made again."""
        with self.draft() as draft, contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self.path(key).rename(draft / "forgotten")

    def keep(self, entry: Entry, key: str) -> Entry:
        """Put an entry that was sealed in a draft to its place. If another process was first, its run stays."""
        final = self.path(key)
        final.parent.mkdir(exist_ok=True)
        atomic.sync(entry.folder)
        while True:
            try:
                entry.folder.rename(final)
            except OSError:
                try:
                    there = self.find(key)
                except Damaged:
                    self.set_aside(key)
                    final.parent.mkdir(exist_ok=True)
                    continue
                if there is None:
                    raise
                return there
            atomic.sync(final.parent)
            return Entry(final, entry.facts, entry.digests)

    def failed_folder(self, run: Run) -> Path:
        return self.folder / "failed" / run.scenario / run.variant / f"seed-{run.seed}"

    def put_failed(self, draft: Path, run: Run) -> Path:
        """Keep the files of a failed run, in place of an earlier one's."""
        final = self.failed_folder(run)
        self.forget_failed(run)
        final.parent.mkdir(parents=True, exist_ok=True)
        draft.rename(final)
        return final

    def forget_failed(self, run: Run) -> None:
        shutil.rmtree(self.failed_folder(run), ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Hold a folder's lock for as long as this process lives; False if another process does."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)
