# SPDX-License-Identifier: Apache-2.0
"""Entities by names to P4Runtime's messages and back."""

import re
import tracemalloc
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.p4runtime import client, codec, labels
from weir.p4runtime import entities as e
from weir.p4runtime.connection import parse_address
from weir.p4runtime.messages import config, rpc, v1
from weir.p4runtime.p4info import ITEMS_MOST, P4Info
from weir.p4runtime.values import (
    P4RuntimeError,
    Varbit,
    decode_data,
    encode_data,
    format_value,
    from_bytes,
    signed_from_bytes,
    signed_to_bytes,
    to_bytes,
)

FILE = Path(__file__).with_name("p4info_everything.txtpb")
INFO = P4Info.from_file(FILE.read_bytes(), str(FILE))


def bits(width: int) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << width) - 1)


# Values


@given(st.integers(1, 200).flatmap(lambda width: st.tuples(st.just(width), bits(width))))
def test_numbers_are_the_shortest_bytes(case: tuple[int, int]) -> None:
    width, value = case
    data = to_bytes(value, width)
    assert from_bytes(data, width) == value
    assert len(data) == 1 or data[0] != 0
    assert from_bytes(b"\0\0" + data, width) == value


@given(st.integers(1, 64).flatmap(lambda w: st.tuples(st.just(w), st.integers(-(1 << w - 1), (1 << w - 1) - 1))))
def test_signed_numbers_are_the_shortest_twos_complement(case: tuple[int, int]) -> None:
    width, value = case
    data = signed_to_bytes(value, width)
    assert signed_from_bytes(data, width) == value
    if len(data) > 1:
        with pytest.raises(OverflowError):
            value.to_bytes(len(data) - 1, "big", signed=True)


@pytest.mark.parametrize(("value", "width"), [(-1, 8), (256, 8), (True, 8), ("1", 8), (1.0, 8), (2, 1)])
def test_numbers_that_do_not_fit_are_refused(value: object, width: int) -> None:
    with pytest.raises(P4RuntimeError, match=re.escape(repr(value))):
        to_bytes(value, width)


@pytest.mark.parametrize(("value", "width"), [(-129, 8), (128, 8), (True, 8)])
def test_signed_numbers_that_do_not_fit_are_refused(value: object, width: int) -> None:
    with pytest.raises(P4RuntimeError, match=r"int<8>, -128 \.\. 127"):
        signed_to_bytes(value, width)


def test_empty_and_wide_bytes_are_refused() -> None:
    for decoder in (from_bytes, signed_from_bytes):
        with pytest.raises(P4RuntimeError, match="no bytes"):
            decoder(b"", 8)
        with pytest.raises(P4RuntimeError, match="does not fit"):
            decoder(b"\x02\x00", 9 if decoder is from_bytes else 8)


@pytest.mark.parametrize("width", [9, 32, 48, 128])
@given(data=st.data())
def test_what_people_read_is_the_value(width: int, data: st.DataObject) -> None:
    value = data.draw(bits(width))
    read = {48: lambda text: int(text.replace(":", ""), 16), 128: lambda text: int(IPv6Address(text))}
    assert read.get(width, int)(format_value(value, width)) == value
    if width == 32:
        assert int(IPv4Address(format_value(value, width, is_address=True))) == value


# P4 data

LABEL = st.fixed_dictionaries({"value": bits(20), "offset": st.integers(-128, 127)})
MAYBE_LABEL = st.none() | LABEL
STATE = st.fixed_dictionaries(
    {
        "port": bits(9),
        "error_us": st.integers(-(1 << 25), (1 << 25) - 1),
        "on": st.booleans(),
        "label": MAYBE_LABEL,
        "stack": st.lists(MAYBE_LABEL, min_size=2, max_size=2),
        "either": st.none() | st.tuples(st.just("a"), LABEL),
        "row": st.sampled_from(["first", "second"]) | st.integers(3, 255) | st.just(0),
        "mode": st.sampled_from(["fast", "slow"]),
        "why": st.sampled_from(["NoError", "PacketTooShort"]),
        "id": bits(33),
        "pair": st.tuples(bits(1), st.builds(Varbit, bits(24), st.integers(24, 40))),
    }
)
SPEC = INFO.registers["state"].message.type_spec
TYPES = INFO.message.type_info


@given(STATE)
def test_data_of_every_type_survives(state: dict) -> None:
    encoded = encode_data(state, SPEC, TYPES)
    assert decode_data(type(encoded).FromString(encoded.SerializeToString()), SPEC, TYPES) == state


@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        ("port", 512, "9 bits"),
        ("error_us", 1 << 25, "int<26>"),
        ("on", 1, "True or False"),
        ("label", {"value": 1}, "exactly the members value, offset"),
        ("stack", [None], "1 members, must be 2"),
        ("either", ("b", {}), "no member 'b'"),
        ("mode", "medium", "must be one of fast, slow"),
        ("why", "NoReason", "must be one of NoError"),
        ("pair", (1,), "1 members, must be 2"),
        ("pair", (1, 2), "must be a Varbit"),
    ],
)
def test_data_of_another_type_is_refused(member: str, value: object, message: str) -> None:
    state = {
        "port": 1, "error_us": 0, "on": True, "label": None, "stack": [None, None], "either": None, "row": "first",
        "mode": "fast", "why": "NoError", "id": 1, "pair": (1, Varbit(1, 8)),
    }  # fmt: skip
    encode_data(state, SPEC, TYPES)
    with pytest.raises(P4RuntimeError, match=re.escape(message)):
        encode_data(state | {member: value}, SPEC, TYPES)


def test_data_the_p4info_does_not_say_is_refused() -> None:
    with pytest.raises(P4RuntimeError, match="the device sent bitstring where the P4Info says struct"):
        decode_data(v1.P4Data(bitstring=b"\1"), SPEC, TYPES)
    with pytest.raises(P4RuntimeError, match="0 members, must be 11"):
        decode_data(v1.P4Data(struct=v1.P4StructLike()), SPEC, TYPES)


# Entities

FORWARD = st.builds(e.Call, st.just("MyIngress.forward"), st.fixed_dictionaries({"port": bits(9), "dmac": bits(48)}))
DROP = st.just(e.Call("drop"))
COUNT = st.builds(e.Count, bits(63), bits(63))
RATES = st.builds(e.MeterRates, bits(40), bits(40), bits(40), bits(40))


def lpm(width: int) -> st.SearchStrategy[e.Lpm]:
    return st.tuples(bits(width), st.integers(1, width)).map(
        lambda c: e.Lpm(c[0] >> (width - c[1]) << (width - c[1]), c[1])
    )


def ternary(width: int) -> st.SearchStrategy[e.Ternary]:
    return st.tuples(bits(width), st.integers(1, (1 << width) - 1)).map(lambda c: e.Ternary(c[0] & c[1], c[1]))


def ranges(width: int) -> st.SearchStrategy[e.Range]:
    full = (0, (1 << width) - 1)
    return st.tuples(bits(width), bits(width)).map(sorted).filter(lambda c: tuple(c) != full).map(lambda c: e.Range(*c))


ROUTE = st.builds(
    e.TableEntry,
    table=st.just("MyIngress.ipv4_lpm"),
    match=st.fixed_dictionaries({}, optional={"hdr.ipv4.dst": lpm(32)}),
    action=FORWARD | DROP,
    metadata=st.binary(max_size=8),
    idle_timeout_ns=bits(40),
    counter=st.none() | COUNT,
    meter=st.none() | RATES,
)
ACL = st.builds(
    e.TableEntry,
    table=st.just("MyIngress.acl"),
    match=st.fixed_dictionaries(
        {"port": st.builds(e.Exact, bits(9))},
        optional={"dst": ternary(128), "l4": ranges(16), "tos": st.builds(e.Optional, bits(8)), "src": ternary(32)},
    ),
    action=FORWARD | DROP,
    priority=st.integers(1, 2**31 - 1),
)
WEIGHTED = st.builds(e.Weighted, FORWARD, st.integers(1, 16), st.none() | bits(32))
ECMP = st.builds(
    e.TableEntry,
    table=st.just("MyIngress.ecmp"),
    match=st.fixed_dictionaries({"group": st.builds(e.Exact, bits(16))}),
    action=st.builds(e.Member, st.integers(1, 99))
    | st.builds(e.Group, st.integers(1, 99))
    | st.builds(e.OneShot, st.lists(WEIGHTED, min_size=1, max_size=4).map(tuple)),
)
DEFAULT = st.builds(
    e.TableEntry,
    table=st.just("MyIngress.ipv4_lpm"),
    action=st.none() | st.just(e.Call("NoAction")) | FORWARD,
    is_default=st.just(True),
)
INDEX = st.none() | bits(20)
REPLICAS = st.lists(st.builds(e.Replica, bits(9), bits(16)), max_size=4).map(tuple)
GROUP_MEMBER = st.builds(e.GroupMember, bits(31), bits(10), st.none() | bits(32))
ENTITY = (
    ROUTE
    | ACL
    | ECMP
    | DEFAULT
    | st.builds(e.ProfileMember, st.just("MyIngress.selector"), bits(31), st.none() | FORWARD)
    | st.builds(e.ProfileGroup, st.just("MyIngress.selector"), bits(31), st.lists(GROUP_MEMBER).map(tuple), bits(10))
    | st.builds(e.CounterEntry, st.just("MyIngress.drops"), INDEX, st.none() | COUNT)
    | st.builds(e.DirectCounterEntry, ROUTE, st.none() | COUNT)
    | st.builds(e.MeterEntry, st.just("MyIngress.rate"), INDEX, st.none() | RATES)
    | st.builds(e.DirectMeterEntry, ROUTE, st.none() | RATES)
    | st.builds(e.RegisterEntry, st.just("MyIngress.state"), INDEX, st.none() | STATE)
    | st.builds(e.MulticastGroup, bits(16), REPLICAS)
    | st.builds(e.CloneSession, bits(16), REPLICAS, bits(3), bits(16))
    | st.builds(e.DigestConfig, st.just("aqm_state"), bits(40), bits(20), bits(40))
    | st.builds(
        e.ValueSet,
        st.just("MyParser.types"),
        st.lists(st.fixed_dictionaries({"type": st.builds(e.Exact, bits(16))}), max_size=4).map(tuple),
    )
)


@given(ENTITY)
def test_every_entity_survives_the_wire(entity: e.Entity) -> None:
    message = codec.encode(entity, INFO)
    wire = type(message).FromString(message.SerializeToString())
    assert codec.decode(wire, INFO) == entity
    assert "\n" not in labels.describe(entity, INFO)


def test_short_names_find_what_only_one_has() -> None:
    assert INFO.tables["ipv4_lpm"] is INFO.tables["MyIngress.ipv4_lpm"]
    assert INFO.actions["forward"].name == "MyIngress.forward"
    assert INFO.tables["ecmp"].name == "MyIngress.ecmp"  # its alias
    with pytest.raises(P4RuntimeError, match=r"no table 'ipv4_lmp'; did you mean .*ipv4_lpm\?"):
        INFO.tables["ipv4_lmp"]
    with pytest.raises(P4RuntimeError, match="no digest 'x'; it has aqm_state"):
        INFO.digests["x"]
    with pytest.raises(P4RuntimeError, match="speaks of table 0x2000009"):
        INFO.tables.by_id(0x2000009)


def test_a_strangers_p4info_is_bounded() -> None:
    """The memory for it does not go by the square of a name's length, nor without a limit by the number of items."""
    table = config.P4Info()
    table.tables.add().preamble.id = 0x2000001
    for parts in (500, 20_000):
        table.tables[0].preamble.name = ".".join("a" * parts)
        tracemalloc.start()
        try:
            if parts == 500:
                assert P4Info(table).tables["a.a"].id == 0x2000001
            else:
                with pytest.raises(P4RuntimeError):
                    P4Info(table).tables  # noqa: B018
            assert tracemalloc.get_traced_memory()[1] < 256 * len(table.tables[0].preamble.name)
        finally:
            tracemalloc.stop()
    for number in range(ITEMS_MOST):
        table.actions.add().preamble.id = number
    with pytest.raises(P4RuntimeError):
        P4Info(table)


FWD = e.Call("forward", {"port": 1, "dmac": 2})
DST = "hdr.ipv4.dst"
ACL_KEY = {"port": e.Exact(1)}


@pytest.mark.parametrize(
    ("entity", "message"),
    [
        (e.TableEntry("ipv4_lpm", {"dst": e.Lpm(0, 8)}, FWD), "table ipv4_lpm: no field 'dst'; it has hdr.ipv4.dst"),
        (e.TableEntry("ipv4_lpm", {DST: e.Exact(1)}, FWD), "field hdr.ipv4.dst: Exact(value=1): must be lpm"),
        (e.TableEntry("ipv4_lpm", {DST: e.Lpm(0, 33)}, FWD), "prefix length 33: must be 1 .. 32"),
        (e.TableEntry("ipv4_lpm", {DST: e.Lpm(0, 0)}, FWD), "prefix length 0: must be 1 .. 32"),
        (e.TableEntry("ipv4_lpm", {DST: e.Lpm(0x0A000001, 8)}, FWD), "10.0.0.1/8: bits beyond the prefix"),
        (e.TableEntry("ipv4_lpm", {DST: e.Lpm(1 << 32, 32)}, FWD), "whole number of 32 bits"),
        (e.TableEntry("ipv4_lpm", {}, FWD, priority=1), "priority 1: must be 0"),
        (e.TableEntry("ipv4_lpm", {}, e.Call("NoAction")), "action NoAction is not allowed here"),
        (e.TableEntry("ipv4_lpm", {}, e.Call("fly")), "no action 'fly'"),
        (e.TableEntry("ipv4_lpm", {}, e.Call("forward", {"port": 1})), "missing parameter 'dmac'; it has port, dmac"),
        (
            e.TableEntry("ipv4_lpm", {}, e.Call("forward", {"port": 1, "dmac": 1, "x": 1})),
            "action forward: no parameter 'x'",
        ),
        (e.TableEntry("ipv4_lpm", {}, e.Call("forward", {"port": 512, "dmac": 0})), "parameter port: 512: must be"),
        (e.TableEntry("ipv4_lpm", {DST: e.Lpm(0, 1)}, FWD, is_default=True), "a default action has no match"),
        (e.TableEntry("acl", {"tos": e.Optional(1)}, FWD, priority=1), "field port is missing; an exact field"),
        (e.TableEntry("acl", ACL_KEY, FWD), "table acl: priority 0: must be above 0"),
        (e.TableEntry("acl", ACL_KEY | {"dst": e.Ternary(1, 0)}, FWD, 1), "mask 0: leave the field out"),
        (e.TableEntry("acl", ACL_KEY | {"dst": e.Ternary(3, 1)}, FWD, 1), "0x3 &&& 0x1: bits outside the mask"),
        (e.TableEntry("acl", ACL_KEY | {"l4": e.Range(2, 1)}, FWD, 1), "2 .. 1: low is above high"),
        (e.TableEntry("acl", ACL_KEY | {"l4": e.Range(0, 65535)}, FWD, 1), "every value: leave the field out"),
        (e.TableEntry("nothing"), "no table 'nothing'"),
        (e.TableEntry(None, {"x": e.Exact(1)}), "must name its table"),
        (e.CounterEntry("drops", -1), "index -1: must be 0 or more"),
        (e.RegisterEntry("state", 0, 5), "register state: struct state_t: 5: must have exactly"),
        (e.ValueSet("types", ({"kind": e.Exact(1)},)), "value set types: no field 'kind'"),
    ],
)
def test_what_can_not_be_said_is_named(entity: e.Entity, message: str) -> None:
    with pytest.raises(P4RuntimeError, match=re.escape(message)):
        codec.encode(entity, INFO)


def test_entities_in_words() -> None:
    route = e.TableEntry("ipv4_lpm", {DST: e.Lpm(0x0A000000, 8)}, FWD)
    assert labels.describe(route, INFO) == "table ipv4_lpm 10.0.0.0/8"
    assert labels.describe(e.TableEntry("ipv4_lpm", is_default=True), INFO) == "table ipv4_lpm default action"
    assert labels.describe_call(FWD, INFO) == "forward(port=1, dmac=00:00:00:00:00:02)"
    key = {"port": e.Exact(3), "dst": e.Ternary(0x20, 0xF0), "l4": e.Range(1, 5)}
    shown = "table acl port=3, dst=0x20&&&0xf0, l4=1..5, priority 7"
    assert labels.describe(e.TableEntry("acl", key, FWD, 7), INFO) == shown
    assert labels.describe(e.CounterEntry("drops", 3), INFO) == "counter drops[3]"
    assert labels.describe(e.RegisterEntry("state"), INFO) == "register state[all]"
    assert labels.describe(e.DirectCounterEntry(route), INFO) == "counter of table ipv4_lpm 10.0.0.0/8"


def test_replicas_by_bytes_are_read_too() -> None:
    message = v1.Entity()
    group = message.packet_replication_engine_entry.multicast_group_entry
    group.multicast_group_id = 1
    group.replicas.add(port=b"\x01\x00", instance=2)
    assert codec.decode(message, INFO) == e.MulticastGroup(1, (e.Replica(256, 2),))


def test_what_the_p4info_does_not_know_is_refused() -> None:
    message = codec.encode(e.TableEntry("ipv4_lpm", {DST: e.Lpm(0, 8)}, FWD), INFO)
    message.table_entry.match[0].field_id = 9
    with pytest.raises(P4RuntimeError, match="table ipv4_lpm: the device sent field 9"):
        codec.decode(message, INFO)
    with pytest.raises(P4RuntimeError, match="an empty entity"):
        codec.decode(v1.Entity(), INFO)


def test_p4info_files_of_both_kinds(tmp_path: Path) -> None:
    binary = INFO.message.SerializeToString()
    assert P4Info.from_file(binary, "x").message == INFO.message
    with pytest.raises(P4RuntimeError, match="x: not a P4Info, neither text"):
        P4Info.from_file(b"\xff\xffnonsense", "x")


# The client's pure parts


@given(st.integers(0, (1 << 128) - 1))
def test_election_ids(number: int) -> None:
    assert client.from_uint128(client.to_uint128(number)) == number


def test_update_errors_are_told_apart() -> None:
    status = rpc.Status(code=2)
    status.details.add().Pack(v1.Error(canonical_code=0))
    status.details.add().Pack(v1.Error(canonical_code=6, message="it is there"))
    details = status.SerializeToString()
    assert client.update_errors(details, 2) == [("OK", ""), ("ALREADY_EXISTS", "it is there")]
    assert client.update_errors(details, 3) is None
    assert client.update_errors(b"\xff\xff", 2) is None
    status.details[0].Pack(rpc.Status())
    assert client.update_errors(status.SerializeToString(), 2) is None
    failure = client.Failure(16, "insert table ipv4_lpm 10.0.0.0/8", "ALREADY_EXISTS", "it is there")
    assert str(failure) == "update 17 (insert table ipv4_lpm 10.0.0.0/8): ALREADY_EXISTS: it is there"
    error = client.WriteError([str(failure)], 20, list(range(16)), [], [failure])
    assert str(error).endswith("it is there; 16 of 20 updates applied")


@given(bits(9), bits(7))
def test_packet_metadata(port: int, reason: int) -> None:
    header = INFO.packet_headers["packet_in"]
    values = {"ingress_port": port, "reason": reason}
    assert client.decode_metadata(header, client.encode_metadata(header, values)) == values
    with pytest.raises(P4RuntimeError, match="exactly the fields ingress_port, reason"):
        client.encode_metadata(header, {"ingress_port": port})


@given(st.lists(STATE, max_size=3))
def test_digest_lists(states: list[dict]) -> None:
    message = v1.DigestList(digest_id=INFO.digests["aqm_state"].id, list_id=5, timestamp=7)
    message.data.extend(encode_data(state, SPEC, TYPES) for state in states)
    assert client.decode_digests(message, INFO) == client.DigestList("aqm_state", 5, 7, states)


@pytest.mark.parametrize(
    ("address", "where"),
    [
        ("127.0.0.1:9559", ("127.0.0.1", 9559)),
        ("s1.example.org:1", ("s1.example.org", 1)),
        ("[fe80::1%eth0]:65535", ("fe80::1%eth0", 65535)),
        ("unix:run/s1", "run/s1"),
        ("unix:///run/s1", "/run/s1"),
    ],
)
def test_addresses(address: str, where: object) -> None:
    assert parse_address(address) == where


@pytest.mark.parametrize(
    "address", ["", "nonsense", "http://127.0.0.1:9559", "::1:9559", "a:0", "a:65536", "a:b", ":1", "unix:", "a b:1"]
)
def test_what_is_no_address_is_told_what_would_be_one(address: str) -> None:
    with pytest.raises(P4RuntimeError, match=re.escape(f"address {address!r}: must be HOST:PORT")):
        client.Client(address)


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        client.DeviceError, match=r"to unix:.*none \(without TLS\) .*: no P4Runtime server answers there"
    ):
        client.Client(f"unix:{tmp_path}/none", connect_timeout_s=0.2)
    with pytest.raises(P4RuntimeError, match="a client certificate and its key"):
        client.Client(f"unix:{tmp_path}/none", tls=client.Tls(cert=tmp_path / "c"))
    with pytest.raises(P4RuntimeError, match="cannot read the CA"):
        client.Client(f"unix:{tmp_path}/none", tls=client.Tls(ca=tmp_path / "c"))
    with pytest.raises(P4RuntimeError, match="election id 0"):
        client.Client(f"unix:{tmp_path}/none", election_id=0)
