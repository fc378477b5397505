# SPDX-License-Identifier: Apache-2.0
"""`weir-xdp daemon` with a table for each of many classes: what it costs is bounded, and one class that changes is no
reason to check the others."""

import json

import pytest
from class_rig import tree
from packet_rig import until

CLASSES = [f"1:{n:x}" for n in range(0x10, 0x10 + 24)]


@pytest.fixture
def many(rig, daemon):
    tree(rig, dict.fromkeys(CLASSES, "10mbit"))
    tables = "".join(f'["rb/{name}"]\ntarget = "{5 + n}ms"\n' for n, name in enumerate(CLASSES))
    daemon.configure(tables)
    return daemon


def laws(rig) -> dict[str, int]:
    done = rig.weir("status", "rb", "--json", check=False)
    found = json.loads(done.stdout) if done.returncode == 0 else []
    return {one["class"]: one["gains"]["target_us"] for one in found}


def test_each_gets_its_law_and_checks_take_a_share_of_a_cpu(rig, many):
    """The tables' check is 200 ms. Checks of all of them take more CPU time than a tenth of that, so it is longer."""
    many.start()
    wanted = {name: 1000 * (5 + n) for n, name in enumerate(CLASSES)}
    until(lambda: laws(rig) == wanted, "a law a class", 120)
    many.looked(f"rb/{CLASSES[-1]}")
    text = many.metrics_file.read_text()
    assert float(text.split("\nweir_xdp_check_seconds ")[1].split()[0]) > 0.2
    rig.weir("set", "rb", "--class", "1:", "target=1ms")  # no message tells of that
    until(lambda: laws(rig) == wanted, "gains that are put back", 120)


def test_a_class_that_changes_is_looked_at_alone(rig, many):
    many.file.write_text(many.file.read_text().replace('"200ms"', '"3600s"'))
    many.start()

    def looks(name: str) -> int:
        return many.metric("looks_total", dev=f"rb/{name}")

    until(lambda: all(looks(name) >= 2 for name in CLASSES), "looks after the attach", 120)
    changed, beside = CLASSES[7], [name for name in CLASSES if name != CLASSES[7]]
    before = {name: looks(name) for name in CLASSES}
    for rate in range(11, 16):
        seen = looks(changed)
        rig.router.sh(f"tc class change dev rb parent 1:1 classid {changed} htb rate {rate}mbit")
        until(lambda seen=seen: looks(changed) > seen, "a look", 60)
    assert max(looks(name) - before[name] for name in beside) < looks(changed) - before[changed]
    rig.router.sh("tc qdisc del dev rb root")  # a change for all
    until(lambda: all(many.metric("attached", dev=f"rb/{name}") == 0 for name in CLASSES), "no law", 120)
    tree(rig, dict.fromkeys(CLASSES, "10mbit"))
    until(lambda: all(many.metric("attached", dev=f"rb/{name}") == 1 for name in CLASSES), "their laws again", 120)
