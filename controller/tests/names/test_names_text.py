# SPDX-License-Identifier: Apache-2.0
"""Bits of names, and texts that are no names."""

import json
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import VECTORS

from weir.names import vectors
from weir.names.text import BadName, components, name_bits, prefix_bits, route_bits

PARTS = st.lists(
    st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
        lambda part: part not in (".", "..")
    ),
    min_size=1,
    max_size=7,
)


def test_the_committed_file_equals_what_is_generated() -> None:
    same = (VECTORS / "icn" / "names.json").read_text(encoding="utf-8") == vectors.generate()
    assert same, "out of date: `./run generate`"


def test_the_file_has_what_its_readers_need() -> None:
    made = json.loads(vectors.generate())
    assert len(made["names"]) > 20
    assert any("0001" in (n["prefix"][i : i + 4] for i in (0, 4, 8, 12)) for n in made["names"])
    for entry in made["names"]:
        assert entry["name"] == sha256(entry["text"].encode()).hexdigest()[:16]


@pytest.mark.parametrize("text", [text for text, _ in vectors.REFUSED])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(BadName):
        name_bits(text)
    with pytest.raises(BadName):
        prefix_bits(text)


def test_half_a_surrogate_is_no_text() -> None:
    with pytest.raises(BadName, match="UTF-8"):
        components("/\ud800")


def test_all_names_begin_with_the_root() -> None:
    assert route_bits("/") == (0, 0)


def test_a_route_has_four_components_at_most() -> None:
    assert route_bits("/a/b/c/d")[1] == 64
    with pytest.raises(BadName, match="4"):
        route_bits("/a/b/c/d/e")


@given(PARTS)
def test_a_prefix_is_the_beginning_of_all_names_under_it(parts: list[str]) -> None:
    text = "/" + "/".join(parts)
    if len(text.encode()) > 255:
        return
    assert components(text) == tuple(parts)
    for length in range(1, min(len(parts), 4) + 1):
        bits, counted = route_bits("/" + "/".join(parts[:length]))
        mask = (1 << 64) - (1 << 64 - counted)
        assert counted == 16 * length
        assert bits == prefix_bits(text) & mask
    assert all((prefix_bits(text) >> 48 - 16 * i & 0xFFFF != 0) == (i < len(parts)) for i in range(4))
