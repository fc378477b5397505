# SPDX-License-Identifier: Apache-2.0
"""Where results are kept: a folder for each invocation, never overwritten, readable while it is still being filled.

    STAMP-SCENARIO-XXXXXXXX/
      meta.json                     command line, versions, host, seeds, the runs that were planned
      scenario.toml                 the scenario file as it was
      summary.json                  every run's metrics and their statistics over seeds
      runs/VARIANT/seed-N/
        spec.json                   the lab's input
        samples.jsonl[.gz]          what it measured (the topology's samples.py says how to read it)
        stdout, stderr, log-*, ...  what else the topology keeps (its cache_key.py)
        summary.json                the metrics

A run comes here whole, from the cache; its samples are the same file there and here, where both are on one file system.
Summaries hold nothing of the clock and no path, so the same samples give the same bytes.
"""

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from weirlab.metrics.estimate import Estimate, estimate
from weirlab.scenario.model import Run, Scenario
from weirlab.store import atomic
from weirlab.store.cache import Entry
from weirlab.store.documents import ResultsError, dumps, read_json, write_json
from weirlab.store.provenance import host_facts, versions

# Facts of the scenario that a report needs, kept so that old results stay readable when the schema moves on.
SCENARIO_FACTS = ("name", "title", "description", "duration_s", "warmup_s", "reference_target_ms", "paper")


@dataclass(frozen=True)
class RunResult:
    """One finished run: flat metrics by name, the checks it failed, and those of them that are `missed` targets: the
    measurement is sound, but an application did not get all that it wanted."""

    scenario: str
    variant: str
    seed: int
    metrics: dict[str, Any]
    failures: tuple[str, ...]
    missed: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """VALID, MISSED or FAILED."""
        if not self.failures:
            return VALID
        return MISSED if set(self.failures) <= set(self.missed) else FAILED


VALID, MISSED, FAILED = "valid", "target missed", "run failed"
"""States of a run, in text, JSON and pages."""


@dataclass(frozen=True)
class Summary:
    """Contents of a folder: finished runs, statistics over seeds by variant and metric, planned runs not there."""

    runs: tuple[RunResult, ...]
    variants: dict[str, dict[str, Estimate]]
    missing: tuple[tuple[str, int], ...]

    @property
    def failures(self) -> list[str]:
        """One line for each check that a run failed, but for missed targets."""
        return self._lines(lambda run: [line for line in run.failures if line not in run.missed])

    @property
    def missed(self) -> list[str]:
        """One line for each target that a run missed."""
        return self._lines(lambda run: run.missed)

    def _lines(self, of: Callable[[RunResult], Sequence[str]]) -> list[str]:
        return [f"{run.variant}, seed {run.seed}: {line}" for run in self.runs for line in of(run)]


@dataclass(frozen=True)
class ResultsFolder:
    """A results folder on disk."""

    path: Path

    @classmethod
    def create(
        cls, root: str | Path, scenario: Scenario, argv: Sequence[str], runs: Sequence[Run] | None = None
    ) -> "ResultsFolder":
        """Make a new folder under `root`; it appears whole, under a name nothing else has.

        `argv` is the command line to keep, `runs` those planned (None: all of the scenario's).
        """
        root = Path(root)
        root.mkdir(parents=True, exist_ok=True)
        planned = scenario.runs() if runs is None else runs
        started = datetime.now(UTC)
        draft = Path(tempfile.mkdtemp(prefix=".new-", dir=root))
        unique = re.sub(r"[^a-z0-9]", "x", draft.name.removeprefix(".new-").lower())
        (draft / "scenario.toml").write_text(scenario.text, encoding="utf-8")
        write_json(
            draft / "meta.json",
            {
                "argv": list(argv),
                "started_utc": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "scenario": {
                    "topology": scenario.topology,
                    **{key: getattr(scenario, key, None) for key in SCENARIO_FACTS},  # a topology has its own of them
                },
                "seeds": sorted({run.seed for run in planned}),
                "runs": [[run.variant, run.seed] for run in planned],
                "versions": versions(),
                "host": host_facts(),
            },
        )
        draft.chmod(0o755)
        while True:
            path = root / f"{started:%Y%m%dT%H%M%SZ}-{scenario.name}-{unique}"
            if not path.exists():
                # rename() refuses a folder with anything in it, and ours are never empty: no race can overwrite.
                draft.rename(path)
                return cls(path)
            unique = f"{unique}x"

    @classmethod
    def open(cls, path: str | Path) -> "ResultsFolder":
        """An existing folder, finished or not. Raises ResultsError if it isn't one."""
        path = Path(path)
        if not (path / "meta.json").is_file() or not (path / "scenario.toml").is_file():
            raise ResultsError(f"{path}: not a results folder; give one that holds meta.json and scenario.toml")
        return cls(path)

    @property
    def meta(self) -> dict[str, Any]:
        return read_json(self.path / "meta.json")

    @property
    def topology(self) -> str | None:
        """The name of its runs' topology; None in a folder from before there was a second one."""
        return self.meta["scenario"].get("topology")

    def note(self, **facts: Any) -> None:
        """Add facts to meta.json; a dict is merged into the one there (`versions={"lab kernel": ...}`)."""
        meta = self.meta
        for key, value in facts.items():
            meta[key] = {**meta.get(key, {}), **value} if isinstance(value, Mapping) else value
        write_json(self.path / "meta.json", meta)

    def run_path(self, variant: str, seed: int) -> Path:
        return self.path / "runs" / variant / f"seed-{seed}"

    def run_folder(self, run: Run) -> Path:
        """The folder of one run, made if need be, with its spec.json in it."""
        folder = self.run_path(run.variant, run.seed)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "spec.json", run.spec, sort_keys=False)  # in the order of docs/design/law.md, for readers
        return folder

    def take(self, run: Run, entry: Entry) -> None:
        """Bring the files of a finished run from the cache; the spec is this run's own. Raises OSError."""
        folder = self.run_folder(run)
        for name in entry.digests:
            if name != "spec.json":
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                atomic.copy(entry.folder / name, folder / name, link=entry.folder / name == entry.samples)

    def keep(self, result: RunResult) -> None:
        """Keep a finished run's metrics."""
        write_json(self.run_path(result.variant, result.seed) / "summary.json", asdict(result))

    def finished(self, variant: str, seed: int) -> bool:
        """Whether that run has its metrics, so that an interrupted series can go on where it was."""
        return (self.run_path(variant, seed) / "summary.json").is_file()


def summarise(folder: ResultsFolder) -> Summary:
    """Gather the finished runs of a folder, write its summary.json, and say which planned runs are missing."""
    runs, missing = [], []
    for variant, seed in folder.meta["runs"]:
        if folder.finished(variant, seed):
            kept = read_json(folder.run_path(variant, seed) / "summary.json")
            runs.append(RunResult(**{**kept, **{key: tuple(kept.get(key, ())) for key in ("failures", "missed")}}))
        else:
            missing.append((variant, seed))
    by_variant: dict[str, list[RunResult]] = {}
    for run in runs:
        by_variant.setdefault(run.variant, []).append(run)
    variants = {}
    for label, group in by_variant.items():
        names = dict.fromkeys(name for run in group for name in run.metrics)
        variants[label] = {name: estimate([run.metrics.get(name) for run in group]) for name in names}
    summary = Summary(tuple(runs), variants, tuple(missing))
    write_json(
        folder.path / "summary.json",
        {
            "runs": [asdict(run) for run in runs],
            "variants": {label: {name: asdict(e) for name, e in found.items()} for label, found in variants.items()},
            "missing": [list(run) for run in missing],
        },
    )
    return summary


def runs_json(*summaries: Summary, asked: Sequence[Mapping[str, Any]] = ()) -> str:
    """The runs of all these as one JSON document, for `--json`, and the requirements on them together."""
    runs = {"runs": [{**asdict(run), "state": run.state} for summary in summaries for run in summary.runs]}
    return dumps({**runs, "asked": list(asked)} if asked else runs)


def samples_path(folder: Path) -> Path:
    """The samples of a run's folder, compressed or not. Raises ResultsError if there are none."""
    for name in ("samples.jsonl", "samples.jsonl.gz"):
        if (folder / name).is_file():
            return folder / name
    raise ResultsError(f"{folder}: no samples.jsonl or samples.jsonl.gz; the run did not get as far as measuring")
