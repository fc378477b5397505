# SPDX-License-Identifier: Apache-2.0
"""Scenarios that compare senders, in the exact lab: every congestion control of the kernel, QUIC flows of several
settings, senders whose application limits them, short transfers, and a server on noq."""

import pytest
from lab_rig import folder_of, metrics_of
from lab_samples import Samples

from weirlab import paths
from weirlab.lab.kernel_config import CONGESTION_CONTROLS

VARIANT = '[variants.{0}]\nqdisc = "pfifo"\nsender = {{ cc = "{0}" }}\n'
HEAD = """
[scenario]
name = "small"
title = "senders"
duration_s = 6
warmup_s = 2
compares = "senders"
seeds = [3]
[link.access]
rate_mbit_s = 1000
delay_ms = 1
[link.bottleneck]
rate_mbit_s = 10
delay_ms = 10
loss_percent = 0.5
queue_limit_packets = 50
"""
KERNEL = (
    HEAD
    + """
[[flows]]
kind = "tcp"
count = 2
"""
)
BESIDE = (
    HEAD
    + """
[[flows]]
kind = "quic-download"
cc = "cubic"
count = 2
[[flows]]
kind = "quic-upload"
cc = "bbr2_gcongestion"
[[flows]]
kind = "quic-download"
cc = "reno"
neighbour = true
[variants.as-written]
qdisc = "pfifo"
"""
)
LIMITED = (
    HEAD.replace("loss_percent = 0.5", "loss_percent = 0")
    + """
[[flows]]
kind = "quic-download"
burst_bytes = 50000
burst_every_ms = 250
[[flows]]
kind = "quic-upload"
burst_bytes = 25000
burst_every_ms = 250
[[flows]]
kind = "tcp"
burst_bytes = 12500
burst_every_ms = 250
[variants.as-written]
qdisc = "pfifo"
"""
)
SHORT = (
    HEAD.replace("duration_s = 6", "duration_s = 10")
    + """
[[flows]]
kind = "quic-short"
count = 2
arrivals_per_s = 5
bytes = 20000
stop_s = 6
[[flows]]
kind = "tcp"
neighbour = true
[variants.quic]
qdisc = "pfifo"
[variants.tcp]
qdisc = "pfifo"
sender = { kind = "tcp-short" }
"""
)
NOQ = (
    HEAD
    + """
[[flows]]
kind = "quic-download"
count = 2
[variants.noq-bbr3]
qdisc = "pfifo"
sender = { stack = "noq", cc = "bbr3" }
[variants.noq-cubic]
qdisc = "pfifo"
sender = { stack = "noq", cc = "cubic" }
"""
)


def samples_of(done, variant):
    return folder_of(done) / "runs" / variant / "seed-3" / "samples.jsonl.gz"


def ends_of(samples, flow):
    """The last bytes that each end of a flow counted."""
    return {side: max(r["bytes"] for r in samples.kinds["flow"] if (r["flow"], r["side"]) == (flow, side))
            for side in ("client", "server")}  # fmt: skip


@pytest.mark.parametrize("names", [("bbr", "westwood"), CONGESTION_CONTROLS], ids=["some", "all"])
def test_congestion_controls_of_the_kernel_send(experiment, names):
    assert {"bic", "illinois", "lp", "vegas", "westwood"} <= set(CONGESTION_CONTROLS)
    found = metrics_of(experiment("--json", text=KERNEL + "".join(map(VARIANT.format, names))))
    assert set(found) == set(names)
    for figures in found.values():
        assert 1 < figures["throughput_mbit_s"] < figures["wire_mbit_s"] < 10
        assert figures["throughput_mbit_s"] == figures["goodput_total_mbit_s"]
        assert 22 < figures["rtt_mean_ms"] <= figures["rtt_p95_ms"]
        assert 0 < figures["loss_percent"] < 20
        assert 0.5 <= figures["jain_index"] <= 1
        assert figures["neighbour_mbit_s"] is None


def test_quic_flows_of_several_settings_keep_their_names(experiment):
    done = experiment("--json", text=BESIDE)
    figures, samples = metrics_of(done)["as-written"], Samples(samples_of(done, "as-written"))
    for flow, receiver in (("0.0", "client"), ("0.1", "client"), ("1.0", "server"), ("2.0", "client")):
        ends = ends_of(samples, flow)
        sender = "server" if receiver == "client" else "client"
        assert 0.5 * ends[sender] < ends[receiver] <= ends[sender]
    together = figures["throughput_mbit_s"] + figures["neighbour_mbit_s"]
    assert together == pytest.approx(figures["goodput_total_mbit_s"], abs=1e-5)
    assert figures["neighbour_mbit_s"] == pytest.approx(figures["goodput_group_2_mbit_s"], abs=1e-5)
    assert figures["throughput_mbit_s"] < figures["wire_mbit_s"]


def test_an_application_may_have_less_to_send_than_the_link_carries(experiment):
    found = metrics_of(experiment("--json", text=LIMITED))["as-written"]
    # A burst begins or ends within the measured time or beyond it.
    for group, mbit_s in enumerate((1.6, 0.8, 0.4)):
        assert found[f"goodput_group_{group}_mbit_s"] == pytest.approx(mbit_s, rel=1.01 / 16)


def test_short_transfers_of_quic_come_when_those_of_tcp_do(experiment):
    done = experiment("--json", text=SHORT)
    found = metrics_of(done)
    runs = {name: Samples(samples_of(done, name)) for name in found}
    opened = {
        name: sorted(
            (r["flow"], (r["t_us"] - r["fct_us"] - run.start_us) / 1e6, r["bytes"]) for r in run.kinds["short"]
        )
        for name, run in runs.items()
    }
    assert len(opened["quic"]) == len(opened["tcp"]) > 10
    for quic, tcp in zip(opened["quic"], opened["tcp"], strict=True):
        assert quic == (tcp[0], pytest.approx(tcp[1], abs=0.001), tcp[2])
    for figures in found.values():
        assert 0.044 < figures["completion_p50_s"] <= figures["completion_p95_s"] < 6  # two round trips and more
        assert figures["throughput_mbit_s"] > 0
        assert figures["jain_index"] is None


def test_a_server_on_noq_sends_to_our_client_and_runs_repeat(experiment):
    if not (paths.build() / "bin" / "noq-server").exists():
        pytest.skip("noq-server is not built; setup/install.sh peers builds it")
    once, again = experiment("--json", text=NOQ), experiment("--json", text=NOQ)
    for variant, figures in metrics_of(once).items():
        assert 1 < figures["throughput_mbit_s"] < figures["wire_mbit_s"] < 10
        assert 22 < figures["rtt_mean_ms"] < 200
        assert 0 < figures["loss_percent"] < 20
        assert samples_of(once, variant).read_bytes() == samples_of(again, variant).read_bytes()
