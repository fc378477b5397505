# SPDX-License-Identifier: Apache-2.0
"""`weir switch ...`: names of before 0.6, and the present ones. They go with the next release."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def translated(words: Sequence[str]) -> list[str]:
    """The words of the command that does it now."""
    command, *rest = words or ["--help"]
    if command not in ("gains", "watch"):
        return ["p4", command, *rest]
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--address", default="127.0.0.1:9559")
    parser.add_argument("--digest")
    parser.add_argument("--jsonl", action="store_true")
    old, others = parser.parse_known_args(rest)
    if command == "gains":
        return ["gains", "--p4", old.address, *others]
    if old.digest is not None:
        return ["p4", "digests", old.digest, "--p4", old.address, *(["--jsonl"] if old.jsonl else []), *others]
    return ["watch", "--p4", old.address, *([] if old.jsonl else ["--text"]), *others]


def say(words: Sequence[str], now: Sequence[str]) -> None:
    """One line with the present name."""
    old, new = " ".join(["weir switch", *words[:1]]), " ".join(["weir", *now])
    print(f"weir: `{old}` will go with the next release; call `{new}`", file=sys.stderr, flush=True)
