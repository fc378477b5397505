# SPDX-License-Identifier: Apache-2.0
"""A server that answers on one path whichever requests come on: the client notices, reports it, and stays there.

Tests of live paths held for dead need control of time: `core/tests/it/moving.rs`.
"""

import pytest
import quic_rig
from quic_rig import OK, client, lines

TASKS, EVERY_MS, SIZE = 80, 30, 5000
PATHS = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]


@pytest.fixture
def staying(authority, tmp_path):
    if reason := quic_rig.why_not("aioquic"):
        pytest.skip(reason)
    server = quic_rig.staying(tmp_path, authority, "127.0.0.1:0")
    yield server
    server.close()


@pytest.mark.parametrize("strategy", ["weir", "polling"])
def test_it_is_noticed_said_and_stayed_with(staying, tmp_path, strategy):
    events = tmp_path / "events"
    args = [word for path in PATHS for word in ("--path", path)]
    args += ["--strategy", strategy, "--requests", TASKS, "--interval-ms", EVERY_MS, "--seed", 1]
    # most often they are validated before the first task
    args += ["--start-at-us", quic_rig.time.monotonic_ns() // 1000 + 700_000, "--events", events]
    done = client(staying.url(f"/bytes/{SIZE}"), *staying.trust, "--json", *args)
    assert done.code == OK, done
    told = lines(events)
    tasks = [line for line in told if line["k"] == "task"]
    assert {(line["outcome"], line["bytes"]) for line in tasks} == {("complete", SIZE)}
    assert len(tasks) == TASKS

    validated = [line for line in told if line["k"] == "path" and line["event"] == "validated"]
    stays_on = validated[1]["path"]  # the third path's first validation
    # on a slow machine some tasks are begun before, and answered elsewhere
    late = sum(line["start_us"] > validated[1]["t_us"] for line in tasks)
    early = TASKS - late
    assert late, "no task was begun after the paths were validated"
    (flow,) = done.report["flows"]
    carried = {path["path"]: path["bytes"] for path in flow["paths"]}
    # bytes and tasks are credited to the path that carried them, wherever they were asked for
    assert carried[stays_on] > 0.9 * late * SIZE, carried
    assert next(path["tasks"] for path in flow["paths"] if path["path"] == stays_on) > 0.9 * late
    # it is asked where it answers, and no more moves are made in vain
    assert flow["answers"]["elsewhere_tasks"] < 20 + early
    assert flow["tasks"]["switches"] < 20 + early
    # weir may be there from the beginning; polling asks elsewhere
    if strategy == "polling" or flow["answers"]["followed"]:
        assert {line["on"] for line in told if line["k"] == "answers-elsewhere"} == {stays_on}
        assert "server-stays" in {line["reason"] for line in told if line["k"] == "choice"}
        assert f"answers on one path whichever it is asked on; the connection stayed on that ({stays_on}" in done.err
