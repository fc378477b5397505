# SPDX-License-Identifier: Apache-2.0
"""P4 switches as nodes: as the bottleneck of a whole run in the exact lab, and in stock Mininet on the host kernel."""

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys

import pytest
from lab_rig import folder_of, labs_of, metrics_of, wait_for

from weir import settings
from weirlab import paths
from weirlab.lab.net import NetError
from weirlab.lab.p4switch import choose

REPO = paths.clone()

P4 = ('profile = "tuned"\n', 'profile = "tuned"\n[variants.p4-tuned]\nqdisc = "p4"\nprofile = "tuned"\n')
# Twenty flows fill a queue of a thousand packets to the brim.
LOADED = ("count = 3", "count = 20"), ("queue_limit_packets = 200", "queue_limit_packets = 500")


@pytest.fixture
def p4_experiment(experiment):
    if not (REPO / "build" / "bin" / "weir-switch").exists():
        pytest.skip("weir-switch is not built; ./run test builds it")
    return experiment


@pytest.fixture(scope="module")
def loaded(shared_experiment):
    """The law in P4 and drop-tail under load."""
    if not (REPO / "build" / "bin" / "weir-switch").exists():
        pytest.skip("weir-switch is not built; ./run test builds it")
    return shared_experiment("--json", "--only", "p4-tuned", "--only", "pfifo", "--seeds", "1", changes=(P4, *LOADED))


def test_the_law_in_p4_holds_the_queue(loaded):
    metrics = metrics_of(loaded)
    assert metrics["pfifo"]["queue_delay_mean_ms"] > 200
    found = metrics["p4-tuned"]
    assert 2 < found["queue_delay_mean_ms"] < 40
    assert found["drops_aqm_packets"] > 0
    assert found["drops_limit_packets"] is not None  # the switch told
    assert 7 < found["goodput_total_mbit_s"] < 10
    assert found["delay_outside_percent"] < 5
    assert found["unmeasured_percent"] < 0.1


def test_a_seed_repeats_a_run_to_the_byte(p4_experiment, loaded):
    again = p4_experiment("--json", "--only", "p4-tuned", "--seeds", "1", changes=(P4, *LOADED))
    for name in ("samples.jsonl.gz", "summary.json"):
        first, second = (folder_of(each) / "runs" / "p4-tuned" / "seed-1" / name for each in (loaded, again))
        assert first.read_bytes() == second.read_bytes()


def test_the_switch_tells_what_the_sampler_saw(loaded):
    metrics_of(loaded)
    run = folder_of(loaded) / "runs" / "p4-tuned" / "seed-1"
    states = [json.loads(line) for line in (run / "digests.jsonl").read_text().splitlines()]
    last = states[-1]
    assert len(states) > 70  # one each 100 ms of 8 s
    assert last["enqueued_packets"] > 5000
    chunk_bytes = 2 ** settings.profile("tuned").dq_shift
    # At 10 Mbit/s. A chunk ends with a whole packet, and an acknowledgment among those of a chunk of 4 kB is 2 % of it:
    # one reading says little, the middle one of many does.
    settled = statistics.median(state["dq_time_q8_us"] for state in states[len(states) // 2 :])
    assert settled == pytest.approx(256 * 8 * chunk_bytes / 10, rel=0.02)


def test_a_stopped_experiment_with_a_switch_leaves_nothing_running(p4_experiment):
    process = p4_experiment.start("--only", "p4-tuned", changes=(P4,))
    wait_for(lambda: labs_of(p4_experiment.folder))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    wait_for(lambda: not labs_of(p4_experiment.folder))
    assert process.returncode == 128 + signal.SIGINT
    assert "Traceback" not in err


def test_a_program_that_does_not_compile_ends_the_run_and_says_where(p4_experiment):
    broken = REPO / "p4" / "switch" / "weir-p4" / "tests" / "diagnostics" / "missing_semicolon.p4"
    change = (P4[0], P4[1] + f'program = "{broken.relative_to(REPO)}"\n')
    done = p4_experiment("--only", "p4-tuned", changes=(change,))
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "p4-tuned" in last
    assert "p4 deploy" in last
    assert "missing_semicolon.p4:" in last


@pytest.mark.parametrize("switch", ["embedded", "bmv2"])
def test_the_example_with_three_hosts(switch):
    if os.geteuid():
        pytest.skip("needs root, for Mininet")
    try:
        choose(switch)
    except NetError as error:
        pytest.skip(str(error))
    if switch == "bmv2" and not (shutil.which("p4c-bm2-ss") or shutil.which("p4c")):
        pytest.skip("p4c is not on PATH: BMv2 takes only compiled programs")
    done = subprocess.run(
        ["unshare", "-nmpf", "--kill-child", "--mount-proc", sys.executable, "mininet/examples/three_hosts.py",
         "--switch", switch],
        cwd=REPO, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "pingall: 0 % lost" in done.stdout
    assert "10.0.0.3/32" in done.stdout


CROSS = """
#include <core.p4>
#include <v1model.p4>
struct none_t {}
parser P(packet_in p, out none_t h, inout none_t m, inout standard_metadata_t s) { state start { transition accept; } }
control Check(inout none_t h, inout none_t m) { apply {} }
control In(inout none_t h, inout none_t m, inout standard_metadata_t s) {
    apply { if (s.ingress_port == 1) { s.egress_spec = 2; } else { s.egress_spec = 1; } }
}
control Out(inout none_t h, inout none_t m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in none_t h) { apply {} }
V1Switch(P(), Check(), In(), Out(), Check(), D()) main;
"""
TWO_HOSTS = """
import sys
from mininet.net import Mininet
from mininet.topo import Topo
from weirlab.lab.p4switch import P4Switch

class TwoHosts(Topo):
    def build(self):
        s1 = self.addSwitch("s1", cls=P4Switch, **eval(sys.argv[1]))
        self.addLink(self.addHost("h1", ip="10.0.0.1/24"), s1, port2=1)
        self.addLink(self.addHost("h2", ip="10.0.0.2/24"), s1, port2=2)

Mininet.inited = True
net = Mininet(topo=TwoHosts(), controller=None)
net.start()
lost = net.pingAll()
net.stop()
sys.exit(1 if lost else 0)
"""


@pytest.mark.parametrize(("keyword", "status"), [("p4", 0), ("program", 0), ("p4_program", 1)])
def test_a_switch_of_stock_mininet_runs_the_program_that_it_is_given(tmp_path, keyword, status):
    """Packets pass, or the parameter is rejected: no program is ignored."""
    if os.geteuid():
        pytest.skip("needs root, for Mininet")
    if not (REPO / "build" / "bin" / "weir-switch").exists():
        pytest.skip("weir-switch is not built; ./run test builds it")
    (tmp_path / "cross.p4").write_text(CROSS)
    given = repr({keyword: str(tmp_path / "cross.p4"), "switch": "embedded"})
    done = subprocess.run(
        ["unshare", "-nmpf", "--kill-child", "--mount-proc", sys.executable, "-c", TWO_HOSTS, given],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": f"{REPO / 'mininet'}:{REPO / 'controller'}"},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    assert ("give program" in done.stderr) == (status == 1)
