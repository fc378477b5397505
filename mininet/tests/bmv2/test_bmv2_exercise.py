# SPDX-License-Identifier: Apache-2.0
"""Errors of `python -m weirlab.bmv2` before Mininet starts. Exercises that run are in tests/packet."""

import json
import os

import pytest

pytest.importorskip("mininet.cli")

from weirlab.bmv2 import exercise


def test_missing_programs_are_named_with_their_packages(tmp_path, monkeypatch, capsys):
    file = tmp_path / "topology.json"
    file.write_text(json.dumps({"hosts": {}, "switches": {"s1": {}}, "links": []}))
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("mnexec", "ifconfig", "ethtool"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.chdir(tmp_path)
    assert exercise.main(["-t", str(file)]) == exercise.FAILED
    said = capsys.readouterr().err
    assert said == (
        "weirlab.bmv2: error: not on PATH: ip (Debian package iproute2), ping (Debian package iputils-ping); "
        "Mininet runs these programs\n"
    )
