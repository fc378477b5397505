# SPDX-License-Identifier: Apache-2.0
"""The `weir` command: an operator's access to data planes. `weir`, `./run weir`, or `python -m weir.cli`.

Each command has a module of its own with `main(words) -> exit status`, imported only when it is asked for: a tuner
beside an eBPF queue has no use for gRPC, and start-up is time.
"""

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from . import stopping

GROUPS = {
    "look": {
        "status": ("weir.commands.status", "the present state of each device and port"),
        "watch": ("weir.telemetry.watch", "the samples of each port: JSON lines or text, and for Prometheus"),
        "top": ("weir.telemetry.top", "every queue on one screen"),
    },
    "set": {
        "gains": ("weir.commands.gains", "the law's gains on any device: print, set"),
        "tune": ("weir.tuner.cli", "finds gains that fit each port's line, keeps them right, gives reasons"),
    },
    "P4 switches": {
        "p4": ("weir.commands.p4", "deploy a program and its tables, show what a switch holds, print digests"),
    },
    "design": {
        "model": ("weir.model.cli", "the fluid model: margins, Bode and Nyquist plots, maps, simulation"),
    },
}

OPTIONAL = {
    "google": "python3-protobuf",
    "grpc": "python3-grpcio",
    "matplotlib": "python3-matplotlib",
    "numpy": "python3-numpy",
}
"""Modules that only some commands need, and the Debian packages that have them: Weir's own package suggests those."""

COMMANDS = {name: module for commands in GROUPS.values() for name, (module, _) in commands.items()}

TEXT = """\
Devices are named by the same options for every command: --bpf DEV for an interface that weir-xdp is attached to,
--p4 HOST:PORT for a P4 switch, --fleet FILE for many of both. Without any: all interfaces that weir-xdp is attached to.

examples:
  weir status
  weir watch --bpf eth0 --text
  weir gains --p4 10.0.0.1:9559 --port 2 --set target_us=5000
  weir tune --fleet fleet.toml
  weir p4 deploy --config s1.toml

exit status: 0 done, 1 failed, 2 wrong call. `weir COMMAND --help` has the options and more examples.
"""


def usage() -> str:
    groups = (
        f"{group}:\n" + "".join(f"  {name:<9}{about}\n" for name, (_, about) in commands.items())
        for group, commands in GROUPS.items()
    )
    about = "Weir's controller: shows what data planes do, sets them up, and keeps their gains right."
    return f"usage: weir COMMAND ...\n\n{about}\n\n" + "\n".join(groups)


def main(words: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if words is None else words)
    if words and words[0] in ("-h", "--help"):
        print(f"{usage()}\n{TEXT}", end="")
        return 0
    if words and words[0] == "--version":
        from .resources import build_version

        print(f"weir {build_version()}")
        return 0
    module = COMMANDS.get(words[0]) if words else None
    if module is None:
        said = f"no command {words[0]!r}" if words else "no command"
        print(f"{usage()}\nweir: error: {said}: must be one of {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    try:
        status: int = importlib.import_module(module).main(words[1:])
    except ModuleNotFoundError as error:
        package = OPTIONAL.get((error.name or "").split(".")[0])
        if package is None:
            raise
        print(f"weir: this needs Python's {error.name}, which is not installed: apt install {package}", file=sys.stderr)
        return 1
    return status


def _with_output(work: Callable[[], int]) -> Any:
    """The exit status of a command, and of what it wrote to standard output: the end of the interpreter is too late to
    report that."""
    status: Any = 0
    if sys.stdout is None:  # closed: to write there is to be the error that it is for other programs
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115
    try:
        try:
            status = work()
        except SystemExit as stop:
            status = stop.code
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        pass  # its reader has seen enough
    except OSError as error:
        if not status:
            print(f"weir: {error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
        status = status or 1
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def run() -> Any:
    """The installed command."""
    stopping.install()
    stopping.finish(_with_output(main))


if __name__ == "__main__":
    sys.exit(run())
