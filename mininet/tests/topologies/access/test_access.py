# SPDX-License-Identifier: Apache-2.0
"""Access networks in a lab: delays, routes and changes are what a scenario says, when it says."""

import json

import pytest

from weirlab.lab.kernels import Job
from weirlab.topologies.access.schedule import Schedule


@pytest.fixture
def in_lab(exact, tmp_path):
    """Runs a program of ours on a spec in an exact lab and gives back what it printed, as JSON."""

    def run(spec: dict, program: str):
        (tmp_path / "spec.json").write_text(json.dumps(spec))
        result = exact.run(Job(["python", "-c", PRELUDE + program], tmp_path, wall_limit_s=120))
        assert result.status == 0, result.stderr.decode()
        return json.loads(result.stdout)

    return run


PRELUDE = """
import json, os, re, subprocess, time
from pathlib import Path
from weirlab.topologies.access.drive import AccessDrive
from weirlab.lab.net import LabNet
from weirlab.lab.programs import sleep_until_us
from weirlab.topologies.access.network import Access

out = Path(os.environ["WEIR_OUT"])
drive = AccessDrive(json.loads((out / "spec.json").read_text()), out)

def ping(net, *words, count=1):
    said = net["client"].popen(["ping", "-n", "-c", str(count), "-i", "0.2", "-W", "1", *words, Access.SERVER],
                               stdout=subprocess.PIPE, text=True).communicate()[0]
    return [float(found) for found in re.findall(r"time=([0-9.]+)", said)]
"""


def path(name, rtt_ms, **more):
    rest = {"rate_mbit_s": 100, "rtt_sd_ms": 0, "rtt_min_ms": 0, "draw": "round", "loss_percent": 0}
    return {"name": name, "rtt_ms": rtt_ms, **rest, "loss_up_percent": 0, "queue_limit_packets": 100, **more}


def spec(*paths, changes=(), requests=10, interval_ms=0):
    client = {"requests": requests, "interval_ms": interval_ms, "bytes": 1}
    return {"seed": 1, "paths": list(paths), "changes": list(changes), "client": client}


def test_each_path_has_its_delay_by_address_and_by_interface(in_lab):
    paths = path("wan1", 7.12), path("wifi", 40), path("cell", 90, rate_mbit_s=10)
    found = in_lab(
        spec(*paths),
        """
with LabNet(Access(drive.now)) as net:
    result = {}
    for k, name in enumerate(drive.now, start=1):
        result[name] = [ping(net, "-I", Access.address(k), count=3), ping(net, "-I", name, count=3)]
    result["any"] = [ping(net)]
print(json.dumps(result))
""",
    )
    # 98 bytes each way, twice over an access link's rate: 16 us at 100 Mbit/s, 0.16 ms at 10 Mbit/s.
    for name, rtt_ms in (("wan1", 7.136), ("wifi", 40.016), ("cell", 90.157), ("any", 7.136)):
        for times in found[name]:
            assert len(times) == (1 if name == "any" else 3)
            assert times == pytest.approx([rtt_ms] * len(times), abs=0.1)


WATCH = """
with LabNet(Access(drive.now)) as net:
    start_us = (int(time.monotonic()) + 2) * 10**6
    sleep_until_us(start_us)
    pings = {}
    for k, name in enumerate(drive.now, start=1):
        often = ["-i", "0.2", "-W", "1", "-c", str(drive.schedule.rounds)]
        argv = ["ping", "-n", *often, "-I", Access.address(k), Access.SERVER]
        pings[name] = net["client"].popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    drive.play(net, start_us, lambda: False)
    found = {}
    for name, process in pings.items():
        lines = process.communicate()[0]
        found[name] = {int(n) - 1: float(ms) for n, ms in re.findall(r"icmp_seq=([0-9]+) .*time=([0-9.]+)", lines)}
    drive.close_batches()
print(json.dumps(found))
"""


def test_each_round_has_the_delay_that_the_truth_tells(in_lab):
    changes = [{"path": "wan2", "round": 5, "for_rounds": 2, "rtt_ms": 80.0}]
    paths = path("wan1", 37.568, rtt_sd_ms=16.756, rtt_min_ms=1), path("wan2", 30)
    given = spec(*paths, changes=changes, requests=20, interval_ms=200)
    found = in_lab(given, WATCH)
    truth = Schedule(given).truth()
    told = {(line["path"], line["round"]): line["rtt_ms"] for line in truth if line["k"] == "truth"}
    for number in range(20):
        assert found["wan1"][str(number)] == pytest.approx(told["wan1", number], abs=0.15)
        assert found["wan2"][str(number)] == pytest.approx(80 if number in (5, 6) else 30, abs=0.15)
    assert [(name, at) for name, at in told if name == "wan2"] == [("wan2", 0), ("wan2", 5), ("wan2", 7)]


@pytest.mark.parametrize("link", ["down", "silent"])
def test_a_link_goes_and_comes_back_when_told(in_lab, link):
    changes = [{"path": "wifi", "at_s": 0.99, "for_s": 1.2, "link": link}]
    found = in_lab(spec(path("wifi", 20), path("cell", 50), changes=changes, requests=20), WATCH)
    assert set(found["cell"]) == {str(number) for number in range(20)}
    # Pings leave every 200 ms from 0 on: number 5 at 1 s is the first that is lost, number 11 at 2.2 s comes through.
    assert set(found["wifi"]) == {str(number) for number in range(20) if not 5 <= number <= 10}
