# SPDX-License-Identifier: Apache-2.0
"""The C header of the share of hosts against its vectors, and against the golden model for any input."""

import ctypes
import json
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from law_build import HERE
from test_bands_header import U32, U64, CParams, members

from weir import hosts
from weir.bands import Kind
from weir.bands_vectors import TUNED
from weir.fair import FLOWS_MOST_Q16
from weir.hosts import Host, HostFair
from weir.hosts_vectors import HOSTS, LAW_PARAMS
from weir.law import U32_MAX

VECTORS = HERE.parents[2] / "tests" / "vectors" / "fair" / "hosts.jsonl"


class CHost(ctypes.Structure):
    _fields_ = [("host_last_us", U64), ("host_flows_q16", U64), ("host_bytes", U32), ("host_share_bytes", U32)]


class CHostFair(ctypes.Structure):
    _fields_ = [
        ("fair_last_us", U64), ("flows_q16", U64), ("passed_bytes", U32), ("share_bytes", U32),
        ("all_q16", U64), ("all_bytes", U32), ("reserved", U32),
    ]  # fmt: skip


class Library:
    """`law_shared.c`, built."""

    def __init__(self, path: Path):
        library = ctypes.CDLL(str(path))
        self._run, self.passed = library.hosts_run, library.fair_passed
        self._run.restype = U32
        self._run.argtypes = [
            *(ctypes.POINTER(kind) for kind in (CHost, CHostFair, CParams)), U32, U32, U64, U64, ctypes.POINTER(U32),
        ]  # fmt: skip
        self.passed.argtypes = [ctypes.POINTER(CHostFair), U64]

    def arrival(self, host: CHost, fair: CHostFair, params: CParams, *inputs: int) -> tuple[int, int]:
        """inputs: kind, flow_bytes, now_us, len_bytes. Returns the share of a flow and the kind."""
        fair_bytes = U32()
        kind = self._run(host, fair, params, *inputs, fair_bytes)
        return fair_bytes.value, kind


@pytest.fixture(scope="session")
def library(law_library: Path) -> Library:
    return Library(law_library)


def test_the_vectors(library: Library) -> None:
    kinds = []
    for number, line in enumerate(VECTORS.read_text(encoding="utf-8").splitlines(), 1):
        said = json.loads(line)
        op = said.pop("op")
        inputs = {key: said.pop(key) for key in list(said) if key.startswith("in_")}
        if op == "params":
            params = CParams(**(asdict(TUNED) | {key: said[key] for key in LAW_PARAMS}))
            counters, fair = [CHost() for _ in range(HOSTS)], CHostFair()
        elif op == "host_arrival":
            host = counters[inputs.pop("in_host")]
            found = library.arrival(host, fair, params, *inputs.values())
            assert {"fair_bytes": found[0], "kind": found[1], **members(host, fair)} == said, f"line {number}"
            kinds.append(found[1])
        else:
            library.passed(fair, inputs["in_len_bytes"])
            assert fair.passed_bytes == said["passed_bytes"], f"line {number}"
    assert all(kinds.count(kind) > 100 for kind in (Kind.AHEAD, Kind.SMALL, Kind.LARGE))


U32S = st.one_of(st.integers(0, U32_MAX), st.integers(0, 100_000))
Q16S = st.one_of(st.integers(0, FLOWS_MOST_Q16), st.integers(0, 2**21))


@given(
    st.builds(Host, U32S, Q16S, st.integers(0, 2**64 - 1), U32S),
    st.builds(HostFair, U32S, Q16S, st.integers(0, 2**64 - 1), U32S, Q16S, U32S),
    st.sampled_from(list(Kind)),
    U32S,
    st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 2**22)),
    st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 2000)),
)
@settings(max_examples=400, deadline=None)
def test_golden_model_and_c_agree(
    library: Library, host: Host, fair: HostFair, kind: Kind, flow_bytes: int, step_us: int, len_bytes: int
) -> None:
    now_us = (host.host_last_us + step_us) % 2**64
    in_c = CHost(**asdict(host)), CHostFair(**asdict(fair))
    found = library.arrival(*in_c, CParams(**asdict(TUNED)), kind, flow_bytes, now_us, len_bytes)
    hosts.host_arrival(host, TUNED, now_us, len_bytes)
    if kind == Kind.AHEAD:
        assert found == (0, kind)
    else:
        share = hosts.host_share(host, fair, TUNED, kind, flow_bytes, now_us, len_bytes)
        assert found == (share, hosts.kind_by_host(kind, host, fair, flow_bytes))
    assert members(*in_c) == asdict(host) | asdict(fair)
