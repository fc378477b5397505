# SPDX-License-Identifier: Apache-2.0
"""The law's vectors through p4/programs/law_probe.p4 on real interfaces, loaded over P4Runtime: a sample of each file.
weir-p4's own tests run all of them on the embedded target, and test_p4_programs runs all of them on BMv2."""

import pytest
from p4_probe import differences, operations
from p4_rig import P4Rig
from packet_rig import REPO

FOLDER = REPO / "tests" / "vectors"
VECTORS = sorted(FOLDER.rglob("*.jsonl"))
OF_EACH_FILE = 40


@pytest.fixture(scope="module")
def probe(target, tmp_path_factory):
    switch = P4Rig(target, tmp_path_factory.mktemp("probe"))
    try:
        switch.set_program(REPO / "p4" / "programs" / "law_probe.p4")
        yield switch
    finally:
        switch.close()


@pytest.mark.parametrize("file", VECTORS, ids=lambda path: path.relative_to(FOLDER).with_suffix("").as_posix())
def test_vectors(probe, file):
    found = list(operations(file))
    chosen = found[:: max(1, len(found) // OF_EACH_FILE)]
    wrong = []
    for start in range(0, len(chosen), 16):
        port = probe.ports[start // 16 % len(probe.ports)]
        some = chosen[start : start + 16]
        for _, asked, _ in some:
            probe.send(port, asked)
        answers = probe.arrivals(60)
        for where, _, wanted in some:
            came_to, got = next(answers)
            assert came_to == port
            if got != wanted:
                wrong.append(f"{where}: {'; '.join(differences(got, wanted))}")
    assert not wrong, "\n".join(wrong[:10])
    assert len(chosen) >= min(OF_EACH_FILE, len(found))
