# SPDX-License-Identifier: Apache-2.0
"""The table of QUIC servers, `mininet/peers/servers.toml`: how each is started, and which are here.

A program of other people's is one row. A row whose program is missing has a reason in `missing`. A spec holds a row as
`Server.spec` gives it, so that a run needs no table and is known by the row's content.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from weirlab import paths
from weirlab.lab.kernels import lab_path

VERSION_LIMIT_S = 20
PRIVATE = (Path("/tmp"), Path("/run"))
"""Not the host's in a lab, except for folders below the first that its PATH names."""
ALPNS = ("h3", "hq-interop", "perf")
TEXTS = ("name", "program", "alpn", "path", "endless", "bursts", "built_by", "note")
LISTS = ("argv", "samples", "qlog", "sources")
KEYS = (*TEXTS, *LISTS, "controls", "labels", "version")
PAYLOAD_BYTES = 1412
"""UDP payload by default: IPv4 packets of 1440 bytes."""
PLACES = frozenset({"address", "port", "cert", "key", "root", "folder", "clone", "payload", "samples", "qlog"})
LABEL = r"[a-z0-9][a-z0-9_-]*"
VERSION_KEYS = ({"lock", "package"}, {"module", "name"}, {"python"}, {"argv"})
CERTIFICATE_DAYS = 30
# Before the lab's clock, which starts in 2026.
VALID_FROM = datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC)


class ServersError(Exception):
    """A fault in the table: file, row, key, right form."""


@dataclass(frozen=True)
class Server:
    """A row. `argv`, `controls`, `samples`, `qlog` and the paths hold the places of `command`."""

    name: str
    program: str
    argv: tuple[str, ...] = ()
    alpn: str = "h3"
    path: str = "/bytes/{bytes}"
    endless: str = ""
    bursts: str = ""
    labels: bool = False
    samples: tuple[str, ...] = ()
    qlog: tuple[str, ...] = ()
    controls: dict[str, list[str]] = field(default_factory=dict)
    version: dict = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    built_by: str = ""
    note: str = ""

    def found(self) -> Path | None:
        """The program, by its absolute path, or None where it is missing."""
        if "/" in self.program:
            first, _, rest = self.program.partition("/")
            path = paths.build() / rest if first == "build" else paths.clone() / self.program
            return path if path.exists() else None
        built = paths.build() / "bin" / self.program
        word = str(built) if built.exists() else shutil.which(self.program)
        return Path(word).absolute() if word else None

    def missing(self) -> str:
        """Reason why the server cannot run here, or "" if it can."""
        if (program := self.found()) is not None:
            is_program = program.is_file() and os.access(program, os.X_OK)
            return "" if is_program else f"{self.name}: {program} is no executable file; name the server's program"
        remedy = f"setup/install.sh {self.built_by} builds it" if self.built_by else "put it on PATH"
        return f"{self.name}: {self.program} is missing; {remedy}"

    def hidden(self) -> str:
        """Reason why a lab does not see the program, which is here, or ""."""
        program = self.found()
        folder = program.resolve().parent if program else None
        if folder is None or (folder != PRIVATE[0] and not folder.is_relative_to(PRIVATE[1])):
            return ""
        return f"{self.name}: {program}: a lab does not see programs in {folder}; put it into another folder"

    def command(
        self,
        address: str,
        port: int,
        cert: str,
        key: str,
        root: str,
        folder: str,
        payload_bytes: int = PAYLOAD_BYTES,
        samples: str = "",
        qlog: str = "",
    ) -> list[str]:
        """Command line of the server; with `samples` it writes those to that file, with `qlog` qlogs into that folder
        if its row has how. Raises ServersError if the program is missing."""
        program = self.found()
        if program is None:
            raise ServersError(self.missing())
        places = {"{address}": address, "{port}": str(port), "{cert}": cert, "{key}": key, "{root}": root}
        places |= {"{folder}": folder, "{clone}": str(paths.clone()), "{payload}": str(payload_bytes)}
        places |= {"{samples}": samples, "{qlog}": qlog}
        words = [str(program), *self.argv, *(self.samples if samples else ()), *(self.qlog if qlog else ())]
        for place, value in places.items():
            words = [word.replace(place, value) for word in words]
        return words

    def url_path(self, size_bytes: int) -> str:
        """Path of a download of so many bytes."""
        return self.path.replace("{bytes}", str(size_bytes))

    def endless_path(self, most_bytes: int) -> str:
        """Path of a download that does not end, or of a file of so many bytes where the server has only files."""
        return self.endless or self.url_path(most_bytes)

    def bursts_path(self, size_bytes: int, every_ms: int) -> str:
        """Path of a download of so many bytes again and again. Raises ServersError if the server has none."""
        if not self.bursts:
            raise ServersError(f"{self.name}: no downloads in bursts; name their path in the row's bursts")
        return self.bursts.replace("{bytes}", str(size_bytes)).replace("{every_ms}", str(every_ms))

    def needs_files(self) -> bool:
        """Whether the server reads its downloads from files below {root}."""
        return any("{root}" in word for word in self.argv)

    def spec(self, control: str) -> dict[str, Any]:
        """The row with a congestion control, as a run's spec holds it. Raises ServersError without that control."""
        if control not in self.controls:
            known = ", ".join(self.controls) or "none in its row"
            raise ServersError(f"{self.name} has no congestion control {control}; there are {known}")
        row = {key: getattr(self, key) for key in ("name", "program", "alpn", "path", "endless", "bursts", "labels")}
        row |= {"argv": [*self.argv, *self.controls[control]], "samples": list(self.samples)}
        row |= {"qlog": list(self.qlog)}
        row |= {"built_by": self.built_by, "sources": list(self.sources)}
        row |= {"release": self.read_version() if "python" in self.version else ""}
        return {key: value for key, value in row.items() if value}

    @staticmethod
    def of_spec(row: Mapping[str, Any]) -> Server:
        """The server of a spec's row."""
        known = {key: value for key, value in row.items() if key != "release"}
        return Server(**known | {key: tuple(row[key]) for key in LISTS if key in row})

    def read_version(self) -> str:
        """Version of the stack, or "unknown". Raises OSError if a file of the row is missing."""
        version, clone = self.version, paths.clone()
        if "lock" in version:
            packages = tomllib.loads((clone / version["lock"]).read_text())["package"]
            return next((p["version"] for p in packages if p["name"] == version["package"]), "unknown")
        if "module" in version:
            name = re.escape(version["name"])
            found = re.search(rf"^\s*(?:require )?{name} v(\S+)", (clone / version["module"]).read_text(), re.MULTILINE)
            return found[1] if found else "unknown"
        if "python" in version:
            try:
                return metadata.version(version["python"])
            except metadata.PackageNotFoundError:
                return "unknown"
        program = self.found()
        if program is None:
            return "unknown"
        if "argv" in version:
            words = [str(program), *version["argv"]]
            try:
                done = subprocess.run(words, capture_output=True, text=True, timeout=VERSION_LIMIT_S, check=False)
            except subprocess.TimeoutExpired:
                return "unknown"
            found = re.search(r"\d+\.\d+[\w.+-]*", done.stdout + done.stderr)
            return found[0] if found else "unknown"
        beside = Path(f"{program.resolve()}.version")
        return beside.read_text().strip() if beside.exists() else "unknown"


def checked(file: Path, number: int, row: object) -> Server:
    """A row as a Server. Raises ServersError."""
    where = f"{file}: server {number}"
    if not isinstance(row, dict):
        raise ServersError(f"{where}: write [[server]] and its keys")
    for key, value in row.items():
        if key not in KEYS:
            raise ServersError(f"{where}: unknown key {key}; known: {', '.join(sorted(KEYS))}")
        if key in TEXTS and not (isinstance(value, str) and value):
            raise ServersError(f"{where}: {key} = {value!r}: write a text")
        if key in LISTS and not _is_words(value):
            raise ServersError(f"{where}: {key} = {value!r}: write a list of texts")
    if not {"name", "program"} <= row.keys():
        raise ServersError(f"{where}: name and program are missing")
    if not isinstance(row.get("labels", False), bool):
        raise ServersError(f"{where}: labels = {row['labels']!r}: write true or false")
    if row.get("alpn", "h3") not in ALPNS:
        raise ServersError(f"{where}: alpn = {row['alpn']!r}: write {' or '.join(ALPNS)}")
    version, controls = row.get("version", {}), row.get("controls", {})
    if not isinstance(version, dict) or (version and set(version) not in VERSION_KEYS) or not _is_version(version):
        raise ServersError(f"{where}: version = {version!r}: write one of the forms at the top of servers.toml")
    if not isinstance(controls, dict) or not all(_is_words(words) for words in controls.values()):
        raise ServersError(f"{where}: controls = {controls!r}: write {{ NAME = [arguments] }}")
    if bad := [name for name in controls if not re.fullmatch(LABEL, name)]:
        raise ServersError(f"{where}: control {bad[0]!r}: write lower-case letters, digits, - and _")
    _check_places(where, row)
    return Server(**{**row, **{key: tuple(row[key]) for key in LISTS if key in row}})


def _is_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _is_version(version: Mapping[str, object]) -> bool:
    return all(_is_words(value) if key == "argv" else bool(value) and isinstance(value, str)
               for key, value in version.items())  # fmt: skip


def _check_places(where: str, row: Mapping[str, Any]) -> None:
    """Raises ServersError for a place in braces that `command` does not fill in."""
    controls = [word for words in row.get("controls", {}).values() for word in words]
    words = [*row.get("argv", []), *row.get("samples", []), *row.get("qlog", []), *controls]
    of_paths = {"path": {"bytes"}, "endless": set(), "bursts": {"bytes", "every_ms"}}
    for key, texts, known in (
        ("argv", words, PLACES),
        *((key, [row[key]], places) for key, places in of_paths.items() if key in row),
    ):
        for place in re.findall(r"\{(\w*)\}", " ".join(texts)):
            if place not in known:
                there = ", ".join(f"{{{name}}}" for name in sorted(known)) or "none"
                raise ServersError(f"{where}: {key}: {{{place}}} is unknown; there are {there}")
    if "path" in row and not (row["path"].startswith("/") and "{bytes}" in row["path"]):
        raise ServersError(f"{where}: path = {row['path']!r}: write a path that begins with / and has {{bytes}}")
    for key in ("endless", "bursts"):
        if key in row and not row[key].startswith("/"):
            raise ServersError(f"{where}: {key} = {row[key]!r}: write a path that begins with /")


def table() -> Path:
    """The table of this clone."""
    return paths.clone() / "mininet" / "peers" / "servers.toml"


def read(file: Path) -> list[Server]:
    """All servers of a table. Raises ServersError."""
    try:
        data = tomllib.loads(file.read_text())
    except OSError as error:
        raise ServersError(f"{file}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # also tomllib's and UTF-8's
        raise ServersError(f"{file}: {error}") from None
    rows = data.pop("server", [])
    if data or not isinstance(rows, list) or not rows:
        raise ServersError(f"{file}: write rows that begin with [[server]], and nothing else")
    servers = [checked(file, number, row) for number, row in enumerate(rows, start=1)]
    names = [server.name for server in servers]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ServersError(f"{file}: two servers of the name {twice[0]}")
    return servers


def server(name: str) -> Server:
    """The row of that name in the table, or the one row of a file whose path ends in .toml. Raises ServersError."""
    if not name.endswith(".toml"):
        return chosen(read(table()), [name])[0]
    return read_one(Path(name))


def read_one(file: Path) -> Server:
    """The one row of a file. Its program may stand beside the file. Raises ServersError."""
    rows = read(file)
    if len(rows) > 1:
        raise ServersError(f"{file}: {len(rows)} rows; write one")
    row = replace(rows[0], built_by="")  # set-up builds what the table names
    beside = file.parent / row.program
    return replace(row, program=str(beside.absolute())) if "/" in row.program and beside.exists() else row


def servers_environment(servers: list[Server]) -> dict[str, str]:
    """Variables by which a lab finds programs from elsewhere than the clone, and their libraries."""
    found = [program for server in servers if (program := server.found())]
    libraries = os.environ.get("LD_LIBRARY_PATH")
    folders = dict.fromkeys(str(program.parent) for program in found if not program.is_relative_to(paths.clone()))
    return {"PATH": lab_path(*folders), **({"LD_LIBRARY_PATH": libraries} if libraries else {})}


def chosen(servers: list[Server], names: list[str]) -> list[Server]:
    """Servers of these names, in the table's order; all if there are no names. Raises ServersError."""
    known = [server.name for server in servers]
    for name in names:
        if name not in known:
            raise ServersError(f"no server {name}; there are {', '.join(known)}")
    return [server for server in servers if not names or server.name in names]


@dataclass(frozen=True)
class Certificate:
    """PEM files: a chain, its key, and the authority to trust."""

    cert: Path
    key: Path
    ca: Path


def certificate(folder: Path, *names: str) -> Certificate:
    """A certificate for host names and addresses, by an authority of its own, in `folder`. Raises OSError."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    def general(text: str) -> x509.GeneralName:
        try:
            return x509.IPAddress(ipaddress.ip_address(text))
        except ValueError:
            return x509.DNSName(text)

    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=CERTIFICATE_DAYS)
    made = Certificate(folder / "cert.pem", folder / "key.pem", folder / "ca.pem")
    for number, file in enumerate((made.ca, made.cert)):
        builder = x509.CertificateBuilder().subject_name(name(("authority", "server")[number]))
        builder = builder.issuer_name(name("authority")).public_key(keys[number].public_key())
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(VALID_FROM).not_valid_after(end)
        builder = builder.add_extension(x509.BasicConstraints(ca=number == 0, path_length=None), critical=True)
        if number:
            alternatives = x509.SubjectAlternativeName([general(text) for text in names])
            builder = builder.add_extension(alternatives, critical=False)
        signed = builder.sign(keys[0], hashes.SHA256())
        file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    made.key.write_bytes(keys[1].private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    made.key.chmod(0o600)
    return made
