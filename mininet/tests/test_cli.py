# SPDX-License-Identifier: Apache-2.0
"""Help and version of `./run`."""

import pytest

from weirlab import cli
from weirlab.bench import machine
from weirlab.bench.benches import BENCHES
from weirlab.run.demo import PARTS, demo_runs
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


def test_options_behind_one_benchmark_are_its_own(monkeypatch, capsys):
    calls = []
    monkeypatch.setattr(machine, "busy_share", lambda: 0.0)
    monkeypatch.setitem(BENCHES, "xdp", lambda as_json, own=(): calls.append((as_json, list(own))) or 0)
    assert cli.main(["bench", "xdp", "--cost-only", "--signals", "poll", "--json"]) == 0
    assert cli.main(["bench", "xdp"]) == 0
    assert calls == [(True, ["--cost-only", "--signals", "poll"]), (False, [])]
    assert cli.main(["bench", "law", "--seconds", "1"]) == 2
    assert "law takes no options; xdp, " in capsys.readouterr().err
    for words in (["bench", "xdp", "law", "--cost-only"], ["bench", "--cost-only"], ["demo", "--cost-only"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(words)
        assert caught.value.code == 2
        error = capsys.readouterr().err
        assert "unrecognized arguments: --cost-only" in error
        assert error.startswith(f"usage: {cli.parser().prog} {words[0]} ")


@pytest.mark.parametrize("name", ["demo", "experiment", "together", "evaluate", "replay"])
def test_an_unknown_option_brings_its_commands_usage(name, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main([name, "--nope"])
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith(f"usage: {cli.parser().prog} {name} ")


@pytest.mark.parametrize("words", [["lab"], ["lab", "--"], ["lab", "--kernel", "host"]], ids=" ".join)
def test_a_lab_without_a_command_is_a_wrong_call(words, capsys):
    assert cli.main(words) == 2
    assert capsys.readouterr().err.count("\n") == 1


def demo(*words):
    args = cli.parser().parse_args(["demo", *words])
    return [(scenario.name, runs) for scenario, runs in demo_runs(args.parts or (), args.only, args.seeds)]


def test_help_of_the_demo_has_each_system(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.parser().parse_args(["demo", "--help"])
    assert caught.value.code == 0
    words = " ".join(capsys.readouterr().out.split())
    for name, part in PARTS.items():
        assert f"--{name}" in words
        assert part.about in words


def test_the_demo_shows_all_at_once_beside_nothing():
    ((name, runs),) = demo()
    assert name == "together"
    assert [(run.variant, run.seed) for run in runs] == [("all", 1), ("none", 1)]


def test_the_demo_shows_each_system_alone():
    shown = demo(*(f"--{name}" for name in PARTS))
    parts = [part for first in PARTS.values() for part in first.chain()]
    assert [name for name, _ in shown] == [part.scenario for part in parts]
    for part, (_, runs) in zip(parts, shown, strict=True):
        assert {run.seed for run in runs} == set(range(1, part.seeds + 1))
        labels = list(dict.fromkeys(run.variant for run in runs))
        assert part.variants is None or sorted(labels) == sorted(part.variants)


def test_the_demo_of_queues_has_downloads_with_ecn_and_without():
    runs = [(name, run.variant) for name, runs in demo("--aqm", "--seeds", "1") for run in runs]
    assert runs[-2:] == [("quic-ecn", "cubic,loss_percent=0"), ("quic-ecn", "cubic-ecn,loss_percent=0")]


def test_the_demo_takes_variants_of_any_of_its_scenarios():
    ((name, runs),) = demo("--aqm", "--cc", "--only", "pie", "--seeds", "1")
    assert (name, [run.variant for run in runs]) == ("pid-delay-table2", ["pie"])
    with pytest.raises(ScenarioError, match=r"this demo has no variant 'pi'; write one of pfifo, pie, "):
        demo("--aqm", "--only", "pi")
