# SPDX-License-Identifier: Apache-2.0
"""Runs in a lab with a stock kernel's queue disciplines: the AQM of a leaf below the law, which attach disables and
detach restores. Prints one JSON line a case."""

import json
import os
import subprocess
import sys

from stepped import run_until

from weirlab import paths

REPO = paths.clone()
WEIR = REPO / "build" / "bin" / "weir-xdp"
HTB = "qdisc add dev va root handle 5: htb default 1\nclass add dev va parent 5: classid 5:1 htb rate 10mbit\n"
TWO = HTB + "class add dev va parent 5: classid 5:2 htb rate 5mbit\n"
LEAF = "qdisc add dev va parent 5:1 handle 10: "
KINDS = {
    "fq_codel": "fq_codel target 7ms interval 90ms ecn",
    "fq_codel with a threshold": "fq_codel ce_threshold 3ms",
    "codel": "codel target 20ms",
    "fq_pie": "fq_pie target 11ms",
    "pie": "pie target 11ms",
    "cake": "cake unlimited rtt 60ms",
    "fq": "fq ce_threshold 4ms",
}
FIXED = {
    "red": "red limit 100000 avpkt 1000 bandwidth 10mbit",
    "sfq": "sfq redflowlimit 100000 min 8000 max 60000 probability 0.2",
}
NOTHING_TO_DO = {"fq alone": "fq", "sfq alone": "sfq", "pfifo": "pfifo limit 100"}


def run(*words: object, text: str = "") -> dict:
    done = subprocess.run(list(map(str, words)), input=text, capture_output=True, text=True, check=False)
    return {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr.strip()}


def weir(*words: object) -> dict:
    return run(WEIR, *words)


def tell(case: str, **what) -> None:
    print(json.dumps({"case": case, **what}), flush=True)


def tc(script: str) -> None:
    done = run("tc", "-batch", "-", text=script + "\n")
    assert not done["status"], (script, done)


def tree(script: str) -> None:
    run("tc", "qdisc", "replace", "dev", "va", "root", "handle", "99:", "pfifo")
    run("tc", "qdisc", "del", "dev", "va", "root")
    tc(script)


def qdiscs() -> list[str]:
    return run("tc", "-d", "qdisc", "show", "dev", "va")["stdout"].splitlines()


def off_list() -> list:
    return off_list_of(weir("status", "va", "--json"))


def kinds() -> None:
    for case, words in {**KINDS, **NOTHING_TO_DO}.items():
        tree(HTB + LEAF + words)
        before = qdiscs()
        attached = weir("attach", "va", "--leaf-aqm", "off")
        during, listed = qdiscs(), off_list()
        again = weir("ensure", "va", "--leaf-aqm", "off", "--json")
        detached = weir("detach", "va")
        tell(case, before=before, during=during, after=qdiscs(), attached=attached, again=again, detached=detached,
             listed=listed)  # fmt: skip


def changed() -> None:
    """Another tool's changes meanwhile."""
    for case, change in {
        "another target": "qdisc change dev va parent 5:1 handle 10: fq_codel target 2ms",
        "only a threshold": "qdisc change dev va parent 5:1 handle 10: fq_codel ce_threshold 1ms",
        "another leaf": "qdisc replace dev va parent 5:1 handle 11: fq_codel",
        "the leaf removed": "qdisc del dev va parent 5:1 handle 10:",
        "the tree removed": "qdisc del dev va root",
    }.items():
        tree(HTB + LEAF + KINDS["fq_codel"])
        weir("attach", "va", "--leaf-aqm", "off")
        tc(change)
        before = qdiscs()
        detached = weir("detach", "va")
        tell(case, before=before, after=qdiscs(), detached=detached, pins=run("ls", "/sys/fs/bpf/weir")["stdout"])


def ensured() -> None:
    tree(HTB + LEAF + KINDS["fq_codel"])
    before = qdiscs()
    weir("attach", "va", "--whole-tree")
    looked = weir("ensure", "va", "--leaf-aqm", "off", "--look", "--json")
    unchanged = qdiscs()
    weir("ensure", "va", "--leaf-aqm", "off")
    tc("qdisc change dev va parent 5:1 handle 10: fq_codel target 2ms")
    mended = weir("ensure", "va", "--leaf-aqm", "off", "--json")
    during = qdiscs()
    restored = weir("ensure", "va", "--leaf-aqm", "on", "--json")
    tell("ensure", before=before, looked=looked, unchanged=unchanged, mended=mended, during=during, restored=restored,
         after=qdiscs())  # fmt: skip
    weir("detach", "va")


def replaced_program() -> None:
    """The attachment gets new pins while the law stays on."""
    tree(HTB + LEAF + KINDS["fq_codel"])
    before = qdiscs()
    weir("attach", "va", "--leaf-aqm", "off", "--signal", "poll")
    tc("class change dev va parent 5: classid 5:1 htb rate 10mbit")
    anew = weir("ensure", "va", "--class", "5:1", "--json")
    during, listed = qdiscs(), off_list_of(weir("status", "va/5:1", "--json"))
    weir("detach", "va")
    tell("replaced", before=before, anew=anew, during=during, listed=listed, after=qdiscs())


def off_list_of(status: dict) -> list:
    return json.loads(status["stdout"] or "{}").get("leaf_aqm_off", [])


def classes() -> None:
    tree(TWO + LEAF + "fq_codel\nqdisc add dev va parent 5:2 handle 20: codel")
    before = qdiscs()
    one = weir("attach", "va/5:1", "--leaf-aqm", "off")
    first = qdiscs()
    two = weir("attach", "va/5:2", "--leaf-aqm", "off")
    both = qdiscs()
    weir("detach", "va/5:1")
    second = qdiscs()
    weir("detach", "va")
    tell("classes", before=before, one=one, first=first, two=two, both=both, second=second, after=qdiscs())


def refused() -> None:
    for case, words in FIXED.items():
        tree(HTB + LEAF + words)
        before = qdiscs()
        tell(case, before=before, attached=weir("attach", "va", "--leaf-aqm", "off"), after=qdiscs(),
             pins=run("ls", "/sys/fs/bpf/weir")["stdout"])  # fmt: skip
    tree(HTB + LEAF + "fq_codel")
    tell("plain", attached=weir("attach", "va"), whole=weir("attach", "va", "--whole-tree"))
    weir("detach", "va")
    tree("qdisc add dev va root handle 5: drr\nclass add dev va parent 5: classid 5:1 drr\n"
         "class add dev va parent 5: classid 5:2 drr\n" + LEAF + "fq_codel")  # fmt: skip
    before = qdiscs()
    tell("drr", before=before, one=weir("attach", "va", "--leaf-aqm", "off"),
         attached=weir("attach", "va", "--leaf-aqm", "off", "--whole-tree"), during=qdiscs(),
         detached=weir("detach", "va"), after=qdiscs())  # fmt: skip


def shaped() -> None:
    run("tc", "qdisc", "del", "dev", "va", "root")
    for case, words in {"flows": ["--flows", "--no-bands"], "bands": ["--flows"]}.items():
        before = qdiscs()
        attached = weir("attach", "va", "--shape", "10mbit", *words)
        during = qdiscs()
        status = json.loads(weir("status", "va", "--json")["stdout"])
        again = weir("ensure", "va", "--shape", "20mbit", "--json")
        parent = "7e1d:1" if "--no-bands" in words else "7e1f:3"
        tc(f"qdisc change dev va parent {parent} handle 7e1e: fq_codel target 5ms")
        mended = weir("ensure", "va", "--shape", "20mbit", "--json")
        later = qdiscs()
        detached = weir("detach", "va")
        tell(case, before=before, attached=attached, during=during, status=status, again=again, mended=mended,
             later=later, detached=detached, after=qdiscs())  # fmt: skip


def advised() -> None:
    """A line for people, where standard error is a terminal."""
    tree(HTB + LEAF + "codel")
    for case, words in {"advised": [], "not advised": ["--leaf-aqm", "off"]}.items():
        ours, terminal = os.openpty()
        subprocess.run([WEIR, "attach", "va", *words], stdout=subprocess.PIPE, stderr=terminal, check=True)
        os.write(terminal, b".")
        tell(case, text=os.read(ours, 65536).decode())
        weir("detach", "va")
        os.close(ours)
        os.close(terminal)


def killed() -> None:
    """attach and detach, each killed at one system call after another; then detach again."""
    tree(HTB + LEAF + KINDS["fq_codel with a threshold"])
    before = qdiscs()
    for command in (("attach", "va", "--leaf-aqm", "off"), ("detach", "va")):
        at, cut = 0, True
        while cut:
            at += 23
            if command[0] == "detach":
                weir("attach", "va", "--leaf-aqm", "off")
            cut = run_until(at, WEIR, *command)
            during = qdiscs()
            left = weir("detach", "va") if run("ls", "/sys/fs/bpf/weir")["stdout"] else {"status": 0}
            tell("killed", command=command[0], cut=cut, at=at, before=before, during=during, left=left, after=qdiscs(),
                 pins=run("ls", "/sys/fs/bpf/weir")["stdout"])  # fmt: skip


def main() -> None:
    run("mount", "-t", "bpf", "bpf", "/sys/fs/bpf")
    run("ip", "link", "add", "va", "type", "veth", "peer", "name", "vb")
    run("ip", "link", "set", "va", "up")
    run("ip", "link", "set", "vb", "up")
    for part in (kinds, changed, ensured, replaced_program, classes, refused, shaped, advised, killed):
        if len(sys.argv) == 1 or part.__name__ in sys.argv[1:]:
            part()


if __name__ == "__main__":
    main()
