# SPDX-License-Identifier: Apache-2.0
"""The table of QUIC servers, `mininet/peers/servers.toml`: how each is started, and which are here.

A program of other people's is one row. A row whose program is missing has a reason in `missing`.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from weirlab import paths

VERSION_LIMIT_S = 20
ALPNS = ("h3", "hq-interop")
VERSION_KEYS = ({"lock", "package"}, {"module", "name"}, {"python"}, {"argv"})
CERTIFICATE_DAYS = 30
# Before the lab's clock, which starts in 2026.
VALID_FROM = datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC)


class ServersError(Exception):
    """A fault in the table: file, row, key, right form."""


@dataclass(frozen=True)
class Server:
    """A row. `argv` and `path` hold the places of `command` and `url_path`."""

    name: str
    program: str
    argv: tuple[str, ...] = ()
    alpn: str = "h3"
    path: str = "/bytes/{bytes}"
    version: dict = field(default_factory=dict)
    built_by: str = ""
    note: str = ""

    def found(self) -> Path | None:
        """The program, by its absolute path, or None where it is missing."""
        if "/" in self.program:
            path = paths.clone() / self.program
            return path if path.exists() else None
        built = paths.build() / "bin" / self.program
        word = str(built) if built.exists() else shutil.which(self.program)
        return Path(word).absolute() if word else None

    def missing(self) -> str:
        """Reason why the server cannot run here, or "" if it can."""
        if self.found() is not None:
            return ""
        remedy = f"setup/install.sh {self.built_by} builds it" if self.built_by else "put it on PATH"
        return f"{self.name}: {self.program} is missing; {remedy}"

    def command(self, address: str, port: int, cert: str, key: str, root: str, folder: str) -> list[str]:
        """Command line of the server. Raises ServersError if the program is missing."""
        program = self.found()
        if program is None:
            raise ServersError(self.missing())
        places = {"{address}": address, "{port}": str(port), "{cert}": cert, "{key}": key, "{root}": root}
        places |= {"{folder}": folder, "{clone}": str(paths.clone())}
        words = [str(program), *self.argv]
        for place, value in places.items():
            words = [word.replace(place, value) for word in words]
        return words

    def url_path(self, size_bytes: int) -> str:
        """Path of a download of so many bytes."""
        return self.path.replace("{bytes}", str(size_bytes))

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
            return metadata.version(version["python"])
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


def _checked(file: Path, number: int, row: object) -> Server:
    """A row as a Server. Raises ServersError."""
    where = f"{file}: server {number}"
    if not isinstance(row, dict):
        raise ServersError(f"{where}: write [[server]] and its keys")
    texts = {"name", "program", "alpn", "path", "built_by", "note"}
    for key, value in row.items():
        if key not in texts | {"argv", "version"}:
            raise ServersError(f"{where}: unknown key {key}; known: {', '.join(sorted(texts | {'argv', 'version'}))}")
        if key in texts and not (isinstance(value, str) and value):
            raise ServersError(f"{where}: {key} = {value!r}: write a text")
    if not {"name", "program"} <= row.keys():
        raise ServersError(f"{where}: name and program are missing")
    argv, version = row.get("argv", []), row.get("version", {})
    if not isinstance(argv, list) or not all(isinstance(word, str) for word in argv):
        raise ServersError(f"{where}: argv = {argv!r}: write a list of texts")
    if row.get("alpn", "h3") not in ALPNS:
        raise ServersError(f"{where}: alpn = {row['alpn']!r}: write {' or '.join(ALPNS)}")
    if not isinstance(version, dict) or (version and set(version) not in VERSION_KEYS):
        raise ServersError(f"{where}: version = {version!r}: write one of the forms at the top of servers.toml")
    return Server(**{**row, "argv": tuple(argv)})


def table() -> Path:
    """The table of this clone."""
    return paths.clone() / "mininet" / "peers" / "servers.toml"


def read(file: Path) -> list[Server]:
    """All servers of a table. Raises ServersError."""
    try:
        data = tomllib.loads(file.read_text())
    except OSError as error:
        raise ServersError(f"{file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ServersError(f"{file}: {error}") from None
    rows = data.pop("server", [])
    if data or not isinstance(rows, list) or not rows:
        raise ServersError(f"{file}: write rows that begin with [[server]], and nothing else")
    servers = [_checked(file, number, row) for number, row in enumerate(rows, start=1)]
    names = [server.name for server in servers]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ServersError(f"{file}: two servers of the name {twice[0]}")
    return servers


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
