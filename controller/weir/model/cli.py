# SPDX-License-Identifier: Apache-2.0
"""`weir model`: the fluid model on the command line. docs/design/model.md has its accuracy."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..gains import GainError, Gains
from ..options.arguments import EXIT_STATUS, Subcommand, complain, status_of
from ..settings import key_values, load, profile
from . import loop
from .fluid import CCS, Plant
from .margins import margins
from .simulate import Change, simulate

MAP_RTTS_MS = (10, 20, 80, 160)

MARGINS_EXAMPLES = """\
  weir model margins                                           Table II's dumbbell, both profiles
  weir model margins --profile tuned --flows 50 --cc cubic
"""
MARGINS_HELP = f"""\
Each row of Algorithm 1 is a gain of its own; the loop with each of them held is linear and has margins.
With a margin below 0 a small disturbance grows. `weir model simulate` shows how far: there the real law, with its rows,
clamps and thresholds, drives the fluid.
examples:
{MARGINS_EXAMPLES}  weir model margins --gains mine.toml --capacity-mbit-s 100 --rtt-ms 20 --json
  weir model margins --set kp=2 --set ki=0.1 --set kd=2 --check    python-control's margins beside ours
"""
MAP_HELP = """\
examples:
  weir model map --out map.png        gain margin over capacity and flows, for RTTs of 10, 20, 80 and 160 ms
"""
READINGS_HELP = """\
The paper reports a phase margin of about 49 degrees, but not for which loop. This command tries every reading of its
equations and units.
examples:
  weir model readings
  weir model readings --out readings.png --json | jq .proper
"""
SIMULATE_HELP = """\
examples:
  weir model simulate --profile tuned --flows 10 --change 30:flows=20 --out step.png
  weir model simulate --profile paper --flows 50 --start empty           Algorithm 1 as printed stalls
  weir model simulate --seed 1 --change 20:capacity-mbit-s=5 --change 40:rtt-ms=30,unresponsive-mbit-s=3
"""
COMPARE_HELP = """\
examples:
  ./run experiment mininet/scenarios/model-onset.toml --seeds 1
  weir model compare results/STAMP-model-onset-XXXXXXXX --out model-lab.png
"""


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(
        prog="weir model",
        description="Margins, plots and simulations of the law in the fluid model of TCP (docs/design/model.md).",
        epilog=f"examples:\n{MARGINS_EXAMPLES}Each COMMAND has --help with more.\n\n{EXIT_STATUS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    ways = whole.add_subparsers(dest="way", required=True, metavar="COMMAND", parser_class=Subcommand)

    def way(name: str, told: str, epilog: str | None = None, plant: bool = True) -> argparse.ArgumentParser:
        words = ways.add_parser(
            name, help=told, description=told[0].upper() + told[1:] + ".", epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        words.add_argument("--json", action="store_true", help="one JSON object on standard output")
        if plant:
            add_plant(words)
        return words

    def add_plant(words: argparse.ArgumentParser) -> None:
        chosen = words.add_mutually_exclusive_group()
        chosen.add_argument("--profile", help="of controller/profiles (default: paper and tuned, one after the other)")
        chosen.add_argument("--gains", type=Path, metavar="FILE", help="a profile of your own")
        words.add_argument(
            "--set", action="append", default=[], metavar="KEY=VALUE", help="change this key of the profile"
        )
        words.add_argument(
            "--capacity-mbit-s", type=_positive, default=10.0, metavar="X", help="the bottleneck's rate (10)"
        )
        words.add_argument(
            "--rtt-ms", type=_positive, default=102.0, metavar="X", help="round trip without the queue (102)"
        )
        words.add_argument("--flows", type=_positive, default=10.0, metavar="N", help="long flows (10)")
        words.add_argument("--packet-bytes", type=_positive, default=1500.0, metavar="N", help="(1500)")
        words.add_argument(
            "--loss-percent", type=_share, default=0.0, metavar="X", help="packets lost elsewhere on the path (0)"
        )
        words.add_argument("--cc", choices=CCS, default="cubic", help="congestion control of the flows (cubic)")
        words.add_argument("--ecn", action="store_true", help="the queue marks instead of dropping")
        words.add_argument("--signal", choices=loop.SIGNALS, default="rate", help="Eq. 1 (rate), or the sojourn time")

    words = way("margins", "gain and phase margin of each row of Algorithm 1", MARGINS_HELP)
    words.add_argument("--u", type=float, metavar="U", help="the law's output (default: where the flows balance)")
    words.add_argument("--check", action="store_true", help="python-control's margins of the same loop, too")
    for name, told in (("bode", "size and phase of the open loop"), ("nyquist", "the open loop in the plane")):
        words = way(name, told)
        words.add_argument("--rows", type=_rows, default=(5,), metavar="1,5", help="rows of Algorithm 1 (5)")
        words.add_argument("--out", type=Path, required=True, metavar="FILE.png|.svg")
    words = way("map", "gain margin over flows, capacity and RTT", MAP_HELP)
    words.add_argument("--steps", type=int, default=24, metavar="N", help="steps on each axis (24)")
    words.add_argument("--out", type=Path, metavar="FILE.png|.svg")
    words = way("readings", "whether the paper's 49 degrees come out of its equations", READINGS_HELP, plant=False)
    words.add_argument("--out", type=Path, metavar="FILE.png|.svg")
    words = way("simulate", "the fluid in time under the real law", SIMULATE_HELP)
    words.add_argument("--seconds", type=_positive, default=60.0, metavar="X", help="(60)")
    words.add_argument(
        "--warmup-s", type=float, default=10.0, metavar="X", help="leave this time out of the figures (10)"
    )
    words.add_argument("--change", type=_change, action="append", default=[], metavar="AT_S:KEY=VALUE[,...]",
                       help="flows, capacity-mbit-s, rtt-ms, unresponsive-mbit-s from then on")  # fmt: skip
    words.add_argument("--start", choices=("rest", "empty"), default="rest", help="at rest, or an empty queue")
    words.add_argument(
        "--seed", type=int, metavar="N", help="draw random losses, each of one flow (default: the mean loss)"
    )
    words.add_argument("--out", type=Path, metavar="FILE.png|.svg")
    words = way("compare", "the model beside a run of the scenario model-onset", COMPARE_HELP, plant=False)
    words.add_argument("results", type=Path, metavar="RESULTS_FOLDER")
    words.add_argument("--out", type=Path, metavar="FILE.png|.svg")
    return whole


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number above 0")
    return value


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 100:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a percentage, 0 or above and below 100")
    return value


def _rows(text: str) -> tuple[int, ...]:
    try:
        rows = tuple(int(word) for word in text.split(","))
    except ValueError:
        rows = ()
    if not rows or not set(rows) <= set(loop.ROWS):
        raise argparse.ArgumentTypeError(f"{text!r}: must be rows of Algorithm 1, as 1,5")
    return rows


def _change(text: str) -> Change:
    keys = {
        "flows": ("flows", 1.0),
        "capacity-mbit-s": ("capacity_bit_s", 1e6),
        "rtt-ms": ("rtt_s", 1e-3),
        "unresponsive-mbit-s": ("unresponsive_bit_s", 1e6),
    }
    at, colon, rest = text.partition(":")
    try:
        change = Change(float(at))
        for word in rest.split(","):
            key, _, value = word.partition("=")
            name, unit = keys[key]
            number = float(value) * unit
            if not math.isfinite(number) or number < 0 or (number == 0 and key != "unresponsive-mbit-s"):
                raise ValueError
            change = replace(change, **{name: number})
    except (ValueError, KeyError):
        colon = ""
    if not colon or change.at_s < 0:
        raise argparse.ArgumentTypeError(f"{text!r}: must be AT_S:KEY=VALUE[,KEY=VALUE], KEY of {', '.join(keys)}")
    return change


def _gains(asked: argparse.Namespace) -> dict[str, Gains]:
    if asked.gains:
        found = {asked.gains.stem: load(asked.gains)}
    elif asked.profile:
        try:
            found = {asked.profile: profile(asked.profile)}
        except GainError as error:
            raise GainError(f"--profile {error}") from None
    else:
        found = {name: profile(name) for name in ("paper", "tuned")}
    changes = key_values(asked.set)
    return {name: gains.with_changes(changes) for name, gains in found.items()}


def _plant(asked: argparse.Namespace) -> Plant:
    return Plant(
        asked.capacity_mbit_s * 1e6, asked.rtt_ms / 1e3, asked.flows, asked.packet_bytes, asked.cc,
        asked.loss_percent / 100, not asked.ecn,
    )  # fmt: skip


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _margins(asked: argparse.Namespace) -> dict:
    if asked.u is not None and not 0 < asked.u <= 1:
        raise ValueError(f"--u {asked.u}: must be above 0 and at most 1")
    plant, told = _plant(asked), {}
    for name, gains in _gains(asked).items():
        point = plant.operating_point(gains.target_us / 1e6, gains.probability == "squared")
        rows = {row: margins(plant, gains, asked.u, row, asked.signal) for row in loop.ROWS}
        checks = {row: _check(plant, gains, asked.u, row, asked.signal) for row in loop.ROWS} if asked.check else {}
        told[name] = {
            "operating_point": asdict(point),
            "rows": {str(row): asdict(found) for row, found in rows.items()},
            **({"python_control": {str(row): check for row, check in checks.items()}} if checks else {}),
        }
        if asked.json:
            continue
        if not point.fills:
            print(f"{name}: the flows don't fill the line: the loop is open")
            continue
        print(
            f"{name}: window {point.window_packets:.1f} packets, drop probability {100 * point.p:.2f} %, "
            f"U {point.u:.3f}"
        )
        print("  row  phase margin  at rad/s  gain margin  at rad/s  delay margin  settles in")
        for row, found in rows.items():
            print(
                f"  {row:>3}  {_number(found.phase_margin_deg, '.1f'):>8} deg"
                f"  {_number(found.crossover_rad_s, '.2f'):>8}"
                f"  {_number(found.gain_margin_db, '+.1f'):>8} dB  {_number(found.phase_crossover_rad_s, '.2f'):>8}"
                f"  {_number(found.delay_margin_s and 1e3 * found.delay_margin_s, '.0f'):>9} ms"
                f"  {_number(found.settling_s, '.2f'):>8} s{'' if found.stable else '  unstable'}"
            )
            if row in checks:
                shown = ", ".join(f"{key} {_number(value, '.4g')}" for key, value in checks[row].items())
                print(f"       python-control: {shown}")
    return told


def _check(plant: Plant, gains: Gains, u: float | None, row: int, signal: str) -> dict[str, float | None]:
    """python-control's `stability_margins` of the same frequency response; it takes the least in size of each."""
    import control

    omega = np.geomspace(1e-3, math.pi / loop.interval_s(plant, gains), 8000)
    data = control.FRD(loop.open_loop(plant, gains, 1j * omega, u, row, signal), omega)
    gain, phase, _, at_phase, at_gain, _ = control.stability_margins(data)
    told = {
        "phase_margin_deg": phase,
        "crossover_rad_s": at_gain,
        "gain_margin_db": 20 * math.log10(gain) if gain > 0 else math.nan,
        "phase_crossover_rad_s": at_phase,
    }
    return {key: float(value) if math.isfinite(value) else None for key, value in told.items()}


def _curves(asked: argparse.Namespace) -> dict:
    from . import plots

    plant = _plant(asked)
    curves = {
        f"{name}, row {row}": (gains, row) for name, gains in _gains(asked).items() for row in asked.rows
    }  # fmt: skip
    if not plant.operating_point(next(iter(curves.values()))[0].target_us / 1e6, False).fills:
        raise ValueError("the flows don't fill the line: there is no loop to draw; try more flows or less capacity")
    draw = plots.bode if asked.way == "bode" else plots.nyquist
    plots.save(draw(plant, curves, asked.signal), asked.out)
    return {
        name: asdict(margins(plant, gains, row=row, signal=asked.signal)) for name, (gains, row) in curves.items()
    }  # fmt: skip


def _map(asked: argparse.Namespace) -> dict:
    if not 2 <= asked.steps <= 200:
        raise ValueError(f"--steps {asked.steps}: must be 2 .. 200")
    base, chosen = _plant(asked), _gains(asked)
    capacities = np.geomspace(1, 1000, asked.steps)
    flows = np.geomspace(1, 200, asked.steps)
    table = np.full((len(chosen), len(MAP_RTTS_MS), asked.steps, asked.steps), np.nan)
    for i, gains in enumerate(chosen.values()):
        squared = gains.probability == "squared"
        for j, rtt_ms in enumerate(MAP_RTTS_MS):
            for k, n in enumerate(flows):
                for m, capacity in enumerate(capacities):
                    plant = replace(base, capacity_bit_s=capacity * 1e6, rtt_s=rtt_ms / 1e3, flows=n)
                    if not plant.operating_point(gains.target_us / 1e6, squared).fills:
                        continue
                    found = margins(plant, gains, signal=asked.signal, settling=False)
                    edge = found.gain_margin_db
                    table[i, j, k, m] = (math.inf if found.stable else -math.inf) if edge is None else edge
    told = {
        "capacity_mbit_s": capacities.tolist(),
        "flows": flows.tolist(),
        "rtt_ms": list(MAP_RTTS_MS),
        "gain_margin_db": {
            name: [[[_plain(x) for x in line] for line in plane] for plane in table[i]] for i, name in enumerate(chosen)
        },
        "stable_share": {
            name: {str(rtt): float(np.mean(table[i, j] > 0)) for j, rtt in enumerate(MAP_RTTS_MS)}
            for i, name in enumerate(chosen)
        },
    }
    if asked.out:
        from . import plots

        plots.save(plots.margin_map(list(chosen), MAP_RTTS_MS, list(capacities), list(flows), table), asked.out)
    if not asked.json:
        for name, shares in told["stable_share"].items():
            shown = ", ".join(f"{100 * share:.0f} % at {rtt} ms" for rtt, share in shares.items())
            print(f"{name}: linearly stable in {shown} of 1 .. 1000 Mbit/s by 1 .. 200 flows")
    return told


def _plain(value: float) -> float | str | None:
    """JSON has neither nan nor infinity."""
    return None if math.isnan(value) else float(value) if math.isfinite(value) else "inf" if value > 0 else "-inf"


def _readings(asked: argparse.Namespace) -> dict:
    from .readings import ROWS, RTTS, TIMES, TOLD_DEG, readings

    found = list(readings())
    crossing = [one for one in found if one.least_deg is not None]
    near = [one for one in crossing if one.least_deg is not None and abs(one.least_deg - TOLD_DEG) <= 1]
    stable = [one for one in crossing if one.stable]
    stable_near = [one for one in near if one.stable]
    proper = [one for one in found if one.proper]
    told = {
        "readings": len(found),
        "with_crossover": len(crossing),
        "within_1_deg": len(near),
        "within_1_deg_if_even": len(crossing) * 2 / 360,
        "stable": len(stable),
        "stable_within_1_deg": [asdict(one) for one in stable_near],
        "proper": [asdict(one) for one in proper],
        "within_1_deg_by_shape": dict(Counter(one.shape for one in near)),
    }
    if asked.out:
        from . import plots

        plots.save(plots.readings(found), asked.out)
    if not asked.json:
        print(f"{len(found)} readings; {len(crossing)} have a crossover, {len(stable)} of these are stable")
        print(
            f"within a degree of {TOLD_DEG:g}: {len(near)} ({told['within_1_deg_if_even']:.0f} if margins were spread "
            f"evenly over the circle), {len(stable_near)} of them stable"
        )
        print("all quantities as the paper's own text has them (T and R, which it doesn't give, varied);")
        print("least phase margin in degrees, * where the closed loop is unstable, - without crossover:")
        for row, (z, integral) in ROWS.items():
            print(f"  row {row}: Z {z}, {'with' if integral else 'no'} integral")
            print("    " + "R".rjust(9) + "".join(f"T {name}".rjust(10) for name in TIMES))
            for rtt in RTTS:
                line = (one for one in proper if (one.row, one.rtt) == (row, rtt))
                shown = (_number(one.least_deg, ".1f") + ("" if one.stable else "*") for one in line)
                print("    " + rtt.rjust(9) + "".join(word.rjust(10) for word in shown))
    return told


def _simulate(asked: argparse.Namespace) -> dict:
    plant, told = _plant(asked), {}
    if not 0 <= asked.warmup_s < asked.seconds:
        raise ValueError(f"--warmup-s {asked.warmup_s}: must be 0 or above, and below --seconds {asked.seconds}")
    chosen = _gains(asked)
    if asked.out and len(chosen) > 1:
        raise ValueError("--out: draws one profile; give --profile or --gains")
    for name, gains in chosen.items():
        found = simulate(
            plant, gains, asked.seconds, asked.change, start=asked.start, signal=asked.signal, seed=asked.seed
        )
        late = found.t_s >= asked.warmup_s
        delay_ms = found.queue_delay_s[late] * 1e3
        rows_share = {str(row): float(np.mean(found.row[late] == row)) for row in loop.ROWS}
        one: dict[str, Any] = {
            "queue_delay_mean_ms": float(delay_ms.mean()),
            "queue_delay_sd_ms": float(delay_ms.std()),
            "queue_delay_excess_ms": float(np.maximum(delay_ms - gains.target_us / 1e3, 0).mean()),
            "u_mean": float(found.u[late].mean()),
            "drop_probability_mean": float(found.p[late].mean()),
            "sent_mean_mbit_s": float(found.sent_bit_s[late].mean() / 1e6),
            "rows_share": rows_share,
        }
        told[name] = one
        if not asked.json:
            rows = ", ".join(f"{row}: {100 * share:.0f} %" for row, share in rows_share.items())
            print(
                f"{name}: queue delay {one['queue_delay_mean_ms']:.1f} ms, sd {one['queue_delay_sd_ms']:.1f}, excess "
                f"{one['queue_delay_excess_ms']:.1f}; U {one['u_mean']:.3f}; {one['sent_mean_mbit_s']:.2f} Mbit/s; "
                f"rows {rows}"
            )
        if asked.out:
            from . import plots

            plots.save(plots.trace(found, gains.target_us / 1e6), asked.out)
    return told


def _compare(asked: argparse.Namespace) -> dict:
    from . import compare

    runs = compare.load(asked.results)
    rows = [compare.beside(run) for run in runs]
    if asked.out:
        from . import plots

        plots.save(compare.draw(rows), asked.out)
    if not asked.json:
        print(compare.table(rows))
    return {"runs": [row.told() for row in rows]}


WAYS = {
    "margins": _margins,
    "bode": _curves,
    "nyquist": _curves,
    "map": _map,
    "readings": _readings,
    "simulate": _simulate,
    "compare": _compare,
}


def main(words: Sequence[str]) -> int:
    asked = parser().parse_args(words)
    try:
        told = WAYS[asked.way](asked)
    except (ValueError, OSError) as error:  # GainError is a ValueError
        complain(f"model {asked.way}", error)
        return 2 if isinstance(error, ValueError) else status_of(error)
    if asked.json:
        print(json.dumps(told))
    return 0
