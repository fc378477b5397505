# SPDX-License-Identifier: Apache-2.0
"""Names of the hops that have a queue whose figures are wanted."""

QUEUE_UNDER_TEST = "bottleneck"
RETURN_QUEUE = "return"
LINE_QUEUE = "line"
