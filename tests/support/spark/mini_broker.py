"""A broker of MQTT 3.1.1 that knows just enough to hand messages to one client, whatever their bytes."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Sequence

CONNECT, PUBACK, SUBSCRIBE, PING = 1, 4, 8, 12


class MiniBroker:
    """Sends messages to whoever subscribes, and keeps count of those that were acknowledged."""

    def __init__(self, messages: Sequence[tuple[str, bytes]]) -> None:
        self._messages = messages
        self.acknowledged: set[int] = set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as stream:
            while head := stream.read(1):
                body = stream.read(_length(stream))
                kind = head[0] >> 4
                if kind == CONNECT:
                    client.sendall(bytes([0x20, 2, 0, 0]))
                elif kind == SUBSCRIBE:
                    client.sendall(bytes([0x90, 3, *body[:2], 1]))
                    for number, (topic, payload) in enumerate(self._messages, 1):
                        if number not in self.acknowledged:
                            client.sendall(_publish(number, topic, payload))
                elif kind == PUBACK:
                    self.acknowledged.add(struct.unpack(">H", body[:2])[0])
                elif kind == PING:
                    client.sendall(bytes([0xD0, 0]))

    def close(self) -> None:
        self._listening.close()


def _length(stream: object) -> int:
    length = shift = 0
    while True:
        byte = stream.read(1)[0]  # type: ignore[attr-defined]
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return length
        shift += 7


def _publish(number: int, topic: str, payload: bytes) -> bytes:
    """A message of quality of service 1."""
    named = topic.encode()
    body = struct.pack(">H", len(named)) + named + struct.pack(">H", number) + payload
    length, left = b"", len(body)
    while True:
        left, rest = left >> 7, left & 0x7F
        length += bytes([rest | 0x80 if left else rest])
        if not left:
            return b"\x32" + length + body
