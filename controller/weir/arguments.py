# SPDX-License-Identifier: Apache-2.0
"""What the commands' parsers share: their look, and numbers with a range."""

import argparse
from collections.abc import Callable


def command(name: str, description: str, example: str) -> argparse.ArgumentParser:
    """The parser of `weir NAME`, with its examples below the options."""
    return argparse.ArgumentParser(
        prog=f"weir {name}",
        description=description,
        epilog=example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def whole(least: int, most: int) -> Callable[[str], int]:
    """A whole number in that range."""

    def convert(text: str) -> int:
        try:
            value = int(text, 0)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number") from None
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text}: must be {least} .. {most}")
        return value

    return convert


def seconds(text: str) -> float:
    """A number of seconds above 0."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number of seconds") from None
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text}: must be above 0")
    return value
