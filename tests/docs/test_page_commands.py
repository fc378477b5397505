# SPDX-License-Identifier: Apache-2.0
"""Commands of docs/use and of the READMEs: each runs as it stands on its page, or says by a marker why it does not; and
the options of all are those of the programs."""

import os
import re
import subprocess

import page_commands as commands
import page_programs as programs
import pytest
from page_stages import HOSTS, Stage

RUN = sorted({block.page for block in commands.blocks() if block.marker and block.marker["host"]})


def test_every_command_runs_or_has_a_reason():
    without = [block.place for block in commands.blocks() if block.marker is None]
    assert not without, "give a marker (tests/docs/page_commands.py) to the commands of these places"


def test_markers_name_what_is_there():
    for block in commands.blocks():
        marker = block.marker
        assert marker, block.place
        assert marker["reason"] is None or marker["reason"] in commands.REASONS, block.place
        assert marker["host"] is None or marker["host"] in HOSTS, block.place
        assert marker["test"] is None or (commands.REPO / marker["test"]).is_file(), block.place


def test_a_command_without_a_marker_is_found():
    page = "a\n\n```\n./run experiment x\n```\n\n    weir-xdp status eth0\n\n<!-- not run: lab -->\n```sh\ntrue\n```\n"
    assert [block.marker is None for block in commands.blocks_of("page", page)] == [True, True, False]


def test_each_program_is_known():
    """A program of nobody's is no command that a test has seen."""
    unknown = {}
    for block in commands.blocks():
        for statement in block.statements():
            first = next(commands.simple_commands(statement), None)
            if (
                first
                and first[0] not in {*commands.OURS, *commands.OTHERS}
                and not re.match(r"^(table_|mc_|set_)", first[0])
            ):
                unknown[block.place] = first[0]
    assert not unknown


def test_options_are_those_of_the_programs():
    if not programs.built():
        pytest.skip("programs are not built; ./run test builds them")
    faults = []
    for block in commands.blocks():
        whole = block.marker is not None and block.marker["reason"] != "form"
        for statement in block.statements():
            for words in commands.simple_commands(statement):
                if found := programs.fault(words, whole):
                    faults.append(f"{block.place}: {' '.join(words)}: {found}")
    assert not faults


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("./run aqm attach eth0 --rate 9mbit", False),
        ("./run aqm attach eth0 --rtae 9mbit", True),
        ("./run experiment voice-game --seeds 3", False),
        ("./run experiment voice-gmae --seeds 3", True),
        ("weir p4 deploy --config FILE", False),
        ("weir p4 deploy --confg FILE", True),
        ("./run nothing", True),
    ],
)
def test_a_wrong_option_is_found(words, wrong):
    if not programs.built():
        pytest.skip("programs are not built; ./run test builds them")
    assert bool(programs.fault(words.split(), whole=True)) == wrong


@pytest.mark.parametrize("page", RUN)
def test_the_commands_of_a_page_run_in_its_order(page, tmp_path):
    if os.geteuid() or subprocess.run(["unshare", "-nm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs root, for network namespaces")
    if not programs.built():
        pytest.skip("programs are not built; ./run test builds them")
    with Stage(tmp_path) as stage:
        for block in commands.blocks_of(page, (commands.REPO / page).read_text("utf-8")):
            if block.marker and block.marker["host"]:
                for statement in block.statements():
                    stage.run(block.marker["host"], statement)
