# SPDX-License-Identifier: Apache-2.0
"""Packages that the lock files name: no published vulnerability, and licences that deny.toml allows.

cargo-deny, cargo-audit and pip-audit run where they are installed and their databases can be reached. Elsewhere the
reason of the skip begins with `not tried`, which the counts at the end of a run show."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
LOCKS = sorted(path for path in REPO.rglob("Cargo.lock") if "build" not in path.relative_to(REPO).parts)
REQUIREMENTS = REPO / "setup" / "requirements.txt"
RULES = tomllib.loads((REPO / "deny.toml").read_text(encoding="utf-8"))

each_lock = pytest.mark.parametrize("lock", LOCKS, ids=lambda path: str(path.parent.relative_to(REPO)))


def not_tried(reason: str) -> None:
    pytest.skip(f"not tried: {reason}")


def installed(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        not_tried(f"{program} is not installed")
    return str(path)


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=REPO, capture_output=True, text=True, check=False)


def document(done: subprocess.CompletedProcess[str], database: str) -> dict:
    """The JSON that a tool prints once it has its database."""
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        not_tried(f"{database} can't be reached")
        raise


def test_there_are_locks():
    assert {str(path.parent.relative_to(REPO)) for path in LOCKS} >= {"quic-client", "p4/switch", "mininet/peers/noq"}


@each_lock
def test_cargo_deny(lock):
    installed("cargo-deny")
    deny = ("cargo", "deny", "--manifest-path", lock.with_name("Cargo.toml"), "--locked")
    if run(*deny, "fetch", "db").returncode:
        not_tried("cargo-deny's database can't be reached")
    if run("cargo", "fetch", "--locked", "--manifest-path", lock.with_name("Cargo.toml")).returncode:
        not_tried(f"packages of {lock.parent.relative_to(REPO)} can't be downloaded")
    done = run(*deny, "check", "--disable-fetch", "advisories", "bans", "licenses", "sources")
    assert done.returncode == 0, done.stdout + done.stderr


@each_lock
def test_cargo_audit(lock):
    installed("cargo-audit")
    report = document(run("cargo", "audit", "--json", "--file", lock), "cargo-audit's database")
    assert report["vulnerabilities"]["list"] == []


def test_pip_audit():
    """A package index without advisories lets pip-audit pass over every package."""
    words = ("--requirement", REQUIREMENTS, "--require-hashes", "--disable-pip", "--format", "json")
    report = document(run(installed("pip-audit"), *words, "--progress-spinner", "off"), "pip-audit's database")
    packages = report["dependencies"]
    assert [package for package in packages if package.get("vulns")] == []
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    if unknown or not packages:
        not_tried(f"pip-audit's database has {len(packages) - len(unknown)} of {len(packages)} packages")


def allowed(expression: str, allow: set[str]) -> bool:
    """Whether an SPDX expression can be met by allowed licences. AND binds more strongly than OR."""
    words = re.findall(r"[()]|[^\s()]+(?: WITH [^\s()]+)?", expression.replace("/", " OR "))

    def alternatives() -> bool:
        met = parts()
        while words and words[0] == "OR":
            words.pop(0)
            met = parts() or met
        return met

    def parts() -> bool:
        met = licence()
        while words and words[0] == "AND":
            words.pop(0)
            met = licence() and met
        return met

    def licence() -> bool:
        word = words.pop(0)
        if word != "(":
            return word in allow
        met = alternatives()
        words.pop(0)
        return met

    return alternatives() and not words


@pytest.mark.parametrize(
    ("expression", "met"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("MIT/GPL-3.0-only", True),
        ("Apache-2.0 AND GPL-3.0-only", False),
        ("(GPL-3.0-only OR MIT) AND Apache-2.0", True),
        ("GPL-3.0-only OR MIT AND GPL-2.0-only", False),
        ("Apache-2.0 WITH LLVM-exception", False),
    ],
)
def test_expressions(expression, met):
    assert allowed(expression, {"MIT", "Apache-2.0"}) is met


@each_lock
def test_licences(lock):
    """Without cargo-deny, from the packages that are downloaded already."""
    words = ("metadata", "--offline", "--locked", "--format-version", "1", "--manifest-path")
    done = run(installed("cargo"), *words, lock.with_name("Cargo.toml"))
    if done.returncode:
        not_tried(f"packages of {lock.parent.relative_to(REPO)} are not downloaded")
    allow = set(RULES["licenses"]["allow"])
    more = {rule["crate"]: set(rule["allow"]) for rule in RULES["licenses"]["exceptions"]}
    packages = json.loads(done.stdout)["packages"]
    assert {p["name"]: p["license"] for p in packages
            if not allowed(p["license"] or "none", allow | more.get(p["name"], set()))} == {}  # fmt: skip
