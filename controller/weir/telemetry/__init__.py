# SPDX-License-Identifier: Apache-2.0
"""What queues tell of themselves: as lines, as rates, as Prometheus metrics, on the terminal."""
