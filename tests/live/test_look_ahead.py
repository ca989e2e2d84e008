"""Streams that look several updates ahead, and past changes of rules: which update a mark is for, and what it saves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from itertools import count
from queue import Queue
from typing import Any

import pytest

from engine_util import ALGORITHMS, knowledge_base, materialisation
from generate import EVERYTHING, soak
from naive import without_empty
from tidelog import DataError, KnowledgeBase, TidelogError, UnknownRuleError
from tidelog.engine.transaction.transaction import Transaction
from tidelog.live.look_ahead import LookAhead
from tidelog.machine import flags as F
from tidelog.machine.flags import MOST_AHEAD

Updates = list[Mapping[str, Any]]

JOIN = "r(X, Z) :- p(X, Y), q(Y, Z)."
P = [(number, "m") for number in range(5)]
Q = [("m", "end")]
NOTHING: Mapping[str, Any] = {"add": {"other": [(1,)]}}
ADD_Q: Mapping[str, Any] = {"add": {"q": Q}}
DELETE_P: Mapping[str, Any] = {"delete": {"p": P}}


def works(updates: Updates, marking: int, rules: str = JOIN, maintenance: str = "backward-forward") -> list[Any]:
    """The work of each update, where the facts of p are there beforehand."""
    kb = KnowledgeBase(rules, maintenance=maintenance, modules=False)
    kb.update(add={"p": P})
    return [change.work for change in kb.stream(updates, marking=marking)]


def marks(work: Mapping[str, int]) -> tuple[int, int]:
    return work["marked_explicit"], work["marked_implicit"]


# --- further than the next update


@pytest.mark.plain
@pytest.mark.parametrize("maintenance", ["backward-forward", "dred"])
def test_a_deletion_two_updates_ahead_is_marked_and_saves_its_applications(maintenance: str) -> None:
    """Only the first update finds the instances of the rule: what the third one deletes must be known by then."""
    updates = [ADD_Q, NOTHING, DELETE_P]
    first, second, third = works(updates, 1, maintenance=maintenance)
    assert (marks(first), marks(second), third["deletion"]) == ((0, 0), (5, 0), 5)
    first, second, third = works(updates, 2, maintenance=maintenance)
    assert (marks(first), marks(second), third["deletion"]) == ((5, 5), (0, 0), 0)


@pytest.mark.plain
@pytest.mark.parametrize("maintenance", ["backward-forward", "dred"])
def test_a_mark_is_for_the_update_that_deletes(maintenance: str) -> None:
    """The update in between has facts of the same relations to check, and checks no others."""
    updates: Updates = [ADD_Q, {"delete": {"p": P[:2]}}, {"delete": {"p": P[2:]}}]
    checks = "checked" if maintenance == "backward-forward" else "overdeleted"
    with_one, with_two = (works(updates, ahead, maintenance=maintenance) for ahead in (1, 2))
    assert [work[checks] for work in with_one] == [work[checks] for work in with_two] == [0, 2, 3]
    assert [work["deletion"] for work in with_one] == [0, 0, 3]
    assert [work["deletion"] for work in with_two] == [0, 0, 0]
    assert list(map(marks, with_two)) == [(5, 5), (0, 0), (0, 0)]


def test_an_instance_goes_with_the_first_of_its_facts() -> None:
    updates: Updates = [ADD_Q, {"delete": {"q": Q}}, DELETE_P]
    _, second, third = works(updates, 2)
    assert (second["deletion"], second["checked"]) == (0, 5)
    assert (third["deletion"], third["checked"]) == (0, 0)


def test_a_fact_with_two_derivations_is_expected_twice() -> None:
    rules = "r(Z) :- p(X, Y), q(Y, Z)."
    updates: Updates = [ADD_Q, {"delete": {"p": P[:2]}}, {"delete": {"p": P[2:]}}]
    first, second, third = works(updates, 2, rules)
    assert marks(first) == (5, 2)
    assert (second["deletion"], second["checked"] > 0, third["deletion"]) == (0, True, 0)


@pytest.mark.plain
def test_what_an_update_deletes_and_adds_belongs_to_a_later_one() -> None:
    again = {"delete": {"p": P}, "add": {"p": P}}
    first, _, third = works([ADD_Q, again, DELETE_P], 2)
    assert (marks(first), third["deletion"]) == ((5, 5), 0)


def test_what_goes_and_comes_back_is_marked_when_it_is_back() -> None:
    updates: Updates = [ADD_Q, DELETE_P, {"add": {"p": P}}, DELETE_P]
    first, second, third, fourth = works(updates, 3)
    # While the first is in work, the facts of p are marked for the second and for the fourth, and r for the second.
    assert (marks(first), second["deletion"]) == ((10, 5), 0)
    assert (marks(third), fourth["deletion"]) == ((5, 5), 0)


def test_facts_that_come_are_marked_for_all_that_delete_them() -> None:
    updates: Updates = [
        {"add": {"p": [("a", "m"), ("b", "m"), ("c", "m")], "q": Q}},
        *({"delete": {"p": [(name, "m")]}} for name in "abc"),
    ]
    first, *others = works(updates, 3)
    assert marks(first) == (3, 3)
    assert [(work["deletion"], work["checked"]) for work in others] == [(0, 1)] * 3


def test_copies_are_marked_when_their_update_is_next() -> None:
    first, second, third = works([NOTHING, NOTHING, DELETE_P], 2, "c(X, Y) :- p(X, Y).")
    assert (marks(first), marks(second), third["deletion"]) == ((5, 0), (0, 5), 0)


def test_marks_for_later_updates_outlive_the_compaction_of_a_relation() -> None:
    rows = [(number, "m") for number in range(4000)]
    kb = KnowledgeBase(JOIN, maintenance="backward-forward")
    kb.update(add={"p": rows})
    updates: Updates = [{"add": {"q": Q}, "delete": {"p": rows[:3000]}}, NOTHING, {"delete": {"p": rows[3500:3600]}}]
    first, _, third = kb.stream(updates, marking=2)
    assert kb._engine.store.relation("p", 2).count < 4000
    assert (marks(first.work), third.work["deletion"], len(kb.facts("r"))) == ((100, 100), 0, 900)


@pytest.mark.parametrize("ahead", [MOST_AHEAD, 1000])
def test_marks_reach_a_limited_number_of_updates_ahead(ahead: int) -> None:
    between = [NOTHING] * (MOST_AHEAD - 1)
    assert works([ADD_Q, *between, DELETE_P], ahead)[-1]["deletion"] == 0
    assert works([ADD_Q, *between, NOTHING, DELETE_P], ahead)[-1]["deletion"] == 5


def test_marks_belong_to_one_stream() -> None:
    """Whatever else is done between two updates of a stream: what was marked counts for nothing then."""
    kb = KnowledgeBase(JOIN, maintenance="backward-forward")
    kb.update(add={"p": P})
    stream, other = kb.stream([ADD_Q, NOTHING, DELETE_P], marking=2), kb.stream([NOTHING], marking=2)
    next(stream), next(other), next(stream)
    assert next(stream).work["deletion"] == 5
    assert len(kb.facts("r")) == 0


def test_a_failed_update_leaves_no_marks() -> None:
    kb = KnowledgeBase(JOIN, maintenance="backward-forward")
    kb.update(add={"p": P})
    stream = kb.stream([ADD_Q, {"add": {"p": [(1,)]}}, NOTHING, DELETE_P], marking=3)
    next(stream)
    with pytest.raises(TidelogError):
        next(stream)
    next(stream)
    assert next(stream).work["deletion"] == 5
    assert len(kb.facts("r")) == 0


class Stopped(Exception):
    """An update is to be rolled back."""


def marked_facts(kb: KnowledgeBase) -> list[str]:
    """The relations in which facts have marks between two updates."""
    relations = kb._engine.store.relations
    return [each.name for each in relations if (each.flags & (F.MARKED | F.AHEAD)).any()]


@pytest.mark.parametrize("maintenance", ["auto", "backward-forward", "dred"])
def test_no_fact_keeps_a_mark_wherever_an_update_ends(monkeypatch: pytest.MonkeyPatch, maintenance: str) -> None:
    """Every fourth pause ends its update, which changes rules or facts; the others commit."""
    pauses = count(1)
    observe = LookAhead.observe

    def observed(ahead: LookAhead, transaction: Transaction) -> None:
        observe(ahead, transaction)
        if next(pauses) % 4 == 0:
            raise Stopped

    monkeypatch.setattr(LookAhead, "observe", observed)
    for seed in range(5300, 5308):
        case, stream = soak(seed, EVERYTHING, length=8)
        kb, state = knowledge_base(case.state, maintenance, modules=seed % 2 == 0), case.state
        changes = kb.stream([update.mapping() for update in stream], marking=3)
        for update in stream:
            with suppress(Stopped, UnknownRuleError):  # of a rule whose update was rolled back
                next(changes)
                state = state.apply(update)
            assert materialisation(kb) == without_empty(state.materialise())
            assert marked_facts(kb) == []


def test_the_trace_of_the_paper_looks_one_update_ahead() -> None:
    kb = KnowledgeBase(JOIN, maintenance="backward-forward", trace="paper")
    kb.update(add={"p": P})
    assert [change.work["marked_explicit"] for change in kb.stream([ADD_Q, NOTHING, DELETE_P], marking=2)] == [0, 5, 0]


# --- rules that change


@pytest.mark.plain
@pytest.mark.parametrize("maintenance", ["backward-forward", "dred"])
def test_a_change_of_rules_leaves_marks(maintenance: str) -> None:
    updates: Updates = [ADD_Q, {"add_rules": JOIN}, DELETE_P]
    _, second, third = works(updates, 1, "s(X) :- r(X, X).", maintenance)
    assert (marks(second), third["deletion"]) == ((5, 5), 0)


@pytest.mark.plain
@pytest.mark.parametrize("maintenance", ["backward-forward", "dred"])
def test_a_change_of_rules_uses_marks(maintenance: str) -> None:
    updates: Updates = [ADD_Q, {**DELETE_P, "add_rules": "s(X) :- t(X)."}]
    first, second = works(updates, 1, maintenance=maintenance)
    assert (marks(first), second["deletion"]) == ((5, 5), 0)


def test_marks_outlive_a_change_of_rules() -> None:
    changes: Updates = [{"add_rules": "s(X) :- r(X, Y)."}, {"remove_rules": "s(X) :- r(X, Y)."}]
    *_, last = works([ADD_Q, *changes, DELETE_P], 3)
    assert last["deletion"] == 0


def test_facts_that_become_a_closure_lose_their_marks() -> None:
    """And so do the pairs of a closure that become records."""
    close = "p(X, Z) :- p(X, Y), p(Y, Z)."
    rows = [(number, number + 1) for number in range(6)]
    updates: Updates = [
        {"add": {"q": [(number, "end") for number in range(8)]}},
        {"add_rules": close},
        {"delete": {"p": rows[:2]}},
        {"remove_rules": close},
        {"delete": {"p": rows[2:4]}},
    ]
    for ahead in range(6):
        kb = KnowledgeBase(JOIN, maintenance="backward-forward")
        kb.update(add={"p": rows})
        sizes = [(len(kb.facts("p")), len(kb.facts("r"))) for _ in kb.stream(updates, marking=ahead)]
        assert sizes == [(6, 6), (21, 6), (10, 4), (4, 4), (2, 2)]


def test_names_are_not_read_beyond_a_prefix() -> None:
    """What a name means is known once the update that may declare its prefix has been applied."""
    kb = KnowledgeBase(maintenance="backward-forward")
    declaring = {"add_rules": "@prefix ex: <http://e/> . ex:copy(X) :- ex:fact(X)."}
    updates: Updates = [
        {"add": {"<http://e/fact>": [(1,), (2,)]}},
        declaring,
        {"delete": {"ex:fact": [(1,)]}},
    ]
    *_, last = kb.stream(updates, marking=3)
    assert {name: set(facts) for name, facts in last.removed.items()} == {"ex:fact": {(1,)}, "ex:copy": {(1,)}}
    assert last.work["deletion"] == 0


# --- sources


@pytest.mark.parametrize("marking", [-1, 1.0, "2", None])
def test_marking_is_a_number_of_updates(marking: Any) -> None:
    with pytest.raises(TidelogError, match="how many updates a stream looks ahead"):
        KnowledgeBase().stream([], marking=marking)


class Taken:
    """An iterator that counts what was taken from it; at some places it raises, and goes on afterwards."""

    def __init__(self, length: int, errors: tuple[int, ...] = ()) -> None:
        self.count = 0
        self._length = length
        self._errors = errors

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return self

    def __next__(self) -> Mapping[str, Any]:
        self.count += 1
        if self.count > self._length:
            raise StopIteration
        if self.count in self._errors:
            raise DataError(f"no {self.count}")
        return {"add": {"p": [(self.count,)]}}


def told(stream: Iterator[Any]) -> list[str]:
    """The changes and errors of a stream."""
    found = []
    while True:
        try:
            change = next(stream, None)
        except DataError as error:
            found.append(str(error))
            continue
        if change is None:
            return found
        found += [str(row[0]) for row in change.added["p"]]


@pytest.mark.parametrize("ahead", range(5))
def test_an_iterator_is_asked_for_no_more_than_is_looked_at(ahead: int) -> None:
    source = Taken(12)
    stream = KnowledgeBase("r(X) :- p(X).", maintenance="backward-forward").stream(source, marking=ahead)
    for number in range(1, 5):
        assert set(next(stream).added["p"]) == {(number,)}
        assert source.count <= number + ahead
    assert told(stream) == [str(number) for number in range(5, 13)]


@pytest.mark.parametrize("ahead", range(5))
def test_errors_of_a_source_come_in_their_place(ahead: int) -> None:
    kb = KnowledgeBase("r(X) :- p(X).", maintenance="backward-forward")
    expected = ["1", "no 2", "3", "4", "no 5", "no 6", "7"]
    assert told(kb.stream(Taken(7, (2, 5, 6)), marking=ahead)) == expected


def test_a_queue_is_polled_for_all_that_are_there() -> None:
    updates: Queue[Any] = Queue()
    kb = KnowledgeBase(JOIN, maintenance="backward-forward")
    kb.update(add={"p": P})
    stream = kb.stream(updates, marking=2)
    for update in (ADD_Q, NOTHING, DELETE_P):
        updates.put(update)
    assert marks(next(stream).work) == (5, 5)
    updates.put(None)
    assert [change.work["deletion"] for change in stream] == [0, 0]


def test_updates_that_are_awaited_are_looked_at() -> None:
    """While the first one is in work, the loop has time to bring the others."""

    async def run() -> list[tuple[int, int]]:
        arrived = threading.Event()

        async def updates() -> AsyncIterator[Mapping[str, Any]]:
            yield {**ADD_Q, "add": {**ADD_Q["add"], "slow": [(1,)]}}
            yield NOTHING
            yield DELETE_P
            arrived.set()

        kb = KnowledgeBase(maintenance="backward-forward")
        kb.register("wait", lambda _: arrived.wait(30))
        kb.add_rules("r(X, Z) :- p(X, Y), q(Y, Z), waited(1). waited(X) :- slow(X), true = wait(X).")
        kb.update(add={"p": P})
        found = [change.work async for change in kb.stream(updates(), marking=3)]
        return [(work["marked_explicit"], work["deletion"]) for work in found]

    assert asyncio.run(run()) == [(5, 0), (0, 0), (0, 0)]


@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_asynchronous_streams_end_where_the_oracle_does(maintenance: str) -> None:
    async def follow(seed: int) -> None:
        case, stream = soak(seed, EVERYTHING, length=6)

        async def given() -> AsyncIterator[Mapping[str, Any]]:
            for update in stream:
                await asyncio.sleep(0)
                yield update.mapping()

        kb, state = knowledge_base(case.state, maintenance, modules=seed % 2 == 0), case.state
        places = iter(stream)
        async for _ in kb.stream(given(), marking=seed % 6):
            state = state.apply(next(places))
            assert materialisation(kb) == without_empty(state.materialise())

    for seed in range(5200, 5206):
        asyncio.run(follow(seed))
