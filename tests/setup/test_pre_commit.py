# SPDX-License-Identifier: Apache-2.0
"""The configuration for pre-commit: valid, and its hooks call what is there."""

import os
import subprocess
import sys
from pathlib import Path

import yaml

REPO = Path(__file__).resolve().parents[2]
CONFIG = REPO / ".pre-commit-config.yaml"


def test_the_configuration_is_valid():
    command = [sys.executable, "-m", "pre_commit", "validate-config", str(CONFIG)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_hooks_are_local_and_call_the_linters_of_the_check():
    repositories = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"]  # others would be fetched
    for hook in repositories[0]["hooks"]:
        program, *options = hook["entry"].split()
        assert hook["language"] == "system"
        assert os.access(REPO / program, os.X_OK)
        assert options == ["--lint"]
    assert "lint.sh" in (REPO / "setup" / "check.sh").read_text(encoding="utf-8")
