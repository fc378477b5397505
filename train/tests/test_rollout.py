# SPDX-License-Identifier: Apache-2.0
"""An episode on another machine is run by the same clone, or not at all."""

import pytest

from weirlab.lab.kernels import LabError
from weirtrain import rollout
from weirtrain.episodes import plan

EPISODE = plan("pbq", 1, 0)
POLICY = b"policy of a test\n"


@pytest.fixture
def driven(monkeypatch):
    """The specs of the runs that were begun."""
    specs = []

    def run(folder, one):
        specs.append(one.spec)
        (folder / "start.jsonl").write_text('{"k": "start", "t_us": 16300000}\n')

    monkeypatch.setattr(rollout, "run_driver", run)
    return specs


def test_the_same_clone_runs_it(driven):
    ran = rollout.run_episode(EPISODE, "pbq", POLICY, parts=rollout.parts_here(EPISODE, "pbq", POLICY))
    assert ran.start_us == 16_300_000
    assert [spec["seed"] for spec in driven] == [EPISODE.lab_seed]


@pytest.mark.parametrize("part", ["kernel", "trainer", "quic"])
def test_another_clone_runs_nothing_and_says_what_differs(driven, part):
    parts = rollout.parts_here(EPISODE, "pbq", POLICY)
    assert part in parts
    with pytest.raises(LabError, match=rf"--ray: the clone on .* is not as where this was started, in: {part}$"):
        rollout.run_episode(EPISODE, "pbq", POLICY, parts={**parts, part: "0" * 64})
    assert driven == []
