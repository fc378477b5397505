# SPDX-License-Identifier: Apache-2.0
"""Length of the maintained pages. tests/docs/words.json has the limits."""

import importlib.util
import json
import re
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
LIMITS = json.loads((Path(__file__).parent / "words.json").read_text(encoding="utf-8"))


def _prose():
    spec = importlib.util.spec_from_file_location("prose", REPO / "setup" / "prose.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def words_of(page: str) -> int:
    """Words have a letter or a digit: the lines of a table are none."""
    return sum(1 for word in (REPO / page).read_text(encoding="utf-8").split() if re.search(r"\w", word))


def counted() -> dict[str, int]:
    return {page: words_of(page) for page in _prose().maintained((".md",))}


def longest(words: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(words.items(), key=lambda item: -item[1])[:10]


def test_guides_and_readmes_stay_short():
    words = {page: n for page, n in counted().items() if not re.match(r"docs/(design|decisions|results)/", page)}
    assert sum(words.values()) <= LIMITS["guide_words"], longest(words)


def test_maintained_pages_together_stay_short():
    words = counted()
    assert sum(words.values()) <= LIMITS["words"], longest(words)


def test_each_design_page_stays_short():
    words = {page: n for page, n in counted().items() if page.startswith("docs/design/")}
    assert words
    assert {page: n for page, n in words.items() if n > LIMITS["design_page_words"]} == {}


def test_notebook_pages_have_a_date_and_no_menu_names_them():
    pages = [path for path in (REPO / "docs" / "notebook").glob("*.md") if path.name != "README.md"]
    assert pages
    assert [page.name for page in pages if not re.match(r"\d{4}-\d\d-[\w.-]+\.md$", page.name)] == []
    heads = {page.name: page.read_text(encoding="utf-8")[:300] for page in pages}
    assert [name for name, head in heads.items() if not re.search(r"Notebook.*\d{4}-\d\d.*not maintained", head)] == []
    assert "docs/notebook" not in (REPO / "docs" / "site" / "mkdocs.yml").read_text(encoding="utf-8")


def test_the_front_page_stays_short():
    lines = (REPO / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LIMITS["front_page_lines"]
