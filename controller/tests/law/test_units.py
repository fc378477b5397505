# SPDX-License-Identifier: Apache-2.0
"""Times with their units, in KEY=VALUE words and in profiles."""

import pytest

from weir.gains import KEYS, GainError
from weir.settings import SettingsError, dumps, key_values, loads, profile, time_us


@pytest.mark.parametrize(
    ("text", "us"),
    [("250us", 250), ("5ms", 5000), ("1.5s", 1_500_000), ("1.001ms", 1001), (".5S", 500_000), ("0.5us", 0.5)],
)
def test_a_time_in_microseconds(text, us):
    assert time_us(text) == us
    assert key_values([f"target={text}"]) == key_values([f"target_us={text}"]) == {"target_us": us}


@pytest.mark.parametrize("text", ["5", "5min", "ms", "-5ms", "5 ms", "", 5000])
def test_what_is_no_time(text):
    assert time_us(text) is None


def test_a_key_without_its_unit_needs_one_in_its_value():
    with pytest.raises(SettingsError, match="--set target = 5: must be a time with its unit"):
        key_values(["target=5"])
    assert key_values(["target_us=5", "kp=5"]) == {"target_us": 5, "kp": 5}
    assert key_values(["digest_interval=10ms"], (*KEYS, "digest_interval_us")) == {"digest_interval_us": 10_000}
    with pytest.raises(SettingsError, match="no such key"):
        key_values(["space=5ms"])


def test_a_profile_takes_units():
    text = dumps(profile("tuned"))
    assert loads(text.replace("target_us = 15000", 'target = "15ms"')) == profile("tuned")
    assert loads(text.replace("target_us = 15000", 'target_us = "15ms"')) == profile("tuned")
    with pytest.raises(GainError, match="target = '15ms': given twice, as target_us too"):
        loads(text + 'target = "15ms"\n')
    with pytest.raises(GainError, match="target = 15: must be a time with its unit"):
        loads(text.replace("target_us = 15000", "target = 15"))
