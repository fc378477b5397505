# SPDX-License-Identifier: Apache-2.0
"""A scenario file that passes the check is accepted by tc, the lab's kernel and our programs: tried there, at the ends
of each range that the schema allows and at places between."""

import random
import re
import subprocess
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest

from weirlab import paths
from weirlab.lab.kernel_config import CONGESTION_CONTROLS, QDISCS, SOME_QDISCS
from weirlab.lab.kernels import Job
from weirlab.lab.shaping import netem, shaped, shaped_rate
from weirlab.run.scenarios import load_scenario
from weirlab.scenario.errors import ScenarioError
from weirlab.scenario.sections import Section
from weirlab.topologies.access import schema as access
from weirlab.topologies.access.drive import client_command
from weirlab.topologies.access.network import access_delays, access_rate
from weirlab.topologies.dumbbell.network import Link as WireLink
from weirlab.topologies.dumbbell.network import longer
from weirlab.topologies.dumbbell.queues.red import red_refusal
from weirlab.topologies.dumbbell.queues.sections import DISCIPLINES
from weirlab.topologies.dumbbell.queues.tc import queue_under_test
from weirlab.topologies.dumbbell.schema import Link, QuicFlow

REPO = paths.clone()

RATES = (0.001, 0.5, 10, 1e5)
# A switch has its own; `args` is not checked; dualpi2, which is not in every kernel, is tried in test_lab_kernel.py.
QUEUES = [name for name in DISCIPLINES if name not in ("p4", "args", "dualpi2")]


def values(annotation: Any, draw: random.Random) -> list[Any]:
    """The ends of what a field may be, and two places between."""
    if get_origin(annotation) is Annotated:
        kind, info = get_args(annotation)
        if get_origin(kind) is list:
            return [values(get_args(kind)[0], draw)]
        bounds = {type(each).__name__: getattr(each, type(each).__name__.lower()) for each in info.metadata}
        if kind in (int, float) and bounds:
            least = bounds.get("Ge", bounds.get("Gt"))
            most = bounds.get("Le", bounds.get("Lt", least + 1))
            if "Gt" in bounds:
                least = most * 1e-6
            if "Lt" in bounds:
                most = most - 1 if kind is int else most * (1 - 1e-6)
            floor = max(least, most * 1e-9)
            between = [floor * (most / floor) ** draw.random() for _ in range(2)]
            return [kind(each) for each in (least, *between, most)]
        return values(kind, draw)
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    if annotation is bool:
        return [False, True]
    if get_origin(annotation) in (Union, type(int | None)):
        return [each for part in get_args(annotation) if part is not type(None) for each in values(part, draw)]
    return []


def extremes(model: type[Section], rounds: int, fixed: dict[str, Any], seed: int = 1) -> list[dict[str, Any]]:
    """Tables of a section: each field once at each of its values, the others at their defaults; then all at random."""
    draw = random.Random(f"{model.__name__} {seed}")
    choices = {}
    for name, field in model.model_fields.items():
        whole = Annotated[field.annotation, field] if field.metadata else field.annotation
        if name not in fixed and (found := values(whole, draw)):
            choices[name] = found
    tables = [{name: value} for name, found in choices.items() for value in found]
    tables += [{name: draw.choice(found) for name, found in choices.items()} for _ in range(rounds)]
    return [{**fixed, **table} for table in tables]


def checked(model: type[Section], tables: list[dict[str, Any]]) -> list[Section]:
    """Those that the schema takes."""
    found = []
    for table in tables:
        try:
            found.append(model.model_validate(table))
        except ValueError:
            continue
    assert len(found) > len(tables) / 4
    return found


def queue_texts() -> list[str]:
    found = set()
    for name in QUEUES:
        model = DISCIPLINES[name]
        if name == "weir":
            found |= {queue_under_test({"qdisc": "weir"}, limit, 10) for limit in (1, 1_000_000)}
            continue
        fixed = {"qdisc": name}
        thresholds = ({"min_bytes": 15000, "max_bytes": 45000}, {"min_ms": 5.0, "max_ms": 15.0})
        for more in thresholds if name == "red" else ({},):
            for section in checked(model, extremes(model, 30 if name == "red" else 12, {**fixed, **more})):
                aqm = section.model_dump(exclude_none=True)
                for rate in RATES:
                    if name != "red" or red_refusal(aqm, rate) is None:
                        found |= {queue_under_test(aqm, limit, rate) for limit in (1, 1_000_000)}
    return sorted(found)


def random_red(count: int) -> list[tuple[dict[str, Any], float]]:
    """RED anywhere in its ranges: what `red_refusal` says of it must be what tc and the kernel say."""
    draw = random.Random(7)

    def log(least, most):
        return int(least * (most / least) ** draw.random())

    found = []
    for _ in range(count):
        least = log(1, 1 << 22)
        aqm = {"qdisc": "red", "min_bytes": least, "max_bytes": log(least + 1, least * 10 + 2), "ecn": False}
        aqm |= {
            "avpkt_bytes": log(max(1, least // 60), min(least, 65535) + 2),
            "probability": 10 ** draw.uniform(-9, 0),
            "adaptive": False,
        }
        if draw.random() < 0.5:
            aqm["burst_packets"] = log(1, 1_000_000)
        if aqm["max_bytes"] > least:
            found.append((aqm, 10 ** draw.uniform(-1, 4.5)))
    return found


MARK = "mark"
SETUP = "ip link add v type veth peer name w; ip link set v up; ip link set w up"


@pytest.fixture
def refused(exact, tmp_path):
    """Gives tc some lines in one go and returns those that it rejected or warned of, with its text."""

    def run(lines: list[str], before: tuple[str, ...] = ()) -> dict[str, str]:
        every = [line.format(dev="v") for line in (*before, *lines)]
        # After each a line that fails: output up to there is of that one, though it be a mere warning.
        (tmp_path / "lines").write_text("".join(f"{line}\n{MARK}\n" for line in every))
        script = f"{SETUP}; tc -force -batch /run/out/lines; true"
        result = exact.run(Job(["sh", "-c", script], tmp_path, wall_limit_s=300))
        assert result.status == 0, result.stderr.decode()
        parts = re.split(rf'Object "{MARK}".*\nCommand failed .*\n', result.stderr.decode())
        assert len(parts) == len(every) + 1
        return {line: " ".join(said.split()) for line, said in zip(every, parts, strict=False) if said.strip()}

    return run


HTB, CLASS, PFIFO = shaped(10, "pfifo limit 9")
TAKE_AWAY = "qdisc del dev v parent 1:1"


@pytest.fixture
def refused_queues(refused):
    """`refused` for queues as they stand under the bottleneck's htb, each by itself."""

    def run(texts: list[str]) -> dict[str, str]:
        lines = {f"qdisc add dev v parent 1:1 handle 10: {text}": text for text in texts}
        found = refused([each for line in lines for each in (line, TAKE_AWAY)], (HTB, CLASS))
        return {lines.get(line, line): said for line, said in found.items() if line != TAKE_AWAY}

    return run


def test_the_kernel_takes_every_queue_that_passes_the_check(refused_queues):
    texts = queue_texts()
    assert len(texts) > 300
    assert refused_queues(texts) == {}


def test_what_is_said_of_red_is_what_tc_says(refused_queues):
    said = {queue_under_test(aqm, 1000, rate): red_refusal(aqm, rate) for aqm, rate in random_red(600)}
    assert 20 < sum(refusal is None for refusal in said.values()) < len(said) - 20
    found = refused_queues(list(said))
    assert {
        line: (refusal, found.get(line)) for line, refusal in said.items() if (refusal is None) == (line in found)
    } == {}


def test_the_kernel_takes_every_link_that_passes_the_check(refused):
    texts = []
    for link in checked(Link, extremes(Link, 20, {"rate_mbit_s": 10.0})):
        for extra in (0, 1e5 / 2):
            far = longer(WireLink(**link.model_dump()), extra)
            texts.append(netem(far.delay_ms, far.rate_mbit_s, far.loss_percent, far.queue_limit_packets))
        texts += [
            shaped(link.rate_mbit_s, "pfifo limit 5"),
            [HTB, CLASS, PFIFO, shaped_rate("change", link.rate_mbit_s)],
        ]
    for path in checked(access.Path, extremes(access.Path, 20, {"name": "wan1", "rate_mbit_s": 10.0, "rtt_ms": 10.0})):
        state = _State(path)
        texts += [[access_rate("add", state)], *([way] for way in access_delays("add", state))]
    assert len(texts) > 60
    assert refused([line for text in texts for line in (*text, "qdisc del dev v root")]) == {}


class _State:
    """As `weirlab.topologies.access.schedule.State`, from a path as the check leaves it."""

    def __init__(self, path):
        self.rtt_ms, self.jitter_ms, self.link = path.rtt_ms, path.rtt_sd_ms, "up"
        self.rate_mbit_s, self.queue_limit_packets = path.rate_mbit_s, path.queue_limit_packets
        self.loss_percent, self.loss_up_percent = path.loss_percent, path.loss_up_percent


CHOOSE = """
import socket
for name in {names!r}:
    with socket.socket() as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
print(open("/proc/sys/net/ipv4/tcp_available_congestion_control").read())
"""


def test_the_kernel_has_the_congestion_controls_that_the_check_names(exact, tmp_path):
    result = exact.run(Job(["python", "-c", CHOOSE.format(names=CONGESTION_CONTROLS)], tmp_path, wall_limit_s=60))
    assert result.status == 0, result.stderr.decode()
    assert set(result.stdout.decode().split()) == set(CONGESTION_CONTROLS)
    assert {"cubic", "reno", "bbr", "vegas"} <= set(CONGESTION_CONTROLS)


def test_the_kernel_is_configured_with_the_queues_that_the_check_names():
    assert set(DISCIPLINES) - {"weir", "p4", "args"} <= {*QDISCS, *SOME_QDISCS}


def program(name):
    path = REPO / "build" / "bin" / name
    if not path.exists():
        pytest.skip(f"{name} is not built; ./run test builds it")
    return path


def refusal(words):
    """A program's first complaint. The last word is one that no program has: it complains of that, or of one before."""
    done = subprocess.run([*words, "--no-such-option"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    return done.stderr


@pytest.mark.parametrize("model", [QuicFlow, access.Server])
def test_our_programs_know_the_congestion_controls_that_the_check_names(model):
    for name in get_args(model.model_fields["cc"].annotation):
        for words in ([program("weir-server")], [program("weir-client"), "https://127.0.0.1/"]):
            assert "'--no-such-option'" in refusal([*words, "--cc", name])


ACCESS = """
[scenario]
name = "small"
title = "small"
topology = "access"
duration_s = 86400
[[paths]]
name = "wan1"
rate_mbit_s = 10
rtt_ms = 10
[server]
{server}
[client]
{client}
[variants.one]
strategy = "weir"
"""


def toml(table):
    words = {True: "true", False: "false"}
    lines = [f'{k} = "{v}"' if isinstance(v, str) else f"{k} = {words.get(v, v) if isinstance(v, bool) else repr(v)}"
             for k, v in table.items()]  # fmt: skip
    return "\n".join(lines)


def test_our_client_takes_every_word_that_passes_the_check(tmp_path):
    client, tried = program("weir-client"), 0
    more = [{"bytes": 1, "interval_ms": each} for each in (1.0, 20.0, 86_000_000.0, 0.5)]
    more.append({"sizes_bytes": [1, 5_000, 10**12], "per_byte": True})
    for table in [*extremes(access.Client, 30, {"bytes": 5000, "interval_ms": 0.0}), *more]:
        path = tmp_path / "small.toml"
        path.write_text(
            ACCESS.format(client=toml({**table, "requests": min(table.get("requests", 1), 1000)}), server="")
        )
        try:
            [run] = load_scenario(path).runs(seeds=1)
        except ScenarioError:
            continue
        tried += 1
        words = client_command(run.spec, 7, tmp_path)
        said = refusal([client, *words[1:]])
        assert "'--no-such-option'" in said, (table, said)
    assert tried > 30


def test_our_server_takes_every_word_that_passes_the_check():
    for packets in (1, 10_000):
        access.Server(initial_window_packets=packets)
        words = ["--initial-window-packets", str(packets)]
        assert "'--no-such-option'" in refusal([program("weir-server"), *words])
