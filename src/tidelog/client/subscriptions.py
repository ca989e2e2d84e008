"""Subscriptions to what a server tells: messages to iterate over, and a thread that hands them to a function."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Self

import httpx

from tidelog.client import exchange
from tidelog.client.picture import EventLines, Picture
from tidelog.client.results import RemoteAnswerChange
from tidelog.client.transport import FIRST_PAUSES, PAUSES, SILENCE, check_open, is_busy, read_answer, unreachable
from tidelog.errors import SubscriptionWarning, TidelogError, warn


def subscription_request(query: str, values: Mapping[str, object]) -> dict[str, str]:
    """The parameters of a subscription."""
    return {"query": query, "parameters": json.dumps(exchange.json_values(values))}


class Changes:
    """The messages of a subscription. `answers` is how many answers there were after the last one."""

    def __init__(self, http: httpx.Client, query: str, values: Mapping[str, object]) -> None:
        self._http = http
        self._asked = subscription_request(query, values)
        self._picture = Picture()
        self.closed = False

    def messages(self) -> Iterator[RemoteAnswerChange]:
        tries = iter(FIRST_PAUSES)
        while not self.closed:
            try:
                for message in self._connected():
                    tries = iter(PAUSES)
                    yield message
            except httpx.TransportError as problem:
                pause = next(tries, None)
                if pause is None:
                    raise unreachable(str(self._http.base_url), problem) from None
                time.sleep(pause)

    @property
    def answers(self) -> int:
        return len(self._picture)

    def _connected(self) -> Iterator[RemoteAnswerChange]:
        check_open(self._http)
        last = self._picture.update
        headers = {} if last is None else {"Last-Event-ID": str(last)}
        limits = httpx.Timeout(SILENCE)
        with self._http.stream("GET", "/subscribe", params=self._asked, headers=headers, timeout=limits) as response:
            if not response.is_success:
                response.read()
                if is_busy(response):
                    raise httpx.ReadError("the server is closing")
                read_answer(exchange.get("/subscribe"), response)
            lines = EventLines()
            for line in response.iter_lines():  # The server gives a sign of life every 15 seconds.
                if self.closed:
                    return
                event = lines.take(line)
                if event is not None and event[0] == "error":
                    if event[2].get("status") == 503:
                        raise httpx.ReadError("the server is closing")
                    raise exchange.error_of(event[2].get("status", 500), event[2])
                message = None if event is None else self._picture.take(event)
                if message is not None:
                    yield message
        raise httpx.ReadError("the stream has ended")


class RemoteSubscription:
    """Somebody who is told of the answers of a query by a thread, until `close`. If `on_change` raises, or if the
    server cannot be reached any more, it ends: `error` is why.
    """

    def __init__(self, changes: Changes, query: str, on_change: Callable[[RemoteAnswerChange], object]) -> None:
        self.query = query
        self.error: Exception | None = None
        self._changes = changes
        self._on_change = on_change
        if not callable(on_change):
            raise TidelogError(f"`on_change` is a function that takes a message, not {on_change!r:.60}")
        messages = changes.messages()
        first = next(messages)  # Whoever asks what cannot be followed is told here, and not by a warning.
        self._messages = chain([first], messages)
        self._thread = threading.Thread(target=self._run, name="tidelog-subscription", daemon=True)
        self._thread.start()

    @property
    def answers(self) -> int:
        """How many answers there were after the last message."""
        return self._changes.answers

    @property
    def closed(self) -> bool:
        return self._changes.closed

    def _run(self) -> None:
        try:
            for message in self._messages:
                if self.closed:
                    return
                self._on_change(message)
        except Exception as problem:
            if not self.closed:
                self.error, self._changes.closed = problem, True
                warn(f"the subscription to `{self.query}` has ended: {problem}", SubscriptionWarning)

    def close(self) -> None:
        """Hear of nothing any more."""
        self._changes.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
