# SPDX-License-Identifier: Apache-2.0
"""weir-switch with certificates of clients: who has no right for a call is refused with the right that it would need,
and every change has a line that says who made it. And with `--user`: of root's rights one is left, with which a port
whose interface comes back is taken up again."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import quic_rig
from hostile_rig import many, not_forwarded
from p4_rig import EMBEDDED, PROGRAM, P4Rig, find, hop, missing
from packet_rig import until

from weir.p4runtime.client import Client, DeviceError, Update
from weir.p4runtime.connection import Tls
from weir.switch.program import for_embedded

CAP_NET_RAW = 1 << 13
RIGHTS = """
[[client]]
subject = { CN = "owner" }
rights = ["read", "write", "pipeline"]
[[client]]
subject = { CN = "watcher" }
rights = ["read"]
"""


@pytest.fixture
def guarded(tmp_path):
    """A switch that takes clients of one authority, and how to be one of them."""
    if not find("weir-switch"):
        pytest.skip("weir-switch is not built; ./run test builds it")
    pytest.importorskip("cryptography")
    authority = quic_rig.Authority(tmp_path)
    server = authority.issue("localhost")
    (tmp_path / "rights.toml").write_text(RIGHTS)
    words = ["--no-p4", "--grpc-server-addr", "127.0.0.1:0", "--grpc-server-ssl", "--grpc-server-with-client-auth"]
    words += ["--grpc-server-cert", server.cert, "--grpc-server-key", server.key, "--grpc-server-cacert", authority.ca]
    words += ["--grpc-rights", tmp_path / "rights.toml", "--audit", tmp_path / "audit.jsonl"]
    process = subprocess.Popen([find("weir-switch"), *map(str, words)], stdout=subprocess.PIPE, text=True)
    clients = []

    def client(name: str, election_id: int) -> Client:
        own = authority.issue(name)
        tls = Tls(authority.ca, own.cert, own.key, "localhost")
        clients.append(Client(address, tls=tls, election_id=election_id, connect_timeout_s=60))
        return clients[-1]

    try:
        address = process.stdout.readline().strip().rpartition(" ")[2]
        yield client, tmp_path / "audit.jsonl"
    finally:
        for each in clients:
            each.close()
        process.terminate()
        assert process.wait(60) == 0
        process.stdout.close()


def test_each_may_do_what_its_certificate_allows(guarded):
    client, audit = guarded
    owner = client("owner", 1)
    owner.become_primary()
    owner.set_pipeline(for_embedded(PROGRAM))
    owner.write([Update.insert(hop(7, 1))])
    for _ in range(many(5, 300)):
        watcher = client("watcher", 9)
        assert watcher.capabilities()
        with pytest.raises(
            DeviceError, match=r"a claim to be primary, needs the right `write` or `pipeline`"
        ) as refused:
            watcher.become_primary()
        assert refused.value.code == "PERMISSION_DENIED"
    with pytest.raises(DeviceError, match=r"needs the right `read`; this client \(CN=stranger\) has none"):
        client("stranger", 10).capabilities()
    # nobody took the owner's place
    owner.write([Update.delete(hop(7, 1))])
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    changes = [(line["who"], line["call"], line["result"]) for line in lines if line["result"] == "OK"]
    calls = ("arbitration", "SetForwardingPipelineConfig", "Write", "Write")
    assert changes == [("CN=owner", call, "OK") for call in calls]
    refused_to = {line["who"] for line in lines if line["result"] == "PERMISSION_DENIED"}
    assert refused_to == {"CN=watcher", "CN=stranger"}


def test_a_switch_that_gave_its_rights_up_takes_ports_up_again(tmp_path):
    if reason := missing(EMBEDDED):
        pytest.skip(reason)
    rig = P4Rig(EMBEDDED, tmp_path, options=["--user", "nobody"])
    try:
        for name, status in each_thread(rig.process.pid):
            assert "0" not in status["Uid"].split() + status["Gid"].split() + status["Groups"].split(), name
            assert [int(status[c], 16) for c in ("CapPrm", "CapEff", "CapBnd")] == [CAP_NET_RAW] * 3, name
            assert status["NoNewPrivs"] == "1", name
        rig.deploy()
        assert not_forwarded(rig) == 0
        rig.unplug(2)
        rig.plug(2)

        def forwards() -> bool:
            rig.send(1, rig.marker(1, 2))
            return any(port == 2 for port, _ in rig.arrivals(0.2))

        until(forwards, "port 2 is back", 60)
        rig.drain()
        assert not_forwarded(rig) == 0
    finally:
        rig.close()


def test_what_a_service_manager_gave_beyond_need_is_given_up():
    """Started as nobody with ambient capabilities, as systemd does it (p4/switch/systemd)."""
    if not find("weir-switch"):
        pytest.skip("weir-switch is not built; ./run test builds it")
    if os.geteuid():
        pytest.skip("to become nobody takes root")
    had = "+net_raw,+net_admin"
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    words += [f"--inh-caps={had}", f"--ambient-caps={had}"]
    # where anybody may run it, wherever this clone is
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        words += [shutil.copy(find("weir-switch"), folder), "--no-p4", "--grpc-server-addr", "127.0.0.1:0"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd="/") as process:
            assert process.stdout.readline().startswith("ready: ")
            for name, status in each_thread(process.pid):
                assert "0" not in status["Uid"].split() + status["Gid"].split(), name
                assert [int(status[c], 16) for c in ("CapPrm", "CapEff", "CapAmb")] == [CAP_NET_RAW, CAP_NET_RAW, 0]
                assert status["NoNewPrivs"] == "1", name
            process.terminate()
        assert process.returncode == 0


def each_thread(pid: int) -> Iterator[tuple[str, dict[str, str]]]:
    """Name and /proc status of each of a process's threads."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = dict(line.split(":\t") for line in (task / "status").read_text().splitlines() if ":\t" in line)
        yield status["Name"], status


def test_a_user_that_can_not_be_is_refused():
    if not find("weir-switch"):
        pytest.skip("weir-switch is not built; ./run test builds it")
    for user, said in (("weir-no-such", "there is no user weir-no-such"), ("root", "user root is root")):
        words = [find("weir-switch"), "--no-p4", "--grpc-server-addr", "127.0.0.1:0", "--user", user]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, said in done.stderr) == (1, True), done.stderr
