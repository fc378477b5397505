# SPDX-License-Identifier: Apache-2.0
"""Progress of a command: a bar on a terminal, a line for each update everywhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from weirlab.run.progress import duration

SHOWN = {
    "score": "without noise: reward {:.3f}",
    "reward": "reward {:.3f}",
    "share": "{:.2f} of the fair share",
    "rtt_mean_ms": "RTT {:.0f} ms",
    "loss_percent": "loss {:.1f} %",
    "kl": "KL {:.4f}",
}


class Told:
    """Counts episodes of all trainings of a command; `Training.run` calls it (its `Tell`)."""

    def __init__(self, bar: Progress, words: Console, total: int) -> None:
        self.bar, self.words, self.total = bar, words, total
        self.task = bar.add_task("", total=total, left="")
        self.began_at: float | None = None
        self.done = self.skipped = 0
        self.name, self.updates, self.episodes, self.before = "", 0, 1, 0

    def training(self, name: str, updates: int, done: int, episodes: int) -> None:
        """A training begins or goes on: `done` of its `updates` of so many `episodes`."""
        self.name, self.updates, self.episodes = name, updates, episodes
        self.before = self.done
        self.skipped += min(done, updates) * episodes
        self.__call__(done, 0, None, None)

    def __call__(self, updates: int, part: int, _rollout: Any, figures: dict[str, float] | None) -> None:
        name = f"{self.name}, " if self.name else ""
        left = self.reached(self.before + updates * self.episodes + part, f"{name}update {updates}/{self.updates}")
        if figures is not None:
            shown = ", ".join(words.format(figures[key]) for key, words in SHOWN.items() if key in figures)
            where = f"[{name}{updates}/{self.updates}{', ' + left if left else ''}]"
            self.words.print(f"  {where} {shown}", highlight=False, soft_wrap=True, markup=False)

    def reached(self, done: int, description: str) -> str:
        """So many of the episodes are done; in words, what is left."""
        self.done = done
        now = time.monotonic()
        if self.began_at is None:
            self.began_at = now
        ran = self.done - self.skipped
        left = f"{duration((now - self.began_at) / ran * (self.total - self.done))} left" if ran > 0 else ""
        self.bar.update(self.task, completed=self.done, left=left, description=description)
        return left


@contextmanager
def progress(episodes: int) -> Iterator[Told]:
    """`episodes` of all trainings, also of those done before."""
    words = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.fields[left]}"))
    with Progress(*columns, console=words, disable=not words.is_terminal) as bar:
        yield Told(bar, words, episodes)
