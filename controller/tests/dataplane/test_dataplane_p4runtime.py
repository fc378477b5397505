# SPDX-License-Identifier: Apache-2.0
"""A P4Runtime switch as a device: real switches that are killed and quarrelled over, and a server that answers what no
switch should."""

import contextlib
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from switch_rig import CONFIG, CONNECT_TIMEOUT_S, command, free_port

from weir import programs
from weir.dataplane.base import DataPlaneError, Down, Event, GainsChanged, Note, Sample, Up
from weir.dataplane.p4runtime import (
    FIRST_RETRY_S,
    LAST_RETRY_S,
    P4RuntimeDevice,
    backoff_s,
    port_number,
)
from weir.law import Rate, tau_us
from weir.p4runtime.client import Client, DeviceError, Update
from weir.p4runtime.codec import encode
from weir.p4runtime.entities import Call, Exact, TableEntry
from weir.p4runtime.messages import METHODS, Message, config, v1
from weir.p4runtime.p4info import P4Info
from weir.p4runtime.values import P4RuntimeError, decode_data, encode_data
from weir.programs import EDGE, PID_DELAY, PortLaw
from weir.programs.pid_delay import FIELDS, AqmState, to_sample
from weir.resources import PROFILES
from weir.settings import load
from weir.switch import program

TUNED = load(PROFILES / "tuned.toml")
AQM = PortLaw(TUNED)
DEVICE_ID = 3
PATIENCE_S = 60.0

# Pure parts

DIGEST_WIDTHS = dict(zip(FIELDS, (16, 48, 32, 64, 48, 32, 8, 48, 48, 48, 48, 64, 64), strict=True))


def digest_info() -> P4Info:
    """The P4Info of the digest alone."""
    message = config.P4Info()
    digest = message.digests.add()
    digest.preamble.id, digest.preamble.name, digest.preamble.alias = 0x1700_0001, PID_DELAY.digest, PID_DELAY.digest
    digest.type_spec.struct.name = PID_DELAY.digest
    for name, width in DIGEST_WIDTHS.items():
        member = message.type_info.structs[PID_DELAY.digest].members.add(name=name)
        member.type_spec.bitstring.bit.bitwidth = width
    return P4Info(message)


INFO = digest_info()
READER = AqmState(INFO)

VALUES = {name: st.integers(0, (1 << width) - 1) for name, width in DIGEST_WIDTHS.items()}
records = st.builds(
    lambda said: tuple(said[name] for name in FIELDS),
    st.fixed_dictionaries(VALUES | {"u_q40": st.integers(0, 1 << 40), "row": st.integers(0, 5)}),
)


def digest_data(record: tuple[int, ...]) -> Message:
    types = INFO.message.type_info
    spec = INFO.digests[PID_DELAY.digest].message.type_spec
    return encode_data(dict(zip(FIELDS, record, strict=True)), spec, types)


@given(records)
def test_a_record_reads_as_by_names(record: tuple[int, ...]) -> None:
    data = digest_data(record)
    assert READER.record(data) == record
    spec, types = INFO.digests[PID_DELAY.digest].message.type_spec, INFO.message.type_info
    assert tuple(decode_data(data, spec, types).values()) == record


@given(st.lists(st.one_of(st.none(), st.binary(max_size=12)), max_size=16))
def test_what_is_no_record_is_refused(parts: list[bytes | None]) -> None:
    data = v1.P4Data()
    for part in parts:
        member = data.struct.members.add()
        if part is not None:
            member.bitstring = part
    with contextlib.suppress(P4RuntimeError):  # and nothing else
        record = READER.record(data)
        assert record == tuple(int.from_bytes(part, "big") for part in parts)
        assert len(record) == len(parts) == len(FIELDS)


@given(records, st.booleans(), st.integers(10, 20), st.booleans())
def test_a_sample_says_what_the_law_works_with(record: tuple, squared: bool, dq_shift: int, by_rate: bool) -> None:
    said = dict(zip(FIELDS, record, strict=True))
    sample = to_sample(
        "s1",
        record,
        PortLaw(
            replace(TUNED, probability="squared" if squared else "linear", dq_shift=dq_shift),
            delay_source="rate" if by_rate else "sojourn",
        ),
    )
    params = replace(TUNED, dq_shift=dq_shift).to_params()
    law_delay_us = tau_us(Rate(dq_time_q8_us=said["dq_time_q8_us"]), params, said["backlog_bytes"])
    assert sample.delay_us == (law_delay_us if by_rate else said["delay_us"])
    assert sample.u == said["u_q40"] / 2**40
    assert sample.drop_probability == (sample.u * sample.u if squared else sample.u)
    assert (sample.port, sample.t_us, sample.row) == (str(said["port"]), said["now_us"], said["row"])
    assert 0 <= sample.passed_packets < 1 << 48
    if said["enqueued_bytes"] >= said["tail_dropped_bytes"]:
        assert sample.passed_bytes + said["tail_dropped_bytes"] == said["enqueued_bytes"]
    if said["dq_time_q8_us"] == 0:
        assert sample.rate_bit_s is None
    else:
        seconds = said["dq_time_q8_us"] / 256e6
        assert sample.rate_bit_s == pytest.approx(8 * 2**dq_shift / seconds, rel=1e-6, abs=1)


@given(st.integers(0, 10_000), st.floats(0, 1))
def test_pauses_grow_to_their_limit(attempt: int, part: float) -> None:
    pause_s = backoff_s(attempt, part)
    assert FIRST_RETRY_S * 3 / 4 <= pause_s <= LAST_RETRY_S
    assert backoff_s(attempt, 1.0) <= pause_s <= backoff_s(attempt, 0.0) <= backoff_s(attempt + 1, 0.0)
    assert backoff_s(10, 0.0) == LAST_RETRY_S


@given(st.text(max_size=5) | st.integers(0, 600).map(str))
def test_only_numbers_are_ports(text: str) -> None:
    if text in map(str, range(510)):
        assert port_number(text) == int(text)
    else:
        with pytest.raises(ValueError, match=r"must be a number, 0 \.\. 509"):
            port_number(text)


def test_another_program_is_told_by_its_digest() -> None:
    message = config.P4Info()
    message.CopyFrom(INFO.message)
    del message.type_info.structs[PID_DELAY.digest].members[-1]
    with pytest.raises(P4RuntimeError, match=r"has no aqm_marked_packets: it is not p4/pid_delay\.p4"):
        AqmState(P4Info(message))
    with pytest.raises(P4RuntimeError, match="no digest"):
        AqmState(P4Info(config.P4Info()))


def test_what_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "s1.toml"
    wrong.write_text("[aqm.port.x]\n")
    for options, message in [
        ({"address": "nowhere"}, "must be HOST:PORT"),
        ({"ports": ["1", "510"]}, r"port '510': must be a number, 0 \.\. 509"),
        ({"election_id": 0}, r"election id 0: must be 1 \.\."),
        ({"switch": "tofino"}, "switch 'tofino': must be one of embedded, bmv2, auto"),
        ({"digest_interval_us": 0}, "digest interval 0 us"),
        ({"config": wrong}, r"s1\.toml.*'x': must be a port number"),
        ({"config": tmp_path / "absent.toml"}, r"absent\.toml"),
    ]:
        with pytest.raises(DataPlaneError, match=f"device s1: .*{message}"):
            P4RuntimeDevice("s1", **({"address": "127.0.0.1:9559"} | options))


# Devices


class Heard:
    """A device's events."""

    def __init__(self) -> None:
        self.queue: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.all: list[Event] = []

    def until(self, wanted: Callable[[Event], bool]) -> Event:
        """The next event that is wanted. Fails when it does not come."""
        end_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                event = self.queue.get(timeout=max(0.0, end_s - time.monotonic()))
            except queue.Empty:
                pytest.fail(f"not heard in {PATIENCE_S} s; heard so far: {self.all}")
            self.all.append(event)
            if wanted(event):
                return event

    def up(self) -> Up:
        return self.until(lambda event: isinstance(event, Up))

    def down(self, why: str) -> Down:
        return self.until(lambda event: isinstance(event, Down) and why in event.why)

    def note(self, text: str) -> Note:
        return self.until(lambda event: isinstance(event, Note) and text in event.text)

    def changed(self) -> GainsChanged:
        return self.until(lambda event: isinstance(event, GainsChanged))

    def sample(self) -> Sample:
        return self.until(lambda event: isinstance(event, Sample))


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def make(heard: Heard) -> Iterator[Callable[..., P4RuntimeDevice]]:
    """Started devices, closed at the end."""
    made = []

    def device(address: str, name: str = "s1", by: Heard = heard, **options) -> P4RuntimeDevice:
        made.append(P4RuntimeDevice(name, address, DEVICE_ID, **({"poll_s": 0.2, "last_retry_s": 1.0} | options)))
        made[-1].start(by.queue)
        return made[-1]

    yield device
    for one in made:
        one.close()


@dataclass
class Switch:
    """A real switch without ports on the loopback address, which can be killed and started again."""

    kind: str
    folder: Path
    address: str = field(default_factory=lambda: f"127.0.0.1:{free_port()}")
    process: subprocess.Popen | None = None

    def start(self) -> None:
        words = command(self.kind, self.address, [])
        with (self.folder / "switch.log").open("a") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, cwd=self.folder)

    def kill(self) -> None:
        """As kill -9 does it."""
        self.process.kill()
        self.process.wait()

    def client(self, election_id: int | None = None) -> Client:
        return Client(self.address, DEVICE_ID, election_id=election_id, connect_timeout_s=CONNECT_TIMEOUT_S)


@pytest.fixture(params=["embedded", "bmv2"])
def switch(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Switch]:
    made = Switch(request.param, tmp_path)
    made.start()
    yield made
    made.kill()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "s1.toml"
    path.write_text(CONFIG)
    return path


def test_a_switch_without_ports_needs_no_privilege(tmp_path: Path) -> None:
    words = command("embedded", "127.0.0.1:0", [])
    drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"] if os.geteuid() == 0 else []
    process = subprocess.Popen([*drop, *words], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert process.stdout is not None
    with process:
        try:
            assert process.stdout.readline().startswith("ready: 0 ports")
        finally:
            process.kill()


def test_a_killed_switch_gets_everything_back(switch: Switch, file: Path, heard: Heard, make: Callable) -> None:
    device = make(switch.address, config=file)
    up = heard.up()
    assert up.restored  # it was empty
    assert {port: g.target_us for port, g in up.gains.items()} == {"2": 5000}
    assert device.read_gains() == up.gains

    better = replace(up.gains["2"], target_us=4321, kp=20.0)
    device.write_gains("2", better)
    with switch.client() as other:  # one more port, by hand, as `weir gains` does: reads need no primary
        other.election_id = 7
        other.become_primary()
        other.write([Update.insert(PID_DELAY.law_entry(9, AQM, other.info))])
    heard.until(lambda event: isinstance(event, Up) and set(event.gains) == {"2", "9"})

    switch.kill()
    assert heard.down("").retry_s > 0
    with pytest.raises(DataPlaneError, match="device s1, port 2: no connection"):
        device.write_gains("2", TUNED)
    switch.start()
    up = heard.up()
    assert up.restored
    assert {port: g.to_params() for port, g in up.gains.items()} == {
        "2": better.to_params(),
        "9": AQM.gains.to_params(),
    }
    with switch.client() as other:
        assert len(other.read(TableEntry("ipv4_lpm"))) == 3
    assert not [event for event in heard.all if isinstance(event, GainsChanged) and event.port == "2"]


def test_a_device_without_a_file_says_what_it_lacks(switch: Switch, heard: Heard, make: Callable) -> None:
    device = make(switch.address)
    assert heard.down("has no program; weir p4 deploy gives it one")
    with pytest.raises(DataPlaneError, match="no connection"):
        device.read_gains()


def deploy(switch: Switch, main: Path = PID_DELAY.source) -> None:
    with switch.client() as client:
        client.become_primary()
        client.set_pipeline(program.for_embedded(main) if switch.kind == "embedded" else program.for_bmv2(main))
        if main == PID_DELAY.source:
            client.write([Update.insert(PID_DELAY.law_entry(port, AQM, client.info)) for port in (1, 2)])


def test_gains_set_by_others_are_told_and_left(switch: Switch, heard: Heard, make: Callable) -> None:
    deploy(switch)
    device = make(switch.address, ports=["2"])
    assert set(heard.up().gains) == {"2"}
    with switch.client(election_id=5) as other:
        other.become_primary()
        heard.note("election id 5) is in charge")
        changes = [replace(AQM, gains=replace(TUNED, target_us=us)) for us in (7000, 8000)]
        other.write(
            [Update.modify(PID_DELAY.law_entry(port, a, other.info)) for port, a in zip((1, 2), changes, strict=True)]
        )
        told = heard.changed()
        assert (told.port, told.gains.target_us) == ("2", 8000)
        with pytest.raises(DataPlaneError, match=r"port 2: gains not set: .*\(election id 5\) is in charge"):
            device.write_gains("2", TUNED)
    heard.note("in charge now")
    assert heard.up().gains["2"].target_us == 8000
    device.write_gains("2", replace(TUNED, target_us=9000))
    for port, message in [("1", "these ports do: 2"), ("3", "these ports do: 2"), ("x", "must be a number")]:
        with pytest.raises(DataPlaneError, match=message):
            device.write_gains(port, TUNED)
    with switch.client() as other:
        found = {entry.match["egress_port"].value: entry for entry in other.read(TableEntry("aqm"))}
    assert found[1].action.params["target_us"] == 7000
    assert found[2].action.params["target_us"] == 9000
    assert found[2].action.params["digest_interval_us"] == 100_000

    with switch.client(election_id=11) as other:
        other.become_primary()
        other.write([Update.delete(TableEntry("aqm", {"egress_port": Exact(2)}))])
    heard.note("its entry in table aqm is gone")
    with pytest.raises(DataPlaneError, match="these ports do: none"):
        device.write_gains("2", TUNED)


def test_of_two_controllers_one_stands_by(switch: Switch, heard: Heard, make: Callable) -> None:
    deploy(switch)
    by_second, by_third = Heard(), Heard()
    first = make(switch.address, "first")
    heard.up()
    second = make(switch.address, "second", by_second)
    by_second.note("another controller (election id 1) is in charge")
    by_second.up()
    first.write_gains("2", replace(TUNED, target_us=6000))
    assert by_second.changed() == GainsChanged("second", "2", first.read_gains()["2"])
    with pytest.raises(
        DataPlaneError, match=r"device second, port 2: .*\(election id 1\) is in charge; --election-id 2 "
    ):
        second.write_gains("2", TUNED)
    first.close()
    by_second.note("in charge now")
    by_second.up()
    second.write_gains("2", TUNED)
    third = make(switch.address, "third", by_third, election_id=30)  # by its own word above all
    by_third.up()
    by_second.note("election id 30) is in charge")
    third.write_gains("2", replace(TUNED, target_us=6000))
    assert by_second.changed().gains.target_us == 6000


def test_a_program_that_another_put_there_is_not_fought(
    switch: Switch, file: Path, heard: Heard, make: Callable
) -> None:
    make(switch.address, config=file)
    heard.up()
    with switch.client(election_id=5) as other:
        other.become_primary()
        main = PID_DELAY.source.with_name("law_probe.p4")
        other.set_pipeline(program.for_embedded(main) if switch.kind == "embedded" else program.for_bmv2(main))
        theirs = other.get_pipeline("COOKIE_ONLY").cookie
    heard.down("the switch's program has no aqm: it is not p4/pid_delay.p4")
    with switch.client() as other:
        assert other.get_pipeline("COOKIE_ONLY").cookie == theirs
    switch.kill()  # its state is lost with it
    heard.down("no connection")
    switch.start()
    assert heard.up().restored


def test_a_file_with_names_brings_the_program_that_has_them_and_keeps_it(
    switch: Switch, tmp_path: Path, heard: Heard, make: Callable
) -> None:
    file = tmp_path / "s1.toml"
    file.write_text(CONFIG + '[names]\n[[names.route]]\nprefix = "/weir"\nport = 1\n')
    device = make(switch.address, config=file)
    assert heard.up().restored  # it was empty
    with switch.client() as other:
        assert programs.of(other.info) is EDGE
        cookie = other.get_pipeline("COOKIE_ONLY").cookie
    device.close()
    make(switch.address, config=file)  # a controller that was started again, at a switch that has it all
    assert not heard.up().restored
    with switch.client() as other:
        assert other.get_pipeline("COOKIE_ONLY").cookie == cookie


def test_a_device_that_is_not_there_is_tried_again(heard: Heard, make: Callable) -> None:
    device = make(f"127.0.0.1:{free_port()}")
    pauses = [heard.down("no P4Runtime server answers there (Connection refused)").retry_s for _ in range(2)]
    assert FIRST_RETRY_S * 3 / 4 <= pauses[0] < pauses[1]
    device.close()
    device.close()


# A server that answers what it likes


@dataclass
class FakeSwitch:
    """A gRPC server with the program's P4Info and some entries. `answers`: what to do instead, by method."""

    info: P4Info
    cookie: int = 1
    entries: list[Message] = field(default_factory=list)
    answers: dict[str, Callable] = field(default_factory=dict)
    stream: queue.SimpleQueue = field(default_factory=queue.SimpleQueue)
    acknowledged: queue.SimpleQueue = field(default_factory=queue.SimpleQueue)
    address: str = ""
    ended: threading.Event = field(default_factory=threading.Event)

    def serve(self) -> grpc.Server:
        handlers = {name: self._handler(name) for name in METHODS if hasattr(self, f"_{name}")}
        server = grpc.server(ThreadPoolExecutor(20))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("p4.v1.P4Runtime", handlers),))
        self.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        return server

    def _handler(self, name: str) -> grpc.RpcMethodHandler:
        method = METHODS[name]

        def behave(request, context):
            return self.answers.get(name, getattr(self, f"_{name}"))(request, context)

        kind = f"{'stream' if method.client_streams else 'unary'}_{'stream' if method.server_streams else 'unary'}"
        make = getattr(grpc, f"{kind}_rpc_method_handler")
        return make(behave, method.request.FromString, method.response.SerializeToString)

    def _GetForwardingPipelineConfig(self, request: Message, _: grpc.ServicerContext) -> Message:
        answer = v1.GetForwardingPipelineConfigResponse()
        answer.config.cookie.cookie = self.cookie
        if request.response_type == request.P4INFO_AND_COOKIE:
            answer.config.p4info.CopyFrom(self.info.message)
        return answer

    def _Read(self, request: Message, _: grpc.ServicerContext) -> Iterator[Message]:
        answer = v1.ReadResponse()
        if request.entities[0].WhichOneof("entity") == "table_entry":
            answer.entities.extend(v1.Entity(table_entry=entry) for entry in self.entries)
        yield answer

    def _Write(self, request: Message, _: grpc.ServicerContext) -> Message:
        for update in request.updates:
            if update.entity.WhichOneof("entity") == "table_entry":
                new = update.entity.table_entry
                key = new.match[0].SerializeToString()
                self.entries = [new if e.match[0].SerializeToString() == key else e for e in self.entries]
        return v1.WriteResponse()

    def _StreamChannel(self, requests: Iterator[Message], context: grpc.ServicerContext) -> Iterator[Message]:
        out: queue.SimpleQueue = queue.SimpleQueue()
        self.stream = out

        def listen() -> None:
            try:
                for request in requests:
                    if request.WhichOneof("update") == "arbitration":
                        answer = v1.StreamMessageResponse()
                        answer.arbitration.CopyFrom(request.arbitration)
                        if not request.arbitration.HasField("election_id"):
                            answer.arbitration.status.code = grpc.StatusCode.NOT_FOUND.value[0]
                        out.put(answer)
                    elif request.WhichOneof("update") == "digest_ack":
                        self.acknowledged.put(request.digest_ack.list_id)
            except grpc.RpcError:
                pass  # the controller is gone
            out.put(None)

        threading.Thread(target=listen, daemon=True).start()
        yield from iter(out.get, None)

    def send(self, *data: Message, digest_id: int | None = None, list_id: int = 1) -> None:
        message = v1.StreamMessageResponse()
        message.digest.digest_id = self.info.digests[PID_DELAY.digest].id if digest_id is None else digest_id
        message.digest.list_id = list_id
        message.digest.data.extend(data)
        self.stream.put(message)

    def aqm(self, port: int, aqm: PortLaw = AQM) -> Message:
        return encode(PID_DELAY.law_entry(port, aqm, self.info), self.info).table_entry


@pytest.fixture(scope="module")
def p4info() -> P4Info:
    try:
        return program.local_p4info(PID_DELAY.source)
    except program.NoCompiler as error:
        pytest.skip(str(error))


@pytest.fixture
def fake(p4info: P4Info) -> Iterator[FakeSwitch]:
    made = FakeSwitch(p4info)
    made.entries = [made.aqm(1), made.aqm(2)]
    server = made.serve()
    yield made
    made.ended.set()
    server.stop(0).wait()


def wait_until(true: Callable[[], bool]) -> None:
    """The patience is for a busy machine."""
    end = time.monotonic() + 5 * PATIENCE_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_an_answer_without_end_is_cut_off(fake: FakeSwitch) -> None:
    """64 MiB are read of it, whatever the switch would send; the next read is as ever."""
    part = v1.ReadResponse(entities=[v1.Entity(table_entry=fake.entries[0])])
    part.entities[0].table_entry.metadata = bytes(1 << 20)  # one name for many entries
    sent = queue.SimpleQueue()

    def endless(_: Message, context: grpc.ServicerContext) -> Iterator[Message]:
        while context.is_active():
            sent.put(None)
            yield part

    with Client(fake.address, DEVICE_ID, timeout_s=10 * PATIENCE_S) as client:
        table = TableEntry(PID_DELAY.law_table)
        assert len(client.read(table)) == 2
        fake.answers["Read"] = endless
        with pytest.raises(DeviceError, match="is longer than 64 MiB; read fewer things at once"):
            client.read(table)
        assert sent.qsize() * part.ByteSize() < 2 * (64 << 20)
        del fake.answers["Read"]
        assert len(client.read(table)) == 2


def test_what_a_switch_sends_unasked_is_bounded_by_its_bytes(fake: FakeSwitch) -> None:
    """100 packets of 1 MiB: those beyond 64 MiB are counted as lost, and others are kept again once they are taken."""
    with Client(fake.address, DEVICE_ID) as client:
        client.become_primary()
        for _ in range(100):
            fake.stream.put(v1.StreamMessageResponse(packet=v1.PacketIn(payload=bytes(1 << 20))))
        wait_until(lambda: client.lost_packets >= 37)  # the headers count too, so that 63 are kept
        packets = client.packets(PATIENCE_S)
        assert [len(next(packets).payload) for _ in range(63)] == [1 << 20] * 63
        fake.stream.put(v1.StreamMessageResponse(packet=v1.PacketIn(payload=b"small")))
        assert next(packets).payload == b"small"
        assert client.lost_packets == 37


def test_refusals_of_a_switch_are_counted_beyond_a_bound(fake: FakeSwitch) -> None:
    with Client(fake.address, DEVICE_ID) as client:
        client.become_primary()
        for _ in range(10_100):
            fake.stream.put(v1.StreamMessageResponse(error=v1.StreamError(canonical_code=3, message="no")))
        wait_until(lambda: client.lost_refusals >= 100)
        assert client.refused == ["INVALID_ARGUMENT: no"] * 10_000


RECORD = (2, 1_000_000, 15_000, 1 << 39, 30_000, 16_384 * 256, 5, 100, 150_000, 10, 15_000, 7, 3)


def test_digests_become_samples(fake: FakeSwitch, heard: Heard, make: Callable) -> None:
    make(fake.address, ports=["2"])
    heard.up()
    back = (RECORD[0], 5, *RECORD[2:])  # its clock went back: told as it is
    fake.send(digest_data(RECORD), digest_data((1, *RECORD[1:])), digest_data((9, *RECORD[1:])), digest_data(back))
    sample = heard.sample()
    rate_bit_s = 8 * 2**TUNED.dq_shift * 10**6 // 16_384  # so many bytes in 16,384 us
    assert sample == Sample("s1", "2", 1_000_000, 15_000, 0.5, 0.25, 30_000, rate_bit_s, 90, 135_000, 3, 7, 10, 5)
    assert heard.sample().t_us == 5
    assert fake.acknowledged.get(timeout=PATIENCE_S) == 1


def test_nonsense_in_digests_is_told_and_passed_over(fake: FakeSwitch, heard: Heard, make: Callable) -> None:
    make(fake.address)
    heard.up()
    short, bare, steep = digest_data(RECORD), v1.P4Data(bitstring=b"\1"), digest_data(RECORD)
    del short.struct.members[3:]
    steep.struct.members[FIELDS.index("u_q40")].bitstring = b"\xff" * 7
    fake.send(short, bare, steep, digest_data(RECORD))
    for text in ("record of 3 members", "record of 0 members", "must be 0 .. 1"):
        assert "nonsense" in heard.note(text).text
    assert heard.sample().t_us == RECORD[1]
    for _ in range(99):
        fake.send(short)
    fake.send(digest_data(RECORD), digest_id=77)  # of another digest
    fake.send(digest_data(RECORD))
    heard.note("(10 times by now)")
    heard.note("(100 times by now)")
    heard.sample()
    assert sum(isinstance(event, Note) and "3 members" in event.text for event in heard.all) == 3


def test_nonsense_in_tables_is_told_by_port(fake: FakeSwitch, heard: Heard, make: Callable) -> None:
    wild, other = fake.aqm(3), fake.aqm(4)
    action = fake.info.actions["pid_delay"]
    place = next(param.id for param in action.params if param.name == "z1_q16")
    next(param for param in wild.action.action.params if param.param_id == place).value = b"\0"
    other.CopyFrom(
        encode(
            TableEntry("aqm", {"egress_port": Exact(4)}, Call("no_aqm")),
            fake.info,
        ).table_entry
    )
    fake.entries += [wild, other]
    device = make(fake.address)
    heard.note("has gains that the law does not have")
    assert set(heard.up().gains) == {"1", "2"} == set(device.read_gains())
    fake.entries[0].match[0].exact.value = b"\xff\xff\xff"
    heard.down("does not fit 9 bits")
    fake.entries[0].match[0].exact.value = b"\1"
    heard.up()
    del fake.entries[0].match[:]
    heard.note("an entry of table aqm without a port")


def refuse(code: grpc.StatusCode) -> Callable:
    def answer(_: Message, context: grpc.ServicerContext) -> None:
        context.abort(code, "said the test")

    return answer


def test_errors_and_silence_take_it_down_and_no_further(fake: FakeSwitch, heard: Heard, make: Callable) -> None:
    def stay_silent(_: Message, context: grpc.ServicerContext) -> None:
        fake.ended.wait()
        context.abort(grpc.StatusCode.CANCELLED, "the test is over")

    make(fake.address, timeout_s=0.5)
    heard.up()
    for method, answer, why in [
        ("Read", refuse(grpc.StatusCode.INTERNAL), "INTERNAL: said the test"),
        ("Read", stay_silent, "DEADLINE_EXCEEDED"),
        ("GetForwardingPipelineConfig", refuse(grpc.StatusCode.UNKNOWN), "UNKNOWN: said the test"),
        ("GetForwardingPipelineConfig", lambda *_: v1.GetForwardingPipelineConfigResponse(), "has lost its program"),
        ("StreamChannel", lambda *_: iter(()), "the device ended the stream"),
    ]:
        fake.answers = {method: answer}
        if method == "StreamChannel":
            fake.stream.put(None)
        assert heard.down(why).retry_s > 0
        fake.answers = {}
        heard.up()


def test_a_write_whose_answer_is_lost_is_looked_after(fake: FakeSwitch, heard: Heard, make: Callable) -> None:
    device = make(fake.address)
    heard.up()
    wanted = [replace(TUNED, target_us=us) for us in (6000, 7000, 8000)]

    def after(happens: bool, and_reads: bool) -> Callable:
        def write(request: Message, context: grpc.ServicerContext) -> None:
            if happens:
                fake._Write(request, context)
            if not and_reads:
                fake.answers["Read"] = refuse(grpc.StatusCode.UNAVAILABLE)
            context.abort(grpc.StatusCode.UNAVAILABLE, "the line is cut")

        return write

    fake.answers["Write"] = after(happens=True, and_reads=True)
    device.write_gains("2", wanted[0])
    assert device.read_gains()["2"].target_us == 6000
    fake.answers["Write"] = after(happens=False, and_reads=True)
    with pytest.raises(DataPlaneError, match=r"port 2: gains not set: .*the line is cut"):
        device.write_gains("2", wanted[1])
    assert device.read_gains()["2"].target_us == 6000
    fake.answers["Write"] = after(happens=True, and_reads=False)
    with pytest.raises(DataPlaneError, match="will be seen when it answers again"):
        device.write_gains("2", wanted[2])
    heard.down("UNAVAILABLE")
    fake.answers = {}
    assert heard.up().gains["2"].target_us == 8000
    assert not [event for event in heard.all if isinstance(event, GainsChanged)]  # it was ours
    device.write_gains("2", wanted[1])
