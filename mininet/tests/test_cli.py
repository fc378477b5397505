# SPDX-License-Identifier: Apache-2.0
"""What `./run` says of itself."""

import pytest

from weirlab import cli
from weirlab.bench import BENCHES


def test_help_says_what_each_benchmark_measures(capsys):
    assert set(cli.BENCH_HELP) == set(BENCHES)
    with pytest.raises(SystemExit) as caught:
        cli.parser().parse_args(["bench", "switch", "--help"])
    assert caught.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    for name, text in cli.BENCH_HELP.items():
        assert f"  {name:8}{text}" in lines
    assert "BMv2 where simple_switch and p4c-bm2-ss are on PATH" in next(x for x in lines if x.startswith("  switch"))
