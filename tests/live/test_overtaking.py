"""Updates that pass each other: what is independent is committed beside the update in work, and all end the same."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

import tidelog.engine.engine
import tidelog.engine.reclaiming
import tidelog.engine.update.runner
import tidelog.facts.encoding
import tidelog.live.backlog
import tidelog.live.passing
import tidelog.live.worker
import tidelog.store.store
from audit import audit
from engine_util import ALGORITHMS, knowledge_base, materialisation
from flux import pause_at_every_step, visited
from generate import EVERYTHING, soak
from naive import Database, State, Update, union, without_empty
from soaking import seeds
from tidelog import ConstraintError, KnowledgeBase, TidelogError
from tidelog.closures import closed_graph
from tidelog.engine.update import rows as lazy_rows
from tidelog.engine.update.rows import Rows
from tidelog.engine.update.undo import UndoLog
from tidelog.language import parse_program
from tidelog.live.worker import Worker
from tidelog.machine import growth
from tidelog.values import Row

NAME = re.compile(r"\b(e\d+|p\d+|last)\b")

PATHS = "path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z). alone(X) :- node(X), not taken(X)."


def named_otherwise(facts: Database) -> Database:
    return {f"other_{name}": rows for name, rows in facts.items()}


def state_otherwise(state: State) -> State:
    """The same program and facts under other names."""
    text = NAME.sub(r"other_\1", "\n".join(map(str, state.rules)))
    return State(tuple(parse_program(text).rules), named_otherwise(state.explicit))


def facts_alone(update: Update) -> Update:
    return Update(add=update.add, delete=update.delete)


def both(one: State, other: State) -> State:
    return State((*one.rules, *other.rules), union(one.explicit, other.explicit))


@pytest.mark.plain
@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_an_update_beside_another_one(maintenance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the pauses of an update, others of a program that it has nothing to do with are applied."""
    pause_at_every_step(monkeypatch)
    made = 0
    for seed in seeds(range(4), f"updates beside others, {maintenance}"):
        (case, stream), (beside, more) = soak(seed, EVERYTHING, length=3), soak(seed + 100, EVERYTHING, length=9)
        one, other = case.state, state_otherwise(beside.state)
        kb = knowledge_base(both(one, other), maintenance, modules=bool(seed % 2))
        coming = [Update(named_otherwise(update.add), named_otherwise(update.delete)) for update in more]

        states = [one]

        def look(kb: KnowledgeBase, coming: list[Update] = coming, states: list[State] = states) -> None:
            nonlocal other, made
            rests = kb._lock._work[-1].at_rest
            if coming and rests and kb._engine.may_overtake({*coming[-1].add, *coming[-1].delete}):
                update = coming.pop()
                kb.update(**update.mapping())  # type: ignore[arg-type]
                other, made = other.apply(update), made + 1
                assert materialisation(kb) == without_empty(both(states[-1], other).materialise())

        for update in stream:
            with visited(kb, look, every=3):
                kb.update(**update.mapping())  # type: ignore[arg-type]
            states.append(states[-1].apply(update))
            assert materialisation(kb) == without_empty(both(states[-1], other).materialise())
            audit(kb)
    assert made > 5


def test_either_of_two_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    pause_at_every_step(monkeypatch)
    edges = [(n, n + 1) for n in range(20)]
    for first_fails, second_fails in ((True, False), (False, True), (True, True)):
        kb = KnowledgeBase()

        def boom(value: int) -> int:
            raise KeyboardInterrupt if value < 0 else ValueError

        kb.register("boom", boom)
        kb.add_rules(f"{PATHS} bad(Y) :- odd(X), Y = boom(X). worse(Y) :- edge(20, X), Y = boom(X).")
        kb.update(add={"edge": edges, "node": [(1,)]})
        before, seen = materialisation(kb), []

        def look(kb: KnowledgeBase, seen: list[object] = seen, fails: bool = second_fails) -> None:
            if not seen and kb._lock._work[-1].at_rest:
                seen.append(True)
                add = {"node": [(2,)]} | ({"odd": [(-1,)]} if fails else {})
                if fails:
                    with pytest.raises(KeyboardInterrupt):
                        kb.update(add=add)
                else:
                    kb.update(add=add)

        added = {"edge": [(20, -21 if first_fails else 21)]}
        with visited(kb, look):
            if first_fails:
                with pytest.raises(KeyboardInterrupt):
                    kb.update(add=added)
            else:
                kb.update(add=added)
        assert seen
        audit(kb)
        assert (("path", 0, 21) in kb) is not first_fails
        assert (("alone", 2) in kb) is not second_fails
        if first_fails and second_fails:
            assert materialisation(kb) == before


def test_what_an_update_in_work_violates_concerns_no_other() -> None:
    kb = KnowledgeBase(f"a(X) :- start(X). b(X) :- a(X). far(X) :- b(_), path(X, _). {PATHS}", modules=False)
    kb.add_rules(":- start(X), closed(X). :- node(X), X > 100.")  # found before the rules above are run
    kb.update(add={"edge": [(n, n + 1) for n in range(20)], "closed": [(5,)]})
    passed: list[str] = []

    def look(kb: KnowledgeBase) -> None:
        if kb._lock._work[-1].at_rest:
            kb.update(add={"node": [(len(passed),)]})
            passed.append(kb._engine.past.works[0].visited[-1] if kb._engine.past.works[0].visited else "")
            with pytest.raises(ConstraintError, match="node"):
                kb.update(add={"node": [(101,)]})

    with visited(kb, look), pytest.raises(ConstraintError, match="closed"):
        kb.update(add={"start": [(5,)], "edge": [(20, 21)]})
    assert "b" in passed, "some came when the constraint was violated already"
    assert set(kb.facts("alone")) == {(number,) for number in range(len(passed))}
    audit(kb)


@pytest.mark.parametrize("modules", [True, False])
def test_predicates_that_a_refused_update_brought_can_be_used(modules: bool) -> None:
    """Rules read them, and nobody has given any facts of them before."""
    rules = "seen(X) :- on(X). way(X, Y) :- link(X, Y). way(X, Z) :- way(X, Y), way(Y, Z). many(count(X)) :- item(X)."
    kb = KnowledgeBase(f"{PATHS} {rules} :- on(X), broken(X).", modules=modules)
    kb.update(add={"node": [(0,)]})
    given: dict[str, list[Row]] = {"on": [(1,)], "link": [(1, 2), (2, 3)], "item": [(1,), (2,)]}
    refused = 0

    def look(kb: KnowledgeBase) -> None:
        nonlocal refused
        if kb._lock._work[-1].at_rest:
            with pytest.raises(ConstraintError, match="broken"):
                kb.update(add=given | {"broken": [(1,)]})
            refused += 1

    with visited(kb, look):
        kb.update(add={"edge": [(n, n + 1) for n in range(5)]})
    assert refused
    kb.update(add=given)
    assert [set(kb.facts(name)) for name in given] == [set(rows) for rows in given.values()]
    assert (set(kb.facts("seen")), set(kb.facts("many"))) == ({(1,)}, {(2,)})
    assert set(kb.facts("way")) == {(1, 2), (2, 3), (1, 3)}
    audit(kb)


def test_a_closure_that_ends_is_seen_as_it_was_beside_other_updates() -> None:
    """Its rules went with the update in work, which has not come to it yet. What overtakes that ends nothing of it."""
    kb = KnowledgeBase(f"{PATHS} later(X) :- mark(X).")
    kb.update(add={"edge": [(n, n + 1) for n in range(5)], "mark": [(0,)]})
    before = set(kb.facts("path"))
    seen: list[set[Row]] = []

    def look(kb: KnowledgeBase) -> None:
        if kb._lock._work[-1].at_rest and "path" not in kb._engine.past.works[0].visited:
            kb.update(add={"node": [(len(seen),)]})
            seen.append(set(kb.facts("path")))

    with visited(kb, look):
        kb.update(add={"mark": [(1,)]}, delete={"mark": [(0,)]}, remove_rules="path(X, Y) :- edge(X, Y).")
    assert len(before) == 15
    assert seen
    assert all(paths == before for paths in seen)
    assert not kb.facts("path")
    audit(kb)


@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_a_refused_update_takes_nothing_out_of_a_deletion(maintenance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round of overdeletion goes on with its batch after another update has been taken back beside it."""
    pause_at_every_step(monkeypatch)
    rules = "far(Y, max(E)) :- far(X, D), edge(X, Y), E = D - 2, E > -9."
    kb = KnowledgeBase(f"{PATHS} {rules} :- node(X), X > 100.", maintenance=maintenance, modules=False)
    edges = [(0, 1), *((1, n) for n in range(2, 8))]
    kb.update(add={"edge": edges, "far": [(0, 1)]})
    refused = 0

    def look(kb: KnowledgeBase) -> None:
        nonlocal refused
        if kb._lock._work[-1].at_rest:
            with pytest.raises(ConstraintError, match="node"):
                kb.update(add={"node": [(101,)]})
            refused += 1

    with visited(kb, look):
        kb.update(delete={"edge": [(0, 1)], "far": [(0, 1)]})
    assert refused > 3
    assert not kb.facts("far")
    assert set(kb.facts("path")) == {*edges[1:]}
    audit(kb)


# --- threads


def test_an_update_of_another_thread_passes() -> None:
    kb = KnowledgeBase(PATHS, modules=False)
    in_work = threading.Event()
    done: list[str] = []

    def rest(at_rest: bool) -> None:
        """The pause of an update: the first one rests until the others have passed."""
        if at_rest and not in_work.is_set():
            in_work.set()
            kb._lock.rest(lambda: "small" in done)
        kb._lock.pause(at_rest)

    def load() -> None:
        kb.update(add={"edge": [(n, n + 1) for n in range(300)]})
        done.append("load")

    kb._engine.let_in = rest
    thread = threading.Thread(target=load)
    thread.start()
    assert in_work.wait(60)
    for number in range(20):
        kb.update(add={"node": [(number,)]})
        assert ("alone", number) in kb
        assert len(kb.facts("path")) == 0
    done.append("small")
    thread.join()
    assert done == ["small", "load"]
    assert len(kb.facts("path")) == 300 * 301 // 2
    audit(kb, oracle=False)


# --- the live mode


@pytest.mark.usefixtures("_tiny_slices")
def test_two_threads_do_not_encode_at_once() -> None:
    """While an update passes the live one in work, what is submitted is not encoded: both would create terms."""
    kb = KnowledgeBase(PATHS, modules=False)
    live = kb.live()
    live.submit(add={"edge": [(n, n + 1) for n in range(60)]})
    live.step(5)
    live.submit(add={"note": [("taken in",)]})
    assert not live._intake.incoming, "nobody encodes, so this is taken in at once"
    waits: list[bool] = []

    def rows() -> Iterator[tuple[str]]:
        yield ("first",)
        thread = threading.Thread(target=live.submit, kwargs={"add": {"note": [("waits",)]}})
        thread.start()
        thread.join()
        waits.append(bool(live._intake.incoming))
        yield ("second",)

    kb.update(add={"node": rows()})
    assert waits == [True]
    live.settle()
    assert set(kb.facts("note")) == {("taken in",), ("waits",)}
    assert set(kb.facts("alone")) == {("first",), ("second",)}
    audit(kb, oracle=False)


@pytest.fixture
def _tiny_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidelog.live.worker, "SLICE", 50)


@pytest.mark.usefixtures("_tiny_slices")
def test_what_is_independent_is_settled_first() -> None:
    kb = KnowledgeBase(PATHS, modules=False)
    live = kb.live()
    large = live.submit(add={"edge": [(n, n + 1) for n in range(300)]})
    live.step(20)
    small = live.submit(add={"node": [(7,)]})
    while not live.is_settled(small):
        live.step(1)
    assert not live.is_settled(large)
    assert live.settled == 0
    assert live.pending == 1
    assert ("alone", 7) in kb
    assert len(kb.facts("path")) == 0
    change = live.settle()
    assert live.settled == 2
    assert len(change.added["path"]) == 300 * 301 // 2
    assert len(change.added["alone"]) == 1


@pytest.mark.usefixtures("_tiny_slices")
def test_a_client_keeps_its_order() -> None:
    kb = KnowledgeBase(PATHS, modules=False)
    live = kb.live()
    large = live.submit(add={"edge": [(n, n + 1) for n in range(300)]}, client="ada")
    live.step(20)
    small = live.submit(add={"node": [(7,)]}, client="ada")
    other = live.submit(add={"note": [(8,)]}, client="bob")
    while not live.is_settled(other):
        live.step(1)
    assert not live.is_settled(small)
    live.settle()
    assert live.is_settled(small)
    assert live.is_settled(large)


@pytest.mark.usefixtures("_tiny_slices")
def test_what_was_not_come_to_is_taken_into_the_work() -> None:
    kb = KnowledgeBase(PATHS + "ends(X) :- path(X, Y), end(Y).", modules=False)
    live = kb.live()
    live.submit(add={"edge": [(n, n + 1) for n in range(40)]})
    live.step(20)
    live.submit(add={"end": [(40,)]})
    before = kb.version
    live.settle()
    assert kb.version == before + 1
    assert len(kb.facts("ends")) == 40
    audit(kb)


@pytest.mark.usefixtures("_tiny_slices")
def test_what_takes_work_back_may_go_first() -> None:
    kb = KnowledgeBase(PATHS, modules=False)
    edges = [(n, n + 1) for n in range(200)]
    kb.update(add={"edge": edges})
    live = kb.live()
    large = live.submit(delete={"edge": edges[::10]})
    live.step(20)
    small = live.submit(add={"edge": [edges[10]]}, priority=1)
    while not live.is_settled(small):
        live.step(1)
    assert not live.is_settled(large)
    live.settle()
    assert ("edge", *edges[10]) in kb
    assert ("edge", *edges[20]) not in kb
    audit(kb)


@pytest.mark.usefixtures("_tiny_slices")
def test_what_is_urgent_goes_first_and_stays_the_last_word() -> None:
    kb = KnowledgeBase(PATHS, modules=False)
    live = kb.live()
    load = live.submit(add={"edge": [(n, n + 1) for n in range(200)]})
    live.step(20)
    urgent = live.submit(delete={"edge": [(5, 6)]}, add={"edge": [(900, 901)]}, priority=1)
    while not live.is_settled(urgent):
        live.step(1)
    assert not live.is_settled(load)
    assert ("path", 900, 901) in kb
    live.settle()
    assert ("edge", 5, 6) not in kb
    assert ("edge", 6, 7) in kb
    waiting = [live.submit(add={"node": [(n,)]}) for n in range(3)]
    first = live.submit(delete={"node": [(1,)]}, priority=2)
    while not live.is_settled(first):
        live.step(1)
    live.settle()
    assert all(map(live.is_settled, waiting))
    assert set(kb.facts("node")) == {(0,), (2,)}
    with pytest.raises(TidelogError, match="a priority is an integer"):
        live.submit(priority=1.5)  # type: ignore[arg-type]


@pytest.mark.usefixtures("_tiny_slices")
@pytest.mark.parametrize("in_work", [False, True])
def test_what_a_refused_update_would_have_overwritten_counts(in_work: bool) -> None:
    """An urgent update goes first, and makes void what others before it do to the same facts; unless it is refused."""
    kb = KnowledgeBase(PATHS + ":- taken(X), X > 100.", modules=False)
    edges = [(n, n + 1) for n in range(60)]
    live = kb.live()
    live.submit(add={"edge": edges, "node": [(1,), (2,)]})
    live.step(20 if in_work else 0)
    accepted = live.submit(delete={"node": [(1,)]}, add={"edge": [(1, 0)]}, priority=1)
    refused = live.submit(delete={"edge": edges[5:], "node": [(2,)]}, add={"taken": [(101,)]}, priority=1)
    live.submit(delete={"node": [(2,)]}, priority=1)
    while not live.is_settled(refused):
        with suppress(ConstraintError):
            live.step(1)
    assert live.is_settled(accepted)
    with suppress(ConstraintError):
        live.settle()
    live.settle()
    assert set(kb.facts("edge")) == {*edges, (1, 0)}
    assert not kb.facts("node")
    audit(kb)


@pytest.mark.usefixtures("_tiny_slices")
def test_random_updates_end_the_same_whatever_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every state that can be seen holds all updates that are settled and no others; the end is that of the order in
    which they came.
    """
    monkeypatch.setattr(tidelog.live.worker, "SLICE", 5)
    for seed in seeds(range(25), "live updates that pass each other"):
        (case, stream), (beside, more) = soak(seed, length=5), soak(seed + 50, length=5)
        one, other = case.state, state_otherwise(beside.state)
        kb = knowledge_base(both(one, other), ALGORITHMS[seed % len(ALGORITHMS)], modules=bool(seed % 2))
        live, end = kb.live(), both(one, other)
        mixed = [update for pair in zip(stream, more, strict=False) for update in pair]
        for place, update in enumerate(mixed):
            given = facts_alone(update)
            if place % 2:
                given = Update(named_otherwise(given.add), named_otherwise(given.delete))
            live.submit(**given.mapping(), priority=(seed * place) % 3)  # type: ignore[arg-type]
            end = end.apply(given)
            live.step(1 + (seed + place) % 4)
        live.settle()
        assert materialisation(kb) == without_empty(end.materialise()), seed
        audit(kb)


# --- what takes long is passed wherever it is


@pytest.mark.usefixtures("_tiny_slices")
def test_a_batch_is_divided_where_one_part_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidelog.live.passing, "TOGETHER", 0.0)
    kb = KnowledgeBase(PATHS, modules=False)
    edges = [(n, n + 1) for n in range(60)]
    kb.update(add={"edge": edges, "taken": [(1,)]})
    live = kb.live()
    numbers = [live.submit(delete={"edge": edges[::10]}), live.submit(add={"node": [(1,), (2,)]})]
    numbers.append(live.submit(delete={"taken": [(1,)]}))
    while not all(map(live.is_settled, numbers[1:])):
        live.step(1)
    assert not live.is_settled(numbers[0])
    assert set(kb.facts("alone")) == {(1,), (2,)}
    assert len(kb.facts("path")) == 60 * 61 // 2
    change = live.settle()
    assert len(change.removed["edge"]) == 6
    assert len(change.added["alone"]) == 2
    audit(kb)


@pytest.mark.usefixtures("_tiny_slices")
def test_a_batch_of_one_client_is_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidelog.live.passing, "TOGETHER", 0.0)
    kb = KnowledgeBase(PATHS, modules=False)
    edges = [(n, n + 1) for n in range(60)]
    kb.update(add={"edge": edges})
    live = kb.live()
    first = live.submit(delete={"edge": edges[::10]}, client="ada")
    second = live.submit(add={"node": [(1,)]}, client="ada")
    before = kb.version
    while not live.is_settled(second):
        live.step(1)
    assert live.is_settled(first)
    assert kb.version == before + 1


@pytest.mark.usefixtures("_tiny_slices")
def test_what_takes_little_time_is_no_part_of_a_batch_that_may_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few facts may change many. Beside them, what has nothing to do with them is not to wait, nor to begin again."""
    monkeypatch.setattr(tidelog.engine.engine, "LARGE", 100)
    kb = KnowledgeBase(PATHS + "ends(X) :- path(X, Y), end(Y).", modules=False)
    edges = [(n, n + 1) for n in range(60)]
    kb.update(add={"edge": edges})
    for order in (1, -1):
        live, before = kb.live(), kb.version
        updates = [{"delete": {"edge": [edges[30]]}}, {"add": {"node": [(order,)]}}, {"add": {"end": [(order,)]}}]
        numbers = {name: live.submit(**update) for update in updates[::order] for name in next(iter(update.values()))}
        while not live.is_settled(numbers["node"]):
            live.step(1)
        assert not live.is_settled(numbers["edge"])
        assert live.is_settled(numbers["end"]) == (order < 0), "it is read together with what takes long"
        assert ("alone", order) in kb
        live.settle()
        assert kb.version == before + 2
        kb.update(add={"edge": [edges[30]]})
    audit(kb)


def test_updates_pass_one_that_is_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidelog.facts.encoding, "PIECE", 4)
    kb = KnowledgeBase(PATHS)
    live, seen = kb.live(), []
    large = live.submit(add={"edge": [(n, n + 1) for n in range(300)]})
    live.submit(add={"node": [(1,)]}, client="ada")
    same = live.submit(add={"edge": [(900, 901)]}, client="ada")
    after = live.submit(add={"note": [(1,)]}, client="ada")
    deliver = kb._knowledge.deliver

    def look(elsewhere: bool = False) -> None:
        seen.append((live.settled, live.is_settled(2), live.is_settled(same), live.is_settled(after)))
        deliver(elsewhere)

    monkeypatch.setattr(kb._knowledge, "deliver", look)
    live.settle()
    assert seen[0] == (0, True, False, False)
    assert live.is_settled(large)
    assert set(kb.facts("note")) == {(1,)}
    assert len(kb.facts("path")) == 300 * 301 // 2 + 1
    audit(kb, oracle=False)


def test_readers_and_updates_come_in_while_facts_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidelog.facts.encoding, "PIECE", 4)
    monkeypatch.setattr(tidelog.engine.reclaiming, "WORTH_FROM", 1)
    kb = KnowledgeBase(PATHS)
    kb.update(add={"edge": [("a", "b")]})
    seen: list[object] = []

    def look(at_rest: bool) -> None:
        work, worker = kb._lock._work[-1], kb._lock._worker
        work.at_rest, kb._lock._worker = at_rest, 0
        try:
            kb.update(add={"node": [(f"new {len(seen)}",)]}, delete={"node": [(f"new {len(seen) - 1}",)]})
            seen.append((len(kb.facts("path")), set(kb.query("path(X, $to)", to=f"only asked {len(seen)}"))))
        finally:
            work.at_rest, kb._lock._worker = False, worker

    with monkeypatch.context() as patch:
        patch.setattr(kb._lock, "pause", lambda at_rest: None if len(kb._lock._work) > 1 else look(at_rest))
        kb.update(add={"edge": [(f"from {n}", f"to {n}") for n in range(30)]})
    assert len(seen) > 3
    assert all(found == (1, set()) for found in seen)
    assert set(kb.facts("edge")) == {("a", "b"), *((f"from {n}", f"to {n}") for n in range(30))}
    assert set(kb.facts("alone")) == {(f"new {len(seen) - 1}",)}
    audit(kb)


def test_updates_pass_while_a_relation_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "PIECE", 4)
    monkeypatch.setattr(tidelog.store.store, "INITIAL_CAPACITY", 4)
    kb = KnowledgeBase(PATHS, modules=False)
    passed: list[int] = []
    between_pieces = Worker.between_pieces

    def submit_and_go_on(worker: Worker, passable: bool = False) -> None:
        numbers = [live.submit(add={"node": [(n,)]}) for n in range(len(passed), len(passed) + 3) if passable]
        between_pieces(worker, passable)
        passed.extend(number for number in numbers if live.is_settled(number))

    monkeypatch.setattr(Worker, "between_pieces", submit_and_go_on)
    live = kb.live()
    large = live.submit(add={"edge": [(n, n + 1) for n in range(12)]})
    live.settle_all()
    assert len(passed) > 5
    assert live.is_settled(large)
    assert len(kb.facts("path")) == 12 * 13 // 2
    assert set(kb.facts("alone")) == {(n,) for n in range(len(passed))}
    audit(kb)


def test_updates_pass_while_tables_and_indexes_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many facts that come at once stay out of the hash table. A deletion needs it, and an index."""
    kb = KnowledgeBase(PATHS, modules=False)
    edges = [(n, n + 1) for n in range(200)]
    kb.update(add={"edge": edges, "node": [(0,)]})
    assert [relation.name for relation in kb._engine.store.postponed] == ["path"]
    monkeypatch.setattr(growth, "PIECE", 1000)
    passed: list[tuple[str, bool]] = []
    between_pieces = Worker.between_pieces

    def submit_and_go_on(worker: Worker, passable: bool = False) -> None:
        making, has_table = kb._engine.store.making, not kb._engine.store.postponed
        if making is None or passed.count((making, has_table)) > 3:
            return between_pieces(worker, passable)
        number = live.submit(add={"node": [(len(passed) + 1,)]}, delete={"node": [(len(passed),)]})
        between_pieces(worker, passable)
        if live.is_settled(number):
            passed.append((making, has_table))
            assert len(kb._engine.past.works) == 1

    monkeypatch.setattr(Worker, "between_pieces", submit_and_go_on)
    live = kb.live()
    large = live.submit(delete={"edge": edges[50::50]})
    live.settle_all()
    assert {("path", False), ("path", True)} <= {*passed}, "while the table was made, and then an index"
    assert live.is_settled(large)
    assert set(kb.facts("alone")) == {(len(passed),)}
    audit(kb)


@pytest.mark.parametrize("changed", ["much goes", "much comes"])
def test_updates_pass_while_a_large_change_is_listed_and_at_its_end(
    changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb = KnowledgeBase(PATHS, modules=False, maintenance="dred")
    edges = [(n, n + 1) for n in range(40)]
    kb.update(add={"edge": edges, "node": [(0,)]})
    if changed == "much comes":
        kb.update(delete={"edge": edges[20:21]})
    monkeypatch.setattr(growth, "PIECE", 16)
    passed: list[str] = []
    listing: list[bool] = []
    between_pieces, in_pieces = Worker.between_pieces, UndoLog._changed_in_pieces

    def listed(*arguments: Any) -> Any:
        listing.append(True)
        found = in_pieces(*arguments)
        listing.clear()
        return found

    def submit_and_go_on(worker: Worker, passable: bool = False) -> None:
        works = kb._engine.past.works
        place = "listed" if listing else "at its end" if works[-1].is_at_its_end else ""
        if not place or len(works) > 1 or passed.count(place) > 1:
            return between_pieces(worker, passable)
        number = live.submit(add={"node": [(len(passed) + 1,)]}, delete={"node": [(len(passed),)]})
        between_pieces(worker, passable)
        assert live.is_settled(number)
        passed.append(place)

    monkeypatch.setattr(UndoLog, "_changed_in_pieces", listed)
    monkeypatch.setattr(Worker, "between_pieces", submit_and_go_on)
    live = kb.live()
    live.submit(**{"delete" if changed == "much goes" else "add": {"edge": edges[20:21]}})
    change = live.settle()
    assert passed == ["listed", "listed", "at its end", "at its end"]
    half = change.removed if changed == "much goes" else change.added
    assert len(half["path"]) == 21 * 20
    assert set(kb.facts("alone")) == {(len(passed),)}
    audit(kb)


@pytest.mark.parametrize("way", ["a component starts over", "a closure changes"])
def test_updates_pass_while_much_is_changed_at_once(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also other closures, and updates that are refused and taken back."""
    closures = way == "a closure changes"
    rules = f"{PATHS} way(X, Y) :- road(X, Y). way(X, Z) :- road(X, Y), way(Y, Z). :- alone(X), X < 0."
    kb = KnowledgeBase(rules, modules=closures, maintenance="auto" if closures else "recompute")
    edges = [(n, n + 1) for n in range(30)]
    kb.update(add={"edge": edges})
    monkeypatch.setattr(growth, "PIECE", 50)
    monkeypatch.setattr(closed_graph, "PIECE", 3)
    passed: list[int] = []
    before, between_pieces = kb.version, Worker.between_pieces

    def submit_and_go_on(worker: Worker, passable: bool = False) -> None:
        count = len(passed)
        if not passable or kb._engine.store.making != "path" or count >= 20:
            return between_pieces(worker, passable)
        rows = {"node": [(count,)], "road": [(count, count + 1)]} if count % 3 < 2 else {"node": [(-1,)]}
        number = live.submit(add=rows)
        between_pieces(worker, passable)
        if live.is_settled(number):
            passed.append(count)
            assert kb.version == before + len([each for each in passed if each % 3 < 2])

    monkeypatch.setattr(Worker, "between_pieces", submit_and_go_on)
    live = kb.live()
    live.submit(delete={"edge": edges[10:15]}, add={"edge": [(n, 20) for n in range(40, 60)]})
    with suppress(ConstraintError):
        live.settle_all()
    assert len(passed) > 3
    accepted = [count for count in passed if count % 3 < 2]
    assert set(kb.facts("alone")) == {(count,) for count in accepted}
    assert {(count, count + 1) for count in accepted} <= set(kb.facts("way"))
    assert ("path", 40, 30) in kb
    assert ("path", 5, 25) not in kb
    audit(kb)


def test_a_change_that_nobody_reads_is_not_listed_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pairs of a closure are not looked at when changes of other predicates are added to its own."""
    listed: list[int] = []
    read = Rows.read
    monkeypatch.setattr(lazy_rows, "LAZY_FROM", 10)
    monkeypatch.setattr(Rows, "read", lambda self: (listed.append(self.count), read(self))[1])
    for modules in (True, False):
        live = KnowledgeBase(PATHS, modules=modules).live()
        live.submit(add={"edge": [(n, n + 1) for n in range(40)]})
        live.settle_all()
        live.submit(add={"node": [(1,)]})
        change = live.settle()
        assert 820 not in listed
        assert len(change.added["path"]) == 820
        assert set(change.added["alone"]) == {(1,)}
        assert (3, 7) in change.added["path"]
        listed.clear()


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_what_counts_again_comes_before_what_was_submitted_after_it(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion is void because of an urgent update, which is refused in the end. Nothing passes it meanwhile."""
    monkeypatch.setattr(tidelog.live.worker, "SLICE", 1)
    kb = KnowledgeBase(
        ":- on(X), broken(X). one(X) :- start(X). two(X) :- one(X). lit(X) :- two(X), X > 100. lit(1). lit(2)."
    )
    live = kb.live()
    live.submit(delete={"lit": [(1,)]})
    live.submit(add={"lit": [(1,)], "on": [(4,)], "broken": [(4,)]}, priority=1)
    live.submit(add={"start": [(3,)]}, priority=1)
    live.step(steps)
    live.submit(add={"lit": [(1,)]})
    with pytest.raises(ConstraintError):
        live.settle()
    live.settle()
    assert set(kb.facts("lit")) == {(1,), (2,)}
    assert set(kb.facts("two")) == {(3,)}
    audit(kb)
