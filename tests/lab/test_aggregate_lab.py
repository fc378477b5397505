# SPDX-License-Identifier: Apache-2.0
"""weir-client --aggregate in the exact lab: its time beside the best single path's."""

import pytest
from lab_rig import metrics_of

from weirlab import paths

SCENARIOS = paths.clone() / "mininet" / "scenarios"
SIZES = "[1_000_000, 5_000_000, 20_000_000]"


def times_s(experiment, name: str, size: int, *changes: tuple[str, str]) -> dict[str, float]:
    """Transfer time by variant, of one seed."""
    text = (SCENARIOS / f"{name}.toml").read_text()
    for old, new in ((SIZES, f"[{size}]"), ("seeds = 3", "seeds = [1]"), *changes):
        assert old in text, old
        text = text.replace(old, new)
    found = metrics_of(experiment("--json", text=text))
    return {label.split(",")[0]: metrics["transfer_time_mean_s"] for label, metrics in found.items()}


def test_two_equal_paths_take_half_the_time(experiment):
    found = times_s(experiment, "aggregate", 5_000_000)
    assert found["aggregate"] <= 0.55 * found["best-single"], found


def test_unequal_paths_add_up(experiment):
    """The peer is one path with the sum of the rates."""
    both = times_s(experiment, "aggregate-unequal", 5_000_000)["aggregate"]
    one = 'name = "wan2"\nrate_mbit_s = 10\nrtt_ms = 80\nqueue_limit_packets = 200\n'
    text = ((f"[[paths]]\n{one}", ""), ("rate_mbit_s = 50", "rate_mbit_s = 60"), ('aggregate = "always"', ""))
    found = times_s(experiment, "aggregate-unequal", 5_000_000, *text)
    assert both <= 1.1 * found["best-single"], (both, found)


@pytest.mark.parametrize("link", ["down", "silent"])
def test_a_path_that_dies(experiment, link):
    change = f'[[changes]]\npath = "wan2"\nat_s = 0.5\nlink = "{link}"\n[variants.aggregate]'
    found = times_s(experiment, "aggregate", 5_000_000, ("[variants.aggregate]", change))
    assert found["aggregate"] is not None, found
