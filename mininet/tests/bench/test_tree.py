# SPDX-License-Identifier: Apache-2.0
"""The tree of switches that `./run bench scale` computes with its costs."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.bench.tree import Costs, Tree, TreeError, by_name, first_full, table, unicast

COSTS = Costs(
    publisher_data_us=7, publisher_member_us=3000, publisher_behind_edge_us=200, edge_member_us=2500, cache_miss_us=11,
    cache_hit_us=5, receiver_data_us=17, switch_interest_us=2.5, switch_merged_us=2, switch_data_us=2.25,
    switch_copy_us=3, switch_ip_us=1.5, switch_io_us=4, sender_packet_us=3, client_packet_us=2.75,
    quic_payload_bytes=1350, quic_acks=0.25,
)  # fmt: skip
SEGMENTS_S = 10e6 / 8 / 1440 * 40 / 39

TREES = st.builds(
    lambda fan_out, depth, part, late, caches, edges: Tree(
        max(1, round(part * fan_out**depth)), fan_out, depth, late=late, caches=caches, edges=edges
    ),
    st.integers(1, 10),
    st.integers(1, 3),
    st.floats(0, 1),
    st.floats(0, 1),
    st.booleans(),
    st.booleans(),
)


def named(levels):
    return {level.name: level for level in levels}


def test_by_name_the_publisher_sends_the_same_for_one_and_for_a_thousand():
    one, many = (named(by_name(Tree(receivers), COSTS))["publisher"] for receivers in (1, 1000))
    assert many.sent == pytest.approx(one.sent)
    assert many.sent == pytest.approx(SEGMENTS_S)


def test_downloads_load_the_publisher_and_the_first_switch_with_each_receiver():
    for level in ("publisher", "switch, level 1"):
        one, many = (named(unicast(Tree(receivers), COSTS))[level] for receivers in (1, 700))
        assert many.sent == pytest.approx(700 * one.sent)
        assert many.busiest_core_share == pytest.approx(700 * one.busiest_core_share)


@given(TREES)
def test_no_packet_is_lost_or_made_between_elements(tree):
    for levels in (by_name(tree, COSTS), unicast(tree, COSTS)):
        sent, received = (sum(getattr(level, way) for level in levels) for way in ("sent", "received"))
        assert sent == pytest.approx(received)
        assert [level.elements for level in levels if level.name == "receiver"] == [tree.receivers]
        assert all(level.sent > 0 for level in levels if level.name != "edge server")


@given(TREES)
def test_every_receiver_gets_every_segment_once(tree):
    receiver = named(by_name(tree, COSTS))["receiver"]
    assert receiver.elements == tree.receivers
    assert receiver.received == pytest.approx(tree.receivers * SEGMENTS_S)


@given(TREES)
def test_interests_that_are_late_never_make_less_work_for_the_publisher(tree):
    publisher = named(by_name(tree, COSTS))["publisher"]
    punctual = named(by_name(replace(tree, late=0.0), COSTS))["publisher"]
    assert publisher.sent >= punctual.sent * (1 - 1e-9)
    assert publisher.sent <= tree.receivers * SEGMENTS_S * (1 + 1e-9)


def test_if_all_are_late_and_nothing_is_kept_the_publisher_answers_each():
    publisher = named(by_name(Tree(300, late=1.0), COSTS))["publisher"]
    assert publisher.sent == pytest.approx(300 * SEGMENTS_S)


def test_caches_keep_late_interests_of_one_site_from_the_publisher():
    late, kept = (named(by_name(Tree(10, late=0.5, caches=caches), COSTS)) for caches in (False, True))
    assert late["publisher"].sent == pytest.approx(SEGMENTS_S * (1 + 0.5 * 9))
    assert kept["publisher"].sent == pytest.approx(SEGMENTS_S)
    assert kept["cache"].busiest_core_share == pytest.approx(SEGMENTS_S * (11 + 0.5 * 9 * 5) / 1e6)


def test_one_receiver_is_the_chain_that_was_measured():
    found = named(by_name(Tree(1, depth=1), COSTS))
    joins_s = 10e6 / 8 / 100e6
    # Publisher: an answer for each segment. Switch: an Interest up, a Data down, each a frame in and a frame out.
    assert found["publisher"].busiest_core_share == pytest.approx((SEGMENTS_S * 7 + joins_s * 3000) / 1e6)
    assert found["switch, level 1"].busiest_core_share == pytest.approx(SEGMENTS_S * (2.5 + 4 + 2.25 + 4) / 1e6)
    assert found["receiver"].busiest_core_share == pytest.approx(SEGMENTS_S * 17 / 1e6)
    packets_s = 10e6 / 8 / 1350
    chain = named(unicast(Tree(1, depth=1), COSTS))
    assert chain["switch, level 1"].busiest_core_share == pytest.approx(packets_s * 1.25 * (1.5 + 4) / 1e6)
    assert chain["publisher"].busiest_core_share == pytest.approx(packets_s * 3 / 1e6)


def test_what_is_full_first_and_at_which_rate():
    rate = 10.0
    name, full_at = first_full(unicast(Tree(1000, rate_mbit_s=rate), COSTS), rate)
    # A packet costs the first switch (1.5 + 4) * 1.25 us, and the publisher 3.
    assert name == "switch, level 1"
    levels = named(unicast(Tree(1000, rate_mbit_s=full_at), COSTS))
    assert levels[name].busiest_core_share == pytest.approx(1)


def test_a_table_has_each_way_for_each_number_of_receivers():
    rows = table([Tree(1), Tree(10)], COSTS)
    assert [(row["receivers"], row["way"]) for row in rows] == [
        (receivers, way) for receivers in (1, 10) for way in ("names", "names, caches and edge servers", "unicast")
    ]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"receivers": 1001}, "must be 1 to 1000"),
        ({"receivers": 0}, "must be 1 to 1000"),
        ({"receivers": 1, "fan_out": 31}, "must be 1 to 30"),
        ({"receivers": 1, "depth": 0}, "must be 1 to 10"),
        ({"receivers": 1, "late": 1.5}, "must be 0 to 1"),
        ({"receivers": 1, "rate_mbit_s": 0}, "above 0"),
    ],
)
def test_a_tree_that_cannot_be_is_refused(wrong, said):
    with pytest.raises(TreeError, match=said):
        Tree(**wrong)


def test_every_cost_counts_somewhere():
    """A cost that changes nothing would be one that was measured for nothing."""
    tree = Tree(100, late=0.25)
    before = table([tree], COSTS)
    for one in fields(Costs):
        assert table([tree], replace(COSTS, **{one.name: getattr(COSTS, one.name) * 2})) != before, one.name
