# SPDX-License-Identifier: Apache-2.0
"""A researcher's own server in the suite of congestion controls: `./run evaluate --suite cc --stack PROGRAM`."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weirlab.lab.quic_servers import LABEL, PLACES, Server, ServersError, read_one
from weirlab.scenario.errors import ScenarioError

ARGV = "--listen {address}:{port} --cert {cert} --key {key}"
"""Arguments of a program without `--stack-argv`."""
ROW = ".toml"


@dataclass(frozen=True)
class OwnStack:
    """A server, and its controls: the name in the suite to the name in the row."""

    server: Server
    controls: dict[str, str]


def own_stacks(words: Sequence[str], argv: str | None, alpn: str | None, path: str | None) -> list[OwnStack]:
    """The servers that `--stack` names: programs, started with `argv`, and files with a row. Raises ScenarioError."""
    programs = [word for word in words if not word.endswith(ROW)]
    options = {"--stack-argv": argv, "--stack-alpn": alpn, "--stack-path": path}
    given = [option for option, value in options.items() if value is not None]
    if given and len(programs) != 1:
        raise ScenarioError([f"{given[0]} is for one --stack PROGRAM; there are {len(programs)}"])
    found = [_of_file(word) if word.endswith(ROW) else _of_program(word, argv, alpn, path) for word in words]
    labels = [label for one in found for label in one.controls]
    if twice := sorted({label for label in labels if labels.count(label) > 1}):
        raise ScenarioError([f"--stack: {twice[0]!r} is there twice; give the programs different names"])
    return found


def check_places(own: Sequence[OwnStack]) -> None:
    """Raises ScenarioError for a program that a lab does not see."""
    if hidden := [reason for one in own if (reason := one.server.hidden())]:
        raise ScenarioError([f"--stack: {reason}" for reason in hidden])


def _of_file(word: str) -> OwnStack:
    try:
        server = read_one(Path(word))
    except (ServersError, OSError) as error:
        raise ScenarioError([f"--stack: {error}"]) from None
    name = _label(server.name)
    controls = {f"{name}-{control}": control for control in server.controls}
    if controls:
        return OwnStack(server, controls)
    return _alone(server, name)


def _of_program(word: str, argv: str | None, alpn: str | None, path: str | None) -> OwnStack:
    program = Path(word)
    if not program.is_file():
        raise ScenarioError([f"--stack {word}: no such file; give a program, or a row in a file that ends in {ROW}"])
    if not os.access(program, os.X_OK):
        raise ScenarioError([f"--stack {word}: not executable; run chmod +x {word}"])
    try:
        words = shlex.split(ARGV if argv is None else argv)
    except ValueError as error:
        raise ScenarioError([f"--stack-argv {argv!r}: {error}"]) from None
    for place in re.findall(r"\{(\w*)\}", " ".join(words)):
        if place not in PLACES:
            known = ", ".join(f"{{{name}}}" for name in sorted(PLACES))
            raise ScenarioError([f"--stack-argv: {{{place}}} is unknown; there are {known}"])
    if not any("{port}" in word for word in words):
        raise ScenarioError([f"--stack-argv {argv!r}: no {{port}}, where the server has to listen; add it"])
    place = "/bytes/{bytes}" if path is None else _path(path)
    server = Server(_label(program.stem), str(program.absolute()), tuple(words), alpn or "h3", place)
    return _alone(server, server.name)


def _path(path: str) -> str:
    if not path.startswith("/") or "{bytes}" not in path or path.replace("{bytes}", "").count("{"):
        raise ScenarioError([f"--stack-path {path!r}: write a path that begins with /, with {{bytes}} for a size"])
    return path


def _alone(server: Server, name: str) -> OwnStack:
    """A server with one control, which has no name of its own."""
    server.controls[name] = []
    return OwnStack(server, {name: name})


def _label(text: str) -> str:
    """A name that can be a folder's."""
    name = re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_")
    if not re.fullmatch(LABEL, name):
        raise ScenarioError([f"--stack: no name in {text!r}; give the program one with letters or digits"])
    return name
