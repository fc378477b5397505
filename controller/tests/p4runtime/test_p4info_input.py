# SPDX-License-Identifier: Apache-2.0
"""Any bytes as a P4Info of a switch or of a file: it is read whole, or refused by name of what is wrong."""

import contextlib
from pathlib import Path

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from weir.p4runtime.messages import config
from weir.p4runtime.p4info import P4Info
from weir.p4runtime.values import P4RuntimeError

TEXT = (Path(__file__).with_name("p4info_everything.txtpb")).read_bytes()
WHOLE = P4Info.from_file(TEXT, "everything").message.SerializeToString()
JSON = json_format.MessageToJson(P4Info.from_file(TEXT, "everything").message).encode()
KINDS = ("actions", "tables", "action_profiles", "counters", "meters", "registers", "digests", "value_sets",
         "packet_headers")  # fmt: skip
CHANGES = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=8)


def read(data: bytes) -> None:
    with contextlib.suppress(P4RuntimeError):
        info = P4Info.from_file(data, "input")
        for kind in KINDS:
            for item in getattr(info, kind):
                assert item.name in getattr(info, kind) or not item.name
        for counter in info.counters:
            assert counter.unit


def changed(data: bytes, changes: list[tuple[int, int]]) -> bytes:
    copy = bytearray(data)
    for at, value in changes:
        copy[at % len(copy)] = value
    return bytes(copy)


@given(data=st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    read(data)


@given(changes=CHANGES)
def test_a_binary_one_with_other_bytes(changes: list[tuple[int, int]]) -> None:
    read(changed(WHOLE, changes))


@given(changes=CHANGES)
def test_a_text_with_other_bytes(changes: list[tuple[int, int]]) -> None:
    read(changed(TEXT, changes))


@given(changes=CHANGES)
def test_json_with_other_bytes(changes: list[tuple[int, int]]) -> None:
    read(changed(JSON, changes))


def test_json_is_the_same_message() -> None:
    assert P4Info.from_file(JSON, "x").message.SerializeToString() == WHOLE
    assert P4Info.from_file(b"\n  " + JSON, "x").message.SerializeToString() == WHOLE


@pytest.mark.parametrize("data", [b"{", b'{"tables": 5}', b'{"table": []}', b'{"tables": [{"size": "x"}]}', b"{\xff}"])
def test_json_that_is_no_p4info_is_refused_by_the_file_s_name(data: bytes) -> None:
    with pytest.raises(P4RuntimeError, match=r"wrong\.json"):
        P4Info.from_file(data, "wrong.json")


@given(number=st.integers(3, (1 << 31) - 1))
def test_numbers_of_other_versions(number: int) -> None:
    """An enumeration of protobuf 3 takes any number."""
    info = config.P4Info()
    table = info.tables.add()
    table.preamble.id, table.preamble.name = 1, "t"
    table.match_fields.add().match_type = number
    counter = info.counters.add()
    counter.preamble.id, counter.preamble.name = 2, "c"
    counter.spec.unit = number
    read(info.SerializeToString())


def test_a_text_that_is_nested_deeply() -> None:
    read(b"type_info { new_types { key: 'a' value { " + b"representation { " * 20_000)
    read(b"[" * 20_000)
    read(b'{"tables": ' * 20_000)
    read(b"tables { unknown { " * 20_000)
