# SPDX-License-Identifier: Apache-2.0
"""Words of `weir-xdp attach` for a variant."""

from __future__ import annotations

from weirlab.lab.shaping import CLASSIC_CLASS, LOW_CLASS

OWN = ("qdisc", "profile", "signal", "tune", "coupled", "bands", "flow_queues", "hosts")
"""Keys of a variant that are no gains."""


def attach_words(aqm: dict, peer: str, limit_packets: int) -> list[str]:
    """Options and gains; `peer` is the other end of the link, as DEVICE@NETNS. With signal poll the qdisc has the
    limit."""
    signal = aqm.get("signal", "veth")
    words = ["--signal", signal]
    if signal == "veth":
        words += ["--peer", peer, "--limit-packets", str(limit_packets)]
    words += [f"{key}={value}" for key, value in aqm.items() if key not in OWN]
    if aqm.get("coupled"):
        words += ["--coupled", f"{LOW_CLASS},{CLASSIC_CLASS}"]
    if aqm.get("bands"):
        words.append("--bands")
    if aqm.get("flow_queues"):
        words += ["--leaf-aqm", "off"]
    if aqm.get("hosts"):
        words += ["--hosts", aqm["hosts"]]
    return words
