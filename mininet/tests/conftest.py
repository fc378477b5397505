# SPDX-License-Identifier: Apache-2.0
import pytest

from weirlab.lab.kernels import ExactLab, LabError


@pytest.fixture
def exact():
    """An exact lab, or why there is none."""
    try:
        return ExactLab()
    except LabError as error:
        pytest.skip(str(error))
