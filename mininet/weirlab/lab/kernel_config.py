# SPDX-License-Identifier: Apache-2.0
"""Options of the exact lab's kernels, from their configurations: every version (`kernels/exact.config`), some versions
(`kernels/some.config`), and one that is built (the `config` in its folder)."""

import re
from pathlib import Path

from weirlab import paths

CONFIG, SOME_CONFIG = (paths.kernels() / f"{name}.config" for name in ("exact", "some"))


def _built_in(prefix: str, config: Path = CONFIG) -> tuple[str, ...]:
    return tuple(name.lower() for name in re.findall(rf"^CONFIG_{prefix}_([A-Z0-9_]+)=y$", config.read_text(), re.M))


# Reno is in every kernel; ADVANCED is the question whether there is a choice.
CONGESTION_CONTROLS = ("reno", *(name for name in _built_in("TCP_CONG") if name != "advanced"))
QDISCS = ("pfifo", *_built_in("NET_SCH"))
SOME_QDISCS = _built_in("NET_SCH", SOME_CONFIG)


def qdiscs_lacking(folder: Path) -> tuple[str, ...]:
    """Those of SOME_QDISCS that the kernel in that folder has not."""
    there = _built_in("NET_SCH", folder / "config")
    return tuple(name for name in SOME_QDISCS if name not in there)
