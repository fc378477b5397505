# SPDX-License-Identifier: Apache-2.0
"""Cost of a congestion control that learns, for `./run bench quic`: the time of a decision, and a policy that is at
work whatever the path is."""

from __future__ import annotations

import json
import subprocess

from weirlab import paths
from weirlab.scenario.policies import document_of, with_document

PER_SECOND = 10  # decisions of a connection, by intervals of 100 ms
AIM = "aim: 5 or less"
ONE, ZERO = "3f800000", "00000000"  # bits of IEEE singles


def tireless(weights: bytes) -> bytes:
    """A weights file like this one, whose network takes as long and always wants the largest window: no guard hands the
    connection to BBR, and BBR's pacing holds. So what is slower with it is the machinery."""
    text = weights.decode()
    document = document_of(text)
    last = document["layers"][-1]
    last["weights"] = [ZERO * (len(row) // 8) for row in last["weights"]]
    last["bias"] = ONE
    document |= dict.fromkeys(("guard", "rtt_probe", "fairness"))
    document |= {"output": "linear", "growth": "always", "pacing": "bbr", "start": "initial-window"}
    document["window_packets"] = [2, 20_000]
    return with_document(text, document).encode()


def built_in() -> bytes:
    """The policy of `--cc pbq`."""
    return (paths.clone() / "quic-client" / "core" / "weights" / "pbq.weights").read_bytes()


def cost(environment: dict[str, str], connections: int) -> list[dict]:
    """Nanoseconds of a decision, for each built-in policy, and the share of a core for so many connections."""
    manifest = paths.clone() / "quic-client" / "Cargo.toml"
    words = ["cargo", "run", "--quiet", "--release", "--locked", "-j2", "-p", "weir-core", "--example", "decision_cost"]
    out = subprocess.run(
        [*words, "--manifest-path", str(manifest)], env=environment, check=True, capture_output=True, text=True
    ).stdout
    rows = [json.loads(line) for line in out.splitlines()]
    percent = connections * PER_SECOND * 100 * 1e-9
    return [row | {"connections": connections, "core_percent": row["median_ns"] * percent} for row in rows]


def show(rows: list[dict]) -> None:
    for row in rows:
        share = f"{row['connections']} connections, {PER_SECOND} a second each: {row['core_percent']:.1f} % of a core"
        time = f"{row['median_ns']} ns ({row['least_ns']} to {row['most_ns']})"
        print(f"a decision of {row['policy']}: {time}; {share} ({AIM})")
