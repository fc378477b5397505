# SPDX-License-Identifier: Apache-2.0
"""Weights files: read as they were written, and refused when damaged."""

from pathlib import Path

import numpy as np
import pytest

from weirtrain import weights

GOLDEN = Path(__file__).resolve().parents[2] / "core" / "tests" / "pbq"


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
