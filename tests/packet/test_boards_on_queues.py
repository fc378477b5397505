# SPDX-License-Identifier: Apache-2.0
"""The board and the alerts on real queues: a law kept by the daemon, tuned by `weir tune`, both scraped by a Prometheus
with the configuration of controller/boards."""

import contextlib
import http
import json
import shutil
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from boards_rig import BOARDS, alert_queries, board_queries, metrics, tool
from packet_rig import REPO, WEIR, until

PATIENCE_S = 120.0
ECT_0 = 2
DAEMON = """
check = "200ms"
metrics = "{folder}/xdp.prom"

[rb]
shape = "10mbit"
flow_records = true
[ppp7]                     # never comes
shape = "10mbit"
"""


class Site:
    """A router with all of it, in a namespace of its own, where the ports are free that the configuration names."""

    def __init__(self, rig, folder: Path) -> None:
        self.rig, self.folder = rig, folder
        self.logs = folder / "logs"
        self.logs.mkdir()

    def start(self, running: contextlib.ExitStack, name: str, *words: object) -> None:
        log = running.enter_context((self.logs / name).open("w"))
        process = self.rig.router.start(*words, stdout=log, stderr=subprocess.STDOUT)
        running.callback(process.wait)
        running.callback(process.terminate)

    def answer(self, what: str, **parameters: str) -> dict:
        """Of Prometheus' interface; {} while it does not answer."""
        url = f"http://127.0.0.1:9090/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        try:
            with self.rig.router.inside(), urllib.request.urlopen(url, timeout=60) as found:
                return json.load(found)["data"]
        except urllib.error.HTTPError as error:
            if error.code == http.HTTPStatus.SERVICE_UNAVAILABLE:  # it starts
                return {}
            pytest.fail(f"{url}: {error.read().decode()}")
        except urllib.error.URLError:
            return {}

    def found(self, query: str) -> list[dict]:
        """Results of a query now that are numbers."""
        told = self.answer("query", query=query).get("result", [])
        return [one for one in told if one["value"][1] != "NaN"]

    def told(self) -> str:
        """The ends of the logs, for a failure."""
        return "\n".join(f"{log.name}: {log.read_text()[-1000:]}" for log in sorted(self.logs.iterdir()))


@contextlib.contextmanager
def flood(rig) -> Iterator[None]:
    """UDP from a to b, more than rb carries, of which half could be marked; for the length of a with."""
    over = threading.Event()
    with rig.sender.inside():
        socks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    socks[1].setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ECT_0)

    def send() -> None:
        while not over.wait(0.001):
            for sock in socks:
                with contextlib.suppress(OSError):  # a full socket: as good as sent
                    sock.sendto(bytes(1200), ("10.9.0.2", 9))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for sock in socks:
            sock.close()


@pytest.fixture(scope="module")
def site(rig, tmp_path_factory) -> Iterator[Site]:
    prometheus, exporter = tool("prometheus"), tool("prometheus-node-exporter")
    folder = tmp_path_factory.mktemp("boards")
    folder.chmod(0o755)
    site = Site(rig, folder)
    (folder / "text").mkdir()
    (folder / "xdp.toml").write_text(DAEMON.format(folder=folder / "text"))
    shutil.copy(BOARDS / "rules.yml", folder)
    configuration = (BOARDS / "prometheus.yml").read_text()
    assert configuration.count(" 15s\n") == 2
    (folder / "prometheus.yml").write_text(configuration.replace(" 15s\n", " 1s\n"))  # so that nobody waits
    # where controllers keep their locks and memory: the namespace's own
    rig.router.sh("mount -t tmpfs none /run")
    with contextlib.ExitStack() as running:
        site.start(running, "daemon", WEIR, "daemon", "--config", folder / "xdp.toml")
        until(lambda: rig.weir("status", "rb", "--json", check=False).returncode == 0, "the law on rb", PATIENCE_S)
        site.start(
            running, "tune", "env", f"PYTHONPATH={REPO / 'controller'}", "PYTHONDONTWRITEBYTECODE=1",
            sys.executable, "-m", "weir.cli", "tune", "--bpf", "rb", "--metrics", "9464", "--metrics-hosts", "3",
        )  # fmt: skip
        site.start(
            running, "node-exporter", exporter, "--web.listen-address=127.0.0.1:9100", "--collector.disable-defaults",
            "--collector.textfile", f"--collector.textfile.directory={folder / 'text'}",
        )  # fmt: skip
        site.start(
            running, "prometheus", prometheus, f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}", "--web.listen-address=127.0.0.1:9090",
        )  # fmt: skip
        running.enter_context(flood(rig))
        try:
            until(lambda: site.found('weir_departure_rate_bits_per_second{port="rb"}'), "a tuned queue", PATIENCE_S)
        except AssertionError:
            pytest.fail(site.told())
        rig.weir("set", "rb", "target=8ms")  # the tuner notices
        yield site
    rig.weir("detach", "rb", check=False)
    rig.unshape()


def all_found(site: Site, queries: dict[str, str]) -> None:
    """Waits until each query finds something; where one never does, all of those are named."""
    missing = dict(queries)

    def come() -> bool:
        for name, query in list(missing.items()):
            if site.found(query):
                del missing[name]
        return not missing

    try:
        until(come, "each query", PATIENCE_S)
    except AssertionError:
        pytest.fail(f"nothing for: {missing}\n{site.told()}")


def test_every_metric_that_is_asked_for_is_there(site) -> None:
    asked = set().union(*(metrics(query) for query in (board_queries() | alert_queries()).values()))
    all_found(site, {name: f"count({name})" for name in asked})


def test_every_query_of_the_board_finds_something(site) -> None:
    all_found(site, board_queries())


def test_every_condition_of_an_alert_can_be_judged(site) -> None:
    all_found(site, alert_queries())


def test_prometheus_evaluates_the_alerts_and_sees_what_is_wrong(site) -> None:
    """There is one interface without the law, and no other fault of what the daemon keeps."""

    def states() -> dict[str, str]:
        groups = site.answer("rules").get("groups", [])
        return {rule["name"]: rule["state"] for group in groups for rule in group["rules"]}

    until(lambda: states().get("WeirLawGone", "inactive") != "inactive", "an alert", PATIENCE_S)
    groups = site.answer("rules")["groups"]
    assert {rule["name"] for group in groups for rule in group["rules"]} == set(alert_queries())
    for rule in (rule for group in groups for rule in group["rules"]):
        assert (rule["health"], rule.get("lastError", "")) == ("ok", ""), rule
    assert [one["metric"]["dev"] for one in site.found("weir_xdp_attached == 0")] == ["ppp7"]
    assert states()["WeirDriftLeft"] == "inactive"
    assert states()["WeirQueueTrouble"] == "inactive"
