# SPDX-License-Identifier: Apache-2.0
"""The descriptor set that Python and Rust both read."""

from pathlib import Path

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from weir.p4runtime import descriptors
from weir.p4runtime.descriptors import DescriptorError, in_order, serialized_in


def test_the_set_is_self_contained_and_ordered() -> None:
    files = descriptors.file_set()
    seen: set[str] = set()
    for file in files.file:
        assert set(file.dependency) <= seen
        seen.add(file.name)
    assert {"p4/v1/p4runtime.proto", "p4/config/v1/p4info.proto", "google/rpc/status.proto"} <= seen
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    service = pool.FindServiceByName("p4.v1.P4Runtime")
    assert [m.name for m in service.methods] == [
        "Write",
        "Read",
        "SetForwardingPipelineConfig",
        "GetForwardingPipelineConfig",
        "StreamChannel",
        "Capabilities",
    ]
    assert pool.FindMessageTypeByName("p4.v1.RegisterEntry").fields_by_name["data"].number == 3


def test_the_switch_is_built_from_the_same_descriptors() -> None:
    file = Path(__file__).parents[3] / "p4" / "switch" / "weir-p4" / "p4runtime.fds"
    assert FileDescriptorSet.FromString(file.read_bytes()) == descriptors.file_set(), (
        f"{file} differs from PyPI's p4runtime; in controller/ run `python -m weir.p4runtime.descriptors {file}`"
    )


def test_write_is_repeatable_and_leaves_an_equal_file_alone(tmp_path: Path) -> None:
    file = tmp_path / "new" / "p4runtime.fds"
    descriptors.write(file)
    assert FileDescriptorSet.FromString(file.read_bytes()) == descriptors.file_set()
    before = file.stat()
    descriptors.write(file)
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    file.write_bytes(b"old")
    descriptors.write(file)
    assert FileDescriptorSet.FromString(file.read_bytes()) == descriptors.file_set()
    assert [entry.name for entry in file.parent.iterdir()] == ["p4runtime.fds"]


def test_both_forms_of_generated_code_are_read_without_running_them() -> None:
    old = "raise SystemExit\nDESCRIPTOR = _descriptor.FileDescriptor(name='a', serialized_pb=b'\\n\\x01a')"
    new = "raise SystemExit\nDESCRIPTOR = _pool.Default().AddSerializedFile(b'\\n\\x01a')"
    assert serialized_in(old, "old") == serialized_in(new, "new") == b"\n\x01a"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def (", "a_pb2.py: not Python, line 1"),
        ("x = 1", "a_pb2.py: 0 serialized file descriptors"),
        ("p.AddSerializedFile(b'1')\np.AddSerializedFile(b'2')", "a_pb2.py: 2 serialized file descriptors"),
        ("p.AddSerializedFile(bytes(3))", "a_pb2.py: 0 serialized file descriptors"),
    ],
)
def test_other_sources_are_refused(source: str, message: str) -> None:
    with pytest.raises(DescriptorError, match=message):
        serialized_in(source, "a_pb2.py")


def test_missing_and_circular_files_are_named() -> None:
    with pytest.raises(DescriptorError, match=r"no/such\.proto is in no installed package"):
        in_order({"a": FileDescriptorProto(name="a", dependency=["no/such.proto"])}, ("a",))
    circle = {n: FileDescriptorProto(name=n, dependency=[d]) for n, d in [("a", "b"), ("b", "a")]}
    with pytest.raises(DescriptorError, match="a depends on itself: a -> b -> a"):
        in_order(circle, ("a",))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert descriptors.main([str(tmp_path / "out.fds")]) == 0
    assert descriptors.main([]) == 2
    assert descriptors.main(["--help"]) == 0
    (tmp_path / "file").write_text("")
    assert descriptors.main([str(tmp_path / "file" / "out.fds")]) == 1
    error = capsys.readouterr().err
    assert f"descriptors: cannot write {tmp_path / 'file' / 'out.fds'}: " in error
