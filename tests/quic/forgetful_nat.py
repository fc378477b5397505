# SPDX-License-Identifier: Apache-2.0
"""A NAT that forgets: carries datagrams between one program and a server, from a new port after each so many of the
program's datagrams. Neither end is informed.

Prints "listening ADDRESS:PORT" when it is ready, ends on SIGTERM, and says then how many ports it was seen on.
"""

import argparse
import selectors
import signal
import socket

LOOK_UP_S = 0.1


def outside(to: tuple[str, int], selector: selectors.BaseSelector) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.connect(to)
    selector.register(made, selectors.EVENT_READ)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", required=True, help="ADDRESS:PORT of the server")
    parser.add_argument("--every", type=int, required=True, help="datagrams of the program through one port")
    args = parser.parse_args()
    host, _, port = args.to.rpartition(":")
    to = (host, int(port))
    selector = selectors.DefaultSelector()
    inside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    inside.bind(("127.0.0.1", 0))
    selector.register(inside, selectors.EVENT_READ)
    through, ports, carried, program = outside(to, selector), 1, 0, None

    ended = []
    # Between two datagrams only: else a port may count that nothing was sent from.
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    print(f"listening 127.0.0.1:{inside.getsockname()[1]}", flush=True)
    while not ended:
        for key, _ in selector.select(LOOK_UP_S):
            if key.fileobj is inside:
                data, program = inside.recvfrom(65535)
                if carried == args.every:
                    selector.unregister(through)
                    through.close()
                    through, ports, carried = outside(to, selector), ports + 1, 0
                through.send(data)
                carried += 1
            elif key.fileobj is through:
                inside.sendto(through.recv(65535), program)
    print(ports)


if __name__ == "__main__":
    main()
