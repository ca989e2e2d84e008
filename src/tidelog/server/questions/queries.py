"""Queries: first answers, and pages of all answers. Each is asked in a thread of its own, beside
the updates, or in the event loop if it has been short so far.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import msgspec

from tidelog.errors import DataError, warnings_collected
from tidelog.facts.results import Answers, Encoded
from tidelog.formats.files.jsonl import value_from_json
from tidelog.live.knowledge import Knowledge
from tidelog.server import problems
from tidelog.server.commits.store import ServedStore
from tidelog.server.questions.pages import Kept, Page, Pages, cursor_of, parts_of
from tidelog.server.questions.reading import Reading
from tidelog.server.requests.bodies import Question
from tidelog.server.tokens import Caller
from tidelog.values import Value

# Seconds that a query may take that is answered in the event loop, and how many of these are known.
SHORT = 0.002
MOST_SHORT = 4096


def values_of(parameters: Mapping[str, Any] | None) -> dict[str, Value]:
    """The values of parameters, from JSON."""
    found: dict[str, Value] = {}
    for name, value in (parameters or {}).items():
        try:
            found[name] = value_from_json(value)
        except DataError as problem:
            raise DataError(f"the parameter `{name}` is {problem}") from None
    return found


class ShortQueries:
    """The texts of queries that have taken little time so far."""

    def __init__(self) -> None:
        self._texts: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, text: str) -> bool:
        return text in self._texts

    def note(self, text: str, seconds: float) -> None:
        """A query took so long. May be called from any thread: each line is a single step."""
        if seconds > SHORT:
            self._texts.pop(text, None)
        elif text not in self._texts:
            self._texts[text] = None
            if len(self._texts) > MOST_SHORT:
                self._texts.popitem(last=False)


class Queries:
    """Answers queries. `caller` is who asks: some may read some predicates alone."""

    def __init__(self, store: ServedStore, reading: Reading) -> None:
        self._store = store
        self._knowledge: Knowledge = store.knowledge
        self._reading = reading
        self._pages = Pages()
        self._short = ShortQueries()

    def query(self, caller: Caller, asked: Question, limit: int, waits: bool = True) -> Page:
        """The first answers of a query; or, where it is asked for the whole, a page of all answers. Who does not wait
        gets `NotNow` where that would take long.
        """
        values = values_of(asked.parameters)
        self._reading.check_query(caller, asked.query)
        if asked.whole:
            return self._page_of_all(caller, asked, values, limit)
        if asked.cursor is not None:
            raise problems.bad_request('a cursor is for pages of all answers: ask for them with "whole": true')
        with warnings_collected() as warnings:
            version, answers = self._knowledge.questions.query_at(asked.query, values, limit + 1, waits)
        encoded, count = answers._encoded(), len(answers)
        rows, total = Encoded(encoded.cells[:limit], encoded.terms), count if count <= limit else None
        number, errors = self._store.number(version), int(answers.errors)
        return Page(number, answers.variables, rows, None, total, total is None, errors, _told(warnings, caller))

    def may_be_short(self, asked: Question) -> bool:
        """Whether a query is answered at once, probably. Nobody knows how long functions take."""
        return asked.query in self._short and not asked.whole and not self._knowledge.functions

    def note_time(self, asked: Question, seconds: float) -> None:
        """A query took so long."""
        self._short.note(asked.query, seconds)

    def _page_of_all(self, caller: Caller, asked: Question, values: Mapping[str, Value], limit: int) -> Page:
        """A page of all answers, which are found for the first one and kept."""
        name, start = parts_of(asked.cursor, (str, int)) if asked.cursor else ("", 0)
        question = msgspec.json.encode((asked.query, sorted(asked.parameters.items()))).decode()
        warnings: list[str] = []
        if name:
            kept = self._pages.find(name)
        else:
            with warnings_collected() as warnings:
                version, answers = self._knowledge.questions.query_at(asked.query, values)
            kept = Kept(self._store.number(version), answers, question)
        if kept is None:
            raise problems.gone("these answers are not kept any more; ask again from the first page on")
        if kept.asked != question:
            raise problems.bad_request("the cursor is of another query")
        answers, total, end = kept.answers, len(kept.answers), start + limit
        following = cursor_of(name or self._pages.keep(kept), end) if end < total else None
        encoded, errors = answers._encoded(), int(answers.errors)
        rows, more = Encoded(encoded.cells[start:end], encoded.terms), following is not None
        return Page(kept.update, answers.variables, rows, following, total, more, errors, _told(warnings, caller))

    def checked_query(self, caller: Caller, text: str, parameters: Mapping[str, Any] | None) -> dict[str, Value]:
        """Refuse a query that cannot be asked, or that has too many answers; the values of its parameters."""
        values = values_of(parameters)
        self._reading.check_query(caller, text)
        most = self._store.settings.limits.max_answers
        with warnings_collected():
            _, answers = self._knowledge.questions.query_at(text, values, most + 1)
        check_size(answers, most)
        return values


def _told(warnings: list[str], caller: Caller) -> tuple[str, ...]:
    """The warnings for those who may read all: they say which names are like that of an unknown predicate."""
    return tuple(warnings) if caller.may_read_all() else ()


def check_size(answers: Answers, most: int) -> None:
    """Refuse more answers than somebody can be told."""
    if len(answers) > most:
        raise problems.over_limit("max_answers", most, f"the query has more than {most:,} answers; ask for fewer")
