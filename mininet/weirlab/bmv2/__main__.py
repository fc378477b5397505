# SPDX-License-Identifier: Apache-2.0
"""`python -m weirlab.bmv2`: an exercise of p4lang's tutorials."""

import sys

from .exercise import main

sys.exit(main())
