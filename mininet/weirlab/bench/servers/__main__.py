# SPDX-License-Identifier: Apache-2.0
"""`./run bench servers`: weir-client over three paths against servers of others, beside the best of the paths alone.

Each server of the table `mininet/peers/servers.toml` has a lab of its own in virtual time, so that the figures are of
the protocols, not of this machine. Asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from weirlab import paths
from weirlab.bench import machine
from weirlab.bench.servers import figures, page
from weirlab.lab.kernels import Job, Lab, LabError, lab_path, open_lab, stop_all
from weirlab.lab.programs import QUIC_PORT
from weirlab.lab.quic_servers import Server, ServersError, certificate, chosen, read, table
from weirlab.topologies.access.network import Access

PATHS = tuple(
    {"name": name, "rate_mbit_s": 50, "rtt_ms": rtt_ms, "queue_limit_packets": 1000}
    for name, rtt_ms in (("wan1", 40), ("wan2", 20), ("wan3", 80))
)
"""The first path is not the best one."""
WALL_LIMIT_S = 1800
INTERVALS_MS = {5000: 200, 1_000_000: 2000}
"""Time between two requests of a size: longer than a request takes, so that none waits for another."""


def loads(server: Server, requests: int, large: int) -> list[dict[str, Any]]:
    """Loads of a run: `requests` of 5 kB, `large` of 1 MB."""
    counts = zip(INTERVALS_MS.items(), (requests, large), strict=True)
    return [
        {"bytes": size, "requests": count, "interval_ms": interval_ms, "path": server.url_path(size)}
        for (size, interval_ms), count in counts
        if count
    ]


def spec(server: Server, options: argparse.Namespace) -> dict[str, Any]:
    """The run of a server, in the lab's places."""
    here = "/run/out"
    command = server.command("0.0.0.0", QUIC_PORT, f"{here}/cert.pem", f"{here}/key.pem", f"{here}/root", here)
    return {
        "scenario": "servers",
        "variant": server.name,
        "seed": options.seed,
        "paths": list(PATHS),
        "alpn": server.alpn,
        "server": command,
        "loads": loads(server, options.requests, options.large),
    }


def measure(lab: Lab, server: Server, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Figures of a server; `error` in place of them if it did not run."""
    folder.mkdir(parents=True)
    certificate(folder, Access.SERVER, "localhost")
    run = spec(server, options)
    (folder / "spec.json").write_text(json.dumps(run, indent=1))
    command = [str(paths.build() / "venv" / "bin" / "python"), "-m", "weirlab.bench.servers.drive"]
    environment = {"PATH": lab_path()}
    if libraries := os.environ.get("LD_LIBRARY_PATH"):
        environment["LD_LIBRARY_PATH"] = libraries
    row: dict[str, Any] = {"server": server.name, "version": server.read_version(), "alpn": server.alpn,
                           "note": server.note}  # fmt: skip
    job = Job(command, folder, seed=options.seed, wall_limit_s=WALL_LIMIT_S, virtual_limit_s=7200,
              environment=environment)  # fmt: skip
    try:
        result = lab.run(job)
    except LabError as error:
        return {**row, "error": str(error)}
    if result.status:
        return {**row, "error": result.stderr.decode(errors="replace").strip()[-500:]}
    return {**row, **figures.server(folder, run)}


def measure_all(servers: list[Server], options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Rows in the servers' order."""
    lab = open_lab("exact")
    rows: dict[str, dict[str, Any]] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        futures = {}
        for number, server in enumerate(servers):
            futures[pool.submit(measure, lab, server, options, folder / f"{number:02d}")] = server
        try:
            for done in as_completed(futures):
                server = futures[done]
                rows[server.name] = done.result()
                said = rows[server.name].get("error") or page.short(rows[server.name])
                print(f"servers: {len(rows)} of {len(servers)}: {server.name}: {said}", file=sys.stderr)
        except KeyboardInterrupt:
            stop_all()
            pool.shutdown(cancel_futures=True)
            raise
    return [rows[server.name] for server in servers]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_servers", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="servers of the table (default all)")
    parser.add_argument("--table", type=Path, default=table(), help="another table of servers")
    parser.add_argument("--requests", type=int, default=1000, help="requests of 5 kB (default 1000)")
    parser.add_argument("--large", type=int, default=100, help="requests of 1 MB (default 100)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="labs at once")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the runs' files in a new folder")
    parser.add_argument("--page", type=Path, metavar="FOLDER", help="write report.md and servers.json there")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if min(options.requests, options.large) < 0 or options.requests + options.large < 1 or options.jobs < 1:
        parser.error("--requests and --large must be 0 or more, one of them and --jobs 1 or more")
    if options.keep is not None and options.keep.exists():
        parser.error(f"--keep {options.keep}: there already; write a new folder")
    return options


def interrupted(*_: object) -> None:
    """SIGTERM ends the labs as Ctrl-C does."""
    raise KeyboardInterrupt


def main() -> int:
    """0 if the servers that are here were measured, with whatever figures."""
    options = parsed()
    facts = machine.facts(machine.busy_share())
    signal.signal(signal.SIGTERM, interrupted)
    try:
        servers = chosen(read(options.table), options.only)
        skipped = [reason for server in servers if (reason := server.missing())]
        for reason in skipped:
            print(f"servers: SKIP {reason}", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="servers-", dir=paths.build()) as name:
            rows = measure_all([server for server in servers if not server.missing()], options, Path(name) / "runs")
            if options.keep is not None:
                shutil.move(Path(name) / "runs", options.keep)
    except (ServersError, LabError, OSError) as error:
        print(f"bench servers: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    found = {"bench": "servers", "machine": facts, "paths": list(PATHS), "seed": options.seed,
             "servers": rows, "skipped": skipped}  # fmt: skip
    if options.page is not None:
        options.page.mkdir(parents=True, exist_ok=True)
        (options.page / "servers.json").write_text(json.dumps(found, indent=1) + "\n")
        (options.page / "report.md").write_text(page.page(found))
    print(json.dumps(found) if options.json else "\n".join(page.tables(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
