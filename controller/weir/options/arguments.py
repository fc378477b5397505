# SPDX-License-Identifier: Apache-2.0
"""Common parts of the commands' parsers: their form, numbers with a range, and how a command ends."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from ..dataplane.base import DataPlaneError
from ..text import printable

DONE, FAILED, WRONG_CALL = 0, 1, 2
EXIT_STATUS = "exit status: 0 done, 1 failed, 2 wrong call."


class Subcommand(argparse.ArgumentParser):
    """Parser of one of several commands. It rejects unknown words itself: the usage in the error is its own."""

    takes_others = False
    """Unknown words are for another parser."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, unknown = super().parse_known_args(args, namespace)
        if unknown and not self.takes_others:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


def status_of(error: OSError) -> int:
    """Exit status of an OSError: a file that an option names and that is missing, or is none, is a wrong call."""
    missing = isinstance(error, (FileNotFoundError, NotADirectoryError, IsADirectoryError)) and error.filename
    return WRONG_CALL if missing else FAILED


def complain(name: str, text: object, lines: bool = False) -> None:
    """One error of `weir NAME` on standard error, in argparse's form."""
    print(f"weir {name}: error: {printable(text, lines=lines)}", file=sys.stderr)


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


def count(text: str) -> int:
    """A whole number above 0, in decimal."""
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number above 0")
    return int(text)


def seconds(text: str) -> float:
    """A number of seconds above 0."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number of seconds") from None
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text}: must be above 0")
    return value


def end(name: str, work: Callable[[], int]) -> int:
    """The exit status of a command's work; its errors become one line. A ValueError is a wrong call: SettingsError,
    GainError, FleetError."""
    try:
        status = work()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # the reader of our output has seen enough; buffered output has nowhere to go
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except ValueError as error:
        said, status = str(error), WRONG_CALL
    except DataPlaneError as error:
        said, status = str(error), FAILED
    except OSError as error:
        said, status = f"{error.filename or 'standard output'}: {error.strerror}", status_of(error)
    complain(name, said)
    return status


def add_metrics_hosts(group: Any) -> None:
    """The option that adds hosts to --metrics."""
    group.add_argument(
        "--metrics-hosts", type=whole(0, 1000), default=0, metavar="N",
        help="--metrics: also the N hosts of each queue with the most bytes, by address, which is personal data, and "
        "the sum of the others; needs `weir-xdp attach --flow-records` (default 0: no addresses)",
    )  # fmt: skip
