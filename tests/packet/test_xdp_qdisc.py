# SPDX-License-Identifier: Apache-2.0
"""`--hook qdisc`: flow queues with the law in BPF. A kernel without BPF qdiscs is left as it was; the qdisc itself runs
in a virtual machine (vm.py)."""

import json
from pathlib import Path

import pytest
import vm
from packet_rig import BUILD

_BTF = Path("/sys/kernel/btf/vmlinux")

# Interface v0 with 10 Mbit/s to a namespace. Each part prints its results as lines.
_SCRIPT = """
ip() { /weir/ip "$@"; }; tc() { /weir/tc "$@"; }; ping() { /weir/ping "$@"; }
net() {
  ip link add v0 type veth peer name v1 netns far
  ip link set v0 up; ip -n far link set v1 up
  ip addr add 10.0.0.1/24 dev v0; ip -n far addr add 10.0.0.2/24 dev v1
}
root() { tc qdisc show dev v0 root | while read -r _ kind _; do echo "$kind"; done; }
number() { weir-xdp status v0 --json | tr -d ' \\n{}[]' | tr ',' '\\n' | sed -n "s/\\"$1\\"://p"; }
text() { number "$1" | tr -d '"'; }
# Programs and maps, after the kernel has had time to free those that nobody holds.
left() {
  for _ in $(seq 60); do
    count=$(( $(bpftool prog show | grep -c weir_) + $(bpftool map show | grep -c -e flow_queues -e weir_) ))
    [ "$count" = 0 ] && break
    sleep 0.5
  done
  echo "$count"
}
ip netns add far; ip -n far link set lo up
net
echo RESULT before "$(root)"
weir-xdp attach v0 --hook qdisc --rate 10mbit; echo RESULT attach $?
echo RESULT kind "$(root)"
echo RESULT hook "$(text hook)" "$(text signal)" "$(number rate_bit_s)"

flood send 10.0.0.2 9 60 & flood=$!
ping -q -i 0.05 -c 40 10.0.0.2 >/ping; echo RESULT ping $? "$(sed -n 's/.* \\([0-9]*\\) received.*/\\1/p' /ping)"
echo RESULT dropped "$(number dropped_aqm_packets)" "$(number dropped_limit_packets)"
weir-xdp set v0 limit_packets=5; echo RESULT set $?
sleep 1
echo RESULT limited "$(number dropped_limit_packets)"
kill $flood; sleep 0.2
echo RESULT empty "$(number backlog_packets)"
weir-xdp set v0 limit_packets=10000

ip link add w0 type veth peer name w1
tc qdisc add dev w0 root "$(root)"; echo RESULT other_interface $?
tc qdisc replace dev v0 handle 9: root "$(root)"; echo RESULT second_instance $?
weir-xdp attach v0 --hook qdisc --rate 10mbit; echo RESULT second_attach $?
weir-xdp ensure v0 --hook qdisc --rate 10mbit --look; echo RESULT look $?

for space in "" "ip netns exec far"; do $space sh -c 'echo 1 >/proc/sys/net/ipv4/tcp_ecn'; done
sleep 60 | ip netns exec far nc -l -p 5001 >/dev/null &
sleep 1
dd if=/dev/zero bs=1400 count=3000 2>/dev/null | nc 10.0.0.2 5001 & tcp=$!
sleep 2
echo RESULT marked "$(number marked_packets)"
kill $tcp
weir-xdp detach v0; echo RESULT detach $?
echo RESULT after "$(root)" "$(left)"

weir-xdp attach v0 --hook qdisc; echo RESULT again $?
ping -q -c 3 -i 0.1 10.0.0.2 >/dev/null; echo RESULT unshaped $?
tc qdisc del dev v0 root
weir-xdp ensure v0 --hook qdisc; echo RESULT ensure $? "$(root)"
weir-xdp detach v0 --pins-only; echo RESULT pins_only $? "$(root)"
weir-xdp detach v0; echo RESULT without_pins $? "$(root)" "$(left)"

weir-xdp attach v0 --hook qdisc
rm -r /sys/fs/bpf/weir/*
weir-xdp attach v0 --hook qdisc; echo RESULT lost_pins $? "$(root)"
ip link del v0
weir-xdp detach v0; echo RESULT removed $? "$(left)"

net
tc qdisc add dev v0 root handle 1: pfifo
weir-xdp attach v0 --hook qdisc; echo RESULT taken $? "$(root)"
"""


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


@pytest.fixture(scope="module")
def machine(tools, tmp_path_factory):
    if reason := vm.missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("vm")
    return vm.run(_SCRIPT, {name: BUILD / name for name in ("weir-xdp", "flood")}, ("veth", "sch_ingress"), folder)


def test_the_qdisc_is_attached_and_reported(machine):
    assert machine["attach"] == ["0"]
    assert machine["kind"][0].startswith("weir_")
    assert machine["hook"] == ["qdisc", "qdisc", "10000000"]


def test_a_flood_is_dropped_by_its_own_law_alone(machine):
    assert machine["ping"] == ["0", "40"]
    by_law, by_limit = map(int, machine["dropped"])
    assert by_law > 0
    assert by_limit == 0


def test_the_limit_of_packets_can_be_set(machine):
    assert machine["set"] == ["0"]
    assert int(machine["limited"][0]) > 0
    assert machine["empty"] == ["0"]


def test_flow_queues_have_one_interface(machine):
    assert machine["other_interface"] != ["0"]
    assert machine["second_instance"] != ["0"]
    assert machine["second_attach"] == ["1"]


def test_ensure_finds_no_difference(machine):
    assert machine["look"] == ["0"]


def test_ect_packets_are_marked_before_the_qdisc(machine):
    assert int(machine["marked"][0]) > 0


def test_detach_leaves_nothing(machine):
    assert machine["detach"] == ["0"]
    assert machine["after"] == [*machine["before"], "0"]


def test_a_removed_interface_leaves_nothing(machine):
    assert machine["removed"] == ["0", "0"]


def test_a_qdisc_without_pins_is_found(machine):
    assert machine["pins_only"] == ["0", *machine["kind"]]
    assert machine["without_pins"] == ["0", *machine["before"], "0"]
    assert machine["lost_pins"] == ["0", *machine["kind"]]


def test_a_removed_root_is_put_back_by_ensure(machine):
    assert machine["again"] == ["0"]
    assert machine["unshaped"] == ["0"]
    assert machine["ensure"][0] == "0"
    assert machine["ensure"][1].startswith("weir_")


def test_the_root_of_another_tool_stays(machine):
    assert machine["taken"] == ["1", "pfifo"]
    assert machine["exit"] == ["0"]
