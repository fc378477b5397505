# SPDX-License-Identifier: Apache-2.0
"""Attacks and mishaps while `weir-icn` fetches a file through a switch: refused, counted, reported; and the file is
right.

An attacker on the publisher's wire can answer at the right port, and first: `names_wire.py`. scapy's packets come from
other ports."""

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from names_wire import ASKER, FILM, ICN, PORTS, SEGMENT_BYTES, STRANGER, UP, Packet, Wire, packets_name, unchanged, wire
from p4_name_packets import data, interest, nack
from p4_rig import P4Rig, Queue
from packet_rig import until

from weir.names.packet import DATA, INTEREST, NACK, NO_SUCH_NAME, NO_SUCH_SEGMENT, Header
from weir.names.switch import Count
from weir.names.text import name_bits, prefix_bits

TIMEOUT, INCOMPLETE, INPUT_OUTPUT = 5, 6, 8
"""Exit codes."""


@pytest.fixture(scope="module")
def edge(target, tmp_path_factory) -> Iterator[P4Rig]:
    if not ICN.exists():
        pytest.skip(f"{ICN} is not built; ./run test builds it")
    # Deep queues: a slow target must not lose what a test counts.
    queues = {port: Queue(depth=1000) for port in PORTS}
    rig = P4Rig(target, tmp_path_factory.mktemp("edge"), ports=PORTS, queues=queues, goes_round=True)
    try:
        yield rig
    finally:
        rig.close()


@pytest.fixture
def net(edge, tmp_path) -> Iterator[Wire]:
    with wire(edge, tmp_path) as made:
        yield made


@pytest.fixture
def cached(edge, tmp_path) -> Iterator[Wire]:
    """The same, with a cache on the way."""
    with wire(edge, tmp_path, cache=True) as made:
        yield made


class Forger:
    """Forges Data, in five ways in turn, the first time that it sees a name and segment; or always."""

    def __init__(self, always: bool = False):
        self.always = always
        self.made = 0
        self.seen: set[tuple[int, int]] = set()
        self.last = b"\0" * SEGMENT_BYTES

    def __call__(self, header: Header, payload: bytes) -> list[Packet]:
        key = (header.name, header.segment)
        if header.kind != DATA or (key in self.seen and not self.always):
            return [(header, payload)]
        self.seen.add(key)
        forged = self.forged(header, payload)
        self.last = payload
        # The switch has one entry: it takes the first, and drops the second as not asked for.
        return [forged, (header, payload)]

    def forged(self, header: Header, payload: bytes) -> Packet:
        self.made += 1
        match self.made % 5:
            case 0:
                return header, bytes([payload[0] ^ 1]) + payload[1:]
            case 1:
                return replace(header, epoch=header.epoch + 1), payload
            case 2:
                return replace(header, payload_bytes=len(payload) - 1), payload[:-1]
            case 3:
                return replace(header, payload_bytes=len(self.last)), self.last
            case _:
                return replace(header, payload_bytes=0), b""


def test_forged_data_that_comes_first_is_dropped_and_asked_for_again(net):
    content = net.file(200_000)
    publisher = net.publish()
    net.middle.answers = forger = Forger()
    counts = net.got(net.folder / "out", content)
    assert forger.made >= len(content) / SEGMENT_BYTES
    assert counts["wrong"] >= forger.made / 2
    assert counts["asked_again"] >= forger.made
    # The right Data came too late, and were unasked then.
    assert net.count(Count.DATA_UNASKED) == forger.made
    net.ended(publisher)


def test_where_all_data_is_forged_it_says_so_and_gives_nothing(net):
    net.file(50_000)
    net.publish()
    net.middle.answers = Forger(always=True)
    getter = net.get(net.folder / "out", "--give-up-s", 2)
    out, errors = getter.communicate()
    assert getter.returncode == TIMEOUT
    found = json.loads(out)["objects"][0]
    assert found["counts"]["wrong"] > 0
    assert "no right data came for 2 s" in errors
    assert f"{found['counts']['wrong']} packets were wrong" in errors
    assert not list(net.folder.glob("out*"))


def test_nacks_before_the_data_end_nothing_and_replayed_ones_reach_nobody(net):
    content = net.file(100_000)
    net.publish()
    sent: dict[tuple[int, int], Packet] = {}

    def refuse(header: Header, _: bytes) -> list[Packet]:
        if header.kind != INTEREST or (header.name, header.segment) in sent:
            return []
        made = Header(NACK, code=NO_SUCH_NAME, prefix=header.prefix, name=header.name, segment=header.segment)
        sent[header.name, header.segment] = (made, b"")
        return [(made, b"")]

    net.middle.reply = refuse
    counts = net.got(net.folder / "out", content)
    assert counts["nacks"] == len(sent) >= len(content) / SEGMENT_BYTES
    before = net.count(Count.NACKS_UNASKED)
    for made, _ in sent.values():
        replayed = nack(made.segment, NO_SUCH_NAME, label=made.name, prefix=made.prefix)
        net.rig.taps[UP].send(replayed)
        net.rig.taps[STRANGER].send(replayed)
    net.waits_for(Count.NACKS_UNASKED, before + 2 * len(sent))
    assert net.count(Count.NACKS_FORWARDED) == len(sent)


def test_answers_from_another_port_while_the_data_is_on_its_way_reach_nobody(net):
    content = net.file(100_000)
    net.publish()
    sprayed = 0

    def spray(header: Header, _: bytes) -> list[Packet]:
        nonlocal sprayed
        if header.kind == INTEREST:
            more = {"label": header.name, "prefix": header.prefix}
            net.rig.taps[STRANGER].send(data(header.segment, b"forged", epoch=1, **more))
            net.rig.taps[STRANGER].send(nack(header.segment, **more))
            sprayed += 1
        return []

    net.middle.reply = spray
    counts = net.got(net.folder / "out", content)
    assert (counts["wrong"], counts["nacks"]) == (0, 0)
    dropped = Count.DATA_FROM_ELSEWHERE, Count.DATA_UNASKED, Count.NACKS_FROM_ELSEWHERE, Count.NACKS_UNASKED
    until(lambda: sum(map(net.count, dropped)) >= 2 * sprayed, "all that was sprayed")
    assert net.count(Count.DATA_FROM_ELSEWHERE) > 0
    assert net.count(Count.NACKS_FORWARDED) == 0


def test_segments_beyond_the_end_are_refused_with_the_reason(net):
    content = net.file(49 * SEGMENT_BYTES + 1)  # 50 segments, whose hashes take 2
    net.publish()
    net.got(net.folder / "out", content)
    net.forget(ASKER)
    prefix = prefix_bits(packets_name(content))
    wanted = {
        (0, 49): DATA, (0, 50): NO_SUCH_SEGMENT, (0, 51): NO_SUCH_SEGMENT, (0, 0xFFFFFFFF): NO_SUCH_SEGMENT,
        (1, 1): DATA, (1, 2): NO_SUCH_SEGMENT, (2, 0): NO_SUCH_NAME,
    }  # fmt: skip
    for level, segment in wanted:
        label = name_bits(packets_name(content, level))
        net.rig.taps[ASKER].send(interest(segment, label=label, prefix=prefix))
        ((header, payload),) = net.heard(ASKER, 1)
        assert (header.name, header.segment) == (label, segment)
        assert (header.code or header.kind) == wanted[level, segment], (level, segment)
        assert bool(payload) == (header.kind == DATA)
    # Past the greatest number it goes on with the least.
    label = name_bits(packets_name(content))
    net.rig.taps[ASKER].send(interest(0xFFFFFFFF, label=label, prefix=prefix, holes=1 | 1 << 15))
    answers = {header.segment: header.code or header.kind for header, _ in net.heard(ASKER, 3)}
    assert answers == {0xFFFFFFFF: NO_SUCH_SEGMENT, 0: DATA, 15: DATA}


def test_a_publisher_that_vanishes_is_said_and_the_file_goes_on_later(net):
    content = net.file(1_000_000)
    publisher = net.publish()

    def half(header: Header, payload: bytes) -> list[Packet]:
        return [(header, payload)] if net.middle.passed_data < 300 else []

    net.middle.answers = half
    output = net.folder / "out"
    getter = net.get(output, "--give-up-s", 2)
    until(lambda: net.middle.passed_data >= 300, "half of the file")
    publisher.kill()
    publisher.wait()
    out, errors = getter.communicate()
    assert getter.returncode == TIMEOUT, errors
    last = errors.strip().splitlines()[-1]
    assert FILM in last
    assert "nothing for 2 s" in last
    assert json.loads(out)["objects"][0]["outcome"] != "complete"
    assert not output.exists()
    kept = json.loads(Path(f"{output}.part.json").read_text())["segments"]
    held = Path(f"{output}.part").read_bytes()
    for first, end in kept:
        part = slice(first * SEGMENT_BYTES, (end + 1) * SEGMENT_BYTES)
        assert held[part] == content[part]
    segments = sum(end + 1 - first for first, end in kept)
    assert 200 < segments < 300
    net.middle.answers = unchanged
    net.publish()
    counts = net.got(output, content)
    assert (counts["resumed"], counts["spoiled"]) == (segments, 0)


def test_a_cache_with_wrong_data_is_asked_past_and_has_the_right_one_then(cached):
    net = cached
    publisher, cache = net.publish(), net.cache()
    content = net.file(100_000)
    count = -(-len(content) // SEGMENT_BYTES)
    net.middle.answers = forger = Forger()
    counts = net.got(net.folder / "first", content)
    assert forger.made >= count
    assert counts["wrong"] >= forger.made / 2
    counts = net.got(net.folder / "second", content)
    assert counts["wrong"] == 0
    report = net.ended(cache)["cache"]
    assert report["fresh"] >= forger.made
    assert report["hits"] >= count
    net.ended(publisher)


def test_what_a_stranger_had_put_into_a_cache_hurts_nobody_for_long(cached):
    """It asks for a part of a file before anyone else, and has someone on the wire answer it."""
    net = cached
    net.publish()
    content = net.file(30 * SEGMENT_BYTES)
    cache = net.cache()
    label, prefix = name_bits(packets_name(content)), prefix_bits(packets_name(content))

    def lie(header: Header, _: bytes) -> list[Packet]:
        made = Header(DATA, prefix=header.prefix, name=header.name, segment=header.segment, payload_bytes=6, epoch=1)
        return [(made, b"forged")] if header.kind == INTEREST else []

    net.middle.reply = lie
    net.middle.answers = lambda _header, _payload: []
    for first in (0, 17):
        net.rig.taps[STRANGER].send(interest(first, label=label, prefix=prefix, holes=0xFFFF >> (first and 4)))
        assert {payload for _, payload in net.heard(STRANGER, 17 if first == 0 else 13)} == {b"forged"}
    net.middle.reply, net.middle.answers = (lambda _header, _payload: []), unchanged
    counts = net.got(net.folder / "first", content)
    assert counts["wrong"] == 30
    assert net.got(net.folder / "second", content)["wrong"] == 0
    assert net.ended(cache)["cache"]["hits"] >= 60


def symbols_forged(net, is_forged: Callable[[Header], bool]) -> tuple[bytes, dict]:
    """A file that was fetched while one segment in ten was lost once and these symbols were forged without the key, and
    its counts. The switch takes the forged one for the answer."""
    content = net.file(480 * SEGMENT_BYTES)
    net.publish("--repair")
    film, symbols = name_bits(packets_name(content)), name_bits(f"{packets_name(content)}/~r")
    lost: set[int] = set()

    def answers(header: Header, payload: bytes) -> list[Packet]:
        if header.kind == DATA and header.name == film and header.segment % 10 == 3 and header.segment not in lost:
            lost.add(header.segment)
            return []
        if header.kind == DATA and header.name == symbols and is_forged(header):
            return [(header, bytes([payload[0] ^ 1]) + payload[1:]), (header, payload)]
        return [(header, payload)]

    net.middle.answers = answers
    counts = net.got(net.folder / "out", content)
    assert lost
    assert counts["repair_asked"] > 0
    return content, counts


def test_forged_repair_symbols_do_not_keep_later_ones_from_mending(net):
    seen: set[int] = set()

    def first_round(header: Header) -> bool:
        # A third of each block's symbols of the first round, of 160.
        is_new = header.segment not in seen
        seen.add(header.segment)
        return is_new and header.segment % 1280 < 160 and header.segment % 3 == 0

    _, counts = symbols_forged(net, first_round)
    assert counts["wrong"] > 0
    assert counts["repaired"] > 0


def test_where_all_repair_symbols_are_forged_the_segments_are_fetched(net):
    _, counts = symbols_forged(net, lambda _: True)
    assert (counts["repaired"], counts["decodings"]) == (0, 0)
    assert counts["wrong"] > 0
    # Eight rounds a block, of which each has at most what was lost.
    assert counts["repair_asked"] <= 8 * 48


CLOCK = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
	long result = syscall(SYS_clock_gettime, clock, now);

	if (clock == CLOCK_REALTIME)
		now->tv_sec -= 100000;
	return (int)result;
}
"""
"""A time of day that is 100,000 s behind, to be preloaded."""


def test_a_manifest_that_was_signed_long_ago_is_refused(net, tmp_path):
    """As an edge server may replay it."""
    source, library = tmp_path / "clock.c", tmp_path / "clock.so"
    source.write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    content = net.file(50_000)
    publisher = net.publish(before=("env", f"LD_PRELOAD={library}"))
    refused = net.get(net.folder / "out")
    _, errors = refused.communicate()
    assert (refused.returncode, list(net.folder.glob("out*"))) == (INCOMPLETE, []), errors
    assert "--max-age" in errors
    for seconds in (0, 200_000):
        net.got(net.folder / f"out{seconds}", content, "--max-age", seconds)
    net.ended(publisher)
    publisher = net.publish()
    net.got(net.folder / "new", content)
    # A clock that is behind the publisher's does not tell.
    behind = net.start(*net.words_to_get(net.folder / "behind"), before=("env", f"LD_PRELOAD={library}"))
    _, errors = behind.communicate()
    assert behind.returncode == 0, errors
    net.ended(publisher)


def test_a_disk_that_fills_is_said_and_leaves_nothing_under_the_files_name(net):
    net.file(2_000_000)
    publisher = net.publish()
    disk = net.folder / "disk"
    disk.mkdir()
    net.hosts.sh(f"mount -t tmpfs -o size=600k tmpfs {disk}")
    getter = net.get(disk / "out")
    out, errors = getter.communicate()
    assert getter.returncode == INPUT_OUTPUT, errors
    assert "No space left on device" in errors.strip().splitlines()[-1]
    assert f"{disk}/out.part" in errors
    assert "panicked" not in errors
    assert json.loads(out)["objects"][0]["outcome"] != "complete"
    assert "out" not in (names := net.hosts.sh(f"ls -A {disk}").split())
    assert set(names) <= {"out.part", "out.part.json"}
    net.hosts.sh(f"mount -o remount,size=8M {disk}")
    getter = net.get(disk / "out")
    out, errors = getter.communicate()
    assert getter.returncode == 0, errors
    found = json.loads(out)["objects"][0]["counts"]
    assert found["wrong"] == 0
    assert net.hosts.sh(f"ls -A {disk}").split() == ["out"]
    net.hosts.sh(f"cmp {disk}/out {net.folder}/files/film; umount {disk}")
    net.ended(publisher)
