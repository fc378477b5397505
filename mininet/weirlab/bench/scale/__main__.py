# SPDX-License-Identifier: Apache-2.0
"""Cost of one controller, one switch, one publisher, one cache and one edge server, with few and with many clients:
processor time, as medians with least and most, so that a busy machine changes it little, and resident memory. From
these costs, the load of a tree of switches for 1 to 1,000 receivers. Prints, asserts nothing.

Needs root. Hosts and ports are network namespaces and interfaces of this command's own. All parts together take half an
hour.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from weirlab.bench import tree
from weirlab.bench.names import BenchError, ip
from weirlab.bench.scale import controller, names, switch
from weirlab.bench.scale.common import anchor, progress

PARTS = ("controller", "switch", "interfaces", "names", "members")
NUMBERS = (1, 10, 100, 1000)
USUAL = {"entries": 512, "askers": 4}
"""In-process rows that a tree is computed with; of the routed ones, that with these."""
ROUTED = {"ports": 10, "destinations": 10_000}
MEMBERS = 100


def in_process_us(rows: list[dict[str, Any]], **wanted: Any) -> float:
    for row in rows:
        if all(row.get(key) == value for key, value in wanted.items()):
            return row["median_ns"] / 1e3
    raise BenchError(f"nothing was measured with {wanted}")


def costs(found: dict[str, Any]) -> tree.Costs:
    """Costs for the computation of a tree. Raises BenchError when a part is missing."""
    missing = [part for part in ("switch", "names", "members") if part not in found]
    if missing:
        raise BenchError(f"no figures of {', '.join(missing)}: a tree needs the parts switch, names and members")
    rows = found["switch"]
    chain = {
        name: value["median"] if isinstance(value, dict) else value for name, value in found["names"]["costs"].items()
    }
    interest_us = in_process_us(rows, what="Interest forwarded", **USUAL)
    data_us = in_process_us(rows, what="Data to 1 port", **USUAL)
    copy_us = (in_process_us(rows, what="Data to 16 ports", askers=16) - data_us) / 15
    # The file went through the cache, which did not have it: of each segment two Interests came and went, and one Data
    # came and went to two ports. In all 3 frames came and 4 went.
    io_us = (4 * chain["switch_names_us"] - 2 * interest_us - data_us - copy_us) / 3.5

    def member_us(where: str, of: str) -> float:
        row = next(row for row in found["members"] if row["where"] == where and row["members"] == MEMBERS)
        return row[f"{of} us"]["median"]

    return tree.Costs(
        publisher_data_us=chain["publisher_data_us"],
        publisher_member_us=member_us("publisher", "publisher"),
        publisher_behind_edge_us=member_us("edge server", "publisher"),
        edge_member_us=member_us("edge server", "edge server"),
        cache_miss_us=chain["cache_miss_us"],
        cache_hit_us=chain["cache_hit_us_1"],
        receiver_data_us=chain["receiver_data_us"],
        switch_interest_us=interest_us,
        switch_merged_us=in_process_us(rows, what="Interest merged", **USUAL),
        switch_data_us=data_us,
        switch_copy_us=copy_us,
        switch_ip_us=in_process_us(rows, **ROUTED),
        switch_io_us=max(0.0, io_us),
        sender_packet_us=chain["sender_packet_us"],
        client_packet_us=chain["client_packet_us"],
        quic_payload_bytes=chain["quic_payload_bytes"],
        quic_acks=chain["quic_acks"],
    )


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """The parts that were asked for."""
    ip("link", "set", "lo", "up")
    progress("how fast this machine is")
    times = options.repetitions
    found: dict[str, Any] = {"bench": "scale", "repetitions": times, "anchor_ms": [anchor(times)]}
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as name:
        folder = Path(name)
        if "controller" in options.only:
            found["controller"] = controller.rows(times, options.seconds)
        if "switch" in options.only:
            found["switch"] = switch.in_process()
        if "names" in options.only:
            found["names"] = names.chain(times, folder)
        if "members" in options.only:
            found["members"] = names.members(times, folder)
        if "interfaces" in options.only:
            found["interfaces"] = switch.interfaces(times, folder)
    found["anchor_ms"].append(anchor(times))
    return found


def read(path: Path) -> dict[str, Any]:
    """Results that `--json` printed earlier. Raises BenchError."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BenchError(f"{path}: {error}; must be what --json printed") from None
    if not isinstance(found, dict) or found.get("bench") != "scale":
        raise BenchError(f"{path}: is not of this bench; must be what --json printed")
    return found


def show(found: dict[str, Any]) -> None:
    for when, took in zip(("before", "after"), found["anchor_ms"], strict=True):
        print(f"SHA-256 of 64 MiB {when}: {took['median']:.0f} ms of processor time "
              f"({took['least']:.0f} to {took['most']:.0f})")  # fmt: skip
    if "controller" in found:
        controller.show(found["controller"])
    if "switch" in found:
        switch.show_in_process(found["switch"])
    if "interfaces" in found:
        switch.show_interfaces(found["interfaces"])
    if "names" in found:
        names.show_chain(found["names"])
    if "members" in found:
        names.show_members(found["members"])


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./run bench scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART",
                        help=f"parts to measure, of {', '.join(PARTS)} (default: all)")  # fmt: skip
    parser.add_argument("--repetitions", type=int, default=5, help="of each measurement (default %(default)s)")
    parser.add_argument("--seconds", type=int, default=10, help="of each of the controller's (default %(default)s)")
    parser.add_argument(
        "--from",
        dest="earlier",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="measure nothing: show what --json printed earlier, and the trees that follow",
    )
    parser.add_argument("--json", action="store_true")
    of_tree = parser.add_argument_group("the tree")
    of_tree.add_argument("--receivers", type=int, nargs="+", default=NUMBERS, help="(default 1 10 100 1000)")
    of_tree.add_argument("--fan-out", type=int, default=10, help="of each switch (default %(default)s)")
    of_tree.add_argument("--depth", type=int, default=3, help="levels of switches (default %(default)s)")
    of_tree.add_argument("--rate-mbit-s", type=float, default=10.0, help="at each receiver (default %(default)s)")
    of_tree.add_argument("--file-mb", type=float, default=100.0, help="size of the file (default %(default)s)")
    of_tree.add_argument(
        "--late",
        type=float,
        default=0.0,
        help="part of the Interests that come too late to be merged, 0 to 1 (default %(default)s)",
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser


def main() -> int:
    parser = arguments()
    options = parser.parse_args()
    if options.repetitions < 1 or options.seconds < 1:
        parser.error("--repetitions and --seconds must be 1 or more")
    try:
        trees = [
            tree.Tree(
                receivers, options.fan_out, options.depth, options.rate_mbit_s, options.file_mb * 1e6, options.late
            )
            for receivers in options.receivers
        ]
    except tree.TreeError as error:
        parser.error(str(error))
    if not options.inside and not options.earlier:
        # The interfaces die with the namespace, whatever happens.
        words = ["unshare", "-n", sys.executable, "-m", "weirlab.bench.scale", *sys.argv[1:], "--inside"]
        return subprocess.call(words)
    try:
        found: dict[str, Any] = {}
        for path in options.earlier or ():
            found |= read(path)
        found = found or measured(options)
        if {"switch", "names", "members"} <= set(found):
            cost = costs(found)
            found["costs"], found["trees"] = vars(cost), tree.table(trees, cost)
    except (BenchError, OSError, subprocess.SubprocessError) as error:
        print(f"bench scale: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(found))
        return 0
    show(found)
    if "trees" in found:
        print()
        tree.show(trees[0], found["trees"])
    else:
        print("\nno trees: they need the parts switch, names and members")
    return 0


if __name__ == "__main__":
    sys.exit(main())
