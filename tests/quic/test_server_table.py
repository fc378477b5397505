# SPDX-License-Identifier: Apache-2.0
"""Behaviour of each server with a client that moves: build/peers/servers.json, a table made by observation.

Connection IDs and permission are what the client saw. The congestion window is read in the server's own qlog, in the
order of its events: answers go out on one path, on another, and on the first again. No time is compared.
"""

import json

import pytest
import quic_rig
from test_paths import LOCAL, MANY, on, oracle, run

TURN = 8
SIZE = 150_000
TABLE = quic_rig.PEERS / "servers.json"


def connections(text: str) -> list[list[dict]]:
    """The events of each connection in a qlog file."""
    if text.startswith("{") and '"traces"' in text[:100]:
        return [trace["events"] for trace in json.loads(text)["traces"]]
    return [[json.loads(part) for part in text.replace("\x1e", "").splitlines() if part.strip()]]


def windows(events: list[dict]) -> list[tuple[int, bool]]:
    """Congestion windows of a connection in order, each with whether packets were lost since the one before."""
    found, lost = [], False
    for event in events:
        name = event.get("name", "")
        lost |= name.endswith("packet_lost")
        if name.endswith("metrics_updated"):
            window = event["data"].get("congestion_window", event["data"].get("cwnd"))
            if window is not None:
                found.append((window, lost))
                lost = False
    return found


def congestion(events: list[dict]) -> tuple[str, list[int]]:
    """Result of the window, and the windows it is read from: the first, the largest before the window went back to
    about the first without a loss, and the one after that."""
    seen = windows(events)
    first, largest = seen[0][0], 0
    for place, (window, lost) in enumerate(seen):
        if largest > 2 * first and window < 1.3 * first and not lost:
            after = [later for later, _ in seen[place + 1 :]]
            jumps = [y for x, y in zip([window, *after], after, strict=False) if y > largest / 2 > 2 * x]
            return ("one for each path" if jumps else "begins anew"), [first, largest, window]
        largest = max(largest, window)
    return "kept", [first, largest, largest]


def observed(start, qlog, authority, folder) -> dict:
    server = start(folder, authority)
    plan = oracle(folder, (0, LOCAL[0]), (TURN, LOCAL[1]), (2 * TURN, LOCAL[0]))
    windows = ["--stream-window", "16MiB", "--conn-window", "24MiB"]
    try:
        args = on(LOCAL[:2], *plan, "--requests", 3 * TURN, "--interval-ms", 30)
        moved = run(server, folder, f"/bytes/{SIZE}", *args, *windows)
        cid = run(server, folder, "/bytes/1000", *on(MANY, "--strategy", "best-single", "--requests", 1)).cid
    finally:
        server.close()
    wanted = [LOCAL[turn % 2] for turn in range(3) for _ in range(TURN)]
    tasks = moved.tasks
    assert [line["path"] for line in tasks[1:]] == wanted[1:]
    row = {"migration_allowed": cid["migration_allowed"], "accepts_ids_of_ours": cid["peer_limit"]}
    row["paths_usable_of_9"] = cid["usable"]
    if qlog and cid["migration_allowed"]:
        of_tasks = max((one for text in qlog() for one in connections(text)), key=len)
        row["congestion_window"], row["windows_bytes"] = congestion(of_tasks)
    return row


def texts(folder, pattern: str) -> list[str]:
    return [path.read_text() for path in folder.glob(pattern)]


def test_what_each_server_does(authority, tmp_path):
    table = {}

    def at(kind):
        (tmp_path / kind).mkdir()
        return tmp_path / kind

    def local(start, *extra):
        return lambda folder, authority: start(folder, authority, "127.0.0.1:0", None, *extra)

    folder = at("weir")
    start = local(quic_rig.weir, "--qlog-dir", folder)
    table["weir-server"] = observed(start, lambda: texts(tmp_path / "weir", "*.sqlog"), authority, folder)
    if not quic_rig.why_not("aioquic"):
        import aioquic

        folder = at("aioquic")
        qlog = folder / "qlog"
        start = local(quic_rig.aioquic, "--qlog", qlog)
        name = f"aioquic {aioquic.__version__}"
        table[name] = observed(start, lambda: texts(tmp_path / "aioquic", "qlog"), authority, folder)
    if not quic_rig.why_not("quic-go"):
        folder = at("quic-go")
        start = local(quic_rig.quicgo)
        name = "quic-go " + (quic_rig.HERE / "quicgo" / "go.mod").read_text().split("quic-go v")[1].split()[0]
        table[name] = observed(start, lambda: texts(tmp_path / "quic-go", "*.sqlog"), authority, folder)

    TABLE.parent.mkdir(parents=True, exist_ok=True)
    TABLE.write_text(json.dumps(table, indent=2) + "\n")
    if len(table) < 3:
        pytest.skip(f"only {', '.join(table)} to be observed here")
    assert all(row["migration_allowed"] and row["paths_usable_of_9"] >= 3 for row in table.values()), table
    told = {name.split()[0]: row["congestion_window"] for name, row in table.items()}
    # weir-server's is in the table alone: a window of its own that grew quickly can't be distinguished from one that
    # was kept.
    assert told["quic-go"] == "begins anew", table
    assert told["aioquic"] == "kept", table
