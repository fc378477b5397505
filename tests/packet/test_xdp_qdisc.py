# SPDX-License-Identifier: Apache-2.0
"""`--hook qdisc`: a kernel without BPF qdiscs is left as it was."""

import json
from pathlib import Path

import pytest

_BTF = Path("/sys/kernel/btf/vmlinux")


def test_a_kernel_without_bpf_qdiscs_is_left_as_it_was(rig):
    if _BTF.exists() and b"bpf_struct_ops_Qdisc_ops" in _BTF.read_bytes():
        pytest.skip("this kernel has BPF qdiscs")
    before = rig.router.run("tc", "-j", "qdisc", "show", "dev", "rb").stdout
    assert rig.weir("attach", "rb", "--hook", "qdisc", "--rate", "10mbit", check=False).returncode == 1
    assert json.loads(rig.weir("status", "--json", check=False).stdout or "[]") == []
    assert rig.router.run("tc", "-j", "qdisc", "show", "dev", "rb").stdout == before


@pytest.mark.parametrize("words", [("--shape", "10mbit"), ("--bands",), ("--signal", "poll"), ("--class", "1:10")])
def test_options_of_other_hooks_are_rejected(rig, words):
    assert rig.weir("attach", "rb", "--hook", "qdisc", *words, check=False).returncode == 1
