# SPDX-License-Identifier: Apache-2.0
"""Pages of docs/results: they fit a narrow window, and say what they were made with."""

import io
import json
import re
import subprocess

import pytest
from page_layout import assert_fits

from weir import __version__
from weirlab import paths
from weirlab.evaluation.report import MADE, made_of, write
from weirlab.evaluation.shared.pages import TEXT, SuiteReport
from weirlab.report.model import Report
from weirlab.store import provenance

RESULTS = paths.clone() / "docs" / "results"
PAGES = sorted(str(path.relative_to(RESULTS)) for path in RESULTS.rglob("*.html"))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_narrow_and_zoomed_windows(page):
    assert_fits((RESULTS / page).read_text("utf-8"))


FOLDERS = sorted({path.parent for kind in ("*.csv", "*.html") for path in RESULTS.rglob(kind)})
MADE_WITH = re.compile(r"\d+\.\d+\.\d+ \(([0-9a-f]{12})(?:; [\w.-]+: ([0-9a-f]{12}))*\)")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(RESULTS)))
def test_results_name_version_and_commit(folder):
    made = json.loads((folder / MADE).read_text("utf-8"))["weir"]
    assert MADE_WITH.fullmatch(made)
    for page in [*folder.glob("*.html"), *folder.glob("report.md")]:
        assert f"Measured with Weir {made}." in page.read_text("utf-8"), page


def test_commits_of_results_are_in_the_history():
    def git(*words):
        command = ["git", "-c", f"safe.directory={RESULTS.parents[1]}", *words]
        return subprocess.run(command, cwd=RESULTS, capture_output=True, text=True, check=False)

    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("no whole git history here")
    found = {commit for folder in FOLDERS for commit in re.findall(r"[0-9a-f]{12}", (folder / MADE).read_text("utf-8"))}
    assert not [commit for commit in found if git("cat-file", "-e", f"{commit}^{{commit}}").returncode]


def test_what_an_evaluation_writes_names_version_and_commit(tmp_path):
    made = json.dumps({"weir": provenance.weir()})
    write(tmp_path, {"a.csv": "x\n"}, SuiteReport("page.html", Report("a", []), {}), io.StringIO(), made)
    for name in (TEXT, "page.html", MADE):
        assert __version__ in (tmp_path / name).read_text()
        assert provenance.git_commit() in (tmp_path / name).read_text()
    assert made_of(tmp_path)
    assert (tmp_path / "a.csv").read_text() == "x\n"
