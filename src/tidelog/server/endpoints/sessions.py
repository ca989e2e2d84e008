"""Sessions of the page: who one is, and a token that a cookie holds."""

from __future__ import annotations

from starlette.responses import Response

from tidelog.server import problems
from tidelog.server.requests import bodies
from tidelog.server.requests.access import COOKIE, Access, check_origin
from tidelog.server.requests.asking import Asked
from tidelog.server.requests.dispatch import Endpoint, json_response
from tidelog.server.tokens import NOBODY

LONGEST_BODY = 1 << 16


class Sessions:
    """Lets somebody in whose browser keeps a token."""

    def __init__(self, access: Access, version: str) -> None:
        self._access = access
        self._version = version
        self.endpoints = [Endpoint("/session", {"GET": self._look, "POST": self._log_in, "DELETE": self._log_out})]

    async def _look(self, asked: Asked) -> Response:
        caller = self._access.caller(asked)
        return json_response(
            {
                "roles": sorted(caller.roles),
                "predicates": None if caller.predicates is None else sorted(caller.predicates),
                "tokens": bool(self._access.tokens),
                "version": self._version,
            }
        )

    async def _log_in(self, asked: Asked) -> Response:
        check_origin(asked)
        body = bodies.decoded(asked, await bodies.read_body(asked, LONGEST_BODY), bodies.SessionBody)
        if self._access.tokens.caller(body.token) is NOBODY:
            raise problems.unauthorised()
        response = Response(status_code=204)
        if self._access.tokens:  # Where none is needed, anything could be said to be one.
            response.set_cookie(
                COOKIE, body.token, secure=asked.is_encrypted, httponly=True, samesite="strict", path="/"
            )
        return response

    async def _log_out(self, asked: Asked) -> Response:
        check_origin(asked)
        response = Response(status_code=204)
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response
