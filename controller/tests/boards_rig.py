# SPDX-License-Identifier: Apache-2.0
"""Queries of the board and the alerts of controller/boards, and the path of a Prometheus."""

import json
import os
import re
import shutil

import pytest
import yaml
from places import CONTROLLER, REPOSITORY

BOARDS = CONTROLLER / "boards"
_UNPACKED = REPOSITORY / "build" / "prometheus" / "usr" / "bin"  # setup/install.sh, step prometheus
_INTERVAL = {"$__rate_interval": "1m"}
_VARIABLE = re.compile(r"\$(?:job|instance|device|port|dev)\b")
_LABEL_VALUES = re.compile(r"label_values\((.*), (\w+)\)")
_METRIC = re.compile(r"\b(?:up|weir_\w+|node_\w+|scrape_\w+)\b")
_COMPARISON = re.compile(r"(?<=\s)(==|>)(?=\s)")


def tool(name: str) -> str:
    """The path of prometheus, promtool or prometheus-node-exporter. Skips the test where there is none."""
    found = shutil.which(name, path=f"{_UNPACKED}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"not installed: {name}")
    return found


def board() -> dict:
    return json.loads((BOARDS / "weir.json").read_text(encoding="utf-8"))


def panels() -> list[dict]:
    """Those that show something."""
    return [panel for panel in board()["panels"] if panel["type"] != "row"]


def filled(expression: str) -> str:
    """A query of the board with `All` chosen everywhere."""
    for name, value in _INTERVAL.items():
        expression = expression.replace(name, value)
    return _VARIABLE.sub(".*", expression)


def board_queries() -> dict[str, str]:
    """By panel or variable. A variable's is the query of the series whose labels are its values."""
    found = {
        f"{panel['title']} {target['refId']}": filled(target["expr"])
        for panel in panels()
        for target in panel["targets"]
    }
    for variable in board()["templating"]["list"]:
        if variable["type"] == "query":
            series, label = _LABEL_VALUES.fullmatch(variable["query"]["query"]).groups()
            found[f"variable {variable['name']}"] = f"count by ({label}) ({filled(series)})"
    return found


def rules() -> list[dict]:
    told = yaml.safe_load((BOARDS / "rules.yml").read_text(encoding="utf-8"))
    return [rule for group in told["groups"] for rule in group["rules"]]


def alert_queries() -> dict[str, str]:
    """By alert: 1 where its condition holds, 0 where it does not, nothing where what it asks for is not there."""
    return {rule["alert"]: _COMPARISON.sub(r"\1 bool", rule["expr"]) for rule in rules()}


def metrics(expression: str) -> set[str]:
    """Names of metrics in a query."""
    return set(_METRIC.findall(expression))
