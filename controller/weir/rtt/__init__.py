# SPDX-License-Identifier: Apache-2.0
"""The round-trip time of flows that pass an interface, seen without sending anything.

`packets` reads headers, `tracker` makes RTT of them, `summary` one figure of many flows; all pure. `filter` keeps
everything else away from user space, `observe` listens.
"""
