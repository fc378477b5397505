# SPDX-License-Identifier: Apache-2.0
"""Checks of every section of a scenario file: strict, no key that isn't known, a unit in every key."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# Ranges that tc, the kernel and our programs accept, so that a checked file runs: `tests/lab` tries the ends of each.
Seconds = Annotated[float, Field(gt=0, le=86_400)]
SecondsFrom0 = Annotated[float, Field(ge=0, le=86_400)]
NotNegative = Annotated[float, Field(ge=0, le=1e5)]
RateMbit = Annotated[float, Field(ge=0.001, le=1e5)]
"""tc counts bytes a second: below 8 bit/s it takes a rate for none."""
# tc takes microseconds and turns shorter times into none; by PIE's timer the kernel counts milliseconds.
AqmMs = Annotated[float, Field(ge=0.01, le=1e5)]
Percent = Annotated[float, Field(ge=0, lt=100)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
QueuePackets = Annotated[int, Field(ge=1, le=1_000_000)]
"""tc takes RED's and CAKE's limits in bytes, of 32 bits."""
Whole = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
SeedCount = Annotated[int, Field(ge=1, le=10_000)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=100)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Head(Section):
    """`[scenario]` of topologies on which a run ends by itself: `duration_s` is what it may take at most."""

    name: Name
    title: str = Field(min_length=1)
    description: str = ""
    topology: str
    duration_s: Seconds
    seeds: SeedCount | list[Seed] = 3
