# SPDX-License-Identifier: Apache-2.0
"""Pages of docs/results: they fit a narrow window, and say what they were made with."""

import pytest
from page_layout import assert_fits

from weirlab import paths

RESULTS = paths.clone() / "docs" / "results"
PAGES = sorted(str(path.relative_to(RESULTS)) for path in RESULTS.rglob("*.html"))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_narrow_and_zoomed_windows(page):
    assert_fits((RESULTS / page).read_text("utf-8"))
