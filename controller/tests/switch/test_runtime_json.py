# SPDX-License-Identifier: Apache-2.0
"""Runtime files of p4lang's tutorials as entities, and their errors."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.commands import p4 as cli
from weir.p4runtime.client import Update
from weir.p4runtime.entities import (
    Call,
    CloneSession,
    Exact,
    Lpm,
    MulticastGroup,
    Optional,
    Range,
    Replica,
    TableEntry,
    Ternary,
)
from weir.p4runtime.p4info import P4Info
from weir.settings import SettingsError
from weir.switch import runtime_json

P4INFO = Path(__file__).parents[1] / "p4runtime" / "p4info_everything.txtpb"
INFO = P4Info.from_file(P4INFO.read_bytes(), "everything")
FILES = {"target": "bmv2", "p4info": P4INFO.name, "bmv2_json": P4INFO.name}
DROP = {"action_name": "drop", "action_params": {}}
FORWARD = {"action_name": "MyIngress.forward", "action_params": {"port": 2, "dmac": "08:00:00:00:01:11"}}
ROUTE = {"table": "MyIngress.ipv4_lpm", "match": {"hdr.ipv4.dst": ["10.0.1.0", 24]}, **FORWARD}
ACL = {
    "table": "MyIngress.acl",
    "match": {"port": 1, "dst": ["2001:db8::", "ffff:ffff::"], "l4": [80, 90], "tos": [-1], "src": ["10.0.0.0", 0]},
    "priority": 7,
    **DROP,
}


def updates(**parts: Any) -> list[Update]:
    text = json.dumps(FILES | parts)
    return runtime_json.updates(runtime_json.loads(text, "s1.json", (P4INFO.parent,)), INFO)


def test_entries_of_each_kind() -> None:
    replicas = [{"egress_port": 3, "instance": 1}, {"egress_port": 4}]
    found = updates(
        table_entries=[ROUTE, ACL, {"table": "ipv4_lpm", "default_action": True, **DROP}],
        multicast_group_entries=[{"multicast_group_id": 1, "replicas": replicas}],
        clone_session_entries=[{"clone_session_id": 100, "replicas": replicas[:1], "packet_length_bytes": 128}],
    )
    call = Call("MyIngress.forward", {"port": 2, "dmac": 0x080000000111})
    match = {
        "port": Exact(1),
        "dst": Ternary(0x20010DB8 << 96, 0xFFFFFFFF << 96),
        "l4": Range(80, 90),
        "tos": Optional(255),
    }
    assert found == [
        Update.insert(TableEntry("MyIngress.ipv4_lpm", {"hdr.ipv4.dst": Lpm(0x0A000100, 24)}, call)),
        Update.insert(TableEntry("MyIngress.acl", match, Call("drop"), 7)),
        Update.modify(TableEntry("MyIngress.ipv4_lpm", {}, Call("drop"), is_default=True)),
        Update.insert(MulticastGroup(1, (Replica(3, 1), Replica(4)))),
        Update.insert(CloneSession(100, (Replica(3, 1),), truncate_bytes=128)),
    ]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"target": "tofino"}, "s1.json: target: 'tofino': must be 'bmv2'"),
        ({"tables": []}, "s1.json: tables: unknown key; did you mean table_entries?"),
        ({"p4info": "none.txtpb"}, "s1.json: p4info: no file {folder}/none.txtpb; compile the program first"),
        ({"bmv2_json": 5}, "s1.json: bmv2_json: 5; must be text"),
        ({"table_entries": {}}, "s1.json: table_entries: must be a list, [...]"),
        ({"table_entries": [ROUTE, []]}, "s1.json: table_entries[1]: must be an object, {{...}}"),
        ({"table_entries": [ROUTE | {"table": "ipv4"}]}, "table_entries[0]: the program has no table 'ipv4'; did"),
        ({"table_entries": [ROUTE | {"match": {"dst": 1}}]}, "table_entries[0]: match: dst: unknown key; must be one"),
        ({"table_entries": [ROUTE | {"match": {"hdr.ipv4.dst": 1}}]}, "hdr.ipv4.dst: 1: must be [value, prefix leng"),
        ({"table_entries": [ROUTE | {"match": {"hdr.ipv4.dst": ["::1", 24]}}]}, "'::1': an address of 128 bits; must"),
        ({"table_entries": [ROUTE | {"match": {"hdr.ipv4.dst": ["ten", 24]}}]}, "'ten': must be a number, or a MAC, "),
        (
            {"table_entries": [ROUTE | {"match": {"hdr.ipv4.dst": ["10.0.1.1", 24]}}]},
            "table_entries[0]: table ipv4_lpm",
        ),
        ({"table_entries": [ROUTE | {"action_params": {"port": 512, "dmac": 0}}]}, "port: 512: must be an address, or"),
        (
            {"table_entries": [ROUTE | {"action_params": {"port": 1}}]},
            "table_entries[0]: table ipv4_lpm, action forward: miss",
        ),
        ({"table_entries": [ACL | {"priority": 0}]}, "table_entries[0]: priority: missing; table MyIngress.acl need"),
        ({"multicast_group_entries": [{"replicas": []}]}, "multicast_group_entries[0]: multicast_group_id: missing; m"),
        (
            {"clone_session_entries": [{"clone_session_id": 1, "replicas": [{"egress_port": "1"}]}]},
            "clone_session_entries[0]: replicas[0]: egress_port: '1'; must be a whole number of 0 or more",
        ),
    ],
)
def test_an_error_names_file_and_key(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        updates(**parts)
    assert str(caught.value).startswith("s1.json: ")
    assert message.format(folder=P4INFO.parent) in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["10.0.0.1", "::", "a\0b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(ACL)) | st.text(), inner),
)


@given(st.sampled_from([ROUTE, ACL]), st.dictionaries(st.sampled_from(sorted(ACL)), JSON, max_size=2), JSON)
def test_no_entry_ends_without_an_error_of_ours(entry: dict, parts: dict, value: Any) -> None:
    for given_parts in ({"table_entries": [entry | parts]}, {"table_entries": [entry], "p4info": value}):
        with suppress(SettingsError):
            updates(**given_parts)


@given(JSON.map(json.dumps) | st.text())
def test_no_file_ends_without_an_error_of_ours(text: str) -> None:
    with suppress(SettingsError):
        runtime_json.loads(text, "s1.json", (P4INFO.parent,))


def test_a_dry_run_needs_no_switch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s1.json"
    (tmp_path / P4INFO.name).write_bytes(P4INFO.read_bytes())
    file.write_text(json.dumps(FILES | {"table_entries": [ROUTE]}))
    assert cli.main(["load", str(file), "--dry-run"]) == 0
    assert "1 table entries, 0 multicast groups and 0 clone sessions would be loaded" in capsys.readouterr().out
    assert cli.main(["load", f"{file}.none"]) == 2
    assert capsys.readouterr().err.startswith(f"weir p4 load: error: {file}.none: No such file")
