# SPDX-License-Identifier: Apache-2.0
"""`./run bench scale`: cost of one controller, one switch, one publisher, one cache and one edge server, with few and
with many clients; and the load of a tree of switches from these. Prints, asserts nothing."""
