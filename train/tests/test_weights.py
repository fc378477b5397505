# SPDX-License-Identifier: Apache-2.0
"""Weights files: read as they were written, and refused when damaged."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from weirlab import paths
from weirtrain import weights
from weirtrain.profiles import PROFILES

GOLDEN = Path(__file__).resolve().parents[2] / "quic-client" / "core" / "tests" / "pbq"


@pytest.mark.parametrize("name", ["paper.weights", "own.weights"])
def test_the_senders_files_are_read_and_written(name):
    file = (GOLDEN / name).read_bytes()
    document, layers = weights.read(file)
    deviation = document.pop("log_deviation")
    again, layers_again = weights.read(weights.write(document, layers, deviation))
    assert again == document | {"log_deviation": deviation}
    for (one, bias), (other, other_bias) in zip(layers, layers_again, strict=True):
        assert one.tobytes() == other.tobytes()
        assert bias.tobytes() == other_bias.tobytes()


def test_a_damaged_file_is_refused():
    file = (GOLDEN / "paper.weights").read_bytes()
    for damaged in (
        file[:-1],
        file[:50],
        b"",
        file.replace(b"weights 1", b"weights 2", 1),
        file[:200] + b"7" + file[201:],
    ):
        with pytest.raises(weights.WeightsError):
            weights.read(damaged)


def test_what_is_not_finite_is_not_written():
    with pytest.raises(weights.WeightsError, match=r"layers\[0\]: not finite"):
        weights.write({}, [(np.array([[np.nan]], np.float32), np.zeros(1, np.float32))], 0.0)


@pytest.mark.parametrize("name", PROFILES)
def test_a_policy_in_the_programs_is_of_the_curve_beside_it_or_the_rule_and_of_todays_profile(name):
    document, _ = weights.read((paths.clone() / "quic-client/core/weights" / f"{name}.weights").read_bytes())
    made = document["provenance"]
    assert re.fullmatch(r"[0-9a-f]{12}", made["commit"])
    if made["command"].startswith("./run train rule"):
        assert (made["steps"], document["ranges"], document["guard"]) == (0, {}, None)
    else:
        assert made["command"].startswith("./run train pbq")
        with open(paths.clone() / "docs/results/train" / name / "curves.csv", newline="") as curves:
            steps = {int(row["steps"]) for row in csv.DictReader(curves)}
        assert made["steps"] in steps
    # Exploration in a training is no part of how a policy acts.
    wanted = {key: value for key, value in PROFILES[name].document.items() if key != "noise_correlation"}
    assert {key: document[key] for key in wanted} == wanted
