# SPDX-License-Identifier: Apache-2.0
"""What the hostile suite runs against, and why where it can't."""

import sys
from pathlib import Path

import pytest

# for its switches and namespaces
sys.path.append(str(Path(__file__).resolve().parents[1] / "packet"))

from p4_rig import EMBEDDED, P4Rig, missing


@pytest.fixture
def switch(tmp_path):
    """weir-switch with pid_delay.p4, a route to each of its four stations, and queues that hold what a test sends."""
    if reason := missing(EMBEDDED):
        pytest.skip(reason)
    rig = P4Rig(EMBEDDED, tmp_path, options=["--queue", "default:depth=1000p"])
    try:
        rig.deploy()
        yield rig
    finally:
        rig.close()
