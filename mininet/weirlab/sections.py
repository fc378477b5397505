# SPDX-License-Identifier: Apache-2.0
"""What every section of a scenario file is checked as: strict, no key that isn't known, a unit in every key."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# The upper ends are far beyond any network and well within what tc takes.
Positive = Annotated[float, Field(gt=0, le=1e5)]
NotNegative = Annotated[float, Field(ge=0, le=1e5)]
Percent = Annotated[float, Field(ge=0, lt=100)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
