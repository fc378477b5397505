# SPDX-License-Identifier: Apache-2.0
"""What each server does with a client that moves: build/peers/servers.json, a table made by observation.

Connection IDs and permission are what the client saw. What becomes of the congestion window is read in the server's
own qlog: answers on one path, on another, and on the first again, over loopback, where nothing is lost.
"""

import datetime
import json

import pytest
import quic_rig
from test_paths import LOCAL, MANY, on, oracle, run

TURN = 8
SIZE = 150_000
TABLE = quic_rig.PEERS / "servers.json"


def windows(text: str) -> list[tuple[float, int]]:
    """Congestion windows of a qlog file, with the time of day in ms."""
    if text.startswith("{") and '"traces"' in text[:100]:
        documents = [event for trace in json.loads(text)["traces"] for event in trace["events"]]
        start = 0.0
    else:
        documents = [json.loads(part) for part in text.replace("\x1e", "").splitlines() if part.strip()]
        began = documents[0]["trace"]["common_fields"]["reference_time"]["wall_clock_time"]
        began = began[:26].rstrip("Z") + "+00:00"  # Python knows no nanoseconds
        start = datetime.datetime.fromisoformat(began).timestamp() * 1000
    found = []
    for event in documents:
        if event.get("name", "").endswith("metrics_updated"):
            window = event["data"].get("congestion_window", event["data"].get("cwnd"))
            if window is not None:
                found.append((start + event["time"], window))
    return found


def congestion(qlogs: list[str], tasks: list[dict]) -> tuple[str, list[int]]:
    """What became of the window, and the windows it is told from: the largest on the first path, then the least on
    the second and the least back on the first."""
    day_ms = quic_rig.time.time() * 1000 - quic_rig.time.monotonic_ns() / 1e6
    begun = day_ms + tasks[0]["start_us"] / 1000
    seen = [(t, w) for qlog in qlogs for t, w in windows(qlog) if t >= begun]

    def during(first: int, last: int) -> list[int]:
        # up to the next one's start: the server hears of an answer's arrival after the client has it
        begin, end = tasks[first]["start_us"], tasks[last + 1]["start_us"]
        known = [(t, w) for t, w in seen if t <= day_ms + end / 1000]
        # it is only told when it changes
        return [w for t, w in known if t >= day_ms + begin / 1000] or [known[-1][1]]

    before = max(during(1, TURN - 1))
    there, back = min(during(TURN, 2 * TURN - 1)), min(during(2 * TURN, 3 * TURN - 2))
    kept = "begins anew" if there < before / 2 else "kept"
    if kept == "begins anew" and back > before / 2:
        kept = "one for each path"
    return kept, [before, there, back]


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
        row["congestion_window"], row["windows_bytes"] = congestion(qlog(), tasks)
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
    # weir-server's is in the table alone: a window of its own that grew quickly can't be told from one that was kept.
    assert told["quic-go"] == "begins anew", table
    assert told["aioquic"] == "kept", table
