# SPDX-License-Identifier: Apache-2.0
"""Reading the files of a running run, and selecting runs that can be watched."""

import pytest

from weirlab import cli
from weirlab.run.watching import Files
from weirlab.scenario.errors import ScenarioError


def test_lines_are_taken_when_they_are_whole(tmp_path):
    files = Files(tmp_path, ("run.jsonl", "flows-*.jsonl"))
    assert list(files.grown()) == []
    run = tmp_path / "run.jsonl"
    run.write_text('{"k":1}\n{"k"')
    assert list(files.grown()) == [[{"k": 1}]]
    with open(run, "a") as more:
        more.write(":2}\n")
    (tmp_path / "flows-x.jsonl").write_text('{"k":3}\n')
    assert list(files.grown()) == [[{"k": 2}], [{"k": 3}]]
    files.close()


def test_a_file_that_is_gone_is_read_to_its_end(tmp_path):
    files = Files(tmp_path, ("*.jsonl",))
    run = tmp_path / "run.jsonl"
    run.write_text('{"k":1}\n')
    assert list(files.grown()) == [[{"k": 1}]]
    with open(run, "a") as more:
        more.write('{"k":2}\n')
    run.unlink()
    assert list(files.grown()) == [[{"k": 2}]]
    files.close()


def test_what_is_no_line_of_a_program_is_passed_over(tmp_path):
    (tmp_path / "run.jsonl").write_text('{"k":1}\n{"k":\n[1]\n{"k":2}\n')
    files = Files(tmp_path, ("run.jsonl",))
    assert list(files.grown()) == [[{"k": 1}, {"k": 2}]]
    files.close()


def runs(*words):
    args = cli.parser().parse_args(["together", "--watch", *words])
    return [(run.variant, run.seed) for _, found in cli.together_runs(args) for run in found]


def test_one_run_is_watched():
    assert runs() == [("all", 1)]
    assert runs("--only", "none", "--seeds", "1") == [("none", 1)]


def test_the_time_of_bmv2_is_printed_before_a_run(capsys):
    assert runs("--switch", "bmv2", "--seconds", "30") == [("all", 1)]
    assert "runs: 1, each ended after 47 min" in capsys.readouterr().err
    runs()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("words", [("--seeds", "2"), ("--only", "all", "--only", "none")])
def test_several_runs_are_not_watched(words):
    with pytest.raises(ScenarioError, match="--watch shows one run"):
        runs(*words)


def test_what_runs_elsewhere_is_not_watched():
    with pytest.raises(ScenarioError, match="--watch shows a run on this machine; leave out --ray"):
        runs("--ray", "local")
