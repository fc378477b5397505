# SPDX-License-Identifier: Apache-2.0
"""Data planes as the controller sees them: `base` is the one interface, each other module a kind of device."""
