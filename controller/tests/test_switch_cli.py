# SPDX-License-Identifier: Apache-2.0
"""The `weir` command, as far as it goes without a switch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from weir.p4runtime.client import DigestList
from weir.p4runtime.values import P4RuntimeError
from weir.switch import cli, config, program, show
from weir.switch.deploy import kind_of_config

NOBODY = "unix:/nonexistent/weir"
RECORD = {
    "port": 2, "now_us": 1_500_000, "delay_us": 5250, "u_q40": 2**38, "backlog_bytes": 3000, "dq_time_q8_us": 0,
    "row": 2, "enqueued_packets": 9, "enqueued_bytes": 900, "tail_dropped_packets": 3, "tail_dropped_bytes": 300,
    "aqm_dropped_packets": 4, "aqm_marked_packets": 5,
}  # fmt: skip


def call(*words: str) -> int:
    return cli.main(list(words))


@pytest.mark.parametrize("command", ["deploy", "show", "gains", "watch"])
def test_help_teaches_by_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        call(command, "--help")
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert f"  weir switch {command}" in text
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
        (["gains", "--port", "512"], "512: must be 0 .. 509"),
        (["show", "--address", "nonsense"], "argument --address: 'nonsense': must be HOST:PORT"),
        (["show", "--address", "http://127.0.0.1:9559"], "'http://127.0.0.1:9559': must be HOST:PORT"),
        (["watch", "--seconds", "0"], "0: must be above 0"),
        (["watch", "--seconds", "soon"], "'soon': must be a number of seconds"),
        ([], "required: command"),
    ],
)
def test_a_wrong_call_ends_with_2(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        call(*words)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["deploy", "--config", "{good}"], f"weir: no connection to {NOBODY} (without TLS) within 0.2 s: no P4Runtime"),
        (["deploy", "--config", "{bad}"], "bad.toml:1: port: unknown; did you mean ports?"),
        (["deploy", "--config", "{good}.none"], "weir: {good}.none: No such file or directory"),
        (["deploy", "--config", "{empty}"], "weir: {empty}: has no [neighbours.NAME] and no [flood]: the switch would"),
        (["deploy", "--config", "{empty}", "--empty"], f"weir: no connection to {NOBODY}"),
        (["show", "--tls-ca", "{good}.none"], "TLS: cannot read the CA"),
        (["gains", "--port", "1", "--profile", "{bad}"], "weir: {bad}: [port]: a profile has no tables"),
    ],
)
def test_what_is_wrong_is_one_line_and_ends_with_1(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad, empty = (tmp_path / f"{name}.toml" for name in ("good", "bad", "empty"))
    good.write_text("[flood]\nports = [1, 2]\n")
    bad.write_text("[port.1]\n")
    empty.write_text("")
    words = [word.format(good=good, bad=bad, empty=empty) for word in words]
    assert call(*words, "--address", NOBODY, "--connect-timeout-s", "0.2") == 1
    out, error = capsys.readouterr()
    assert message.format(good=good, bad=bad, empty=empty) in error
    assert not out
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["deploy", "--config", "none", "--p4info", "x"], "--p4info and --device-config must be given together"),
        (["show", "--tls-cert", "x"], "--tls-cert and --tls-key must be given together"),
        (["gains", "--set", "kp=3"], "--port must say which port to set"),
        (["gains", "--port", "1", "--set", "kpp=1"], "--set kpp=1: must be KEY=VALUE, KEY one of target_us"),
        (["gains", "--port", "1", "--profile", "none"], "--profile none: no such profile; must be one of paper, tuned"),
    ],
)
def test_options_that_mean_nothing_together_end_with_2_and_ask_no_switch(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*words, "--address", NOBODY, "--connect-timeout-s", "0.2") == 2
    out, error = capsys.readouterr()
    assert error.startswith(f"weir: {message}")
    assert not out
    assert len(error.splitlines()) == 1


def test_gains_on_the_command_line() -> None:
    def new(*words: str, present: object = None):
        args = cli.parser().parse_args(["gains", "--port", "1", *words])
        return cli._new_aqm(args.port, cli._profile(args), cli._changes(args.set), present)

    tuned = new("--profile", "tuned")
    assert new(
        "--set", "kp=2.5", "--set", "integral=drop", "--set", "digest_interval_us=0", present=tuned
    ) == cli.replace(tuned, gains=cli.replace(tuned.gains, kp=2.5, integral="drop"), digest_interval_us=0)
    assert new("--profile", str(config.PROFILES / "paper.toml")).gains.probability == "linear"
    for words, message in [
        (["--set", "kp=2"], "port 1 has no gains to change; give --profile too"),
        (["--profile", "none"], "no such profile; must be one of paper, tuned or a path"),
        (["--profile", "tuned", "--set", "kq=2"], "--set kq=2: must be KEY=VALUE, KEY one of target_us"),
        (["--profile", "tuned", "--set", "delay_source=x"], "delay_source = 'x': must be one of sojourn, rate"),
        (["--profile", "tuned", "--set", "digest_interval_us=-1"], "digest_interval_us = -1: must be a whole number"),
        (["--profile", "tuned", "--set", "kp=fast"], "kp = 'fast': must be a number per second"),
    ]:
        with pytest.raises(P4RuntimeError) as caught:
            new(*words)
        assert message in str(caught.value)
        assert isinstance(caught.value, cli.WrongCall) == ("give --profile too" not in message)


def test_digests_for_people_and_for_programs() -> None:
    digests = DigestList(show.AQM_DIGEST, 7, 99, [RECORD])
    (line,) = show.digest_line(digests)
    assert "1.500000 s  port   2  delay    5.250 ms  U 0.250000  backlog     3000 B  row 2" in line
    assert "AQM drops 4  marks 5  tail drops 3" in line
    assert show.digest_data(digests) == [{"digest": show.AQM_DIGEST, "list_id": 7, "device_time_ns": 99} | RECORD]
    assert show.digest_line(DigestList("other", 1, 2, [(1, 2)])) == ["other: (1, 2)"]
    with pytest.raises(P4RuntimeError, match="not this program's: 'now_us' is missing"):
        show.digest_line(DigestList(show.AQM_DIGEST, 7, 99, [{"port": 2}]))


def test_whose_program_it_is() -> None:
    assert kind_of_config(b"") is None
    assert kind_of_config(b'\n { "program": 1 }') == "bmv2"
    assert kind_of_config(b"weir-package.json\0") == "embedded"
    assert kind_of_config(b"#include <core.p4>") == "embedded"


def test_the_module_is_a_command() -> None:
    environment = os.environ | {"PYTHONPATH": str(program.REPOSITORY / "controller")}
    command = [sys.executable, "-m", "weir.cli", "switch", "show", "--address", NOBODY, "--connect-timeout-s", "0.2"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"weir: no connection to {NOBODY} (without TLS) within 0.2 s: no P4Runtime server answers there ("
    )
