# SPDX-License-Identifier: Apache-2.0
"""`weir` itself, and `weir status` and `weir gains` beside a weir-xdp that is none."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from weir.cli import COMMANDS, GROUPS, main
from weir.dataplane.base import DataPlaneError
from weir.dataplane.bpf import BpfDevice
from weir.gains import KEYS
from weir.settings import profile
from weir.text import age

TUNED = profile("tuned")
STATUS = {
    "dev": "eth0", "netns": "", "pins": "/sys/fs/bpf/weir", "netns_inode": 7, "attach_id": 5, "config_id": 9,
    "hook": "tcx", "signal": "veth", "why": "", "gone": False, "fixed": False, "gains": asdict(TUNED),
    "backlog_bytes": 3000, "tau_us": 2400, "dq_rate_bit_s": 10_000_000, "u": 0.5, "drop_probability": 0.25, "row": 5,
    "age_us": 4_000_000, "rate_age_us": 8,
    "counters": {
        "passed_packets": 90, "passed_bytes": 90_000, "marked_packets": 5, "dropped_aqm_packets": 7,
        "dropped_limit_packets": 3,
    },
}  # fmt: skip


@pytest.fixture
def weir_xdp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A weir-xdp that answers with the file `said`, and with status 1 where that is empty."""
    command = tmp_path / "weir-xdp"
    command.write_text(f"#!/bin/sh\ncat {tmp_path}/said\ntest -s {tmp_path}/said\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("COLUMNS", "200")  # no cell is folded
    return tmp_path / "said"


def test_help_names_every_command_in_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("usage: weir COMMAND ...")
    assert "ROOM" not in text.upper().split()
    for group, commands in GROUPS.items():
        assert f"\n{group}:\n" in text
        assert all(f"\n  {name} " in text for name in commands)
    assert "examples:" in text
    assert "exit status: 0 done, 1 failed, 2 wrong call" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_teaches_by_examples_and_tells_its_exit_status(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert f"usage: weir {name}" in text
    assert "exit status" in text
    assert "examples:" in text or "--help with examples" in text


@pytest.mark.parametrize(("words", "said"), [([], "no command"), (["tun"], "no command 'tun'")])
def test_a_command_that_is_none_is_a_wrong_call(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"weir: error: {said}: must be one of status, watch")


def test_status_of_an_interface(weir_xdp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weir_xdp.write_text(
        json.dumps([STATUS | {"trouble": "another root qdisc", "gains": asdict(replace(TUNED, kp=24.0))}])
    )
    assert main(["status", "--json"]) == 0
    (device,) = json.loads(capsys.readouterr().out)
    (port,) = device["ports"]
    assert (device["device"], device["program"]) == ("bpf", "eBPF, by weir-xdp")
    assert (port["port"], port["attached"], port["trouble"]) == ("eth0", "tcx, veth", "another root qdisc")
    assert (port["profile"], port["differs"], list(port["gains"])) == ("tuned", {"kp": 24.0}, list(KEYS))
    assert (port["reading"]["delay_us"], port["reading"]["age_us"]) == (2400, 4_000_000)
    assert main(["status"]) == 0
    first, columns, row = capsys.readouterr().out.splitlines()
    assert first == "bpf: eBPF, by weir-xdp"
    assert columns.split()[:4] == ["device", "port", "attached", "gains"]
    words = "bpf eth0 tcx, veth tuned but kp=24 2.4 15 25.00 3000 4 s another root qdisc"
    assert " ".join(row.split()) == words


def test_status_of_what_does_not_answer_goes_on_and_fails(weir_xdp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weir_xdp.write_text(json.dumps([STATUS]))
    nobody = ("--p4", "unix:/nonexistent/weir", "--connect-timeout-s", "0.2")
    assert main(["status", "--bpf", "eth0", *nobody]) == 1
    out, error = capsys.readouterr()
    assert "tuned" in out
    assert error.startswith("weir status: error: device unix:/nonexistent/weir: cannot be read: no connection")
    assert len(error.splitlines()) == 1


def test_status_where_nothing_is_attached(weir_xdp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weir_xdp.write_text("[]")
    assert main(["status"]) == 0
    assert "no port runs the law" in capsys.readouterr().out


@pytest.mark.parametrize("words", [(), ("--json",), ("--set", "target_us=1")], ids=" ".join)
def test_gains_where_nothing_is_attached(
    weir_xdp: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    weir_xdp.write_text("[]")
    assert main(["gains", *words]) == 1
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("weir gains: error: no interface has the law: `weir-xdp attach DEV` puts it on one")


def test_nonsense_is_told_by_status(weir_xdp: Path) -> None:
    weir_xdp.write_text(json.dumps([{**STATUS, "counters": {}}]))
    with pytest.raises(DataPlaneError, match="invalid output of weir-xdp status: passed_packets = None"):
        BpfDevice("here").read_status()


def test_gains_of_an_interface(weir_xdp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weir_xdp.write_text(json.dumps([STATUS]))
    assert main(["gains"]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "bpf eth0  (tuned)"
    assert [line.split(" = ")[0].strip() for line in lines] == list(KEYS)
    assert main(["gains", "--port", "eth1"]) == 1
    assert "no port eth1: must be one of eth0" in capsys.readouterr().err
    assert main(["gains", "--set", "kpp=3"]) == 2
    assert "--set kpp=3: no such key; did you mean kp?" in capsys.readouterr().err
    assert main(["gains", "--expert", "--set", "kp=fast"]) == 2
    assert "--set kp = 'fast': must be a number per second" in capsys.readouterr().err
    assert main(["gains", "--set", "delay_source=rate"]) == 2  # only a switch has it
    assert "--set delay_source=rate: no such key" in capsys.readouterr().err


def test_ages_for_people() -> None:
    assert [age(value) for value in (None, 0, 0.999, 5, 600, 36_000)] == [
        "", "now", "now", "5 s", "10 min", "10 h",
    ]  # fmt: skip
