# SPDX-License-Identifier: Apache-2.0
"""Runs in a lab that has netem and the queue disciplines a stock kernel has: stock Mininet's TCLink, then one tree
after another under an interface, and what weir-xdp says to each. Prints one JSON line a case.
"""

import json
import subprocess
import time

from mininet.link import TCLink
from mininet.net import Mininet
from mininet.topo import Topo

from weirlab import paths

REPO = paths.clone()

WEIR = REPO / "build" / "bin" / "weir-xdp"
ATTACH = ("--gains", str(REPO / "controller" / "profiles" / "tuned.toml"))
TREES = {
    "htb over netem that delays": "root handle 5: htb default 1;class 5:1 htb rate 10mbit;parent 5:1 netem delay 50ms",
    "netem that delays, tbf in it": "root handle 1: netem delay 50ms;parent 1: tbf rate 10mbit burst 5k limit 100000",
    "netem with jitter": "root netem delay 0ms 5ms",
    "netem with slots": "root netem slot 5ms 10ms",
    "fq_codel": "root fq_codel",
    "htb over fq_codel": "root handle 5: htb default 1;class 5:1 htb rate 10mbit;parent 5:1 fq_codel",
    "cake": "root cake bandwidth 10mbit",
    "sfq": "root sfq",
    "fq": "root fq",
    "prio": "root prio",
    "hfsc without a class": "root hfsc",
    "netem with a rate": "root netem rate 10mbit limit 100",
    "htb over netem with loss": "root handle 5: htb default 1;class 5:1 htb rate 10mbit;parent 5:1 netem loss 1%",
    "hfsc with a class": "root handle 1: hfsc default 1;class 1:1 hfsc ls rate 10mbit ul rate 10mbit",
    "pie": "root pie",
}


def run(*words: str, text: str = "") -> dict:
    done = subprocess.run(list(map(str, words)), input=text, capture_output=True, text=True)
    return {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr.strip()}


def tell(case: str, **what) -> None:
    print(json.dumps({"case": case, **what}), flush=True)


def attach(dev: str, *options: str) -> dict:
    """Output of attach; an attached law is detached again."""
    done = run(WEIR, "attach", dev, *ATTACH, *options)
    if not done["status"]:
        run(WEIR, "detach", dev)
    return done


class Line(Topo):
    """left - router - right; the router is Mininet's root node, so that interfaces and BPF file system are at hand."""

    def build(self, apart: bool) -> None:
        for name, number in (("left", 1), ("right", 2)):
            self.addHost(name, ip=f"10.0.{number}.2/24", defaultRoute=f"via 10.0.{number}.1")
        self.addHost("router", inNamespace=False, ip=None)
        near, far = ({"delay": "50ms"}, {"bw": 10}) if apart else ({}, {"bw": 10, "delay": "50ms"})
        self.addLink("left", "router", cls=TCLink, params2={"ip": "10.0.1.1/24"}, **near)
        self.addLink("router", "right", cls=TCLink, params1={"ip": "10.0.2.1/24"}, **far)


def tclink(apart: bool) -> None:
    """Rate and delay on one TCLink, or the rate on one and the delay on the one before it."""
    Mininet.inited = True  # it would raise the machine's limits by sysctl
    net = Mininet(topo=Line(apart=apart), controller=None)
    try:
        net.start()
        run("sysctl", "-w", "net.ipv4.ip_forward=1")
        tell("TCLink", apart=apart, tree=run("tc", "qdisc", "show", "dev", "router-eth1")["stdout"])
        for options in ((), ("--signal", "poll"), ("--peer", "router-eth0"), ("--rate", "10mbit", "--hook", "tc")):
            tell("TCLink attach", apart=apart, options=options, **attach("router-eth1", *options))
        if apart:
            run(WEIR, "attach", "router-eth1", *ATTACH)
            tell("TCLink ping", text=net["left"].cmd("ping -c 8 -i 0.1 -W 5 10.0.2.2"))
            run(WEIR, "detach", "router-eth1")
    finally:
        net.stop()


def trees() -> None:
    run("ip", "link", "add", "va", "type", "veth", "peer", "name", "vb")
    run("ip", "link", "set", "va", "up")
    run("ip", "link", "set", "vb", "up")
    for case, tree in TREES.items():
        lines = ["qdisc replace dev va root handle 99: pfifo", "qdisc del dev va root"]  # in any state before
        for part in tree.split(";"):
            kind, words = part.split(maxsplit=1)
            if kind == "class":
                lines.append(f"class add dev va parent {words.partition(':')[0]}: classid {words}")
            else:
                lines.append(f"qdisc add dev va {part}")
        done = run("tc", "-batch", "-", text="\n".join(lines))
        assert not done["status"], (case, lines, done)
        plain = attach("va")
        tell(case, plain=plain, whole=attach("va", "--whole-tree") if plain["status"] else None)


def running() -> None:
    """netem comes below the root while the poll process works, and goes again."""
    run("tc", "qdisc", "del", "dev", "va", "root")
    run("tc", "qdisc", "add", "dev", "va", "root", "handle", "5:", "htb", "default", "1")
    run("tc", "class", "add", "dev", "va", "parent", "5:", "classid", "5:1", "htb", "rate", "10mbit")
    run(WEIR, "attach", "va", *ATTACH, "--signal", "poll", "--fixed-probability", "1")
    for case, words in (
        ("before", None),
        ("netem came", ("add", "dev", "va", "parent", "5:1", "handle", "10:", "netem", "delay", "50ms")),
        ("netem went", ("del", "dev", "va", "parent", "5:1", "handle", "10:")),
    ):
        if words:
            assert not run("tc", "qdisc", *words)["status"]
        wanted = 0 if case == "netem came" else 1
        for _ in range(300):
            status = json.loads(run(WEIR, "status", "va", "--json")["stdout"])
            if status["drop_probability"] == wanted:
                break
            time.sleep(0.1)
        tell(f"running: {case}", probability=status["drop_probability"], trouble=status.get("trouble", ""))
    run(WEIR, "detach", "va")


if __name__ == "__main__":
    run("mount", "-t", "bpf", "bpf", "/sys/fs/bpf")
    for apart in (False, True):
        tclink(apart)
    trees()
    running()
