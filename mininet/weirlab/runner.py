# SPDX-License-Identifier: Apache-2.0
"""Runs scenarios: each run in a lab of its own, several at once, samples gathered, figures computed."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from weirlab.lab import ExactLab, Job, LabResult, lab_path, stop_all
from weirlab.results import ResultsFolder, RunResult
from weirlab.scenario import Run

# Wall time allowed for one virtual second; ten QUIC flows at 10 Mbit/s need about half of one on two idle cores.
WALL_LIMIT_PER_VIRTUAL = 15.0
WALL_LIMIT_FLOOR_S = 120.0
VIRTUAL_MARGIN_S = 30.0
DRIVERS = {"dumbbell": "weirlab.drive", "access": "weirlab.drive_access"}


class RunError(Exception):
    """A run did not come to its end: which, and what its lab or its driver said."""


def flow_names(spec: dict) -> list[str]:
    """The name "GROUP.INDEX" of each flow, by the number that the driver gave it."""
    return [f"{group}.{index}" for group, flow in enumerate(spec["flows"]) for index in range(flow["count"])]


def gather_samples(folder: Path, spec: dict) -> None:
    """Put what the programs of a run wrote into one `samples.jsonl.gz` and remove the parts.

    The same parts give the same bytes: fixed order, no time in the gzip header.
    """
    dumbbell = spec["topology"] == "dumbbell"
    names = flow_names(spec) if dumbbell else []
    flows = sorted(folder.glob("flows-*.jsonl"))
    if dumbbell:
        decisions = sorted(folder.glob("decisions.jsonl"))
        parts = [folder / "start.jsonl", folder / "queue.jsonl", *flows, *sorted(folder.glob("short-*.jsonl"))]
        parts += [*decisions, folder / "sojourn.jsonl"]
    else:
        events = sorted(folder.glob("events-*.jsonl"))
        parts = [folder / "start.jsonl", folder / "truth.jsonl", *events, *flows]
    draft = folder / ".samples.jsonl.gz"
    with open(draft, "wb") as raw, gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as out:
        for part in parts:
            with open(part, "rb") as file:
                if not part.name.startswith("flows-"):
                    shutil.copyfileobj(file, out, 1 << 20)
                    continue
                for line in file:
                    sample = json.loads(line)
                    if sample["flow"] is None:
                        continue  # a server's connection that has not been asked for anything yet
                    sample["flow"] = names[int(sample["flow"])] if names else int(sample["flow"])
                    out.write(json.dumps(sample, separators=(",", ":")).encode() + b"\n")
    draft.rename(folder / "samples.jsonl.gz")
    for part in parts:
        if part.name != "decisions.jsonl":  # kept beside them as it is: what a reader looks for first
            part.unlink()


def bmv2_environment() -> dict[str, str]:
    """BMv2 and p4c are not ours: wherever they are on our PATH, there the lab finds them too."""
    found = (shutil.which(name) for name in ("simple_switch_grpc", "simple_switch_CLI", "p4c-bm2-ss", "p4c"))
    return {"PATH": lab_path(*dict.fromkeys(str(Path(path).parent) for path in found if path))}


def run_lab(folder: Path, run: Run) -> LabResult:
    """Run one run in an exact lab; its samples are then in `folder`, where its spec.json must be already.

    Raises RunError or LabError.
    """
    duration_s = run.spec["duration_s"]
    result = ExactLab().run(
        Job(
            command=["python", "-m", DRIVERS[run.spec["topology"]]],
            folder=folder,
            seed=run.seed,
            wall_limit_s=max(WALL_LIMIT_FLOOR_S, duration_s * WALL_LIMIT_PER_VIRTUAL),
            virtual_limit_s=duration_s + VIRTUAL_MARGIN_S,
            environment=bmv2_environment() if run.spec.get("aqm", {}).get("switch") == "bmv2" else {},
        )
    )
    if result.status != 0:
        said = (result.stderr or result.stdout).decode(errors="replace").strip().splitlines() or ["no word"]
        raise RunError(f"{run.variant}, seed {run.seed}: status {result.status}: {said[-1]}; see {folder}")
    gather_samples(folder, run.spec)
    return result


def run_one(results: ResultsFolder, run: Run) -> RunResult:
    """Run one run in an exact lab and compute its figures. Raises RunError, LabError or SamplesError."""
    run_lab(results.run_folder(run), run)
    return results.finish(run)


def run_all(results: ResultsFolder, runs: Sequence[Run], jobs: int, done: Callable[[Run, RunResult], None]) -> None:
    """Run `runs`, `jobs` at a time, calling `done` as each ends. The first error ends the rest and is raised.

    Threads, because each only waits for its lab; an interrupt reaches the main one, which ends the labs.
    """
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        futures = {pool.submit(run_one, results, run): run for run in runs}
        try:
            for future in as_completed(futures):
                done(futures[future], future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop_all()
            raise
