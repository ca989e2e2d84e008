"""Everything at once: updates of facts and rules, urgent ones, ones that take others back, refused ones, steps, reads,
snapshots and subscriptions in random order. Whatever is seen is mat(P, E) for exactly the updates that it claims to
contain. Programs have aggregates, best values in recursions, and closures beside other rules of one recursion.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from test_overtaking import both, named_otherwise

import tidelog.live.passing
import tidelog.live.worker
from best_programs import best_case
from engine_util import ALGORITHMS, facts_of, knowledge_base, materialisation
from generate import Dice, make_stream, soak
from mixed_recursions import recursions
from naive import Database, State, Update, answers, constant, database, union, without_empty
from soaking import seeds
from tidelog import ConstraintError
from tidelog.facts.results import row_identity
from tidelog.language import parse_query
from tidelog.language.syntax import Atom, Constant, Node, Rule, body_atoms, rebuilt
from tidelog.live.fully_dynamic import Live, Snapshot
from tidelog.live.subscriptions import AnswerChange
from tidelog.values import Value

# Seconds until a message that has not come counts as lost, however slow the machine is.
PATIENCE = 30
# Seeds that have found an update that was lost, and two that took effect too early.
FOUND = (1795125065378, 1795126597626, 1795127507970)


def program(seed: int) -> tuple[State, list[Update]]:
    """A random program of any kind, and updates of it."""
    if seed % 4 == 2:
        dice = Dice(seed)
        case = best_case(dice)
        # Of 2 and 2.0, neither is better.
        exact = [fact for fact in case.facts if not any(isinstance(cell.value, float) for cell in fact[1])]
        state = State(case.state.rules, database([Atom(name, row) for name, row in exact]))
        case = replace(case, state=state, facts=tuple(exact))
        return state, make_stream(dice, case, 4)
    if seed % 4 == 3:
        return recursions(seed, 4)
    case, stream = soak(seed, length=4)
    return case.state, stream


def under_other_names(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    def atom_otherwise(node: Node) -> Node | None:
        return replace(node, predicate=f"other_{node.predicate}") if isinstance(node, Atom) else None

    return tuple(rebuilt(rule, atom_otherwise) for rule in rules)


def otherwise(update: Update) -> Update:
    """The same update of the program with other names."""
    added, removed = map(under_other_names, (update.add_rules, update.remove_rules))
    return Update(named_otherwise(update.add), named_otherwise(update.delete), added, removed)


def question(rules: tuple[Rule, ...], choose: random.Random) -> str:
    """A query over the predicates of some rules: a pattern, mostly with a constant, a join or a negation."""
    arities = {atom.predicate: atom.arity for rule in rules for atom in (rule.head, *body_atoms(rule))}
    names = sorted(name for name, arity in arities.items() if arity)

    def atom(first: str, others: str) -> str:
        name = choose.choice(names)
        return f"{name}({', '.join((first, *(choose.choice(others) for _ in range(arities[name] - 1))))})"

    if not names:
        return "e0(X, Y)"
    pattern = atom(choose.choice(("X", "0", "1", "a")), "XYZ_")
    join = f"{atom('X', 'XYZ_')}, {atom('X', 'XYZ_')}"
    negation = f"{atom('X', 'XYZ')}, not {atom('X', 'X_')}"
    return choose.choice((pattern, join, negation))


class Course:
    """A knowledge base in flux, and what it has to be."""

    def __init__(self, seed: int) -> None:
        self._choose = random.Random(seed)
        (one, stream), (beside, more) = program(seed), program(seed + 1000)
        self._start = both(one, State(under_other_names(beside.rules), named_otherwise(beside.explicit)))
        # Two streams, each in its order: rules of one have nothing to do with those of the other.
        self._coming = [list(stream), [otherwise(update) for update in more]]
        maintenance = ALGORITHMS[seed // 4 % len(ALGORITHMS)]
        self.kb = knowledge_base(self._start, maintenance, modules=bool(self._choose.randrange(4)))
        self.kb.add_rules(":- on(X), broken(X).")
        self.live: Live = self.kb.live()
        self._submitted: list[Update] = []
        self._refused: set[int] = set()
        self._answers: dict[str, set[object]] = {}
        self._updates: list[int] = []
        for _ in range(5):
            self._follow(self._question())

    def _question(self) -> str:
        return question(self._start.rules, self._choose)

    def _follow(self, query: str) -> None:
        if query in self._answers:
            return
        answers = self._answers[query] = set()

        def on_change(message: AnswerChange) -> None:
            # Python takes 1, 1.0 and true for one value.
            answers.difference_update(map(row_identity, message.removed.rows()))
            answers.update(map(row_identity, message.added.rows()))
            self._updates.append(message.update)

        self.live.subscribe(query, on_change)

    def state_of(self, numbers: set[int]) -> Database:
        """The materialisation of some of the updates, in their order."""
        state = self._start
        for number in sorted(numbers - self._refused):
            state = state.apply(self._submitted[number - 1])
        return without_empty(state.materialise())

    def settled(self) -> set[int]:
        return {number for number in range(1, len(self._submitted) + 1) if self.live.is_settled(number)}

    # --- what happens ---

    def submit(self) -> bool:
        streams = [stream for stream in self._coming if stream]
        if not streams:
            return False
        self._submit(self._choose.choice(streams).pop(0), priority=self._choose.choice((0, 0, 1)))
        return True

    def take_back(self, violating: bool = False) -> None:
        """Undo what one of the last updates did to facts; maybe in an update that has to be refused."""
        if self._submitted:
            last = self._choose.choice(self._submitted[-3:])
            place = len(self._submitted) + 1
            wrong = database({"on": [(place,)], "broken": [(place,)]} if violating else {})
            if violating:
                self._refused.add(place)
            back = {name: rows for name, rows in last.delete.items() if name not in ("on", "broken")}
            self._submit(Update(union(back, wrong), last.add), priority=self._choose.choice((0, 1)))

    def _submit(self, update: Update, priority: int) -> None:
        self._submitted.append(update)
        number = self.live.submit(**update.mapping(), priority=priority)  # type: ignore[arg-type]
        assert number == len(self._submitted)

    def work(self, units: int | None) -> None:
        """Take some steps, or settle everything. Updates that are refused are those that violate the constraint."""
        while True:
            try:
                self.live.settle() if units is None else self.live.step(units)
                return
            except ConstraintError as problem:
                notes = " ".join(problem.__notes__)
                assert {int(number) for number in re.findall(r"update (\d+)", notes)} <= self._refused, notes

    def look(self) -> None:
        """Compare what holds, and what a query finds, with the updates that are settled. A read that has to wait for
        the one in work, which has changed rules, makes it come to its end.
        """
        query = self._question()
        settled: set[int] | None = None
        while settled != self.settled():
            settled = self.settled()
            found, answered = materialisation(self.kb), list(self.kb.query(query))
        wanted = self.state_of(settled)
        assert found == wanted
        assert _same_types(answered) == _same_types(answers(parse_query(query, {}), wanted)), query

    def snapshot(self) -> tuple[Snapshot, Database]:
        snapshot = self.live.snapshot()
        numbers = {number for number in range(1, len(self._submitted) + 1) if snapshot.includes(number)}
        return snapshot, self.state_of(numbers)

    def check_answers(self) -> None:
        """Subscriptions are told of everything, once, and in order; by another thread, so that it may take a moment."""
        end = time.monotonic() + PATIENCE
        while self._differences() and time.monotonic() < end:
            time.sleep(0.001)
        assert not self._differences()
        assert self._updates == sorted(self._updates)

    def _differences(self) -> list[str]:
        found = {query: set(map(row_identity, self.kb.query(query).rows())) for query in self._answers}
        return [query for query, rows in found.items() if rows != self._answers[query]]


def _same_types(found: Iterable[Mapping[str, Value | Constant]]) -> set[frozenset[tuple[str, Constant]]]:
    """Answers, in which `1`, `1.0` and `true` are different."""
    return {frozenset((name, constant(value)) for name, value in answer.items()) for answer in found}


def test_random_interleavings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidelog.live.worker, "SLICE", 5)
    monkeypatch.setattr(tidelog.live.passing, "TOGETHER", 0.0)
    for seed in seeds((*range(18), *FOUND), "interleavings of everything in live mode"):
        course, choose = Course(seed), random.Random(seed)
        kept: list[tuple[Snapshot, Database]] = []
        going = True
        while going:
            going = course.submit()
            if choose.random() < 0.4:
                course.take_back(violating=choose.random() < 0.3)
            course.work(choose.randrange(6))
            if choose.random() < 0.5:
                course.look()
            if choose.random() < 0.2:
                kept.append(course.snapshot())
            if choose.random() < 0.15:
                course.work(None)
                course.check_answers()
        course.work(None)
        course.look()
        course.check_answers()
        for snapshot, wanted in kept:
            assert facts_of({name: snapshot.facts(name) for name in snapshot.predicates}) == wanted, seed
