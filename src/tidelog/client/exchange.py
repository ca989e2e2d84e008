"""What can be asked of a server: each question as a request and a way to read its answer. Nothing is sent here."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import numpy as np

from tidelog import errors
from tidelog.client.results import RemoteAnswers, RemoteChange, RemoteRule
from tidelog.errors import (
    CrossProductWarning,
    DataError,
    ServerError,
    TidelogError,
    UnknownPredicateWarning,
    warn,
)
from tidelog.extras import FILES, needing
from tidelog.facts.arguments import checked_facts, checked_time
from tidelog.formats.columns.rows import is_table, rows_of
from tidelog.formats.files.jsonl import row_from_json, value_to_json
from tidelog.moments import moment_at
from tidelog.proofs.failure import WhyNot
from tidelog.proofs.proof import Proof, proof_of_steps
from tidelog.values import Row, checked_value

Answer = TypeVar("Answer")

GivenFacts = Mapping[str, Any] | str | None

# Facts of each predicate that the change of an update lists.
LISTED = 10_000
PAGE = 5_000


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """A request, and what makes a Python value of its answer. One that can be sent again does no harm if it was
    answered already.
    """

    method: str
    path: str
    read: Callable[[Any], Answer]
    body: Any = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    plain: bool = False  # whether the answer is a text


def error_of(status: int, problem: Any) -> TidelogError:
    """The error that a problem document is."""
    if not isinstance(problem, dict):
        return ServerError(f"the server answered with {status}", {})
    detail = str(problem.get("detail") or problem.get("title") or f"the server answered with {status}")
    kind = str(problem.get("type", "")).rpartition("/")[2]
    if kind == "parse-error":
        mistake = (problem.get("mistakes") or [{}])[0]
        return errors.ParseError(detail, mistake.get("line", 1), mistake.get("column", 1))
    if kind == "evaluation":
        return errors.EvaluationError(detail, 1)
    if kind == "limit":
        return errors.LimitError(detail, str((problem.get("limit") or {}).get("name", "capacity")))
    known = _KINDS.get(kind)
    return ServerError(detail, problem) if known is None else known(detail)


def is_unknown(error: ServerError) -> bool:
    """Whether a server knows nothing of what was asked about."""
    return error.problem.get("type") == "/problems/not-found"


_KINDS: Mapping[str, type[TidelogError]] = {
    "unsafe-rule": errors.UnsafeRuleError,
    "stratification": errors.StratificationError,
    "arity": errors.ArityError,
    "unknown-rule": errors.UnknownRuleError,
    "constraint": errors.ConstraintError,
    "data": errors.DataError,
    "storage": errors.StorageError,
    "refused": TidelogError,
}


def update(parts: Mapping[str, Any], key: str | None = None) -> Call[RemoteChange]:
    """An update. It has a key, so that it can be sent again until it is answered."""
    return Call(
        "POST",
        "/update",
        _change,
        update_body(parts),
        {"rows": str(LISTED)},
        {"Idempotency-Key": key or uuid.uuid4().hex},
    )


def what_if(parts: Mapping[str, Any]) -> Call[RemoteChange]:
    return Call("POST", "/what-if", _change, update_body(parts), {"rows": str(LISTED)})


def undo() -> Call[RemoteChange]:
    return Call("POST", "/undo", _change, {})


def _change(answer: Any) -> RemoteChange:
    _warn(answer, CrossProductWarning)
    return RemoteChange.of(answer)


def _warn(answer: Any, kind: type[Warning]) -> None:
    """Warn of what the server warns of. Of rules it has one kind of warnings, and of queries another."""
    for text in answer["warnings"]:
        warn(text, kind)


def update_body(parts: Mapping[str, Any]) -> dict[str, Any]:
    """An update as JSON."""
    body: dict[str, Any] = {key: parts[key] for key in ("add_rules", "remove_rules") if parts.get(key)}
    at = parts.get("at")
    if at is not None:
        body["at"] = moment_at(checked_time(at)).isoformat()
    for side in ("add", "delete"):
        facts = parts.get(side)
        if isinstance(facts, str):
            body[side] = facts
        elif given := checked_facts(facts, side):
            body[side] = {name: [_json_row(row, name) for row in _rows(rows, name)] for name, rows in given.items()}
    return body


def _rows(rows: Any, name: str) -> Iterable[Any]:
    if isinstance(rows, np.ndarray):
        if rows.ndim != 2:
            raise DataError(f"{name}: an array of {rows.ndim} dimensions; give one with two, a fact per row")
        return rows.tolist()
    if not is_table(rows):
        return rows_of(rows, name)
    import pyarrow as pa

    return (tuple(row.values()) for row in pa.table(rows).to_pylist())


def rows_of_files(source: Any, predicate: str | None, header: bool | None, types: Any) -> dict[str, list[Row]]:
    """The facts of a file or a folder of files; see `KnowledgeBase.load`."""
    with needing(FILES):
        from tidelog.api.files import facts_to_load
        from tidelog.formats.batch import values_of

    rows: dict[str, list[Row]] = {}
    for batch in facts_to_load(source, predicate, header, types):
        rows.setdefault(batch.predicate, []).extend(
            zip(*map(values_of, batch.columns), strict=True) if batch.columns else [()]
        )
    return rows


def _json_row(row: Any, name: str) -> list[Any]:
    if not isinstance(row, tuple | list):
        raise DataError(f"{name}: a row is a tuple of values, not {row!r:.60}")
    return [value_to_json(checked_value(value)) for value in row]


def json_values(values: Mapping[str, object]) -> dict[str, Any]:
    """The values of parameters as JSON."""
    return {name: value_to_json(checked_value(value)) for name, value in values.items()}


def query(text: str, values: Mapping[str, object], cursor: str | None = None) -> Call[tuple[RemoteAnswers, str | None]]:
    """A page of answers, and the cursor of the next one."""
    parameters = json_values(values)
    body = {"query": text, "parameters": parameters, "limit": PAGE, "cursor": cursor, "whole": True}
    return Call("POST", "/query", _answers, body)


def _answers(answer: Any) -> tuple[RemoteAnswers, str | None]:
    _warn(answer, UnknownPredicateWarning)
    rows = map(row_from_json, answer["rows"])
    return RemoteAnswers(answer["variables"], rows, answer["update"], answer["errors"]), answer["next"]


class FactsPage(NamedTuple):
    """Some facts of a predicate, the cursor of the next page, and how many facts there are."""

    update: int
    rows: list[Row]
    cursor: str | None
    total: int
    arity: int


def facts(name: str, explicit: bool, cursor: str | None, limit: int = PAGE) -> Call[FactsPage]:
    """A page of facts."""
    parameters = {"limit": str(limit), "explicit": "true" if explicit else "false"}
    if cursor is not None:
        parameters["cursor"] = cursor
    return Call("GET", f"/facts/{quote(name, safe='')}", _page, parameters=parameters)


def _page(answer: Any) -> FactsPage:
    rows = list(map(row_from_json, answer["rows"]))
    return FactsPage(answer["update"], rows, answer["next"], answer["total"], answer["arity"])


def proofs(fact: Any, values: Mapping[str, object], limit: int) -> Call[list[Proof]]:
    return Call(
        "POST",
        "/explain",
        lambda answer: [proof_of_steps(found["steps"]) for found in answer["proofs"]],
        _asked(fact, values, limit),
    )


def holds(fact: Any) -> Call[bool]:
    """Whether a fact holds, without a proof, which may name what somebody may not read."""
    return Call("POST", "/explain", lambda answer: bool(answer["holds"]), _asked(fact, {}, 0))


def why_not(fact: Any, values: Mapping[str, object]) -> Call[WhyNot]:
    def read(answer: Any) -> WhyNot:
        return WhyNot.of(answer["text"], answer["missing"], answer["in_the_way"])

    return Call("POST", "/why-not", read, _asked(fact, values, 1))


def _asked(fact: Any, values: Mapping[str, object], limit: int) -> dict[str, Any]:
    if isinstance(fact, tuple):
        fact = [fact[0], *(value_to_json(checked_value(value)) for value in fact[1:])]
    parameters = json_values(values)
    return {"fact": fact, "parameters": parameters, "limit": limit}


def get(path: str, **parameters: str) -> Call[Any]:
    """Something that is given as it is."""
    return Call("GET", path, lambda answer: answer, parameters=parameters)


def text(path: str, **parameters: str) -> Call[str]:
    return Call("GET", path, str, parameters=parameters, plain=True)


def rules() -> Call[list[RemoteRule]]:
    def read(answer: Any) -> list[RemoteRule]:
        return [
            RemoteRule(item["text"], item["seconds"], item["applications"], item["facts"], item["number"])
            for item in answer["rules"]
        ]

    return Call("GET", "/rules", read)


def post(path: str, body: Any) -> Call[Any]:
    return Call("POST", path, lambda answer: answer, body)
