# SPDX-License-Identifier: Apache-2.0
"""Rollouts: lab runs of episodes with the weights of one step, here or on a Ray cluster. Results are the contents of
trajectory files, in the order of senders and connections."""

from __future__ import annotations

import json
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import weirtrain
from weirlab import paths
from weirlab.lab.kernels import LabError, stop_all, stopping
from weirlab.run.cluster import connected
from weirlab.run.keys import Keys
from weirlab.run.runner import RunError, run_driver
from weirlab.run.scenarios import load_scenario
from weirlab.run.sources import digest
from weirlab.scenario.model import Run
from weirlab.store.documents import write_json
from weirtrain.episodes import Episode
from weirtrain.scenario_file import SCENARIO, files

SOURCES = "train/weirtrain/*"
TRIES_ON_RAY = 3  # a node may die with its runs


@dataclass(frozen=True)
class Rollout:
    """Output of an episode: names and contents of its trajectory files, the seconds that it took, and the time in them
    at which the run began."""

    episode: Episode
    files: list[tuple[str, bytes]]
    wall_s: float
    start_us: int = 0


# Runs these episodes with these weights, and gives each rollout as it ends.
Runner = Callable[[Sequence[Episode], bytes], Iterator[Rollout]]


def prepare(folder: Path, episode: Episode, profile: str, weights: bytes, others: dict[str, Any] | None = None) -> Run:
    """Put into an empty folder what a lab run of the episode needs, and what `./run experiment` needs to repeat it."""
    for name, content in files(episode, profile, weights, others).items():
        (folder / name).write_bytes(content)
    run = load_scenario(folder / SCENARIO).runs()[0]
    write_json(folder / "spec.json", run.spec, sort_keys=False)
    return run


def parts_of(run: Run) -> dict[str, str]:
    """Digests of all that takes part in an episode beside its spec: the lab's kernel, sources, this package."""
    keys = Keys()
    facts = keys.facts(run.spec)
    return {"kernel": facts["kernel"], "trainer": digest([SOURCES]), **facts["sources"]}


def refuse_another_clone(wanted: Mapping[str, str], here: Mapping[str, str]) -> None:
    """Raises LabError naming what differs."""
    others = sorted(name for name in {**wanted, **here} if wanted.get(name) != here.get(name))
    if others:
        where = f"{socket.gethostname()} ({paths.clone()})"
        raise LabError(f"--ray: the clone on {where} is not as where this was started, in: {', '.join(others)}")


def run_episode(
    episode: Episode, profile: str, weights: bytes, kept: Path | None = None, parts: Mapping[str, str] | None = None
) -> Rollout:
    """Run one episode in a lab of this machine. The folder of one that failed is moved to `kept`. `parts`: what
    `parts_of` says of it where the training was started; where it says anything else here, nothing is run.

    Raises RunError or LabError."""
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="weir-train-"))
    try:
        run = prepare(folder, episode, profile, weights)
        if parts is not None:
            refuse_another_clone(parts, parts_of(run))
        try:
            run_driver(folder, run)
        except (RunError, LabError) as error:
            if kept is None or stopping():
                raise
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(folder, kept)
            raise type(error)(str(error).replace(str(folder), str(kept))) from None
        return Rollout(episode, trajectory_files(folder), time.monotonic() - began, start_us(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def trajectory_files(folder: Path) -> list[tuple[str, bytes]]:
    """Name and content of each trajectory of a finished run, by the number of the sender and then of the connection."""

    def place(path: Path) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", str(path.relative_to(folder)))]

    found = sorted(folder.glob("trajectories-s*/trajectory-*.jsonl"), key=place)
    return [(str(path.relative_to(folder)), path.read_bytes()) for path in found]


def start_us(folder: Path) -> int:
    """Start of a finished run on the clock of its trajectories."""
    with open(folder / "start.jsonl", "rb") as lines:
        return int(json.loads(next(lines))["t_us"])


def here(profile: str, jobs: int, kept: Path) -> Runner:
    """Labs of this machine, `jobs` at a time. An interrupt ends them."""

    def run(episodes: Sequence[Episode], weights: bytes) -> Iterator[Rollout]:
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            try:
                tasks = [pool.submit(run_episode, episode, profile, weights, kept) for episode in episodes]
                for task in as_completed(tasks):
                    yield task.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                stop_all()
                raise

    return run


def parts_here(episode: Episode, profile: str, weights: bytes) -> dict[str, str]:
    """`parts_of` an episode on this machine."""
    with tempfile.TemporaryDirectory(prefix="weir-train-") as folder:
        return parts_of(prepare(Path(folder), episode, profile, weights))


@contextmanager
def cluster(profile: str, address: str) -> Iterator[tuple[Runner, int]]:
    """Labs of a Ray cluster, and how many run at once there. Each machine has this clone at the same path, built;
    one whose clone is another is refused.

    Raises LabError."""
    import_path = f"{Path(weirtrain.__file__).parent.parent}:{paths.import_path()}"
    with connected(address, import_path) as ray:
        task = ray.remote(num_cpus=1, max_retries=TRIES_ON_RAY)(run_episode)

        def run(episodes: Sequence[Episode], weights: bytes) -> Iterator[Rollout]:
            flying = [
                task.remote(episode, profile, weights, None, parts_here(episode, profile, weights))
                for episode in episodes
            ]
            try:
                while flying:
                    ended, flying = ray.wait(flying, num_returns=1)
                    yield ray.get(ended[0])
            except LabError as error:
                raise LabError(str(getattr(error, "cause", error))) from None
            except ray.exceptions.RayError as error:
                said = str(getattr(error, "cause", None) or error).strip().splitlines()[-1]
                raise LabError(f"--ray: an episode was lost: {said}") from None
            finally:
                for reference in flying:
                    ray.cancel(reference, force=True)

        yield run, max(1, int(ray.cluster_resources().get("CPU", 1)))
