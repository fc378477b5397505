# SPDX-License-Identifier: Apache-2.0
"""Compares path strategies at one server: mean completion time of requests, and requests by path.

    python compare_strategies.py URL CA-FILE PATH PATH...

Part of each strategy's work is seen in its events, such as the reasons of `Fastest` below.
"""

# %% Settings
import collections
import statistics
import sys
import time

from weir_quic import Client, Error, Sample, Task

REQUESTS = 30


# %% A strategy: the path of the lowest median, each path first tried three times
class Fastest:
    def __init__(self) -> None:
        self.tct_ms: dict[str, list[float]] = collections.defaultdict(list)

    def choose(self, task: Task) -> tuple[str, str]:
        for path in task.usable:
            if len(self.tct_ms[path]) < 3:
                return path, "few samples"
        return min(task.usable, key=lambda path: statistics.median(self.tct_ms[path])), "lowest median"

    def finished(self, sample: Sample) -> None:
        self.tct_ms[sample.path].append(sample.tct_ms)

    def removed(self, path: str) -> None:
        self.tct_ms.pop(path, None)


# %% Requests
def measure(strategy: str | type[Fastest], url: str, ca: str, paths: list[str]) -> tuple[list[float], list[dict]]:
    """Completion times in ms, and events."""
    client = Client(paths, ca=ca, strategy=strategy, events=True)
    times = []
    with client.connect(url) as connection:
        for _ in range(REQUESTS):
            start = time.perf_counter()
            with connection.get(connection.url_path) as response:
                response.read()
            times.append((time.perf_counter() - start) * 1e3)
    return times, client.events().take()


# %% Table
def main() -> None:
    url, ca, *paths = sys.argv[1:]
    for strategy in ("weir", "polling", Fastest):
        times, events = measure(strategy, url, ca, paths)
        by_path = collections.Counter(event["path"] for event in events if event["k"] == "choice")
        reasons = {event["reason"] for event in events if event["k"] == "choice"}
        name = strategy if isinstance(strategy, str) else strategy.__name__
        print(f"{name}: {statistics.mean(times):.1f} ms, requests {dict(sorted(by_path.items()))}, {sorted(reasons)}")


if __name__ == "__main__":
    try:
        main()
    except (Error, ValueError) as error:
        sys.exit(f"compare_strategies.py: {error}; usage: compare_strategies.py URL CA-FILE PATH PATH...")
