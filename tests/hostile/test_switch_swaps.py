# SPDX-License-Identifier: Apache-2.0
"""Programs that are replaced while others write and read, and programs made to be costly. Reports to a controller match
the switch; packets are forwarded by a whole program; memory stays below 256 MB. (That each packet meets one program
wholly: tests/packet/test_p4_swap.py. Programs that take for ever: test_p4_service.py there.)"""

import threading

import pytest
from hostile_rig import MOST_MB, many, not_forwarded, peak_mb, resident_mb
from p4_rig import PROGRAM
from packet_rig import until
from test_p4_service import forward

from weir.p4runtime.client import DeviceError, PipelineConfig, Update, WriteError
from weir.p4runtime.entities import Call, Lpm, TableEntry
from weir.p4runtime.values import P4RuntimeError


def route(number: int) -> TableEntry:
    key = {"hdr.ipv4.dst": Lpm((172 << 24) + (number << 8), 24)}
    return TableEntry("ipv4_lpm", key, Call("set_next_hop", {"next_hop": 1}))


class Writers:
    """Threads that insert routes, each its own and one after the other, until stopped. `done` has the numbers of those
    that were accepted since `swaps` was last changed, which it is before a swap and after it."""

    def __init__(self, switch, count: int):
        self.switch, self.swaps = switch, 0
        self.done: dict[int, set[int]] = {}
        self.unexpected: list[str] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(n * 20_000,)) for n in range(count)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _write(self, first: int) -> None:
        for number in range(first, first + 20_000):
            if self._over.is_set():
                return
            before = self.swaps
            try:
                self.switch.client.write([Update.insert(route(number))])
            except WriteError as refused:
                # the program was replaced in the middle of it
                if "ABORTED" not in str(refused) and "replaced" not in str(refused):
                    self.unexpected.append(str(refused))
            except P4RuntimeError as error:
                self.unexpected.append(repr(error))
            else:
                if self.swaps == before:
                    self.done.setdefault(before, set()).add(number)


def test_swaps_racing_writes(switch):
    """One connection replaces the program again and again, others write. A write that was said to be done, and after
    which no swap came, is there; one that was refused says that the program was replaced."""
    with Writers(switch, 3) as writers:
        for _ in range(many(8, 200)):
            writers.swaps += 1
            switch.set_program(PROGRAM)
            writers.swaps += 1
        last = writers.swaps
        until(lambda: len(writers.done.get(last, ())) > 20, "writes after the last swap", 60)
    assert not writers.unexpected, writers.unexpected[:3]
    there = {entry.match["hdr.ipv4.dst"] for entry in switch.client.read(TableEntry("ipv4_lpm"))}
    assert {route(number).match["hdr.ipv4.dst"] for number in writers.done[last]} <= there
    switch.set_program(PROGRAM)
    assert switch.client.read(TableEntry("ipv4_lpm")) == []
    switch.deploy()
    assert not_forwarded(switch) == 0
    assert peak_mb(switch.process.pid) < MOST_MB


RETURNED_MB = 80
"""Resident memory with a large program after many were replaced: about 44 MB where free memory is returned, 117 to 290
where the threads that compiled keep it."""


def large(statements: int) -> PipelineConfig:
    """A program of a second of compiling at most, with 8 MB of registers."""
    work = "".join(f"if (m.sum == {n}) {{ m.sum = (m.sum + {n}) ^ (m.sum << 3); }}" for n in range(statements))
    return forward("", "register<bit<64>>(1000000) big;", work)


def test_memory_of_replaced_programs_is_returned(switch):
    programs = [large(2_900), large(3_000)]
    for n in range(many(8, 200)):
        switch.client.set_pipeline(programs[n % len(programs)])
    pid = switch.process.pid
    until(lambda: resident_mb(pid) < RETURNED_MB, f"less than {RETURNED_MB} MB, not {resident_mb(pid):.0f}", 20)


def states(count: int) -> str:
    """A register of 255 MiB, which no packet touches."""
    return f"register<bit<2048>>({count}) big;"


BOMBS = {
    "as much state as there may be": forward("", states(1_040_000)),
    "many names": forward("\n".join(f"const bit<32> c{n} = {n};" for n in range(100_000))),
    "deep expressions": forward("", "", "m.sum = " + "(" * 9_000 + "1" + ")" * 9_000 + ";"),
    "long expressions": forward("", "", "m.sum = " + " + ".join(["m.sum"] * 100_000) + ";"),
    "many tables": forward(
        "",
        "".join(f"table t{n} {{ actions = {{ NoAction; }} }}\n" for n in range(4_000)),
        "".join(f"t{n}.apply();" for n in range(4_000)),
    ),
    "wide numbers": forward("", "", "m.sum = (bit<32>)(" + " ++ ".join(["2047w1"] * 2_000) + ");"),
    "shifts without end": forward("const int a = 1 << 1000000;\nconst int b = a << 1000000;"),
    "comments without end": forward("/*" + "x" * (12 << 20)),
    "text that is none": forward("\0\x01\x02" * 100_000),
    "headers in headers": forward(
        "struct s0 { bit<8> x; }\n" + "".join(f"struct s{n + 1} {{ s{n} a; s{n} b; }}\n" for n in range(40)),
        "s40 deep;",
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_programs_made_to_be_costly(switch, bomb):
    """Taken or refused with a reason, and never at the cost of the others."""
    config = BOMBS[bomb]
    for _ in range(many(1, 5)):
        for action in ("VERIFY", "VERIFY_AND_SAVE"):
            try:
                switch.client.set_pipeline(config, action)
            except DeviceError as refused:
                if refused.code not in ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"):
                    raise
        assert not_forwarded(switch) == 0, "by the program that runs"
    assert peak_mb(switch.process.pid) < MOST_MB
    switch.deploy()
    assert not_forwarded(switch) == 0
