# SPDX-License-Identifier: Apache-2.0
"""All Rust workspaces of the repository have one edition, one compiler version, one table of lints and one format."""

import posixpath
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
if not (REPO / ".git").exists():
    pytest.skip("not a git clone: git lists the workspaces", allow_module_level=True)
# quiche's own source, which is written in this edition, is compiled as part of the crate.
OTHER_EDITION = {"quic-client/quiche": "2021"}
SETTINGS = ("edition", "rust-version", "license", "version")


def tracked(pattern: str) -> list[str]:
    """Paths of the repository's files that match, relative to it; new ones that are not ignored count too."""
    git = ["git", "-c", f"safe.directory={REPO}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run([*git, pattern], cwd=REPO, capture_output=True, text=True, check=True).stdout
    return sorted(path for path in set(listed.split("\0")) if path and (REPO / path).exists())


def manifests() -> dict[str, dict]:
    """The content of each Cargo.toml by its folder."""
    paths = [path for path in tracked("*Cargo.toml") if Path(path).name == "Cargo.toml"]
    return {str(Path(path).parent): tomllib.loads((REPO / path).read_text()) for path in paths}


MANIFESTS = manifests()
WORKSPACES = [folder for folder, manifest in MANIFESTS.items() if "workspace" in manifest]
CRATES = [folder for folder, manifest in MANIFESTS.items() if "package" in manifest]


def workspace_of(crate: str) -> str:
    """Folder of a crate's workspace: the one that it names, its own, or the nearest above."""
    if named := MANIFESTS[crate]["package"].get("workspace"):
        return posixpath.normpath(f"{crate}/{named}")
    above = [crate, *map(str, Path(crate).parents)]
    return next(folder for folder in above if folder in WORKSPACES)


def settings(crate: str) -> dict[str, object]:
    """A crate's package settings, with those that it takes from its workspace."""
    package = MANIFESTS[crate]["package"]
    shared = MANIFESTS[workspace_of(crate)]["workspace"].get("package", {})
    own = {key: package.get(key) for key in SETTINGS}
    return {key: shared.get(key) if value == {"workspace": True} else value for key, value in own.items()}


def test_there_are_workspaces_to_compare():
    assert {"quic-client", "quic-client/bench", "quic-client/fuzz", "p4/switch", "p4/switch/fuzz"} <= set(WORKSPACES)
    for folder in WORKSPACES:
        for member in MANIFESTS[folder]["workspace"].get("members", []):
            assert posixpath.normpath(f"{folder}/{member}") in CRATES


@pytest.mark.parametrize("folder", WORKSPACES)
def test_workspaces_have_one_table_of_lints_and_one_resolver(folder):
    first, workspace = MANIFESTS[WORKSPACES[0]]["workspace"], MANIFESTS[folder]["workspace"]
    assert workspace["lints"] == first["lints"]
    assert workspace["resolver"] == first["resolver"]


@pytest.mark.parametrize("crate", CRATES)
def test_crates_have_one_edition_and_use_the_lints_of_their_workspace(crate):
    reference = settings(next(c for c in CRATES if c not in OTHER_EDITION))
    expected = reference | ({"edition": OTHER_EDITION[crate]} if crate in OTHER_EDITION else {})
    assert settings(crate) == expected
    assert None not in expected.values()
    assert MANIFESTS[crate]["lints"] == {"workspace": True}


def test_rustfmt_and_clippy_have_one_configuration():
    found = [p for p in tracked("*.toml") if re.fullmatch(r"\.?(rustfmt|clippy)\.toml", Path(p).name)]
    assert found == ["clippy.toml", "rustfmt.toml"]


@pytest.mark.parametrize("workspace", [folder for folder in WORKSPACES if Path(folder).name != "fuzz"])
def test_the_linters_know_each_workspace(workspace):
    """Fuzz targets are built by cargo-fuzz alone; they are a call each, and rustfmt needs no build."""
    assert re.search(rf'[" ]{re.escape(workspace)}:', (REPO / "setup" / "step.sh").read_text())


def test_no_test_is_where_cargo_test_does_not_look():
    """Programs have `test = false`, and workspaces of programs alone are not tested at all (setup/step.sh). A file in
    no crate's folder is an example of some crate."""
    tested = re.search(r'^RUST_TESTED="(.*)"$', (REPO / "setup" / "step.sh").read_text(), re.MULTILINE)[1]
    whole = [folder.partition(":")[0] for folder in tested.split()]
    for path in tracked("*.rs"):
        crate = next((str(folder) for folder in Path(path).parents if str(folder) in CRATES), None)
        inside = path.removeprefix(f"{crate}/")
        is_program = crate is None or inside == "src/main.rs" or inside.startswith("src/bin/")
        if is_program or workspace_of(crate) not in whole:
            assert not re.search(r"#\[(cfg\(test\)|(\w+::)?test\b)", (REPO / path).read_text()), path
    for crate in CRATES:
        for program in MANIFESTS[crate].get("bin", []):
            assert program["test"] is False, f"{crate}: {program['name']}"


def test_modules_in_folders_are_mod_rs():
    """No `foo.rs` beside a folder `foo` of modules. Programs and tests in one file have no folder."""
    sources = set(tracked("*.rs"))
    for path in sources:
        folder = path.removesuffix(".rs") + "/"
        assert not any(other.startswith(folder) for other in sources), path
