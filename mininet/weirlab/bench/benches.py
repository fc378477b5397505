# SPDX-License-Identifier: Apache-2.0
"""`./run bench`: speed and cost, each beside a peer or a repetition in the same run. Prints, asserts nothing."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from weirlab import paths
from weirlab.run.runner import run_all, run_one
from weirlab.run.scenarios import load_scenario
from weirlab.store.folder import ResultsFolder, samples_path, summarise

# Peers of `tuned`, and its required ratio to kernel pie (1).
AIMS = {"queue_delay_sd_ms": ("<=", 0.65), "queue_delay_excess_ms": ("<=", 0.55), "goodput_total_mbit_s": (">=", 0.99)}
LOADS = ("pid-delay-table2", "load-tcp50", "load-udp15")


def bench_lab(as_json: bool) -> int:
    """Wall time of the dumbbell with ten QUIC flows, and whether a seed repeats it to the byte."""
    scenario = load_scenario(paths.scenarios() / "pid-delay-table2.toml")
    rows = []
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
        for place in ("first", "again"):
            for run in scenario.runs(only="tuned", seeds=[1]):
                results = ResultsFolder.create(Path(folder) / place, scenario, ["bench"], [run])
                began = time.monotonic()
                run_one(results, run)
                wall_s = time.monotonic() - began
                here = results.run_path(run.variant, run.seed)
                digests = {
                    path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16]
                    for path in (here / "summary.json", samples_path(here))
                }
                rows.append({"virtual_s": run.spec["duration_s"], "wall_s": round(wall_s, 1), **digests})
    first, again = rows
    same = all(first[name] == again[name] for name in first if name.endswith((".json", ".gz")))
    found = {"bench": "lab", "runs": rows, "virtual_over_wall": first["virtual_s"] / first["wall_s"], "identical": same}
    if as_json:
        print(json.dumps(found))
    else:
        for row in rows:
            print(f"lab: {row['virtual_s']:g} virtual s of ten QUIC flows in {row['wall_s']:.1f} s (aim: 30 or less)")
        print(f"lab: seed 1 twice: {'identical' if same else 'DIFFERENT'} samples and summary")
    return 0 if same else 1


def bench_law(as_json: bool) -> int:
    """`tuned` against kernel pie at the same target: ratios, seed by seed."""
    found: dict[str, Any] = {"bench": "law", "scenarios": {}}
    for name in LOADS:
        scenario = load_scenario(paths.scenarios() / f"{name}.toml")
        runs = scenario.runs(only=["pie", "tuned"])
        with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
            results = ResultsFolder.create(folder, scenario, ["bench"], runs)
            run_all(
                results,
                runs,
                2,
                lambda run, _result: print(f"law: {run.scenario} {run.variant} {run.seed}", file=sys.stderr),
            )
            by_run = {(run.variant, run.seed): run.metrics for run in summarise(results).runs}
        ratios = {}
        for metric, (sense, aim) in AIMS.items():
            each = [by_run["tuned", seed][metric] / by_run["pie", seed][metric] for seed in scenario.seeds]
            ratios[metric] = {
                "mean": sum(each) / len(each),
                "least": min(each),
                "most": max(each),
                "aim": f"{sense} {aim}",
            }
        found["scenarios"][name] = ratios
        if not as_json:
            for metric, ratio in ratios.items():
                print(
                    f"law: {name}: tuned / pie, {metric}: {ratio['mean']:.3f} ({ratio['least']:.3f} to "
                    f"{ratio['most']:.3f} over {len(scenario.seeds)} seeds; aim {ratio['aim']})"
                )
    if as_json:
        print(json.dumps(found))
    return 0


def bench_xdp(as_json: bool, own: Sequence[str] = ()) -> int:
    """Cost per packet of the eBPF programs on the host kernel, beside an empty program's."""
    argv = [
        sys.executable,
        str(paths.clone() / "xdp" / "bench" / "bench_xdp.py"),
        "--busy",
        *(["--json"] if as_json else []),
        *own,
    ]
    return subprocess.run(argv, check=False).returncode


def bench_switch(as_json: bool) -> int:
    """Packets/s of the embedded P4 switch on the host kernel, beside BMv2 where that is: a router, and PID-Delay."""
    folder = paths.clone() / "p4" / "switch" / "bench"
    argv = [sys.executable, str(folder / "switch_bench.py"), "--busy", *(["--json"] if as_json else [])]
    program, config = paths.clone() / "p4" / "pid_delay.p4", folder / "pid_delay.toml"
    pid_delay: list[str] = ["--program", str(program), "--config", str(config)]
    calls: list[list[str]] = [[], pid_delay]
    return max(subprocess.run([*argv, *words], check=False).returncode for words in calls)


def bench_quic(as_json: bool, own: Sequence[str] = ()) -> int:
    """A download over loopback, and the memory of idle connections, beside quiche's examples, quinn and TCP."""
    argv = [sys.executable, "-m", "weirlab.bench.quic", *(["--json"] if as_json else []), *own]
    return subprocess.run(argv, check=False).returncode


def bench_servers(as_json: bool, own: Sequence[str] = ()) -> int:
    """Completion times over three paths from servers of other projects, over those on the best path alone."""
    argv = [sys.executable, "-m", "weirlab.bench.servers", *(["--json"] if as_json else []), *own]
    with subprocess.Popen(argv) as bench:
        try:
            return bench.wait()
        except KeyboardInterrupt:
            return bench.wait()  # it was interrupted too, and ends its labs


def bench_proxy(as_json: bool, own: Sequence[str] = ()) -> int:
    """Goodput of curl through the local proxy and a relay, over that of weir-client."""
    argv = [sys.executable, "-m", "weirlab.bench.proxy", *(["--json"] if as_json else []), *own]
    return subprocess.run(argv, check=False).returncode


def bench_names(as_json: bool, own: Sequence[str] = ()) -> int:
    """Throughput and latency of the converters of `weir-icn`, beside UDP on the same link."""
    argv = [sys.executable, "-m", "weirlab.bench.names", *(["--json"] if as_json else []), *own]
    return subprocess.run(argv, check=False).returncode


def bench_scale(as_json: bool, own: Sequence[str] = ()) -> int:
    """Cost of a controller, a switch, a publisher, a cache and an edge server with few and many ports, flows, names and
    receivers; and the load of a tree of switches from these."""
    argv = [sys.executable, "-m", "weirlab.bench.scale", *(["--json"] if as_json else []), *own]
    return subprocess.run(argv, check=False).returncode


def bench_hostile(as_json: bool, own: Sequence[str] = ()) -> int:
    """Throughput of weir-switch and weir-server under attacks, over that without, and their memory."""
    argv = [sys.executable, "-m", "weirlab.bench.hostile", *(["--json"] if as_json else []), *own]
    with subprocess.Popen(argv) as bench:
        try:
            return bench.wait()
        except KeyboardInterrupt:
            return bench.wait()  # it was told too, and ends what it started


BENCHES: dict[str, Callable[..., int]] = {
    "xdp": bench_xdp,
    "lab": bench_lab,
    "law": bench_law,
    "switch": bench_switch,
    "quic": bench_quic,
    "servers": bench_servers,
    "proxy": bench_proxy,
    "names": bench_names,
    "scale": bench_scale,
    "hostile": bench_hostile,
}
OWN_OPTIONS = ("xdp", "quic", "servers", "proxy", "names", "scale", "hostile")
"""Benchmarks that take options, as a second argument."""
