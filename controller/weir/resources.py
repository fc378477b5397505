# SPDX-License-Identifier: Apache-2.0
"""Files that come with the package: profiles of gains, and P4 programs. In a checkout they are links to where they are
kept (`controller/profiles`, `p4/`), in an installed package real files."""

from importlib import resources
from pathlib import Path

_PACKAGE = Path(str(resources.files("weir")))

PROFILES = _PACKAGE / "profiles"
"""`NAME.toml` for each profile."""

P4_PROGRAMS = _PACKAGE / "p4_source" / "programs"
"""`NAME.p4` for each program; its included files are in their place, in ../include."""
