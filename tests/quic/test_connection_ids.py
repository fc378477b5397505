# SPDX-License-Identifier: Apache-2.0
"""A server that replaces its connection IDs while they are in use (RFC 9000 5.1.2), on one path and on several."""

import re

import pytest
import quic_rig
from quic_rig import lines

TASKS, EVERY_MS, SIZE = 120, 25, 5000
LIFETIME_MS = 600
PATHS = [word for n in (2, 3, 4) for word in ("--path", f"127.0.0.{n}")]


@pytest.fixture(scope="module")
def quinn(authority, tmp_path_factory):
    if reason := quic_rig.why_not("quinn"):
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("quinn")
    server = quic_rig.quinn(folder, authority, "127.0.0.1:0", None, "--cid-lifetime-ms", LIFETIME_MS)
    yield server
    server.close()


@pytest.mark.parametrize(
    "paths",
    [[], PATHS, [*PATHS, "--strategy", "polling"], [*PATHS, "--strategy", "polling", "--standby", "cold"]],
    ids=["one path", "weir", "polling", "cold"],
)
def test_every_task_is_done(quinn, tmp_path, paths):
    events = tmp_path / "events"
    args = ["--alpn", "hq-interop", "--requests", TASKS, "--interval-ms", EVERY_MS, "--events", events]
    quinn.get(f"/bytes/{SIZE}", *args, *paths, "--qlog-dir", tmp_path).good()
    tasks = [line for line in lines(events) if line["k"] == "task"]
    assert sorted(line["task"] for line in tasks) == list(range(TASKS))
    assert {(line["outcome"], line["bytes"]) for line in tasks} == {("complete", SIZE)}
    # It did replace them, and more than once.
    (log,) = tmp_path.glob("*.sqlog")
    asked = {int(n) for n in re.findall(r'"retire_prior_to":(\d+)', log.read_text())}
    assert len(asked - {0}) > 1, asked
    if "polling" in paths:
        late = [line["path"] for line in lines(events) if line["k"] == "choice" and line["task"] > TASKS // 2]
        assert len(set(late)) == 3
