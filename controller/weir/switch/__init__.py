# SPDX-License-Identifier: Apache-2.0
"""PID-Delay on P4 switches: what a configuration file means on a device, and bringing it there over P4Runtime."""
