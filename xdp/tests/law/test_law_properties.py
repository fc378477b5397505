# SPDX-License-Identifier: Apache-2.0
"""The C header against the golden model, for any parameters, states and inputs."""

import ctypes
from dataclasses import asdict, fields
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir import law
from weir.law import RANGES, U32_MAX, U_ONE_Q40, Flow, Params, Rate, Share, Spacing, State

U32, U64, S64 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int64


class CParams(ctypes.Structure):
    _fields_ = [
        *((name, U64 if most > U32_MAX else U32) for name, (_, most) in RANGES.items()),
    ]


class CState(ctypes.Structure):
    _fields_ = [
        *(("u_q40", U64), ("u_ecn_q40", U64)),
        *(("last_us", U64), ("o1_us", S64), ("o2_us", S64)),
        *(("no_i_run", U32), ("started", U32), ("row", U32), ("reserved", U32)),
    ]


class CSpacing(ctypes.Structure):
    _fields_ = [("sum_q32", U64)]


class CRate(ctypes.Structure):
    _fields_ = [
        *(("dq_time_q8_us", U64), ("dq_count_bytes", U64), ("dq_start_us", U64), ("dq_on", U32), ("reserved", U32)),
    ]


class CFlow(ctypes.Structure):
    _fields_ = [("flow_last_us", U64), ("flow_bytes", U32), ("reserved", U32)]


class CShare(ctypes.Structure):
    _fields_ = [("share_mean_q6", U64)]


class CIo(ctypes.Structure):
    _fields_ = [
        *(("op", U32), ("result", U32), ("now_us", U64), ("len_bytes", U64), ("backlog_bytes", U64), ("tau_us", U32)),
        *(
            ("ect", U32),
            ("rand_a", U32),
            ("rand_b", U32),
            ("size", U32),
            ("reserved", U32),
            ("params", CParams),
            ("state", CState),
        ),
        *(("spacing", CSpacing), ("rate", CRate), ("flow", CFlow), ("share", CShare)),
    ]


UPDATE, DEPARTURE, TAU, DECIDE, ARRIVAL = 1, 2, 3, 4, 5


@pytest.fixture(scope="session")
def c_law(law_library: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(law_library))
    library.law_io_size.restype = ctypes.c_size_t
    assert library.law_io_size() == ctypes.sizeof(CIo)
    return library


def wide(most: int) -> st.SearchStrategy[int]:
    """0 .. most with every magnitude about as likely, edges included."""
    powers = st.integers(0, most.bit_length()).flatmap(lambda bits: st.integers(0, min(2**bits, most)))
    return st.one_of(powers, st.sampled_from([0, 1, most - 1, most]))


params = st.builds(
    Params, **{name: wide(most - least).map(lambda v, low=least: v + low) for name, (least, most) in RANGES.items()}
)
error_us = st.integers(-(2**24) + 1, 2**24 - 1)
states = st.builds(
    State,
    u_q40=wide(U_ONE_Q40),
    last_us=wide(2**64 - 1),
    o1_us=error_us,
    o2_us=error_us,
    no_i_run=wide(U32_MAX),
    started=st.integers(0, 1),
    row=st.integers(0, 5),
    u_ecn_q40=wide(U_ONE_Q40),
)
operations = st.lists(
    st.one_of(
        st.tuples(st.just(UPDATE), wide(2**64 - 1), st.one_of(wide(U32_MAX), wide(60000))),
        st.tuples(st.just(DEPARTURE), wide(2**64 - 1), wide(2**64 - 1), wide(2**64 - 1)),
        st.tuples(st.just(TAU), wide(2**64 - 1)),
        st.tuples(
            *(st.just(DECIDE), wide(2**64 - 1), wide(U32_MAX), st.integers(0, 1), wide(U32_MAX), wide(U32_MAX)),
            st.integers(0, 2),
        ),
        st.tuples(st.just(ARRIVAL), wide(2**64 - 1), wide(2**64 - 1)),
    ),
    min_size=1,
    max_size=30,
)


def values(structure: ctypes.Structure, model: object) -> dict[str, int]:
    return {field.name: getattr(structure, field.name) for field in fields(model)}


@given(params, states, st.builds(Spacing, sum_q32=wide(2**36)), wide(2**64 - 1), operations)
@settings(max_examples=400, deadline=None)
def test_golden_model_and_c_agree(
    c_law, parameters: Params, state: State, spacing: Spacing, now_us: int, todo: list[tuple]
) -> None:
    """Times are given as steps forward, so that most updates are due and some wrap or go back."""
    rate, flow, share = Rate(), Flow(), Share()
    io = CIo(params=CParams(**asdict(parameters)), state=CState(**asdict(state)), spacing=CSpacing(**asdict(spacing)))
    for op, *inputs in todo:
        io.op = op
        if op in (UPDATE, DEPARTURE, ARRIVAL):
            now_us = (now_us + inputs[0]) % 2**64
            io.now_us = now_us
        if op == UPDATE:
            io.tau_us = inputs[1]
            wanted = law.update(state, parameters, now_us, inputs[1])
        elif op == DEPARTURE:
            io.len_bytes, io.backlog_bytes = inputs[1:]
            wanted = law.departure(rate, parameters, now_us, *inputs[1:])
        elif op == TAU:
            io.backlog_bytes = inputs[0]
            wanted = law.tau_us(rate, parameters, inputs[0])
        elif op == ARRIVAL:
            io.len_bytes = inputs[1]
            wanted = law.arrival(flow, share, parameters, now_us, inputs[1])
        else:
            io.backlog_bytes, io.tau_us, io.ect, io.rand_a, io.rand_b, io.size = inputs
            ect, rand_a, rand_b, size = inputs[2:]
            wanted = law.decide(state, spacing, parameters, *inputs[:2], bool(ect), rand_a, rand_b, law.Size(size))
        assert c_law.law_run(ctypes.byref(io)) == 0
        if wanted is not None:
            assert io.result == int(wanted)
        assert values(io.state, state) == asdict(state)
        assert values(io.spacing, spacing) == asdict(spacing)
        assert values(io.rate, rate) == asdict(rate)
        assert values(io.flow, flow) == asdict(flow)
        assert values(io.share, share) == asdict(share)
