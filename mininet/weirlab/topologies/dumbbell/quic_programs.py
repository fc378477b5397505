# SPDX-License-Identifier: Apache-2.0
"""QUIC programs of a run on the dumbbell: servers of weir-server and of other stacks, and weir-client beside them."""

from __future__ import annotations

import json
import math
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from weirlab.lab.arrivals import arrivals
from weirlab.lab.net import LabNet, LabNode, NetError, in_namespace
from weirlab.lab.programs import ECN, IN_THE_LAB, NO_ECN, QUIC_PORT, SAMPLE_MS, Programs
from weirlab.lab.quic_servers import Certificate, Server, ServersError, certificate
from weirlab.scenario.congestion import LEARNED
from weirlab.scenario.policies import weights_words
from weirlab.scenario.stacks import SERVER
from weirlab.topologies.dumbbell.network import Dumbbell
from weirlab.topologies.dumbbell.traffic import quic_setting, quic_settings, sender_shares, sink_address

LEAD_S = 0.5  # between the first program's start and the run's: servers are up, addresses resolved
SEEDS_APART = 1000  # between the seeds of programs in one node; a run has fewer senders
LISTENS_LIMIT_S = 10
CERTIFICATE_FOLDER = Path("/run/weir-peers")
SERVER_NAME = "localhost"
"""Name in the certificate: some servers choose theirs by the name that the client sends."""
WEIR_SERVER = Server(
    "weir-server", "weir-server", endless="/bytes/unlimited", bursts="/bytes/{bytes}/every/{every_ms}", labels=True
)
QLOG = "qlog"
"""Key of a spec whose run records qlogs of its senders, and the folder that has them."""
ENDED = ("complete", "incomplete")  # reasons of a download that the server has ended
LOG_BYTES = 500
"""Of a log, at most so much at its end is in an error."""


class QuicPrograms(Programs):
    """Servers and clients of QUIC. A stack of others has a server in each sender like weir-server."""

    def __init__(self, spec: dict, out: Path) -> None:
        super().__init__(spec, out)
        self.shares = sender_shares(spec["flows"])
        self.settings = quic_settings(spec["flows"])
        asked = (share[0] for flow, share in zip(spec["flows"], self.shares, strict=True) if flow.get("cc_agent"))
        self.agents_sender = next(asked, 0)  # sender whose first connection is decided by another program
        self.others: list[tuple[str, Server, subprocess.Popen]] = []  # by log: servers of other stacks

    def start_quic_servers(self, net: LabNet) -> None:
        first = True
        for number, setting in enumerate(self.settings):
            flows = [(flow, share) for flow, share in zip(self.spec["flows"], self.shares, strict=True)
                     if flow["kind"].startswith("quic") and quic_setting(flow) == setting]  # fmt: skip
            downloads = {s for flow, share in flows if flow["kind"] != "quic-upload" for s in share}
            nodes = [f"s{i}" for i in sorted(downloads)]
            nodes += ["sink"] if any(flow["kind"] == "quic-upload" for flow, _ in flows) else []
            flow = flows[0][0]
            if SERVER in flow:
                self.start_others(net, number, [flow for flow, _ in flows], nodes)
                continue
            for node in nodes:
                name = f"server-{node}{self.suffix(number)}"
                self.start(net[node], name, [
                    "weir-server", *self.cc_words(flow, node), *IN_THE_LAB, "--state-dir", "/run/weir-server",
                    "--listen", f"0.0.0.0:{QUIC_PORT + number}", "--max-payload", str(flow["payload_bytes"]),
                    "--stats", str(self.out / f"flows-{name}.jsonl"), "--stats-every-ms", str(SAMPLE_MS),
                    *(self.qlog_words(name) if node != "sink" else []),
                ], ready="listening")  # fmt: skip
                if first:
                    self.wait_ready()  # it has made the certificate that all of them use
                    first = False

    def start_others(self, net: LabNet, number: int, flows: list[dict], nodes: list[str]) -> None:
        """Servers of another stack, which say in no common way that they are ready: they are when they have the
        port."""
        server, port = Server.of_spec(flows[0][SERVER]), QUIC_PORT + number
        made, root = self.certificate(), self.out / "root"
        root.mkdir(exist_ok=True)
        if server.needs_files():
            self.make_files(server, flows, root)
        started = []
        for node in nodes:
            name = f"server-{node}{self.suffix(number)}"
            samples = str(self.out / f"flows-{name}.jsonl") if server.samples else ""
            try:
                words = server.command(
                    "0.0.0.0", port, str(made.cert), str(made.key), str(root), str(self.out),
                    flows[0]["payload_bytes"], samples, self.qlog_folder(name) if server.qlog else "",
                )  # fmt: skip
            except ServersError as error:
                raise NetError(str(error)) from None
            # With standard input open: some servers end with it.
            process = self.start(net[node], name, words, stdin=subprocess.PIPE)
            self.others.append((self.processes[-1][0], server, process))
            started.append(net[node])
        deadline = time.monotonic() + LISTENS_LIMIT_S
        for node in started:
            while not listening(node, port):
                self.check_others()
                if time.monotonic() > deadline:
                    raise NetError(
                        f"{server.name} listens at no UDP port {port} after {LISTENS_LIMIT_S} s; its command line is "
                        f"{' '.join(words)}; its log ends with: {self.log_end(self.others[-1][0])}"
                    )
                time.sleep(0.05)

    def certificate(self) -> Certificate:
        """The certificate of all servers of others, made in the lab: so its bytes follow from the seed."""
        made = Certificate(*(CERTIFICATE_FOLDER / name for name in ("cert.pem", "key.pem", "ca.pem")))
        if not made.cert.exists():
            CERTIFICATE_FOLDER.mkdir(exist_ok=True)
            return certificate(CERTIFICATE_FOLDER, SERVER_NAME)
        return made

    def make_files(self, server: Server, flows: list[dict], root: Path) -> None:
        """Files without content for all downloads of flows, at their paths below a folder."""
        sizes: dict[str, int] = {}
        for group, flow in enumerate(self.spec["flows"]):
            if flow in flows and flow["kind"] == "quic-short":
                sizes |= {server.url_path(size): size for *_, size in self.short_plan(group, flow)}
            elif flow in flows:
                sizes[self.endless_path(server, flow)] = most_bytes(self.spec)
        for path, size in sizes.items():
            file = root / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("wb") as data:
                data.truncate(size)

    def check_others(self) -> None:
        """Raises NetError if a server of another stack has ended."""
        for log, server, process in self.others:
            if (status := process.poll()) is not None:
                how = "killed, perhaps for want of memory" if status == -signal.SIGKILL else f"status {status}"
                raise NetError(f"{server.name} ended early ({how}); its log ends with: {self.log_end(log)}")

    def log_end(self, log: str) -> str:
        text = (self.out / log).read_text(errors="replace").strip()
        return " ".join(text[-LOG_BYTES:].split()) or "nothing"

    def check_served(self) -> None:
        """Raises NetError where a stack of others has sent nothing in long flows."""
        first = 0
        for flow in self.spec["flows"]:
            labels = range(first, first + flow["count"])
            first += flow["count"]
            if SERVER not in flow or flow["kind"] != "quic-download":
                continue
            server = Server.of_spec(flow[SERVER])
            if (told := self.ended_early(labels)) and "burst_bytes" not in flow:
                path = self.endless_path(server, flow)
                raise NetError(f"{server.name}: GET {path} over {server.alpn} {told}; it has to last for the whole run")
            if not any(self.received(label) for label in labels):
                log = next(log for log, other, _ in self.others if other == server)
                raise NetError(
                    f"{server.name} sent nothing for GET {self.endless_path(server, flow)} over {server.alpn}; its log "
                    f"ends with: {self.log_end(log)}"
                )

    def client_lines(self) -> Iterator[dict]:
        files = sorted(self.out.glob("flows-client-*.jsonl"))
        return (json.loads(line) for file in files for line in file.read_text().splitlines())

    def received(self, label: int) -> int:
        """Bytes of a flow by its label, as the clients counted."""
        return max((line["bytes"] for line in self.client_lines() if line.get("flow") == label), default=0)

    def ended_early(self, labels: Sequence[int]) -> str:
        """Words on a download whose body ended before the client's time was up, or ""."""
        ends = (line for line in self.client_lines() if line["k"] == "end" and line.get("flow") in labels)
        return next((f"ended after {line['bytes']} bytes" for line in ends if line["reason"] in ENDED), "")

    def stop(self) -> None:
        super().stop()
        shutil.rmtree(self.out / "root", ignore_errors=True)

    def endless_path(self, server: Server, flow: dict) -> str:
        """Path of a long flow's download."""
        if "burst_bytes" in flow:
            return server.bursts_path(flow["burst_bytes"], flow["burst_every_ms"])
        return server.endless_path(most_bytes(self.spec))

    @staticmethod
    def suffix(number: int) -> str:
        """Suffix of files of QUIC programs with that setting."""
        return f"-{number}" if number else ""

    def cc_words(self, flow: dict, node: str) -> list[str]:
        """The congestion control of a QUIC program in a node. The sink only acknowledges: it has no policy."""
        if SERVER in flow:
            own = ["--alpn", server_of(flow).alpn, "--server-name", SERVER_NAME]
            return ["--cc", "cubic", *own, *ecn_words(flow)]
        if flow["cc"] not in LEARNED:
            return ["--cc", flow["cc"], *ecn_words(flow)]
        if node == "sink":
            return ["--cc", "cubic", *ecn_words(flow)]
        words, sender = ["--cc", flow["cc"], *ecn_words(flow)], int(node.removeprefix("s"))
        number = self.settings.index(quic_setting(flow))
        suffix = self.suffix(number)
        words += weights_words(flow, self.out / f"policy{suffix}.weights")
        if flow.get("cc_trajectories"):
            words += ["--cc-trajectories", str(self.own_folder(f"trajectories-{node}{suffix}"))]
        if flow.get("cc_agent") and sender == self.agents_sender:
            words += ["--cc-agent", str(self.own_folder("agent"))]
        elif "cc_explore" in flow:  # a seed for each program
            words += ["--cc-explore", str(flow["cc_explore"] + sender + SEEDS_APART * number)]
        return words

    def own_folder(self, name: str) -> Path:
        folder = self.out / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def qlog_folder(self, name: str) -> str:
        """Folder for the qlogs of a sender's program, if the run records them, else "" (`--qlog`)."""
        return str(self.own_folder(f"{QLOG}/{name}")) if self.spec.get(QLOG) else ""

    def qlog_words(self, name: str) -> list[str]:
        folder = self.qlog_folder(name)
        return ["--qlog-dir", folder] if folder else []

    def start_quic(self, net: LabNet, group: int, flow: dict, members: dict[int, list[int]]) -> None:
        """Downloads: one client at the sink fetches from all senders. Uploads: a client for each flow, at its sender.
        A client counts its flows' labels up by one from the first."""
        port = QUIC_PORT + self.settings.index(quic_setting(flow))
        by_label = sorted((label, sender) for sender, labels in members.items() for label in labels)
        clients: list[tuple[str, str, int, list[str]]] = []
        if flow["kind"] == "quic-download":
            path = self.endless_path(server_of(flow), flow)
            urls = [f"https://{Dumbbell.sender_address(sender)}:{port}{path}" for _, sender in by_label]
            clients.append((f"{group}-sink", "sink", by_label[0][0], urls))
        for label, sender in by_label if flow["kind"] == "quic-upload" else ():
            name = f"{group}-s{sender}" if len(members[sender]) == 1 else f"{group}-s{sender}-{label}"
            clients.append((name, f"s{sender}", label, [f"https://{sink_address(flow)}:{port}/upload"]))
        for name, node, label, urls in clients:
            self.start(net[node], f"client-{name}", [
                "sh", "-c", 'sleep "$0"; exec "$@"', str(LEAD_S + flow["start_s"]),
                "weir-client", *urls, "--flow-label", str(label), "--insecure", *IN_THE_LAB, "--quiet", "--json",
                *self.cc_words(flow, node), *([] if server_of(flow).labels else ["--local-labels"]),
                *(["--upload", *self.qlog_words(f"client-{name}")] if flow["kind"] == "quic-upload" else []),
                *burst_words(flow),
                "--duration-s", str(flow["stop_s"] - flow["start_s"]), "--max-payload", str(flow["payload_bytes"]),
                "--start-spread-ms", str(round(flow["start_spread_s"] * 1000)),
                "--stats", str(self.out / f"flows-client-{name}.jsonl"), "--stats-every-ms", str(SAMPLE_MS),
            ])  # fmt: skip

    def start_quic_short(self, net: LabNet, group: int, flow: dict, share: list[int], start_us: int) -> None:
        """One client at the sink opens a connection for each transfer at its time. Its flows have no labels: the
        servers leave no samples of them."""
        transfers = self.short_plan(group, flow)
        if not transfers:
            return
        port, addresses = QUIC_PORT + self.settings.index(quic_setting(flow)), map(Dumbbell.sender_address, share)
        places = list(addresses)
        server = server_of(flow)
        urls = [f"https://{places[place]}:{port}{server.url_path(size)}" for _, place, _, size in transfers]
        self.start(net["sink"], f"client-{group}-sink", [
            "weir-client", *urls, "--open-at-us", ",".join(str(start_us + at_us) for at_us, *_ in transfers),
            "--insecure", *IN_THE_LAB, "--quiet", "--json", *self.cc_words(flow, "sink"),
            "--duration-s", str(LEAD_S + self.spec["duration_s"]), "--max-payload", str(flow["payload_bytes"]),
        ], output=f"report-{group}.json")  # fmt: skip

    def write_quic_shorts(self, start_us: int) -> None:
        """The `short` lines of QUIC transfers, from their clients' reports."""
        end_us = start_us + round(self.spec["duration_s"] * 1e6)
        for group, flow in enumerate(self.spec["flows"]):
            report = self.out / f"report-{group}.json"
            if flow["kind"] != "quic-short" or not report.exists():
                continue
            lines = []
            done = json.loads(report.read_text())["flows"]
            for (at_us, _, number, size), one in zip(self.short_plan(group, flow), done, strict=True):
                ended = one["exit"] == "complete"
                took_us = one["duration_us"] if ended else end_us - start_us - at_us
                line = {"k": "short", "t_us": start_us + at_us + took_us, "flow": f"{group}.{number}", "bytes": size,
                        "fct_us": took_us}  # fmt: skip
                lines.append(line if ended else {**line, "open": 1})
            self.write_lines(f"short-{group}-sink.jsonl", lines)

    def short_plan(self, group: int, flow: dict) -> list[tuple[int, int, int, int]]:
        """A group's short transfers in order of time: microseconds of the run, place, number, bytes. Numbers are the
        group's, without gaps."""
        plan = arrivals(flow, group, self.spec["seed"])
        return sorted(
            (at_us, place, index * flow["count"] + place, size)
            for place, its in enumerate(plan)
            for index, (at_us, size) in enumerate(its)
        )


def listening(node: LabNode, port: int) -> bool:
    """Whether a program of the node has the UDP port."""
    with in_namespace(node.namespace):
        tables = [Path(f"/proc/thread-self/net/{table}").read_text() for table in ("udp", "udp6")]
    return any(f":{port:04X} " in table for table in tables)


def most_bytes(spec: dict) -> int:
    """Size of a file that no run of the spec carries whole."""
    link = spec["link"]["bottleneck"]
    rates = [link["rate_mbit_s"], *(rate for _, rate in link.get("rates", ()))]
    rates += [change["rate_mbit_s"] for change in spec["changes"] if "rate_mbit_s" in change]
    return round(max(rates) * 1e6 / 8 * spec["duration_s"]) + (1 << 20)


def server_of(flow: dict) -> Server:
    """The server of a QUIC flow."""
    return Server.of_spec(flow[SERVER]) if SERVER in flow else WEIR_SERVER


def ecn_words(flow: dict) -> list[str]:
    """Options of both ends of a QUIC flow: ECN and SCONE."""
    return [*(ECN if flow["ecn"] else NO_ECN), *(["--scone", flow["scone"]] if "scone" in flow else [])]


def burst_words(flow: dict) -> list[str]:
    """For a weir-client whose application has something to upload now and then: as requests on one connection."""
    if "burst_bytes" not in flow or flow["kind"] != "quic-upload":
        return []
    requests = math.ceil((flow["stop_s"] - flow["start_s"]) * 1000 / flow["burst_every_ms"])
    words = ["--requests", str(requests), "--interval-ms", str(flow["burst_every_ms"])]
    return [*words, "--bytes", str(flow["burst_bytes"])]
