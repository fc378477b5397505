# SPDX-License-Identifier: Apache-2.0
"""The documentation: the site builds, no link in it is broken, and the paths that texts name exist."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

REPO = Path(__file__).resolve().parents[2]


def _hooks():
    spec = importlib.util.spec_from_file_location("site_hooks", REPO / "docs" / "site" / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hooks = _hooks()


class Links(HTMLParser):
    """Links of a page, and its anchors."""

    def __init__(self, page: Path):
        super().__init__()
        self.anchors, self.targets, self.loaded = set(), set(), set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.anchors.add(value)
            elif name in ("href", "src"):
                (self.targets if tag == "a" else self.loaded).add(value)


def build(repository: Path, site: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    config = str(repository / "docs" / "site" / "mkdocs.yml")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [*command, "--config-file", config], capture_output=True, text=True, env=environment, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs") / "site"
    built = build(REPO, folder)
    assert built.returncode == 0, built.stderr
    return {path.relative_to(folder): Links(path) for path in folder.rglob("*.html")}, folder


def test_every_markdown_file_is_a_page(site):
    pages, _ = site
    markdown = {Path(path) for path in hooks.repository_files() if path.endswith(".md")}
    assert len(markdown) > 40
    wanted = {
        path.with_name("index.html") if path.name == "README.md" else path.with_suffix(".html") for path in markdown
    }
    assert wanted <= set(pages)


def test_no_link_of_the_site_is_broken(site):
    pages, folder = site
    broken = []
    for page, links in pages.items():
        if page.name == "404.html":  # its links are those of a server's root
            continue
        for link in links.targets | links.loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            path = Path(os.path.normpath(page.parent / unquote(parts.path))) if parts.path else page
            if (folder / path).is_dir():
                path = path / "index.html"
            there = pages.get(path)
            fine = (folder / path).is_file() and (not parts.fragment or not there or parts.fragment in there.anchors)
            if not fine and not parts.fragment.startswith("__"):  # switches of the theme, which its script makes
                broken.append(f"{page}: {link}")
    assert not broken


def test_pages_load_nothing_from_elsewhere(site):
    pages, folder = site
    elsewhere = [f"{page}: {url}" for page, links in pages.items() for url in links.loaded if urlsplit(url).netloc]
    assert not elsewhere
    styles = [path for path in folder.rglob("*.css") if re.search(r"url\(\s*['\"]?(https?:)?//", path.read_text())]
    assert not styles


def test_a_broken_link_fails_the_build(tmp_path):
    """In a copy of the pages: a link to a page, one to a heading and one to a source file, all missing."""
    copy = tmp_path / "copy"
    there = hooks.repository_files()
    pages = {path for path in there if path.endswith(".md")}
    linked = {hooks.linked(page, link) for page in pages for link in hooks.LINK.findall((REPO / page).read_text())}
    for path in pages | (linked & there) | {path for path in there if path.startswith("docs/site/")}:
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPO / path, copy / path)
    subprocess.run(["git", "init", "--quiet", str(copy)], check=True)
    guide = copy / "docs" / "use" / "router.md"
    guide.write_text(
        f"{guide.read_text(encoding='utf-8')}\n[a](gone.md), [b](tuning.md#gone), [c](../../xdp/gone.c)\n",
        encoding="utf-8",
    )
    built = build(copy, tmp_path / "site")
    assert built.returncode != 0
    warnings = [line for line in built.stderr.splitlines() if line.startswith("WARNING")]
    assert len(warnings) == 3, built.stderr
    for link in ("'gone.md'", "'tuning.md#gone'", "'../../xdp/gone.c'"):
        assert any(link in warning for warning in warnings), built.stderr


def test_a_dead_link_of_the_notebook_is_plain_text():
    text = "[a](gone.md) ![b](gone.png) [c](../../README.md#gone) [d](https://example.org/#x)"
    assert (
        hooks.without_dead_links("docs/notebook/page.md", text)
        == "a b [c](../../README.md) [d](https://example.org/#x)"
    )


def texts() -> Iterator[tuple[str, str]]:
    for path in sorted(hooks.repository_files()):
        if Path(path).suffix not in (".gz", ".png", ".html", ".csv", ".lock"):
            yield path, (REPO / path).read_text(encoding="utf-8", errors="replace")


def test_pages_that_sources_cite_exist():
    cited = {
        (path, page)
        for path, text in texts()
        if path != "CHANGELOG.md" and "/tests/" not in f"/{path}" and not path.startswith(hooks.NOTEBOOK)
        for page in re.findall(r"(?<![\w./-])docs/[\w./-]+\.md\b", text)
    }
    assert len(cited) > 20
    assert not [f"{path} cites {page}" for path, page in sorted(cited) if not (REPO / page).is_file()]


def test_paths_that_project_pages_name_exist():
    """Of what stands in code marks and begins with one of the repository's folders; `*`, `NAME` and `...` stand for
    what the reader fills in. The name of a test may follow, after `::`."""
    folders = "|".join(re.escape(folder) for folder in ("docs", *hooks.FOLDERS))
    docs = (path for path, _ in texts() if path.startswith("docs/") and path.endswith(".md"))
    pages = ["README.md", "CONTRIBUTING.md", *(path for path in docs if not path.startswith(hooks.NOTEBOOK))]
    missing = []
    for page in pages:
        for path in re.findall(rf"`((?:{folders})/[^`\s]*)`", (REPO / page).read_text(encoding="utf-8")):
            pattern = re.sub(r"[A-Z]{3,}(?![\w.]*\.md)|\.\.\.", "*", path.partition("::")[0])
            if not list(REPO.glob(pattern.rstrip("/"))):
                missing.append(f"{page} names {path}")
    assert not missing
