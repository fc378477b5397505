# SPDX-License-Identifier: Apache-2.0
"""QUIC stacks of others as senders: the row of `mininet/peers/servers.toml`, or of a file, that a scenario names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from weirlab.lab.quic_servers import Server, ServersError, server
from weirlab.scenario.model import Run

if TYPE_CHECKING:
    from weirlab.scenario.checker import Checker

SERVER = "server"
"""Key of a flow's spec that holds its stack's row in place of a name."""


def row_of(checker: Checker, stack: str, cc: str, key: str) -> dict[str, Any] | None:
    """The row of a stack with one of its congestion controls, which a spec holds: so a run is known by the command line
    itself. `stack` is a name in the table, or a file from the scenario's folder that ends in .toml. None after a
    mistake, which the checker gets as the one at `key`."""
    name = str(checker.path.parent / stack) if stack.endswith(".toml") else stack
    try:
        return server(name).spec(cc)
    except (ServersError, OSError) as error:
        checker.problem(key, str(error))
        return None


def setup_steps(runs: Iterable[Run]) -> list[str]:
    """Steps of setup/install.sh that build the runs' servers of other stacks."""
    return sorted({server.built_by for run in runs for server in servers_of(run.spec) if server.built_by})


def servers_of(spec: Mapping[str, Any]) -> list[Server]:
    """Servers of other stacks in a run, each program once."""
    rows = [Server.of_spec(flow[SERVER]) for flow in spec.get("flows", ()) if SERVER in flow]
    return list({row.program: row for row in rows}.values())
