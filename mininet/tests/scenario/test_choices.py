# SPDX-License-Identifier: Apache-2.0
"""[[runs]]: which cases have seeds of their own, which are run with --all only, and each mistake reported."""

import pytest

from weirlab.scenario.errors import ScenarioError

GOOD = """\
[scenario]
name = "small"
title = "Small"
topology = "edge"
duration_s = 10
seeds = 2
[bottleneck]
rate_mbit_s = 16
delay_ms = 5
[transfer]
bytes = 1000
[variants.names]
carry = "names"
[variants.unicast]
carry = "unicast"
[sweep]
"transfer.receivers" = [1, 2, 4]
"transfer.bytes" = [1000, 2000]
[[runs]]
"transfer.receivers" = [2, 4]
"transfer.bytes" = 1000
seeds = 4
[[runs]]
"transfer.bytes" = [2000]
only_with_all = true
"""


def seeds(scenario, label, **options):
    return [run.seed for run in scenario.runs(**options) if run.variant == label]


def test_cases_have_seeds_of_their_own_and_some_wait_for_all(load):
    scenario = load(GOOD)
    assert seeds(scenario, "names,receivers=1,bytes=1000") == [1, 2]
    assert seeds(scenario, "unicast,receivers=4,bytes=1000") == [1, 2, 3, 4]
    assert seeds(scenario, "names,receivers=1,bytes=2000") == []
    assert seeds(scenario, "names,receivers=1,bytes=2000", every=True) == [1, 2]
    assert seeds(scenario, "names,receivers=4,bytes=1000", seeds=1) == [1]
    found = [run.seed for run in scenario.runs()]
    assert found == sorted(found)


def test_a_case_that_is_named_as_a_whole_is_run_without_all(load):
    scenario = load(GOOD)
    label = "names,receivers=1,bytes=2000"
    assert [run.variant for run in scenario.runs(only=label)] == [label, label]
    assert {run.spec["transfer"]["bytes"] for run in scenario.runs(only="names")} == {1000}


def test_nothing_left_is_told(load):
    scenario = load(GOOD.replace('"transfer.bytes" = [2000]', '"transfer.bytes" = [1000, 2000]'))
    with pytest.raises(ScenarioError, match="give --all"):
        scenario.runs()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"transfer.bytes" = [2000]\n', '"transfer.byte" = 2000\n', "runs.1.transfer.byte: not a key of [sweep]"),
        ('"transfer.bytes" = [2000]\n', '"transfer.bytes" = 3000\n', "runs.1.transfer.bytes: 3000 is not in [sweep]"),
        ('"transfer.bytes" = [2000]\n', '"transfer.bytes" = []\n', "runs.1.transfer.bytes: an empty list"),
        ("seeds = 4", "seeds = 0", "runs.0.seeds: 0 is not valid"),
        ("seeds = 4", "seeds = [1, 1]", "runs.0.seeds: an empty list or a seed twice"),
        ("seeds = 4\n", "", "runs.0: says nothing; write seeds or only_with_all = true"),
        ("only_with_all = true", "only_with_all = 1", "runs.1.only_with_all: 1 is not valid"),
        ("[[runs]]\n", "", "runs"),
    ],
)
def test_each_mistake_is_told(load, old, new, said):
    assert old in GOOD
    with pytest.raises(ScenarioError) as error:
        load(GOOD.replace(old, new, 1) if old != "[[runs]]\n" else GOOD.split("[[runs]]")[0] + "[runs]\nseeds = 2\n")
    assert said in str(error.value)
