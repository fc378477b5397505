# SPDX-License-Identifier: Apache-2.0
"""Where results are kept: a folder for each invocation, never overwritten, readable while it is still being filled.

    STAMP-SCENARIO-XXXXXXXX/
      meta.json                     command line, versions, host, seeds, the runs that were planned
      scenario.toml                 the scenario file as it was
      summary.json                  every run's metrics and their statistics over seeds
      runs/VARIANT/seed-N/
        spec.json                   what the lab was told
        samples.jsonl[.gz]          what it measured (weirlab.metrics, metrics_access say how to read it)
        stdout, stderr
        summary.json                the metrics

Summaries hold nothing of the clock and no path, so the same samples give the same bytes.
"""

import json
import os
import platform
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

from weirlab import atomic, metrics, metrics_access
from weirlab.metrics import Estimate, estimate
from weirlab.scenario import Run, Scenario

# What a report needs of the scenario, kept so that old results stay readable when the schema moves on.
SCENARIO_FACTS = ("name", "title", "description", "duration_s", "warmup_s", "reference_target_ms", "paper")
# What turns a run's samples into figures, by topology.
FIGURES: dict[str, ModuleType] = {"dumbbell": metrics, "access": metrics_access}
REPOSITORY = Path(__file__).resolve().parents[2]


class ResultsError(Exception):
    """A results folder that can't be used as asked; the message names the file and what would be right."""


@dataclass(frozen=True)
class RunResult:
    """One finished run: flat metrics by name, and the checks it failed."""

    scenario: str
    variant: str
    seed: int
    metrics: dict[str, Any]
    failures: tuple[str, ...]


@dataclass(frozen=True)
class Summary:
    """What a folder holds: finished runs, statistics over seeds by variant and metric, planned runs not there."""

    runs: tuple[RunResult, ...]
    variants: dict[str, dict[str, Estimate]]
    missing: tuple[tuple[str, int], ...]

    @property
    def failures(self) -> list[str]:
        """One line for each check that a run failed."""
        return [f"{run.variant}, seed {run.seed}: {line}" for run in self.runs for line in run.failures]


@dataclass(frozen=True)
class ResultsFolder:
    """A results folder on disk."""

    path: Path

    @classmethod
    def create(cls, root: str | Path, scenario: Scenario, argv: Sequence[str], runs: Sequence[Run] | None = None):
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
                    "topology": next(iter(scenario.cases.values()))["topology"],
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
    def topology(self) -> str:
        """Which topology its runs have; a folder from before there was a second one doesn't say."""
        return self.meta["scenario"].get("topology", "dumbbell")

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

    def finish(self, run: Run) -> RunResult:
        """Compute a run's metrics from its samples and keep them. Raises SamplesError for unusable samples."""
        folder = self.run_path(run.variant, run.seed)
        figures = FIGURES[run.spec["topology"]]
        found = figures.compute(samples_path(folder), run.spec)
        result = RunResult(run.scenario, run.variant, run.seed, found, tuple(figures.failures(found)))
        write_json(folder / "summary.json", asdict(result))
        return result

    def finished(self, variant: str, seed: int) -> bool:
        """Whether that run has its metrics, so that an interrupted series can go on where it was."""
        return (self.run_path(variant, seed) / "summary.json").is_file()


def summarise(folder: ResultsFolder) -> Summary:
    """Gather the finished runs of a folder, write its summary.json, and say which planned runs are missing."""
    runs, missing = [], []
    for variant, seed in folder.meta["runs"]:
        if folder.finished(variant, seed):
            kept = read_json(folder.run_path(variant, seed) / "summary.json")
            runs.append(RunResult(**{**kept, "failures": tuple(kept["failures"])}))
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


def runs_json(*summaries: Summary) -> str:
    """The runs of all these as one JSON document, for `--json`."""
    return dumps({"runs": [asdict(run) for summary in summaries for run in summary.runs]})


def samples_path(folder: Path) -> Path:
    """The samples of a run's folder, compressed or not. Raises ResultsError if there are none."""
    for name in ("samples.jsonl", "samples.jsonl.gz"):
        if (folder / name).is_file():
            return folder / name
    raise ResultsError(f"{folder}: no samples.jsonl or samples.jsonl.gz; the run did not get as far as measuring")


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
        raise ResultsError(f"{path}: missing; give a folder that a run of ours made") from None
    except ValueError as error:
        raise ResultsError(f"{path}: damaged ({error}); remove the run's folder and repeat it") from None


def versions() -> dict[str, str]:
    """Versions of what a result can depend on; the runner adds the lab kernel's."""
    found = {"python": platform.python_version(), "host kernel": platform.release()}
    for package in ("numpy", "matplotlib", "mininet"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    lock = REPOSITORY / "quic-client" / "Cargo.lock"
    quiche = re.search(r'name = "quiche"\nversion = "([^"]+)"', lock.read_text("utf-8")) if lock.is_file() else None
    found["quiche"] = quiche[1] if quiche else "unknown"
    found["weir"] = _git_commit()
    return found


def host_facts() -> dict[str, Any]:
    """What of the host matters to wall time; figures from the exact lab don't depend on it."""
    cpu = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text("utf-8"), re.MULTILINE)
    return {
        "cpu": cpu[1] if cpu else "unknown",
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": int(memory[1]) // 1024 if memory else 0,
    }


def _git_commit() -> str:
    """The commit the code is at, with "+changes" if tracked files differ from it."""
    try:
        commit = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+changes"],
            cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=30,
        )  # fmt: skip
    except FileNotFoundError:
        return "unknown (no git)"
    return commit.stdout.strip() if commit.returncode == 0 else "unknown (not a git checkout)"
