# SPDX-License-Identifier: Apache-2.0
"""Commands that treat all devices alike."""
