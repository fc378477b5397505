# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share: devices, numbers, exit status. Never here: a command."""
