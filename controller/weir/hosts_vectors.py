# SPDX-License-Identifier: Apache-2.0
"""Conformance vectors of the fair share of hosts, tests/vectors/fair/hosts.jsonl; `weir.vectors` writes them.

Deterministic: the committed file equals what this prints. The format is in tests/vectors/README.md.
"""

import json
from dataclasses import asdict
from random import Random

from . import bands, fair, hosts
from .bands import Kind
from .bands_vectors import CASES, Queue, packets
from .hosts import Host, HostFair

LAW_PARAMS = ("share_shift",)
"""Parameters of the law that the share of hosts reads."""
HOSTS = 3


def generate() -> str:
    """The text of the vector file."""
    lines: list[dict[str, object]] = []
    for number, name in enumerate(("default", "least", "greatest")):
        given, params = CASES[name]
        lines.append({"op": "params", "case": name, **{key: getattr(params, key) for key in LAW_PARAMS}})
        queue, state, random = Queue(), HostFair(), Random(8622 + number)
        counters = [Host() for _ in range(HOSTS)]
        for index, now_us, len_bytes, tau_us in packets(random):
            flow, host = queue.flows[index], counters[index % HOSTS]
            kind = bands.arrival(flow, queue.share, queue.budget, params, given, now_us, len_bytes, tau_us)
            inputs = {
                "in_host": index % HOSTS, "in_kind": int(kind), "in_flow_bytes": flow.flow_bytes, "in_now_us": now_us,
                "in_len_bytes": len_bytes,
            }  # fmt: skip
            hosts.host_arrival(host, params, now_us, len_bytes)
            results = {"fair_bytes": 0, "kind": int(kind)}
            if kind != Kind.AHEAD:
                results["fair_bytes"] = hosts.host_share(host, state, params, kind, flow.flow_bytes, now_us, len_bytes)
                results["kind"] = int(hosts.kind_by_host(kind, host, state, flow.flow_bytes))
            lines.append({"op": "host_arrival", **inputs, **results, **asdict(host), **asdict(state)})
            if kind != Kind.AHEAD and random.random() < 0.8:
                bands.passed(queue.budget, len_bytes)
                fair.passed(state, len_bytes)
                lines.append({"op": "passed", "in_len_bytes": len_bytes, "passed_bytes": state.passed_bytes})
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
