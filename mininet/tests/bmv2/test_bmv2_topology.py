# SPDX-License-Identifier: Apache-2.0
"""Files topology.json of p4lang's tutorials, and errors in them."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.bmv2.topology import HostSpec, LinkSpec, SwitchSpec, TopologyError, load, parse

FILE = {
    "hosts": {"h1": {"ip": "10.0.1.1/24", "mac": "08:00:00:00:01:11", "commands": ["ip route"]}, "h2": {}},
    "switches": {"s1": {"runtime_json": "s1.json", "cpu_port": 255}, "s2": {"cli_input": "s2.txt", "cpu_port": "510"}},
    "links": [["h1", "s1-p1"], ["s2-p3", "s1-p2", "5ms", 0.5], ["s2-p1", "h2", 2]],
}


def test_hosts_switches_and_links():
    found = parse(json.dumps(FILE), "t.json")
    assert found.hosts == {"h1": HostSpec("10.0.1.1/24", "08:00:00:00:01:11", ("ip route",)), "h2": HostSpec()}
    assert found.switches == {
        "s1": SwitchSpec("s1.json", cpu_port=255),
        "s2": SwitchSpec(cli_input="s2.txt", cpu_port=510),
    }
    assert found.links == (
        LinkSpec((("h1", None), ("s1", 1))),
        LinkSpec((("s2", 3), ("s1", 2)), "5ms", 0.5),
        LinkSpec((("s2", 1), ("h2", None)), "2ms"),
    )


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"hosts": []}, "t.json: hosts: must be an object"),
        ({"hosts": {"h1": {"ip": 5}}}, "t.json: hosts.h1: ip: 5: must be text"),
        ({"hosts": {"h1": {"commands": "ip route"}}}, "t.json: hosts.h1: commands: must be a list of texts"),
        ({"switches": {"s1": {"cpu_port": "-1"}}}, "t.json: switches.s1: cpu_port: '-1': must be a whole number"),
        ({"links": {}}, "t.json: links: must be a list"),
        ({"links": [["h1"]]}, "t.json: links[0]: must be [END, END], [END, END, DELAY] or"),
        ({"links": [["h1", "s1"]]}, "t.json: links[0]: 's1': must be a host, or a switch and its port, SWITCH-pPORT"),
        ({"links": [["h1", "s3-p1"]]}, "t.json: links[0]: 's3-p1': must be a host"),
        ({"links": [["h1", "s1-p1", "soon"]]}, "t.json: links[0]: delay 'soon': must be a number of ms"),
        ({"links": [["h1", "s1-p1", 0, "1"]]}, "t.json: links[0]: rate '1': must be a number of Mbit/s"),
        ({"links": [["h1", "s1-p1"], ["h2", "s1-p1"]]}, "t.json: links[1]: port 1 of s1 has another link"),
    ],
)
def test_an_error_names_file_and_key(part, message):
    with pytest.raises(TopologyError) as caught:
        parse(json.dumps(FILE | part), "t.json")
    assert str(caught.value).startswith(message)


def test_a_file_that_is_no_text_is_named(tmp_path: Path):
    file = tmp_path / "t.json"
    file.write_bytes(b"\xff")
    with pytest.raises(TopologyError, match="not UTF-8 at byte 0"):
        load(file)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["h1", "s1-p1", "\0"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["h1", "s1", "ip", "program"]), inner),
)


@given(st.dictionaries(st.sampled_from(list(FILE)), JSON), st.text())
def test_no_file_ends_without_an_error_of_ours(parts, text):
    for given_text in (json.dumps(FILE | parts), text):
        with suppress(TopologyError):
            parse(given_text, "t.json")
