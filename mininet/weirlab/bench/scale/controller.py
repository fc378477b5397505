# SPDX-License-Identifier: Apache-2.0
"""The controller with 1 to 1000 ports, by controller/bench/ports.py: CPU as shares of a core, and memory."""

from __future__ import annotations

import json
import sys
from typing import Any

from weirlab import paths
from weirlab.bench.scale.common import progress, told

PORTS = (1, 10, 100, 1000)
KINDS = ("bpf", "p4runtime")
COMMANDS = ("listen", "dry-run")


def rows(repetitions: int, seconds: int) -> list[dict[str, Any]]:
    found = []
    for kind in KINDS:
        for command in COMMANDS:
            for ports in PORTS:
                progress(f"controller: {ports} ports ({kind}), {command}")
                words = [sys.executable, str(paths.clone() / "controller" / "bench" / "ports.py"), "--json",
                         "--kind", kind, "--command", command, "--ports", str(ports), "--seconds", str(seconds),
                         "--repetitions", str(repetitions)]  # fmt: skip
                found.append(json.loads(told("ports.py", words)))
    return found


def show(found: list[dict[str, Any]]) -> None:
    print("\nthe controller: a sample of each port each half second; shares of a core, and memory")
    print(f"{'ports':>6}  {'kind':10}  {'command':8}  {'% of a core':>24}  {'MB':>7}  {'us a sample':>11}")
    for row in found:
        core = row["core_percent"]
        text = f"{core['median']:.2f} ({core['least']:.2f} to {core['most']:.2f})"
        memory = row["rss_mb"]["median"]
        print(f"{row['ports']:6}  {row['kind']:10}  {row['command']:8}  {text:>24}  {memory:7.1f}  "
              f"{row['us_a_sample']:11.1f}")  # fmt: skip
