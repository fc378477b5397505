# SPDX-License-Identifier: Apache-2.0
"""Frames forwarded by weir-switch and bytes served by weir-server under attacks, over those without, in turn, and their
memory. The attacked program has one core to itself, all others share another one.

Each load is measured by itself. half: at a fixed rate, half of what the program carries alone, which is the share of
one of two busy ports; `kept` is the part of what was offered that comes out, with the attack over without. saturating:
as much as there is room for; `kept` is what comes out in a second of the program's processor time, with over without.
On another port a flood at line rate may take its share of that, half; what P4Runtime is sent may not.
Prints, asserts nothing. Needs root and two cores. All of it takes about half an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from weirlab.bench.hostile import frames, server, switch
from weirlab.bench.hostile.rounds import KEPT_LEAST, LOADS, MOST_MB, Cores
from weirlab.bench.names import BenchError

PARTS = {"switch": switch, "server": server}
UNITS = {"switch": ("frames/s", 1.0), "server": ("Mbit/s", 8e-6)}
INTERRUPTED = 130


def fair(part: str, attack: str, load: str) -> float:
    """The share that a load is due beside an attack: who floods another port has one too."""
    return 0.5 if (part, load) == ("switch", "saturating") and attack in frames.FLOODS else 1.0


def shown(part: str, found: dict[str, Any]) -> list[str]:
    unit, scale = UNITS[part]
    alone = f"weir-{part} alone: {found['capacity_per_second'] * scale:,.0f} {unit}"
    lines = ["", alone, f"{'attack':22} {'load':10} {unit + ', without':>18} {'with':>10} {'attack/s':>10}  "
             f"{'kept (least to most)':22} {'aim':>4}  {'peak MB':>7}"]  # fmt: skip
    for row in found["attacks"]:
        for load, of in row["loads"].items():
            without, with_it = (of["forwarded"][side]["median"] * scale for side in ("without", "with"))
            kept, floods = of["kept"], of["attack"]["with"]["median"]
            least = KEPT_LEAST * fair(part, row["attack"], load)
            note = "" if kept["median"] >= least else "  below the aim"
            note += f"  ({of['made_again']} made again)" if of["made_again"] else ""
            text = f"{kept['median']:.3f} ({kept['least']:.3f} to {kept['most']:.3f})"
            lines.append(
                f"{row['attack']:22} {load:10} {without:18,.0f} {with_it:10,.0f} {floods:10,.0f}  {text:22} "
                f"{least:4.2f}  {row['peak_mb']:7.1f}{note}"
            )
        if "show_s" in row:
            took = "{median:.1f} s ({least:.1f} to {most:.1f})".format(**row["show_s"])
            lines.append(f"{row['attack']:22} weir p4 show takes {took}")
    return lines


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./run bench hostile", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"attacks on the {part}: {', '.join(module.ATTACKS)}" for part, module in PARTS.items()),
    )  # fmt: skip
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART",
                        help=f"of {', '.join(PARTS)} (default: both)")  # fmt: skip
    parser.add_argument("--attacks", nargs="+", metavar="ATTACK", help="only these (default: all)")
    parser.add_argument("--loads", nargs="+", choices=LOADS, default=list(LOADS), metavar="LOAD",
                        help=f"of {', '.join(LOADS)} (default: both)")  # fmt: skip
    parser.add_argument("--repetitions", type=int, default=5, help="of each round (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each round (default %(default)s)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser


def measured(options: argparse.Namespace) -> dict[str, Any]:
    cores = Cores.choose()
    found: dict[str, Any] = {"bench": "hostile", "pinned": cores.words(), "repetitions": options.repetitions,
                             "aim_kept": KEPT_LEAST, "aim_mb": MOST_MB}  # fmt: skip
    for part in options.only:
        names = [name for name in PARTS[part].ATTACKS if not options.attacks or name in options.attacks]
        if names:
            with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
                found[part] = PARTS[part].measure(
                    Path(folder), cores, names, options.loads, options.repetitions, options.seconds
                )
    return found


def main() -> int:
    parser = arguments()
    options = parser.parse_args()
    if options.repetitions < 1 or not 0.1 <= options.seconds <= 600:
        parser.error("--repetitions must be 1 or more, --seconds 0.1 to 600")
    known = {name for part in options.only for name in PARTS[part].ATTACKS}
    if unknown := [name for name in options.attacks or () if name not in known]:
        parser.error(f"there is no attack {unknown[0]!r} here; there are {', '.join(sorted(known))}")
    if os.geteuid():
        parser.error("needs root, for network namespaces and priorities")
    if not options.inside:
        # The interfaces end with the namespace. In place of this process, so that signals reach the one that tidies up.
        os.execvp(
            "unshare", ["unshare", "-n", sys.executable, "-m", "weirlab.bench.hostile", *sys.argv[1:], "--inside"]
        )
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what was started is ended
    try:
        found = measured(options)
    except (BenchError, OSError, subprocess.SubprocessError) as error:
        print(f"bench hostile: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench hostile: stopped", file=sys.stderr)
        return INTERRUPTED
    if options.json:
        print(json.dumps(found))
        return 0
    print(found["pinned"])
    for part in options.only:
        if part in found:
            print("\n".join(shown(part, found[part])))
    print(f"\naim: {KEPT_LEAST} of what the load is due, and under {MOST_MB} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
