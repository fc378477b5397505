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
    monkeypatch.setattr(rollout, "run_driver", lambda _folder, run: specs.append(run.spec))
    return specs


def test_the_same_clone_runs_it(driven):
    rollout.run_episode(EPISODE, "pbq", POLICY, parts=rollout.parts_here(EPISODE, "pbq", POLICY))
    assert [spec["seed"] for spec in driven] == [EPISODE.lab_seed]


@pytest.mark.parametrize("part", ["kernel", "trainer", "quic"])
def test_another_clone_runs_nothing_and_says_what_differs(driven, part):
    parts = rollout.parts_here(EPISODE, "pbq", POLICY)
    assert part in parts
    with pytest.raises(LabError, match=rf"--ray: the clone on .* is not as where this was started, in: {part}$"):
        rollout.run_episode(EPISODE, "pbq", POLICY, parts={**parts, part: "0" * 64})
    assert driven == []
