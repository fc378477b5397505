# SPDX-License-Identifier: Apache-2.0
"""Words of `weir-xdp attach`, and of `weir p4 deploy`, for a variant."""

from __future__ import annotations

from weirlab.lab.shaping import CLASSIC_CLASS, LOW_CLASS

OWN = ("qdisc", "profile", "signal", "tune", "coupled", "bands", "flow_queues", "hosts", "advise")
"""Keys of a variant that are no gains."""


MBIT_S = {"k": 1e-3, "m": 1.0, "g": 1e3}


def advice_section(aqm: dict) -> list[str]:
    """Lines of the file of `weir p4 deploy`."""
    rate = aqm.get("advise")
    return ["[advice.port.2]", f"rate_mbit_s = {float(rate[:-4]) * MBIT_S[rate[-4]]}"] if rate else []


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
    if aqm.get("advise"):
        words += ["--advise", aqm["advise"]]
    return words
