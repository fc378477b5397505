# SPDX-License-Identifier: Apache-2.0
"""`weir p4`, and `weir gains` of a switch, as far as they go without one"""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from places import ENVIRONMENT

from weir.cli import main
from weir.commands import p4 as cli
from weir.commands.gains import as_data, origin
from weir.dataplane.base import PortSettings
from weir.gains import GainError
from weir.p4runtime.client import DigestList
from weir.p4runtime.values import P4RuntimeError
from weir.programs import PID_DELAY, PortLaw
from weir.resources import PROFILES
from weir.settings import SettingsError, key_values, profile
from weir.switch import config, digests
from weir.switch.deploy import kind_of_config

NOBODY = "unix:/nonexistent/weir"
LOCAL = "127.0.0.1:9559"
RECORD = {
    "port": 2, "now_us": 1_500_000, "delay_us": 5250, "u_q40": 2**38, "backlog_bytes": 3000, "dq_time_q8_us": 0,
    "row": 2, "enqueued_packets": 9, "enqueued_bytes": 900, "tail_dropped_packets": 3, "tail_dropped_bytes": 300,
    "aqm_dropped_packets": 4, "aqm_marked_packets": 5,
}  # fmt: skip


def call(*words: str) -> int:
    return cli.main(list(words))


def weir(*words: str) -> int:
    return main(list(words))


@pytest.mark.parametrize("command", ["deploy", "load", "show", "digests"])
def test_help_teaches_by_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        call(command, "--help")
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert f"  weir p4 {command}" in text
    assert "example" in text


def test_the_example_in_the_help_is_a_good_file(tmp_path: Path) -> None:
    lines = cli.DEPLOY_EXAMPLE.split("s1.toml:\n", 1)[1].split("\n\n", 1)[0]
    found = config.loads(lines, "help", tmp_path)
    assert (len(found.routes), found.flood, found.aqm[2].gains.target_us) == (3, (1, 2), 5000)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["deploy"], "--config"),
        (["deploy", "--config", "x", "--switch", "tofino"], "invalid choice: 'tofino'"),
        (["show", "--device-id", "-1"], "-1: must be 0 .. "),
        (["show", "--device-id", "one"], "'one': must be a whole number"),
        (["show", "--election-id", "0"], "0: must be 1 .. "),
        (["show", "--address", "nonsense"], "argument --p4/--address: 'nonsense': must be HOST:PORT"),
        (["show", "--address", "http://127.0.0.1:9559"], "'http://127.0.0.1:9559': must be HOST:PORT"),
        (["show", "--names", "--table", "fib"], "argument --table: not allowed with argument --names"),
        (["show", "--counters", "--names"], "argument --names: not allowed with argument --counters"),
        (["digests", "--seconds", "0"], "0: must be above 0"),
        (["digests", "--seconds", "soon"], "'soon': must be a number of seconds"),
        ([], "required: COMMAND"),
    ],
)
def test_a_wrong_call_ends_with_2(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        call(*words)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("words", [["p4", "deploy"], ["p4", "show"], ["p4", "digests"], ["model", "margins"]])
def test_an_unknown_option_brings_its_commands_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        weir(*words, *(["--config", "x"] if words[1] == "deploy" else []), "--nope")
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith(f"usage: weir {' '.join(words)} ")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["deploy", "--config", "{good}"], 1, f"no connection to {NOBODY} (without TLS) within 0.2 s: no P4Runtime"),
        (["deploy", "--config", "{bad}"], 2, "{bad}:1: port: unknown; did you mean ports?"),
        (["deploy", "--config", "{good}.none"], 2, "{good}.none: No such file or directory"),
        (["deploy", "--config", "{empty}"], 2, "{empty}: has no [neighbours.NAME], no [flood] and no [["),
        (["deploy", "--config", "{empty}", "--empty"], 1, f"no connection to {NOBODY}"),
        (["show", "--tls-ca", "{good}.none"], 2, "--tls-ca {good}.none: No such file or directory"),
        (["show", "--config", "{bad}"], 2, "{bad}:1: port: unknown; did you mean ports?"),
        (["show", "--names", "--config", "{good}"], 1, f"no connection to {NOBODY}"),
    ],
)
def test_what_is_wrong_is_one_line_and_a_wrong_file_a_wrong_call(
    words: list[str], status: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad, empty = (tmp_path / f"{name}.toml" for name in ("good", "bad", "empty"))
    good.write_text("[flood]\nports = [1, 2]\n")
    bad.write_text("[port.1]\n")
    empty.write_text("")
    words = [word.format(good=good, bad=bad, empty=empty) for word in words]
    assert call(*words, "--address", NOBODY, "--connect-timeout-s", "0.2") == status
    out, error = capsys.readouterr()
    assert error.startswith(f"weir p4 {words[0]}: error: {message.format(good=good, bad=bad, empty=empty)}")
    assert not out
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["deploy", "--config", "none", "--p4info", "x"], "--p4info and --device-config must be given together"),
        (["show", "--tls-cert", "x"], "--tls-cert and --tls-key must be given together"),
    ],
)
def test_options_that_mean_nothing_together_end_with_2_and_ask_no_switch(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*words, "--address", NOBODY, "--connect-timeout-s", "0.2") == 2
    out, error = capsys.readouterr()
    assert error.startswith(f"weir p4 {words[0]}: error: {message}")
    assert not out
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--expert", "--set", "kp=3"], 2, "--port must say which port to set"),
        (["--port", "1", "--set", "kpp=1"], 2, "--set kpp=1: no such key; did you mean kp?"),
        (["--port", "1", "--set", "kp=3"], 2, "--set kp=3: only with --expert"),
        (["--port", "1", "--set", "kp"], 2, "--set kp: must be KEY=VALUE, KEY one of ecn, flows, target_us"),
        (["--port", "1", "--profile", "none"], 2, "--profile none: no such profile; must be one of coupled, paper"),
        (["--port", "1", "--profile", "tund"], 2, "--profile tund: no such profile; did you mean tuned?"),
        (["--port", "1", "--profile", "{bad}.none"], 2, "{bad}.none: No such file or directory"),
        (["--tls-ca", "{bad}.none"], 2, "--tls-ca {bad}.none: No such file or directory"),
        (["--port", "1", "--profile", "{bad}"], 2, "--profile {bad}: [port]: a profile has no tables"),
        (["--tls-cert", "x"], 2, "--tls-cert and --tls-key must be given together"),
        (["--port", "512", "--set", "target_us=3"], 1, f"device {NOBODY}: port '512': must be a number, 0 .. 509"),
        ([], 1, f"device {NOBODY}: cannot read its gains: no connection to {NOBODY} (without TLS) within 0.2 s: no P4"),
    ],
)
def test_gains_that_cannot_be_set_ask_no_switch(
    words: list[str], status: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text("[port.1]\n")
    words = [word.format(bad=bad) for word in words]
    assert weir("gains", "--p4", NOBODY, *words, "--connect-timeout-s", "0.2") == status
    out, error = capsys.readouterr()
    assert error.startswith(f"weir gains: error: {message.format(bad=bad)}")
    assert not out
    assert len(error.splitlines()) == 1


def test_gains_on_the_command_line() -> None:
    def new(*words: str, present: PortLaw) -> PortLaw:
        return present.with_changes(key_values(words, (*present.own, *vars(present.gains))))

    tuned = PortLaw(profile("tuned"))
    assert new("kp=2.5", "integral=drop", "digest_interval_us=0", present=tuned) == PortLaw(
        replace(tuned.gains, kp=2.5, integral="drop"), digest_interval_us=0
    )
    assert PortLaw(profile(str(PROFILES / "paper.toml"))).gains.probability == "linear"
    for word, message in [
        ("delay_source=x", "delay_source = 'x': must be one of sojourn, rate, flows"),
        ("digest_interval_us=-1", "digest_interval_us = -1: must be a whole number"),
        ("kp=fast", "kp = 'fast': must be a number per second"),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)) as caught:
            new(word, present=tuned)
        assert isinstance(caught.value, GainError) == word.startswith("kp")
    with pytest.raises(SettingsError, match="no such key; did you mean kd"):
        new("kdd=2", present=tuned)


def test_gains_say_where_they_come_from() -> None:
    tuned = profile("tuned")
    assert origin(tuned) == "tuned"
    assert origin(type(tuned).from_params(tuned.to_params())) == "tuned"  # as a data plane gives them back
    assert origin(replace(tuned, target_us=5000, kp=24.5)) == "tuned but target_us=5000 kp=24.5"
    assert origin(replace(profile("paper"), kd=0.25)) == "paper but kd=0.25"
    data = as_data("s1", "2", PortSettings(replace(tuned, kp=24.5), PortLaw(tuned).own))
    assert (data["profile"], data["differs"], data["gains"]["kp"]) == ("tuned", {"kp": 24.5}, 24.5)
    assert (data["delay_source"], data["digest_interval_us"]) == ("sojourn", 100_000)


def test_the_names_before_0_6_are_gone(capsys: pytest.CaptureFixture[str]) -> None:
    assert weir("switch", "show") == 2
    assert "p4" in capsys.readouterr().err


def test_digests_for_people_and_for_programs() -> None:
    found = DigestList(PID_DELAY.digest, 7, 99, [RECORD])
    line = cli.describe_record(found.digest, RECORD)
    assert "1.500000 s  port   2  delay    5.250 ms  U 0.250000  backlog     3000 B  row 2" in line
    assert "AQM drops 4  marks 5  tail drops 3" in line
    assert digests.as_data(found) == [{"digest": PID_DELAY.digest, "list_id": 7, "device_time_ns": 99} | RECORD]
    assert cli.describe_record("other", (1, 2)) == "other: (1, 2)"
    with pytest.raises(P4RuntimeError, match="not this program's: 'now_us' is missing"):
        cli.describe_record(PID_DELAY.digest, {"port": 2})


def test_whose_program_it_is() -> None:
    assert kind_of_config(b"") is None
    assert kind_of_config(b'\n { "program": 1 }') == "bmv2"
    assert kind_of_config(b"weir-package.json\0") == "embedded"
    assert kind_of_config(b"#include <core.p4>") == "embedded"


def test_the_module_is_a_command() -> None:
    command = [sys.executable, "-m", "weir.cli", "p4", "show", "--address", NOBODY, "--connect-timeout-s", "0.2"]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"weir p4 show: error: no connection to {NOBODY} (without TLS) within 0.2 s: no P4Runtime server answers"
    )
