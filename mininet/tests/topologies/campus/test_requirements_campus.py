# SPDX-License-Identifier: Apache-2.0
"""Requirements on all five together, and the contribution of each."""

import pytest

from weirlab.topologies.campus import requirements
from weirlab.topologies.campus.requirements import MET, MISSED, OPEN

GOOD = {
    "request_p99_ms": 100.0, "voice_delay_p99_ms": 20.0, "upload_mbit_s": 5.0, "upload_rtt_mean_ms": 40.0,
    "publisher_sent_bytes": 10.0, "handover_gap_ptos": 2.0, "bytes_lost_transfers": 0,
}  # fmt: skip
BAD = {
    "request_p99_ms": 400.0, "voice_delay_p99_ms": 400.0, "upload_mbit_s": 4.0, "upload_rtt_mean_ms": 90.0,
    "publisher_sent_bytes": 90.0, "handover_gap_ptos": 9.0, "bytes_lost_transfers": 2,
}  # fmt: skip


def verdicts(found):
    return {(aim.metric, aim.beside): verdict for aim, _, verdict in requirements.answers(found)}


def test_all_aims_are_met_or_missed_by_ratio():
    good = {"all": {1: GOOD, 2: GOOD}, "none": {1: BAD, 2: BAD}, "today": {1: BAD, 2: BAD}}
    assert set(verdicts(good).values()) == {MET}
    bad = {"all": {1: BAD, 2: BAD}, "none": {1: GOOD, 2: GOOD}, "today": {1: GOOD, 2: GOOD}}
    assert set(verdicts(bad).values()) == {MISSED}


def test_an_interval_across_the_bound_leaves_an_aim_open():
    found = {"all": {1: {"request_p99_ms": 30.0}, 2: {"request_p99_ms": 90.0}}}
    found["none"] = {1: {"request_p99_ms": 100.0}, 2: {"request_p99_ms": 100.0}}
    assert verdicts(found)["request_p99_ms", "none"] == OPEN


def test_what_was_not_run_is_not_told():
    assert {beside for _, beside in verdicts({"all": {1: GOOD}, "none": {1: BAD}})} == {"none", ""}
    assert verdicts({"none": {1: BAD}}) == {}


def test_seeds_are_compared_with_themselves():
    value = requirements.ratio({1: {"x": 2.0}, 2: {"x": 40.0}, 3: {"x": 1.0}}, {1: {"x": 1.0}, 2: {"x": 20.0}}, "x")
    assert (value.mean, value.ci95, value.n) == (2.0, 0.0, 2)
    assert requirements.difference({1: {"x": 3.0}}, {1: {"x": None}}, "x").mean is None


def test_a_system_that_makes_another_worse_is_named():
    found = {
        "all": {1: {**GOOD, "upload_mbit_s": 4.0}, 2: {**GOOD, "upload_mbit_s": 4.0}},
        "without-aqm": {1: GOOD, 2: GOOD},
        "without-pbq": {1: {**GOOD, "upload_mbit_s": 3.9}, 2: {**GOOD, "upload_mbit_s": 4.1}},
    }
    assert [(variant, metric) for variant, metric, _ in requirements.costs(found)] == [("without-aqm", "upload_mbit_s")]


def test_a_system_alone_stands_beside_all_together():
    found = {
        "all": {1: {"upload_mbit_s": 2.0, "request_p99_ms": 9.0}, 2: {"upload_mbit_s": 3.0, "request_p99_ms": 9.0}},
        "alone-pbq": {1: {"upload_mbit_s": 4.0}, 2: {"upload_mbit_s": 4.0, "handover_gap_ms": 9.0}},
        "without-pbq": {1: GOOD, 2: GOOD},
    }
    ((variant, metric, alone, together, over),) = requirements.in_company(found)
    assert (variant, metric, alone.mean, together.mean, over.mean) == ("alone-pbq", "upload_mbit_s", 4.0, 2.5, 0.625)
    assert list(requirements.in_company({key: found[key] for key in ("alone-pbq", "without-pbq")})) == []
    assert requirements.left_out(found) == ["without-pbq"]


def test_documents_say_what_was_asked():
    document = requirements.as_documents({"all": {1: GOOD}, "none": {1: BAD}})[0]
    assert document["asked"] == "at most 0.5"
    assert document["mean"] == pytest.approx(0.25)
    assert (document["n"], document["met"]) == (1, MET)
