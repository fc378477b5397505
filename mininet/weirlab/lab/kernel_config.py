# SPDX-License-Identifier: Apache-2.0
"""What the exact lab's kernel has, as its configuration says (`kernels/exact.config`)."""

import re

from weirlab import paths

CONFIG = paths.kernels() / "exact.config"


def _built_in(prefix: str) -> tuple[str, ...]:
    return tuple(name.lower() for name in re.findall(rf"^CONFIG_{prefix}_([A-Z0-9_]+)=y$", CONFIG.read_text(), re.M))


# Reno is in every kernel; ADVANCED is the question whether there is a choice.
CONGESTION_CONTROLS = ("reno", *(name for name in _built_in("TCP_CONG") if name != "advanced"))
QDISCS = ("pfifo", *_built_in("NET_SCH"))
