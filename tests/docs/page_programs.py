# SPDX-License-Identifier: Apache-2.0
"""Whether programs take the words that a page gives them: asked of the programs' own parsers and help texts."""

import contextlib
import functools
import importlib
import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from page_commands import OURS, REPO
from page_stages import program_of

PARSED = ("experiment", "evaluate", "together", "demo", "bench", "replay")
"""Commands of the lab, whose parser runs by itself (`weirlab.cli --check`)."""
SHELLS = ("test", "check", "docs", "package", "clean", "p4-corpus", "lab", "train")
"""Commands of ./run whose help may build; their options are in its scripts."""


def environment() -> dict[str, str]:
    folders = ("controller", "mininet", "train")
    return {
        **os.environ,
        "WEIR_ROOT": str(REPO),
        "PYTHONPATH": ":".join(str(REPO / folder) for folder in folders),
        "PYTHONDONTWRITEBYTECODE": "1",
        "COLUMNS": "200",
    }


@functools.cache
def said(*words: str) -> tuple[int, str]:
    """Exit status and output of a command. The Python programs are imported once: their start takes a second."""
    if words[1:2] == ("-m",):
        return _called(words[2], list(words[3:]))
    done = subprocess.run(words, cwd=REPO, env=environment(), capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def _called(module: str, words: list[str]) -> tuple[int, str]:
    output = io.StringIO()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            status = importlib.import_module(module).main(words)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
            output.write(end.code if isinstance(end.code, str) else "")
    for number, handler in handlers.items():
        signal.signal(number, handler)
    return status or 0, output.getvalue()


def binary(name: str) -> list[str]:
    if name == "weir":
        return [sys.executable, "-m", "weir.cli"]
    places = [REPO / "build" / "bin" / name, REPO / "build" / "xdp" / name]
    return [str(next((place for place in places if place.exists()), name))]


def help_of(name: str, words: list[str]) -> str:
    """Help of a program, and of its subcommands, as far as they have some."""
    status, text = said(*binary(name), "--help")
    found, inner = text, []
    for word in words[:2]:
        alone = name in ("weir-client", "weir-server", "weir-switch", "weir-stf") and word != "proxy"
        if not re.fullmatch(r"[a-z][\w-]*", word) or alone:
            break
        status, more = said(*binary(name), *inner, word, "--help")
        if status != 0:
            break
        inner.append(word)
        found = more if name != "weir-xdp" else found + more
    return found


def options_of(words: list[str]) -> list[str]:
    """Long and short options; those behind `--` are for another program."""
    own = words[: words.index("--")] if "--" in words else words
    return [match[1] for word in own if (match := re.match(r"^\[?(--?[A-Za-z][\w-]*)", word))]


def fault(words: list[str], whole: bool) -> str | None:
    """Why a command can't be right, if so. `whole`: nothing of it is left to the reader."""
    whole = whole and not any(re.search(r"\b[A-Z][A-Z-]+\b", word) for word in words)
    if words[:1] == ["./run"] and words[1] in PARSED:
        if whole:
            status, text = said(sys.executable, "-m", "weirlab.cli", "--check", *words[1:])
            return text if status else None
        return _missing(said(sys.executable, "-m", "weirlab.cli", words[1], "--help")[1], words[2:])
    if words[:1] == ["./run"] and words[1] in SHELLS:
        return _missing(_sources(words[1]), words[2:])
    name, *rest = program_of(words)
    if name not in OURS:
        return None
    if name == "./run":
        return f"./run has no command {rest[0] if rest else ''}"
    return _missing(help_of(name, rest), rest)


def _sources(command: str) -> str:
    texts = {
        "lab": ["mininet/weirlab/cli.py"],
        "train": sorted(str(path.relative_to(REPO)) for path in (REPO / "train/weirtrain").rglob("*.py")),
        "package": ["setup/package/package.sh", "run"],
        "docs": ["docs/site/build.sh", "run"],
        "p4-corpus": ["p4/switch/weir-p4/src/bin/weir-corpus.rs"],
    }
    found = "".join((REPO / path).read_text() for path in texts.get(command, ["run"]) if (REPO / path).exists())
    return found + (said("pytest", "--help")[1] if command == "test" else "") + (REPO / "conftest.py").read_text()


def _missing(text: str, words: list[str]) -> str | None:
    unknown = [
        option for option in options_of(words) if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text)
    ]
    return f"no option {' '.join(unknown)}" if unknown else None


def built() -> bool:
    return all(Path(binary(name)[0]).exists() for name in OURS if name.startswith("weir-"))
