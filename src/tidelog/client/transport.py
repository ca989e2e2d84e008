"""How a server is reached, with and without an event loop: who asks, how long to wait and to try, what an answer is."""

from __future__ import annotations

from typing import TypeVar

import httpx

from tidelog.client import exchange
from tidelog.client.exchange import Call
from tidelog.errors import ServerError, TidelogError

Answer = TypeVar("Answer")

# Seconds between two tries to reach a server: one that nobody has reached yet, and one that may be starting again.
FIRST_PAUSES = (0.05, 0.1, 0.2, 0.4)
PAUSES = (*FIRST_PAUSES, 0.8, 1.6, *[2.0] * 15)

# Seconds without a sign of life, after which a stream is begun again; the server gives one every 15.
SILENCE = 45.0


def headers_of(token: str | None) -> dict[str, str]:
    if token is None:
        return {}
    if not (token.isascii() and token.isprintable() and token.strip() == token != ""):
        raise TidelogError(
            "the token is wrong: it is empty, or has a line break, blanks around it or other characters "
            "that no token has; give it as it was made"
        )
    return {"Authorization": f"Bearer {token}"}


def read_answer(call: Call[Answer], response: httpx.Response) -> Answer:
    """The value of an answer; raises what the server refused with."""
    if response.is_success:
        return call.read(response.text if call.plain else response.json())
    try:
        problem = response.json()
    except ValueError:
        problem = None
    raise exchange.error_of(response.status_code, problem)


def is_busy(response: httpx.Response) -> bool:
    return response.status_code == 503


def unreachable(url: str, problem: object) -> ServerError:
    return ServerError(f"cannot reach {url}: {problem}; is the server there, and does it speak so?", {})


def check_open(http: httpx.Client | httpx.AsyncClient) -> None:
    """Refuse to ask anything on a connection that was closed."""
    if http.is_closed:
        raise ServerError(f"the connection to {http.base_url} is closed; connect again", {})
