# SPDX-License-Identifier: Apache-2.0
"""The `weir` command: what an operator does to data planes. `python -m weir.cli`, or `./run weir`.

Each room has a module of its own with `main(words) -> exit status`, imported only when it is asked for: a tuner beside
an eBPF queue has no use for gRPC, and start-up is time.
"""

import importlib
import signal
import sys
from collections.abc import Sequence

ROOMS = {
    "gains": ("weir.dataplane.cli", "the law's gains on any device: print, set"),
    "model": ("weir.model.cli", "the fluid model: margins, Bode and Nyquist plots, maps, simulation"),
    "switch": ("weir.switch.cli", "P4 switches over P4Runtime: deploy, show, gains, watch"),
    "tune": ("weir.tuner.cli", "gains that fit each port's line, found and kept right; says why"),
    "top": ("weir.telemetry.top", "every queue on one screen"),
    "watch": ("weir.telemetry.watch", "what queues tell, as JSON lines and for Prometheus"),
}


def usage() -> str:
    rooms = "".join(f"  {name:<9}{told}\n" for name, (_, told) in ROOMS.items())
    return f"usage: weir ROOM ...\n\nWeir's controller: sets up data planes, watches and tunes them.\n\nrooms:\n{rooms}"


def main(words: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if words is None else words)
    if words and words[0] in ("-h", "--help"):
        print(f"{usage()}\nweir ROOM --help says more.")
        return 0
    if not words or words[0] not in ROOMS:
        said = f"no room {words[0]!r}" if words else "which room?"
        print(f"{usage()}weir: error: {said}: must be one of {', '.join(ROOMS)}", file=sys.stderr)
        return 2
    return importlib.import_module(ROOMS[words[0]][0]).main(words[1:])


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main())
