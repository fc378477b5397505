# SPDX-License-Identifier: Apache-2.0
"""Mininet's hosts, switches and links for scripts that were written for BMv2, on `weir-switch`.

    from weirlab.bmv2 import P4Host, WeirGrpcSwitch, WeirLink

    net = Mininet(topo=topo, host=P4Host, switch=WeirGrpcSwitch, link=WeirLink, controller=None)

`python -m weirlab.bmv2 -t topology.json -j build/basic.json` runs an exercise of p4lang's tutorials.
"""

from .links import WeirIntf, WeirLink
from .nodes import P4Host, WeirGrpcSwitch, WeirSwitch

__all__ = ["P4Host", "WeirGrpcSwitch", "WeirIntf", "WeirLink", "WeirSwitch"]
