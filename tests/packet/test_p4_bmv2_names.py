# SPDX-License-Identifier: Apache-2.0
"""The embedded switch and its compiler by BMv2's names: command lines of p4lang's tutorials and of p4-utils, and
programs as the compiler writes them, on the command line and over P4Runtime."""

import shutil
import subprocess
from pathlib import Path

import pytest
from p4_rig import EMBEDDED, P4Rig, find, missing
from packet_rig import REPO, Holder, until
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from weir.p4runtime.client import PipelineConfig, Update
from weir.p4runtime.entities import Call, Lpm, TableEntry
from weir.p4runtime.p4info import P4Info

SOURCE = REPO / "p4" / "switch" / "weir-p4" / "tests" / "bmv2" / "forward.p4"
STATION = 0x020000000002
ROUTE = TableEntry("routes", {"hdr.ipv4.dst": Lpm(0x0A000200, 24)}, Call("route", {"dst": STATION, "port": 2}))

pytestmark = pytest.mark.skipif(missing(EMBEDDED) is not None, reason=str(missing(EMBEDDED)))


def named(folder: Path, name: str) -> Path:
    """A link by one of BMv2's names, as the packages have it."""
    program = find("weir-p4c" if name.startswith("p4c") else "weir-switch")
    assert program, "weir-p4c is not built"
    link = folder / name
    if not link.is_symlink():
        link.symlink_to(Path(program).resolve())
    return link


def run(*words: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess:
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)


def compiled(folder: Path) -> tuple[Path, P4Info]:
    """The tutorials' Makefile: the program's JSON and P4Info. Source and included file are removed afterwards."""
    shutil.copy(SOURCE, folder / "basic.p4")
    (folder / "build").mkdir()
    info = "build/basic.p4.p4info.txtpb"
    words = ["--p4v", "16", "--p4runtime-files", info, "-o", "build/basic.json", "basic.p4"]
    done = run(named(folder, "p4c-bm2-ss"), *words, folder=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (folder / "basic.p4").unlink()
    return folder / "build" / "basic.json", P4Info.from_file((folder / info).read_bytes(), info)


class NamedRig(P4Rig):
    """The switch by one of BMv2's names with this command line."""

    def __init__(self, folder: Path, words: list[str | Path]):
        self.words = words
        super().__init__(EMBEDDED, folder, ports=(1, 2))

    def _start(self, queues, options):
        self.log = self.folder / "switch.log"
        with open(self.log, "wb") as log:
            command = ["setpriv", "--pdeathsig", "KILL", *self.box.command(*self.words)]
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self._closing.callback(self._stop)
        until(self._answers, "the P4Runtime server")


def routes(rig: P4Rig) -> None:
    """Asserts that the program forwards a packet."""
    rig.client.write([Update.insert(ROUTE)])
    ether = Ether(dst="02:00:00:00:01:01", src="02:00:00:00:00:01")
    rig.send(1, bytes(ether / IP(src="10.0.1.1", dst="10.0.2.9", ttl=64) / UDP(sport=1, dport=2) / bytes(40)))
    port, frame = next(rig.arrivals(60))
    assert (port, IP(frame[14:]).ttl) == (2, 63)


def ended(rig: P4Rig) -> str:
    """Log of the switch, which ends with status 0."""
    rig.process.terminate()
    assert rig.process.wait(20) == 0
    return rig.log.read_text()


def test_the_tutorials_command_lines(tmp_path):
    program, _ = compiled(tmp_path)
    captures = tmp_path / "pcaps"
    captures.mkdir()
    words = [named(tmp_path, "simple_switch_grpc"), "-i", "1@p1", "-i", "2@p2", "--pcap", captures]
    words += ["--nanolog", "ipc:///tmp/bm-0-log.ipc", "--device-id", "0", program, "--debugger", "--log-console"]
    words += ["--thrift-port", "9090", "--", "--grpc-server-addr", "0.0.0.0:9559", "--cpu-port", "255"]
    rig = NamedRig(tmp_path, words)
    try:
        routes(rig)
        log = ended(rig)
    finally:
        rig.close()
    assert log.count("simple_switch_grpc: warning: no effect: --nanolog, --debugger\n") == 1
    assert "simple_switch_grpc: warning: P4Runtime on 0.0.0.0:9559: without TLS" in log
    assert "ready: 2 ports" in log
    assert sorted(p.name for p in captures.iterdir()) == [f"p{n}_{way}.pcap" for n in (1, 2) for way in ("in", "out")]


def test_the_tutorials_controllers(tmp_path):
    program, info = compiled(tmp_path)
    log_file = tmp_path / "s1.log"
    words = [named(tmp_path, "simple_switch_grpc"), "-i", "1@p1", "-i", "2@p2", "--no-p4", "--log-file", log_file]
    rig = NamedRig(tmp_path, words)
    try:
        # p4.tmp.P4DeviceConfig with reassign and device_data, as p4runtime_lib sends it.
        data = program.read_bytes()
        length, rest = b"", len(data)
        while rest > 127:
            length, rest = length + bytes([rest & 127 | 128]), rest >> 7
        wrapped = b"\x08\x01\x1a" + length + bytes([rest]) + data
        rig.client.set_pipeline(PipelineConfig(info, wrapped))
        routes(rig)
        rig.client.set_pipeline(PipelineConfig(None, data))
        routes(rig)
        assert "warning" not in ended(rig)
    finally:
        rig.close()
    assert Path(f"{log_file}.txt").exists()


def test_simple_switch_has_no_p4runtime_server(tmp_path):
    program, _ = compiled(tmp_path)
    box = Holder()
    try:
        command = box.command(named(tmp_path, "simple_switch"), "--thrift-port", "9091", "--log-console", program)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            lines = iter(process.stdout.readline, "")
            ready = next(line for line in lines if line.startswith("ready: 0 ports"))
            assert "P4Runtime" not in ready
            process.terminate()
            assert process.wait(20) == 0
    finally:
        box.close()


def test_the_compiler_by_its_names(tmp_path):
    shutil.copy(SOURCE, tmp_path / "a.p4")
    driver = [named(tmp_path, "p4c"), "--target", "bmv2", "--arch", "v1model", "--std", "p4-16"]
    done = run(*driver, "-o", "new/out", "--p4runtime-files", "a.txt,a.json,a.bin", "a.p4", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "new" / "out" / "a.json").is_file()
    texts = [P4Info.from_file((tmp_path / name).read_bytes(), name).message for name in ("a.txt", "a.bin")]
    assert texts[0] == texts[1]
    done = run(named(tmp_path, "p4c-bm2-ss"), "-E", "-D", "X=7", "a.p4", folder=tmp_path)
    assert (done.returncode, "#include" in done.stdout) == (0, False)
    (tmp_path / "b.p4").write_text(done.stdout)
    assert run(*driver, "b.p4", folder=tmp_path).returncode == 0
    (tmp_path / "c.p4").write_text("control {")
    done = run(*driver, "c.p4", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("c.p4:1:9: error: ")
    assert not (tmp_path / "c.json").exists()
    done = run(*driver, "--toJSON", "x", "a.p4", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("p4c: unsupported: --toJSON")
