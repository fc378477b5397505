# SPDX-License-Identifier: Apache-2.0
"""Parts taken away from pbq: each setting can be trained or sent, and differs from the whole."""

import numpy as np
import pytest

from weirtrain import ablation, weights

LAYERS = [(np.ones((1, 2), "f4"), np.zeros(1, "f4"))]
FILE = weights.write({**ablation.PBQ.members(), "guard": {"after": 3}, "ranges": {}}, LAYERS, -2.0)


@pytest.mark.parametrize("name", list(ablation.TRAINED))
def test_each_profile_differs_in_what_its_name_says_alone(name):
    profile = ablation.profile_of(name)
    assert profile.validation is None
    assert len(profile.members()["normalisation"]["shift"]) * profile.document["history"] == profile.width
    whole, own = ablation.profile_of("base").settings(), profile.settings()
    differing = {key for key in whole if whole[key] != own[key]}
    assert differing == {change.split(".")[0] for change in ablation.TRAINED[name]}


@pytest.mark.parametrize("name", list(ablation.CHANGED))
def test_each_change_of_a_file_is_in_it_and_nothing_else(name):
    before, _ = weights.read(FILE)
    after, layers = weights.read(ablation.changed(FILE, ablation.CHANGED[name]))
    changes = ablation.CHANGED[name]
    assert after == {key: value for key, value in (before | changes).items() if value is not None}
    assert after != before
    assert np.array_equal(layers[0][0], LAYERS[0][0])


@pytest.mark.parametrize("name", ablation.BLIND.values())
def test_a_blind_policy_has_all_but_that_input(name):
    before, after = (weights.read(file)[0] for file in (FILE, ablation.blind(FILE, name)))
    place = ablation.PBQ.inputs.index(name)
    assert after["normalisation"]["scale"][place] == 0 != before["normalisation"]["scale"][place]
    after["normalisation"]["scale"][place] = before["normalisation"]["scale"][place]
    assert after == before


def test_a_file_without_a_guard_says_so():
    assert weights.read(ablation.unguarded(FILE))[0]["guard"] is None
