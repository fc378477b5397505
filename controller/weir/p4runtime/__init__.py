# SPDX-License-Identifier: Apache-2.0
"""P4Runtime 1.4 in Python: messages made from descriptors, P4Info by names, a small client."""
