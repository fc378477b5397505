# SPDX-License-Identifier: Apache-2.0
"""A series of runs, on this machine or as tasks on a Ray cluster.

Each machine of the cluster has this clone at the same path, built (`./run lab -- true` does it), and Ray's version. A
task runs its lab on the machine it is on, checks that the sources there are ours, computes the figures, and gives back
what belongs into the cache as bytes; no file system need be shared.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weirlab import paths
from weirlab.lab.kernels import LAB_KERNEL, LAB_KERNEL_SOURCE, LabError
from weirlab.metrics.samples import SamplesError
from weirlab.run.costs import Costs
from weirlab.run.disk import FULL, no_room
from weirlab.run.keys import Keys, keeping_of
from weirlab.run.runner import RunError
from weirlab.run.running import Ending, follow, run_locally
from weirlab.run.series import Series
from weirlab.run.work import measure
from weirlab.scenario.model import Run
from weirlab.store.cache import seal
from weirlab.topologies.registry import topology_of

IN_FLIGHT_PER_CORE = 2  # tasks handed to the cluster ahead of time, so that none of its cores waits for us
ANSWER_LIMIT_S = 5
REFUSED = "--ray {}: {}; start one with `ray start --head`, or give 'local'"


def remote_run(run: Run, key: str) -> tuple[dict[str, bytes], dict[str, Any], dict[str, Any]]:
    """Work of a machine of the cluster: the files to keep, the facts of the run, its figures.

    Raises RunError, LabError or SamplesError.
    """
    there = Keys().run(run.spec)
    if there != key:
        raise RunError(
            f"the clone on this machine ({paths.clone()}) or its lab kernel is not the same as where this was started"
        )
    with tempfile.TemporaryDirectory(prefix="weir-run-") as folder:
        facts = measure(run, Path(folder))
        found = topology_of(run.spec["topology"]).compute(Path(folder) / "samples.jsonl.gz", run.spec)
        names = keeping_of(run.spec).kept.names(Path(folder))
        files = {name: (Path(folder) / name).read_bytes() for name in names}
    return files, facts, found


class Machines:
    """A cluster that we are connected to."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self.jobs = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.task = ray.remote(num_cpus=1, max_retries=1)(remote_run)

    def run(self, series: Series, missing: Sequence[Run]) -> Ending:
        """Run these; each with its figures or its error as it ends, and its seconds."""
        waiting = list(reversed(missing))
        flying: dict[Any, Run] = {}
        try:
            while waiting or flying:
                while waiting and len(flying) < self.jobs * IN_FLIGHT_PER_CORE:
                    run = waiting.pop()
                    flying[self.task.remote(run, series.keys.run(run.spec))] = run
                ended, _ = self.ray.wait(list(flying), num_returns=1)
                run = flying.pop(ended[0])
                yield run, *self.taken(series, run, ended[0])
        finally:
            for reference in flying:
                self.ray.cancel(reference, force=True)

    def taken(self, series: Series, run: Run, reference: Any) -> tuple[dict | Exception, float]:
        try:
            files, facts, found = self.ray.get(reference)
        except (RunError, LabError, SamplesError, OSError) as error:
            return RunError(str(getattr(error, "cause", error))), 0.0
        except self.ray.exceptions.RayError as error:
            return RunError(f"Ray lost it: {str(error).strip().splitlines()[-1]}"), 0.0
        try:
            with series.cache.draft() as draft:
                for name, content in files.items():
                    (draft / name).parent.mkdir(parents=True, exist_ok=True)
                    (draft / name).write_bytes(content)
                entry = seal(draft, series.keys.run(run.spec), facts, keeping_of(run.spec).kept)
                entry.put_metrics(series.keys.metrics(run.spec), found)
                series.keep(run, entry)
        except OSError as error:
            if error.errno in FULL:
                raise no_room(series.cache.folder, sum(map(len, files.values()))) from None
            raise
        return found, facts["wall_s"]


def run_all(
    series: Series, missing: Sequence[Run], costs: Costs, jobs: int, ray: str | None, heading: Callable[[int], str]
) -> None:
    """Run these, telling how far it is: `jobs` at a time on this machine, or as many as a Ray cluster has cores, if
    `ray` is its address. `heading` says what is done, with so many at a time. Raises LabError without such a cluster.
    """
    if ray is None:
        follow(series, missing, costs, jobs, run_locally(series, missing, jobs), heading(jobs))
        return
    with cluster(ray) as machines:
        follow(series, missing, costs, machines.jobs, machines.run(series, missing), heading(machines.jobs))


@contextmanager
def cluster(address: str) -> Iterator[Machines]:
    """Connect to a cluster, and let go of it at the end. Raises LabError saying why it can't be done."""
    with connected(address, paths.import_path()) as ray:
        yield Machines(ray)


@contextmanager
def connected(address: str, import_path: str) -> Iterator[Any]:
    """Ray, connected to a cluster whose machines find our modules by that PYTHONPATH. Raises LabError."""
    try:
        import ray
    except ImportError:
        pip = Path(sys.prefix) / "bin" / "pip"
        raise LabError(
            f"--ray: Ray is not installed here; `{pip} install ray==2.60.0` puts it into this clone"
        ) from None
    variables = {"PYTHONPATH": import_path, "PYTHONDONTWRITEBYTECODE": "1"}
    variables |= {name: os.environ[name] for name in (LAB_KERNEL, LAB_KERNEL_SOURCE) if name in os.environ}
    try:
        if ":" in address:  # Ray itself tries an address where nobody listens for many minutes
            host, _, port = address.removeprefix("ray://").rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_LIMIT_S).close()
        ray.init(
            None if address == "local" else address, runtime_env={"env_vars": variables}, log_to_driver=False,
            logging_level="ERROR", include_dashboard=False if address == "local" else None,
        )  # fmt: skip
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise LabError(REFUSED.format(address, str(error).strip().splitlines()[0])) from None
    try:
        yield ray
    finally:
        ray.shutdown()
