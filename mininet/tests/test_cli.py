# SPDX-License-Identifier: Apache-2.0
"""What `./run` says of itself."""

import pytest

from weirlab import cli
from weirlab.bench.benches import BENCHES
from weirlab.scenario.errors import ScenarioError


def test_help_says_what_each_benchmark_measures(capsys):
    assert set(cli.BENCH_HELP) == set(BENCHES)
    with pytest.raises(SystemExit) as caught:
        cli.parser().parse_args(["bench", "switch", "--help"])
    assert caught.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    for name, text in cli.BENCH_HELP.items():
        assert f"  {name:8}{text}" in lines
    assert "BMv2 where simple_switch and p4c-bm2-ss are on PATH" in next(x for x in lines if x.startswith("  switch"))


def test_the_demo_has_what_it_shows():
    args = cli.parser().parse_args(["demo"])
    chosen = cli.demo_runs(args)
    assert [scenario.name for scenario, _ in chosen] == list(cli.DEMO)
    for scenario, runs in chosen:
        assert {run.seed for run in runs} == {1, 2, 3}
        labels = cli.DEMO[scenario.name] or list(scenario.cases)
        assert [run.variant for run in runs if run.seed == 1] == [label for label in scenario.cases if label in labels]


def test_the_demo_takes_variants_of_any_of_its_scenarios():
    args = cli.parser().parse_args(["demo", "--only", "pie", "--seeds", "1"])
    assert [(s.name, [run.variant for run in runs]) for s, runs in cli.demo_runs(args)] == [
        ("pid-delay-table2", ["pie"])
    ]
    with pytest.raises(ScenarioError, match=r"the demo has no variant 'pi'; write one of pfifo, pie, "):
        cli.demo_runs(cli.parser().parse_args(["demo", "--only", "pi"]))
