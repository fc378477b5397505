# SPDX-License-Identifier: Apache-2.0
"""Files that come with the package: profiles of gains, and P4 programs. In a checkout they are links to where they are
kept (`controller/profiles`, `p4/`), in an installed package real files."""

import subprocess
from importlib import resources
from pathlib import Path

from . import __version__

_PACKAGE = Path(str(resources.files("weir")))

PROFILES = _PACKAGE / "profiles"
"""`NAME.toml` for each profile."""

P4_PROGRAMS = _PACKAGE / "p4_source" / "programs"
"""`NAME.p4` for each program; its included files are in their place, in ../include."""

_BUILD = _PACKAGE / "build.txt"
"""In Weir's Debian package: version and commit."""


def build_version() -> str:
    """Version and, where it is known, the commit of these sources, as `0.7.0 (0123456789ab)`."""
    if _BUILD.is_file():
        return _BUILD.read_text(encoding="utf-8").strip()
    clone = _PACKAGE.parent.parent
    if not (clone / "setup" / "version.sh").is_file():
        return __version__
    words = ["git", "-c", f"safe.directory={clone}", "-C", str(clone), "log", "-1", "--format=%h", "--abbrev=12"]
    try:
        made = subprocess.run([*words, "--", "controller"], capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return __version__
    commit = made.stdout.strip()
    return f"{__version__} ({commit})" if made.returncode == 0 and commit else __version__
