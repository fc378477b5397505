# SPDX-License-Identifier: Apache-2.0
"""Help texts of the Python programs and of `./run`: each begins with its noun (`headless` of setup/prose.py)."""

import argparse
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "setup"))
from prose import RULES  # noqa: E402

PARSERS = {
    "weir.commands.status": "parser",
    "weir.commands.gains": "parser",
    "weir.commands.p4": "parser",
    "weir.telemetry.watch": "parser",
    "weir.telemetry.top": "parser",
    "weir.tuner.cli": "_parser",
    "weir.model.cli": "parser",
    "weirlab.cli": "parser",
    "weirtrain.cli": "parser",
}
SENTENCE = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z])|--[a-z-]+: ")


def headless(text: str) -> list[str]:
    return [sentence for sentence in SENTENCE.split(text.strip()) if RULES["headless"].search(sentence)]


def texts(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Description, options, and the same of all subcommands."""
    yield parser.description or ""
    for group in parser._action_groups:
        yield group.description or ""
    for action in parser._actions:
        if action.help not in (None, argparse.SUPPRESS):
            yield action.help
        if isinstance(action, argparse._SubParsersAction):
            yield from (choice.help or "" for choice in action._choices_actions)
            for command in action.choices.values():
                yield from texts(command)


@pytest.mark.parametrize("module", PARSERS)
def test_options_begin_with_their_noun(module: str) -> None:
    parser = getattr(importlib.import_module(module), PARSERS[module])()
    assert not [sentence for text in texts(parser) for sentence in headless(text)]


def test_commands_begin_with_their_noun() -> None:
    from weir.cli import GROUPS

    abouts = [about for commands in GROUPS.values() for _, about in commands.values()]
    usage = subprocess.run([REPO / "run", "--help"], capture_output=True, text=True, check=True).stdout
    entries = re.sub(r"\n {20,}", " ", usage).splitlines()
    abouts += [re.split(r" {2,}", line.strip())[-1] for line in entries if line.startswith("  ")]
    assert len(abouts) > 20
    assert not [sentence for about in abouts for sentence in headless(about)]
