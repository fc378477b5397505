# SPDX-License-Identifier: Apache-2.0
"""P4Runtime's protobuf descriptors as one self-contained FileDescriptorSet, for Python and Rust alike.

The PyPI package `p4runtime` carries generated code too old for today's protobuf, which fails on import; the serialized
descriptors inside it are good. They are read as text and never run. `python -m weir.p4runtime.descriptors OUT.fds`
writes the set to a file, such as p4/switch/weir-p4/p4runtime.fds; `file_set()` gives it to Python. Debian's package of
Weir has that file beside this one, and then needs no package of PyPI.
"""

import ast
import importlib
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from ..files import write_whole

PACKAGE = "p4runtime"
ROOTS = ("p4/v1/p4runtime.proto", "google/rpc/code.proto")
"""Root files of the set; their dependencies come with them. google.rpc.Code names the codes of p4.v1.Error."""

MADE = Path(__file__).with_name("p4runtime.fds")
"""The set as a file, where a package brings it; in a clone it is not there."""


class DescriptorError(Exception):
    """The descriptors can't be had; the message names package and file."""


def serialized_in(source: str, name: str) -> bytes:
    """The serialized FileDescriptorProto in the text of a generated `*_pb2.py`, old form or new.

    Old: `_descriptor.FileDescriptor(..., serialized_pb=b'...')`; new: `AddSerializedFile(b'...')`. `name` is for
    messages. Raises DescriptorError when there isn't exactly one.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise DescriptorError(f"{name}: not Python, line {error.lineno}: {error.msg}") from None
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "FileDescriptor":
            values = [keyword.value for keyword in node.keywords if keyword.arg == "serialized_pb"]
        elif node.func.attr == "AddSerializedFile":
            values = node.args[:1]
        else:
            continue
        found += [v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, bytes)]
    if len(found) != 1:
        raise DescriptorError(f"{name}: {len(found)} serialized file descriptors in it; there must be exactly one")
    return found[0]


def _read_package() -> dict[str, FileDescriptorProto]:
    """The package's files by their proto names. Found by the installer's list: a folder `p4` may be on the path too."""
    try:
        listed = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        raise DescriptorError(f"the Python package {PACKAGE} is not installed (setup/requirements.in)") from None
    protos = {}
    for file in listed:
        if not file.name.endswith("_pb2.py"):
            continue
        try:
            proto = FileDescriptorProto.FromString(serialized_in(file.read_text(encoding="utf-8"), str(file)))
        except (OSError, DecodeError) as error:
            raise DescriptorError(f"{PACKAGE}: {file}: {error}") from None
        protos[proto.name] = proto
    return protos


def _read_installed(name: str) -> FileDescriptorProto:
    """A google/... file from the generated module that protobuf or googleapis-common-protos installs."""
    try:
        importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError as error:
        raise DescriptorError(f"{name} is in no installed package: {error}") from None
    proto = FileDescriptorProto()
    descriptor_pool.Default().FindFileByName(name).CopyToProto(proto)
    return proto


def in_order(files: dict[str, FileDescriptorProto], roots: tuple[str, ...]) -> FileDescriptorSet:
    """`roots` and all they depend on, each file after its dependencies. Files not in `files` are the installed ones."""
    known = dict(files)
    result = FileDescriptorSet()
    done: set[str] = set()

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise DescriptorError(f"{name} depends on itself: {' -> '.join((*above, name))}")
        if name in done:
            return
        if name not in known:
            known[name] = _read_installed(name)
        for dependency in known[name].dependency:
            add(dependency, (*above, name))
        done.add(name)
        result.file.append(known[name])

    for root in roots:
        add(root, ())
    return result


@cache
def file_set() -> FileDescriptorSet:
    """P4Runtime, P4Info, google.rpc.Status and Code and their dependencies, dependencies first."""
    if MADE.exists():
        try:
            return FileDescriptorSet.FromString(MADE.read_bytes())
        except (OSError, DecodeError) as error:
            raise DescriptorError(f"{MADE}: {error}") from None
    files = _read_package()
    if ROOTS[0] not in files:
        raise DescriptorError(f"{ROOTS[0]} is not in the Python package {PACKAGE} {metadata.version(PACKAGE)}")
    return in_order(files, ROOTS)


def write(path: Path) -> None:
    """The set, whole or not at all; the same bytes each time, and a file that has them already keeps its date."""
    data = file_set().SerializeToString(deterministic=True)
    if path.exists() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, data)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        asked = arguments[:1] in (["--help"], ["-h"])
        print("usage: python -m weir.p4runtime.descriptors OUT.fds", file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    try:
        write(Path(arguments[0]))
    except DescriptorError as error:
        print(f"descriptors: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"descriptors: cannot write {arguments[0]}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
