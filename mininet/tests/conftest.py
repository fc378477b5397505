# SPDX-License-Identifier: Apache-2.0
import pytest

from weirlab.lab.kernels import ExactLab, LabError
from weirlab.run.scenarios import load_scenario


@pytest.fixture
def exact():
    """An exact lab, or why there is none."""
    try:
        return ExactLab()
    except LabError as error:
        pytest.skip(str(error))


@pytest.fixture
def load(tmp_path):
    def load_text(text):
        path = tmp_path / "small.toml"
        path.write_text(text, encoding="utf-8")
        return load_scenario(path)

    return load_text
