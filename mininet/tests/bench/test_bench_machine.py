# SPDX-License-Identifier: Apache-2.0
"""Facts of the machine that a benchmark names, and its refusal of a busy one."""

import pytest

from weirlab import cli
from weirlab.bench import benches, machine

# user nice system idle iowait irq softirq steal guest guest_nice
STAT = "cpu  100 20 30 800 40 5 3 2 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n"


def test_waiting_for_a_disk_is_idle_and_stolen_time_is_not():
    assert machine.busy_ticks(STAT) == (160, 1000)


def test_a_busy_machine_is_refused_unless_one_says_so(monkeypatch):
    monkeypatch.setattr(machine, "busy_share", lambda: 0.4)
    with pytest.raises(machine.BusyError, match=r"use 40% of the processors.*at most 10%.*--busy"):
        machine.idle_machine(busy=False)
    found = machine.idle_machine(busy=True)
    assert found["busy_share"] == 0.4
    assert {"cpu", "cpus", "kernel", "date", "commit"} < found.keys()
    assert machine.line(found).endswith("40% busy before")


def test_the_command_refuses_before_it_measures(monkeypatch, capsys):
    ran = []
    monkeypatch.setitem(benches.BENCHES, "switch", lambda as_json: ran.append(as_json) or 0)
    monkeypatch.setattr(machine, "busy_share", lambda: 0.4)
    assert cli.main(["bench", "switch"]) == 1
    assert "--busy" in capsys.readouterr().err
    assert ran == []
    assert cli.main(["bench", "switch", "--busy"]) == 0
    monkeypatch.setattr(machine, "busy_share", lambda: 0.01)
    assert cli.main(["bench", "switch"]) == 0
    assert ran == [False, False]
