"""Subscriptions: what a subscriber adds up is what the query answers, after every update, however it was made."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import tidelog.engine.update.rows
import tidelog.engine.watching.watch
from audit import audit, check_refused, fingerprint
from engine_util import ALGORITHMS, knowledge_base
from generate import Case, Dice, soak
from live_util import PATHS, chain
from tidelog import ArityError, KnowledgeBase, SubscriptionWarning, TidelogError
from tidelog.closures.closure import Closure
from tidelog.closures.edges import Edges, Ints
from tidelog.facts.results import Answers, row_identity
from tidelog.language.syntax import (
    Atom,
    BodyItem,
    Call,
    Comparison,
    Negation,
    Parameter,
    Query,
    Term,
    Variable,
    nodes,
    variables,
)
from tidelog.live.subscriptions import AnswerChange

pytestmark = pytest.mark.filterwarnings("ignore::tidelog.UnknownPredicateWarning")


class Listener:
    """Adds up what it is told, and checks each message against the sum of those before it."""

    def __init__(self, kb: KnowledgeBase, query: str | Query, **values: object) -> None:
        self.kb = kb
        self.query = query
        self.values = values
        self.messages: list[AnswerChange] = []
        self.answers: set[object] = set()
        self.subscription = kb.subscribe(query, self.take, **values)

    def take(self, message: AnswerChange) -> None:
        added, removed = keys(message.added), keys(message.removed)
        assert len(added) == len(message.added), "an answer comes twice in one message"
        assert message.first == (not self.messages)
        assert message.first or added or removed, "nothing has changed"
        assert not added & self.answers, "what is there comes again"
        assert removed <= self.answers, "what is not there goes"
        assert not self.messages or message.update > self.messages[-1].update
        self.messages.append(message)
        self.answers = self.answers - removed | added

    def check(self) -> None:
        assert self.subscription.error is None, self.subscription.error
        expected = self.kb.query(self.query, **self.values)
        assert self.answers == keys(expected), self.subscription.query
        assert self.subscription.answers == len(expected)
        assert {message.added.variables for message in self.messages} == {expected.variables}


def keys(answers: Answers) -> set[object]:
    return set(map(row_identity, answers.rows()))


# --- random queries


def queries(dice: Dice, case: Case, count: int) -> Iterator[tuple[Query, dict[str, object]]]:
    """Bodies of rules, and single atoms, with some of their variables replaced by constants, and some of these by
    parameters.
    """
    constants = [term for _, row in case.facts for term in row]
    atoms = [Atom(name, tuple(Variable(f"X{place}") for place in range(len(row)))) for name, row in case.facts]
    bodies: list[tuple[BodyItem, ...]] = [rule.body for rule in case.rules] + [(atom,) for atom in dict.fromkeys(atoms)]
    for _ in range(count):
        body = dice.pick(bodies)
        named = list(dict.fromkeys(v for item in body for v in variables(item) if not v.anonymous))
        chosen = {v: dice.pick(constants) for v in dice.some(named, 25) if constants}
        values = {f"p{place}": dice.pick(constants).value for place in range(len(chosen)) if dice.chance(50)}
        places: dict[Variable, Term] = {
            variable: Parameter(f"p{place}") if f"p{place}" in values else constant
            for place, (variable, constant) in enumerate(chosen.items())
        }
        if len(named) > 1 and dice.chance(15):
            places.setdefault(named[0], named[1])
        query = Query(tuple(_replaced(item, places) for item in body))
        used = {node.value for node in _parameters(query)}
        yield query, {name: value for name, value in values.items() if name in used}


def _replaced(node: BodyItem | Term, places: dict[Variable, Term]) -> BodyItem | Term:  # type: ignore[misc]
    match node:
        case Variable():
            return places.get(node, node)
        case Atom(predicate=name, arguments=arguments):
            return Atom(name, tuple(_replaced(term, places) for term in arguments))
        case Call(function=name, arguments=arguments):
            return Call(name, tuple(_replaced(term, places) for term in arguments))
        case Negation(atom=atom):
            return Negation(_replaced(atom, places))
        case Comparison(operator=operator, left=left, right=right):
            return Comparison(operator, _replaced(left, places), _replaced(right, places))
    return node


def _parameters(query: Query) -> Iterable[Parameter]:
    return (node for node in nodes(query) if isinstance(node, Parameter))


def subscribed(kb: KnowledgeBase, asked: Iterable[tuple[Query, dict[str, object]]]) -> list[Listener]:
    """Those of the queries that can be asked: a constant in the place of a variable may make a comparison unsafe."""
    found = []
    for query, values in asked:
        try:
            kb.query(query, **values)
        except TidelogError:
            continue
        found.append(Listener(kb, query, **values))
    return found


@pytest.mark.parametrize("maintenance", ALGORITHMS)
def test_what_is_told_adds_up_to_the_answers(maintenance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = 7 * ALGORITHMS.index(maintenance)
    for seed in range(first, first + 7):
        case, stream = soak(seed)
        dice = Dice(seed)
        # Both ways through patterns, whatever the size of the change.
        monkeypatch.setattr(tidelog.engine.watching.watch, "FEW_ROWS", dice.pick((0, 32)))
        kb = knowledge_base(case.state, maintenance, modules=dice.chance(60))
        listeners = subscribed(kb, queries(dice, case, 12))
        version = kb.version
        for update in stream:
            if dice.chance(20):
                check_refused(kb, update, monkeypatch)
            if dice.chance(20):
                kb.what_if(**update.mapping())
            kb.update(**update.mapping())
            version += 1
            assert kb.version == version
            for listener in listeners:
                listener.check()
            if listeners and dice.chance(30):
                listeners.pop(dice.below(len(listeners))).subscription.close()
                listeners += subscribed(kb, queries(dice, case, 2))
        audit(kb)
        for listener in listeners:
            listener.subscription.close()
        kb.update(add={"over": [(seed,)]})
        assert not [name for name in kb._engine.store.named() if name.startswith("#asked")]


# --- what is told, when, and by whom


def test_subscriptions_of_one_shape_share_it_whatever_their_variables_are_called() -> None:
    kb = KnowledgeBase(PATHS)
    listeners = [
        Listener(kb, f"edge($from, {name})", **{"from": start}) for name, start in (("X", 0), ("Y", 0), ("Y", 1))
    ]
    whole = Listener(kb, "edge(X, Y)")
    kb.update(add=chain(3))
    for listener in (*listeners, whole):
        listener.check()
    assert [len(listener.messages) for listener in listeners] == [2, 2, 2]
    assert listeners[0].messages[1].added == [{"X": 1}]
    assert listeners[1].messages[1].added == [{"Y": 1}]
    assert len(kb._engine.watches._watches) == 2


def test_a_message_is_plain_data_on_request() -> None:
    kb = KnowledgeBase("edge(a, b).")
    listener = Listener(kb, "edge(a, X)")
    kb.update(add={"edge": [("a", "c")]}, delete={"edge": [("a", "b")]})
    assert listener.messages[-1].to_dict() == {
        "update": 2,
        "first": False,
        "errors": 0,
        "added": [{"X": "c"}],
        "removed": [{"X": "b"}],
    }


def test_an_update_that_changes_no_answer_is_not_told() -> None:
    kb = KnowledgeBase(PATHS)
    listener = Listener(kb, "path(0, _)")
    for number in range(3):
        kb.update(add=chain(1, first=number))
    assert [message.update for message in listener.messages] == [1, 2]


def test_failures_of_expressions_are_told_and_harm_nobody() -> None:
    kb = KnowledgeBase("number(1).", on_error="raise")
    listener = Listener(kb, "number(N), H = 10 / N")
    change = kb.update(add={"number": [(0,), (2,)]})
    assert not change.errors
    assert listener.messages[-1].added == [{"N": 2, "H": 5.0}]
    assert listener.messages[-1].errors == 1


def test_one_who_raises_is_told_no_more_and_others_are() -> None:
    kb = KnowledgeBase("edge(a, b).")

    def fail(message: AnswerChange) -> None:
        if not message.first:
            raise RuntimeError("no more")

    failing = kb.subscribe("edge(a, X)", fail)
    listener = Listener(kb, "edge(a, X)")
    with pytest.warns(SubscriptionWarning, match=r"`edge\(a, X\)` has ended: RuntimeError: no more"):
        kb.update(add={"edge": [("a", "c")]})
    assert isinstance(failing.error, RuntimeError)
    assert failing.closed
    kb.update(add={"edge": [("a", "d")]})
    listener.check()
    assert len(kb.facts("edge")) == 3


def test_an_interrupt_where_one_is_told_leaves_the_others_to_be_told() -> None:
    kb = KnowledgeBase("edge(a, b).")
    interrupts = iter([False, True, False, False])

    def interrupted(_: AnswerChange) -> None:
        if next(interrupts):
            raise KeyboardInterrupt

    kb.subscribe("edge(a, X)", interrupted)
    listener = Listener(kb, "edge(a, X)")
    with pytest.raises(KeyboardInterrupt):
        kb.update(add={"edge": [("a", "c")]})
    assert len(listener.messages) == 1
    kb.update(add={"edge": [("a", "d")]})
    listener.check()
    assert [message.update for message in listener.messages] == [1, 2, 3]


def test_one_may_close_itself_and_use_and_change_the_knowledge_base() -> None:
    kb = KnowledgeBase("edge(a, b).")
    seen: list[tuple[int, int, int]] = []

    def follow(message: AnswerChange) -> None:
        seen.append((message.update, len(kb.query("edge(a, X)")), len(message.added)))
        if len(seen) == 4:
            subscription.close()
        elif not message.first:
            kb.update(add={"edge": [("a", len(seen))]})

    subscription = kb.subscribe("edge(a, X)", follow)
    kb.update(add={"edge": [("a", "c")]})
    assert seen == [(1, 1, 1), (2, 2, 1), (3, 3, 1), (4, 4, 1)]
    kb.update(add={"edge": [("a", "d")]})
    assert len(seen) == 4


def test_one_may_wait_for_another_thread_that_uses_the_knowledge_base() -> None:
    kb = KnowledgeBase("edge(a, b).")

    def follow(_: AnswerChange) -> None:
        thread = threading.Thread(target=lambda: found.append(len(kb.facts("edge"))))
        thread.start()
        thread.join(10)

    found: list[int] = []
    with kb.subscribe("edge(a, X)", follow):
        kb.update(add={"edge": [("a", "c")]})
        list(kb.stream([{"add": {"edge": [("a", "d")]}}]))
        live = kb.live()
        live.submit(add={"edge": [("a", "e")]})
        live.settle()
    assert found == [1, 2, 3, 4]


def test_a_query_that_cannot_be_asked_is_refused_and_leaves_nothing_behind() -> None:
    kb = KnowledgeBase("edge(a, b).")
    for query in ("edge(a)", "edge(a, X), Y > 3", "edge(a, $x)"):
        with pytest.raises(TidelogError):
            kb.subscribe(query, print)
    with pytest.raises(TidelogError, match="`on_change` is a function"):
        kb.subscribe("edge(a, X)", None)  # type: ignore[arg-type]
    assert not kb._engine.watches._watches


def test_a_predicate_that_comes_with_other_arguments_ends_the_subscription() -> None:
    kb = KnowledgeBase("edge(a, b).")
    subscriptions = [kb.subscribe(query, repr) for query in ("later(X, Y)", "edge(X, _), not later(X, X)")]
    with pytest.warns(SubscriptionWarning, match="`later` has another number of arguments now"):
        kb.update(add={"later": [("a",)]})
    for subscription in subscriptions:
        assert isinstance(subscription.error, ArityError)
    assert "later(a)" in kb


def test_threads_that_update_at_once_leave_everybody_with_the_answers() -> None:
    kb = KnowledgeBase(PATHS)
    listeners = [Listener(kb, query) for query in ("path(0, X)", "edge(X, Y), edge(Y, Z)", "path(X, X)")]

    def work(first: int) -> None:
        for number in range(first, first + 10):
            kb.update(add={"edge": [(number % 7, (number + 3) % 7)]}, delete={"edge": [(number % 5, number % 7)]})

    threads = [threading.Thread(target=work, args=(10 * place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for listener in listeners:
        listener.check()


@pytest.mark.parametrize("query", ["path(0, X)", "path(0, X), not edge(X, 0)"])
def test_an_update_that_fails_while_answers_are_found_is_taken_back(
    query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb = KnowledgeBase(PATHS)
    kb.update(add=chain(3))
    listener = Listener(kb, query)
    before = fingerprint(kb)
    for name in ("engine.watching.watch.Rows.of", "live.subscriptions.Answers.read_later"):
        with monkeypatch.context() as patch:
            patch.setattr(f"tidelog.{name}", _fail)
            with pytest.raises(MemoryError):
                kb.update(delete={"edge": [(1, 2)]})
        assert fingerprint(kb) == before
        assert kb.version == 2
    audit(kb)
    kb.update(delete={"edge": [(1, 2)]})
    listener.check()
    assert [message.update for message in listener.messages] == [2, 3]


def _fail(*_: object) -> None:
    raise MemoryError


# --- ways in which updates are made


@pytest.mark.usefixtures("_tiny_slices")
def test_whatever_is_submitted_when_the_answers_add_up() -> None:
    for seed in range(8):
        case, stream = soak(seed)
        dice = Dice(seed)
        kb = knowledge_base(case.state, "auto", modules=dice.chance(60))
        live = kb.live()
        listeners = subscribed(kb, queries(dice, case, 6))
        for update in stream:
            live.submit(**update.mapping())
            live.step(dice.below(12))
            if dice.chance(20):
                listeners += subscribed(kb, queries(dice, case, 1))  # in the middle of an update
            if dice.chance(30):
                live.settle()
        live.settle()
        kb._knowledge.deliver()
        while kb._knowledge.subscriptions._turn.locked():
            time.sleep(0.001)  # Another thread is telling.
        for listener in listeners:
            listener.check()


def test_streams_and_live_updates_are_told() -> None:
    kb = KnowledgeBase(PATHS)
    listeners = [Listener(kb, query) for query in ("path(0, X)", "edge(X, Y), not edge(Y, X)")]
    for _ in kb.stream([{"add": chain(3)}, {"delete": chain(1)}]):
        for listener in listeners:
            listener.check()
    live = kb.live()
    live.submit(add=chain(1))
    live.submit(add={"edge": [(3,)]})
    live.submit(add={"edge": [(3, 0)]})
    with pytest.raises(ArityError):
        live.settle()
    for listener in listeners:
        listener.check()


def test_what_is_done_in_the_background_is_told_by_another_thread_without_the_lock() -> None:
    kb = KnowledgeBase(PATHS)
    told_by: list[str] = []
    all_told = threading.Event()

    def follow(message: AnswerChange) -> None:
        told_by.append(threading.current_thread().name)
        kb.query("path(0, X)")
        if len(message.added) and message.added[-1] == {"X": 9}:
            live.settle()  # Nobody waits for this thread.
            all_told.set()

    with kb.live() as live, live.subscribe("path(0, X)", follow):
        for number in range(9):
            live.submit(add=chain(1, first=number))
        assert all_told.wait(10)
    assert {"tidelog-live"}.isdisjoint(told_by)


def test_a_reader_of_somebody_elses_folder_is_told_when_it_refreshes(tmp_path: Path) -> None:
    KnowledgeBase(PATHS).save(tmp_path)
    with KnowledgeBase.open(tmp_path, journal=True) as writer:
        reader = KnowledgeBase.open(tmp_path, read_only=True)
        listener = Listener(reader, "path(X, Y), X < Y")
        writer.update(add=chain(2))
        reader.refresh()
        listener.check()
        assert len(listener.messages) == 2


# --- what a subscription is not


def test_subscriptions_show_nowhere(tmp_path: Path) -> None:
    def shown(kb: KnowledgeBase) -> tuple[object, ...]:
        kept = kb.save(tmp_path), KnowledgeBase.open(tmp_path)
        counts = len(kb), kb.predicates, kb.explicit_predicates, kb.rules, str(kb.graph), len(kb.live().snapshot())
        return (*counts, len(kept[1]), kept[1].predicates, sorted(kept[1]._engine.store.named()))

    text = PATHS + "edge(a, b). edge(b, c)."
    plain, watched = KnowledgeBase(text, max_facts=8), KnowledgeBase(text, max_facts=8)
    with watched.subscribe("path(a, X), X != $x, not edge(X, X)", repr, x="<http://example.org/never>"):
        assert shown(watched) == shown(plain)
        changes = [kb.update(add={"edge": [("c", "d")]}, delete={"edge": [("a", "b")]}) for kb in (plain, watched)]
        assert changes[0].to_dict() == changes[1].to_dict()
        assert shown(watched) == shown(plain)
        # A prefix may still be declared that the constant of the subscription has.
        watched.add_rules("@prefix http: <http://other/> . far(X) :- path(a, X).")


def test_constants_that_are_asked_for_are_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.engine.reclaiming.WORTH_FROM", 1)
    monkeypatch.setattr("tidelog.engine.reclaiming.WORTH_PER_TERM", 0.0)
    monkeypatch.setattr("tidelog.engine.reclaiming.WORTH_PER_CELL", 0.0)
    kb = KnowledgeBase("edge(a, b).")
    listeners = [Listener(kb, query, x="later") for query in ("edge($x, X)", "edge($x, X), edge(X, $x)")]
    for number in range(20):
        kb.update(add={"edge": [(f"n{number}", f"m{number}")]})
        kb.update(delete={"edge": [(f"n{number}", f"m{number}")]})
    kb.update(add={"edge": [("later", "now"), ("now", "later")]})
    for listener in listeners:
        listener.check()
        assert listener.messages[-1].added == [{"X": "now"}]


# --- closures


@pytest.mark.parametrize("rules", [PATHS, PATHS + "path(X, Y) :- path(Y, X)."])
def test_of_a_large_closure_only_the_wanted_pairs_are_listed(rules: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kb = KnowledgeBase(rules)
    kb.update(add=chain(100))
    listed: list[int] = []
    changed_pairs = Closure.changed_pairs

    def counted(closure: Closure, appeared: bool, size: int, sources: Ints | None = None) -> Iterator[Edges]:
        for piece in changed_pairs(closure, appeared, size, sources):
            listed.append(len(piece[0]))
            yield piece

    monkeypatch.setattr(Closure, "changed_pairs", counted)
    listener = Listener(kb, "path($x, X)", x=3)
    for update in ({"delete": {"edge": [(50, 51)]}}, {"add": {"edge": [(50, 51), (100, 101)]}}):
        kb.update(**update)  # type: ignore[arg-type]
    assert sum(listed) <= 101 + 1
    backwards = Listener(kb, "path(X, $x)", x=60)
    kb.update(delete={"edge": [(50, 51), (2, 3)]})
    for each in (listener, backwards):
        each.check()
        assert len(each.messages) > 1


def test_all_changes_of_a_predicate_are_read_when_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidelog.engine.update.rows, "LAZY_FROM", 10)
    kb = KnowledgeBase(PATHS)
    messages: list[AnswerChange] = []
    with kb.subscribe("path(X, Y)", messages.append):
        change = kb.update(add=chain(20))
        assert messages[-1].added._source is change.added["path"]._rows
        kb.update(delete={"edge": [(10, 11)]})
    assert keys(messages[1].added) - keys(messages[2].removed) == keys(kb.query("path(X, Y)"))
