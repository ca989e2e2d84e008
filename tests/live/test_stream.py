"""Streams: every source; marks change the work but never the results; errors come in their place."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from queue import Queue
from typing import Any

import pytest

import tidelog.store.pair_bits
import tidelog.store.store
from engine_util import ALGORITHMS, explicit, facts_of, knowledge_base, materialisation
from generate import EVERYTHING, POSITIVE, Features, soak
from naive import State, Update, change, minus, without_empty
from tidelog import DataError, KnowledgeBase, TidelogError
from tidelog.facts.results import Change
from tidelog.live.knowledge import Knowledge

PATHS = "path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z)."
RENAMING = "edge1(X, Y) :- edge(X, Y). " + " ".join(f"edge{n + 1}(X, Y) :- edge{n}(X, Y)." for n in range(1, 4))

ADD = {"add": {"edge": [("a", "b")]}}
ADD_MORE = {"add": {"edge": [("b", "c")]}}
DELETE = {"delete": {"edge": [("a", "b")]}}


def sizes(changes: Iterable[Change]) -> list[tuple[int, int]]:
    return [(sum(map(len, change.added.values())), sum(map(len, change.removed.values()))) for change in changes]


UPDATES = [ADD, ADD_MORE, DELETE]
EXPECTED = [(2, 0), (3, 0), (0, 3)]


# --- sources


@pytest.mark.parametrize("marking", [0, 1, 3])
def test_any_source_gives_a_change_per_update(marking: int) -> None:
    filled: Queue[object] = Queue()
    for update in (*UPDATES, None):
        filled.put(update)
    for updates in (UPDATES, tuple(UPDATES), iter(UPDATES), (update for update in UPDATES), filled):
        assert sizes(KnowledgeBase(PATHS).stream(updates, marking=marking)) == EXPECTED


@pytest.mark.parametrize("marking", [0, 1, 3])
def test_an_asynchronous_source_gives_an_asynchronous_stream(marking: int) -> None:
    async def updates() -> AsyncIterator[Mapping[str, object]]:
        for update in UPDATES:
            await asyncio.sleep(0)
            yield update

    async def run() -> list[Change]:
        return [change async for change in KnowledgeBase(PATHS).stream(updates(), marking=marking)]

    assert sizes(asyncio.run(run())) == EXPECTED


def test_an_update_that_is_not_there_yet_delays_nothing() -> None:
    go_on = threading.Event()

    def slow() -> Iterator[Mapping[str, object]]:
        yield ADD
        assert go_on.wait(30)
        yield DELETE

    stream = KnowledgeBase(PATHS).stream(slow())
    assert sizes([next(stream)]) == [(2, 0)]
    go_on.set()
    assert sizes(stream) == [(0, 2)]


def test_an_update_that_is_still_awaited_delays_nothing() -> None:
    async def run() -> list[tuple[int, int]]:
        go_on = asyncio.Event()

        async def slow() -> AsyncIterator[Mapping[str, object]]:
            yield ADD
            await go_on.wait()
            yield DELETE

        stream = KnowledgeBase(PATHS).stream(slow())
        first = await anext(stream)
        go_on.set()
        return sizes([first, *[change async for change in stream]])

    assert asyncio.run(run()) == [(2, 0), (0, 2)]


@pytest.mark.plain
def test_a_queue_answers_each_update_before_the_next_comes() -> None:
    updates: Queue[object] = Queue()
    stream = KnowledgeBase(PATHS).stream(updates)
    for update, size in zip(UPDATES, EXPECTED, strict=True):
        updates.put(update)
        assert sizes([next(stream)]) == [size]
    updates.put(None)
    assert list(stream) == []
    assert list(stream) == []


def test_a_queue_that_another_thread_fills() -> None:
    updates: Queue[object] = Queue(maxsize=2)

    def fill() -> None:
        for number in range(60):
            updates.put({"add": {"edge": [(number, number + 1)]}})
            updates.put({"delete": {"edge": [(number, number + 1)]}})
        updates.put(None)

    thread = threading.Thread(target=fill)
    thread.start()
    kb = KnowledgeBase(PATHS)
    assert sizes(kb.stream(updates)) == [(2, 0), (0, 2)] * 60
    thread.join()


# --- errors


@pytest.mark.parametrize("marking", [0, 1, 3])
@pytest.mark.parametrize("bad", [{"add": {"edge": [("a",)]}}, {"ad": {}}, 7, {"remove_rules": "p(X) :- q(X)."}])
@pytest.mark.parametrize("wrap", [list, iter])
def test_an_update_that_fails_raises_in_its_place_and_the_stream_goes_on(marking: int, bad: object, wrap: type) -> None:
    kb = KnowledgeBase(PATHS)
    stream = kb.stream(wrap([ADD, bad, ADD_MORE]), marking=marking)
    assert sizes([next(stream)]) == [(2, 0)]
    with pytest.raises(TidelogError):
        next(stream)
    assert sizes(stream) == [(3, 0)]


@pytest.mark.parametrize("updates", [5, None, object()])
def test_what_gives_no_updates_is_no_stream(updates: Any) -> None:
    with pytest.raises(DataError, match="a stream is of updates"):
        KnowledgeBase(PATHS).stream(updates)


def test_what_looks_like_the_end_of_a_stream_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(*_: object, **__: object) -> Change:
        raise StopIteration

    kb = KnowledgeBase(PATHS)
    monkeypatch.setattr(Knowledge, "update", give_up)
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(kb.stream([ADD], marking=0))


def test_an_error_of_the_source_comes_after_the_changes_before_it() -> None:
    def broken() -> Iterator[Mapping[str, object]]:
        yield ADD
        raise DataError("the line is cut")

    stream = KnowledgeBase(PATHS).stream(broken())
    assert sizes([next(stream)]) == [(2, 0)]
    with pytest.raises(DataError, match="the line is cut"):
        next(stream)


class BrokenRows:
    """Rows that turn out to be empty only when they are read."""

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[tuple[str, str]]:
        raise RuntimeError("the rows cannot be read")


@pytest.mark.parametrize("side", ["add", "delete"])
def test_rows_that_cannot_be_read_fail_in_the_place_of_their_update(side: str) -> None:
    stream = KnowledgeBase(PATHS).stream([ADD, {side: {"edge": BrokenRows()}}, ADD_MORE])
    assert sizes([next(stream)]) == [(2, 0)]
    with pytest.raises(RuntimeError, match="cannot be read"):
        next(stream)
    assert sizes(stream) == [(3, 0)]


def test_rows_that_can_be_read_only_once_are_left_to_their_update() -> None:
    kb = KnowledgeBase(PATHS)
    list(kb.stream([ADD, {"delete": {"edge": iter([("a", "b")])}}]))
    assert len(kb) == 0


# --- marks


def table_2(size: int = 10, nodes: int = 100) -> list[Mapping[str, object]]:
    """A stream like that of the paper's Table 2: 100 edges, then 49 updates in which as many come as go."""
    dice = random.Random(7)
    present: set[tuple[int, int]] = set()
    stream: list[Mapping[str, object]] = []
    for number in range(50):
        gone = dice.sample(sorted(present), size) if number else []
        come: set[tuple[int, int]] = set()
        while len(come) < (size if number else 100):
            come.add((dice.randrange(nodes), dice.randrange(nodes)))
            come -= present
        present = present - set(gone) | come
        stream.append({"delete": {"edge": gone}, "add": {"edge": sorted(come)}})
    return stream


def work(maintenance: str, rules: str, marking: bool, stream: list[Mapping[str, object]]) -> Counter[str]:
    """As in the paper, the first update is completed before the stream of the others is looked at."""
    kb = KnowledgeBase(rules, maintenance=maintenance, modules=False)
    total: Counter[str] = Counter(kb.update(**stream[0]).work)  # type: ignore[arg-type]
    for each in kb.stream(stream[1:], marking=marking):
        total.update(each.work)
    return total


def test_table_2_of_the_paper() -> None:
    without = work("backward-forward", RENAMING, False, table_2())
    assert (without["deletion"], without["insertion"], without["backward"], without["forward"]) == (1960, 2360, 0, 0)
    assert (without["marked_explicit"], without["marked_implicit"]) == (0, 0)
    marked = work("backward-forward", RENAMING, True, table_2())
    assert (marked["deletion"], marked["insertion"], marked["backward"], marked["forward"]) == (1480, 2360, 0, 0)
    assert (marked["marked_explicit"], marked["marked_implicit"]) == (480, 480)


def test_under_dred_derived_facts_pass_marks_on() -> None:
    marked = work("dred", RENAMING, True, table_2())
    assert (marked["marked_explicit"], marked["marked_implicit"]) == (480, 4 * 480)
    assert marked["deletion"] == 1960 - 4 * 480


@pytest.mark.parametrize("maintenance", ["backward-forward", "backward-forward-counting", "dred"])
def test_marks_save_deletions_where_paths_change(maintenance: str) -> None:
    stream = table_2(nodes=20)
    without = work(maintenance, PATHS, False, stream)
    marked = work(maintenance, PATHS, True, stream)
    assert marked["deletion"] < without["deletion"]
    assert marked["insertion"] == without["insertion"]
    assert marked["marked_explicit"] == 480
    assert marked["marked_implicit"] > 0


def test_under_dred_what_comes_back_is_derived_again() -> None:
    """Each update undoes the one before it: only what it deletes is known in advance."""
    edges = [(number, number + 1) for number in range(10)]
    stream: list[Mapping[str, object]] = [{"add": {"edge": edges}}]
    stream += [{"delete": {"edge": edges[:5]}}, {"add": {"edge": edges[:5]}}] * 3
    without = work("dred", RENAMING, False, stream)
    marked = work("dred", RENAMING, True, stream)
    assert without["insertion"] == marked["insertion"] == 40 + 3 * 20
    # 2 of 6 updates have a successor that deletes; what the first of the stream deletes was not marked before.
    assert (marked["marked_explicit"], marked["marked_implicit"]) == (2 * 5, 2 * 20)
    assert (without["deletion"], marked["deletion"]) == (60, 20)


@pytest.mark.plain
@pytest.mark.parametrize("maintenance", ["dred", "dred-counting", "counting"])
@pytest.mark.parametrize("last", [set(), {"q"}, {"s"}, {"q", "s"}])
def test_what_comes_back_must_hold_again(maintenance: str, last: set[str]) -> None:
    """r and t went with p; p comes back, but what else they rest on may go meanwhile."""
    rules = "r(X) :- p(X), q(X). t(X) :- r(X), s(X). r(X) :- t(X), q(X)."
    kb = KnowledgeBase(rules, maintenance=maintenance)
    fact = [("c",)]
    kb.update(add={"p": fact, "q": fact, "s": fact})
    updates = [{"delete": {"p": fact}}, {"add": {"p": fact}, "delete": dict.fromkeys(last, fact)}]
    list(kb.stream(updates))
    assert ("c",) not in kb.facts("r") if "q" in last else ("c",) in kb.facts("r")
    assert (("c",) in kb.facts("t")) is (last == set())


def test_what_marks_announced_is_not_derived_again() -> None:
    """The heads of a rule that copies facts are expected, so that the rule need not run for them; other rules must."""
    rules = RENAMING + " seen(X) :- edge(X, Y), kept(Y)."
    updates = [
        {"add": {"edge": [(1, 2), (3, 4)], "kept": [(2,), (4,)], "edge1": [(3, 4)]}},
        {"add": {"edge": [(5, 6)]}, "delete": {"kept": [(4,)]}},
        {"delete": {"edge": [(1, 2), (3, 4)]}},
    ]
    kb = KnowledgeBase(rules, maintenance="backward-forward")
    stream = kb.stream(updates)
    next(stream), next(stream)
    copying = next(rule for rule in kb.rule_statistics() if rule.rule.startswith("edge1("))
    last = next(stream)
    assert {name: set(facts) for name, facts in last.removed.items()} == {
        "edge": {(1, 2), (3, 4)},
        **{f"edge{n}": {(1, 2)} for n in range(1, 5)},
        "seen": {(1,)},
    }
    after = next(rule for rule in kb.rule_statistics() if rule.rule.startswith("edge1("))
    assert after.applications == copying.applications


def test_marks_outlive_the_compaction_of_a_relation() -> None:
    """The update that marks also deletes so much that facts are renumbered."""
    edges = [(number, number + 1) for number in range(4000)]
    kb = KnowledgeBase(RENAMING, maintenance="backward-forward")
    kb.update(add={"edge": edges})
    first, second = kb.stream([{"delete": {"edge": edges[:3000]}}, {"delete": {"edge": edges[3500:3600]}}])
    assert kb._engine.store.relation("edge1", 2).count < 4000
    assert (first.work["marked_explicit"], first.work["marked_implicit"]) == (100, 100)
    assert second.work["deletion"] == 4 * 100 - 100
    assert len(kb.facts("edge4")) == 900


@pytest.mark.plain
def test_what_the_next_update_deletes_and_adds_is_not_marked() -> None:
    kb = KnowledgeBase(PATHS, maintenance="backward-forward")
    both = {"delete": {"edge": [("a", "b")]}, "add": {"edge": [("a", "b")]}}
    assert [change.work["marked_explicit"] for change in kb.stream([ADD, both])] == [0, 0]
    assert [change.work["marked_explicit"] for change in kb.stream([ADD_MORE, DELETE])] == [1, 0]


@pytest.mark.plain
@pytest.mark.parametrize(("modules", "marks"), [(True, 0), (False, 1)])
def test_auto_marks_only_where_a_recursion_passes_marks_on(modules: bool, marks: int) -> None:
    kb = KnowledgeBase(PATHS, modules=modules)
    kb.update(**ADD)
    assert [change.work["marked_explicit"] for change in kb.stream([ADD_MORE, DELETE])] == [marks, 0]
    kb.add_rules("path(X, Y) :- path(Y, X), edge(Y, Y).")
    kb.update(**ADD)
    assert [change.work["marked_explicit"] for change in kb.stream([ADD_MORE, DELETE])] == [1, 0]


@pytest.mark.plain
def test_marks_of_a_failed_update_are_gone() -> None:
    kb = KnowledgeBase(PATHS, maintenance="backward-forward", max_facts=5)
    kb.update(**ADD)
    chain = {"add": {"edge": [(n, n + 1) for n in range(9)]}}
    stream = kb.stream([chain, DELETE, ADD])
    with pytest.raises(TidelogError):
        next(stream)
    assert [change.work["marked_implicit"] for change in stream] == [0, 0]
    assert sorted(kb.facts("path")) == [("a", "b")]


# --- against the oracle


@pytest.fixture
def _tiny_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make arrays so small that every one of them has to grow."""
    monkeypatch.setattr(tidelog.store.store, "INITIAL_CAPACITY", 2)
    monkeypatch.setattr(tidelog.store.store, "HEAD_CELLS", 64)
    monkeypatch.setattr(tidelog.store.pair_bits, "PAIRS_FROM", 2)


def queued(updates: list[Any]) -> Queue[Any]:
    filled: Queue[Any] = Queue()
    for update in (*updates, None):
        filled.put(update)
    return filled


SOURCES: tuple[Any, ...] = (list, iter, queued)


def check_marked(state: State, stream: list[Update], maintenance: str, seed: int) -> None:
    """Each seed looks another number of updates ahead, in a source of another kind."""
    kb = knowledge_base(state, maintenance, modules=seed % 2 == 0)
    before = without_empty(state.materialise())
    source = SOURCES[seed % len(SOURCES)]([update.mapping() for update in stream])
    changes = kb.stream(source, marking=1 + seed % 5)
    for update in stream:
        result = next(changes)
        state = state.apply(update)
        after = without_empty(state.materialise())
        assert materialisation(kb) == after
        assert explicit(kb) == without_empty(state.explicit)
        added, removed = change(before, after)
        assert facts_of(result.added) == without_empty(added)
        assert facts_of(result.removed) == without_empty(removed)
        before = after


@pytest.mark.usefixtures("_tiny_arrays")
@pytest.mark.parametrize("maintenance", ALGORITHMS)
@pytest.mark.parametrize("features", [POSITIVE, EVERYTHING], ids=["positive", "everything"])
def test_marks_never_change_results(maintenance: str, features: Features) -> None:
    for seed in range(5000, 5020):
        case, stream = soak(seed, features, length=8)
        check_marked(case.state, stream, maintenance, seed)


@pytest.mark.usefixtures("_tiny_arrays")
@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_marks_never_change_results_where_updates_are_taken_back(maintenance: str) -> None:
    """Each update of facts is followed by the one that undoes it: marks of both signs, on facts that come and go."""
    for seed in range(5100, 5115):
        case, stream = soak(seed, EVERYTHING, length=5)
        state = case.state
        undoing: list[Update] = []
        for update in stream:
            after = state.apply(update)
            undoing.append(update)
            if not update.add_rules and not update.remove_rules:
                undoing.append(Update(minus(state.explicit, after.explicit), minus(after.explicit, state.explicit)))
            else:
                state = after
        check_marked(case.state, undoing, maintenance, seed)


@pytest.mark.parametrize("marking", [0, 1, 3])
@pytest.mark.parametrize("source", [list, iter])
def test_none_ends_a_queue_and_nothing_else(source: Any, marking: int) -> None:
    kb = KnowledgeBase()
    stream = kb.stream(source([{"add": {"p": [(1,)]}}, None, {"add": {"p": [(2,)]}}]), marking=marking)
    assert next(stream).added["p"] == {(1,)}
    with pytest.raises(DataError, match="only a queue is ended by None"):
        next(stream)
    assert next(stream).added["p"] == {(2,)}
