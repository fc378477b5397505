# SPDX-License-Identifier: Apache-2.0
"""Runs that record qlogs: which they are, how a sender is asked for them, and where they go."""

from types import SimpleNamespace

import pytest

from weirlab import cli
from weirlab.evaluation.command import main_evaluate
from weirlab.evaluation.plan import recording_qlog
from weirlab.evaluation.report import copy_qlogs, without_qlogs
from weirlab.evaluation.suites import load_suite
from weirlab.lab.quic_servers import Server
from weirlab.run.keys import Keys
from weirlab.scenario.errors import ScenarioError


@pytest.mark.parametrize(("control", "is_quic"), [("pbq", True), ("tcp-bbr", False)])
def test_runs_with_qlogs_are_others_and_only_those_of_quic(control, is_quic):
    plan = load_suite("cc", controls=[control])
    (before,), (after,) = (of.chosen([f"table3-loss-2_5/{control}/1"]) for of in (plan, recording_qlog(plan)))
    assert after.spec.get("qlog", False) is is_quic
    assert (Keys().run(before.spec) != Keys().run(after.spec)) is is_quic


def test_a_server_is_asked_by_its_row():
    server = Server("mine", "python3", ("serve",), qlog=("--qlog-dir={qlog}",), controls={"cubic": []})
    given = ("0.0.0.0", 4433, "cert", "key", "root", "folder")
    assert server.command(*given)[1:] == ["serve"]
    assert server.command(*given, qlog="/logs")[1:] == ["serve", "--qlog-dir=/logs"]
    assert Server.of_spec(server.spec("cubic")).qlog == server.qlog


def test_qlogs_go_below_the_report(tmp_path):
    entry = tmp_path / "entry"
    (entry / "qlog" / "server-s1").mkdir(parents=True)
    (entry / "qlog" / "server-s1" / "conn-0.sqlog").write_text("{}")
    runs = [SimpleNamespace(run=SimpleNamespace(scenario="leaving", variant=name, seed=1)) for name in ("pbq", "reno")]
    entries = {"pbq": SimpleNamespace(folder=entry)}
    state = SimpleNamespace(entry=lambda run: entries.get(run.variant))
    for _ in range(2):
        assert copy_qlogs(state, runs, tmp_path / "out") == [tmp_path / "out/qlog/leaving/pbq/seed-1"]
    assert (tmp_path / "out/qlog/leaving/pbq/seed-1/server-s1/conn-0.sqlog").read_text() == "{}"


def test_controls_without_qlogs_are_named(tmp_path):
    (tmp_path / "pbq/qlog/server-s1").mkdir(parents=True)
    (tmp_path / "pbq/qlog/server-s1/conn-0.sqlog").write_text("{}")
    state = SimpleNamespace(entry=lambda run: SimpleNamespace(folder=tmp_path / run.variant))

    def ran(variant, kind):
        return SimpleNamespace(run=SimpleNamespace(variant=variant, spec={"flows": [{"kind": kind}]}))

    runs = [ran("pbq", "quic-download"), ran("mine", "quic-download"), ran("tcp-bbr", "tcp")]
    (line,) = without_qlogs(state, runs)
    assert line.startswith("no qlog of mine:")
    assert without_qlogs(state, [runs[0], runs[2]]) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--suite", "cc", "--qlog", "--from", "somewhere"], "--qlog: records new runs"),
        (["--suite", "cc", "--qlog", "--verify"], "--qlog: records new runs"),
        (["--suite", "cc", "--verify", "--json"], "--verify: runs a sample"),
        (["--verify", "3"], "--verify: matrix publishes no digests"),
    ],
)
def test_options_that_exclude_each_other_are_named(words, said):
    with pytest.raises(ScenarioError, match=said):
        main_evaluate(cli.parser().parse_args(["evaluate", *words]))
