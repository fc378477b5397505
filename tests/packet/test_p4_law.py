# SPDX-License-Identifier: Apache-2.0
"""The vectors of law and bands through p4/programs/law_probe.p4 and bands_probe.p4 on real interfaces, loaded over
P4Runtime: a sample of the law's files, whose rest weir-p4's own tests run, and all of the bands'. test_p4_programs runs
all of them on BMv2."""

from pathlib import Path

import pytest
from p4_probe import BANDS, FOLDER, LAW, SENDER, SWITCH, Probe, operations, vectors
from p4_rig import P4Rig
from packet_rig import REPO

OF_EACH_FILE = 40


def _name(path: Path) -> str:
    return path.relative_to(FOLDER).with_suffix("").as_posix()


@pytest.fixture(scope="module")
def switch(target, tmp_path_factory):
    made = P4Rig(target, tmp_path_factory.mktemp("probe"))
    try:
        yield made
    finally:
        made.close()


def _answers_differ(switch: P4Rig, probe: Probe, chosen: list[tuple[str, bytes, bytes]]) -> list[str]:
    wrong = []
    for start in range(0, len(chosen), 16):
        port = switch.ports[start // 16 % len(switch.ports)]
        some = chosen[start : start + 16]
        for _, sent, _ in some:
            switch.send(port, sent)
        answers = switch.arrivals(60)
        for where, _, wanted in some:
            came_to, got = next(answers)
            assert came_to == port
            if got != wanted:
                wrong.append(f"{where}: {'; '.join(probe.differences(got, wanted))}")
    return wrong


@pytest.fixture(scope="module")
def law(switch):
    switch.set_program(REPO / "p4" / "programs" / "law_probe.p4")
    return switch


@pytest.mark.parametrize("file", vectors(LAW), ids=_name)
def test_vectors(law, file):
    found = list(operations(file))
    chosen = found[:: max(1, len(found) // OF_EACH_FILE)]
    wrong = _answers_differ(law, LAW, chosen)
    assert not wrong, "\n".join(wrong[:10])
    assert len(chosen) >= min(OF_EACH_FILE, len(found))


@pytest.fixture(scope="module")
def bands(switch):
    switch.set_program(REPO / "p4" / "programs" / "bands_probe.p4")
    return switch


@pytest.mark.parametrize("file", vectors(BANDS), ids=_name)
def test_vectors_of_bands(bands, file):
    found = list(operations(file))
    wrong = _answers_differ(bands, BANDS, found)
    assert not wrong, "\n".join(wrong[:10])
    assert len(found) > OF_EACH_FILE


def test_other_frames_have_no_answer_of_the_bands_probe(bands):
    frames = [BANDS.frame(SWITCH, SENDER, op, {}) for op in BANDS.ops]
    unknown = [frame[:14] + bytes([op]) + frame[15:] for frame in frames for op in (0, 4, 255)]
    cut = [frames[0][:length] for length in (14, 15, len(frames[0]) - 1)]
    for frame in (*unknown, *cut, frames[0]):
        bands.send(1, frame)
    _, got = next(bands.arrivals(60))  # frames from one port keep their order
    assert got[:15] == SENDER + SWITCH + frames[0][12:15]
