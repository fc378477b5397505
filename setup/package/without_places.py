# SPDX-License-Identifier: Apache-2.0
"""Takes out of compiled programs where they were built: `without_places.py --place PLACE/ WORD/ ... PROGRAM ...`.

Compilers write paths of sources into a program, for its messages about faults in itself. In each program every PLACE/
becomes WORD/, with slashes behind it up to the same length: nothing moves, and the text stays a path. A program that
does not hold a place was built elsewhere than its packager believes: an error, as its own place would stay in it."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


class PlaceError(Exception):
    """Something can't be taken out; the message says what and why."""


def without(program: bytes, places: Sequence[tuple[str, str]]) -> bytes:
    """The program's bytes, as many as before, without the places. PlaceError if one is not in it or is too short."""
    for place, word in places:
        old, new = place.encode(), word.encode()
        if not (place.endswith("/") and word.endswith("/") and len(new) <= len(old)):
            raise PlaceError(f"{place} and {word}: both must end with a slash, and the second be no longer")
        if old not in program:
            raise PlaceError(f"no path in it begins with {place}: it was built elsewhere")
        program = program.replace(old, new + b"/" * (len(old) - len(new)))
    return program


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Takes out of compiled programs where they were built.")
    parser.add_argument("--place", nargs=2, action="append", default=[], metavar=("PLACE/", "WORD/"))
    parser.add_argument("programs", nargs="+", type=Path, metavar="PROGRAM")
    args = parser.parse_args(words)
    for path in args.programs:
        try:
            path.write_bytes(without(path.read_bytes(), args.place))
        except (OSError, PlaceError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
