# SPDX-License-Identifier: Apache-2.0
"""A path that changes the ECN field: carries datagrams between one program and a server, and their codepoints as
`--passage` says, in both directions.

Prints "listening ADDRESS:PORT" when it is ready, ends on SIGTERM, and then prints how many datagrams came from the
server, by codepoint, and how many of the program's it marked.
"""

import argparse
import json
import selectors
import signal
import socket

LOOK_UP_S = 0.1
NOT_ECT, ECT1, ECT0, CE = range(4)
PASSAGES = {
    "keep": lambda n, ecn: ecn,
    "bleach": lambda n, ecn: NOT_ECT,
    "mark-all": lambda n, ecn: CE,
    "mark-ect": lambda n, ecn: CE if ecn else NOT_ECT,
    "ect1": lambda n, ecn: ECT1 if ecn == ECT0 else ecn,
    "drop-ect": lambda n, ecn: None if ecn else NOT_ECT,
    "mark-some": lambda n, ecn: CE if ecn and n % 50 == 0 else ecn,
    "bleach-later": lambda n, ecn: ecn if n < 400 else NOT_ECT,
}
ROOM = socket.CMSG_SPACE(4)
BUFFER_BYTES = 4 << 20


def opened() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        made.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", required=True, help="ADDRESS:PORT of the server")
    parser.add_argument("--passage", required=True, choices=PASSAGES)
    args = parser.parse_args()
    host, _, port = args.to.rpartition(":")
    server = (host, int(port))
    inside, outside = opened(), opened()
    inside.bind(("127.0.0.1", 0))
    selector = selectors.DefaultSelector()
    for made in (inside, outside):
        selector.register(made, selectors.EVENT_READ)
    passage, program, ended = PASSAGES[args.passage], None, []
    carried, came, marked = {inside: 0, outside: 0}, [0, 0, 0, 0], 0
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    print(f"listening 127.0.0.1:{inside.getsockname()[1]}", flush=True)
    while not ended:
        for key, _ in selector.select(LOOK_UP_S):
            source = key.fileobj
            data, control, _, sender = source.recvmsg(65535, ROOM)
            ecn = control[0][2][0] & 3 if control else NOT_ECT
            carried[source] += 1
            if source is inside:
                program = sender
            else:
                came[ecn] += 1
            changed = passage(carried[source], ecn)
            marked += source is inside and changed == CE != ecn
            if changed is not None:
                tos = (socket.IPPROTO_IP, socket.IP_TOS, changed.to_bytes(4, "little"))
                to = (outside, server) if source is inside else (inside, program)
                to[0].sendmsg([data], [tos], 0, to[1])
    print(json.dumps(dict(zip(("not_ect", "ect1", "ect0", "ce"), came, strict=True)) | {"marked_up": marked}))


if __name__ == "__main__":
    main()
