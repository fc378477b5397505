# SPDX-License-Identifier: Apache-2.0
"""No Rust file is too long. Functions are clippy's to measure: `too_many_lines`, with the limit in clippy.toml."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES_OF_A_FILE = 700
MOST_LINES_OF_A_FUNCTION = 120
# Longer ones that there are, and the lines that they may have: none may grow, and none may be added without a reason.
LONGER: dict[str, int] = {}


def sources() -> list[Path]:
    """Sources of all crates but their tests and what builds leave behind."""
    found = (path for folder in ("p4/switch", "quic-client", "icn") for path in sorted((ROOT / folder).rglob("*.rs")))
    return [path for path in found if not {"tests", "target"} & set(path.relative_to(ROOT).parts)]


def test_no_file_is_too_long():
    lines = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8").count("\n") for path in sources()}
    assert {name: n for name, n in lines.items() if n > LONGER.get(name, MOST_LINES_OF_A_FILE)} == {}


def test_clippy_has_the_limit_of_functions():
    assert tomllib.loads((ROOT / "clippy.toml").read_text())["too-many-lines-threshold"] == MOST_LINES_OF_A_FUNCTION


def test_a_longer_function_says_why():
    """Outside tests `too_many_lines` is switched off only for single functions, with a reason."""
    wrong = []
    for path in sources():
        text = path.read_text(encoding="utf-8")
        for m in re.finditer(r"#(!?)\[(?:allow|expect)\([^\]]*too_many_lines[^\]]*\]", text):
            if m[1] or "reason = " not in m[0]:
                wrong.append(f"{path.relative_to(ROOT)}:{text[: m.start()].count(chr(10)) + 1}: {m[0]}")
    assert wrong == []
