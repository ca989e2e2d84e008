"""Bodies and parameters of requests on their way in: read within their limits, and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from tidelog.errors import DataError
from tidelog.formats.files.jsonl import parse_json
from tidelog.formats.files.updates import update_from_json
from tidelog.server import problems
from tidelog.server.requests.asking import Asked

JSON = "application/json"
JSON_LINES = "application/x-ndjson"
CSV = "text/csv"
ARROW = "application/vnd.apache.arrow.stream"
EVENTS = "text/event-stream"

LONGEST_KEY = 200  # characters of an Idempotency-Key

Body = TypeVar("Body", bound=msgspec.Struct)


class Question(msgspec.Struct, forbid_unknown_fields=True):
    """`POST /query`"""

    query: str
    parameters: dict[str, Any] = {}
    limit: int | None = None
    cursor: str | None = None
    whole: bool = False


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


async def read_body(asked: Asked, most: int) -> bytes:
    """The body of a request, unless it is too long."""
    length = asked.headers.get("content-length", "")
    if length.isdigit() and int(length) > most:
        raise _too_long(most)
    pieces: list[bytes] = []
    size, more = 0, True
    while more:
        message = await asked.receive()
        if message["type"] == "http.disconnect":
            raise problems.bad_request("the connection ended within the body")
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size > most:
            raise _too_long(most)
        pieces.append(piece)
        more = message.get("more_body", False)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _too_long(most: int) -> problems.Problem:
    return problems.over_limit("max_body", most, f"a request has at most {most:,} bytes", 413, "too-large")


def media_type(asked: Asked) -> str:
    """The kind of a body, without its parameters."""
    return asked.headers.get("content-type", JSON).partition(";")[0].strip().lower() or JSON


def unsupported(found: str, known: str) -> problems.Problem:
    return problems.Problem(
        415, "unsupported-media-type", "The body has an unknown type", f"the body is {found}; send {known}"
    )


def decoded(asked: Asked, body: bytes, kind: type[Body]) -> Body:
    """A JSON body as a structure."""
    if media_type(asked) != JSON:
        raise unsupported(media_type(asked), JSON)
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


def updates_of_lines(body: bytes, resolve: Callable[[str], str]) -> dict[str, Any]:
    """Updates of facts, one a line, as one: of several operations on a fact, the last one counts. `resolve` gives the
    predicate of a name, which can be spelt in several ways.
    """
    from tidelog.facts.results import row_identity

    last: dict[tuple[str, object], tuple[str, str, Any]] = {}
    for number, line in enumerate(body.split(b"\n"), 1):
        if not line.strip():
            continue
        update = update_from_json(parsed_json(line))
        if update.keys() - {"add", "delete"}:
            raise DataError(f"line {number}: lines hold facts to add and delete; send changes of rules by themselves")
        for side in ("delete", "add"):
            for name, rows in (update.get(side) or {}).items():  # type: ignore[attr-defined]
                predicate = resolve(name)
                for row in rows:
                    last[predicate, row_identity(row)] = side, name, row
    found: dict[str, Any] = {"add": {}, "delete": {}}
    for side, name, row in last.values():
        found[side].setdefault(name, []).append(row)
    return found


def key_of(asked: Asked) -> str:
    """The Idempotency-Key of a request, if it has one."""
    key = asked.headers.get("idempotency-key", "").strip()
    if len(key) > LONGEST_KEY or not key.isprintable():
        raise problems.bad_request(f"an Idempotency-Key has at most {LONGEST_KEY} printable characters")
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


def columns(text: str | None) -> dict[int, Any] | None:
    """The values of columns, as a parameter of a request gives them."""
    if text is None:
        return None
    found = parsed_json(text.encode())
    if not isinstance(found, dict) or not all(name.isascii() and name.isdigit() and len(name) < 5 for name in found):
        raise problems.bad_request('`where` is an object of columns, counted from 0, and values: {"0": "a"}')
    return {int(name): value for name, value in found.items()}


def accepted(asked: Asked, *offered: str) -> str:
    """Which of the offered types a client wants most; the first one where it does not care."""
    header = asked.headers.get("accept", "*/*")
    if header == "*/*":
        return offered[0]
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
