# SPDX-License-Identifier: Apache-2.0
"""P4Runtime switches of both kinds for tests: where they are, how they are started, and a file for them."""

import shutil
import socket

import pytest

from weir.switch import program

BINARIES = {"embedded": "weir-switch", "bmv2": "simple_switch_grpc"}
CONNECT_TIMEOUT_S = 30.0
CPU_PORT = "510"
CONFIG = """\
[ports.1]
mac = "02:00:00:00:01:01"
[ports.2]
mac = "02:00:00:00:01:02"
[neighbours.h1]
port = 1
mac = "02:00:00:00:00:01"
[neighbours.h2]
port = 2
mac = "02:00:00:00:00:02"
[routes]
"10.0.1.0/24" = "h1"
"10.0.2.0/24" = "h2"
"0.0.0.0/0" = "h1"
"2001:db8:2::/48" = "h2"
[flood]
ports = [1, 2]
[aqm.port.2]
profile = "tuned"
target_us = 5000
digest_interval_us = 20000
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def binary(kind: str) -> str:
    path = shutil.which(BINARIES[kind])
    if path is None:
        pytest.skip(f"{BINARIES[kind]} is neither built nor on PATH")
    if kind == "bmv2":
        try:
            program.find_compiler()
        except program.ProgramError as error:
            pytest.skip(str(error))
    return path


def command(kind: str, address: str, interfaces: list[str]) -> list[str]:
    words = [binary(kind), "--device-id", "3", "--no-p4"]
    for interface in interfaces:
        words += ["-i", interface]
    if kind == "embedded":
        return [*words, "--grpc-server-addr", address, "--cpu-port", CPU_PORT]
    return [*words, "--thrift-port", str(free_port()), "--", "--grpc-server-addr", address, "--cpu-port", CPU_PORT]
