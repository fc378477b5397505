# SPDX-License-Identifier: Apache-2.0
"""Random packets of names through weir-switch's pure core, against the model of docs/design/icn.md in Python: the same
frames in the same order from the same ports, and the same counters. Time is the script's, so that entries age.

WEIR_NAMES_SEEDS=N tries N seeds, each of them 400 packets."""

import os
import subprocess
from collections import Counter

import p4_names
import pytest
from p4_rig import find
from packet_rig import REPO

from weir.names.switch import Count

SEEDS = range(1, 1 + max(12, int(os.environ.get("WEIR_NAMES_SEEDS", "12"))))
PACKETS = 400


@pytest.mark.parametrize("program", ["icn", "edge"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_switch_does_what_the_model_says(program, seed, tmp_path):
    if not find("weir-stf"):
        pytest.skip("weir-stf is not built")
    text, _ = p4_names.script(p4_names.scene(seed, PACKETS))
    script = tmp_path / f"names-{seed}.stf"
    script.write_text(text)
    command = [find("weir-stf"), "--p4", REPO / "p4" / "programs" / f"{program}.p4", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"seed {seed}: {done.stdout}{done.stderr}"
    assert "1 passed" in done.stdout


def test_the_scenes_try_everything():
    total = Counter()
    for seed in SEEDS:
        _, model = p4_names.script(p4_names.scene(seed, PACKETS))
        total.update(dict(enumerate(model.counts)))
    assert all(total[why] >= 10 for why in Count), {why.name: total[why] for why in Count}
