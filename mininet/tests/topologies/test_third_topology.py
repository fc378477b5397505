# SPDX-License-Identifier: Apache-2.0
"""A third topology needs one object: its scenario files are loaded, its runs measured, its report written."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field

from weirlab.metrics.samples import read_kinds
from weirlab.report.model import Figure, Report, table
from weirlab.run import keys
from weirlab.run.page import print_table, write_html
from weirlab.run.runner import finish, gather_samples
from weirlab.run.scenarios import load_scenario
from weirlab.scenario.checker import Checker
from weirlab.scenario.errors import ScenarioError
from weirlab.scenario.schema import Schema
from weirlab.scenario.sections import Name, RateMbit, Seconds, Section, SeedCount
from weirlab.store.folder import ResultsFolder, summarise
from weirlab.topologies.base import Topology
from weirlab.topologies.cache_key import Keeping
from weirlab.topologies.registry import TOPOLOGIES, topology_of

TEXT = """
[scenario]
name = "two-hosts"
title = "Two hosts, one wire"
topology = "wire"
duration_s = 5
seeds = 2
[wire]
rate_mbit_s = 10
[variants.small]
packets = 10
[variants.large]
packets = [100, 200]
[sweep]
"wire.rate_mbit_s" = [10, 20]
"""


class Head(Section):
    name: Name
    title: str = Field(min_length=1)
    description: str = ""
    topology: str
    duration_s: Seconds
    seeds: SeedCount = 1


class Wire(Section):
    rate_mbit_s: RateMbit


class Burst(Section):
    packets: int
    kind: Literal["burst"] = "burst"


class WireSchema(Schema):
    name = "wire"
    head = Head
    sections = ("wire",)
    figures = {"carried_packets": "packets that came out"}  # noqa: RUF012
    variant_example = ("small", "packets = 10")
    sweep_example = "wire.rate_mbit_s"

    def specs(self, checker: Checker, raw: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        head = checker.section(Head, raw["scenario"], "scenario")
        wire = checker.section(Wire, raw["wire"], "wire")

        def burst(options, path):
            found = checker.section(Burst, options, path)
            return None if found is None else found.model_dump()

        bursts = checker.variants(raw["variants"], self.variant_example, burst)
        if head is None or wire is None:
            return {}
        common = {"scenario": head.name, "topology": head.topology, "duration_s": head.duration_s}
        return {label: {**common, "wire": wire.model_dump(), "burst": options} for label, options in bursts.items()}


class WireKeeping(Keeping):
    def parts(self, spec):
        return {"lab"}

    def room_bytes(self, spec):
        return 1000 * spec["burst"]["packets"]

    def expected_s(self, spec):
        return spec["duration_s"]

    def like(self, spec):
        return ()


class WireTopology(Topology):
    schema = WireSchema()
    driver = "somewhere.drive"
    keeping = WireKeeping()  # in a folder of its own it would be in cache_key.py

    def sample_parts(self, folder, spec):
        return [folder / "start.jsonl", folder / "flows-1.jsonl"]

    def compute(self, samples: Path, spec):
        lines = read_kinds(samples, {"start": ("t_us",), "flow": ("flow", "packets")}, {})
        return {"carried_packets": sum(line["packets"] for line in lines["flow"])}

    def failures(self, metrics):
        return [] if metrics["carried_packets"] else ["nothing came out"]

    def headline(self, metrics):
        return f"{metrics['carried_packets']} packets"

    def report(self, folder, summary, drawn):
        rows = [[label, f"{figures['carried_packets'].mean:g} packets"] for label, figures in summary.variants.items()]
        drawing = [Figure("wire", svg="<svg></svg>")] if drawn else []
        return Report(folder.meta["scenario"]["title"], [table(["", "carried"], rows), *drawing])


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setitem(TOPOLOGIES, "wire", WireTopology())
    file = tmp_path / "two-hosts.toml"
    file.write_text(TEXT, encoding="utf-8")
    return file


def test_its_scenario_file_is_loaded_and_its_runs_are_listed(path):
    scenario = load_scenario(path)
    assert scenario.topology == "wire"
    labels = [f"{label},rate_mbit_s={rate}" for rate in (10, 20) for label in ("small", "large,packets=100")]
    assert set(labels) <= set(scenario.cases)
    runs = scenario.runs(only="large", seeds=[4])
    assert [run.spec["burst"]["packets"] for run in runs] == [100, 200, 100, 200]
    assert topology_of(runs[0].spec["topology"]).driver == "somewhere.drive"


def test_mistakes_in_its_file_are_reported_with_its_own_sections(path):
    path.write_text(TEXT.replace("rate_mbit_s = 10\n", "rate = 10\n").replace("[wire]", "[link]\n[wire]"))
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    told = str(caught.value)
    assert 'link: not for wire; remove it, or write topology = "dumbbell"' in told
    assert "wire.rate: unit left out; write rate_mbit_s = 10" in told


def test_its_finished_runs_are_known_by_what_it_says(path, monkeypatch):
    monkeypatch.setattr(keys, "lab_kernel", lambda: "kernel")
    first, second, third = load_scenario(path).runs(seeds=1)[:3]
    known = keys.Keys()
    assert len({known.run(run.spec) for run in (first, second, third)}) == 3
    assert set(known.facts(first.spec)["sources"]) == {"lab", "driver"}
    assert "variant" not in known.facts(first.spec)["spec"]
    assert known.metrics(first.spec) != known.metrics({**first.spec, "warmup_s": 1})


def test_its_runs_are_measured_and_reported(path, tmp_path, capsys):
    scenario = load_scenario(path)
    folder = ResultsFolder.create(tmp_path, scenario, ["./run", "experiment"])
    for run in scenario.runs():
        there = folder.run_folder(run)
        (there / "start.jsonl").write_text('{"k":"start","t_us":5}\n')
        line = {"k": "flow", "flow": "3", "packets": run.spec["burst"]["packets"]}
        (there / "flows-1.jsonl").write_text(json.dumps(line) + "\n")
        gather_samples(there, topology_of("wire"), run.spec)
        result = finish(folder, run)
        assert topology_of("wire").headline(result.metrics) == f"{run.spec['burst']['packets']} packets"
    summary = summarise(folder)
    print_table(folder, summary)
    assert re.search(r"large,packets=200,rate_mbit_s=20 +200 packets", capsys.readouterr().out)
    page = write_html(folder).read_text()
    assert "<title>Two hosts, one wire</title>" in page
    assert '<th scope="row">large,packets=200,rate_mbit_s=20</th><td>200 packets</td>' in page
    assert "<svg></svg>" in page
