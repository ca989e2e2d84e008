"""Changes that are held while updates go on: they cost the updates nothing, and are right whenever and wherever they
are read.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import tidelog
from tidelog import TidelogError
from tidelog.closures import closure as closures
from tidelog.closures import history
from tidelog.closures.closure import Closure
from tidelog.closures.directed import DirectedGraph
from tidelog.engine.update import rows as lazy_rows
from tidelog.engine.update.runner import Limits
from tidelog.facts.results import Change
from tidelog.machine.jit import JIT_DISABLED

Facts = dict[str, set[Any]]

PATH = "p(X, Z) :- p(X, Y), p(Y, Z)."
LINEAR = "p(X, Y) :- e(X, Y). p(X, Z) :- e(X, Y), p(Y, Z)."
PROGRAMS = {
    "transitive": PATH,
    "symmetric": f"{PATH} p(Y, X) :- p(X, Y).",
    "apart": "p(X, Z) :- p(X, Y), p(Y, Z), X != Z.",
    "linear": LINEAR,
    "twins": f"{PATH} q(X, Y) :- p(Y, X). p(X, Y) :- q(Y, X).",
    "read": f"{LINEAR} q(X) :- p(X, Y), m(Y). n(X) :- e(X, _), not q(X).",
    "records": "p(X, Y) :- e(X, Y), m(X).",
}
# Rules that come and go: closures begin, end and become others.
MORE_RULES = ["p(Y, X) :- p(X, Y).", "p(X, Y) :- f(X, Y).", "p(X, Y) :- p(X, Z), g(Z, Y).", "r(X, Y) :- p(X, Y)."]

NODES = 9
STEPS = 12 if JIT_DISABLED else 40


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs stay virtual wherever they can."""
    monkeypatch.setattr(lazy_rows, "LAZY_FROM", -1)


def all_facts(kb: tidelog.KnowledgeBase) -> Facts:
    return {name: set(kb.facts(name)) for name in ("e", "f", "g", "m", "n", "p", "q", "r")}


def base_of(program: str) -> list[str]:
    return ["p", "q"] if program == "twins" else ["p"] if "e(" not in PROGRAMS[program] else ["e"]


def random_update(choose: random.Random, names: list[str]) -> dict[str, Any]:
    def pairs(most: int) -> list[tuple[int, int]]:
        return [(choose.randrange(NODES), choose.randrange(NODES)) for _ in range(choose.randrange(most))]

    add: dict[str, Any] = {name: pairs(4) for name in names}
    add["m"] = [(choose.randrange(NODES),)]
    return {"add": add, "delete": {name: pairs(8) for name in names}}


def random_rules(choose: random.Random, there: set[str]) -> dict[str, str]:
    rule = choose.choice(MORE_RULES)
    kind = "remove_rules" if rule in there else "add_rules"
    there.symmetric_difference_update({rule})
    return {kind: rule}


def history_of(kb: tidelog.KnowledgeBase, choose: random.Random, program: str, rules: bool) -> Iterator[Any]:
    """Each change of a random history, with the facts before it and after it."""
    there: set[str] = set()
    before = all_facts(kb)
    for _ in range(STEPS):
        update: dict[str, Any] = random_update(choose, base_of(program))
        if rules and choose.random() < 0.4:
            update = random_rules(choose, there)
        change = kb.update(**update)
        after = all_facts(kb)
        yield change, before, after
        before = after


def check(change: Change, before: Facts, after: Facts) -> None:
    for changed, more, less in ((change.added, after, before), (change.removed, before, after)):
        expected = {name: more[name] - less[name] for name in more if more[name] - less[name]}
        assert {name: len(rows) for name, rows in changed.items()} == {name: len(r) for name, r in expected.items()}
        for name, rows in changed.items():
            first = list(rows._encoded(2).rows())
            assert len(first) == min(2, len(rows))
            assert set(first) <= expected[name]
            assert set(rows) == expected[name]


@pytest.mark.parametrize("rules", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_held_changes_are_exact_in_any_order(program: str, rules: bool) -> None:
    for seed in range(2 if JIT_DISABLED else 5):
        choose = random.Random(f"{program} {rules} {seed}")
        held = list(history_of(tidelog.KnowledgeBase(PROGRAMS[program]), choose, program, rules))
        choose.shuffle(held)
        for change, before, after in held:
            check(change, before, after)


@pytest.mark.parametrize("program", PROGRAMS)
def test_changes_are_exact_in_another_thread(program: str) -> None:
    """Earlier changes are read again and again while updates run, some of which fail."""
    kb = tidelog.KnowledgeBase(PROGRAMS[program])
    held: list[tuple[Change, Facts, Facts]] = []
    problems: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        choose = random.Random(program)
        try:
            while not done.is_set() or held:
                if held:
                    check(*held.pop(choose.randrange(len(held))))
        except BaseException as problem:
            problems.append(problem)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    choose = random.Random(program)
    for told in history_of(kb, choose, program, rules=False):
        held.append(told)
        if choose.random() < 0.3:
            kb._engine.limits = Limits(max_facts=0)
            with pytest.raises(tidelog.LimitError):
                kb.update(**random_update(choose, base_of(program)))
            kb._engine.limits = Limits()
    done.set()
    for reader in readers:
        reader.join()
    assert not problems


def chain(length: int) -> list[tuple[int, int]]:
    return [(node, node + 1) for node in range(length)]


def test_the_next_update_lists_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    length = 200 if JIT_DISABLED else 3000
    kb = tidelog.KnowledgeBase(LINEAR)
    held = [kb.update(add={"e": chain(length)})]
    listed: list[int] = []
    pieces = Closure.changed_pairs

    def counting(closure: Closure, appeared: bool, size: int) -> Iterator[Any]:
        for source, target in pieces(closure, appeared, size):
            listed.append(len(source))
            yield source, target

    monkeypatch.setattr(Closure, "changed_pairs", counting)
    held.append(kb.update(add={"e": [(length, length + 1)]}))
    held.append(kb.update(delete={"e": [(length // 2, length // 2 + 1)]}))
    held.append(kb.update(add_rules="p(Y, X) :- p(X, Y)."))
    assert listed == []
    pairs = length * (length + 1) // 2
    left, right = length // 2 + 1, length - length // 2 + 1
    assert [len(change.added.get("p", ())) for change in held[:3]] == [pairs, length + 1, 0]
    assert [len(change.removed.get("p", ())) for change in held[:3]] == [0, 0, left * right]
    assert listed == []
    assert repr(held[0].added["p"]).endswith("…}")
    # Reading a few pairs does not cost as much as reading all, even of the past.
    assert sum(listed) < 20 * length
    assert set(held[1].added["p"]) == {(node, length + 1) for node in range(length + 1)}


def test_a_held_past_is_no_longer_than_the_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "SHORT", 100)
    kb = tidelog.KnowledgeBase(PATH)
    first = kb.update(add={"p": chain(10)})
    node = kb._engine.closures.get("p")
    assert node is not None
    moment: Any = node.closure.now
    for step in range(50):
        kb.update(add={"p": [(step, step + 100)]})
        kb.update(delete={"p": [(step, step + 100)]})
    length = 0
    while moment is not None:
        moment, length = moment.following, length + 1
    assert length < 10
    assert set(first.added["p"]) == {(x, y) for x in range(11) for y in range(x + 1, 11)}


def test_a_past_that_nobody_holds_is_gone() -> None:
    kb = tidelog.KnowledgeBase(PATH)
    kb.update(add={"p": chain(10)})
    node = kb._engine.closures.get("p")
    assert node is not None
    for step in range(5):
        change = kb.update(add={"p": [(step, step + 100)]})
        assert (step, step + 100) in change.added["p"]
        # Nobody holds the previous change any more.
        former = node.closure._history._before
        assert former is not None
        assert former() is None


def test_too_little_memory_for_a_change_leaves_it_to_be_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    kb = tidelog.KnowledgeBase(PATH)
    change = kb.update(add={"p": chain(5)})
    kb.update(delete={"p": [(2, 3)]})

    def fail(*_: Any) -> Any:
        raise MemoryError

    for owner, name in ((Closure, "changed_pairs"), (Closure, "_reload"), (closures, "base_before")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fail)
            with pytest.raises(MemoryError):
                set(change.added["p"])
        assert kb.update(add={"p": [(2, 3)]})
        assert kb.update(delete={"p": [(2, 3)]})
    assert len(change.added["p"]) == len(set(change.added["p"])) == 15


def test_a_change_is_readable_where_the_closure_could_not_be_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    closure = Closure(DirectedGraph())
    change = closure.apply(([], []), ([1, 2], [2, 3]))
    reload = Closure._reload

    def fail_for(failing: Closure, edges: Any) -> None:
        if failing is closure:
            raise MemoryError
        reload(failing, edges)

    def fail(*_: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(DirectedGraph, "_compare", fail)
        patch.setattr(Closure, "_reload", fail_for)
        with pytest.raises(MemoryError):
            closure.apply(([1], [2]), ([3], [4]))
    assert sorted(map(tuple, change.rows(True, 3).tolist())) == [(1, 2), (1, 3), (2, 3)]


def test_a_closure_cannot_be_read_halfway(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = DirectedGraph()
    closure = Closure(graph)
    change = closure.apply(([], []), ([1, 2], [2, 3]))
    graph.pause = lambda: change.rows(True, 3)
    with pytest.raises(TidelogError, match="within the update"):
        closure.apply(([], []), ([3], [4]))
    graph.pause = lambda: None
    assert len(change.rows(True, 3)) == 3
