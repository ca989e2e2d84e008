"""Who has sent a request, and whether he may: tokens, and what keeps other pages of a browser away."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit

from tidelog.server import problems
from tidelog.server.requests.asking import Asked
from tidelog.server.settings import Settings, is_loopback
from tidelog.server.tokens import NOBODY, Caller

COOKIE = "tidelog"


class Access:
    """Knows those who ask."""

    def __init__(self, settings: Settings) -> None:
        self._listen = settings.listen
        self._on_loopback = is_loopback(settings.address[0])
        self.tokens = settings.tokens

    def caller(self, asked: Asked) -> Caller:
        """Who has sent a request."""
        tokens = self.tokens
        if not tokens:
            self._check_host(asked)
            return tokens.caller(None)
        scheme, _, token = asked.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token:
            return tokens.caller(token.strip())
        cookie = asked.cookie(COOKIE)
        if cookie is None:
            return NOBODY
        if asked.method not in ("GET", "HEAD"):
            check_origin(asked)
        return tokens.caller(cookie)

    def _check_host(self, asked: Asked) -> None:
        """Where no token is needed, other pages that a browser shows could ask for anything: refuse them, also where
        their host has taken the address of this machine.
        """
        host = asked.headers.get("host", "")
        if self._on_loopback and not _names_loopback(host):
            raise problems.forbidden(f"this server is {self._listen}, and not {host!r:.60}")
        if asked.method not in ("GET", "HEAD"):
            check_origin(asked)


def check_role(caller: Caller, role: str) -> None:
    """Refuse somebody who has not a role."""
    if caller is NOBODY:
        raise problems.unauthorised()
    if not caller.may(role):
        raise problems.forbidden(f"this needs a token with the role `{role}`")


def check_reads_all(caller: Caller) -> None:
    """Refuse somebody from whom something is hidden."""
    if not caller.may_read_all():
        raise problems.forbidden("this token may read some predicates alone")


def check_origin(asked: Asked) -> None:
    """Refuse a request that a page of somebody else makes a browser send."""
    site, origin = asked.headers.get("sec-fetch-site", "same-origin"), asked.headers.get("origin")
    if site not in ("same-origin", "none") or (
        origin is not None and origin.partition("://")[2] != asked.headers.get("host", "")
    ):
        raise problems.forbidden("this request comes from a page of another origin")


@lru_cache(1024)
def _names_loopback(host: str) -> bool:
    """Whether the `Host` of a request is a name of loopback."""
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False
