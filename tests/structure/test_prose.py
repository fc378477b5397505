# SPDX-License-Identifier: Apache-2.0
"""The language rules of setup/prose.py, and their counts beside the ceiling."""

import importlib.util
import json
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]


def _prose():
    spec = importlib.util.spec_from_file_location("prose", REPO / "setup" / "prose.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


prose = _prose()


def rules_of(language: str, source: str) -> list[str]:
    return [
        rule
        for text in prose.READERS[language](source)
        for sentence in prose.sentences(text)
        for rule, pattern in prose.RULES.items()
        for _ in pattern.finditer(sentence.words)
    ]


@pytest.mark.parametrize(
    ("language", "source", "rules"),
    [
        ("markdown", "What a trial costs.", ["headless"]),
        ("markdown", "A trial has a cost. How much, depends.", ["headless"]),
        ("markdown", "| file | what |\n|---|---|\n| `a` | b |\n", ["headless"]),
        ("markdown", "# Which queue\n", ["headless"]),
        ("markdown", "What does a trial cost?", []),
        ("markdown", "The cost of a trial, and what\nHow much means here.", []),
        ("markdown", "A `hit` is code, and a cache hit is one.", []),
        ("markdown", "A packet is hit.", ["private"]),
        ("markdown", "A look up of a neighbour entry.", []),
        ("markdown", "```\nWhat is hit\n```\n", []),
        ("rust", "/// What becomes of a packet.\nfn f() {}\n", ["headless"]),
        (
            "rust",
            '/// A packet.\nfn f() { g("// What", \'"\', r#"// "What"#) } // how it is told\n',
            ["headless", "private"],
        ),
        ("rust", "// A line that goes on with\n// what follows.\n", []),
        ("rust", "fn f<'a>(x: &'a str) {} // A reason's noun, not 'a.\n", []),
        ("c", "/* Who waits.\n * A reason. */\nint f(void);\n", ["headless"]),
        ("p4", "// Which band.\n", ["headless"]),
        ("python", '"""What it is."""\n', ["headless"]),
        ("python", 'X = "What it is."\n"""A value."""\nY = 1  # How it goes on\n', ["headless"]),
        ("python", "X = '# What'\n", []),
    ],
)
def test_a_rule_finds_its_places_only(language, source, rules):
    assert rules_of(language, source) == rules


def test_a_place_has_its_line():
    texts = prose.python_texts('X = 1\n\n# A reason.\n# What it is.\n"""A value."""\n')
    assert sorted(text.line for text in texts) == [3, 5]


def test_counts_do_not_exceed_the_ceiling():
    counts = prose.counted(prose.all_places(prose.maintained()))
    ceiling = json.loads(prose.CEILING.read_text(encoding="utf-8"))
    above = {
        (rule, language): (count, ceiling[rule][language])
        for rule, languages in counts.items()
        for language, count in languages.items()
        if count > ceiling[rule][language]
    }
    assert not above, "count, ceiling; setup/prose.py --list FILE prints the places of a file"


def test_a_lower_count_lowers_the_ceiling_and_a_higher_one_fails(tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    ceiling = tmp_path / "ceiling.json"
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    monkeypatch.setattr(prose, "CEILING", ceiling)
    monkeypatch.setattr(prose, "maintained", lambda: ["page.md"])
    page.write_text("What it is. What it does.\n")
    allowed = prose.counted([])
    allowed["headless"]["markdown"] = 3
    ceiling.write_text(json.dumps(allowed))
    assert prose.main([]) == 0
    assert json.loads(ceiling.read_text())["headless"]["markdown"] == 2
    page.write_text("What it is. What it does. What it costs.\n")
    assert prose.main([]) == 1
    assert json.loads(ceiling.read_text())["headless"]["markdown"] == 2
