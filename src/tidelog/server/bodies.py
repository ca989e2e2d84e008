"""Bodies and parameters of requests on their way in: read within their limits, and checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from tidelog.errors import DataError
from tidelog.extras import needing
from tidelog.formats.jsonl import parse_json
from tidelog.formats.updates import update_from_json
from tidelog.server import problems
from tidelog.server.keys import LONGEST

JSON = "application/json"
JSON_LINES = "application/x-ndjson"
CSV = "text/csv"
ARROW = "application/vnd.apache.arrow.stream"
EVENTS = "text/event-stream"

Body = TypeVar("Body", bound=msgspec.Struct)


class Question(msgspec.Struct, forbid_unknown_fields=True):
    """`POST /query`"""

    query: str
    parameters: dict[str, Any] = {}
    limit: int | None = None
    cursor: str | None = None


class FactBody(msgspec.Struct, forbid_unknown_fields=True):
    """`POST /explain` and `POST /why-not`"""

    fact: str | list[Any]
    parameters: dict[str, Any] = {}
    limit: int = 1


class ChangeBody(msgspec.Struct, forbid_unknown_fields=True):
    """`POST /explain-change`"""

    fact: str | list[Any]
    update: int | None = None


class CheckBody(msgspec.Struct, forbid_unknown_fields=True):
    """`POST /check`"""

    text: str
    kind: str = msgspec.field(name="as", default="program")
    replace: bool = False


class SessionBody(msgspec.Struct, forbid_unknown_fields=True):
    """`POST /session`"""

    token: str


class NoBody(msgspec.Struct, forbid_unknown_fields=True):
    """`POST /undo` and `POST /save`"""


async def read_body(request: Request, most: int) -> bytes:
    """The body of a request, unless it is too long."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > most:
        raise _too_long(most)
    pieces: list[bytes] = []
    size = 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > most:
                raise _too_long(most)
            pieces.append(piece)
    except ClientDisconnect:
        raise problems.bad_request("the connection ended within the body") from None
    return b"".join(pieces)


def _too_long(most: int) -> problems.Problem:
    return problems.over_limit("max_body", most, f"a request has at most {most:,} bytes", 413, "too-large")


def media_type(request: Request) -> str:
    """The kind of a body, without its parameters."""
    return request.headers.get("content-type", JSON).partition(";")[0].strip().lower() or JSON


def unsupported(found: str, known: str) -> problems.Problem:
    return problems.Problem(
        415, "unsupported-media-type", "The body has an unknown type", f"the body is {found}; send {known}"
    )


def decoded(request: Request, body: bytes, kind: type[Body]) -> Body:
    """A JSON body as a structure."""
    if media_type(request) != JSON:
        raise unsupported(media_type(request), JSON)
    return structured(body or b"{}", kind)


def structured(body: bytes, kind: type[Body]) -> Body:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as problem:
        raise problems.bad_request(str(problem)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise problems.bad_request(f"the body is no JSON: {problem}") from None


def parsed_json(body: bytes) -> Any:
    """Any JSON, as strictly as facts in files are read."""
    try:
        return parse_json(body.decode("utf-8"))
    except UnicodeDecodeError:
        raise problems.bad_request("the body is not encoded in UTF-8") from None
    except DataError as problem:
        raise problems.bad_request(str(problem)) from None


def update_of(value: Any) -> dict[str, Any]:
    """An update from JSON: facts by predicate or as text, rules as text, and how it is to be committed."""
    if not isinstance(value, dict):
        raise problems.bad_request('an update is an object, such as {"add": {"edge": [["a", "b"]]}}')
    content = dict(value)
    alone, replaced = content.pop("alone", False), content.pop("replace_rules", None)
    if type(alone) is not bool:
        raise problems.bad_request('"alone" is true or false')
    if replaced is not None and not isinstance(replaced, str):
        raise problems.bad_request('"replace_rules" is a text of rules')
    if replaced is not None and (content.get("add_rules") or content.get("remove_rules")):
        raise problems.bad_request('"replace_rules" gives all rules; leave "add_rules" and "remove_rules" out')
    texts = {side: content.pop(side) for side in ("add", "delete") if isinstance(content.get(side), str)}
    content = {key: part for key, part in content.items() if part is not None}
    return {**update_from_json(content), **texts, "alone": alone, "replace_rules": replaced}


def updates_of_lines(body: bytes) -> dict[str, Any]:
    """Updates of facts, one a line, as one: of several operations on a fact, the last one counts."""
    from tidelog.facts.results import row_identity

    last: dict[tuple[str, object], tuple[str, Any]] = {}
    for number, line in enumerate(body.split(b"\n"), 1):
        if not line.strip():
            continue
        update = update_from_json(parsed_json(line))
        if update.keys() - {"add", "delete"}:
            raise DataError(f"line {number}: lines hold facts to add and delete; send changes of rules by themselves")
        for side in ("delete", "add"):
            for predicate, rows in (update.get(side) or {}).items():  # type: ignore[attr-defined]
                for row in rows:
                    last[predicate, row_identity(row)] = side, row
    found: dict[str, Any] = {"add": {}, "delete": {}}
    for (predicate, _), (side, row) in last.items():
        found[side].setdefault(predicate, []).append(row)
    return found


def update_of_arrow(body: bytes, predicate: str, action: str) -> dict[str, Any]:
    """Facts of one predicate from Arrow's stream format."""
    with needing("Arrow", "arrow"):
        import pyarrow as pa

    try:
        table = pa.ipc.open_stream(body).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise problems.bad_request(f"the body is no Arrow stream: {problem}") from None
    return {action: {predicate: table}}


def key_of(request: Request) -> str:
    """The Idempotency-Key of a request, if it has one."""
    key = request.headers.get("idempotency-key", "").strip()
    if len(key) > LONGEST or not key.isprintable():
        raise problems.bad_request(f"an Idempotency-Key has at most {LONGEST} printable characters")
    return key


def integer(parameters: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    """A whole number among the parameters of a request."""
    text = parameters.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 18 or not least <= int(text) <= most:
        raise problems.bad_request(f"`{name}` is a whole number from {least:,} to {most:,}, not {text!r:.40}")
    return int(text)


def flag(parameters: Mapping[str, str], name: str) -> bool:
    """Whether something is wanted."""
    text = parameters.get(name, "false").lower()
    if text not in ("true", "false", "1", "0", ""):
        raise problems.bad_request(f"`{name}` is true or false, not {text!r:.40}")
    return text in ("true", "1")


def accepted(request: Request, *offered: str) -> str:
    """Which of the offered types a client wants most; the first one where it does not care."""
    header = request.headers.get("accept", "*/*")
    best, quality = "", 0.0
    for entry in header.split(","):
        name, _, rest = entry.partition(";")
        name, weight = name.strip().lower(), _quality(rest)
        for kind in offered:
            main = kind.partition("/")[0]
            if name in (kind, "*/*", f"{main}/*") and weight > quality:
                best, quality = kind, weight
                break
    if not best:
        raise problems.Problem(
            406, "not-acceptable", "There is no such format", f"this can be sent as {', '.join(offered)}"
        )
    return best


def _quality(parameters: str) -> float:
    for part in parameters.split(";"):
        name, _, value = part.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
