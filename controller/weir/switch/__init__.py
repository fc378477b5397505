# SPDX-License-Identifier: Apache-2.0
"""PID-Delay on P4 switches: configuration files, and deploying them over P4Runtime."""
