# SPDX-License-Identifier: Apache-2.0

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenario_checks import SHIPPED, TOML_VALUE, check_any_value, check_mistake, problems

from weir.gains import KEYS, Gains
from weirlab.run.scenarios import load_scenario
from weirlab.scenario.errors import ScenarioError
from weirlab.scenario.model import Run

GOOD = """\
[scenario]
name = "small"
title = "Small"
duration_s = 10
warmup_s = 1
seeds = 2
[link.access]
rate_mbit_s = 50
delay_ms = 1
[link.bottleneck]
rate_mbit_s = 10
delay_ms = 50
loss_percent = 1
[[flows]]
kind = "quic-download"
count = 2
[[flows]]
kind = "udp"
rate_mbit_s = 3
start_s = 2
[variants.pie]
qdisc = "pie"
target_ms = 15
[variants.tuned]
qdisc = "weir"
profile = "tuned"
"""
PAPER = '[paper]\nsource = "x"\nshort = "x"\n'


@pytest.mark.parametrize("path", [path for path in SHIPPED if path.stem.startswith(("pid-", "load-"))], ids=str)
def test_shipped_scenarios_are_good_and_named_after_their_files(path):
    scenario = load_scenario(path)
    assert scenario.name == path.stem
    variants = [run.variant for run in scenario.runs(seeds=1)]
    auto = ["auto"] if path.stem == "pid-delay-table2" else []
    assert [name for name in variants if not name.startswith("p4-")] == ["pfifo", "pie", "paper", "tuned", *auto]
    assert len(scenario.runs()) == 3 * len(variants)


def test_the_demo_has_each_profile_in_ebpf_and_in_p4_side_by_side():
    scenario = load_scenario(next(path for path in SHIPPED if path.stem == "pid-delay-table2"))
    specs = {run.variant: run.spec["aqm"] for run in scenario.runs(seeds=1)}
    assert list(specs) == ["pfifo", "pie", "paper", "p4-paper", "tuned", "auto", "p4-tuned"]
    assert specs["auto"] == {**specs["tuned"], "tune": True}
    for profile in ("paper", "tuned"):
        ebpf, p4 = specs[profile], specs[f"p4-{profile}"]
        assert {key: p4[key] for key in ebpf} == {**ebpf, "qdisc": "p4"}


def test_table_two_is_what_the_paper_says():
    scenario = load_scenario(next(path for path in SHIPPED if path.stem == "pid-delay-table2"))
    spec = scenario.runs(only="paper", seeds=[7])[0].spec
    assert spec["link"]["access"] | {"loss_percent": 0} == spec["link"]["access"]
    assert (spec["link"]["access"]["rate_mbit_s"], spec["link"]["access"]["delay_ms"]) == (50, 1)
    assert spec["link"]["bottleneck"] == {
        "rate_mbit_s": 10, "delay_ms": 50, "loss_percent": 1, "queue_limit_packets": 1000
    }  # fmt: skip
    aqm = spec["aqm"]
    assert [aqm[key] for key in ("kp", "ki", "kd", "z1", "z2", "z3", "m1_us", "m2_us")] == [
        1.3125, 1.25, 0.125, 1.5, 1.2, 0.8, 20000, 10000
    ]  # fmt: skip
    assert spec["seed"] == 7
    assert scenario.paper["figures"]["paper"]["goodput_per_flow_mean_kbit_s"] == 699.4


def test_a_spec_leaves_nothing_to_default(load):
    run = load(GOOD).runs()[0]
    assert run == Run("small", "pie", 1, run.spec)
    assert run.spec["flows"][0] == {
        "kind": "quic-download", "count": 2, "extra_rtt_ms": 0, "start_s": 0, "start_spread_s": 0.1, "stop_s": 10,
        "cc": "cubic", "payload_bytes": 1412, "ecn": False,
    }  # fmt: skip
    assert run.spec["flows"][1]["stop_s"] == 10
    assert run.spec["aqm"]["tupdate_ms"] == 15
    assert load(GOOD).runs(only="tuned")[0].spec["aqm"]["integral"] == "keep"


def test_lists_are_crossed(load):
    text = GOOD.replace('profile = "tuned"', 'profile = ["tuned", "paper"]\nkp = [4, 8.5]')
    text += '[sweep]\n"flows.0.count" = [2, 10]\n"link.bottleneck.loss_percent" = [0, 1]\n'
    scenario = load(text)
    assert len(scenario.cases) == (1 + 2 * 2) * 4
    spec = scenario.cases["tuned,profile=paper,kp=8.5,count=10,loss_percent=0"]
    assert (spec["aqm"]["kp"], spec["aqm"]["integral"], spec["flows"][0]["count"]) == (8.5, "drop", 10)
    assert spec["link"]["bottleneck"]["loss_percent"] == 0
    assert spec["variant"] in {run.variant for run in scenario.runs()}
    assert len(scenario.runs(only="tuned", seeds=1)) == 16
    assert len(scenario.runs(only=["pie,count=2,loss_percent=1"], seeds=[5])) == 1


def test_swept_keys_that_end_alike_keep_their_whole_names(load):
    text = GOOD + '[sweep]\n"link.access.delay_ms" = [1, 2]\n"link.bottleneck.delay_ms" = [50]\n'
    assert "pie,link.access.delay_ms=2,link.bottleneck.delay_ms=50" in load(text).cases


def test_runs_are_ordered_by_seed_first(load):
    assert [(run.seed, run.variant) for run in load(GOOD).runs()] == [
        (1, "pie"), (1, "tuned"), (2, "pie"), (2, "tuned")
    ]  # fmt: skip


P4 = 'qdisc = "p4"\nprogram = "p4/switch/weir-p4/tests/stf/router.p4"'


def test_a_p4_variant_has_the_law_of_its_profile_and_says_which_switch(load):
    text = GOOD.replace('qdisc = "weir"\n', P4 + "\nkp = 8\n")
    aqm = load(text).runs(only="tuned")[0].spec["aqm"]
    weir = load(GOOD).runs(only="tuned")[0].spec["aqm"]
    assert {key: aqm[key] for key in ("qdisc", "switch", "program", "profile", "kp")} == {
        "qdisc": "p4", "switch": "embedded", "program": "p4/switch/weir-p4/tests/stf/router.p4", "profile": "tuned",
        "kp": 8,
    }  # fmt: skip
    assert {**aqm, **weir} == {**weir, "switch": "embedded", "program": aqm["program"], "delay_source": "sojourn"}


@pytest.mark.parametrize("kind", ['qdisc = "weir"', P4])
def test_a_variant_gives_a_bound_as_a_share_of_its_target(load, kind):
    more = f"{kind}\ntarget_us = 8000\ndelay_bound_share = 1.25\ndelay_limit_share = 2.5"
    aqm = load(GOOD.replace('qdisc = "weir"', more)).runs(only="tuned")[0].spec["aqm"]
    law = Gains(**{key: value for key, value in aqm.items() if key in KEYS}).to_params()
    assert (law.delay_bound_us, law.delay_limit_us) == (10000, 20000)


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ('qdisc = "p4"\nprogram = "p4/no.p4"', "variants.tuned.program: no file 'p4/no.p4'; write a path from"),
        (P4 + '\nswitch = "bvm2"', "variants.tuned.switch: unknown name 'bvm2'; did you mean bmv2?"),
        (P4 + "\nz3 = 1.5", "variants.tuned.z3: 1.5 is not valid"),
    ],
)
def test_mistakes_in_a_p4_variant(load, new, said):
    assert said in problems(load, GOOD.replace('qdisc = "weir"', new))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rate_mbit_s = 50", "rate = 50", ":8: link.access.rate: unit left out; write rate_mbit_s = 50"),
        ("delay_ms = 50", "delay = 50", "link.bottleneck.delay: unit left out; write delay_ms = 50"),
        ("delay_ms = 50", "delay_us = 50000", "link.bottleneck.delay_us: another unit than ours; write delay_ms"),
        ("target_ms = 15", "target = 15", "variants.pie.target: unit left out; write target_ms = 15"),
        ("warmup_s = 1", "warmpu_s = 1", "scenario.warmpu_s: unknown key; did you mean warmup_s?"),
        ("rate_mbit_s = 10", "rate_mbit_s = -10", "rate_mbit_s: -10 is not valid; write a number from 0.001"),
        ("rate_mbit_s = 10", "rate_mbit_s = nan", "rate_mbit_s: nan is not valid; write a number from 0.001"),
        ("rate_mbit_s = 10", 'rate_mbit_s = "10"', 'rate_mbit_s: "10" is not valid; write a number from 0.001'),
        ("rate_mbit_s = 10\n", "", "link.bottleneck.rate_mbit_s: missing; write rate_mbit_s = a number from 0.001"),
        ("loss_percent = 1", "loss_percent = 100", "100 is not valid; write a number from 0 below 100"),
        ("loss_percent = 1", "loss_percent = [0, 1]", "a list can't stand here"),
        ("count = 2", "count = 0", "flows.0.count: 0 is not valid; write a whole number from 1"),
        ("count = 2", "count = 2.0", "flows.0.count: 2.0 is not valid; write a whole number from 1"),
        ("count = 2", "count = true", "flows.0.count: true is not valid"),
        ("count = 2", 'cc = "cubik"', "flows.0.cc: unknown name 'cubik'; did you mean cubic?"),
        ("rate_mbit_s = 3", 'rate_mbit_s = 3\ncc = "cubic"', "flows.1.cc: unknown key"),
        ("start_s = 2", "start_s = 20", "flows.1: starts or stops after duration_s = 10"),
        ("start_s = 2", "start_s = 2\nstop_s = 1", "flows.1: stop_s 1 is not after start_s 2"),
        ('kind = "udp"', 'kind = "sctp"', "flows.1.kind: unknown name 'sctp'"),
        ('qdisc = "pie"', 'qdisc = "fqcodel"', "variants.pie.qdisc: unknown name 'fqcodel'; did you mean fq_codel?"),
        ('qdisc = "pie"', "qdisc = []", "variants.pie.qdisc: an empty list"),
        ("target_ms = 15", "target_ms = [15, 15]", "variants.pie.target_ms: the same value twice"),
        ('profile = "tuned"', 'profile = "tunde"', "variants.tuned.profile: unknown name 'tunde'; did you mean tuned?"),
        ('profile = "tuned"', 'profile = "tuned"\nkp = -1', "variants.tuned.kp: -1 is not valid; it must be"),
        ('profile = "tuned"', 'profile = "tuned"\nz3 = 1.5', "variants.tuned.z3: 1.5 is not valid"),
        (
            'profile = "tuned"', 'profile = "tuned"\ndelay_limit_share = 1.2',
            "variants.tuned.delay_limit_share: 1.2 is not valid; it must be 0, or at least delay_bound_share = 1.25",
        ),
        ('profile = "tuned"', 'profile = "tuned"\ntarget_ms = 5', "target_ms: another unit than ours; write target_us"),
        ("[variants.tuned]", "[variants.Tuned]", "variants.Tuned: not a good label"),
        ("[variants.tuned]", "[variants.pie]", "not TOML"),
        ("warmup_s = 1", "warmup_s = 10", "scenario: warmup_s 10 leaves less than 1 s of duration_s 10"),
        ("seeds = 2", "seeds = 0", "scenario.seeds: 0 is not valid"),
        ("seeds = 2", "seeds = []", "scenario.seeds: an empty list"),
        ("seeds = 2", "seeds = [1, 1]", "scenario.seeds: an empty list or a seed twice"),
        ("[link.access]", "[link.acess]", "link.acess: unknown; did you mean access?"),
        ("[scenario]", "[scenarios]", "scenarios: unknown section; did you mean scenario?"),
        ('name = "small"', 'name = "a/b"', "scenario.name: \"a/b\" is not valid; write a name of lower-case"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_place_and_remedy(load, old, new, said):
    check_mistake(load, GOOD, old, new, said)


CHANGES = "[[changes]]\nat_s = 4\nrate_mbit_s = 5\n[[changes]]\nat_s = 2\ndelay_ms = 20\nloss_percent = 0\n"


def test_changes_are_in_the_order_of_time_and_can_be_swept(load):
    scenario = load(GOOD + CHANGES + '[sweep]\n"changes.0.rate_mbit_s" = [5, 2]\n')
    assert scenario.cases["pie,rate_mbit_s=2"]["changes"] == [
        {"at_s": 2, "delay_ms": 20, "loss_percent": 0}, {"at_s": 4, "rate_mbit_s": 2}
    ]  # fmt: skip
    assert load(GOOD).runs()[0].spec["changes"] == []


SHORT = 'kind = "tcp-short"\narrivals_per_s = 2\n'


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("seeds = 2", "seeds = 2\nsample_one_in = 0", "scenario.sample_one_in: 0 is not valid; write a whole number"),
        ("[[flows]]", "[[changes]]\nat_s = 1\n[[flows]]", "changes.0: changes nothing; write at least one of rate"),
        ("[[flows]]", "[[changes]]\nat_s = 10\ndelay_ms = 1\n[[flows]]", "changes.0.at_s: not before the end"),
        ("[[flows]]", "[[changes]]\nat_s = 1\nrate = 1\n[[flows]]", "changes.0.rate: unit left out; write rate_mbit_s"),
        ('kind = "udp"', 'kind = "udp"\non_s = 1', "flows.1: has one of on_s and off_s; write both"),
        ('kind = "udp"\nrate_mbit_s = 3', SHORT, "flows.1: needs either bytes or both bytes_median and bytes_sigma"),
        ('kind = "udp"\nrate_mbit_s = 3', SHORT + "bytes = 99", "flows.1.bytes: 99 is not valid; write a whole number"),
        ('kind = "udp"\nrate_mbit_s = 3', SHORT + "bytes = 1000\nbytes_sigma = 1", "flows.1: needs either bytes or"),
        ('kind = "udp"', 'kind = "udp"\nextra_rtt_ms = -1', "flows.1.extra_rtt_ms: -1 is not valid"),
        ('qdisc = "pie"\ntarget_ms = 15', 'qdisc = "red"', "its thresholds are missing; write min_bytes and max_bytes"),
        ('qdisc = "pie"\ntarget_ms = 15', 'qdisc = "red"\nmin_ms = 5\nmax_bytes = 9000', "min_ms; write min_bytes and"),
        ('qdisc = "pie"\ntarget_ms = 15', 'qdisc = "red"\nmin_ms = 5\nmax_ms = 5', "min_ms 5 is not below max_ms 5"),
        ('profile = "tuned"', 'profile = "tuned"\ntune = 1', "variants.tuned.tune: 1 is not valid; write true or"),
    ],
)  # fmt: skip
def test_mistakes_in_what_changes_and_comes_in_bursts(load, old, new, said):
    check_mistake(load, GOOD, old, new, said)


def test_groups_that_can_not_be_are_refused(load):
    tcp = '[[flows]]\nkind = "tcp"\n'
    assert "flows: TCP flows must agree in ecn" in problems(load, GOOD + tcp + tcp + "ecn = true\n")
    assert "at most 6 groups" in problems(load, GOOD + 5 * tcp + "extra_rtt_ms = 10\n")


def test_a_change_of_rate_is_not_for_a_p4_switch(load):
    text = GOOD.replace('qdisc = "weir"\n', P4 + "\n")
    assert "variants.tuned.qdisc: a P4 switch's queue has one rate" in problems(load, text + CHANGES)
    assert load(text + CHANGES.replace("rate_mbit_s = 5", "loss_percent = 1"))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[sweep]\n"flows.0.count" = []', "sweep.flows.0.count: an empty list"),
        ('[sweep]\n"flows.7.count" = [1]', "sweep.flows.7.count: the file has no flows.7"),
        ('[sweep]\n"flows.0.count" = [1, -1]', "flows.0.count: -1 is not valid"),
        ('[sweep]\n"flows.0.cuont" = [1]', "flows.0.cuont: unknown key; did you mean count?"),
        ("[sweep]\nlink.access.delay_ms = [1]", "sweep.link: a dotted key without quotes"),
        ('[sweep]\n"variants.pie.target_ms" = [1]', "variants are swept where they are"),
        ('[sweep]\n"scenario.seeds" = [1]', "can't be swept"),
        (PAPER + "[paper.figures.pei]\njain_index = 1", "paper.figures.pei: no such variant; did you mean pie?"),
        (PAPER + "[paper.figures.pie]\nqueue_delay_mean = 4", "queue_delay_mean: unknown metric; write one of ours"),
        (PAPER + '[paper.figures.pie]\njain_index = "1"', "1 is not a number"),
        ("[paper]\n[paper.figures.pie]\njain_index = 1", "paper.source: missing"),
    ],
)  # fmt: skip
def test_mistakes_in_sweep_and_paper(load, more, said):
    assert said in problems(load, GOOD + more)


def test_all_mistakes_are_told_at_once_in_order_of_lines(load):
    text = (
        GOOD.replace("rate_mbit_s = 10", "rate = 10")
        .replace("count = 2", "count = -2")
        .replace("seeds = 2", "seed = 2")
    )
    told = problems(load, text).splitlines()
    assert [line.split(":")[1] for line in told] == ["6", "11", "16"]


def test_a_crossed_mistake_is_told_once(load):
    text = GOOD.replace("delay_ms = 50", "delay_ms = -50") + '[sweep]\n"flows.0.count" = [1, 2, 3]\n'
    assert len(problems(load, text).splitlines()) == 1


@pytest.mark.parametrize(("only", "seeds"), [("pei", None), ([], None), (None, 0), (None, [1, 1]), (None, [-1])])
def test_a_selection_that_is_not_there_is_refused(load, only, seeds):
    with pytest.raises(ScenarioError) as caught:
        load(GOOD).runs(only=only, seeds=seeds)
    assert len(caught.value.problems) == 1


@given(st.text())
def test_no_text_does_anything_but_load_or_be_refused(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("any") / "any.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ScenarioError):
        load_scenario(path)


@given(st.sampled_from([line for line in GOOD.splitlines() if "=" in line]), TOML_VALUE)
def test_any_value_anywhere_loads_or_is_refused(tmp_path_factory, line, value):
    check_any_value(tmp_path_factory.mktemp("any") / "any.toml", GOOD, line, value)


def test_variants_can_stand_in_a_file_that_scenarios_share(load, tmp_path):
    shared = tmp_path / "shared.toml"
    shared.write_text('[variants.cake]\nqdisc = "cake"\n')
    text = GOOD.replace("seeds = 2", 'seeds = 2\nvariants_from = "shared.toml"')
    assert list(load(text).cases) == ["pie", "tuned", "cake"]
    shared.write_text('\n[variants.cake]\nqdisc = "cak"\n')
    with pytest.raises(ScenarioError, match=r"shared\.toml:3: variants\.cake\.qdisc: .*did you mean cake"):
        load(text)
    shared.write_text('[variants.pie]\nqdisc = "pie"\n')
    assert "variants.pie: is in shared.toml too; write another label" in problems(load, text)
    shared.write_text("[link.access]\nrate_mbit_s = 50\n")
    with pytest.raises(ScenarioError, match=r"shared\.toml: link: not for a file of variants; leave only"):
        load(text)
    shared.unlink()
    assert "no file 'shared.toml'; write a file's name" in problems(load, text)
