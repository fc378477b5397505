# SPDX-License-Identifier: Apache-2.0
"""What holds for all tests.

No time limit on a single example, which only a busy machine would fail. Tests that take the fixture `exact` run in the
exact lab and get the mark `lab`, so that `./run check` can leave them out. Tests of what strangers and faults do get
the mark `hostile`, for `./run test --hostile`. Files that take longest come first: else one of the workers of
`./run test` would be at work alone at the end.
"""

import pytest
from hypothesis import settings

settings.register_profile("weir", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=20)  # of ./run check
settings.load_profile("weir")


HOSTILE_FOLDER = "tests/hostile/"
HOSTILE_FILES = (
    "tests/packet/test_controller_faults.py",
    "tests/packet/test_names_attacks.py",
    "tests/packet/test_names_loops.py",
    "tests/packet/test_p4_malformed.py",
    "tests/packet/test_p4_robustness.py",
    "tests/packet/test_p4_service.py",
    "tests/packet/test_p4_swap.py",
    "tests/quic/test_bad_input.py",
    "tests/quic/test_malformed_http3.py",
)
"""Beside what is in the folder; they stand with the rigs that they need."""
LONGEST = ("tests/lab/", "tests/package/", "mininet/tests/evaluation/")
"""Folders whose files take minutes; all others take less than two."""


def _place(item: pytest.Item) -> int:
    return next((place for place, folder in enumerate(LONGEST) if item.nodeid.startswith(folder)), len(LONGEST))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "exact" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.lab)
        if item.nodeid.startswith((HOSTILE_FOLDER, *HOSTILE_FILES)):
            item.add_marker(pytest.mark.hostile)
    items.sort(key=_place)
