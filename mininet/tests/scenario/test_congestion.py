# SPDX-License-Identifier: Apache-2.0
"""The names of congestion controls come from the program that has them."""

import pytest

from weirlab import paths
from weirlab.scenario import congestion
from weirlab.scenario.errors import ScenarioError


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A clone whose `build/bin/weir-client` the test writes."""
    (tmp_path / "build" / "bin").mkdir(parents=True)
    monkeypatch.setattr(paths, "build", lambda: tmp_path / "build")
    congestion._table.cache_clear()
    yield tmp_path / "build" / "bin" / "weir-client"
    congestion._table.cache_clear()


def test_a_control_that_the_program_adds_is_known(clone):
    clone.write_text('#!/bin/sh\n[ "$*" = "--list-cc --json" ] && echo \'[{"name":"prague","learned":false}]\'\n')
    clone.chmod(0o755)
    assert congestion.controls() == ("prague",)
    assert congestion.learned() == ()


@pytest.mark.parametrize("text", [None, "#!/bin/sh\nexit 3\n", "#!/bin/sh\necho none\n"])
def test_a_program_that_lists_nothing_is_named(clone, text):
    if text is not None:
        clone.write_text(text)
        clone.chmod(0o755)
    with pytest.raises(ScenarioError, match="weir-client"):
        congestion.controls()


def test_the_built_program_lists_ours():
    assert {"cubic", "reno", "bbr2_gcongestion", "pbq"} <= set(congestion.controls())
    assert set(congestion.learned()) < set(congestion.controls())
