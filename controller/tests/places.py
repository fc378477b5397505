# SPDX-License-Identifier: Apache-2.0
"""Where things are in a checkout, for tests."""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CONTROLLER = REPOSITORY / "controller"
VECTORS = REPOSITORY / "tests" / "vectors"
BUILT = REPOSITORY / "build" / "bin"

ENVIRONMENT = os.environ | {
    "PYTHONPATH": str(CONTROLLER),
    "PYTHONDONTWRITEBYTECODE": "1",
    "PATH": f"{BUILT}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
}
"""For a `weir` command in a process of its own."""
