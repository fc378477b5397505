# SPDX-License-Identifier: Apache-2.0
"""Scenarios on `access`: the shipped ones, and errors for each mistake with its place and remedy."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenario_checks import SHIPPED, TOML_VALUE, check_any_value, check_mistake, problems

from weirlab.run.scenarios import load_scenario, load_scenarios
from weirlab.topologies.access.drive import OPTIONS, client_command, server_command
from weirlab.topologies.access.report.labels import spec_in_words

GOOD = """\
[scenario]
name = "small"
title = "Small"
topology = "access"
duration_s = 10
[[paths]]
name = "wan1"
rate_mbit_s = 100
rtt_ms = 7
rtt_sd_ms = 0.5
rtt_min_ms = 2
[[paths]]
name = "wan2"
rate_mbit_s = 20
rtt_ms = 40
draw = "packet"
[server]
cc = "reno"
[client]
requests = 20
interval_ms = 200
bytes = 5000
[[changes]]
path = "wan1"
round = 5
for_rounds = 2
rtt_ms = 70
[[changes]]
path = "wan2"
at_s = 2.5
link = "down"
[variants.ops]
strategy = "ops"
[variants.weir]
strategy = "weir"
standby = "cold"
"""
PAPER = '[paper]\nsource = "x"\nshort = "x"\n'


def shipped(name):
    return load_scenario(next(path for path in SHIPPED if path.stem == name))


@pytest.mark.parametrize("path", [path for path in SHIPPED if path.stem.startswith(("pcm-", "window-"))], ids=str)
def test_shipped_scenarios_are_good_and_named_after_their_files(path):
    scenarios = load_scenarios(path)
    for scenario in scenarios:
        assert scenario.name == path.stem or (len(scenarios) > 1 and scenario.name.startswith(f"{path.stem}-"))
        runs = scenario.runs(seeds=1)
        assert {run.spec["topology"] for run in runs} == {"access"}
        assert len(scenario.runs()) == 3 * len(runs)
        for run in runs:
            assert client_command(run.spec, 7, path.parent).count("--path") == len(run.spec["paths"])


def test_table_five_is_what_the_paper_says():
    scenario = shipped("pcm-table5")
    spec = scenario.runs(only="pps", seeds=[7])[0].spec
    assert [(path["rtt_ms"], path["rtt_sd_ms"]) for path in spec["paths"]] == [
        (7.120, 0.446), (6.707, 0.636), (41.004, 6.458), (37.568, 16.756)
    ]  # fmt: skip
    client = spec["client"]
    assert [client[key] for key in ("requests", "bytes", "memory_tasks", "weight_a", "epsilon", "model")] == [
        1000, 5000, 100, 0.8, 0.05, "lognormal"
    ]  # fmt: skip
    assert scenario.paper["figures"]["ops"]["tct_mean_vs_polling_percent"] == -59.43
    assert scenario.cases["polling-cold"]["client"]["standby"] == "cold"


def test_table_two_of_the_windows_is_what_the_paper_says():
    client = shipped("window-large").runs(only="fast", seeds=1)[0].spec["client"]
    assert (client["parallel"], client["requests"], client["window"]) == (4, 4, "fast")
    assert [client[f"{key}_window_bytes"] / 1024 for key in ("stream", "max_stream", "conn", "max_conn")] == [
        8, 1024, 32, 65536
    ]  # fmt: skip
    sizes = {run.spec["client"]["bytes"] * 4 for run in shipped("window-sizes").runs(seeds=1)}
    assert (min(sizes), max(sizes)) == (100_000, 10_000_000)


def test_a_spec_leaves_nothing_to_default(load):
    run = load(GOOD).runs(only="weir", seeds=[5])[0]
    assert run.spec["paths"][1] == {
        "name": "wan2", "rate_mbit_s": 20, "rtt_ms": 40, "rtt_sd_ms": 0, "rtt_min_ms": 0, "draw": "packet",
        "loss_percent": 0, "loss_up_percent": 0, "queue_limit_packets": 1000,
    }  # fmt: skip
    assert run.spec["server"] == {"cc": "reno", "initial_window_packets": 10}
    assert run.spec["changes"][0] == {"path": "wan1", "round": 5, "for_rounds": 2, "rtt_ms": 70}
    assert set(OPTIONS.values()) <= set(run.spec["client"])
    assert (run.spec["client"]["standby"], run.spec["client"]["requests"], run.spec["seed"]) == ("cold", 20, 5)


def test_the_client_is_told_all_of_it(load, tmp_path):
    words = client_command(load(GOOD).runs(only="weir", seeds=[5])[0].spec, 7_000_000, tmp_path)
    told = dict(itertools.pairwise(words))
    assert told["--start-at-us"] == "7000000"
    assert (told["--strategy"], told["--standby"], told["--interval-ms"], told["--seed"]) == (
        "weir",
        "cold",
        "200",
        "5",
    )
    assert [words[i + 1] for i, word in enumerate(words) if word == "--path"] == ["wan1", "wan2"]
    assert "--oracle-plan" not in words
    oracle = load(GOOD.replace('"ops"', '"oracle"')).runs(only="ops")[0].spec
    assert "--oracle-plan" in client_command(oracle, 0, tmp_path)


@pytest.mark.parametrize("cc", ["pbq", "pbq-paper"])
def test_a_policy_can_send_with_the_programs_own_weights(load, tmp_path, cc):
    spec = load(GOOD.replace('cc = "reno"', f'cc = "{cc}"')).runs(only="ops", seeds=1)[0].spec
    assert spec["server"] == {"cc": cc, "initial_window_packets": 10}
    words = server_command(spec, tmp_path)
    assert words[words.index("--cc") + 1] == cc
    assert "--cc-weights" not in words
    assert "--cc" not in client_command(spec, 0, tmp_path)  # it only acknowledges
    assert not list(tmp_path.glob("*.weights"))


def test_a_policy_of_the_scenarios_own_is_in_the_spec_and_in_the_servers_file(load, tmp_path):
    (tmp_path / "mine.weights").write_text("the text of a policy\n")
    given = 'cc = "pbq"\ncc_weights = "mine.weights"'
    spec = load(GOOD.replace('cc = "reno"', given)).runs(only="ops", seeds=1)[0].spec
    assert spec["server"]["cc_weights"] == "the text of a policy\n"
    (tmp_path / "run").mkdir()
    told = dict(itertools.pairwise(server_command(spec, tmp_path / "run")))
    assert told["--cc-weights"] == str(tmp_path / "run" / "policy.weights")
    assert (tmp_path / "run" / "policy.weights").read_text() == "the text of a policy\n"
    (line,) = [line for line in spec_in_words(spec) if line.startswith("server")]
    assert line == "server: cc pbq, initial_window_packets 10, a policy of the scenario's own"


def test_a_large_number_is_told_whole(load, tmp_path):
    text = GOOD.replace("bytes = 5000", "bytes = 5000\nmax_conn_window_bytes = 9876590\ninterval_ms = 98765")
    text = text.replace("interval_ms = 200\n", "").replace("duration_s = 10", "duration_s = 80000")
    words = client_command(load(text).runs(seeds=1)[0].spec, 0, tmp_path)
    assert words[words.index("--max-conn-window") + 1] == "9876590"
    assert words[words.index("--interval-ms") + 1] == "98765"


def test_a_memory_budget_is_told_to_the_rule_that_heeds_it(load, tmp_path):
    for window, told in (("weir", True), ("fast", False)):
        text = GOOD.replace("bytes = 5000", f'bytes = 5000\nwindow = "{window}"')
        words = client_command(load(text).runs(seeds=1)[0].spec, 0, tmp_path)
        assert ("--memory-budget" in words) == told


def test_lists_and_sweeps_are_crossed(load):
    text = GOOD.replace('strategy = "ops"', 'strategy = ["ops", "pps"]\nmemory_tasks = [50, 100]')
    scenario = load(text + '[sweep]\n"changes.1.link" = ["down", "silent"]\n"paths.0.rtt_ms" = [7, 9]\n')
    assert len(scenario.cases) == (4 + 1) * 4
    spec = scenario.cases["ops,strategy=pps,memory_tasks=50,link=silent,rtt_ms=9"]
    assert (spec["client"]["strategy"], spec["changes"][1]["link"], spec["paths"][0]["rtt_ms"]) == ("pps", "silent", 9)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rtt_ms = 40", "rtt = 40", ":15: paths.1.rtt: unit left out; write rtt_ms = 40"),
        ("rtt_ms = 40", "rtt_us = 40", "paths.1.rtt_us: another unit than ours; write rtt_ms"),
        ("rtt_ms = 40\n", "", "paths.1.rtt_ms: missing; write rtt_ms = a number from 0"),
        ("rtt_min_ms = 2", "rtt_min_ms = 7", "paths.0.rtt_min_ms: 7 is not below rtt_ms 7; write a smaller"),
        ("rtt_sd_ms = 0.5", "rtt_sd_ms = -1", "paths.0.rtt_sd_ms: -1 is not valid; write a number from 0"),
        ('draw = "packet"', 'draw = "burst"', "paths.1.draw: unknown name 'burst'; write one of round, packet"),
        ('draw = "packet"', "loss_percent = 100", "loss_percent: 100 is not valid; write a number from 0 below 100"),
        ('name = "wan2"', 'name = "wan1"', "paths.0.name: 'wan1' is there twice; write another name"),
        ('name = "wan2"', 'name = "up"', "paths.1.name: 'up' is a keyword of ip; write another name"),
        ('name = "wan2"', 'name = "a-name-of-16-chr"', "digits, - and _, at most 15"),
        ('name = "wan2"', 'name = "WAN"', 'paths.1.name: "WAN" is not valid; write a name of lower-case'),
        ('cc = "reno"', 'cc = "renno"', "server.cc: unknown name 'renno'; did you mean reno?"),
        ('cc = "reno"', 'cc_weights = "a.weights"', "server: cc_weights is for pbq and pbq-paper, not cubic"),
        ('cc = "reno"', 'cc = "pbq"\ncc_weights = "a.weights"', "server.cc_weights: 'a.weights' can't be read:"),
        ("bytes = 5000\n", "", "client: needs either bytes or sizes_bytes; write one, as bytes = 5000"),
        ("bytes = 5000", "sizes_bytes = [5000]", "client.sizes_bytes"),
        ("bytes = 5000", "bytes = 5000\nsizes_bytes = [1, 2]", "client: needs either bytes or sizes_bytes"),
        ("bytes = 5000", "bytes = 5000.0", "client.bytes: 5000.0 is not valid; write a whole number from 1"),
        ("bytes = 5000", "byts = 5000", "client.byts: unknown key; did you mean bytes?"),
        ("interval_ms = 200", "interval_s = 0.2", "client.interval_s: another unit than ours; write interval_ms"),
        ("interval_ms = 200", "interval_ms = 2000", "client.interval_ms: the last task starts at 38 s, not before"),
        ("interval_ms = 200", "interval_ms = 0", "changes.0: rounds without time; write at_s and for_s"),
        ("interval_ms = 200", "interval_ms = 0", "paths.0.draw: rounds without time; write draw = \"packet\""),
        ("bytes = 5000", 'bytes = 5000\nexplore_c = "some"', "client.explore_c: unknown name 'some'"),
        ("bytes = 5000", "bytes = 5000\nweight_a = 1.1", "client.weight_a: 1.1 is not valid; write a number from 0"),
        ("bytes = 5000", "bytes = 5000\nconn_window_bytes = 99999999", "client.conn_window_bytes: 99999999 is above"),
        ("[client]", "[clients]", "clients: unknown section; did you mean client?"),
        ("[client]", "[clients]", "client: missing or not a table; write a table [client]"),
        ("round = 5", "round = 20", "changes.0.round: there are 20 rounds, from 0; write less"),
        ("round = 5", "round = 5\nat_s = 1", "changes.0: needs either round or at_s; write one"),
        ("round = 5\n", "", "changes.0: needs either round or at_s; write one"),
        ("for_rounds = 2", "for_rounds = 2\nfor_s = 1", "changes.0: has both for_rounds and for_s; write one"),
        ("rtt_ms = 70\n", "", "changes.0: changes nothing; write at least one of rate_mbit_s, rtt_ms"),
        ("at_s = 2.5", "at_s = 10", "changes.1.at_s: not before the end, duration_s = 10; write less"),
        ('link = "down"', 'link = "dwn"', "changes.1.link: unknown name 'dwn'; did you mean down?"),
        ('path = "wan2"', 'path = "wan3"', "changes.1.path: no such path 'wan3'; did you mean wan2?"),
        ('strategy = "ops"', 'strategy = "poling"', "unknown name 'poling'; did you mean polling?"),
        ('strategy = "ops"', 'stratgy = "ops"', "variants.ops.stratgy: unknown key; did you mean strategy?"),
        ('strategy = "ops"', 'qdisc = "pie"', "variants.ops.qdisc: unknown key"),
        ('strategy = "ops"', "memory_tasks = []", "variants.ops.memory_tasks: an empty list; write at least one value"),
        ("duration_s = 10", "duration_s = 10\nwarmup_s = 1", "scenario.warmup_s: unknown key"),
        ('topology = "access"', 'topology = "acces"', "scenario.topology: unknown name 'acces'; did you mean access?"),
        ('topology = "access"', 'topology = "dumbbell"', 'paths: not for dumbbell; remove it, or write topology = "ac'),
        ("[server]", '[[flows]]\nkind = "tcp"\n[server]', "flows: not for access; remove it, or write topology"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_place_and_remedy(load, old, new, said):
    check_mistake(load, GOOD, old, new, said)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[sweep]\n"variants.ops.strategy" = ["ops"]', "variants are swept where they are"),
        ('[sweep]\n"client.strategy" = ["ops"]', "variants.ops.strategy: is in [sweep] too; remove it here"),
        ('[sweep]\n"link.access.rate_mbit_s" = [1]', "can't be swept; give a key of one of paths, server, client"),
        ('[sweep]\n"scenario.topology" = ["access"]', "can't be swept"),
        ('[sweep]\n"paths.2.rtt_ms" = [1]', "sweep.paths.2.rtt_ms: the file has no paths.2"),
        ('[sweep]\n"client.bytes" = [0, 1]', "client.bytes: 0 is not valid"),
        (PAPER + "[paper.figures.ops]\ntct_mean = 4", "tct_mean: unknown metric; write one of ours with its unit"),
        (PAPER + "[paper.figures.ops]\nqueue_delay_mean_ms = 4", "queue_delay_mean_ms: unknown metric"),
    ],
)
def test_mistakes_in_sweep_and_paper(load, more, said):
    assert said in problems(load, GOOD + more)


def test_without_a_path_there_is_nothing_to_run(load):
    text = GOOD[: GOOD.index("[[paths]]")] + GOOD[GOOD.index("[server]") :]
    assert "paths: no paths; write at least one table [[paths]]" in problems(load, text)


def test_all_mistakes_are_told_at_once_in_order_of_lines(load):
    text = (
        GOOD.replace("rtt_ms = 40", "rtt_ms = -4")
        .replace("bytes = 5000", "bytes = 0")
        .replace("round = 5", "round = -5")
    )
    assert [line.split(":")[1] for line in problems(load, text).splitlines()] == ["15", "22", "25"]


@given(st.sampled_from([line for line in GOOD.splitlines() if "=" in line]), TOML_VALUE)
def test_any_value_anywhere_loads_or_is_refused(tmp_path_factory, line, value):
    check_any_value(tmp_path_factory.mktemp("any") / "any.toml", GOOD, line, value)
