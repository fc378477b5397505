# SPDX-License-Identifier: Apache-2.0
"""The programs of a run on `campus`: their command lines. Pure.

Flows of QUIC have a number each, which their programs report them by, and samples a name (`flow_name`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from weirlab.lab.programs import ECN, IN_THE_LAB, NO_ECN, QUIC_PORT, SAMPLE_MS, Command
from weirlab.topologies.campus.deploy import FILES, LIVE
from weirlab.topologies.campus.sites import (
    DESK,
    NET,
    OFFICE,
    ORIGIN_ADDRESS,
    PATHS,
    PHONE,
    PUBLISHER,
    PUBLISHER_ADDRESS,
    SITES,
    cache_of,
    receivers_of,
)

OFFERED = Path("/run/files")
"""Folder of the published files, in the lab's own /run."""
OBJECT = "object.bin"
FILES_PORT, LIVE_PORT = 4434, 4435
"""The publisher's, for manifests and keys."""
TRAFFIC_PORT, PACED_PORT = 5201, 5202
TRANSFER_SAMPLE_MS = 10
"""Interval of a download's byte counts: a handover's silence is read from them."""
CACHE_MEMORY = "64MB"
REQUESTS, LIVE_PUBLISHER, TUNE = "request-0", "live", "tune"
"""Names of some programs: the phone's first application, the stream's publisher, the controller."""
CHOICE = "choice"
SHARED = "shared"
"""The traffic of the file and the stream."""
# The first number of each group of QUIC flows.
FLOWS = {"request": 0, "download": 100, "upload": 200, "stream": 300, "file": 400}
FLOWS_APART = 100
AGAIN = 50
"""Increment of the number of an application that was killed and began anew."""
STREAM_EVERY_MS = 100
# The numbers of the competing flows at the sinks.
CUBIC_FLOW, BBR_FLOW, WEB_FLOW, BURST_FLOW = 500, 520, 540, 560


def flow_name(number: int) -> str:
    """Name of that flow in the samples: `request.0`, `stream.3` (the third receiver's; the phone's is 0)."""
    group = max((first, name) for name, first in FLOWS.items() if first <= number)
    return f"{group[1]}.{number - group[0]}" if number < group[0] + FLOWS_APART else str(number)


def there_is(spec: Mapping[str, Any], section: str) -> bool:
    """Whether a variant has the traffic of a section."""
    return spec["has"]["traffic"] in ("all", SHARED if section in ("file", "stream") else section)


def server(spec: Mapping[str, Any], node: str, cc: str, out: Path) -> Command:
    argv = ["weir-server", "--listen", f"0.0.0.0:{QUIC_PORT}", "--cc", cc, *IN_THE_LAB, *ecn_words(spec)]
    argv += ["--state-dir", f"/run/weir-server-{node}", "--stats", str(out / f"flows-server-{node}.jsonl")]
    return Command(node, f"server-{node}", [*argv, "--stats-every-ms", str(SAMPLE_MS)], ready="listening")


def publishers(spec: Mapping[str, Any]) -> Iterator[Command]:
    """Publishers of the file and the stream by name, and the sites' caches. The stream comes by standard input."""
    common = ["--interface", "eth0", "--state-dir", "/run/weir-files"]  # one that is started again is the same
    listen = ["--listen", f"0.0.0.0:{FILES_PORT}"]
    argv = ["weir-icn", "publish", str(OFFERED), "--name", FILES, *listen, *common]
    yield Command(PUBLISHER, "publish", argv, ready="listening")
    for site in SITES:
        argv = ["weir-icn", "cache", "--interface", "eth0", "--memory", CACHE_MEMORY]
        yield Command(cache_of(site), cache_of(site), argv, ready="ready")


def live_publisher() -> Command:
    argv = ["weir-icn", "publish", "--live", "--name", LIVE, "--listen", f"0.0.0.0:{LIVE_PORT}"]
    argv += ["--interface", "eth0", "--state-dir", "/run/weir-live"]
    return Command(PUBLISHER, LIVE_PUBLISHER, argv, ready="listening")


def sinks(out: Path, until_s: float) -> Iterator[Command]:
    for node in (DESK, OFFICE):
        argv = ["weir-traffic", "sink", "--port", str(TRAFFIC_PORT), "--until-s", f"{until_s:g}", "--cc", "cubic"]
        yield Command(node, f"sink-{node}", [*argv, "--stats", str(out / f"flows-sink-{node}.jsonl")], ready="ready")
    argv = ["weir-paced", "receive", "--port", str(PACED_PORT), "--out", str(out / "paced-heard.jsonl")]
    yield Command(DESK, "call-receiver", argv, ready="ready")


def ecn_words(spec: Mapping[str, Any]) -> tuple[str, str]:
    return ECN if spec["has"]["ecn"] else NO_ECN


def client(
    spec: Mapping[str, Any], what: str, number: int, url: str, out: Path, every_ms: int = SAMPLE_MS
) -> list[str]:
    """weir-client's command line for one flow, without the flow's own options."""
    argv = ["weir-client", url, "--flow-label", str(FLOWS[what] + number), "--insecure", *IN_THE_LAB, "--quiet"]
    name = f"{what}-{number}"
    argv += [*ecn_words(spec), "--json", "--events", str(out / f"tasks-{name}.jsonl")]
    return [*argv, "--stats", str(out / f"flows-{name}.jsonl"), "--stats-every-ms", str(every_ms)]


def phone_paths(spec: Mapping[str, Any]) -> list[str]:
    """Options for the networks that the phone's programs may use."""
    chosen = spec["has"]["paths"]
    words = [word for path in (PATHS if chosen == CHOICE else [chosen]) for word in ("--path", path)]
    return [*words, "--strategy", "weir", "--seed", str(spec["seed"])]


def requests(spec: Mapping[str, Any], number: int, start_us: int, out: Path, since_s: float | None = None) -> Command:
    """One of the phone's applications that asks for something now and then, on a connection of its own, with the run's
    start at `start_us`. `since_s`: it was killed, and begins anew at that second of the run, `start_us`. It has a
    number and files of its own then."""
    asked = spec["requests"][number]
    first_s, count = asked["start_s"], requests_due(asked, spec["duration_s"])
    if since_s is not None:
        first_s, count = 0.0, max(1, requests_due({**asked, "start_s": since_s}, spec["duration_s"]))
        number += AGAIN
    argv = client(spec, "request", number, f"https://{ORIGIN_ADDRESS}:{QUIC_PORT}/bytes/{asked['bytes']}", out)
    argv += ["--requests", str(count), "--interval-ms", f"{asked['interval_ms']:g}"]
    argv += ["--start-at-us", str(start_us + round(first_s * 1e6)), *phone_paths(spec)]
    return Command(
        PHONE, f"request-{number}", [*argv, "--window", spec["has"]["window"]], output=f"request-{number}.json"
    )


def requests_due(asked: Mapping[str, Any], duration_s: float) -> int:
    """Number of an application's requests that have their whole interval within the run."""
    return int((duration_s - asked["start_s"]) * 1000 / asked["interval_ms"])


def download(spec: Mapping[str, Any], number: int, out: Path) -> Command:
    size = spec["downloads"]["bytes"]
    argv = client(
        spec, "download", number, f"https://{ORIGIN_ADDRESS}:{QUIC_PORT}/bytes/{size}", out, TRANSFER_SAMPLE_MS
    )
    argv += [*phone_paths(spec), "--window", spec["has"]["window"]]
    return Command(PHONE, f"download-{number}", argv, output=f"download-{number}.json")


def upload(spec: Mapping[str, Any], out: Path) -> Command:
    lasts_s = spec["upload"]["stop_s"] - spec["upload"]["start_s"]
    argv = client(spec, "upload", 0, f"https://{ORIGIN_ADDRESS}:{QUIC_PORT}/upload", out)
    argv += ["--timestamps", "on" if spec["has"]["timestamps"] else "off"]
    argv += ["--upload", "--cc", spec["has"]["upload_cc"], "--duration-s", f"{lasts_s:g}", *phone_paths(spec)]
    return Command(PHONE, "upload", argv, output="upload-0.json")


def hosts_of_stream(spec: Mapping[str, Any]) -> dict[int, str]:
    """Hosts that fetch the file and the stream: the phone, as receiver 0, and the receivers."""
    return {0: PHONE, **{receiver.number: receiver.name for receiver in receivers_of(spec)}}


def by_name(spec: Mapping[str, Any], what: str, number: int, out: Path) -> Command:
    """weir-icn get of the file or the stream, at a receiver."""
    node = hosts_of_stream(spec)[number]
    name, port = (LIVE, LIVE_PORT) if what == "stream" else (f"{FILES}/{OBJECT}", FILES_PORT)
    interface = "wifi" if node == PHONE else "eth0"
    argv = ["weir-icn", "get", name, "--from", f"{PUBLISHER_ADDRESS}:{port}", "--interface", interface]
    argv += ["--insecure", "--known-publishers", "none", "--quiet", "--events", str(out / f"get-{what}-{number}.jsonl")]
    if what == "stream":
        return Command(node, f"stream-{number}", [*argv, "--output", "-"], output=came_file(what, number))
    argv += ["--output", str(out / came_file(what, number)), "--json"]
    return Command(node, f"file-{number}", argv, output=f"get-file-{number}.json")


def came_file(what: str, number: int) -> str:
    """The file of the run with a receiver's data by name."""
    return f"came-{what}-{number}.bin"


def by_unicast(spec: Mapping[str, Any], what: str, number: int, out: Path) -> Command:
    """A QUIC download of the same at a receiver."""
    node = hosts_of_stream(spec)[number]
    piece = stream_piece_bytes(spec)
    size = f"{piece}/every/{STREAM_EVERY_MS}" if what == "stream" else str(spec["file"]["bytes"])
    argv = client(spec, what, number, f"https://{PUBLISHER_ADDRESS}:{QUIC_PORT}/bytes/{size}", out)
    argv += [*phone_paths(spec), "--window", spec["has"]["window"]] if node == PHONE else []
    if what == "stream":
        argv += ["--duration-s", f"{spec['duration_s'] - spec['stream']['start_s']:g}"]
    return Command(node, f"{what}-{number}", argv, output=f"{what}-{number}.json")


def stream_piece_bytes(spec: Mapping[str, Any]) -> int:
    """Bytes that the stream grows by every STREAM_EVERY_MS."""
    return round(spec["stream"]["rate_mbit_s"] * 1e6 / 8 * STREAM_EVERY_MS / 1000)


def neighbours(spec: Mapping[str, Any], out: Path) -> Iterator[Command]:
    """Commands of the competing traffic. Their programs count time from their own start, which is the run's."""
    flows, until = spec["neighbours"], ["--start-s", "0", "--until-s", f"{spec['duration_s']:g}"]

    def to(node: str, first: int, count: int) -> list[str]:
        address = {DESK: "10.5.0.3", OFFICE: "10.2.1.50"}[node]
        return ["--to", f"{address}:{TRAFFIC_PORT}", "--flow", str(first), "--count", str(count)]

    for cc, node, first in (("cubic", DESK, CUBIC_FLOW), ("bbr", OFFICE, BBR_FLOW)):
        if count := flows[f"{cc}_count"]:
            argv = ["weir-traffic", "tcp", "--cc", cc, "--mss", "1448", *to(node, first, count), *until]
            yield Command(NET, cc, [*argv, "--stats", str(out / f"flows-client-{cc}.jsonl")])
    if flows["burst_mbit_s"]:
        argv = ["weir-traffic", "udp", "--rate-bit-s", str(flows["burst_mbit_s"] * 1e6), "--bytes", "1200"]
        argv += ["--on-s", f"{flows['burst_on_s']:g}", "--off-s", f"{flows['burst_off_s']:g}"]
        yield Command(NET, "burst", [*argv, *to(OFFICE, BURST_FLOW, 1), *until])
    if flows["web_per_s"]:
        argv = ["weir-traffic", "short", "--to", f"10.5.0.3:{TRAFFIC_PORT}", "--plan", str(out / "plan-web.txt")]
        argv += ["--cc", "cubic", "--mss", "1448", "--group", str(WEB_FLOW), "--stats", str(out / "short-web.jsonl")]
        yield Command(NET, "web", [*argv, *until])
    if flows["calls"]:
        argv = ["weir-paced", "send", "--out", str(out / "paced-sent.jsonl"), "--packets-per-s", "50", "--bytes", "160"]
        argv += ["--tos", "184", "--to", f"10.5.0.3:{PACED_PORT}", "--flow", "0", "--count", str(flows["calls"])]
        yield Command(NET, "call", [*argv, *until])
