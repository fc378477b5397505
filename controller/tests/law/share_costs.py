# SPDX-License-Identifier: Apache-2.0
"""Cost of drops and marks that wait for large flows, on the golden model at a probability that stays. This prints the
tables of docs/design/verdict.md:
`PYTHONPATH=controller build/venv/bin/python controller/tests/law/share_costs.py`."""

import math
import random
import statistics
from collections import Counter
from dataclasses import replace

from weir import law
from weir.law import Flow, Rate, Share, Size, Spacing, State, Verdict
from weir.settings import profile

PARAMS = replace(
    profile("tuned").to_params(),
    space_least_q16=law.Z_ONE_Q16,
    space_most_q16=2 * law.Z_ONE_Q16,
    share_least_q16=law.Z_ONE_Q16,
    share_shift=17,
)
PACKETS_PER_S = 833
"""10 Mbit/s in full packets."""
WARM_UP = 0.2


def hit_shares(weights: list[float], counters: list[int], p: float, packets: int, seed: int) -> list[float]:
    """The share of each flow's packets that is dropped or marked at a probability `p`. A packet is of flow i with
    `weights[i]`; flow i counts in `counters[i]`, and in any of 256 if that is -1."""
    rng = random.Random(seed)
    table = [Flow() for _ in range(max(256, *(counter + 1 for counter in counters)))]
    state, spacing, share = State(u_q40=round(p**0.5 * law.U_ONE_Q40)), Spacing(), Share()
    sent, hit = [0] * len(weights), [0] * len(weights)
    for number, flow in enumerate(rng.choices(range(len(weights)), weights, k=packets)):
        counter = counters[flow] if counters[flow] >= 0 else rng.randrange(256)
        size = law.arrival(table[counter], share, PARAMS, 10**9 + number * 10**6 // PACKETS_PER_S, 1500)
        verdict = law.decide(state, spacing, PARAMS, 10**6, PARAMS.target_us, False, 0, 0, size)
        if number >= WARM_UP * packets:
            sent[flow] += 1
            hit[flow] += verdict != Verdict.PASS
    return [hits / max(of, 1) for hits, of in zip(hit, sent, strict=True)]


def beside_many(share: float, p: float, packets: int = 60000) -> tuple[float, float]:
    """One flow that sends `share` of all packets, beside packets that are each of a flow of their own: their shares of
    drops and marks."""
    first, others = hit_shares([share, 1 - share], [7, -1], p, packets, seed=1)
    return first, others


def sharing(flows: int, counters: int, p: float, packets: int = 60000, placings: int = 4) -> tuple[float, float, float]:
    """Flows that send alike, each in a counter by chance: how many of them are alone in theirs, and their and the
    others' rates of drops or marks, over p."""
    alone, together = [], []
    for seed in range(placings):
        rng = random.Random(seed)
        places = [rng.randrange(counters) for _ in range(flows)]
        shares = hit_shares([1.0] * flows, places, p, packets, seed)
        users = Counter(places)
        alone += [one / p for one, place in zip(shares, places, strict=True) if users[place] == 1]
        together += [one / p for one, place in zip(shares, places, strict=True) if users[place] > 1]
    return len(alone) / (flows * placings), *(statistics.fmean(found or [math.nan]) for found in (alone, together))


def flood_ms(factor: float, size: Size, until_s: float = 10.0) -> float:
    """The 99th percentile of the delay of `factor` times the line's rate that answers to nothing, from half of
    `until_s` on, under `tuned`; all packets are of flows of that size."""
    params, state, spacing, rate = profile("tuned").to_params(), State(), Spacing(), Rate()
    packet_us = round(1e6 / PACKETS_PER_S)
    backlog_bytes, leaves_us, delays_us = 0, 0, []
    for number in range(int(until_s * PACKETS_PER_S * factor)):
        now_us = int(number * packet_us / factor)
        while backlog_bytes and leaves_us <= now_us:
            backlog_bytes -= 1500
            law.departure(rate, params, leaves_us, 1500, backlog_bytes)
            leaves_us += packet_us
        tau_us = law.tau_us(rate, params, backlog_bytes)
        law.update(state, params, now_us, tau_us)
        if law.decide(state, spacing, params, backlog_bytes, tau_us, False, 0, 0, size) == Verdict.PASS:
            leaves_us = leaves_us if backlog_bytes else now_us + packet_us
            backlog_bytes += 1500
        delays_us.append(backlog_bytes / 1500 * packet_us)
    half = sorted(delays_us[len(delays_us) // 2 :])
    return half[len(half) * 99 // 100] / 1000


def main() -> None:
    print("| share of packets | p = 0.01 | p = 0.05 | p = 0.2 |\n| --- | --- | --- | --- |")
    for share in (0.5, 0.2, 0.1, 0.05, 0.01):
        print(f"| {share} |", " | ".join(f"{beside_many(share, p)[0]:.3f}" for p in (0.01, 0.05, 0.2)), "|")
    print("\n| flows | counters | alone | hit alone | hit together |\n| --- | --- | --- | --- | --- |")
    for flows in (50, 200, 1000):
        for counters in (256, 4096, 8192):
            print(
                f"| {flows} | {counters} |", " | ".join(f"{value:.2f}" for value in sharing(flows, counters, 0.02)), "|"
            )
    print("\n| flood | few flows | many | new ports |\n| --- | --- | --- | --- |")
    for factor in (1.5, 2, 3, 5):
        delays = (flood_ms(factor, size) for size in (Size.LARGE, Size.SMALL, Size.NEW))
        print(f"| {factor} |", " | ".join(f"{delay_ms:.0f}" for delay_ms in delays), "|")


if __name__ == "__main__":
    main()
