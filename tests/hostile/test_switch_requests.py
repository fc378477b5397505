# SPDX-License-Identifier: Apache-2.0
"""Requests that are larger once understood than on the wire, and answers that nobody takes. weir-switch stays below
256 MB, says what it refuses, goes on forwarding, and the next controller is served."""

import random
import threading

import grpc
import pytest
from hostile_rig import MOST_MB, channel, many, not_forwarded, peak_mb, stub
from p4_rig import hop

from weir.p4runtime.client import Update
from weir.p4runtime.messages import v1


def varint(n: int) -> bytes:
    out = b""
    while n > 0x7F:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


def field(number: int, value: bytes) -> bytes:
    """A field of bytes, or of a message (protobuf's wire type 2)."""
    return varint(number << 3 | 2) + varint(len(value)) + value


ELECTION = field(3, b"\x10\x01")
"""election_id.low = 1 of a WriteRequest: its sender may write."""
ONE_MIB = (1 << 20) - 200


def nested(path: list[int], body: bytes) -> bytes:
    """A message within messages, outermost field first."""
    for number in reversed(path):
        body = field(number, body)
    return body


LOST = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
"""Codes of a connection that ended, and of no answer in a minute or two."""

BOMBS = {
    # two bytes each, and hundreds once they are an update
    "empty updates": ("Write", ELECTION + field(4, b"") * (ONE_MIB // 2)),
    # skipped fields must not hide later ones
    "empty updates behind a group": ("Write", ELECTION + b"\x7b\x7c" + field(4, b"") * (ONE_MIB // 2)),
    "empty matches": ("Write", ELECTION + nested([4, 2, 2], field(2, b"") * (ONE_MIB // 2))),
    "empty parameters": ("Write", ELECTION + nested([4, 2, 2, 3, 1], field(4, b"") * (ONE_MIB // 2))),
    "empty actions of a set": ("Write", ELECTION + nested([4, 2, 2, 3, 4], field(1, b"") * (ONE_MIB // 2))),
    "messages in messages": ("Write", ELECTION + nested([4] * 20_000, b"")),
    "a string that is none": ("Write", ELECTION + field(6, b"\xff" * 1000)),
    "entities to read": ("Read", field(2, b"") * (250 << 10)),
    "empty tables of a P4Info": (
        "SetForwardingPipelineConfig",
        ELECTION + b"\x20\x01" + nested([5, 1], field(2, b"") * (8 << 20)),
    ),
    "empty actions of a P4Info": (
        "SetForwardingPipelineConfig",
        ELECTION + b"\x20\x01" + nested([5, 1], field(3, b"") * (8 << 20)),
    ),
}


def _code(switch, name: str, message: bytes) -> grpc.StatusCode:
    """Status code of a request."""
    with channel(switch) as to:
        try:
            answer = stub(to, name, stream=name == "Read")(message, timeout=120)
            if name == "Read":
                list(answer)
        except grpc.RpcError as refused:
            return refused.code()
    return grpc.StatusCode.OK


def serves(switch) -> None:
    """Asserts that the controller that was there before still writes and reads."""
    switch.client.write([Update.insert(hop(700, 2))])
    assert switch.client.find(hop(700, 2)) is not None
    switch.client.write([Update.delete(hop(700, 2))])


@pytest.mark.parametrize("bomb", BOMBS)
def test_what_grows_when_it_is_understood(switch, bomb):
    """Every byte that is sent may cost a hundred. One at a time, and then several clients at once."""
    name, message = BOMBS[bomb]
    assert len(message) < 18 << 20

    def send() -> None:
        codes.append(_code(switch, name, message))

    codes: list[grpc.StatusCode] = []
    threads = [threading.Thread(target=send) for _ in range(many(3, 12))]
    for thread in threads:
        thread.start()
    assert not_forwarded(switch) == 0
    for thread in threads:
        thread.join()
    # refused, for one reason or another, and by the switch itself: not by a connection that ended
    assert not {grpc.StatusCode.OK, *LOST} & set(codes), codes
    assert peak_mb(switch.process.pid) < MOST_MB
    serves(switch)


def test_mutated_requests(switch):
    """Good requests with bytes changed, cut and doubled, by who may write: whatever they mean, it is answered."""
    rest = random.Random(29)
    good = v1.WriteRequest(device_id=0)
    good.updates.add(type="INSERT", entity=switch.client._encode(0, Update.insert(hop(900, 2))))
    good.election_id.low = 1
    seeds = [good.SerializeToString(), ELECTION + nested([4, 2, 2, 3, 1], b"\x18\x01"), field(2, b"\x12\x00")]
    with channel(switch) as to:
        calls = [stub(to, "Write"), stub(to, "Read", stream=True), stub(to, "SetForwardingPipelineConfig")]
        for _ in range(many(300, 20_000)):
            words = bytearray(rest.choice(seeds) * rest.choice([1, 1, 3]))
            for _ in range(rest.randrange(1, 6)):
                at = rest.randrange(len(words))
                words[at : at + rest.choice([0, 1, 4])] = rest.randbytes(rest.choice([0, 1, 3]))
                words = words or bytearray(b"\0")
            call = rest.choice(calls)
            try:
                answer = call(bytes(words), timeout=60)
                if call is calls[1]:
                    list(answer)
            except grpc.RpcError as refused:
                if refused.code() in LOST:
                    pytest.fail(f"{refused.code()} for {bytes(words)!r}")
    switch.check()
    assert "panicked" not in switch.log.read_text()
    assert peak_mb(switch.process.pid) < MOST_MB
    switch.deploy()  # accepted requests may have changed tables
    assert not_forwarded(switch) == 0


def test_answers_that_nobody_takes(switch):
    """GetForwardingPipelineConfig is the largest answer there is for the smallest question. Many are asked for, and
    none is read."""
    held, calls = [], []
    try:
        for _ in range(many(20, 100)):
            to = channel(switch)
            held.append(to)
            get = to.unary_stream(
                "/p4.v1.P4Runtime/GetForwardingPipelineConfig",
                v1.GetForwardingPipelineConfigRequest.SerializeToString,
                v1.GetForwardingPipelineConfigResponse.FromString,
            )
            calls += [get(v1.GetForwardingPipelineConfigRequest(), timeout=300) for _ in range(20)]
        assert not_forwarded(switch) == 0
        serves(switch)
        assert peak_mb(switch.process.pid) < MOST_MB
    finally:
        for call in calls:
            call.cancel()
        for to in held:
            to.close()
