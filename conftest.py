# SPDX-License-Identifier: Apache-2.0
"""What holds for all tests.

No time limit on a single example, which only a busy machine would fail. Tests that take the fixture `exact` run in the
exact lab and get the mark `lab`, so that `./run check` can leave them out.
"""

import pytest
from hypothesis import settings

settings.register_profile("weir", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=20)  # of ./run check
settings.load_profile("weir")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "exact" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.lab)
