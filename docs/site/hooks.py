# SPDX-License-Identifier: Apache-2.0
"""Files of the site: every Markdown file of the repository, and every file that one of them links to.

MkDocs reads one folder; the pages of Weir stand beside the code that they are about. So the list of files is made here,
with the repository's own paths, and links that work in a repository browser work in the site.
"""

import os
import re
import subprocess
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<=\]\()([^)#\s]+)")  # of Markdown: [text](LINK#anchor), ![text](LINK)
SITE_FILES = ("docs/site/favicon.svg", "docs/site/iframe-worker.js", "docs/site/wide.css")
FOLDERS = ("law", "xdp", "p4", "controller", "mininet", "quic-client", "icn", "train", "tests", "setup")
NOTEBOOK = "docs/notebook/"
"""Dated pages that are not maintained: no menu names them, and their links may have lost their targets."""


def repository_files() -> set[str]:
    """Paths of the repository's files, with those not yet committed and without those that it ignores."""
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        raise PluginError(f"the site is made of a git clone's files, and git says: {listed.stderr.strip()}")
    return {path for path in listed.stdout.split("\0") if path and (ROOT / path).is_file()}


def linked(page: str, target: str) -> str:
    """The repository path that a relative link in a page names."""
    return os.path.normpath(PurePosixPath(page).parent / target)


def without_dead_links(page: str, markdown: str) -> str:
    """The text of a notebook page with its dead links as plain text, and without the anchors of the others."""

    def checked(match: re.Match[str]) -> str:
        text, target = match[1], match[2].partition("#")[0]
        alive = "://" in match[2] or (target and (ROOT / linked(page, target)).exists())
        return f"{text}({target if '://' not in match[2] else match[2]})" if alive else text.lstrip("!")[1:-1]

    return re.sub(r"(!?\[[^\[\]]*\])\(([^)\s]+)\)", checked, markdown)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the folders' READMEs to the menu, each under the name of its path."""
    readmes = sorted(path for path in repository_files() if path.endswith("/README.md"))
    menu = [{folder: [path for path in readmes if path.startswith(f"{folder}/")]} for folder in FOLDERS]
    assert config.nav is not None
    config.nav.insert(-1, {"Folders": menu})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace what MkDocs found under docs/ by the pages of the whole repository and the files they link to."""
    there = repository_files()
    pages = sorted(path for path in there if path.endswith(".md"))
    targets = {linked(page, link) for page in pages for link in LINK.findall((ROOT / page).read_text("utf-8"))}
    chosen = [*pages, *sorted((targets | set(SITE_FILES)) & there - set(pages))]
    of_theme = [file for file in files if file.src_dir != config.docs_dir]
    return Files([*of_theme, *(File.generated(config, path, abs_src_path=str(ROOT / path)) for path in chosen)])


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Take off the licence line, which would hide the title, and lead links to a folder to the folder's README."""
    if page.file.src_uri.startswith(NOTEBOOK):
        page.meta["search"] = {"exclude": True}
        markdown = without_dead_links(page.file.src_uri, markdown)

    def to_readme(match: re.Match[str]) -> str:
        readme = linked(page.file.src_uri, f"{match[1]}/README.md")
        return f"{match[1].rstrip('/')}/README.md" if files.get_file_from_path(readme) else match[1]

    return LINK.sub(to_readme, re.sub(r"\A<!-- SPDX.*-->\n", "", markdown))
