#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Markdown table of means over seeds, from the output of `./run experiment NAME --json`.

./run experiment router-both-ways --json > runs.json
python3 mininet/tools/means.py runs.json goodput_total_mbit_s ping_delay_p99_ms
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean

DIGITS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("metric", nargs="+")
    arguments = parser.parse_args()
    found: dict[tuple[str, str], list[dict]] = defaultdict(list)
    for run in json.loads(arguments.runs.read_text(encoding="utf-8"))["runs"]:
        found[run["scenario"], run["variant"]].append(run["metrics"])
    print("| scenario | variant | seeds |", " | ".join(arguments.metric), "|")
    print("|" + "---|" * (3 + len(arguments.metric)))
    for (scenario, variant), runs in found.items():
        known = [[run[name] for run in runs if run.get(name) is not None] for name in arguments.metric]
        means = [f"{fmean(values):.{DIGITS}g}" if values else "-" for values in known]
        print(f"| {scenario} | {variant} | {len(runs)} |", " | ".join(means), "|")


if __name__ == "__main__":
    main()
