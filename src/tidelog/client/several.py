"""What takes several requests: all answers of a query, a copy of the facts. Each is a generator of requests that is
sent their answers, so that it serves with and without an event loop. Nothing is sent here.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tidelog.client import exchange
from tidelog.client.exchange import Call
from tidelog.client.results import RemoteAnswers
from tidelog.errors import TidelogError
from tidelog.values import Row

if TYPE_CHECKING:
    from tidelog.api.knowledge_base import KnowledgeBase
    from tidelog.language.syntax import Query

Result = TypeVar("Result")

Requests = Generator[Call[Any], Any, Result]
"""Requests, each of which is given its answer; and what comes of all of them."""

# How often a copy is begun while the facts change.
TRIES = 5


class Changed(Exception):
    """The facts have changed while they were read."""


def all_answers(asked: str | Query, values: dict[str, object]) -> Requests[RemoteAnswers]:
    """The answers of a query, which come page by page."""
    text = asked if isinstance(asked, str) else ", ".join(map(str, asked.body))
    first, cursor = yield exchange.query(text, values)
    rows = first.rows()
    while cursor is not None:
        page, cursor = yield exchange.query(text, values, cursor)
        rows += page.rows()
    return RemoteAnswers(first.variables, rows, first.update, first.errors)


def exported(
    folder: str | PathLike[str], format: str, predicates: Iterable[str] | None, explicit: bool
) -> Requests[list[Path]]:
    """Files of facts that are all of one state."""
    if isinstance(predicates, str):
        raise TidelogError(f'`predicates` is a list of names, such as ["{predicates}"]')
    wanted = None if predicates is None else list(predicates)
    copy = yield from _copy(wanted, explicit)
    with copy:
        return copy.export(folder, format, wanted)


def _copy(wanted: list[str] | None, explicit: bool) -> Requests[KnowledgeBase]:
    for _ in range(TRIES):
        try:
            return (yield from _copy_of_one_state(wanted, explicit))
        except Changed:
            continue
    raise TidelogError(
        "the facts change faster than they can be read; `tidelog backup` copies the store of a server that goes on"
    )


def _copy_of_one_state(wanted: list[str] | None, explicit: bool) -> Requests[KnowledgeBase]:
    from tidelog.api.knowledge_base import KnowledgeBase

    there = yield exchange.get("/predicates")
    listed = [item for item in there["predicates"] if item["explicit"] or not explicit]
    if wanted is not None:
        # A name may be written in several ways: the server knows which ones mean the same.
        listed = [{"name": name, "arity": None} for name in wanted]
    rows: dict[str, list[Row]] = {}
    for item in listed:
        rows[item["name"]], arity = yield from _facts_after(there["update"], item["name"], explicit)
        item["arity"] = arity
    lines = [f"@prefix {name}: <{namespace}> ." for name, namespace in there["prefixes"].items()]
    lines += [f"@predicate {item['name']}/{item['arity']}." for item in listed]
    copy = KnowledgeBase("\n".join(lines))
    copy.update(add=rows)
    return copy


def _facts_after(number: int, name: str, explicit: bool) -> Requests[tuple[list[Row], int]]:
    """The facts of a predicate after an update, and how many arguments they have."""
    rows: list[Row] = []
    cursor: str | None = None
    while True:
        page = yield exchange.facts(name, explicit, cursor)
        if page.update != number:
            raise Changed
        rows += page.rows
        cursor = page.cursor
        if cursor is None:
            return rows, page.arity
