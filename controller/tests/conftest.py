# SPDX-License-Identifier: Apache-2.0
"""Programs that were built are found as `./run weir` finds them."""

import os

from places import ENVIRONMENT

os.environ["PATH"] = ENVIRONMENT["PATH"]
