# SPDX-License-Identifier: Apache-2.0
"""The server on aioquic, but one that stays: it answers on the path that last answered a challenge of its own,
whichever path requests come on, as picoquic does.

Here alone the transport below aioquic's public interface is changed: where a datagram goes.
"""

import asyncio

import aioquic_server


class StayingAnswers(aioquic_server.Answers):
    """One connection."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.validated: list[object] = []
        self.send_where_aioquic_would = self._quic.datagrams_to_send
        self._quic.datagrams_to_send = self.datagrams_to_send

    def datagrams_to_send(self, now: float) -> list[tuple[bytes, object]]:
        paths = list(self._quic._network_paths)
        datagrams = self.send_where_aioquic_would(now=now)
        for path in self._quic._network_paths:
            if path.is_validated and path.addr not in self.validated:
                self.validated.append(path.addr)
        # Packets for another path than the one it is asked on are that path's validation.
        asked_on = paths[0].addr
        return [(data, self.validated[-1] if address == asked_on and self.validated else address)
                for data, address in datagrams]  # fmt: skip


if __name__ == "__main__":
    aioquic_server.Answers = StayingAnswers
    asyncio.run(aioquic_server.main())
