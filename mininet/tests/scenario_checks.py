# SPDX-License-Identifier: Apache-2.0
"""Common parts of the tests of scenario files: rejected files, and any value in any place."""

import re

import pytest
from hypothesis import strategies as st

from weirlab import paths
from weirlab.run.scenarios import load_scenario
from weirlab.scenario.errors import ScenarioError

SHIPPED = sorted(paths.scenarios().glob("*.toml"))
TOML_VALUE = st.sampled_from(
    ["-1", "0", "1", "1e400", '"x"', "true", "[]", "[1, 2]", "{}", "[[1]]", "2026-11-20", "nan"]
)


def problems(load, text):
    with pytest.raises(ScenarioError) as caught:
        load(text)
    for line in caught.value.problems:
        assert "\n" not in line
        assert re.match(r".*small\.toml(:\d+)?: ", line)
        assert "; " in line, "what would be right is missing"
    return "\n".join(caught.value.problems)


def check_mistake(load, good, old, new, said):
    """A good text with `new` in the place of its first `old` is refused in these words."""
    assert good.count(old) >= 1
    assert said in problems(load, good.replace(old, new, 1))


def check_any_value(path, good, line, value):
    """A good text with another value in one line is read, or refused for what stands in it."""
    path.write_text(good.replace(line, f"{line.split('=')[0]}= {value}", 1))
    try:
        load_scenario(path)
    except ScenarioError as error:
        outside = [problem for problem in error.problems if not problem.startswith(str(path))]
    else:
        outside = []
    assert not outside
