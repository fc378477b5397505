# SPDX-License-Identifier: Apache-2.0
"""Readings grow old: status and watch show their age, show U as the next packet would find it, and no rate of a shaper
that is gone. Real interfaces: traffic, then silence, then a look."""

import json
import sys

import pytest
from packet_rig import REPO, WEIR, by_name, until
from packets import packets

FRAME = packets()["ipv4_full-not_ect"].frame
SIGNALS = {
    "veth": ("--peer", None),
    "backlog": ("--signal", "backlog"),
    "poll": ("--signal", "poll"),
    "virtual": ("--rate", "2mbit", "--hook", "tc"),
}
# Gains with which a moment of load raises U, however seldom a busy machine sends: steep, and without a bound in time.
STEEP = ("ki=50", "delay_bound_slope=0", "delay_limit_share=0")


@pytest.fixture
def shaped(rig):
    rig.shape("2mbit", limit=100)
    yield rig
    rig.unshape()


def load(rig) -> None:
    """Packets until U is up; then what is queued is let out, and nothing comes any more."""
    with rig.sender.tap("a0") as out:

        def push() -> bool:
            for _ in range(100):
                out.send(FRAME)
            return rig.status()["u"] > 0.2

        until(push, "U risen under load", patience_s=30)


def watched(rig) -> dict:
    return json.loads(rig.weir("watch", "rb", "--count", 1).stdout)


@pytest.mark.parametrize("name", by_name(SIGNALS))
def test_after_the_traffic_a_reading_grows_old_and_fades(shaped, name):
    options = [shaped.peer if option is None else option for option in SIGNALS[name]]
    with shaped.attached(*options, *STEEP):
        load(shaped)
        until(lambda: shaped.status()["backlog_bytes"] == 0, "the queue empty")
        until(lambda: shaped.status()["u"] == 0, "U faded")
        status, line = shaped.status(), watched(shaped)
        assert (status["drop_probability"], line["drop_probability"], status["tau_us"]) == (0, 0, 0)
        if name != "virtual":
            assert status["dq_rate_bit_s"] == pytest.approx(2e6, rel=0.5)
            assert line["rate_age_us"] >= status["rate_age_us"] > 0
            assert "measured " in shaped.weir("status", "rb").stdout
        if name == "poll":  # its process goes on stepping
            until(lambda: shaped.status()["age_us"] < 1_000_000, "a step")
        else:
            later = watched(shaped)
            assert later["age_us"] - line["age_us"] == later["t_us"] - line["t_us"]
            until(lambda: shaped.status()["age_us"] > 1_000_000, "a second without a step")
            assert "last step " in shaped.weir("status", "rb").stdout


def test_top_shows_no_probability_of_long_ago(shaped):
    with shaped.attached("--peer", shaped.peer, *STEEP):
        load(shaped)
        until(lambda: shaped.status()["backlog_bytes"] == 0, "the queue empty")
        until(lambda: shaped.status()["age_us"] > 2_000_000, "two seconds without a step")
        words = (sys.executable, "-m", "weir.cli", "top", "--once", "--bpf", "rb")
        path = {"PATH": f"{WEIR.parent}:/usr/bin:/bin", "PYTHONPATH": str(REPO / "controller"), "COLUMNS": "150"}
        top = shaped.router.run(*words, env=path).stdout
    (row,) = (line.split() for line in top.splitlines() if " rb " in line)
    assert row[:4] == ["bpf", "rb", "0.0", "15"], top
    assert "0.00" in row, top
    assert "s" in row, top  # the age
