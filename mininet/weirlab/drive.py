# SPDX-License-Identifier: Apache-2.0
"""One run of a scenario on the dumbbell: builds the topology, puts the queue under test in place, sends the traffic.

Reads `spec.json` (a Run's spec) from the run's folder and leaves there: `start.jsonl`, `sojourn.jsonl`, `queue.jsonl`,
`flows-*.jsonl` (samples, one JSON line each) and what each program said in `log-*.txt`. It computes nothing: figures
are made outside (`weirlab.metrics`), where a mistake can be mended without running again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from weirlab.lab import REPO
from weirlab.net import LabNet, NetError, in_namespace
from weirlab.p4switch import LabP4Switch, Queue, aqm_line, weir_command
from weirlab.programs import ALIGN_S, IN_THE_LAB, QUIC_PORT, SAMPLE_MS, Programs, main, sleep_to_whole
from weirlab.qdisc import QdiscReader
from weirlab.topology import Dumbbell, Link

QUEUE_HANDLE = 0x10 << 16  # `handle 10:` in topology.shaped; tc counts in hexadecimal
DIGESTS = "digests.jsonl"  # a P4 switch's own reports
TRAFFIC_PORT = 5201
LEAD_S = 0.5  # between the first program's start and the run's: servers are up, addresses resolved
MOST_SENDERS = 10  # more flows than this share sender nodes
HEADER_BYTES = {
    "quic-download": 42,
    "quic-upload": 42,
    "udp": 42,
    "tcp": 66,
}  # Ethernet, IPv4, UDP or TCP with timestamps
FLOOD_LIMIT_PACKETS = 100_000  # a qdisc whose own limit must not be what limits: the eBPF program does


def queue_under_test(aqm: dict, limit_packets: int, rate_mbit_s: float) -> str:
    """The tc text of the bottleneck's queue for one variant of a scenario. For `weir` the limit is the program's."""
    kind = aqm["qdisc"]
    words = {
        "pfifo": lambda: f"pfifo limit {limit_packets}",
        "weir": lambda: f"pfifo limit {FLOOD_LIMIT_PACKETS}",
        "pie": lambda: " ".join(
            [
                f"pie limit {limit_packets} target {aqm['target_ms']:g}ms tupdate {aqm['tupdate_ms']:g}ms",
                *(f"{key} {aqm[key]}" for key in ("alpha", "beta") if key in aqm),
                "ecn" if aqm["ecn"] else "noecn",
                "bytemode" if aqm["bytemode"] else "nobytemode",
                "dq_rate_estimator" if aqm["dq_rate_estimator"] else "no_dq_rate_estimator",
            ]
        ),
        "red": lambda: " ".join(
            [
                f"red limit {limit_packets * 1514} min {aqm['min_bytes']} max {aqm['max_bytes']}",
                f"avpkt {aqm['avpkt_bytes']} burst {aqm.get('burst_packets') or red_burst(aqm)}",
                f"probability {aqm['probability']:g} bandwidth {rate_mbit_s:g}mbit",
                *(word for word in ("adaptive", "ecn") if aqm[word]),
            ]
        ),
        "codel": lambda: codel(aqm, limit_packets),
        "fq_codel": lambda: " ".join(
            [
                codel(aqm, limit_packets),
                f"flows {aqm['flows']} quantum {aqm['quantum_bytes']}",
                *([f"memory_limit {aqm['memory_limit_bytes']}"] if "memory_limit_bytes" in aqm else []),
            ]
        ),
        "cake": lambda: " ".join(
            [
                f"cake unlimited rtt {aqm['rtt_ms']:g}ms {aqm['isolation']} {aqm['diffserv']}",
                f"memlimit {aqm.get('memory_limit_bytes', limit_packets * 1514)}",
            ]
        ),
    }
    return words[kind]()


def red_burst(aqm: dict) -> int:
    """tc-red(8)'s recommendation: (2 min + max) / (3 avpkt)."""
    return (2 * aqm["min_bytes"] + aqm["max_bytes"]) // (3 * aqm["avpkt_bytes"]) + 1


def codel(aqm: dict, limit_packets: int) -> str:
    words = [f"{aqm['qdisc']} limit {limit_packets} target {aqm['target_ms']:g}ms interval {aqm['interval_ms']:g}ms"]
    if "ce_threshold_ms" in aqm:
        words.append(f"ce_threshold {aqm['ce_threshold_ms']:g}ms")
    return " ".join([*words, "ecn" if aqm["ecn"] else "noecn"])


def switch_config(aqm: dict) -> str:
    """The file for `weir switch deploy`: how the dumbbell's switch forwards, and the law on the way of the data."""
    head = ("qdisc", "switch", "program")
    lines = [f"{key} = {json.dumps(value)}" for key, value in aqm.items() if key not in head]
    return "\n".join(
        [
            "[ports.1]",
            f'mac = "{Dumbbell.SW_P1_MAC}"',
            "[ports.2]",
            f'mac = "{Dumbbell.SW_P2_MAC}"',
            "[neighbours.r1]",
            "port = 1",
            f'mac = "{Dumbbell.R1_MAC}"',
            "[neighbours.r2]",
            "port = 2",
            f'mac = "{Dumbbell.R2_MAC}"',
            "[routes]",
            '"0.0.0.0/0" = "r1"',
            '"10.0.254.0/24" = "r2"',
            '"10.0.255.2/32" = "r2"',
            "[aqm.port.2]",
            *lines,
            f"digest_interval_us = {SAMPLE_MS * 1000}",
            "",
        ]
    )


def tell_cycle_counter_rate() -> None:
    """Say how fast the processor's cycle counter is, where grpc looks for it.

    It would time the counter against the lab's clock otherwise. But the counter is the host's: how long that takes, in
    virtual time, would depend on how busy the machine is, and so would the run (seen: 4 of 36 runs differed).
    """
    folder = Path("/sys/devices/system/cpu/cpu0")
    subprocess.run(["mount", "-t", "tmpfs", "tsc", folder], check=True)
    (folder / "tsc_freq_khz").write_text("1000000\n")


class Drive(Programs):
    """A run on the dumbbell."""

    def __init__(self, spec: dict, out: Path) -> None:
        super().__init__(spec, out)
        self.senders = min(sum(flow["count"] for flow in spec["flows"]), MOST_SENDERS)
        self.access = Link(**spec["link"]["access"])
        self.bottleneck = Link(**spec["link"]["bottleneck"])
        self.packet_bytes = max(flow["payload_bytes"] + HEADER_BYTES[flow["kind"]] for flow in spec["flows"])

    def topology(self) -> Dumbbell:
        aqm, links = self.spec["aqm"], {"access": self.access, "bottleneck": self.bottleneck}
        limit_packets, rate_mbit_s = self.bottleneck.queue_limit_packets, self.bottleneck.rate_mbit_s
        if aqm["qdisc"] != "p4":
            queue = queue_under_test(aqm, limit_packets, rate_mbit_s)
            return Dumbbell(senders=self.senders, queue=queue, **links)
        rate = {"rate_bit_s": round(rate_mbit_s * 1e6)}
        if aqm["switch"] == "bmv2":  # which knows no other unit
            rate = {"rate_packets_s": round(rate_mbit_s * 1e6 / 8 / self.packet_bytes)}
        config = self.out / "switch.toml"
        config.write_text(switch_config(aqm))
        switch = {
            "switch": aqm["switch"],
            "queues": {2: Queue(depth_packets=limit_packets, **rate)},
            "config": config,
            "deploy": ("--program", str(REPO / aqm["program"])),
            "seed": int(os.environ["WEIR_SEED"]),
            "log": self.out / "log-switch.txt",
        }
        return Dumbbell(senders=self.senders, switch=switch, **links)

    def attach_aqm(self, net) -> None:
        aqm = self.spec["aqm"]
        gains = [f"{key}={value}" for key, value in aqm.items() if key not in ("qdisc", "profile")]
        said = net["r1"].cmd(
            "weir-xdp", "attach", "bn", "--signal", "veth", "--peer", f"bn@{net['r2'].namespace}",
            "--limit-packets", self.bottleneck.queue_limit_packets, *gains, "--json",
        )  # fmt: skip
        (self.out / "attached.json").write_text(said)

    def run(self) -> None:
        if self.spec["aqm"]["qdisc"] == "p4" and os.environ["WEIR_LAB"] == "exact":
            tell_cycle_counter_rate()
        with LabNet(self.topology(), switch=LabP4Switch) as net:
            self.set_tcp_ecn(net)
            try:
                self.traffic(net)
            finally:
                self.stop()
            self.write_qdiscs([net["r1"], net["r2"]])

    def set_tcp_ecn(self, net) -> None:
        """ECN is a setting of a whole node for TCP, so all TCP flows of a scenario have it or none."""
        wanted = {flow["ecn"] for flow in self.spec["flows"] if flow["kind"] == "tcp"}
        if len(wanted) > 1:
            raise NetError("TCP flows of one scenario must agree in ecn, which is a setting of the sending node")
        if True not in wanted:
            return
        for i in range(1, self.senders + 1):  # the sink accepts it by default
            with in_namespace(net[f"s{i}"].namespace), open("/proc/sys/net/ipv4/tcp_ecn", "w") as file:
                file.write("1")

    def traffic(self, net) -> None:
        spec, out = self.spec, self.out
        sleep_to_whole(ALIGN_S)
        kind = spec["aqm"]["qdisc"]
        if kind == "weir":
            self.attach_aqm(net)
        hops = Dumbbell.hops(self.senders, self.access, self.bottleneck, self.packet_bytes)
        sampler = ["weir-sojourn", "--out", str(out / "sojourn.jsonl")]
        for hop in hops:
            sampler += [
                "--hop",
                f"{hop.name}:{hop.device}@/run/netns/{hop.node}:{hop.peer_device}@/run/netns/{hop.peer_node}",
            ]
        self.start(net["r1"], "sojourn", sampler, ready="ready")
        end_s = LEAD_S + spec["duration_s"]
        self.start_servers(net, end_s)
        self.wait_ready()
        if kind == "weir":
            self.start(net["r1"], "watch", [
                "weir-xdp", "watch", "bn", "--every-ms", str(SAMPLE_MS), "--name", "bottleneck",
                "--out", str(out / "queue.jsonl"),
            ])  # fmt: skip
        elif kind == "p4":
            words = net["sw"].device_words()
            self.start(net["sw"], "watch", weir_command("switch", "watch", "--jsonl", *words), output=DIGESTS)
        sleep_to_whole(ALIGN_S)
        began = time.monotonic()
        start_us = round((began + LEAD_S) * 1e6)
        propagation_us = {hop.name: hop.propagation_us for hop in hops}
        self.write_lines("start.jsonl", [
            {"k": "start", "t_us": start_us},
            *({"k": "hop", "hop": hop, "propagation_us": delay_us} for hop, delay_us in propagation_us.items()),
        ])  # fmt: skip
        clients = self.start_clients(net)
        self.sample_until(net, began + end_s, queue_lines=kind not in ("weir", "p4"))
        if kind == "p4":
            net["sw"].check()
            self.digests_to_queue_lines()
        for name, process in clients:
            try:
                status = process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                raise NetError(f"{name}: still running 10 s after the run's end") from None
            if status != 0:
                raise NetError(f"{name}: ended with {status}: {(out / name).read_text().strip()[-500:]}")

    def digests_to_queue_lines(self) -> None:
        """What the switch reported, as the other variants' queue lines."""
        aqm = self.spec["aqm"]
        boot_us = round((time.time_ns() - time.monotonic_ns()) / 1000)
        lines = []
        for line in (self.out / DIGESTS).read_text().splitlines():
            record = json.loads(line)
            if record["port"] == 2:
                squared = aqm["probability"] == "squared"
                lines.append(aqm_line(record, "bottleneck", squared, aqm["dq_shift"], boot_us))
        if not lines:
            raise NetError("the switch has not told the state of its queue once: see the log of `watch`")
        self.write_lines("queue.jsonl", lines)

    def start_servers(self, net, end_s: float) -> None:
        quic = [flow for flow in self.spec["flows"] if flow["kind"].startswith("quic")]
        kinds = {flow["kind"] for flow in self.spec["flows"]}
        nodes = [f"s{i}" for i in range(1, self.senders + 1)] if "quic-download" in kinds else []
        nodes += ["sink"] if "quic-upload" in kinds else []
        for node in nodes:
            argv = [
                "weir-server", "--listen", f"0.0.0.0:{QUIC_PORT}", "--cc", quic[0]["cc"], *IN_THE_LAB,
                "--max-payload", str(quic[0]["payload_bytes"]), "--state-dir", "/tmp/weir-server",
                "--stats", str(self.out / f"flows-server-{node}.jsonl"), "--stats-every-ms", str(SAMPLE_MS),
            ]  # fmt: skip
            self.start(net[node], f"server-{node}", argv, ready="listening")
            if node == nodes[0]:
                self.wait_ready()  # it has made the certificate that all of them use
        if kinds & {"tcp", "udp"}:
            self.start(net["sink"], "sink", [
                "weir-traffic", "sink", "--port", str(TRAFFIC_PORT), "--stats", str(self.out / "flows-sink.jsonl"),
                "--until-s", str(end_s + 2 * ALIGN_S),
            ], ready="ready")  # fmt: skip

    def start_clients(self, net) -> list[tuple[str, subprocess.Popen]]:
        first, before = 0, len(self.processes)
        for group, flow in enumerate(self.spec["flows"]):
            members: dict[int, list[int]] = {}
            for label in range(first, first + flow["count"]):
                members.setdefault(label % self.senders + 1, []).append(label)
            first += flow["count"]
            window = ["--start-s", str(LEAD_S + flow["start_s"]), "--until-s", str(LEAD_S + flow["stop_s"])]
            if flow["kind"].startswith("quic"):
                self.start_quic(net, group, flow, members)
                continue
            for sender, labels in members.items():
                common = [
                    "--to", f"10.0.254.2:{TRAFFIC_PORT}", "--flow", str(labels[0]), "--count", str(len(labels)),
                    "--stride", str(self.senders), "--spread-s", str(flow["start_spread_s"]), *window,
                ]  # fmt: skip
                if flow["kind"] == "tcp":
                    stats = self.out / f"flows-client-{group}-s{sender}.jsonl"
                    own = ["tcp", "--cc", flow["cc"], "--mss", str(flow["payload_bytes"]), "--stats", str(stats)]
                else:
                    own = ["udp", "--rate-bit-s", str(flow["rate_mbit_s"] * 1e6), "--bytes", str(flow["payload_bytes"])]
                    own += ["--ecn"] if flow["ecn"] else []
                self.start(net[f"s{sender}"], f"client-{group}-s{sender}", ["weir-traffic", *own, *common])
        return self.processes[before:]

    def start_quic(self, net, group: int, flow: dict, members: dict[int, list[int]]) -> None:
        """Downloads: one client at the sink fetches from all senders. Uploads: one client at each sender."""
        if flow["kind"] == "quic-download":
            urls = [
                f"https://{Dumbbell.sender_address(sender)}:{QUIC_PORT}/bytes/unlimited?flow={label}"
                for sender, labels in members.items()
                for label in labels
            ]
            clients = {"sink": urls}
        else:
            urls = {i: [f"https://10.0.254.2:{QUIC_PORT}/upload?flow={n}" for n in members[i]] for i in members}
            clients = {f"s{sender}": found for sender, found in urls.items()}
        for node, urls in clients.items():
            self.start(net[node], f"client-{group}-{node}", [
                "sh", "-c", 'sleep "$0"; exec "$@"', str(LEAD_S + flow["start_s"]),
                "weir-client", *urls, "--insecure", *IN_THE_LAB, "--quiet", "--json", "--cc", flow["cc"],
                *(["--upload"] if flow["kind"] == "quic-upload" else []),
                "--duration-s", str(flow["stop_s"] - flow["start_s"]), "--max-payload", str(flow["payload_bytes"]),
                "--start-spread-ms", str(round(flow["start_spread_s"] * 1000)),
                "--stats", str(self.out / f"flows-client-{group}-{node}.jsonl"), "--stats-every-ms", str(SAMPLE_MS),
            ])  # fmt: skip

    def sample_until(self, net, end: float, queue_lines: bool) -> None:
        """Wait for the end of the run; for a kernel qdisc take a sample of it every 100 ms meanwhile."""
        if not queue_lines:
            time.sleep(max(0.0, end - time.monotonic()))
            return
        with in_namespace(net["r1"].namespace):
            reader = QdiscReader()
        lines = []
        at = time.monotonic()
        while at < end:
            for stats in reader.read():
                if stats.handle == QUEUE_HANDLE:
                    line = {"k": "qdisc", "t_us": round(time.monotonic() * 1e6), "hop": "bottleneck",
                            "backlog_bytes": stats.backlog_bytes, "backlog_packets": stats.backlog_packets,
                            "drops_qdisc": stats.drops, "drops_aqm": stats.drops_aqm,
                            "drops_limit": stats.drops_limit, "marks": stats.marks,
                            "drop_probability": stats.probability}  # fmt: skip
                    lines.append({key: value for key, value in line.items() if value is not None})
            at += SAMPLE_MS / 1000
            time.sleep(max(0.0, at - time.monotonic()))
        reader.close()
        self.write_lines("queue.jsonl", lines)


if __name__ == "__main__":
    sys.exit(main(Drive))
