# SPDX-License-Identifier: Apache-2.0
"""One run of an evaluation, wherever it is done: the lab, then its figures in a process of their own.

`python -m weirlab.evaluate_work FOLDER METRICS_KEY` computes the figures of a finished run. It is a process because
reading samples is work for a whole core, and because it must end with us however we end.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from weirlab import metrics
from weirlab.evaluate_cache import Entry
from weirlab.evaluate_keys import Keys
from weirlab.metrics import SamplesError
from weirlab.results import write_json
from weirlab.runner import RunError, run_lab
from weirlab.scenario import Run

SAMPLES_STATUS = 3  # the samples are damaged or lack something; nothing is wrong with us


def measure(run: Run, folder: Path) -> dict[str, Any]:
    """Run one run, its samples then in `folder`; what is worth knowing of it beside its metrics.

    Raises RunError or LabError.
    """
    facts = Keys().facts(run.spec)
    write_json(folder / "spec.json", run.spec, sort_keys=False)
    result = run_lab(folder, run)
    if Keys().facts(run.spec) != facts:
        raise RunError(
            f"{run.variant}, seed {run.seed}: sources were changed while it ran; it is of no use, run it again"
        )
    return {
        "scenario": run.scenario, "variant": run.variant, "seed": run.seed,
        "wall_s": round(result.wall_s, 2), "virtual_s": round(result.virtual_s, 3),
        **{key: facts[key] for key in ("kernel", "sources")},
    }  # fmt: skip


def compute_metrics(entry: Entry, spec: dict[str, Any], metrics_key: str) -> dict[str, Any]:
    """The figures of a finished run, computed in a process of its own and kept beside its samples.

    Raises SamplesError.
    """
    argv = ["/usr/bin/setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "weirlab.evaluate_work"]
    # The spec by standard input: a cached run's own may differ in name and warm-up, of which the lab knows nothing.
    done = subprocess.run(
        [*argv, str(entry.folder), metrics_key], input=json.dumps(spec), capture_output=True, text=True, check=False,
        start_new_session=True,
    )  # fmt: skip
    if done.returncode == SAMPLES_STATUS:
        raise SamplesError(done.stderr.strip())
    found = entry.metrics(metrics_key)
    if done.returncode != 0 or found is None:
        raise RuntimeError(f"{entry.folder}: computing its figures ended with {done.returncode}: {done.stderr.strip()}")
    return found


def main(folder: str, metrics_key: str) -> int:
    entry, spec = Entry(Path(folder)), json.load(sys.stdin)
    try:
        found = metrics.compute(entry.samples, spec)
    except SamplesError as error:
        print(error, file=sys.stderr)
        return SAMPLES_STATUS
    entry.put_metrics(metrics_key, found)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
