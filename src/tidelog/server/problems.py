"""Problem documents (RFC 9457): what every refusal looks like, and which one an error of tidelog is."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from tidelog import errors
from tidelog.errors import TidelogError
from tidelog.server.tokens import Caller

_PLACE = re.compile(r"^[^:]*:\d+:\d+: ")

MEDIA_TYPE = "application/problem+json"

log = logging.getLogger("tidelog.server")


class Problem(Exception):
    """A refusal. `more` are further members of its document."""

    def __init__(self, status: int, kind: str, title: str, detail: str = "", **more: Any) -> None:
        super().__init__(detail or title)
        self.status = status
        self.kind = kind
        self.title = title
        self.detail = detail or title
        self.more = more
        self.headers: dict[str, str] = {}

    def document(self) -> dict[str, Any]:
        return {
            "type": f"/problems/{self.kind}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }

    def response(self) -> Response:
        return Response(msgspec.json.encode(self.document()), self.status, self.headers, MEDIA_TYPE)


def over_limit(name: str, value: float, detail: str, status: int = 422, kind: str = "limit") -> Problem:
    """A limit was reached."""
    return Problem(status, kind, "A limit was reached", detail, limit={"name": name, "value": value})


def bad_request(detail: str) -> Problem:
    return Problem(400, "bad-request", "The request cannot be understood", detail)


def not_found(detail: str) -> Problem:
    return Problem(404, "not-found", "There is nothing here", detail)


def gone(detail: str) -> Problem:
    return Problem(410, "gone", "This is no longer here", detail)


def forbidden(detail: str) -> Problem:
    return Problem(403, "forbidden", "That is not allowed", detail)


def unauthorised() -> Problem:
    problem = Problem(401, "unauthorised", "A token is needed", "send a valid token: `Authorization: Bearer TOKEN`")
    problem.headers["WWW-Authenticate"] = 'Bearer realm="tidelog"'
    return problem


def of_status(status: int, detail: str = "", headers: Mapping[str, str] | None = None) -> Problem:
    """The problem of a bare status, such as the framework gives."""
    phrase = HTTPStatus(status).phrase
    problem = Problem(status, phrase.lower().replace(" ", "-"), phrase, detail or phrase)
    problem.headers.update(headers or {})
    return problem


# The more special errors come first.
_OF_ERRORS: tuple[tuple[type[TidelogError], int, str, str], ...] = (
    (errors.ParseError, 422, "parse-error", "A text is not in the language"),
    (errors.UnsafeRuleError, 422, "unsafe-rule", "A variable is bound by nothing"),
    (errors.StratificationError, 422, "stratification", "Negation or aggregation goes through recursion"),
    (errors.ArityError, 422, "arity", "A predicate has another number of arguments"),
    (errors.UnknownRuleError, 422, "unknown-rule", "There is no such rule"),
    (errors.ConstraintError, 422, "constraint", "A constraint is violated"),
    (errors.EvaluationError, 422, "evaluation", "An expression has no value"),
    (errors.DataError, 422, "data", "Facts cannot be read"),
    (errors.StorageError, 507, "storage", "The store cannot be written"),
    (errors.BrokenError, 500, "broken", "The knowledge base can no longer be used"),
    (errors.MissingPackageError, 501, "missing-package", "The server lacks a package"),
)


def of_error(error: TidelogError) -> Problem:
    """The problem that an error of tidelog is."""
    if isinstance(error, errors.LimitError):
        return Problem(422, "limit", "A limit was reached", str(error), limit={"name": error.limit})
    mistakes = mistakes_of(error)
    more: dict[str, Any] = {"mistakes": mistakes} if mistakes else {}
    for kind, status, name, title in _OF_ERRORS:
        if isinstance(error, kind):
            return Problem(status, name, title, str(error), **more)
    return Problem(422, "refused", "The request is refused", str(error), **more)


def unexplained(error: TidelogError) -> Problem:
    """The same without its reasons, which may name what somebody may not read."""
    problem = of_error(error)
    problem.detail = f"{problem.title}; why, this token may not read"
    problem.more.pop("mistakes", None)
    return problem


def for_caller(error: TidelogError, caller: Caller) -> Problem:
    """The problem that an error is for somebody: one that names what he may not read says less."""
    return unexplained(error) if error.names_others and caller.predicates is not None else of_error(error)


def of_raised(error: Exception) -> Problem:
    """The problem of whatever was raised instead of an answer."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, TidelogError):
        return of_error(error)
    if isinstance(error, MemoryError):
        return Problem(
            422, "limit", "A limit was reached", "it takes more memory than there is", limit={"name": "memory"}
        )
    log.error("a request failed", exc_info=error)
    return of_status(500, "something went wrong in the server; its log says what")


def mistakes_of(error: TidelogError) -> list[dict[str, Any]]:
    """Where a text is wrong, as far as an error knows."""
    if error.mistake is not None:
        found = error.mistake
        return [{"line": found.line, "column": found.column, "message": found.what, "hint": found.hint}]
    if isinstance(error, errors.ParseError):
        message, _, hint = str(error).partition("\nhint: ")
        first = _PLACE.sub("", message.partition("\n")[0])
        return [{"line": error.line, "column": error.column, "message": first, "hint": hint}]
    return []
