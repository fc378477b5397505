# SPDX-License-Identifier: Apache-2.0
"""One run for the cache, wherever it is done: the lab, then its figures in a process of their own.

`python -m weirlab.run.work FOLDER METRICS_KEY` computes the figures of a finished run. It is a process because
reading samples is work for a whole core, and because it must end with us however we end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from weirlab.metrics.samples import SamplesError
from weirlab.run.keys import Keys
from weirlab.run.runner import RunError, run_lab
from weirlab.scenario.model import Run
from weirlab.store.cache import Entry
from weirlab.store.documents import write_json
from weirlab.store.sealed import Damaged, digest_of
from weirlab.topologies.registry import topology_of

# Exit statuses of computing figures that are no fault of ours: the samples are damaged or lack something; the figures
# could not be written.
SAMPLES_STATUS, WRITING_STATUS = 3, 4


def measure(run: Run, folder: Path) -> dict[str, Any]:
    """Run one run, its samples then in `folder`; what is worth knowing of it beside its metrics.

    Raises RunError or LabError.
    """
    facts = Keys().facts(run.spec)
    write_json(folder / "spec.json", run.spec, sort_keys=False)
    result = run_lab(folder, run)
    if Keys().facts(run.spec) != facts:
        raise RunError(
            f"{run.variant}, seed {run.seed}: sources were changed while it ran; its result is void, run it again"
        )
    return {
        "scenario": run.scenario, "variant": run.variant, "seed": run.seed,
        "wall_s": round(result.wall_s, 2), "virtual_s": round(result.virtual_s, 3),
        **{key: facts[key] for key in ("kernel", "sources")},
    }  # fmt: skip


def compute_metrics(entry: Entry, spec: dict[str, Any], metrics_key: str) -> dict[str, Any]:
    """The figures of a finished run, computed in a process of its own and kept beside its samples.

    Raises SamplesError, RunError, OSError that names the file.
    """
    argv = ["/usr/bin/setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "weirlab.run.work"]
    # The spec by standard input: a cached run's own may differ in name and warm-up, of which the lab knows nothing.
    done = subprocess.run(
        [*argv, str(entry.folder), metrics_key], input=json.dumps(spec), capture_output=True, text=True, check=False,
        start_new_session=True,
    )  # fmt: skip
    if done.returncode == SAMPLES_STATUS:
        raise SamplesError(done.stderr.strip())
    if done.returncode == WRITING_STATUS:
        number, _, name = done.stderr.strip().partition(" ")
        raise OSError(int(number), os.strerror(int(number)), name)
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RunError(f"{entry.folder}: computing its figures ended with {done.returncode}: {said}")
    try:
        found = entry.metrics(metrics_key)
    except Damaged as error:
        raise RunError(f"{entry.folder}: changed while its figures were computed: {error}") from None
    if found is None:
        raise RunError(f"{entry.folder}: went away while its figures were computed")
    return found


def main(folder: str, metrics_key: str) -> int:
    spec, samples = json.load(sys.stdin), Path(folder) / "samples.jsonl.gz"
    try:
        entry = Entry(Path(folder), {}, {samples.name: digest_of(samples)})
        found = topology_of(spec["topology"]).compute(samples, spec)
    except (SamplesError, Damaged) as error:
        print(error, file=sys.stderr)
        return SAMPLES_STATUS
    try:
        entry.put_metrics(metrics_key, found)
    except OSError as error:
        print(error.errno, error.filename or folder, file=sys.stderr)
        return WRITING_STATUS
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
