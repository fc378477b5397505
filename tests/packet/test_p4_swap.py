# SPDX-License-Identifier: Apache-2.0
"""A pipeline replaced while packets flow: each packet that arrives was forwarded wholly by the old or wholly by the new
configuration, and a pipeline that can't be leaves the old one alone."""

import threading
import time

import pytest
from p4_packets import ip4, routed, tagged
from p4_rig import BMV2, EMBEDDED, PROGRAM, P4Rig, basic_config

from weir.p4runtime.client import DeviceError, PipelineConfig
from weir.switch.program import for_embedded

TEXT = basic_config()
OLD = TEXT
NEW = TEXT.replace('"10.0.2.0/24" = "h2"', '"10.0.2.0/24" = "h3"').replace("[ports.3]\n", "[ports.3]\nvlan = 33\n")
"""Packets that OLD sends out untagged at port 2 leave at port 3 with a tag."""

PACKET = ip4(to=2, load=bytes(60))
TAIL = 4
SENT = bytes(PACKET)[:-TAIL]
BY_OLD = routed(PACKET, 2)[:-TAIL]
BY_NEW = routed(tagged(PACKET, 33), 3)[:-TAIL]


class Flow:
    """Numbered packets without a break from station 1, for the length of a with; `seen` is what arrived."""

    def __init__(self, switch: P4Rig):
        self.switch, self.ends, self.sent = switch, threading.Event(), 0
        self.seen: list[tuple[int, int, bytes]] = []
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self.ends.is_set():
            for _ in range(4):
                self.switch.send(1, SENT + self.sent.to_bytes(TAIL, "big"))
                self.sent += 1
            time.sleep(0.004)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()
        for port, frame in self.switch.arrivals(1):
            self._see(port, frame)

    def _see(self, port: int, frame: bytes) -> int:
        number = int.from_bytes(frame[-TAIL:], "big")
        self.seen.append((port, number, frame[:-TAIL]))
        return number

    def until_arrival(self, port: int) -> None:
        """Until a packet that is not yet on its way arrives there."""
        first = self.sent
        for n, frame in self.switch.arrivals(60):
            if self._see(n, frame) >= first and n == port:
                return
        raise AssertionError(f"nothing arrives at port {port}")


@pytest.fixture(scope="module")
def swapped(target, tmp_path_factory):
    switch = P4Rig(target, tmp_path_factory.mktemp("swap"))
    try:
        yield switch
    finally:
        switch.close()


@pytest.fixture
def running(swapped):
    swapped.set_program(PROGRAM)
    swapped.deploy(OLD)
    swapped.drain()
    return swapped


def check(flow: Flow, order: list[int]) -> None:
    """Checks that all packets came as one of the configurations has it, in the order of ports in which they ran, no
    packet twice and none overtaken."""
    whole = {2: BY_OLD, 3: BY_NEW}
    wrong = [(port, number, frame.hex()) for port, number, frame in flow.seen if whole.get(port) != frame]
    assert not wrong
    numbers = {port: [n for p, n, _ in flow.seen if p == port] for port in whole}
    for some in numbers.values():
        assert some == sorted(set(some))
    by_number = sorted((number, port) for port, number, _ in flow.seen)
    ports = [port for _, port in by_number]
    assert [port for i, port in enumerate(ports) if i == 0 or ports[i - 1] != port] == order
    assert by_number[-1][0] < flow.sent


def test_the_same_program_with_other_tables(running):
    with Flow(running) as flow:
        flow.until_arrival(2)
        for config, port in ((NEW, 3), (OLD, 2), (NEW, 3)):
            running.set_program(PROGRAM)
            running.deploy(config)
            flow.until_arrival(port)
    check(flow, [2, 3, 2, 3])


def test_other_tables_without_a_swap(running):
    """`weir p4 deploy` changes what differs, in an order in which no packet meets half of it."""
    with Flow(running) as flow:
        flow.until_arrival(2)
        for config, port in ((NEW, 3), (OLD, 2)):
            running.deploy(config)
            flow.until_arrival(port)
    check(flow, [2, 3, 2])
    # and nothing was lost: there was a way for each packet all the time
    assert len(flow.seen) == flow.sent


def test_another_program_and_back(running):
    with Flow(running) as flow:
        flow.until_arrival(2)
        running.set_program(PROGRAM.with_name("law_probe.p4"))
        assert [t.alias for t in running.info.tables] == []
        running.set_program(PROGRAM)
        running.deploy(NEW)
        flow.until_arrival(3)
    check(flow, [2, 3])


def test_a_saved_program_runs_when_it_is_committed(running):
    config = running.pipeline(PROGRAM)
    with Flow(running) as flow:
        flow.until_arrival(2)
        running.client.set_pipeline(config, "VERIFY_AND_SAVE")
        flow.until_arrival(2)  # the old one still
        running.client.set_pipeline(config, "COMMIT")
        running.deploy(NEW)
        flow.until_arrival(3)
    check(flow, [2, 3])


def broken(kind: str, tmp_path) -> dict[str, PipelineConfig]:
    if kind == BMV2:
        return {"not JSON": PipelineConfig(None, b"not a program")}
    program = tmp_path / "broken.p4"
    program.write_text("#include <core.p4>\n#include <v1model.p4>\ncontrol C() { apply { no_such_thing(); } }\n")
    whole = for_embedded(PROGRAM)
    return {
        "not a package": PipelineConfig(None, b"\x00\x01 not a program"),
        "cut short": PipelineConfig(None, whole.device_config[: len(whole.device_config) // 2]),
        "does not compile": for_embedded(program),
    }


def test_a_pipeline_that_can_not_be_leaves_the_old_one(running, tmp_path):
    before = sorted(map(repr, running.client.read(*running.all_tables())))
    with Flow(running) as flow:
        for name, config in broken(running.kind, tmp_path).items():
            flow.until_arrival(2)
            with pytest.raises(DeviceError) as refused:
                running.client.set_pipeline(config)
            assert refused.value.code in ("INVALID_ARGUMENT", *(["UNKNOWN"] if running.kind == BMV2 else [])), name
            flow.until_arrival(2)
    check(flow, [2])
    assert len(flow.seen) == flow.sent
    if running.kind == EMBEDDED:  # BMv2 forwards, but its server can read no table any more
        assert sorted(map(repr, running.client.read(*running.all_tables()))) == before
        with pytest.raises(DeviceError, match=r"broken\.p4:3:.*no_such_thing"):
            running.client.set_pipeline(broken(running.kind, tmp_path)["does not compile"])
