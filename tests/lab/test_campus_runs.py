# SPDX-License-Identifier: Apache-2.0
"""Whole runs on `campus`: everything at once in the exact lab, and parts that are killed meanwhile."""

from typing import get_args

import pytest
from lab_rig import ALL, CAMPUS, CELL_RATES, metrics_of

from weirlab import paths
from weirlab.topologies.campus.schema import Kill

PARTS = ("cache1", "publish", "tune", "cache2", "edge2", "edge1", "request-0", "server-origin", "live")
"""All that `[[kills]]` knows. The stream's publisher last: its receivers are not started again."""
KILLS = "".join(
    f'[[kills]]\npart = "{part}"\nat_s = {1.5 + 0.6 * place:g}\nback_after_s = 0.5\n'
    for place, part in enumerate(PARTS)
)
LONGER = ("duration_s = 7", "duration_s = 9"), ("stop_s = 6", "stop_s = 8")


@pytest.fixture
def campus(experiment, tmp_path):
    """`experiment` with the small scenario of this module, and more of it."""
    if not (paths.clone() / "build" / "bin" / "weir-icn").is_file():
        pytest.skip("weir-icn is not built; ./run test builds it")
    (tmp_path / "small.csv").write_text(CELL_RATES)
    return lambda *options, more="", **kwargs: experiment(*options, text=CAMPUS + more + ALL, **kwargs)


def test_everything_is_at_work_at_once(campus):
    (found,) = metrics_of(campus("--json")).values()
    assert (found["requests"], found["requests_failed"], found["bytes_lost_transfers"]) == (28, 0, 0)
    assert found["publisher_sent_ratio"] < 2  # three receivers, and nearly one copy
    assert found["joined_percent"] > 0
    assert found["upload_mbit_s"] > 0
    assert found["stream_goodput_mbit_s"] > 0.2
    assert found["handover_gap_ms"] > 0
    assert found["voice_delay_p99_ms"] > 5  # the backbone alone has as much
    assert found["unfinished_programs"] == 0


def test_what_is_killed_comes_back_and_the_rest_goes_on(campus):
    assert set(get_args(Kill.model_fields["part"].annotation)) == set(PARTS)
    (found,) = metrics_of(campus("--json", more=KILLS, changes=LONGER)).values()
    assert found["kills"] == len(PARTS)
    for part in PARTS:
        assert found[f"{part}_upload_silence_ms"] is not None
    assert found["upload_mbit_s"] > 0
    assert found["request_p50_ms"] < 1000  # most of its requests were answered, before it was killed and after
    assert found["unfinished_programs"] == 0
