# SPDX-License-Identifier: Apache-2.0
"""Conformance vectors of the fair share of bulk flows, tests/vectors/fair/share.jsonl; `weir.vectors` writes them.

Deterministic: the committed file equals what this prints. The format is in tests/vectors/README.md.
"""

import json
from dataclasses import asdict, replace
from random import Random

from . import bands, fair
from .bands import Kind
from .bands_vectors import CASES, Queue, packets
from .fair import Fair

LAW_PARAMS = ("target_us", "share_shift", "delay_limit_us")
"""Parameters of the law that the fair share reads."""


def generate() -> str:
    """The text of the vector file."""
    lines: list[dict[str, object]] = []
    for number, name in enumerate(("default", "least", "greatest")):
        given, params = CASES[name]
        if name == "least":
            params = replace(params, delay_limit_us=0)
        lines.append({"op": "params", "case": name, **{key: getattr(params, key) for key in LAW_PARAMS}})
        queue, state, random = Queue(), Fair(), Random(8289 + number)
        for index, now_us, len_bytes, tau_us in packets(random):
            flow = queue.flows[index]
            kind = bands.arrival(flow, queue.share, queue.budget, params, given, now_us, len_bytes, tau_us)
            if kind == Kind.AHEAD:
                continue
            rand = random.getrandbits(32)
            fair_bytes = fair.arrival(state, params, kind, flow.flow_bytes, now_us, len_bytes)
            found = fair.kind_by_share(kind, flow.flow_bytes, fair_bytes)
            inputs = {
                "in_kind": int(kind), "in_flow_bytes": flow.flow_bytes, "in_now_us": now_us, "in_len_bytes": len_bytes,
                "in_tau_us": tau_us, "in_rand": rand,
            }  # fmt: skip
            policed = fair.is_policed(params, flow.flow_bytes, fair_bytes, tau_us, rand)
            results = {
                "fair_bytes": fair_bytes, "kind": int(found), "policed": int(policed),
                "spared": int(fair.is_spared(found, params, tau_us)),
            }  # fmt: skip
            lines.append({"op": "fair_arrival", **inputs, **results, **asdict(state)})
            if not policed and random.random() < 0.8:
                bands.passed(queue.budget, len_bytes)
                fair.passed(state, len_bytes)
                lines.append({"op": "passed", "in_len_bytes": len_bytes, "passed_bytes": state.passed_bytes})
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
