# SPDX-License-Identifier: Apache-2.0
"""Finished runs of all topologies: what their keys depend on, what is kept of them."""

import pytest
from copied_sources import CopiedSources

from weirlab import paths
from weirlab.run import keys
from weirlab.run.costs import Costs
from weirlab.run.disk import needs_bytes
from weirlab.run.scenarios import load_scenarios, read_scenarios
from weirlab.store import cache
from weirlab.store.cache import Cache, Kept, seal
from weirlab.topologies.cache_key import Keeping
from weirlab.topologies.registry import TOPOLOGIES, topology_of

REPO = paths.clone()
SCENARIOS = sorted(path.stem for path in paths.scenarios().glob("*.toml"))


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    return CopiedSources(REPO, tmp_path_factory.mktemp("sources"))


@pytest.fixture
def copy(copied, monkeypatch):
    """A copy of the sources that keys are made of, to be changed at will."""
    monkeypatch.setattr(paths, "clone", lambda: copied.folder)
    monkeypatch.setattr(keys, "lab_kernel", lambda: "kernel")
    yield copied.folder
    copied.put_back()


def spec_of(name, variant):
    """The first spec of a variant in a scenario that comes with the lab."""
    scenario = read_scenarios(name)[0]
    return scenario.runs(only=variant, seeds=1)[0].spec


EDGE, ACCESS, DUMBBELL = {"names", "unicast", "unicast-names"}, {"ops", "oracle"}, {"pie"}
CAMPUS = {"all", "none"}


@pytest.fixture
def specs():
    edge = spec_of("icn-receivers", "names")
    carried = {carry: {**edge, "carrying": {**edge["carrying"], "carry": carry}} for carry in EDGE}
    access = {name: spec_of("pcm-table5", name) for name in ACCESS}
    campus = {name: spec_of("together", name) for name in CAMPUS}
    return {**carried, **access, **campus, "pie": spec_of("pid-delay-table2", "pie")}


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        ("mininet/weirlab/topologies/edge/drive.py", EDGE),
        ("mininet/weirlab/topologies/access/schedule.py", ACCESS),
        ("mininet/weirlab/topologies/dumbbell/hops.py", DUMBBELL),
        ("mininet/weirlab/topologies/campus/sites.py", CAMPUS),
        ("mininet/weirlab/lab/shaping.py", EDGE | ACCESS | DUMBBELL | CAMPUS),
        ("mininet/weirlab/lab/qdisc.py", DUMBBELL),
        ("mininet/weirlab/run/runner.py", EDGE | ACCESS | DUMBBELL | CAMPUS),
        ("mininet/weirlab/run/experiment.py", set()),
        ("p4/programs/edge.p4", EDGE | CAMPUS),
        ("controller/profiles/tuned.toml", EDGE | CAMPUS),
        ("controller/weir/names/text.py", EDGE | CAMPUS),
        ("controller/weir/tuner/core.py", {"all"}),
        ("xdp/src/weir_tc.bpf.c", {"all"}),
        ("icn/src/new.rs", {"names", "unicast-names", "all"}),
        ("quic-client/core/src/new.rs", EDGE | ACCESS | DUMBBELL | CAMPUS),
        ("quic-client/core/weights/new.weights", {"all"}),
        ("quic-client/core/src/congestion/pbq/new.rs", {"all"}),
        ("mininet/weirlab/topologies/edge/metrics.py", set()),
    ],
)
def test_a_changed_source_asks_for_the_runs_that_it_takes_part_in(specs, copy, file, wanted):
    known = keys.Keys()
    before = {name: known.run(spec) for name, spec in specs.items()}
    assert len(set(before.values())) == len(before)
    (copy / file).parent.mkdir(parents=True, exist_ok=True)
    with open(copy / file, "a") as source:
        source.write("pass\n")
    now = keys.Keys()
    assert {name for name, spec in specs.items() if now.run(spec) != before[name]} == wanted


def test_a_gain_file_of_ones_own_counts_by_its_content(specs, copy, tmp_path):
    profile = tmp_path / "mine.toml"
    profile.write_text("kp = 1\n")
    spec = {**specs["names"], "aqm": {"profile": str(profile)}}
    before = keys.Keys().run(spec)
    profile.write_text("kp = 12\n")
    assert keys.Keys().run(spec) != before


LEARNED_SOURCES = ("quic-client/core/weights/pbq.weights", "quic-client/core/src/congestion/pbq/noise.rs")


def changed_by(copy, spec, files):
    """Those of the files whose change asks for the run again."""
    found, before = [], keys.Keys().run(spec)
    for file in files:
        with open(copy / file, "a") as source:
            source.write("\n")
        after = keys.Keys().run(spec)
        found += [file] if after != before else []
        before = after
    return tuple(found)


@pytest.mark.parametrize(("of", "part"), [("unicast", "carrying"), ("ops", "server")])
def test_a_learned_sender_depends_on_its_policies(specs, copy, of, part):
    spec = {**specs[of], part: {**specs[of][part], "cc": "pbq"}}
    assert changed_by(copy, spec, LEARNED_SOURCES) == LEARNED_SOURCES


def test_a_policy_of_the_scenarios_own_counts_by_its_content_alone(specs, copy):
    mine = {**specs["ops"], "server": {**specs["ops"]["server"], "cc": "pbq", "cc_weights": "mine"}}
    assert changed_by(copy, mine, LEARNED_SOURCES) == LEARNED_SOURCES[1:]
    other = {**mine, "server": {**mine["server"], "cc_weights": "another"}}
    assert keys.Keys().run(mine) != keys.Keys().run(other)


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_run_of_a_scenario_has_a_key_room_and_a_price(name, monkeypatch):
    monkeypatch.setattr(keys, "lab_kernel", lambda: "kernel")
    known, costs = keys.Keys(), Costs()
    for scenario in load_scenarios(paths.scenarios() / f"{name}.toml"):
        runs = scenario.runs()
        found = {known.run(run.spec) for run in runs}
        assert len(found) == len({str({**run.spec, "variant": ""}) for run in runs})
        for run in runs:
            assert known.run({**run.spec, "scenario": "other", "variant": "other", "warmup_s": 0.25}) in found
            assert needs_bytes(run) >= 1 << 20
            assert costs.expected_s(run) > 1


def test_the_files_that_receivers_write_are_asked_room_for():
    scenario = read_scenarios("icn-receivers")[0]
    for run in scenario.runs(seeds=1):
        transfer = run.spec["transfer"]
        if run.spec["carrying"]["carry"] == "names":
            assert needs_bytes(run) > transfer["receivers"] * transfer["bytes"]


def test_what_another_program_decides_is_never_taken_from_the_cache():
    spec = spec_of("pid-delay-table2", "pie")
    keeping = topology_of(spec["topology"]).keeping
    assert keeping.repeats(spec)
    assert not keeping.repeats({**spec, "flows": [*spec["flows"], {"kind": "quic-download", "cc_agent": True}]})


def test_notes_are_kept_up_to_a_size_and_what_reports_need_at_any(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "NOTES_BYTES", 100)
    monkeypatch.setattr(cache, "NOTE_BYTES", 60)
    there = {
        "spec.json": 5, "samples.jsonl.gz": 500, "decisions.jsonl": 700, "log-1.txt": 50, "log-2.txt": 61,
        "log-3.txt": 60, "log-4.txt": 50, "stderr": 0, "job.sh": 9, "deep/kept/a": 3, "deep/other/b": 3,
    }  # fmt: skip
    place = Cache(tmp_path)
    with place.draft() as draft:
        for name, size in there.items():
            (draft / name).parent.mkdir(parents=True, exist_ok=True)
            (draft / name).write_bytes(b"x" * size)
        (draft / "log-5.txt").symlink_to("/etc/hostname")
        kept = Kept(whole=("decisions.jsonl", "deep/kept/*"), notes=("log-*.txt", "stderr", "decisions.jsonl"))
        entry = place.keep(seal(draft, "ab" * 32, {"wall_s": 1}, kept), "ab" * 32)
    wanted = ["decisions.jsonl", "deep/kept/a", "log-1.txt", "log-4.txt", "samples.jsonl.gz", "spec.json", "stderr"]
    assert sorted(entry.digests) == wanted
    left = {path.relative_to(entry.folder).as_posix() for path in entry.folder.rglob("*") if not path.is_dir()}
    assert left == {*wanted, "run.json"}
    assert not (entry.folder / "deep" / "other").exists()
    assert place.find("ab" * 32) == entry


def test_a_topology_in_a_folder_of_its_own_says_how_its_runs_are_kept():
    for topology in TOPOLOGIES.values():
        assert isinstance(topology.keeping, Keeping)
        assert topology.keeping is topology.keeping
