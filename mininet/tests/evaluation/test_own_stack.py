# SPDX-License-Identifier: Apache-2.0
"""`./run evaluate --suite cc --stack`: a server of one's own as a control, what of the suite runs by default, and which
programs the runs need."""

import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab import cli, paths
from weirlab.evaluation.cc.own_stack import ARGV, check_places, own_stacks
from weirlab.evaluation.command import with_programs
from weirlab.evaluation.suites import load_suite
from weirlab.lab import quic_servers
from weirlab.lab.quic_servers import PLACES, Server
from weirlab.run.keys import Keys
from weirlab.scenario.errors import ScenarioError
from weirlab.scenario.stacks import setup_steps

ROW = """\
[[server]]
name = "Mine"
program = "./mine"
argv = ["-l", "{address}:{port}"]
controls = { fast = ["--fast"], slow = [] }
alpn = "hq-interop"
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "My Server.sh"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def row(tmp_path):
    (tmp_path / "mine").write_text("#!/bin/sh\n")
    (tmp_path / "mine").chmod(0o755)
    (tmp_path / "row.toml").write_text(ROW)
    return tmp_path / "row.toml"


def own(*words, argv=None, alpn=None, path=None):
    return own_stacks([str(word) for word in words], argv, alpn, path)


def test_a_program_is_one_more_control_in_each_group(program):
    found = own(program)
    plan, without = load_suite("cc", own=found), load_suite("cc")
    assert [*plan.controls.stacks] == [*without.controls.stacks, "my-server"]
    assert "my-server" in plan.controls.ours
    scenarios = {run.scenario for run in plan.runs(1) if run.variant == "my-server"}
    there = {run.scenario for run in without.runs(1)}
    assert {name for name in there - scenarios if not name.startswith(("upload", "limited"))} == set()
    (flow, *_) = next(run for run in plan.runs(1) if run.variant == "my-server").spec["flows"]
    assert (flow["stack"], flow["server"]["program"]) == ("my-server", str(program))
    assert flow["server"]["argv"] == ARGV.split()
    assert {run.variant for run in plan.runs(1)} == {*plan.controls.stacks}


def test_a_file_with_a_row_is_a_control_for_each_of_its_own(row):
    plan = load_suite("cc", controls=["pbq"], own=own(row))
    assert [*plan.controls.stacks] == ["pbq", "mine-fast", "mine-slow"]
    servers = {run.variant: run.spec["flows"][0]["server"] for run in plan.runs(1) if run.variant != "pbq"}
    assert servers["mine-fast"]["argv"] == ["-l", "{address}:{port}", "--fast"]
    assert {server["program"] for server in servers.values()} == {str(row.parent / "mine")}


@pytest.mark.parametrize(
    ("word", "options", "said"),
    [
        ("none", {}, "--stack .*none: no such file"),
        ("none.toml", {}, "--stack: .*none.toml: No such file"),
        ("plain", {}, "--stack .*plain: not executable; run chmod"),
        ("mine", {"argv": "--port 4433"}, r"--stack-argv '--port 4433': no \{port\}"),
        ("mine", {"argv": "--port {prot}"}, r"--stack-argv: \{prot\} is unknown; there are \{address\}"),
        ("mine", {"argv": "'{port}"}, "--stack-argv .*No closing quotation"),
        ("mine", {"path": "/bytes/7"}, r"with \{bytes\} for a size"),
        ("mine", {"path": "x"}, "--stack-path 'x': write a path that begins with /"),
        ("mine", {"path": "/{size}"}, "--stack-path"),
        ("row.toml", {"argv": "{port}"}, "--stack-argv is for one --stack PROGRAM; there are 0"),
        ("_.-", {}, "--stack: no name in"),
    ],
)
def test_a_bad_stack_is_reported_with_its_option(row, tmp_path, word, options, said):
    (tmp_path / "plain").write_text("")
    (tmp_path / "_.-").write_text("")
    (tmp_path / "_.-").chmod(0o755)
    with pytest.raises(ScenarioError, match=said):
        own(tmp_path / word, **options)


def test_names_may_not_be_there_twice(row, program, tmp_path):
    with pytest.raises(ScenarioError, match="'my-server' is there twice"):
        own(program, program)
    other = tmp_path / "cubic"
    other.write_text("")
    other.chmod(0o755)
    with pytest.raises(ScenarioError, match="'cubic' is one of the suite's controls"):
        load_suite("cc", own=own(other))
    with pytest.raises(ScenarioError, match="--stack: matrix compares no congestion controls"):
        load_suite("matrix", own=own(program))


def test_a_program_that_a_lab_does_not_see_is_refused():
    with tempfile.NamedTemporaryFile(dir="/tmp", suffix="-server") as file:
        paths.Path(file.name).chmod(0o755)
        with pytest.raises(ScenarioError, match="a lab does not see programs in /tmp; put it into another folder"):
            check_places(own(file.name))


@given(st.lists(st.text(st.characters(exclude_characters="{}", exclude_categories=["C"]), max_size=20), max_size=6))
def test_a_row_in_a_spec_is_the_same_server(words):
    server = Server("one", "/bin/true", ("{port}", *words), controls={"a": words})
    again = Server.of_spec(server.spec("a"))
    assert again.argv == (*server.argv, *words)
    command = again.command("127.0.0.1", 7, "c", "k", "r", "f")
    assert command == ["/bin/true", "7", *words, *words]


def test_a_run_depends_on_the_program_and_not_on_other_controls(row):
    def keys():
        plan = load_suite("cc", controls=["tcp-cubic"], own=own(row))
        return {run.variant: Keys().run(run.spec) for run in plan.chosen(["table3-loss-2_5/*/1"])}

    before = keys()
    (row.parent / "mine").write_text("#!/bin/sh\nexit\n")
    after = keys()
    assert before["tcp-cubic"] == after["tcp-cubic"]
    assert before["mine-fast"] != after["mine-fast"]
    row.write_text(ROW.replace("slow = []", 'slow = ["--slower"]'))
    assert keys()["mine-fast"] == after["mine-fast"]
    assert keys()["mine-slow"] != after["mine-slow"]


def test_missing_programs_are_left_out_with_a_line_each(row):
    plan = load_suite("cc", controls=["tcp-cubic"], own=own(row))
    (row.parent / "mine").unlink()
    found, absent = with_programs(plan.runs(1))
    assert {run.variant for run in found} == {"tcp-cubic"}
    assert [line.partition(":")[0] for line in absent] == ["mine-fast", "mine-slow"]


def test_setup_builds_the_stacks_of_the_chosen_runs_alone(capsys):
    plan = load_suite("cc", everything=True)
    assert setup_steps(plan.chosen(["*/tcp-*"])) == []
    assert setup_steps(plan.chosen(["*/noq-bbr3", "*/quinn-bbr"])) == ["peers", "quic_peers"]
    assert cli.main(["--check", "evaluate", "--suite", "cc", "--only", "*/noq-bbr3"]) == 0
    assert capsys.readouterr().out == "peers\n"


def test_the_suite_has_eight_stacks_five_of_them_from_registries():
    stacks = {*load_suite("cc").controls.stacks.values()}
    assert {"quiche", "tcp"} < stacks
    rows = {server.name: server for server in quic_servers.read(quic_servers.table())}
    assert len(stacks) >= 8
    assert sum(bool(rows[name].built_by or "python" in rows[name].version) for name in stacks - {"quiche", "tcp"}) >= 5


def test_the_rest_runs_with_all_alone_or_by_its_name():
    default, everything = load_suite("cc").runs(), load_suite("cc", everything=True).runs()
    names = [{(run.scenario, run.variant, run.seed) for run in runs} for runs in (default, everything)]
    assert names[0] < names[1]
    assert not any(run.variant == "aioquic-reno" for run in default)
    named = load_suite("cc", controls=["tcp-lp"]).runs(1)
    assert {run.scenario for run in named} >= {run.scenario for run in default if run.scenario.startswith("table3")}


def test_the_short_selection_is_a_part_of_the_default():
    plan = load_suite("cc")
    chosen = plan.chosen(list(plan.quick), range(1, 2))
    assert 1 <= len({run.scenario for run in chosen}) <= 6
    assert {run.spec["topology"] for run in chosen} == {"dumbbell"}


def test_places_are_documented_at_the_top_of_the_table():
    head = (paths.clone() / "mininet" / "peers" / "servers.toml").read_text().partition("[[server]]")[0]
    assert all(f"{{{place}}}" in head for place in PLACES)
