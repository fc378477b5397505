# SPDX-License-Identifier: Apache-2.0
"""AQMs of qdiscs below the law: `--leaf-aqm off` disables them, detach restores them and nothing else."""

import json
import sys

import pytest

from weirlab import paths
from weirlab.lab.kernels import ExactLab, Job, LabError

REPO = paths.clone()
KINDS = ("fq_codel", "fq_codel with a threshold", "codel", "fq_pie", "pie", "cake", "fq")
NOTHING_TO_DO = ("fq alone", "sfq alone", "pfifo")


def told_by(folder, *parts: str) -> dict[str, list[dict]]:
    """Output of leaf_in_lab.py, by case."""
    if not (REPO / "build" / "bin" / "weir-xdp").exists():
        pytest.skip("weir-xdp is not built; ./run test builds it")
    try:
        lab = ExactLab()
    except LabError as error:
        pytest.skip(str(error))
    script = str(REPO / "tests" / "lab" / "leaf_in_lab.py")
    done = lab.run(Job([sys.executable, script, *parts], folder, wall_limit_s=400))
    assert done.status == 0, done.stderr.decode()
    found: dict[str, list[dict]] = {}
    for line in done.stdout.decode().splitlines():
        case = json.loads(line)
        found.setdefault(case.pop("case"), []).append(case)
    return found


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    parts = ("kinds", "changed", "ensured", "replaced_program", "classes", "refused", "shaped", "advised")
    return told_by(tmp_path_factory.mktemp("leaf"), *parts)


@pytest.mark.parametrize("kind", KINDS)
def test_an_aqm_is_disabled_and_restored(told, kind):
    (case,) = told[kind]
    assert case["attached"]["status"] == case["detached"]["status"] == 0, case
    assert case["listed"] == [{"qdisc": f"{kind.split()[0]} 10:", "class": "5:1"}]
    assert json.loads(case["again"]["stdout"])["did"] == "adopted"
    assert case["after"] == case["before"]
    if kind == "cake":  # tc prints no target
        return
    assert case["during"] != case["before"]
    leaf = case["during"][1]
    assert "ce_threshold" not in leaf
    assert kind == "fq" or f"target {'4s' if 'pie' in kind else '30s'} " in leaf


@pytest.mark.parametrize("kind", NOTHING_TO_DO)
def test_a_leaf_without_an_aqm_stays(told, kind):
    (case,) = told[kind]
    assert case["attached"]["status"] == 0
    assert case["listed"] == []
    assert case["before"] == case["during"] == case["after"]


@pytest.mark.parametrize("change", ["another target", "another leaf", "the leaf removed", "the tree removed"])
def test_a_change_of_another_tool_stays(told, change):
    (case,) = told[change]
    assert case["detached"]["status"] == 0
    assert len(case["detached"]["stderr"].splitlines()) == 1
    assert case["after"] == case["before"]
    assert case["pins"] == ""


def test_the_value_that_nobody_changed_is_restored(told):
    (case,) = told["only a threshold"]
    assert "target 30s ce_threshold 999us" in case["before"][1]
    assert "target 7ms ce_threshold 999us" in case["after"][1]


def test_ensure_disables_again_and_on_restores(told):
    (case,) = told["ensure"]
    assert case["looked"]["status"] == 3
    assert "leaf_aqm" in json.loads(case["looked"]["stdout"])["what"]
    assert case["unchanged"] == case["before"]
    assert json.loads(case["mended"]["stdout"])["what"] == ["leaf_aqm"]
    assert "target 30s" in case["during"][1]
    # of the other tool, which had changed it meanwhile
    assert "target 2ms" in case["after"][1]
    assert json.loads(case["restored"]["stdout"])["what"] == ["leaf_aqm"]


def test_a_new_attachment_in_place_takes_over_what_is_to_be_restored(told):
    (case,) = told["replaced"]
    assert json.loads(case["anew"]["stdout"])["did"] == "replaced"
    assert "target 30s" in case["during"][1]
    assert case["listed"] == [{"qdisc": "fq_codel 10:", "class": "5:1"}]
    assert case["after"] == case["before"]


def test_each_class_has_its_own(told):
    (case,) = told["classes"]
    fq_codel, codel = case["before"][1:]
    assert case["one"]["status"] == case["two"]["status"] == 0
    assert "target 30s" in case["first"][1]
    assert case["first"][2] == codel
    assert all("target 30s" in one for one in case["both"][1:])
    assert case["second"][1] == fq_codel
    assert "target 30s" in case["second"][2]
    assert case["after"] == case["before"]


@pytest.mark.parametrize("kind", ["red", "sfq"])
def test_one_that_can_not_be_restored_is_rejected(told, kind):
    (case,) = told[kind]
    assert case["attached"]["status"] == 1
    assert f"--leaf-aqm off: {kind} 10:" in case["attached"]["stderr"]
    assert case["after"] == case["before"]
    assert case["pins"] == ""


def test_flow_queues_alone_are_rejected_with_the_option(told):
    (case,) = told["plain"]
    assert case["attached"]["status"] == 1
    assert "--leaf-aqm off" in case["attached"]["stderr"]
    assert case["whole"]["status"] == 0


def test_classes_of_drr_need_whole_tree_besides(told):
    (case,) = told["drr"]
    assert case["one"]["status"] == 1
    assert case["attached"]["status"] == 0
    assert "target 30s" in case["during"][1]
    assert case["after"] == case["before"]


@pytest.mark.parametrize("case", ["flows", "bands"])
def test_a_shaper_with_flow_queues(told, case):
    (case,) = told[case]
    assert case["attached"]["status"] == case["detached"]["status"] == 0
    [leaf] = [line for line in case["during"] if "fq_codel" in line]
    assert "fq_codel 7e1e:" in leaf
    assert "target 30s" in leaf
    assert case["status"]["flow_queues"] is True
    assert "trouble" not in case["status"]
    assert json.loads(case["again"]["stdout"])["what"] == ["shaper"]
    assert json.loads(case["mended"]["stdout"])["what"] == ["shaper"]
    assert [line for line in case["later"] if "fq_codel" in line] == [leaf]
    assert case["after"] == case["before"]


def test_a_terminal_gets_the_advice(told):
    assert "--leaf-aqm off" in told["advised"][0]["text"]
    assert "--leaf-aqm off" not in told["not advised"][0]["text"]


def test_killed_at_any_system_call_it_leaves_nothing_that_detach_does_not_restore(tmp_path):
    cases = told_by(tmp_path, "killed")["killed"]
    assert {True, False} == {"30s" in "".join(case["during"]) for case in cases if case["command"] == "attach"}
    for case in cases:
        assert case["after"] == case["before"], case
        assert case["pins"] == "", case
