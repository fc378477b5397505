#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Language rules of maintained pages and of comments: counts of violations, by rule and language.

`headless`: a sentence, heading, table cell or comment begins with a pronoun in the place of its noun ("What a trial
costs"). Questions are allowed. `private`: a word that has another meaning in this field than in everyday language.
The counts must not exceed setup/prose-ceiling.json, and a lower count lowers the file. `--list` prints every place.

Markdown is read by markdown-it, Python by ast, other languages by a regular expression: for this repository Pygments
takes a minute. The PyPI package of Vale downloads an unpinned binary at its first start, so it is not used.
"""

import argparse
import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[1]
CEILING = ROOT / "setup" / "prose-ceiling.json"
LANGUAGES = {".md": "markdown", ".rs": "rust", ".py": "python", ".c": "c", ".h": "c", ".p4": "p4"}
NOT_MAINTAINED = re.compile(r"CHANGELOG\.md$|docs/notebook/|docs/results/.*/(report|table|controls/[\w.-]+)\.md$")

RULES = {
    "headless": re.compile(r"^(What|Who|Whose|Whoever|Whatever|How|That|Which)\b(?!.*\?$)", re.IGNORECASE),
    "private": re.compile(
        r"(?<!cache )\bhits?\b|\b(told|tells?|said)\b|(?<!first )\blooks?\b(?! up)"
        r"|\b(a|per|each|every|one|this|same) turn\b"
        r"|\brooms?\b|\bgone\b|\bneighbours?\b(?! (discovery|table|entry|entries|solicitation|advertisement))"
        r"|\bin force\b|\b(of|than) ours\b|\bwhoever\b|\b(was|were|is) asked\b|\bthe aims?\b|\bfigures to reach\b",
        re.IGNORECASE,
    ),
}

_SENTENCE = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z])")
_CODE = re.compile(r"`[^`]*`")
_C_LIKE = re.compile(
    r"""r(?P<raw>\#*)"(?s:.*?)"(?P=raw)|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\\n])'"""
    r"""|(?P<block>/\*(?s:.*?)\*/)|(?P<line>//[^\n]*)""",
    re.VERBOSE,
)
_PYTHON = re.compile(
    r'[rbfuRBFU]{0,2}(?:"""(?s:.*?)"""|\'\'\'(?s:.*?)\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')|(?P<line>\#[^\n]*)'
)


class Text(NamedTuple):
    """A paragraph, heading, table cell or comment, with the line of its beginning."""

    line: int
    words: str


class Place(NamedTuple):
    path: str
    line: int
    rule: str
    words: str


def markdown_texts(source: str) -> Iterator[Text]:
    line = 0
    for token in MarkdownIt("commonmark").enable("table").parse(source):
        line = token.map[0] + 1 if token.map else line
        if token.type == "inline":
            parts = (part.content if part.type == "text" else "\n" if "break" in part.type else "" for part in
                     (token.children or []) if part.type != "code_inline")  # fmt: skip
            yield Text(line, "".join(parts))


def _joined(comments: Iterator[tuple[int, str, str]]) -> Iterator[Text]:
    """Comments on lines one below the other, with the same mark, are one text."""
    first, last, mark, words = 0, -1, "", ""
    for line, sign, text in comments:
        if line == last + 1 and sign == mark:
            words += "\n" + text
        else:
            if words:
                yield Text(first, words)
            first, mark, words = line, sign, text
        last = line + text.count("\n")
    if words:
        yield Text(first, words)


def c_texts(source: str) -> Iterator[Text]:
    def comments() -> Iterator[tuple[int, str, str]]:
        for match in _C_LIKE.finditer(source):
            line = source.count("\n", 0, match.start()) + 1
            if block := match["block"]:
                yield line, "/*", re.sub(r"^\s*\*+ ?", "", block[2:-2].strip("*! \n"), flags=re.MULTILINE)
            elif match["line"]:
                mark = re.match(r"//[/!]?", match["line"])
                assert mark
                yield line, mark[0], match["line"][mark.end() :].strip()

    return _joined(comments())


def python_texts(source: str) -> Iterator[Text]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield Text(node.lineno, node.value.value)
    yield from _joined(
        (source.count("\n", 0, match.start()) + 1, "#", match["line"].lstrip("# ").strip())
        for match in _PYTHON.finditer(source)
        if match["line"]
    )


READERS = {"markdown": markdown_texts, "python": python_texts, "c": c_texts, "p4": c_texts, "rust": c_texts}


def sentences(text: Text) -> Iterator[Text]:
    """Paragraphs and items of a comment are split as well. A line break is no end of a sentence."""
    line = text.line
    for paragraph in re.split(r"(\n\s*\n|\n\s*[-*] )", text.words):
        for sentence in _SENTENCE.split(_CODE.sub("", paragraph)):
            if words := " ".join(sentence.split()).lstrip("-*# "):
                yield Text(line, words)
        line += paragraph.count("\n")


def places(path: str) -> list[Place]:
    source = (ROOT / path).read_text(encoding="utf-8", errors="replace")
    found = []
    for text in READERS[LANGUAGES[Path(path).suffix]](source):
        for sentence in sentences(text):
            found += [
                Place(path, sentence.line, rule, sentence.words)
                for rule, pattern in RULES.items()
                for _ in pattern.finditer(sentence.words)
            ]
    return found


def maintained(suffixes: tuple[str, ...] = tuple(LANGUAGES)) -> list[str]:
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    wanted = (path for path in listed if path.endswith(suffixes) and not NOT_MAINTAINED.search(path))
    return [path for path in wanted if (ROOT / path).is_file()]


def counted(found: list[Place]) -> dict[str, dict[str, int]]:
    counts = {rule: dict.fromkeys(sorted(set(LANGUAGES.values())), 0) for rule in RULES}
    for place in found:
        counts[place.rule][LANGUAGES[Path(place.path).suffix]] += 1
    return counts


def all_places(paths: list[str]) -> list[Place]:
    return [place for path in paths for place in places(path)]


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Count violations of the language rules.")
    parser.add_argument("--list", nargs="*", metavar="PATH", help="print every place, or those of these files")
    options = parser.parse_args(words)
    if options.list is not None:
        for place in all_places(options.list or maintained()):
            print(f"{place.path}:{place.line}: {place.rule}: {place.words[:100]}")
        return 0
    found = all_places(maintained())
    counts, ceiling = counted(found), json.loads(CEILING.read_text(encoding="utf-8"))
    status, lower = 0, json.loads(json.dumps(ceiling))
    for rule, languages in counts.items():
        for language, count in languages.items():
            if count > ceiling[rule][language]:
                status = 1
                print(f"prose: {rule}, {language}: {count} places, ceiling {ceiling[rule][language]}; "
                      f"setup/prose.py --list FILE prints those of a file", file=sys.stderr)  # fmt: skip
            lower[rule][language] = min(count, ceiling[rule][language])
    if lower != ceiling:
        CEILING.write_text(json.dumps(lower, indent=2) + "\n", encoding="utf-8")
        print(f"prose: lower counts; commit {CEILING.relative_to(ROOT)}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
