# SPDX-License-Identifier: Apache-2.0
"""Samples of queues: as JSON lines, as rates, as Prometheus metrics, on the terminal."""
