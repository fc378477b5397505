# SPDX-License-Identifier: Apache-2.0
"""Several paths to servers of others: migration where it is allowed, none where it is not, and no byte lost."""

import json
from dataclasses import dataclass

import pytest
import quic_rig
from quic_rig import PATHS, Holder, Server, client
from roads import BREAKS, break_road, route, two_roads

TASKS = 24
SIZE = 5000
LOCAL = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]


def on(paths: list[str], *more: object) -> list[object]:
    """Options for these paths."""
    return [word for path in paths for word in ("--path", path)] + list(more)


@dataclass
class Seen:
    """Client's report and its --events."""

    report: dict
    lines: list[dict]

    def kind(self, name: str) -> list[dict]:
        return [line for line in self.lines if line["k"] == name]

    @property
    def tasks(self) -> list[dict]:
        return sorted(self.kind("task"), key=lambda line: line["task"])

    def paths(self, event: str) -> list[str]:
        """The paths to which this happened, in order."""
        return [line["path"] for line in self.kind("path") if line["event"] == event]

    @property
    def late(self) -> list[dict]:
        """Tasks that began when all paths were validated, for which a busy machine takes longer."""
        validated_us: dict[str, int] = {}
        for line in self.kind("path"):
            if line["event"] == "validated":
                validated_us.setdefault(line["path"], line["t_us"])
        return [line for line in self.tasks if line["start_us"] > max(validated_us.values())]

    @property
    def cid(self) -> dict:
        found = self.kind("cid")
        assert len(found) == 1, found
        return found[0]

    def whole(self, tasks: int, size: int) -> "Seen":
        """Every task is there, once, and complete."""
        assert [line["task"] for line in self.tasks] == list(range(tasks))
        assert {(line["outcome"], line["bytes"]) for line in self.tasks} == {("complete", size)}
        assert self.report["total"]["bytes"] == tasks * size
        return self


def run(server: Server, tmp_path, path: str, *args: object, where: Holder | None = None) -> Seen:
    """A client to whom nothing happens."""
    events = tmp_path / "events"
    args = [*args, "--events", events, "--idle-timeout-ms", 8000]
    ended = client(server.url(path), *server.trust, "--json", *args, where=where or server.where)
    return Seen(ended.good(), quic_rig.lines(events))


def polled(server: Server, tmp_path, paths: list[str], *more: object) -> Seen:
    """Tasks on each path in turn, once all paths had time to be validated."""
    args = on(paths, "--strategy", "polling", "--requests", TASKS, "--interval-ms", 50, "--seed", 1, *more)
    return run(server, tmp_path, f"/bytes/{SIZE}", *args).whole(TASKS, SIZE)


@pytest.mark.parametrize("alpn", ["h3", "hq-interop"])
@pytest.mark.parametrize("kind", ["weir", "aioquic", "quic-go", "quiche-server that allows it"])
def test_tasks_go_over_every_path(servers, tmp_path, kind, alpn):
    seen = polled(servers(kind), tmp_path, LOCAL, "--alpn", alpn)
    assert seen.cid["migration_allowed"]
    assert seen.cid["usable"] == 3
    assert set(seen.paths("validated")) >= set(LOCAL) - {seen.tasks[0]["path"]}
    assert {line["path"] for line in seen.late} == set(LOCAL)
    # validated beforehand: none of them waited for it
    assert all(line["switched"] and not line["cold"] for line in seen.late)


@pytest.mark.parametrize("kind", ["weir", "aioquic", "quic-go", "quiche-server that allows it"])
def test_cold_paths_are_probed_at_each_switch(servers, tmp_path, kind):
    seen = polled(servers(kind), tmp_path, LOCAL, "--standby", "cold")
    assert {line["path"] for line in seen.tasks} == set(LOCAL)
    moved = [line for line in seen.tasks if line["switched"]]
    assert moved
    assert all(line["cold"] for line in moved)


@pytest.mark.parametrize(
    "kind", ["weir that forbids it", "quiche example (h3)", "quiche example (hq-interop)", "quiche-server"]
)
def test_a_server_that_forbids_migration_is_respected(servers, tmp_path, kind):
    server = servers(kind)
    seen = polled(server, tmp_path, LOCAL, "--alpn", server.alpns[0])
    assert not seen.cid["migration_allowed"]
    assert seen.cid["usable"] == 1
    assert len({line["path"] for line in seen.tasks}) == 1
    assert seen.paths("switched") == seen.paths("validated") == seen.paths("probing") == []


MANY = [f"127.0.0.{n}" for n in range(1, 10)]


@pytest.mark.parametrize("kind", ["weir of three ids", "quic-go", "quiche-server of two ids"])
def test_more_paths_than_connection_ids(servers, tmp_path, kind):
    """As many paths are used as the server gives connection IDs for; the rest is left alone, and said."""
    seen = polled(servers(kind), tmp_path, MANY)
    assert seen.cid["migration_allowed"]
    assert seen.cid["wanted"] == len(MANY)
    assert 1 < seen.cid["usable"] < len(MANY)
    assert len({line["path"] for line in seen.tasks}) <= seen.cid["usable"]


def test_eight_paths_where_they_are_to_be_had(servers, tmp_path):
    seen = polled(servers("aioquic"), tmp_path, MANY[:8])
    assert seen.cid["usable"] == 8
    assert len({line["path"] for line in seen.tasks}) > 1


STRATEGIES = ["weir", "ops", "pps", "epsilon-greedy", "polling", "best-single"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy(servers, tmp_path, strategy):
    args = on(LOCAL, "--strategy", strategy, "--requests", TASKS, "--interval-ms", 5)
    seen = run(servers("aioquic"), tmp_path, f"/bytes/{SIZE}", *args).whole(TASKS, SIZE)
    choices = seen.kind("choice")
    assert [line["path"] for line in sorted(choices, key=lambda line: line["task"])] == [
        line["path"] for line in seen.tasks
    ]


def oracle(folder, *turns: tuple[int, str]) -> list[object]:
    """Options for a plan: from a task on, a path."""
    plan = folder / "plan"
    plan.write_text("".join(json.dumps({"task": task, "path": path}) + "\n" for task, path in turns))
    return ["--strategy", "oracle", "--oracle-plan", plan]


def test_an_oracle_is_obeyed(servers, tmp_path):
    order = [(0, LOCAL[0]), (10, LOCAL[2]), (15, LOCAL[1]), (20, LOCAL[0])]
    args = on(LOCAL, *oracle(tmp_path, *order), "--requests", TASKS, "--interval-ms", 50)
    seen = run(servers("aioquic"), tmp_path, f"/bytes/{SIZE}", *args).whole(TASKS, SIZE)
    wanted = [[path for start, path in order if start <= task][-1] for task in range(TASKS)]
    # the connection starts on a path drawn by chance, and the others are validated after it is up
    assert seen.late
    assert [line["path"] for line in seen.late] == [wanted[line["task"]] for line in seen.late]


def test_uploads_move_too(servers, tmp_path):
    for kind in ("weir", "aioquic"):
        if quic_rig.why_not(kind):
            continue
        args = on(LOCAL, "--strategy", "polling", "--requests", 10, "--interval-ms", 20, "--upload", "--bytes", 50_000)
        seen = run(servers(kind), tmp_path, "", *args).whole(10, 50_000)
        assert {line["path"] for line in seen.tasks} == set(LOCAL)


def test_several_connections_choose_each_for_itself(servers, tmp_path):
    args = on(LOCAL, "--strategy", "polling", "--requests", 6, "--interval-ms", 20, "--flows", 5)
    seen = run(servers("aioquic"), tmp_path, f"/bytes/{SIZE}", *args)
    assert seen.report["total"]["bytes"] == 5 * 6 * SIZE
    assert {(line["flow"], line["task"]) for line in seen.kind("task")} == {(f, t) for f in range(5) for t in range(6)}
    assert len(seen.kind("cid")) == 5


# Real interfaces


@pytest.fixture
def roads():
    """A client and a server in namespaces of their own, with two roads of 20 Mbit/s between them."""
    if reason := quic_rig.why_no_namespaces():
        pytest.skip(reason)
    with two_roads() as near:
        yield near


START = {"weir": quic_rig.weir, "aioquic": quic_rig.aioquic, "quic-go": quic_rig.quicgo}


@pytest.fixture(params=START)
def far_server(request, roads, authority, tmp_path):
    """Each server that allows migration, at the far end."""
    if reason := quic_rig.why_not(request.param):
        pytest.skip(reason)
    folder = tmp_path / "server"
    folder.mkdir()
    server = START[request.param](folder, authority, "10.9.9.1:4433", roads.far)
    yield server
    server.close()


@pytest.mark.parametrize("paths", [["p1", "p2"], ["10.1.0.2", "10.2.0.2"], ["auto"]], ids="-".join)
def test_interfaces(far_server, roads, tmp_path, paths):
    names = ["p1", "p2"] if paths == ["auto"] else paths
    plan = oracle(tmp_path, (0, names[0]), (8, names[1]))
    before = sent_bytes(roads)
    args = on(paths, *plan, "--requests", 16, "--interval-ms", 50)
    seen = run(far_server, tmp_path, f"/bytes/{SIZE}", *args, where=roads).whole(16, SIZE)
    assert seen.late[-1]["task"] >= 8
    assert [line["path"] for line in seen.late] == [names[line["task"] >= 8] for line in seen.late]
    assert all(after - start > SIZE for start, after in zip(before, sent_bytes(roads), strict=True)), "on both roads"


def sent_bytes(roads: Holder) -> list[int]:
    """Bytes that came in by each path so far."""
    return [int(roads.sh(f"cat /proc/net/dev | sed -n 's/^ *p{n}: *\\([0-9]*\\) .*/\\1/p'")) for n in (1, 2)]


LONG = 5_000_000
"""Two seconds of a road: for the test's own process to see that it has begun, and to break the road."""


@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize("upload", [False, True], ids=["download", "upload"])
def test_a_path_that_breaks_in_mid_transfer(far_server, roads, tmp_path, how, upload):
    events, stats = tmp_path / "events", tmp_path / "stats"
    what = [far_server.url(), "--upload", "--bytes", LONG] if upload else [far_server.url(f"/bytes/{LONG}")]
    process = quic_rig.start(
        *what, *far_server.trust, "--json", *on(["p1", "p2"], *oracle(tmp_path, (0, "p1"))),
        "--events", events, "--stats", stats, "--stats-every-ms", 10, "--start-at-us", soon_us(),
        "--idle-timeout-ms", 8000, where=roads,
    )  # fmt: skip
    some = LONG // 20
    quic_rig.until(lambda: stats.exists() and any(line["bytes"] > some for line in quic_rig.lines(stats)), "bytes")
    break_road(roads, how)
    seen = Seen(quic_rig.ended(process).good(), quic_rig.lines(events)).whole(1, LONG)
    assert seen.tasks[0]["path"] == "p1"
    assert seen.tasks[0].get("moved_to") == "p2"
    assert "p1" in seen.paths("lost") + seen.paths("removed")


def soon_us() -> int:
    """A moment, in microseconds, by which a connection is up and its paths are validated."""
    return quic_rig.time.monotonic_ns() // 1000 + 1_500_000


def test_an_interface_that_comes_back_is_used_again(roads, authority, tmp_path):
    server = quic_rig.weir(tmp_path, authority, "10.9.9.1:4433", roads.far)
    events = tmp_path / "events"
    args = on(["p1", "p2"], "--strategy", "polling", "--requests", 200, "--interval-ms", 40, "--events", events)
    args += ["--stats-every-ms", 20]  # written out so often
    process = quic_rig.start(server.url("/bytes/1000"), *server.trust, "--json", *args, where=roads)

    def tasks() -> list[str]:
        return [line["path"] for line in told(events, "task")]

    try:
        quic_rig.until(lambda: {"p1", "p2"} <= set(tasks()), "tasks on both")
        roads.sh("ip link set p2 down")
        quic_rig.until(lambda: tasks()[-6:] == ["p1"] * 6, "tasks on p1 alone")
        roads.sh("ip link set p2 up")
        route(roads, 2)
        done = Seen(quic_rig.ended(process).good(), quic_rig.lines(events)).whole(200, 1000)
        assert {line["path"] for line in done.tasks[-10:]} == {"p1", "p2"}
    finally:
        server.close()


@pytest.mark.parametrize("how", ["ip link set p2 down", "ip addr del 10.2.0.2/24 dev p2"], ids=["down", "no address"])
def test_an_interface_that_is_not_ready_at_the_start(roads, authority, tmp_path, how):
    """The others start without it, and it is used when it comes; alone it is an error."""
    server = quic_rig.weir(tmp_path, authority, "10.9.9.1:4433", roads.far)
    events = tmp_path / "events"
    roads.sh(how)
    try:
        client(server.url("/bytes/1"), *server.trust, *on(["p2"]), where=roads).bad(PATHS, "p2")
        args = on(["p2", "p1"], "--strategy", "polling", "--requests", 200, "--interval-ms", 30, "--events", events)
        args += ["--stats-every-ms", 20]  # written out so often
        process = quic_rig.start(server.url("/bytes/1000"), *server.trust, "--json", *args, where=roads)
        quic_rig.until(lambda: len(told(events, "task")) > 3, "tasks without it")
        roads.sh("ip addr replace 10.2.0.2/24 dev p2; ip link set p2 up")
        route(roads, 2)
        done = Seen(quic_rig.ended(process).good(), quic_rig.lines(events)).whole(200, 1000)
        assert {line["path"] for line in done.tasks[:3]} == {"p1"}
        assert {line["path"] for line in done.tasks[-10:]} == {"p1", "p2"}
    finally:
        server.close()


def told(events, kind: str = "path") -> list[dict]:
    return [line for line in quic_rig.lines(events) if line["k"] == kind] if events.exists() else []


def test_without_permission_to_bind_to_a_device(roads, authority, tmp_path):
    """Since Linux 5.7 anyone may; where it is refused there is one clear line."""
    server = quic_rig.weir(tmp_path, authority, "10.9.9.1:4433", roads.far)
    ca = tmp_path / "ca"
    ca.write_bytes(server.ca.read_bytes())
    try:
        command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"]
        command += [quic_rig.CLIENT, server.url("/bytes/10"), "--insecure", "--path", "p1", "--path", "p2"]
        process = roads.start(*command, stdout=quic_rig.subprocess.PIPE, stderr=quic_rig.subprocess.PIPE)
        done = quic_rig.ended(process)
        if done.code:
            done.bad(quic_rig.IO, "p", "permission")
    finally:
        server.close()


# Requested things that are missing


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        (["--path", "nowhere0"], ["--path nowhere0", "no such interface"]),
        (["--path", "192.0.2.77"], ["--path 192.0.2.77", "address"]),
        (["--path", "127.0.0.1", "--path", "127.0.0.1"], ["127.0.0.1", "twice"]),
        (["--path", "0.0.0.0"], ["0.0.0.0"]),
        (["--path", ""], ["--path"]),
        (["--path", "::1"], ["::1", "famil"]),
        (["--path", "auto", "--path", "127.0.0.1"], ["auto"]),
    ],
)
def test_paths_that_are_not_there(servers, options, texts):
    server = servers("weir")
    client(server.url("/bytes/1"), *server.trust, *options).bad(PATHS, *texts)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{",
        '{"task": 0}',
        '{"task": 0, "path": "x"}',
        '{"task": 5, "path": "127.0.0.1"}',
        '{"task": -1, "path": 1}',
    ],
)
def test_an_oracle_plan_that_is_none(servers, tmp_path, text):
    server, plan = servers("weir"), tmp_path / "plan"
    if text is not None:
        plan.write_text(text)
    ended = client(server.url("/bytes/1"), *server.trust, *on(LOCAL, "--strategy", "oracle", "--oracle-plan", plan))
    assert ended.code in (PATHS, quic_rig.IO), ended
    ended.bad(ended.code, str(plan))
