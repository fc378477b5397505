# SPDX-License-Identifier: Apache-2.0
"""Commands of the pages: code blocks, their markers, and their statements.

A block with commands has a marker on the line before it, an HTML comment: `run: HOST` (a host of page_stages.py),
`run by FILE` (a test that runs the lines of the block), or `not run: REASON` (a key of REASONS). Words in capitals
are for the reader to fill in.
"""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]

REASONS = {
    "lab": "takes minutes in the lab",
    "build": "builds or tests sources for minutes",
    "form": "shows the form of a command, which the reader completes",
    "internet": "needs networks or servers elsewhere",
    "packages": "needs installed packages, or a container engine",
    "systemd": "needs systemd, and changes the machine's services",
    "bmv2": "needs BMv2 and p4c, which no package registry has",
    "hardware": "needs a network card with many queues, or libxdp's dispatcher",
    "device": "needs a switch or a fleet of the reader's",
    "rights": "changes the rights of a program of the clone",
}

OURS = (
    "./run",
    "weir",
    "weir-xdp",
    "weir-sojourn",
    "weir-switch",
    "weir-stf",
    "weir-client",
    "weir-server",
    "weir-icn",
)
OTHERS = (
    ".", "sudo", "apt", "build/venv/bin/pre-commit", "build/venv/bin/python", "camera", "cargo", "cat", "cd",
    "chromium", "cmp", "cp", "curl", "deactivate", "echo", "ethtool", "exit", "export", "for", "git", "head", "make",
    "ip", "mininet/examples/one_to_three.sh", "mkdir", "mount", "p4c-bm2-ss", "pingall", "pip", "player", "podman",
    "pytest", "python", "python3", "setcap", "setup/test.sh", "sh", "simple_switch", "simple_switch_CLI",
    "simple_switch_grpc", "switch_bench.py", "systemctl", "tar", "tc", "tee", "touch", "unshare", "valgrind",
    "xdp-loader",
)  # fmt: skip
"""Programs of others: their options are not checked."""

MARKER = re.compile(r"<!-- (?:run: (?P<host>[\w-]+)|run by (?P<test>\S+)|not run: (?P<reason>[\w-]+)) -->")
_BLOCK = re.compile(
    r"^(?P<fence>```)(?P<lang>\w*)\n(?P<text>.*?)^```$|(?:(?<=\n\n)|(?<=-->\n))(?P<code>(?:    [^\n]*\n)+)", re.M | re.S
)
_NAMES = "|".join(re.escape(word) for word in sorted({*OURS, *OTHERS}, key=len, reverse=True))
_COMMAND = re.compile(rf"^(?:\w+=\S+ )*(?:{_NAMES})(?= |$)", re.M)


@dataclass(frozen=True)
class Block:
    """A code block with commands."""

    page: str
    line: int
    text: str
    marker: re.Match[str] | None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    def statements(self) -> list[str]:
        """Parts that a shell can run by themselves; lines that belong together stay together."""
        found, part = [], ""
        for line in self.text.splitlines(keepends=True):
            part += line
            parsed = subprocess.run(["bash", "-n", "-c", part], capture_output=True, check=False)
            if parsed.returncode == 0 and not parsed.stderr and not part.endswith("\\\n"):
                found += [part.strip()] if re.sub(r"^\s*#.*", "", part, flags=re.M).strip() else []
                part = ""
        return found + ([part.strip()] if part.strip() else [])


def pages() -> list[str]:
    git = ["git", "-c", f"safe.directory={REPO}", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(git, cwd=REPO, capture_output=True, text=True, check=True).stdout.split("\n")
    return [page for page in listed if page.startswith("docs/use/") or page.endswith("README.md")]


def blocks_of(page: str, text: str) -> Iterator[Block]:
    for match in _BLOCK.finditer(text):
        body = match["text"] if match["fence"] else re.sub(r"^    ", "", match["code"], flags=re.M)
        if (match["lang"] or "") not in ("", "sh") or not (match["lang"] == "sh" or _COMMAND.search(body)):
            continue
        before = text[: match.start()].rstrip("\n").rsplit("\n", 1)[-1]
        yield Block(page, text.count("\n", 0, match.start()) + 1, body, MARKER.fullmatch(before))


def blocks() -> list[Block]:
    return [block for page in pages() for block in blocks_of(page, (REPO / page).read_text("utf-8"))]


def simple_commands(statement: str) -> Iterator[list[str]]:
    """The words of each command in a statement, without `sudo`, variables and the shell's own words."""
    joined = re.sub(r"<<(\w+)\n.*?^\1$", "", re.sub(r"\\?\n(?=\s+\[)|\\\n", " ", statement), flags=re.M | re.S)
    for line in joined.splitlines():
        line = re.sub(r"(^|\s)#.*|\s\d?>+ ?\S+", "", line)
        for part in re.split(r"\|+|&&|;|(?<!\d)&(?!\d)", line):
            words = [word.strip("'\"()") for word in part.split()]
            while words and (
                words[0] in ("sudo", "do", "done", "then", "exec", "fi", "if") or re.match(r"^\w+=", words[0])
            ):
                words = words[1:]
            if words:
                yield words
