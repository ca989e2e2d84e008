"""A connection beside a knowledge base that is here: what one of them can do, the other can, or it says what to do."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable, Iterator
from operator import and_, eq, ge, gt, le, lt, or_, sub, xor
from queue import Queue
from typing import Any

import numpy as np
import pytest

import tidelog
from server_util import ServerProcess, served
from tidelog.client.async_connection import AsyncConnection
from tidelog.client.connection import Connection
from tidelog.client.results import RemoteAnswerChange
from tidelog.errors import CrossProductWarning, DataError, ParseError, TidelogError, UnknownPredicateWarning
from tidelog.values import IRI

PROGRAM = """
@predicate age(who: string, years: int).
may(X, enter) :- role(X, _).
role(ada, 1).  role(bob, 2).  role(eve, 1.0).  role(eve, true).
held(ada, 1).  held(eve, true).  held(cleo, 4).
age(ada, 36).
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with served(tmp_path_factory.mktemp("same") / "store", program=PROGRAM) as found:
        yield found


@pytest.fixture
def there(server: ServerProcess) -> Iterator[Connection]:
    with tidelog.connect(server.url) as connection:
        yield connection


@pytest.fixture
def here() -> tidelog.KnowledgeBase:
    return tidelog.KnowledgeBase(PROGRAM)


def by_text(rows: list[Any]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.parametrize("name", ["role", "may", "age"])
def test_facts_become_the_same_tables(there: Connection, here: tidelog.KnowledgeBase, name: str) -> None:
    mine, others = here.facts(name), there.facts(name)
    assert others.to_arrow().schema == mine.to_arrow().schema
    for convert in ("to_dicts", "to_arrow"):
        first, second = (getattr(facts, convert)() for facts in (mine, others))
        rows = [found if isinstance(found, list) else found.to_pylist() for found in (first, second)]
        assert by_text(rows[0]) == by_text(rows[1])
    assert by_text(others.to_pandas().to_dict("records")) == by_text(mine.to_pandas().to_dict("records"))
    assert others.to_polars().shape == mine.to_polars().shape
    assert "<table" in others._repr_html_()


def test_answers_become_the_same_tables(there: Connection, here: tidelog.KnowledgeBase) -> None:
    for query in ("role(Who, N)", "role(ada, 1)", "role(nobody, N)"):
        mine, others = here.query(query), there.query(query)
        assert by_text(others.to_dicts()) == by_text(mine.to_dicts())
        assert others.to_arrow().schema == mine.to_arrow().schema
        assert others.to_arrow().num_rows == others.to_pandas().shape[0] == len(mine)


def test_there_are_no_rows_to_convert_of_what_nobody_has_mentioned(
    there: Connection, here: tidelog.KnowledgeBase
) -> None:
    for kb in (here, there):
        with pytest.warns(UnknownPredicateWarning, match="nope"):
            assert set(kb.facts("nope")) == set()
    with pytest.warns(UnknownPredicateWarning):
        assert there.facts("nope").to_dicts() == []


@pytest.mark.parametrize("operation", [and_, or_, sub, xor, eq, le, lt, ge, gt])
def test_sets_of_facts_have_the_same_operations(
    there: Connection, here: tidelog.KnowledgeBase, operation: Callable[[Any, Any], Any]
) -> None:
    plain: list[Any] = [set(), {("ada", 1)}, {("ada", True), ("zoe", 2)}]
    mine = [operation(here.facts("role"), other) for other in (here.facts("held"), *plain)]
    mine += [operation(other, here.facts("role")) for other in plain]
    others = [operation(there.facts("role"), other) for other in (there.facts("held"), *plain)]
    others += [operation(other, there.facts("role")) for other in plain]
    assert list(map(type, others)) == list(map(type, mine))
    for first, second in zip(mine, others, strict=True):
        assert by_text(list(first)) == by_text(list(second)) if isinstance(first, set) else first == second


def test_a_row_of_another_width_is_in_no_set(there: Connection, here: tidelog.KnowledgeBase) -> None:
    for kb in (here, there):
        assert ("ada",) not in kb.facts("role")
        assert ("ada",) not in kb.explicit("role")
        assert ("ada", 1) in kb.facts("role")
        assert ("eve", True) in kb.explicit("role")
        assert ("eve", 1) not in kb.explicit("role")


def test_it_warns_of_the_same(there: Connection, here: tidelog.KnowledgeBase) -> None:
    rules = "product(X, Y) :- role(X, _), age(Y, _)."
    said = []
    for kb in (here, there):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            kb.query("rolle(X, Y)")
            kb.what_if(add_rules=rules)
        assert {warning.filename for warning in found} == {__file__}
        said.append([(warning.category, str(warning.message)) for warning in found])
    assert said[0] == said[1]
    assert [kind for kind, _ in said[1]] == [UnknownPredicateWarning, CrossProductWarning]


def test_what_is_given_as_facts(there: Connection, here: tidelog.KnowledgeBase) -> None:
    numbers = np.arange(6).reshape(3, 2)
    for kb in (here, there):
        assert kb.what_if(add={"pair": numbers}).added["pair"] == {(0, 1), (2, 3), (4, 5)}
        for wrong in ([1], {"pair": 5}, {"pair": "text"}, {"pair": [5]}, {"pair": np.arange(3)}):
            with pytest.raises(DataError):
                kb.update(add=wrong)  # type: ignore[arg-type]
        for update in ({"ad": {}}, 7):
            with pytest.raises(DataError):
                list(kb.stream([update]))  # type: ignore[list-item]
        assert [bool(change) for change in kb.stream([{"add": {"streamed": [("a",)]}}], marking=3)] == [True]
        waiting: Queue[Any] = Queue()
        for item in ({"delete": {"streamed": [("a",)]}}, None):
            waiting.put(item)
        assert [bool(change) for change in kb.stream(waiting)] == [True]


def test_what_is_not_there_says_what_is(there: Connection) -> None:
    with pytest.raises(TidelogError, match="convert"):
        there.add_rules("[?X, a, b] :- [?X, c, d] .", syntax="zodiac")
    with pytest.raises(TidelogError, match="notes of commits"):
        there.update(add={"p": [(1,)]}, commit={"batch": "17"})  # type: ignore[arg-type]
    with pytest.raises(TidelogError, match="explain-change"):
        there.what_if(add={"role": [("zoe", 1)]}).explain("role(zoe, 1)")
    with pytest.raises(TidelogError, match="what_if"):
        there.graph.plan(add_rules="p(X) :- q(X).")


def test_rules_and_graphs_are_used_alike(there: Connection, here: tidelog.KnowledgeBase) -> None:
    for kb in (here, there):
        kb.add_rules("old(X) :- age(X, N), N > 30.")
        assert [(str(rule), rule.facts) for rule in kb.rules][1:] == [("old(X) :- age(X, N), N > 30.", 1)]
        assert kb.graph.draw("dot").startswith("digraph")
        kb.remove_rules("old(X) :- age(X, N), N > 30.")


def test_what_cannot_be_followed_is_refused_at_once(there: Connection, here: tidelog.KnowledgeBase) -> None:
    for kb in (here, there):
        for query in ("role($who, X)", "( role(X, _) ; held(X, _) )"):
            with pytest.raises(ParseError):
                kb.subscribe(query, print)
        with pytest.raises(TidelogError, match="on_change"):
            kb.subscribe("role(ada, X)", None)  # type: ignore[arg-type]


def test_a_subscription_knows_how_many_answers_there_are(there: Connection) -> None:
    told: list[RemoteAnswerChange] = []
    arrived = threading.Condition()

    def on_change(change: RemoteAnswerChange) -> None:
        with arrived:
            told.append(change)
            arrived.notify_all()

    with there.subscribe("counted(X)", on_change) as subscription:
        assert subscription.answers == 0
        there.update(add={"counted": [(IRI("http://x/y"),), (2,)]})
        with arrived:
            assert arrived.wait_for(lambda: len(told) == 2, 60)
        assert subscription.answers == 2
        there.update(delete={"counted": [(2,)]})
        with arrived:
            assert arrived.wait_for(lambda: len(told) == 3, 60)
        assert subscription.answers == 1


def test_a_closed_subscription_leaves_its_stream(there: Connection) -> None:
    """At the next sign of life, be it that of a commit which changes none of the answers."""
    subscription = there.subscribe("left(X)", print)
    subscription.close()
    there.update(add={"elsewhere": [(1,)]})
    subscription._thread.join(60)
    assert not subscription._thread.is_alive()


def test_a_connection_that_was_closed_says_so(server: ServerProcess) -> None:
    kb = tidelog.connect(server.url)
    kb.close()
    for ask in (lambda: kb.version, lambda: kb.query("role(X, Y)"), lambda: next(kb.changes("role(X, Y)"))):
        with pytest.raises(TidelogError, match="is closed"):
            ask()

    async def twin() -> None:
        other: AsyncConnection = tidelog.connect_async(server.url)
        assert await other.count() > 5
        await other.aclose()
        with pytest.raises(TidelogError, match="is closed"):
            await other.version()
        with pytest.raises(TidelogError, match="is closed"):
            await anext(other.changes("role(X, Y)"))

    asyncio.run(twin())
