# SPDX-License-Identifier: Apache-2.0
"""`./run bench scale`: what one controller, one switch, one publisher, one cache and one edge server cost, with few and
with many of what they serve; and what follows for a tree of switches. Prints, asserts nothing."""
