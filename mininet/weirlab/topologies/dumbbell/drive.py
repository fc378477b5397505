# SPDX-License-Identifier: Apache-2.0
"""One run of a scenario on the dumbbell: builds the topology, puts the queue under test in place, sends the traffic.

Reads `spec.json` (a Run's spec) from the run's folder and leaves there: `start.jsonl`, `sojourn.jsonl`, `queue.jsonl`,
`queue-return.jsonl` where the way back has a queue of its own, `flows-*.jsonl`, `short-*.jsonl` (samples, one JSON line
each), `decisions.jsonl` where the tuner ran, and what each program said in `log-*.txt`. It computes nothing: figures
are made outside (`weirlab.metrics`), where a mistake can be mended without running again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from weirlab import paths
from weirlab.lab.net import LabNet, NetError, in_namespace
from weirlab.lab.p4switch import (
    DeviceClock,
    LabP4Switch,
    Queue,
    aqm_line,
    grpc_command,
    tell_cycle_counter_rate,
    weir_command,
    weir_variables,
)
from weirlab.lab.programs import (
    ALIGN_S,
    SAMPLE_MS,
    barrier,
    main,
    sleep_until_us,
)
from weirlab.lab.qdisc import QdiscReader, set_options
from weirlab.lab.rates import followed
from weirlab.lab.shaping import shaped_rate
from weirlab.topologies.dumbbell.hops import QUEUE_UNDER_TEST, RETURN_QUEUE
from weirlab.topologies.dumbbell.network import Dumbbell, LineLink, Link, WayBack, changed_bottleneck
from weirlab.topologies.dumbbell.queues.dualpi2 import dualpi2_options
from weirlab.topologies.dumbbell.queues.loader import advice_section, attach_words
from weirlab.topologies.dumbbell.queues.tc import bands_of, queue_under_test
from weirlab.topologies.dumbbell.quic_programs import LEAD_S, QuicPrograms
from weirlab.topologies.dumbbell.rate_rule import first_rate_mbit_s, rule_words
from weirlab.topologies.dumbbell.traffic import (
    ECHO_PORT,
    ECHOED,
    HEADER_BYTES,
    PACED_KINDS,
    PACED_PORT,
    SCALABLE_PORT,
    SHORT_KINDS,
    TRAFFIC_PORT,
    sink_address,
    sink_of,
)

QUEUE_HANDLE = 0x10 << 16  # `handle 10:` in topology.shaped; tc counts in hexadecimal
DIGESTS = "digests.jsonl"  # a P4 switch's own reports
TUNER_SAMPLES = "tuner-samples.jsonl"  # the same, as the tuner passes them on
TUNER_DECISIONS = "tuner-decisions.jsonl"
P4_PORT = "2"  # of the queue under test
ECT0 = 2
PATIENCE_MS = 10_000  # longest time of a packet in a queue whose link is slow or out
RETURN_MSS_BYTES = 1400


def switch_config(aqm: dict) -> str:
    """The file for `weir p4 deploy`: how the dumbbell's switch forwards, and the law on the way of the data."""
    head = ("qdisc", "switch", "program", "tune", "advise")
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
            *advice_section(aqm),
            "",
        ]
    )


class Drive(QuicPrograms):
    """A run on the dumbbell."""

    def __init__(self, spec: dict, out: Path) -> None:
        super().__init__(spec, out)
        self.senders = max(max(share) for share in self.shares)
        self.extra_delays_ms = [0.0] * self.senders
        for flow, share in zip(spec["flows"], self.shares, strict=True):
            for sender in share:
                self.extra_delays_ms[sender - 1] = flow["extra_rtt_ms"] / 2
        self.access = Link(**spec["link"]["access"])
        link = spec["link"]["bottleneck"]
        self.bottleneck = Link(**{field.name: link[field.name] for field in fields(Link)})
        self.line = spec["link"].get("line")
        if self.line:
            self.bottleneck = replace(self.bottleneck, rate_mbit_s=first_rate_mbit_s(spec))
        self.back = spec["link"].get("return")
        self.back_aqm = spec.get("return_aqm") or (self.back and self.back["queue"])
        self.changes = self.planned_changes()
        self.tuner: subprocess.Popen | None = None
        self.clock = DeviceClock()  # of the data plane
        self.packet_bytes = max(flow["payload_bytes"] + HEADER_BYTES[flow["kind"]] for flow in spec["flows"])

    def planned_changes(self) -> list[tuple[float, dict, list[tuple[str, str]]]]:
        """Second of the run, its text, and tc's arguments by node. Of a rate that follows a file there is no text: the
        spec has it."""
        now, planned = self.bottleneck, []
        back = self.way_back()
        for change in self.spec["changes"]:
            what = {key: value for key, value in change.items() if key != "at_s"}
            before, now = now, replace(now, **what)
            planned.append((change["at_s"], what, changed_bottleneck(before, now, back)))
        if rates := self.spec["link"]["bottleneck"].get("rates"):
            for at_s, rate in followed(rates, self.spec["duration_s"]):
                planned.append((at_s, {}, [("r1", shaped_rate("change", rate).format(dev="bn"))]))
        if self.line:
            for at_s, rate in followed(self.line["rates"], self.spec["duration_s"]):
                planned.append((at_s, {}, [("r2", shaped_rate("change", rate).format(dev="out"))]))
        return sorted(planned, key=lambda change: change[0])

    def way_back(self) -> WayBack | None:
        if self.back is None:
            return None
        rate = self.back["rate_mbit_s"]
        queue = queue_under_test(self.back_aqm, self.back["queue_limit_packets"], rate)
        return WayBack(rate, queue, bands_of(self.back_aqm))

    def topology(self) -> Dumbbell:
        aqm = self.spec["aqm"]
        links = {"access": self.access, "bottleneck": self.bottleneck, "extra_delays_ms": self.extra_delays_ms}
        links["way_back"] = self.way_back()
        if self.line:
            links["line"] = LineLink(self.line["rate_mbit_s"], self.line["queue_limit_packets"])
        if any(flow.get("ect1") for flow in self.spec["flows"]):
            links["ect1_port"] = SCALABLE_PORT
        links["hosts"] = max(flow.get("host", 1) for flow in self.spec["flows"])
        limit_packets, rate_mbit_s = self.bottleneck.queue_limit_packets, self.bottleneck.rate_mbit_s
        if aqm["qdisc"] != "p4":
            queue = queue_under_test(aqm, limit_packets, rate_mbit_s)
            return Dumbbell(senders=self.senders, queue=queue, bands=bands_of(aqm), **links)
        rate: dict[str, Any] = {"rate_bit_s": round(rate_mbit_s * 1e6)}
        if aqm["switch"] == "bmv2":  # the only unit there
            rate = {"rate_packets_s": round(rate_mbit_s * 1e6 / 8 / self.packet_bytes)}
        config = self.out / "switch.toml"
        config.write_text(switch_config(aqm))
        switch = {
            "switch": aqm["switch"],
            "queues": {2: Queue(depth_packets=limit_packets, **rate)},
            "config": config,
            "deploy": ("--program", str(paths.clone() / aqm["program"])),
            "seed": int(os.environ["WEIR_SEED"]),
            "log": self.out / "log-switch.txt",
        }
        return Dumbbell(senders=self.senders, switch=switch, **links)

    def attach_aqm(self, net: LabNet, node: str, peer: str, aqm: dict, limit_packets: int, output: str) -> None:
        """Our law as eBPF at a node's device `bn`; `peer` is the other end of that link, as DEVICE@NODE."""
        device, at = peer.split("@")
        words = attach_words(aqm, f"{device}@{net[at].namespace}", limit_packets)
        said = net[node].cmd("weir-xdp", "attach", "bn", *words, "--expert", "--json")
        (self.out / output).write_text(said)

    def watch_aqm(self, net: LabNet, node: str, hop: str, output: str) -> None:
        self.start(net[node], "watch", [
            "weir-xdp", "watch", "bn", "--every-ms", str(SAMPLE_MS), "--name", hop, "--out", str(self.out / output),
        ])  # fmt: skip

    @staticmethod
    def set_dualpi2(net: LabNet, node: str, aqm: dict, limit_packets: int) -> None:
        """The options of a node's queue, which stands with the kernel's own: tc does not know them."""
        with in_namespace(net[node].namespace):
            try:
                set_options("bn", QUEUE_HANDLE, "dualpi2", dualpi2_options(aqm, limit_packets))
            except OSError as error:
                raise NetError(f"node {node}: dualpi2's options: {error.strerror}") from None

    def run(self) -> None:
        if self.spec["aqm"]["qdisc"] == "p4":
            tell_cycle_counter_rate()
        with LabNet(self.topology(), switch=LabP4Switch) as net:
            self.set_tcp(net)
            try:
                self.traffic(net)
            finally:
                self.stop()
            self.write_qdiscs([net["r1"], net["r2"]])

    def set_tcp(self, net: LabNet) -> None:
        """Node-wide settings of TCP: ECN, and no memory of earlier transfers."""
        flows = self.spec["flows"]
        settings = {}
        if any(flow["kind"].startswith("tcp") and flow["ecn"] for flow in flows):
            settings["tcp_ecn"] = "1"  # the sink accepts it by default
        if any(flow["kind"] in SHORT_KINDS for flow in flows):
            settings["tcp_no_metrics_save"] = "1"
        if not settings:
            return
        for i in range(1, self.senders + 1):
            self.set_sysctls(net, f"s{i}", settings)

    def set_sysctls(self, net: LabNet, node: str, settings: dict[str, str]) -> None:
        with in_namespace(net[node].namespace):
            for key, value in settings.items():
                Path(f"/proc/sys/net/ipv4/{key}").write_text(value)

    def traffic(self, net: LabNet) -> None:
        spec, out = self.spec, self.out
        barrier()
        kind = spec["aqm"]["qdisc"]
        if kind == "p4":
            self.clock = net["sw"].clock
        if kind == "weir":
            limit_packets = self.bottleneck.queue_limit_packets
            self.attach_aqm(net, "r1", "bn@r2", spec["aqm"], limit_packets, "attached.json")
        elif kind == "dualpi2":
            self.set_dualpi2(net, "r1", spec["aqm"], self.bottleneck.queue_limit_packets)
        back_kind = None if self.back is None else self.back_aqm["qdisc"]
        if back_kind == "weir":
            peer, limit_packets = "p2@sw" if kind == "p4" else "bn@r1", self.back["queue_limit_packets"]
            self.attach_aqm(net, "r2", peer, self.back_aqm, limit_packets, "attached-return.json")
        elif back_kind == "dualpi2":
            self.set_dualpi2(net, "r2", self.back_aqm, self.back["queue_limit_packets"])
        hops = Dumbbell.hops(
            self.senders, self.access, self.bottleneck, self.packet_bytes, self.extra_delays_ms, spec["sample_one_in"],
            self.back is not None, self.line is not None,
        )  # fmt: skip
        sampler = ["weir-sojourn", "--out", str(out / "sojourn.jsonl")]
        if self.back is not None or self.line is not None or "rates" in spec["link"]["bottleneck"]:
            sampler += ["--lost-after-ms", str(PATIENCE_MS)]
        for hop in hops:
            sampler += [
                *(["--one-in", str(hop.one_in)] if spec["sample_one_in"] > 1 else []),
                "--hop",
                f"{hop.name}:{hop.device}@/run/netns/{hop.node}:{hop.peer_device}@/run/netns/{hop.peer_node}",
            ]
        self.start(net["r1"], "sojourn", sampler, ready="ready")
        end_s = LEAD_S + spec["duration_s"]
        self.start_servers(net, end_s)
        self.start_return_flows(net, end_s)
        self.wait_ready()
        if spec["aqm"].get("tune"):
            self.start_tuner(net)
        if self.line is not None:
            self.start_rule(net)
        if kind == "weir":
            self.watch_aqm(net, "r1", QUEUE_UNDER_TEST, "queue.jsonl")
        elif kind == "p4" and self.tuner is None:
            words = net["sw"].device_words()
            watch = grpc_command("p4", "digests", "aqm_state_t", "--jsonl", *words)
            self.start(net["sw"], "watch", watch, output=DIGESTS)
        if back_kind == "weir":
            self.watch_aqm(net, "r2", RETURN_QUEUE, "queue-return.jsonl")
        barrier()
        began = time.monotonic()
        start_us = round((began + LEAD_S) * 1e6)
        propagation_us = {hop.name: hop.propagation_us for hop in hops}
        self.write_lines("start.jsonl", [
            {"k": "start", "t_us": start_us},
            *({"k": "hop", "hop": hop, "propagation_us": delay_us} for hop, delay_us in propagation_us.items()),
            *({"k": "change", "t_us": start_us + round(at * 1e6), "what": said}
              for at, said, _ in self.changes if said),
        ])  # fmt: skip
        clients = self.start_clients(net, start_us)
        changes = self.changes_due(net, start_us)
        sampled = {} if kind in ("weir", "p4") else {QUEUE_UNDER_TEST: ("r1", "queue.jsonl")}
        if back_kind not in (None, "weir"):
            sampled[RETURN_QUEUE] = ("r2", "queue-return.jsonl")
        self.sample_until(net, began + end_s, changes, sampled)
        self.close_batches()
        if self.tuner is not None:
            self.end_tuner()
        if kind == "p4":
            net["sw"].check()
            self.digests_to_queue_lines()
        self.check_others()
        for name, process in clients:
            try:
                status = process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                raise NetError(f"{name}: still running 10 s after the run's end") from None
            if status != 0:
                self.check_served()
                raise NetError(f"{name}: ended with {status}: {(out / name).read_text().strip()[-500:]}")
        self.check_served()
        self.write_quic_shorts(start_us)

    def start_tuner(self, net: LabNet) -> None:
        """`weir tune` beside the queue under test; it finds the link by itself."""
        p4 = self.spec["aqm"]["qdisc"] == "p4"
        node = net["sw" if p4 else "r1"]
        words = ["tune", "--decisions", str(self.out / TUNER_DECISIONS)]
        if p4:
            options = node.options
            words += ["--p4", options["grpc"], "--device-id", str(options["device_id"])]
            words += ["--samples", str(self.out / TUNER_SAMPLES)]
        else:
            words += ["--bpf", "bn", "--observe-rtt", "bn"]
        command = grpc_command(*words) if p4 else weir_command(*words)
        self.tuner = self.start(node, "tune", command, ready="tuning", env=weir_variables())
        self.wait_ready()

    def start_rule(self, net: LabNet) -> None:
        """The program that sets the shaper's rate; the sink answers its probes."""
        shaper = self.spec["shaper"]
        if shaper["rule"] == "fixed":
            return
        words = ["--rate", "bn", "--reflector", "10.0.254.2", "--decisions", str(self.out / "rates.jsonl")]
        words += rule_words(shaper)
        command = weir_command("tune", *words)
        if shaper["rule"] == "autorate":
            own = {key: shaper[key] for key in ("one_way", "most_up_ms", "delay_ms", "most_down_ms")}
            module = "weirlab.topologies.dumbbell.autorate"
            command = [sys.executable, "-m", module, json.dumps(own), *words]
        self.start(net["r1"], "rate", command, ready="tuning", env=weir_variables())
        self.wait_ready()

    def end_tuner(self) -> None:
        """The tuner must have run to here and end well on SIGTERM. Its decisions go by the lab's clock."""
        assert self.tuner is not None  # it was started
        name = next(name for name, process in self.processes if process is self.tuner)
        ended_before = self.tuner.poll() is not None
        if not ended_before:
            self.tuner.send_signal(signal.SIGTERM)
        try:
            status = self.tuner.wait(timeout=10)
        except subprocess.TimeoutExpired:
            raise NetError(f"{name}: did not end within 10 s of SIGTERM") from None
        if ended_before or status != 0:
            when = "by itself, before the run was over," if ended_before else "on SIGTERM"
            raise NetError(f"{name}: ended {when} with {status}: {(self.out / name).read_text().strip()[-500:]}")
        decisions = self.clocked(TUNER_DECISIONS)
        self.write_lines("decisions.jsonl", [{**line, "hop": "bottleneck"} for line in decisions])

    def clocked(self, name: str) -> Iterator[dict]:
        """The lines of one of the tuner's files, their times on the monotonic clock."""
        for text in (self.out / name).read_text().splitlines():
            line = json.loads(text)
            for key in ("t_us", "of_t_us"):
                if key in line:
                    line[key] = self.clock.monotonic_us(line[key])
            yield line

    def tuner_samples_to_queue_lines(self) -> list[dict]:
        left_out = ("device", "port")
        return [
            {**{key: value for key, value in line.items() if key not in left_out}, "hop": "bottleneck"}
            for line in self.clocked(TUNER_SAMPLES)
            if line["port"] == P4_PORT
        ]

    def digests_to_queue_lines(self) -> None:
        """Digests of the switch, as the other variants' queue lines."""
        lines = self.tuner_samples_to_queue_lines() if self.tuner is not None else self.watched_digests()
        if not lines:
            raise NetError("the switch has not reported its queue once: see the log of `watch` or `tune`")
        self.write_lines("queue.jsonl", lines)

    def watched_digests(self) -> list[dict]:
        aqm = self.spec["aqm"]
        lines = []
        for line in (self.out / DIGESTS).read_text().splitlines():
            record = json.loads(line)
            if record["port"] == int(P4_PORT):
                squared = aqm["probability"] == "squared"
                lines.append(aqm_line(record, "bottleneck", squared, aqm["dq_shift"], self.clock))
        return lines

    def start_servers(self, net: LabNet, end_s: float) -> None:
        """Receivers of TCP and UDP, and the servers of QUIC."""
        self.start_quic_servers(net)
        kinds = {flow["kind"] for flow in self.spec["flows"]}
        ours = [flow for flow in self.spec["flows"] if flow["kind"] in ("tcp", "tcp-short", "udp")]
        for port, cc in dict.fromkeys(sink_of(flow) for flow in ours):
            name = "sink" if port == TRAFFIC_PORT else f"sink-{cc}"
            self.start(net["sink"], name, [
                "weir-traffic", "sink", "--port", str(port), "--stats", str(self.out / f"flows-{name}.jsonl"),
                "--until-s", str(end_s + 2 * ALIGN_S), "--cc", cc,
            ], ready="ready")  # fmt: skip

        for name, port, here in (
            ("flows-paced-sink.jsonl", PACED_PORT, kinds & set(PACED_KINDS) - {ECHOED}),
            ("log-echo-heard.txt", ECHO_PORT, kinds & {ECHOED}),
        ):
            words = ["weir-paced", "receive", "--port", str(port), "--out", str(self.out / name)]
            words += ["--echo"] if port == ECHO_PORT else []
            if here:
                self.start(net["sink"], "paced-sink" if port == PACED_PORT else "echo", words, ready="ready")

    def start_return_flows(self, net: LabNet, end_s: float) -> None:
        """TCP on the return path. Counts of its programs are no samples: its figures are those of the queue there."""
        count = self.back.get("tcp_flows") if self.back else None
        if not count:
            return
        if self.back.get("ecn"):
            self.set_sysctls(net, "sink", {"tcp_ecn": "1"})
        port, until_s = str(TRAFFIC_PORT), str(end_s + ALIGN_S)
        self.start(net["s1"], "return-sink", [
            "weir-traffic", "sink", "--port", port, "--stats", str(self.out / "log-return-sink-flows.txt"),
            "--until-s", str(end_s + 2 * ALIGN_S), "--cc", "cubic",
        ], ready="ready")  # fmt: skip
        self.start(net["sink"], "return-client", [
            "weir-traffic", "tcp", "--cc", "cubic", "--mss", str(RETURN_MSS_BYTES),
            "--stats", str(self.out / "log-return-client-flows.txt"), "--to", f"{Dumbbell.sender_address(1)}:{port}",
            "--flow", "0", "--count", str(count), "--start-s", str(LEAD_S), "--spread-s", "0.1", "--until-s", until_s,
        ])  # fmt: skip

    def start_clients(self, net: LabNet, start_us: int) -> list[tuple[str, subprocess.Popen]]:
        first, before = 0, len(self.processes)
        for group, (flow, share) in enumerate(zip(self.spec["flows"], self.shares, strict=True)):
            members: dict[int, list[int]] = {}
            for label, sender in enumerate(share, start=first):
                members.setdefault(sender, []).append(label)
            if flow["kind"] == "quic-short":
                self.start_quic_short(net, group, flow, share, start_us)
            elif flow["kind"].startswith("quic"):
                self.start_quic(net, group, flow, members)
            elif flow["kind"] == "tcp-short":
                self.start_short(net, group, flow, members, first)
            elif flow["kind"] in PACED_KINDS:
                self.start_paced(net, group, flow, members)
            else:
                self.start_long(net, group, flow, members)
            first += flow["count"]
        return self.processes[before:]

    @staticmethod
    def flow_words(flow: dict, labels: list[int], port: int) -> list[str]:
        """Where to, which flows and when, for the programs that send for several flows of a group."""
        stride = labels[1] - labels[0] if len(labels) > 1 else 1
        return [
            "--to", f"{sink_address(flow)}:{port}", "--flow", str(labels[0]), "--count", str(len(labels)),
            "--stride", str(stride), "--spread-s", str(flow["start_spread_s"]),
            "--start-s", str(LEAD_S + flow["start_s"]), "--until-s", str(LEAD_S + flow["stop_s"]),
        ]  # fmt: skip

    def start_paced(self, net: LabNet, group: int, flow: dict, members: dict[int, list[int]]) -> None:
        echoed = flow["kind"] == ECHOED
        for sender, labels in members.items():
            self.start(net[f"s{sender}"], f"client-{group}-s{sender}", [
                "weir-paced", "send", "--out", str(self.out / f"flows-paced-{group}-s{sender}.jsonl"),
                "--packets-per-s", str(flow["packets_per_s"]), "--bytes", str(flow["payload_bytes"]),
                "--tos", str(flow["dscp"] << 2 | (ECT0 if flow["ecn"] else 0)),
                *self.flow_words(flow, labels, ECHO_PORT if echoed else PACED_PORT), *["--echo"] * echoed,
            ])  # fmt: skip

    def start_long(self, net: LabNet, group: int, flow: dict, members: dict[int, list[int]]) -> None:
        for sender, labels in members.items():
            common = self.flow_words(flow, labels, sink_of(flow)[0])
            if flow["kind"] == "tcp":
                stats = self.out / f"flows-client-{group}-s{sender}.jsonl"
                own = ["tcp", "--cc", flow["cc"], "--mss", str(flow["payload_bytes"]), "--stats", str(stats)]
                if "burst_bytes" in flow:
                    own += ["--burst-bytes", str(flow["burst_bytes"])]
                    own += ["--burst-every-s", str(flow["burst_every_ms"] / 1000)]
            else:
                own = ["udp", "--rate-bit-s", str(flow["rate_mbit_s"] * 1e6), "--bytes", str(flow["payload_bytes"])]
                own += ["--ecn"] if flow["ecn"] else []
                own += ["--on-s", str(flow["on_s"]), "--off-s", str(flow["off_s"])] if "on_s" in flow else []
            self.start(net[f"s{sender}"], f"client-{group}-s{sender}", ["weir-traffic", *own, *common])

    def start_short(self, net: LabNet, group: int, flow: dict, members: dict[int, list[int]], first: int) -> None:
        """Each of a group's places has its own list of transfers; their numbers are the group's, without gaps."""
        plan = self.short_plan(group, flow)
        for sender, labels in members.items():
            path = self.out / f"plan-{group}-s{sender}.txt"
            lines = [(at, first + place, number, size) for at, place, number, size in plan if first + place in labels]
            path.write_text("".join(f"{at} {label} {number} {size}\n" for at, label, number, size in lines))
            self.start(net[f"s{sender}"], f"client-{group}-s{sender}", [
                "weir-traffic", "short", "--to", f"{sink_address(flow)}:{sink_of(flow)[0]}", "--plan", str(path),
                "--cc", flow["cc"], "--mss", str(flow["payload_bytes"]), "--group", str(group),
                "--start-s", str(LEAD_S), "--until-s", str(LEAD_S + self.spec["duration_s"]),
                "--stats", str(self.out / f"short-{group}-s{sender}.jsonl"),
            ])  # fmt: skip

    def changes_due(self, net: LabNet, start_us: int) -> Iterator[int]:
        """Times of the changes; as the next is asked for, the last change is done."""
        for at_s, _, lines in self.changes:
            yield start_us + round(at_s * 1e6)
            for node in dict.fromkeys(node for node, _ in lines):
                self.tell(net, node, "tc", [line for other, line in lines if other == node])

    def sleep_until(self, at: float, changes: Iterator[int], due_us: int | None) -> int | None:
        """Sleep until a time of the monotonic clock, making the changes due before; returns when the next is due."""
        while due_us is not None and due_us <= at * 1e6:
            sleep_until_us(due_us)
            due_us = next(changes, None)
        time.sleep(max(0.0, at - time.monotonic()))
        return due_us

    def sample_until(
        self, net: LabNet, end: float, changes: Iterator[int], sampled: dict[str, tuple[str, str]]
    ) -> None:
        """Wait for the end of the run, making the changes on the way; of the kernel's qdiscs in `sampled` (by hop: node
        and file) take a sample every 100 ms meanwhile."""
        due_us = next(changes, None)
        if not sampled:
            self.sleep_until(end, changes, due_us)
            return
        readers = {}
        for hop, (node, _) in sampled.items():
            with in_namespace(net[node].namespace):
                readers[hop] = QdiscReader()
        lines: dict[str, list[dict]] = {hop: [] for hop in sampled}
        at = time.monotonic()
        while at < end:
            for hop, reader in readers.items():
                aqm = self.back_aqm if hop == RETURN_QUEUE else self.spec["aqm"]
                lines[hop] += queue_lines(reader, hop, aqm)
            at += SAMPLE_MS / 1000
            due_us = self.sleep_until(at, changes, due_us)
        for hop, (_, output) in sampled.items():
            readers[hop].close()
            self.write_lines(output, lines[hop])


def queue_lines(reader: QdiscReader, hop: str, aqm: dict) -> Iterator[dict]:
    """Kernel statistics of a queue now, as a line of samples."""
    # codel's counter of marks leaves out the marks of its ce_threshold: then the packets that come out are counted.
    knows_marks = aqm["qdisc"] != "args" and "ce_threshold_ms" not in aqm
    for stats in reader.read():
        if stats.handle == QUEUE_HANDLE:
            line = {"k": "qdisc", "t_us": round(time.monotonic() * 1e6), "hop": hop,
                    "backlog_bytes": stats.backlog_bytes, "backlog_packets": stats.backlog_packets,
                    "drops_qdisc": stats.drops, "drops_aqm": stats.drops_aqm,
                    "drops_limit": stats.drops_limit, "marks": stats.marks if knows_marks else None,
                    "drop_probability": stats.probability}  # fmt: skip
            yield {key: value for key, value in line.items() if value is not None}


if __name__ == "__main__":
    sys.exit(main(Drive))
