# SPDX-License-Identifier: Apache-2.0
"""The suite of congestion controls: what its file may say, what it runs, and what it concludes from made-up figures."""

import hashlib
import itertools
import json
import math
import re
import subprocess
import sys
import tomllib

import generated_controls
import page_outline
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab import cli, paths
from weirlab.evaluation.cc.analysis import analyse
from weirlab.evaluation.cc.claims import claims_of
from weirlab.evaluation.cc.page import report as report_of
from weirlab.evaluation.cc.page import suite_report
from weirlab.evaluation.cc.plots import legible_ticks
from weirlab.evaluation.cc.text import (
    NAMED,
    choice_rows,
    duel_counts,
    elsewhere_words,
    friendly_table,
    front_rows,
    order_rows,
    wish_rows,
)
from weirlab.evaluation.command import chosen_of, json_document, report
from weirlab.evaluation.report import about, is_whole
from weirlab.evaluation.shared.rows import RunRow
from weirlab.evaluation.state import State
from weirlab.evaluation.suites import load_suite
from weirlab.evaluation.tables import in_order, rows_of_text, text_of
from weirlab.report import markdown
from weirlab.report.model import Paragraph, Prose
from weirlab.run.keys import Keys
from weirlab.scenario.errors import ScenarioError
from weirlab.store.cache import Cache

PAPER = {f"table3-loss-{loss}" for loss in ("0", "0_5", "1", "2_5", "5", "7_5", "10")} | {
    f"table3-flows-{flows}" for flows in range(2, 9)
}
UPLOADS = {f"upload-loss-{loss}" for loss in ("0", "2_5")}
OF_OUR_CLIENT = ["pbq", "pbq-paper", "bbr2_gcongestion", "cubic", "reno"]
WITH_BURSTS = ["pbq", "pbq-paper", "bbr2_gcongestion", "cubic", "reno", "tcp-cubic", "tcp-bbr", "noq-bbr3", "quinn-bbr",
               "s2n-quic-bbr"]  # fmt: skip
EVERYWHERE = [*WITH_BURSTS, "quic-go-reno", "tquic-bbr3"]
TEN_SEEDS = {"pbq", "bbr2_gcongestion", "cubic"}
OWN_WEIGHTS = paths.clone() / "quic-client/core/weights/pbq.weights"


@pytest.fixture(scope="module")
def plan():
    return load_suite("cc", everything=True)


@pytest.fixture(scope="module")
def core():
    return load_suite("cc")


@pytest.fixture(scope="module")
def bench(plan):
    rows = generated_controls.rows(plan)
    parsed = []
    for group in plan.groups:
        text = text_of([row for row in rows if row.group == group.name])
        parsed += rows_of_text(text, group.name, plan, f"{group.name}.csv")
    titles = {group.name: group.title for group in plan.groups}
    return analyse(in_order(parsed, plan), plan.controls, titles, about(plan))


TINY = """\
[scenario]
name = "tiny"
title = "Tiny"
compares = "senders"
duration_s = 3
[link.access]
rate_mbit_s = 50
delay_ms = 1
[link.bottleneck]
rate_mbit_s = 5
delay_ms = 5
queue_limit_packets = 20
[[flows]]
kind = "quic-download"
[[flows]]
kind = "tcp"
neighbour = true
[variants.fifo]
qdisc = "pfifo"
[variants.pie]
qdisc = "pie"
"""
SUITE = """\
title = "Tiny"
folder = "few"
seeds = 1
peers = ["cubic", "tcp-reno"]
[controls.cubic]
stack = "quiche"
cc = "cubic"
[controls.tcp-reno]
stack = "tcp"
cc = "reno"
[controls.pbq]
stack = "quiche"
cc = "pbq"
ours = true
[[groups]]
name = "all"
title = "All"
scenarios = ["tiny"]
more_seeds = { cubic = 2 }
"""


@pytest.fixture
def tiny(tmp_path):
    """A suite over one small scenario; its path."""
    (tmp_path / "few").mkdir()
    (tmp_path / "few" / "tiny.toml").write_text(TINY)
    (tmp_path / "mine.toml").write_text(SUITE)
    return tmp_path / "mine.toml"


def test_the_paper_has_every_control_and_ten_seeds_for_three(plan):
    scenarios = {s.name: s for group in plan.groups for s in group.scenarios}
    assert set(scenarios) >= PAPER
    every = list(plan.controls.stacks)
    assert set(every) >= {*EVERYWHERE, *(f"tcp-{cc}" for cc in ("reno", "vegas", "bic", "lp", "westwood", "illinois"))}
    seeds = {}
    for run in plan.runs():
        if run.scenario in PAPER:
            seeds.setdefault((run.scenario, run.variant), []).append(run.seed)
    for name in PAPER:
        assert list(scenarios[name].cases) == every
        assert scenarios[name].duration_s == 60
        for control in every:
            assert seeds[name, control] == list(range(1, 11 if control in TEN_SEEDS else 4))
    link = scenarios["table3-loss-2_5"].cases["pbq"]["link"]["bottleneck"]
    assert (link["rate_mbit_s"], link["delay_ms"] + 1, link["loss_percent"]) == (10, 50, 2.5)
    assert link["queue_limit_packets"] == 75_000 // 1440
    assert [sum(f["count"] for f in scenarios[f"table3-flows-{n}"].cases["cubic"]["flows"]) for n in range(2, 9)] == [
        *range(2, 9)
    ]


def test_beyond_the_paper_each_scenario_is_there_over_both_queues(plan, core):
    beyond = {s.name: s for group in plan.groups for s in group.scenarios if s.name not in PAPER | UPLOADS}
    assert {name for name in beyond if not name.endswith("-auto")} == {
        name.removesuffix("-auto") for name in beyond if name.endswith("-auto")
    }
    heart = {s.name for group in core.groups for s in group.scenarios}
    for name, scenario in beyond.items():
        expected = set(plan.controls.stacks) if name in heart else set(EVERYWHERE)
        if name.startswith("limited"):
            expected = {c for c in expected if plan.controls.stacks[c] in ("tcp", "quiche", "noq", "quinn", "s2n-quic")}
        assert set(scenario.cases) == expected
        assert scenario.duration_s <= 60
        aqm = scenario.cases["pbq"]["aqm"]
        assert plan.controls.queues[name] == ("auto" if name.endswith("-auto") else "fifo")
        assert (aqm["qdisc"], bool(aqm.get("tune"))) == (("weir", True) if name.endswith("-auto") else ("pfifo", False))
    assert all(run.seed <= 3 for run in plan.runs() if run.scenario in beyond)
    papers_link = len(PAPER) * len(plan.controls.stacks) + len(UPLOADS) * len(OF_OUR_CLIENT)
    assert len(plan.runs(1)) == papers_link + sum(len(scenario.cases) for scenario in beyond.values())


def test_the_core_has_every_group_and_each_control_in_its_groups(plan, core):
    """Without --all: each control meets each kind of scenario, by the seeds of the others."""
    assert [group.name for group in core.groups] == [group.name for group in plan.groups]
    for group in core.groups:
        controls = {name for scenario in group.scenarios for name in scenario.cases}
        if group.name not in ("upload", "limited"):
            assert controls >= set(core.controls.stacks) - {"quic-go-reno"}
    assert {"quinn-bbr", "s2n-quic-bbr", "quic-go-reno", "aioquic-cubic"} < set(core.controls.stacks)
    every = {(run.scenario, run.variant, run.seed) for run in plan.runs()}
    assert {(run.scenario, run.variant, run.seed) for run in core.runs()} < every
    assert {run.seed for run in core.runs()} == {1, 2, 3}
    assert any(scenario.name.endswith("-auto") for group in core.groups for scenario in group.scenarios)


def test_only_outside_of_the_core_takes_the_whole_suite():
    def chosen(*words):
        return chosen_of(cli.parser().parse_args(["evaluate", "--suite", "cc", *words]))

    losses = {f"table3-loss-{loss}" for loss in ("0", "2_5")}
    assert {run.scenario for run in chosen("--only", "loss/pbq")[1]} == losses
    assert {run.seed for run in chosen("--only", "table3-loss-5/pbq")[1]} == set(range(1, 11))
    assert len(chosen()[0].runs()) < len(chosen("--all")[0].runs()) == len(chosen("--from", "x")[0].runs())


def test_only_narrows_the_short_selection():
    def chosen(*words):
        return chosen_of(cli.parser().parse_args(["evaluate", "--suite", "cc", "--quick", *words]))[1]

    all_of_it = chosen()
    assert chosen("--only", "*/pbq") == [run for run in all_of_it if run.variant == "pbq"] != []
    with pytest.raises(ScenarioError, match="--quick"):
        chosen("--only", "limited/pbq")


def test_uploads_are_the_papers_link_with_the_clients_as_senders(plan):
    scenarios = {s.name: s for group in plan.groups for s in group.scenarios}
    assert set(scenarios) >= UPLOADS
    for name in UPLOADS:
        assert list(scenarios[name].cases) == OF_OUR_CLIENT
        for control, spec in scenarios[name].cases.items():
            down = scenarios[name.replace("upload", "table3")].cases[control]
            (flow,) = spec["flows"]
            assert (flow["kind"], flow["cc"], flow["count"]) == ("quic-upload", control, 2)
            assert {**flow, "kind": "quic-download"} == down["flows"][0]
            assert {key: spec[key] for key in ("link", "aqm", "duration_s", "warmup_s")} == {
                key: down[key] for key in ("link", "aqm", "duration_s", "warmup_s")
            }
    seeds = [run.seed for run in plan.runs() if run.scenario == "upload-loss-0" and run.variant == "pbq"]
    assert seeds == [1, 2, 3]


def test_beyond_the_paper_is_outside_the_training(plan):
    """Each in at least one of rate, round trip and buffer, or by a rate that follows a file."""
    ranges = tomllib.loads((paths.clone() / "train/weirtrain/ranges.toml").read_text())["training"]
    for run in plan.runs(1):
        if run.scenario in PAPER | UPLOADS:
            continue
        bottleneck, access = (run.spec["link"][name] for name in ("bottleneck", "access"))
        base_ms = 2 * (bottleneck["delay_ms"] + access["delay_ms"])
        rtts = [base_ms + flow["extra_rtt_ms"] for flow in run.spec["flows"]]
        bdp_packets = bottleneck["rate_mbit_s"] * base_ms * 1000 / 8 / 1440
        values = {
            "rate_mbit_s": [bottleneck["rate_mbit_s"]],
            "rtt_ms": rtts,
            "buffer_bdp": [round(bottleneck["queue_limit_packets"] / bdp_packets, 2)],
        }
        outside = [
            name
            for name, found in values.items()
            if any(not any(low <= value <= high for low, high in ranges[name]) for value in found)
        ]
        assert outside or "rates" in bottleneck, (run.scenario, values)


def test_the_control_is_put_into_the_flows_under_test_alone(plan):
    specs = {(run.scenario, run.variant): run.spec for run in plan.runs(1)}
    ours, theirs = (specs["friendly-bbr-4", name]["flows"] for name in ("pbq", "tcp-cubic"))
    assert [(flow["kind"], flow["cc"], flow["count"]) for flow in ours] == [
        ("quic-download", "pbq", 1), ("tcp", "bbr", 4)
    ]  # fmt: skip
    assert [(flow["kind"], flow["cc"], flow["count"]) for flow in theirs] == [("tcp", "cubic", 1), ("tcp", "bbr", 4)]
    assert ours[1] == theirs[1]
    assert {flow["payload_bytes"] for flow in (*ours, *theirs)} == {1412, 1400}
    for name, kind in (("pbq", "quic-short"), ("tcp-bbr", "tcp-short")):
        short, beside = specs["short-beside", name]["flows"]
        assert (short["kind"], short["cc"], short["arrivals_per_s"]) == (kind, name.removeprefix("tcp-"), 6)
        assert (beside["kind"], beside["cc"]) == ("tcp", "cubic")
        assert [flow["burst_every_ms"] for flow in specs["limited", name]["flows"]] == [100, 2000]
    far = specs["fairness-rtt-20_80", "tcp-bbr"]["flows"]
    assert [flow["extra_rtt_ms"] for flow in far] == [0, 60]


def test_one_point_of_the_paper_stands_in_both_its_figures_and_is_one_run(plan):
    keys = Keys()
    runs = {run.scenario: run for run in plan.chosen(["table3-*/pbq/1"])}
    same = {keys.run(runs[name].spec) for name in ("table3-loss-2_5", "table3-flows-2")}
    assert len(same) == 1
    assert keys.run(runs["table3-loss-5"].spec) not in same


def test_built_in_policies_are_part_of_the_runs_that_use_them(plan):
    specs = {run.variant: run.spec for run in plan.chosen(["table3-loss-1/*/1"])}
    sources = {variant: set(Keys().facts(spec)["sources"]) for variant, spec in specs.items()}
    with_policies = {variant for variant, of in sources.items() if "policies" in of}
    assert with_policies == {"pbq", "pbq-paper"}
    assert "quic" not in sources["tcp-cubic"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('scenarios = ["tiny"]', 'scenarios = ["tony"]', "no file few/tony.toml; did you mean tiny?"),
        ('peers = ["cubic", "tcp-reno"]', 'peers = ["cubik"]', "mine.toml:4: peers: no control 'cubik'; did you mean"),
        ("{ cubic = 2 }", "{ pie = 2 }", "mine.toml:15: groups.0: no control 'pie'"),
        ('cc = "reno"', 'cc = "renno"', "mine.toml:10: controls.tcp-reno.cc: unknown name 'renno'; did you mean reno?"),
        ('stack = "tcp"', 'stack = "udp"', "mine.toml:9: controls.tcp-reno.stack: no stack 'udp'; write one of quiche"),
        ('stack = "tcp"', 'stack = "quin"', "controls.tcp-reno.stack: no stack 'quin'; did you mean quinn?"),
        ('stack = "tcp"', 'stack = "quinn"', "tcp-reno.stack: quinn has no congestion control reno; there are"),
        ('title = "All"', "", "mine.toml:15: groups.0.title: missing"),
        ("seeds = 1", "sedes = 1", "mine.toml:3: sedes: unknown key; did you mean seeds?"),
        ('cc = "cubic"', 'cc = "cubic"\ncc_weights = "x"', "cubic.cc_weights: for pbq and pbq-paper, not cubic"),
        ('title = "All"', 'title = "All"\ncore = ["tony"]', "core: no scenario 'tony'; did you mean tiny"),
        ('name = "all"', 'name = "all"\npeers = ["pbq"]', None),
    ],
)  # fmt: skip
def test_a_suite_with_a_mistake_is_refused_by_its_line(tiny, old, new, said):
    assert len(load_suite(str(tiny)).runs()) == 6
    tiny.write_text(SUITE.replace(old, new, 1))
    if said is None:
        assert {run.variant for run in load_suite(str(tiny)).runs()} == {"pbq"}
        return
    with pytest.raises(ScenarioError) as caught:
        load_suite(str(tiny))
    assert said in "\n".join(caught.value.problems)


def test_a_scenario_that_compares_queues_is_refused(tiny):
    text = TINY.replace('compares = "senders"\n', "").replace("neighbour = true\n", "")
    (tiny.parent / "few" / "tiny.toml").write_text(text)
    with pytest.raises(ScenarioError, match=r'tiny.toml compares no senders; write compares = "senders"'):
        load_suite(str(tiny))
    (tiny.parent / "few" / "tiny.toml").write_text(TINY)
    (tiny.parent / "few" / "more.toml").write_text(TINY)
    with pytest.raises(ScenarioError, match=r"few/more\.toml is in no group"):
        load_suite(str(tiny))


def test_any_control_can_be_put_in_by_name_and_a_policy_by_its_file(tiny, tmp_path):
    asked = load_suite(str(tiny), controls=["pbq", "tcp-vegas", "reno", f"mine={OWN_WEIGHTS}"])
    flows = {run.variant: run.spec["flows"][0] for run in asked.runs(1) if run.scenario == "tiny-pie"}
    assert {name: (flow["kind"], flow["cc"]) for name, flow in flows.items()} == {
        "pbq": ("quic-download", "pbq"), "tcp-vegas": ("tcp", "vegas"), "reno": ("quic-download", "reno"),
        "mine": ("quic-download", "pbq"),
    }  # fmt: skip
    assert flows["mine"]["cc_weights"] == OWN_WEIGHTS.read_text()
    assert set(asked.controls.ours) == {"pbq", "mine"}
    assert [*load_suite(str(tiny), controls=["all", "reno"]).controls.stacks] == ["cubic", "tcp-reno", "pbq", "reno"]
    (tmp_path / "no.weights").write_text("weir-pbq-weights 1 sha256:0\n{}")
    for words, said in (
        ("tcp-vagas", "controls.tcp-vagas.cc: unknown name 'vagas'; did you mean vegas?"),
        ("bbr3", "controls.bbr3.cc: unknown name 'bbr3'"),
        (f"cubic={OWN_WEIGHTS}", "'cubic' is one of the suite's, or no good name"),
        (f"mine={tmp_path / 'none.weights'}", "none.weights: No such file or directory"),
        (f"mine={tmp_path / 'no.weights'}", "no.weights: not a weights file of PBQ"),
    ):
        with pytest.raises(ScenarioError) as caught:
            load_suite(str(tiny), controls=[words])
        assert said in "\n".join(caught.value.problems)
    with pytest.raises(ScenarioError, match="--variants: matrix compares no congestion controls"):
        load_suite("matrix", controls=["pbq"])


def test_a_control_may_be_a_policy_with_other_members(tiny):
    """The built-in one, or a file of one's own; the sender's checksum holds."""
    own = OWN_WEIGHTS.read_text()
    (tiny.parent / "mine.weights").write_text(own)
    more = '[controls.{}]\nstack = "quiche"\ncc = "pbq"\n{}cc_changes = {{ growth = "always" }}\n'
    text = SUITE.replace('"tcp-reno"]', '"tcp-reno", "built-in", "own"]') + more.format("built-in", "")
    tiny.write_text(text + more.format("own", 'cc_weights = "mine.weights"\n'))
    cases = load_suite(str(tiny)).chosen(["tiny/*/1"])
    texts = {run.variant: run.spec["flows"][0].get("cc_weights") for run in cases}
    assert texts["cubic"] is None
    assert texts["built-in"] == texts["own"]
    first, _, content = texts["own"].partition("\n")
    assert first == f"weir-pbq-weights 1 sha256:{hashlib.sha256(content.encode()).hexdigest()}"
    assert json.loads(content) == json.loads(own.partition("\n")[2]) | {"growth": "always"}


@pytest.mark.parametrize(
    ("member", "said"),
    [
        ('cc = "pbq"\ncc_changes = { grwth = "always" }', "no member of .*pbq.weights; did you mean growth"),
        ('cc = "cubic"\ncc_changes = { growth = "always" }', "cc_changes: for pbq and pbq-paper, not cubic; remove it"),
        (
            'cc = "pbq"\ncc_weights = "x"\ncc_changes = { growth = "always" }',
            "write the name of a weights file",
        ),
    ],
)
def test_mistakes_in_other_members_are_named(tiny, member, said):
    (tiny.parent / "x").write_text("no weights")
    more = f'[controls.changed]\nstack = "quiche"\n{member}\n'
    tiny.write_text(SUITE.replace('"tcp-reno"]', '"tcp-reno", "changed"]') + more)
    with pytest.raises(ScenarioError, match=said):
        load_suite(str(tiny))


def test_the_parts_of_pbq_are_taken_away_one_at_a_time():
    """In each scenario the variants differ in one member of the policy, and in nothing else of the run."""
    plan = load_suite("parts")
    own = json.loads(OWN_WEIGHTS.read_text().partition("\n")[2])
    changed = {}
    for run in plan.runs(1):
        if run.spec["flows"][0]["cc"] != "pbq" or run.variant == "pbq":
            continue
        content = json.loads(run.spec["flows"][0]["cc_weights"].partition("\n")[2])
        assert set(content) == set(own)
        changed[run.variant] = {key for key, value in content.items() if value != own[key]}
    assert len(changed) == 7
    assert all(len(keys) == 1 for keys in changed.values())
    assert set.union(*changed.values()) == {"growth", "memory_intervals", "interval_least_rtts", "action_bound"}


def test_other_controls_than_the_suites_make_no_report_of_the_suite(plan):
    def whole(*words):
        return is_whole(plan, cli.parser().parse_args(["evaluate", "--suite", "cc", *words]))

    assert whole()
    assert whole("--seeds", "10")
    assert not whole("--seeds", "3")
    assert not whole("--variants", "pbq", "cubic")


def test_json_has_scenario_control_and_figures(plan, tmp_path):
    state = State(Cache(tmp_path), Keys(), plan.chosen(["table3-loss-2_5/tcp-lp/1"]), plan=plan)
    state.finish(state.wanted[0], {"throughput_mbit_s": 9.0, "delay_outside_percent": 0.0})
    (run,) = json.loads(json_document(state))["runs"]
    assert (run["scenario"], run["variant"], run["seed"]) == ("table3-loss-2_5", "tcp-lp", 1)
    assert run["metrics"]["throughput_mbit_s"] == 9.0
    assert run["setting"] is None


def claim(bench, control, start):
    (found,) = [c for c in claims_of(bench) if c.variant == control and c.text.startswith(start)]
    return found


def missed_in(found):
    return {case.scenario for case in found.cases if case.met is False}


def test_claims_of_known_figures(bench):
    throughput = claim(bench, "pbq", "at least 0.95 of the best")
    assert {name.partition(" ")[0] for name in missed_in(throughput)} == {generated_controls.LOSING}
    friendly = [scenario.name for scenario in bench.scenarios if scenario.group == "friendliness"]
    assert len(throughput.cases) == len(bench.scenarios) - len(friendly)
    bbr = claim(bench, "pbq", "at least 0.8 of the throughput of each BBR")
    assert bbr.state == "yes"
    assert {case.scenario.rpartition(" ")[2] for case in bbr.cases} == {c for c in bench.controls.stacks if "bbr" in c}
    shares = claim(bench, "pbq", "a share of 0.5 to 1.5 of the fair one")
    assert [case.scenario for case in shares.cases] == friendly
    # Beside one flow pbq has 9.6 Mbit/s beside 3.5 over fifo and 2.0 under auto; beside more it has the same.
    reached = {case.scenario for case in shares.cases if case.met}
    assert reached == {"friendly-cubic-1", "friendly-bbr-1", "beside-one", "beside-one-auto"}
    assert claim(bench, "pbq", "mean RTT at most 1.25 of the path's").state == "yes"
    fair = claim(bench, "pbq", "Jain's index")
    assert fair.state == "no"
    assert missed_in(fair) == {f"fairness-rtt-{rtts}{queue}" for rtts in ("20_80", "50_200") for queue in ("", "-auto")}
    assert claim(bench, "pbq-paper", "at least 0.95 of the best").state == "no"
    assert {c.variant for c in claims_of(bench)} == {"pbq", "pbq-paper"}


def test_a_round_trip_that_changes_leaves_the_front_to_decide(bench):
    facts = {scenario.name: scenario.about for scenario in bench.scenarios}
    assert facts["step-rtt"]["base_rtt_ms"] is None
    assert facts["step-rate"]["base_rtt_ms"] == 100
    assert facts["fairness-rtt-20_80"]["base_rtt_ms"] == 50  # two flows of 20 ms, two of 80


def test_fronts_and_duels_of_known_figures(bench):
    by_name = {scenario.name: scenario for scenario in bench.scenarios}
    loss = by_name["table3-loss-5"]
    assert (loss.delay, by_name["short-alone"].delay) == ("rtt_mean_ms", "completion_p50_s")
    assert by_name["short-alone"].duels["pbq", "cubic"].delay_verdict == "win"
    assert loss.standings["pbq"].on_front is True
    assert loss.standings["tcp-vegas"].on_front is True  # least delay, whatever the throughput
    assert loss.standings["pbq-paper"].beaten_by == ("pbq",)
    assert set(loss.front) == {"tcp-vegas", "pbq"}
    assert loss.duels["pbq", "tcp-vegas"].verdict == "trade"
    assert loss.duels["pbq", "bbr2_gcongestion"].verdict == "win"
    assert by_name[generated_controls.LOSING].duels["pbq", "bbr2_gcongestion"].verdict == "loss"
    counts = duel_counts(bench.scenarios, "pbq", "bbr2_gcongestion")
    assert (counts["win"], counts["loss"]) == (len(bench.scenarios) - 1, 1)
    (row,) = [row for row in front_rows(bench) if row[0] == "pbq"]
    assert row[1] == f"{len(bench.scenarios) - 1} of {len(bench.scenarios)}"


def test_stacks_are_compared_by_the_wire_and_one_stack_by_goodput(bench):
    loss = next(scenario for scenario in bench.scenarios if scenario.name == "table3-loss-0")
    for peer, metric in (("cubic", "throughput_mbit_s"), ("tcp-cubic", "wire_mbit_s")):
        assert bench.throughput("pbq", peer) == metric
        assert loss.duels["pbq", peer].throughput == loss.ratio("pbq", peer, metric)


def test_which_to_choose_is_told_for_each_group_and_queue(bench):
    rows = choice_rows(bench)
    assert len(rows) == 3 + 2 * (len(bench.groups) - 3)  # the groups on the paper's link have one queue
    losses = rows[0]
    assert losses[0].startswith("Table 3: two flows")
    assert losses[2].startswith("`pbq` (0.9")
    assert losses[4] == "`pbq` (1.00)"
    assert max(cell.count("`") for row in rows for cell in row) <= 2 * NAMED
    kind = next(row for row in wish_rows(bench) if row[0].startswith("leaving"))
    assert kind[2] == "`tcp-cubic` (1.00)"
    heads, friendly = friendly_table(bench)
    cell = next(row for row in friendly if row[0] == "friendly-cubic-1")[heads.index("pbq")]
    assert re.fullmatch(r"3\.\d+ ± 0\.\d+ \(0\.\d+ ± 0\.\d+\)", cell)


def test_the_papers_orderings_stand_beside_ours(bench):
    rows = {row[0]: row[1:] for row in order_rows(bench)}
    paper, own = rows["the highest throughput at each loss rate"]
    assert own == "in 7 of 7"
    assert paper.startswith("in 0 of 7; above it: ")
    assert rows["its RTT is below BBR's"] == ["in 14 of 14", "in 14 of 14"]
    assert rows["its throughput falls least as loss grows"][1] == "10 % over 0 %: 0.95, least of all"


def test_the_order_of_rows_changes_nothing_and_a_run_counts_once(plan, bench):
    rows = [row for scenario in bench.scenarios for row in scenario.rows]
    mixed = sorted(rows, key=lambda row: (row.scenario, -row.seed, row.variant))
    again = analyse(mixed, plan.controls, about=about(plan))
    assert [(c.state, c.reached) for c in claims_of(again)] == [(c.state, c.reached) for c in claims_of(bench)]
    with pytest.raises(ValueError, match="is there twice"):
        analyse([*rows, rows[0]], plan.controls)


def test_one_seed_shows_nothing(plan):
    found = analyse(generated_controls.rows(plan, 1), plan.controls)
    for one in claims_of(found):
        assert one.met is not True or "front" in one.text
    assert all(duel.verdict is None for s in found.scenarios for duel in s.duels.values())


def test_the_report_has_each_claim_and_every_scenario(bench):
    text = markdown.render(report_of(bench, [Paragraph(Prose("**Incomplete**: a note."))]))
    for one in claims_of(bench):
        assert f"| {one.variant} | {one.text} | {one.limit} | {one.measured} |" in text
    for scenario in bench.scenarios:
        assert f"#### {scenario.name}: " in text
    assert "**Incomplete**: a note." in text
    assert "friendly-cubic-1-auto (1.6" in text
    assert not re.search(r"- `pbq-paper`", text)
    assert all(len(re.findall(r"(?<!\\)\|", line)) > 2 for line in text.splitlines() if line.startswith("|"))


@pytest.mark.pictures
def test_the_page_is_whole_and_needs_nothing_else(core):
    bench = analyse(generated_controls.rows(core), core.controls, about=about(core))
    made = suite_report(bench).files()
    pages = {f"controls/{name}.md" for name in bench.controls.stacks}
    assert set(made) == {"cc.html", "cc.png", "report.md", "ranking.csv"} | pages
    page = made["cc.html"]
    page_outline.whole(page)
    assert 'id="fairness-title"' in page
    for group in bench.groups:
        assert f'id="plane-{group}-title"' in page
        assert f'data-group="{group}"' in page


@given(st.floats(0.01, 0.8), st.floats(1.25, 50))
def test_ratios_on_an_axis_stand_apart(lowest, highest):
    ticks = legible_ticks(lowest, highest)
    assert 1 in ticks
    assert all(lowest <= tick <= highest for tick in ticks)
    apart = 0.09 * math.log(highest / lowest)
    assert all(math.log(above / below) > 0.999 * apart for below, above in itertools.pairwise(ticks))
    assert len(ticks) >= 2 or math.log(highest / lowest) < 0.5


def test_other_queues_are_told_and_leave_no_run_out(tiny, tmp_path):
    plan = load_suite(str(tiny), controls=["pbq", "cubic"])
    state = State(Cache(tmp_path / "cache"), Keys(), plan.chosen(["tiny/*/1"]), plan=plan)
    figures = {"throughput_mbit_s": 4.0, "wire_mbit_s": 4.2, "rtt_mean_ms": 20.0, "queue_delay_mean_ms": 3.0}
    for run in state.wanted:
        outside, unmeasured = (25.0, 0.0) if run.variant == "pbq" else (0.0, 2.0)
        found = {"delay_outside_percent": outside, "delay_outside_mean_ms": 1.0, "unmeasured_percent": unmeasured}
        state.finish(run, figures | found | {"delay_share_access_percent": outside})
    kept, left_out = (state.done["tiny", variant, 1] for variant in ("pbq", "cubic"))
    assert kept.failures == []
    assert "2.00 % of the packets" in left_out.failures[0]
    (words,) = elsewhere_words(analyse([kept.row], plan.controls))
    assert words.startswith("In 1 run more than 5 % of the queueing delay")
    assert "The most was 1.0 ms, 25 % (tiny, pbq, seed 1)." in words
    assert elsewhere_words(analyse([left_out.row], plan.controls)) == []


@pytest.mark.pictures
def test_part_of_a_suite_has_a_report_that_can_be_made_again(tiny, tmp_path, capsys):
    plan = load_suite(str(tiny), controls=["pbq", "cubic"])
    state = State(Cache(tmp_path / "cache"), Keys(), plan.chosen(["tiny/*/1"]), plan=plan)
    for run in state.wanted:
        figures = {"throughput_mbit_s": 4.0, "wire_mbit_s": 4.2, "rtt_mean_ms": 20.0, "neighbour_mbit_s": 1.0}
        state.finish(run, {**figures, "delay_outside_percent": 0.0})
    out = tmp_path / "out"
    words = ["evaluate", "--suite", str(tiny), "--variants", "pbq", "cubic"]
    report(state, cli.parser().parse_args([*words, "--out", str(out)]))
    assert sorted(path.name for path in out.iterdir()) == [
        "all.csv", "cc.html", "cc.png", "controls", "made.json", "ranking.csv", "report.md"
    ]  # fmt: skip
    assert "runs of the congestion controls are missing: " in (out / "report.md").read_text()
    assert str(out / "cc.html") in capsys.readouterr().out
    assert cli.main([*words, "--from", str(out), "--out", str(tmp_path / "again")]) == 0
    for name in ("report.md", "cc.html", "cc.png", "ranking.csv", "controls/pbq.md"):
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes()


@pytest.mark.pictures
def test_tables_of_the_core_make_the_report_of_the_core(tiny, tmp_path):
    """The other scenario is not missing, but for --all."""
    tiny.write_text(SUITE + 'core = ["tiny"]\n')
    plan = load_suite(str(tiny), controls=["pbq", "cubic"])
    rows = [
        RunRow(
            "tiny", "all", run.variant, run.seed, {"wire_mbit_s": 4.2, "throughput_mbit_s": 4.0, "rtt_mean_ms": 20.0}
        )
        for run in plan.runs()
    ]
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "all.csv").write_text(text_of(rows))
    words = ["evaluate", "--suite", str(tiny), "--variants", "pbq", "cubic", "--from", str(tmp_path / "tables")]
    for more, is_noted in (([], False), (["--all"], True)):
        assert cli.main([*words, *more, "--out", str(tmp_path / "out")]) == 0
        assert ("**Incomplete**" in (tmp_path / "out" / "report.md").read_text()) is is_noted


def test_a_small_suite_runs_in_the_lab(tiny, exact):
    """From nothing to the page, with a control of each stack and our own; then again from the cache, and without it to
    compare digests."""
    folder = tiny.parent
    words = [sys.executable, "-m", "weirlab.cli", "evaluate", "--suite", str(tiny), "--variants", "all", "--json"]
    words += ["--only", "tiny/*/1", "tiny-pie/pbq", "--cache", str(folder / "cache"), "--out", str(folder / "out")]
    environment = {"PYTHONPATH": paths.import_path(), "PATH": "/usr/bin:/bin", "HOME": str(paths.Path.home())}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    runs = {(run["scenario"], run["variant"]): run["metrics"] for run in json.loads(done.stdout)["runs"]}
    assert list(runs) == [("tiny", "cubic"), ("tiny", "tcp-reno"), ("tiny", "pbq"), ("tiny-pie", "pbq")]
    for (_, variant), figures in runs.items():
        assert 0 < figures["throughput_mbit_s"] < figures["wire_mbit_s"] < 5
        assert figures["rtt_mean_ms"] > 12
        assert 0 < figures["neighbour_share"] < 1
        assert (figures["decisions_outside_percent"] is not None) == (variant == "pbq")
    assert (folder / "out" / "cc.html").is_file()
    again = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert (again.returncode, again.stdout) == (0, done.stdout)
    assert " at a time" not in again.stderr
    published = folder / "out" / "digests.csv"
    assert len(published.read_text().splitlines()) == 1 + len(runs)
    verify = [
        *words[: words.index("--json")],
        "--verify",
        "1",
        "--only",
        "tiny/cubic",
        "--cache",
        str(folder / "cache"),
    ]
    verify += ["--from", str(published.parent)]
    repeated = subprocess.run(verify, capture_output=True, text=True, check=False, env=environment)
    assert repeated.returncode == 0, repeated.stdout + repeated.stderr
    published.write_text(re.sub(r"^tiny,cubic,1,....", "tiny,cubic,1,0000", published.read_text(), flags=re.MULTILINE))
    assert subprocess.run(verify, capture_output=True, check=False, env=environment).returncode == 1
