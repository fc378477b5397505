# SPDX-License-Identifier: Apache-2.0
"""The crates of the QUIC client as a registry would have them, and a program of another workspace that uses them."""

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
CLIENT = REPO / "quic-client"
CRATES = {"weir-quiche": "quiche", "weir-core": "core", "weir-io": "io", "weir-quic": "library"}
VERSION = tomllib.loads((CLIENT / "Cargo.toml").read_text())["workspace"]["package"]["version"]

pytestmark = pytest.mark.skipif(not shutil.which("cargo"), reason="cargo is not installed here")

PROGRAM = """
fn main() -> Result<(), weir_quic::Error> {
    let connection = weir_quic::connect("https://localhost:4433/", &["127.0.0.1"])?;
    println!("{}", connection.request(weir_quic::Request::get("/"))?.status());
    Ok(())
}
"""


def cargo(folder: Path, target: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
    return subprocess.run(["cargo", *words], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def packages() -> list[str]:
    return [word for name in CRATES for word in ("-p", name)]


def test_they_could_be_published(tmp_path):
    """All that a registry checks before the upload. Dependencies of each other need no version that is published.
    Cargo's verification would build BoringSSL again, in the dev profile; the next test checks the packed crates."""
    done = cargo(CLIENT, tmp_path, "publish", "--dry-run", "--no-verify", "--allow-dirty", *packages())
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("aborting upload due to dry run") == len(CRATES)
    assert "has no" not in done.stderr


def test_a_program_of_another_workspace_uses_them(tmp_path):
    """The crates are read-only, as in a registry's folder, and quiche's source is not beside them."""
    made = cargo(CLIENT, tmp_path / "packed", "package", "--no-verify", "--allow-dirty", *packages())
    assert made.returncode == 0, made.stderr
    registry = tmp_path / "program" / "registry"
    registry.mkdir(parents=True)
    for name in CRATES:
        crate = tmp_path / "packed" / "package" / f"{name}-{VERSION}.crate"
        shutil.unpack_archive(crate, registry, "gztar")
    patches = "".join(f'{name} = {{ path = "registry/{name}-{VERSION}" }}\n' for name in CRATES)
    manifest = f"""
[package]
name = "program"
version = "0.0.0"
edition = "2024"
[workspace]
members = ["."]
exclude = ["registry"]
[dependencies]
weir-quic = "={VERSION}"
[patch.crates-io]
{patches}"""
    (tmp_path / "program" / "Cargo.toml").write_text(manifest)
    (tmp_path / "program" / "src").mkdir()
    (tmp_path / "program" / "src" / "main.rs").write_text(PROGRAM)
    subprocess.run(["chmod", "-R", "a-w", registry], check=True)
    try:
        done = cargo(tmp_path / "program", tmp_path / "target", "check")
    finally:
        subprocess.run(["chmod", "-R", "u+w", registry], check=True)
    assert done.returncode == 0, done.stderr
