# SPDX-License-Identifier: Apache-2.0
"""tc's lines for links: delay, rate, loss, and a queue behind a rate limit."""

from __future__ import annotations

# netem keeps packets in flight in its own queue: it must hold a bandwidth-delay product many times over, or it would
# drop where no queue was configured.
NETEM_IN_FLIGHT_PACKETS = 100_000


def netem(
    delay_ms: float, rate_mbit_s: float = 0, loss_percent: float = 0, limit_packets: int = 0, verb: str = "add"
) -> list[str]:
    """A link's delay, rate and loss as the root qdisc of `{dev}`; with `verb` "change", to the new ones."""
    words = [f"qdisc {verb} dev {{dev}} root handle 1: netem limit {limit_packets or NETEM_IN_FLIGHT_PACKETS}"]
    if delay_ms or verb == "change":
        words.append(f"delay {delay_ms:g}ms")
    if loss_percent:
        words.append(f"loss {loss_percent:g}%")
    if rate_mbit_s:
        words.append(f"rate {rate_mbit_s:g}mbit")
    return [" ".join(words)]


def says_ect1(port: int) -> list[str]:
    """TCP to a port leaves `{dev}` with ECT(1) where it had ECT(0): no congestion control of the kernel's sends it, and
    no option makes dctcp do so (Linux 6.12 and 7.3)."""
    to_port = f"match ip protocol 6 0xff match ip dport {port} 0xffff match ip dsfield 0x02 0x03"
    return [
        "qdisc add dev {dev} clsact",
        f"filter add dev {{dev}} egress protocol ip pref 1 u32 {to_port} "
        "action pedit ex munge ip dsfield set 0x01 retain 0x03 pipe action csum ip4h continue",
    ]


def shaped(rate_mbit_s: float, child: str) -> list[str]:
    """htb at `rate_mbit_s` with `child` (for instance `pfifo limit 1000`) as the queue, on `{dev}`.

    The burst is one full packet, so that the link is a link: no packet leaves before the one ahead of it is through.
    """
    return [
        "qdisc add dev {dev} root handle 1: htb default 1",
        shaped_rate("add", rate_mbit_s),
        f"qdisc add dev {{dev}} parent 1:1 handle 10: {child}",
    ]


PACKET = "burst 1540 cburst 1540 quantum 1540"  # one full packet
LOW_AT_ONCE = "burst 1540 cburst 15400 quantum 1540"  # ten
LOW_CLASS, CLASSIC_CLASS = "1:10", "1:20"
"""The classes of `shaped_bands`: the first is served first, the second is the default."""
CLASSIC_SHARE = 0.1
OWN_KBIT_S = 1  # next to nothing, and so much that tc can count the time that a packet takes at it
ANY_MBIT_S = 10_000  # of a class that only the line bounds


def shaped_bands(rate_mbit_s: float, child: str) -> list[str]:
    """htb at `rate_mbit_s` with two classes, each with `child` as its queue, on `{dev}`: LOW_CLASS is served first, and
    CLASSIC_CLASS, the default, has CLASSIC_SHARE of the rate whatever the other does (as dualpi2's has): LOW_CLASS may
    take the rest and no more, over some packets.
    """
    ceils = (rate_mbit_s * (1 - CLASSIC_SHARE), LOW_AT_ONCE), (rate_mbit_s, PACKET)
    return two_classes(rate_mbit_s, ceils, (child, child))


def shaped_flows(rate_mbit_s: float, child: str, ahead: str = "") -> list[str]:
    """htb at `rate_mbit_s` with two classes on `{dev}`: LOW_CLASS is served first and has `ahead` as its queue, the
    other has `child`, as LOW_CLASS without `ahead`. `shaped_rate` changes the rate of both together."""
    return two_classes(rate_mbit_s, ((ANY_MBIT_S, PACKET),) * 2, (ahead or child, child))


def two_classes(rate_mbit_s: float, ceils: tuple[tuple[float, str], ...], children: tuple[str, str]) -> list[str]:
    """htb at `rate_mbit_s` on `{dev}` with LOW_CLASS, which is served first, and CLASSIC_CLASS, the default. Of each:
    the most that it may take (Mbit/s) with tc's words for what it may send at once, and its queue.

    htb sends a class's own rate without a look at the class above: beside the packet that is on the line, not after it.
    So neither class has such a rate to speak of. Both borrow the line when it is free, and every packet waits for the
    one on the line as it does in `shaped`.
    """
    lines = ["qdisc add dev {dev} root handle 1: htb default 20", shaped_rate("add", rate_mbit_s)]
    classes = zip((LOW_CLASS, CLASSIC_CLASS), ceils, children, strict=True)
    for prio, (name, (ceil_mbit_s, burst), child) in enumerate(classes):
        rate = f"rate {OWN_KBIT_S}kbit ceil {ceil_mbit_s:.10g}mbit"
        lines += [
            f"class add dev {{dev}} parent 1:1 classid {name} htb {rate} {burst} prio {prio}",
            f"qdisc add dev {{dev}} parent {name} handle {name[2:]}: {child}",
        ]
    return lines


def shaped_rate(verb: str, rate_mbit_s: float) -> str:
    """tc's line (`add` or `change`) for the rate of a link made by `shaped`, on `{dev}`."""
    rate = f"htb rate {rate_mbit_s:.10g}mbit {PACKET}"
    return f"class {verb} dev {{dev}} parent 1: classid 1:1 {rate}"
