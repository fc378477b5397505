# SPDX-License-Identifier: Apache-2.0
"""Tables and page of scenarios with a way back of its own, a rate that follows a file, voice and games."""

import re

import pytest
from page_layout import assert_fits
from page_outline import Outline
from test_report import filled, printed

from weirlab.run.page import write_html

pytestmark = pytest.mark.pictures


def test_voice_and_games_are_in_the_table_and_each_flow_by_itself(tmp_path):
    folder = filled(tmp_path, "voice-game", only=["pie", "tuned"])
    text = printed(folder)
    assert re.search(r"Voice\s+\n\s+one-way delay, mean, ms +30\.91 ± 0\.00 +30\.91", text)
    assert re.search(r"lost, % +0\.96 ± 0\.00 ", text)
    assert "Game" in text
    assert "Way back" not in text
    page = write_html(folder).read_text(encoding="utf-8")
    Outline().feed(page)
    assert "Every voice flow by itself" in page
    assert re.search(r'<th scope="row">tuned, flow 1\.1</th><td>30\.91', page)
    assert "2 voice flows, 50 packets a second each, DSCP 46, 160 bytes of payload a packet, from 0 to 30 s" in page
    assert "<code>voice_jitter_ms</code>" in page


def test_the_way_back_has_figures_of_its_own(tmp_path):
    folder = filled(tmp_path, "uplink-slow", only=["pie", "pie-both"])
    text = printed(folder)
    assert re.search(r"Way back\s+\n\s+queue delay, mean, ms +40\.00 ± 0\.00 +40\.00", text)
    assert "acknowledgements, packets" in text
    page = write_html(folder).read_text(encoding="utf-8")
    assert "way back of the bottleneck: 0.4 Mbit/s, queue of 200 packets, kernel pfifo (drop-tail) unless" in page
    assert "; on the way back kernel pie: target_ms 15" in page
    assert "<code>return_acks_packets</code>" in page


def test_the_rate_stands_behind_the_delay_where_it_follows_a_file(tmp_path):
    folder = filled(tmp_path, "rate-cellular", only=["pie"], seeds=1)
    text = printed(folder)
    assert re.search(r"link capacity, mean, Mbit/s +7\.267 *\n", text)
    assert "goodput, of that capacity, %" in text
    page = write_html(folder).read_text(encoding="utf-8")
    assert "Grey, by the scale on the right: the rate that the link has" in page
    assert "rate, Mbit/s" in page
    assert "a rate that follows cellular:2 (0 to " in page


def test_other_scenarios_show_none_of_it(tmp_path):
    folder = filled(tmp_path, "load-tcp50", only=["pie"], seeds=1)
    page = write_html(folder).read_text(encoding="utf-8")
    for word in ("Way back", "Voice", "Game", "capacity", "return_", "voice_", "rate, Mbit/s"):
        assert word not in page
        assert word not in printed(folder)


@pytest.mark.parametrize("name", ["cc-loss", "voice-game"])
def test_a_page_fits_narrow_and_zoomed_windows(tmp_path, name):
    assert_fits(write_html(filled(tmp_path, name, seeds=2)).read_text(encoding="utf-8"))


def test_each_sender_has_a_colour_of_its_own(tmp_path):
    page = write_html(filled(tmp_path, "cc-loss", seeds=1)).read_text(encoding="utf-8")
    heads = dict(re.findall(r'var\(--([\w-]+)\)"></span>([\w-]+)</th>', page))
    assert {label: hue for hue, label in heads.items()} == {name: name for name in ("cubic", "bbr2_gcongestion", "pbq")}
