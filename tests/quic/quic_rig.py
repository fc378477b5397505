# SPDX-License-Identifier: Apache-2.0
"""weir-client, the servers it is tried on, and certificates for them."""

import contextlib
import datetime
import functools
import importlib
import ipaddress
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import types
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from packet_rig import Failed, Holder

HERE = Path(__file__).resolve().parent
REPO = HERE.parents[1]
BUILD = REPO / "build"
PEERS = BUILD / "peers"
CLIENT = Path(os.environ.get("WEIR_CLIENT", BUILD / "bin" / "weir-client"))
WEIR_SERVER = Path(os.environ.get("WEIR_SERVER", BUILD / "bin" / "weir-server"))

PYTHON_MODULE = BUILD / "python"
"""Folder of weir_quic, for PYTHONPATH."""

PATIENCE_S = 60
"""Time limit of a client before it counts as hung: for a busy machine, not a measurement."""

OK, USAGE, CONNECT, TLS, TIMEOUT, INCOMPLETE, NOT_SERVED, IO, PATHS, TOO_LARGE = 0, 2, 3, 4, 5, 6, 7, 8, 9, 10
INTERRUPTED = 130
CODES = {OK, USAGE, CONNECT, TLS, TIMEOUT, INCOMPLETE, NOT_SERVED, IO, PATHS, TOO_LARGE, INTERRUPTED}
"""weir-client's table of exit codes."""


@dataclass
class Ended:
    """A client that has ended."""

    code: int
    out: str
    err: str
    args: list[str]

    @property
    def report(self) -> dict:
        return json.loads(self.out)

    def good(self) -> dict:
        """It did what it was asked to, without a word on standard error; gives its report (if --json was among its
        arguments)."""
        assert (self.code, self.err) == (OK, ""), self
        return self.report

    def bad(self, code: int, *texts: str) -> "Ended":
        """It ended with this code and one line that holds these texts."""
        assert self.code == code, self
        assert len(self.err.splitlines()) == 1, self
        missing = [text for text in texts if text not in self.err]
        assert not missing, (missing, self)
        return self


def start(*args: object, where: Holder | None = None, **kwargs: object) -> subprocess.Popen:
    """Starts weir-client here or in a namespace."""
    command = [str(CLIENT), *map(str, args)]
    kwargs = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **kwargs}
    if where is None:
        return subprocess.Popen(command, text=True, **kwargs)
    return where.start(*command, **kwargs)


def ended(process: subprocess.Popen, patience_s: float = PATIENCE_S) -> Ended:
    """Waits for a client; one that does not end is killed and a failure."""
    try:
        out, err = process.communicate(timeout=patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"weir-client hung: {process.args}: {out} {err}")
    assert "panicked" not in err, (process.args, err)
    return Ended(process.returncode, out or "", err or "", process.args)


def client(*args: object, where: Holder | None = None, patience_s: float = PATIENCE_S, **kwargs: object) -> Ended:
    """Runs weir-client to its end."""
    return ended(start(*args, where=where, **kwargs), patience_s)


def lines(path: Path) -> list[dict]:
    """The lines of a --stats or --events file, without one that is still being written."""
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def until(true: "callable", what: str, patience_s: float = PATIENCE_S) -> None:
    """Waits for something that comes by itself."""
    end = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < end, f"never came: {what}"
        time.sleep(0.02)


class Authority:
    """A certificate authority of the tests' own."""

    def __init__(self, folder: Path):
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec

        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"authority in {folder.name}")])
        self.ca = folder / "ca.pem"
        self.certificate = self._sign(self.name, self.key.public_key(), x509.BasicConstraints(True, None), [], 0)
        self.ca.write_bytes(_pem(self.certificate))

    def _sign(self, name: object, key: object, constraints: object, names: list[str], ended_days_ago: int) -> object:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        now = datetime.datetime.now(datetime.UTC)
        end = now - datetime.timedelta(days=ended_days_ago) if ended_days_ago else now + datetime.timedelta(days=30)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self.name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(end - datetime.timedelta(days=60))
            .not_valid_after(end)
            .add_extension(constraints, critical=True)
        )
        if names:
            alternatives = [_general_name(text) for text in names]
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def issue(self, *names: str, ended_days_ago: int = 0) -> "Certificate":
        """A certificate for host names and addresses, by us."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0])])
        none = x509.BasicConstraints(False, None)
        signed = self._sign(name, key.public_key(), none, list(names), ended_days_ago)
        return _written(self.folder / f"{len(list(self.folder.iterdir()))}", signed, key)


@dataclass
class Certificate:
    """A chain and its key, as PEM files."""

    cert: Path
    key: Path


def _pem(certificate: object) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _written(stem: Path, certificate: object, key: object) -> Certificate:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    made = Certificate(stem.with_suffix(".cert"), stem.with_suffix(".key"))
    made.cert.write_bytes(_pem(certificate))
    made.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return made


def _general_name(text: str) -> object:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


@dataclass
class Server:
    """A server that runs."""

    kind: str
    address: str
    """ADDRESS:PORT"""
    ca: Path
    """Vouches for it."""
    alpns: tuple[str, ...]
    process: subprocess.Popen
    where: Holder | None = None
    folder: Path | None = None
    _ended: bool = field(default=False, repr=False)

    def url(self, path: str = "") -> str:
        return f"https://{self.address}{path}"

    @property
    def trust(self) -> list[str]:
        return ["--ca", str(self.ca)]

    def get(self, path: str, *args: object, **kwargs: object) -> Ended:
        """Runs a client against it."""
        return client(self.url(path), *self.trust, "--json", *args, where=self.where, **kwargs)

    def close(self) -> None:
        """Ends it in good order."""
        if not self._ended:
            self._ended = True
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()


def _listening(process: subprocess.Popen) -> str:
    """The address that a server says it listens on."""
    line = process.stdout.readline().strip()
    if not line.startswith("listening "):
        process.kill()
        process.wait()
        raise AssertionError(f"{process.args} said '{line}' instead of where it listens")
    return line.removeprefix("listening ")


def _run(command: list[object], where: Holder | None, env: dict[str, str] | None = None) -> subprocess.Popen:
    env = {**os.environ, **(env or {})}
    command = list(map(str, command))
    if where is not None:
        command = ["env", *(f"{name}={env[name]}" for name in env if name == "QLOGDIR"), *command]
        return where.start(*command, stdout=subprocess.PIPE)
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)


BOTH = ("h3", "hq-interop")


def weir(folder: Path, authority: Authority, listen: str, where: Holder | None = None, *extra: object) -> Server:
    made = authority.issue(listen.rpartition(":")[0].strip("[]"), "localhost")
    stats = folder / "stats"
    process = _run(
        [WEIR_SERVER, "--listen", listen, "--cert", made.cert, "--key", made.key, "--stats", stats,
         "--stats-every-ms", 10, *extra],
        where,
    )  # fmt: skip
    return Server("weir", _listening(process), authority.ca, BOTH, process, where=where, folder=folder)


def aioquic(
    folder: Path,
    authority: Authority,
    listen: str,
    where: Holder | None = None,
    *extra: object,
    script: str = "aioquic_server.py",
) -> Server:
    made = authority.issue(listen.rpartition(":")[0].strip("[]"), "localhost")
    process = _run(
        [sys.executable, HERE / script, "--listen", listen, "--cert", made.cert, "--key", made.key, *extra],
        where,
    )  # fmt: skip
    return Server("aioquic", _listening(process), authority.ca, BOTH, process, where=where, folder=folder)


def staying(folder: Path, authority: Authority, listen: str, where: Holder | None = None) -> Server:
    """A server on aioquic that answers on one path whichever requests come on."""
    return aioquic(folder, authority, listen, where, script="staying_server.py")


def quicgo(folder: Path, authority: Authority, listen: str, where: Holder | None = None, *extra: object) -> Server:
    made = authority.issue(listen.rpartition(":")[0].strip("[]"), "localhost")
    command = [PEERS / "quicgo", "-listen", listen, "-cert", made.cert, "-key", made.key, *extra]
    process = _run(command, where, {"QLOGDIR": str(folder)})
    return Server("quic-go", _listening(process), authority.ca, BOTH, process, where=where, folder=folder)


def rust_peer(name: str) -> Path:
    """A program of quic-client/bench: an example of quiche's, or one on quinn."""
    return BUILD / "cargo" / "release" / name


def quinn(folder: Path, authority: Authority, listen: str, where: Holder | None = None, *extra: object) -> Server:
    """A server on quinn that replaces its connection IDs."""
    made = authority.issue(listen.rpartition(":")[0].strip("[]"), "localhost")
    command = [rust_peer("quinn-rotating"), "--listen", listen, "--cert", made.cert, "--key", made.key, *extra]
    process = _run(command, where)
    return Server("quinn", _listening(process), authority.ca, ("hq-interop",), process, where=where, folder=folder)


EXAMPLE_SIZES = (0, 1, 5000, 100_000, 3_000_000)
"""Of the files that quiche's example servers are given, as /bytes/N."""


def quiche_example(folder: Path, authority: Authority, listen: str, where: Holder, alpn: str) -> Server:
    """An example server of quiche's: it serves files, forbids active migration, and insists on 127.0.0.1:4433, so it
    gets a namespace of its own."""
    program = rust_peer({"h3": "quiche-http3-server", "hq-interop": "quiche-hq-server"}[alpn])
    work = folder / "examples"
    (work / "root" / "bytes").mkdir(parents=True)
    made = authority.issue("127.0.0.1")
    (work / "cert.crt").symlink_to(made.cert)
    (work / "cert.key").symlink_to(made.key)
    for size in EXAMPLE_SIZES:
        (work / "root" / "bytes" / str(size)).write_bytes(bytes(size))
    # entering a mount namespace leaves the working directory
    process = where.start("env", "-C", folder, program, stdout=subprocess.PIPE, stderr=(folder / "log").open("w"))
    until(lambda: ":4433 " in where.run("ss", "-Hlun").stdout, f"{program} listens")
    return Server(f"quiche example ({alpn})", listen, authority.ca, (alpn,), process, where=where)


def quiche_apps(folder: Path, authority: Authority, listen: str, where: Holder | None, *extra: object) -> Server:
    """quiche-server of quiche's tools, which the registry does not have."""
    made = authority.issue(listen.rpartition(":")[0], "localhost")
    root = folder / "root"
    (root / "bytes").mkdir(parents=True)
    for size in EXAMPLE_SIZES:
        (root / "bytes" / str(size)).write_bytes(bytes(size))
    command = ["quiche-server", "--listen", listen, "--cert", made.cert, "--key", made.key, "--root", root, *extra]
    process = _run(command, where)
    port = listen.rpartition(":")[2]
    listed = where.run if where else lambda *a: subprocess.run(a, capture_output=True, text=True)
    until(lambda: f":{port} " in listed("ss", "-Hlun").stdout, "quiche-server listens")
    return Server("quiche-server", listen, authority.ca, BOTH, process, where=where, folder=folder)


def python_module() -> types.ModuleType:
    """The module weir_quic; the tests of a file that calls this are skipped if it is not built."""
    if not list(PYTHON_MODULE.glob("weir_quic/_native*.so")):
        text = "the Python module is not built; setup/install.sh python_quic builds it"
        pytest.skip(text, allow_module_level=True)
    sys.path.append(str(PYTHON_MODULE))
    return importlib.import_module("weir_quic")


def why_not(kind: str) -> str | None:
    """Why a kind of server can't be had on this machine, if it can't."""
    if kind == "aioquic":
        with contextlib.suppress(ImportError):
            import aioquic  # noqa: F401

            return None
        return "aioquic is not installed"
    if kind == "quic-go":
        return _why_no_go()
    if kind.startswith("quiche-server"):
        return None if shutil.which("quiche-server") else "quiche-server, which no registry has, is not on PATH"
    if kind.startswith(("quiche example", "quinn")) and not rust_peer("quinn-rotating").exists():
        return "programs on quinn and quiche are not built; setup/install.sh quic_peers builds them"
    return None


@functools.cache
def _why_no_go() -> str | None:
    if not shutil.which("go"):
        return "go is not installed"
    wanted = next(w for w in (HERE / "quicgo" / "go.mod").read_text().splitlines() if w.startswith("go ")).split()[1]
    have = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True).stdout.strip()
    numbers = [tuple(map(int, text.removeprefix("go").split(".")[:2])) for text in (have.split()[0], wanted)]
    if numbers[0] < numbers[1]:
        return f"quic-go needs Go {wanted} or newer, this is {have}"
    if not (PEERS / "quicgo-example-client").exists():
        return "programs on quic-go are not built; setup/install.sh go_peers builds them"
    return None


@functools.cache
def why_no_namespaces() -> str | None:
    """Why there are no namespaces for a test here, if so."""
    if os.geteuid():
        return "needs root, for namespaces"
    try:
        Holder().close()
    except Failed as error:
        return f"no namespaces here: {error}"
    return None
