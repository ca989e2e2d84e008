"""Everything at once: updates of facts and rules, urgent ones, ones that take others back, steps, reads, snapshots and
subscriptions in random order. Whatever is seen is mat(P, E) for exactly the updates that it claims to contain.
"""

from __future__ import annotations

import random
import time

import pytest
from test_overtaking import NAME, both, named_otherwise, state_otherwise

import tidelog.live.passing
import tidelog.live.worker
from engine_util import ALGORITHMS, facts_of, knowledge_base, materialisation
from generate import Features, soak
from naive import Database, Update, without_empty
from soaking import seeds
from tidelog.facts.results import row_identity
from tidelog.language import parse_program
from tidelog.live.fully_dynamic import Live, Snapshot
from tidelog.live.subscriptions import AnswerChange

FEATURES = Features(aggregates=False)

# Seconds until a message that has not come counts as lost, however slow the machine is.
PATIENCE = 30


def otherwise(update: Update) -> Update:
    """The same update of the program with other names."""
    added, removed = (
        tuple(parse_program(NAME.sub(r"other_\1", "\n".join(map(str, rules)))).rules)
        for rules in (update.add_rules, update.remove_rules)
    )
    return Update(named_otherwise(update.add), named_otherwise(update.delete), added, removed)


class Course:
    """A knowledge base in flux, and what it has to be."""

    def __init__(self, seed: int) -> None:
        self._choose = random.Random(seed)
        (case, stream), (beside, more) = soak(seed, FEATURES, length=4), soak(seed + 50, FEATURES, length=4)
        self._start = both(case.state, state_otherwise(beside.state))
        # Two streams, each in its order: rules of one have nothing to do with those of the other.
        self._coming = [list(stream), [otherwise(update) for update in more]]
        maintenance = ALGORITHMS[seed % len(ALGORITHMS)]
        self.kb = knowledge_base(self._start, maintenance, modules=bool(seed % 2))
        self.live: Live = self.kb.live()
        self._submitted: list[Update] = []
        self._answers: dict[str, set[object]] = {}
        self._updates: list[int] = []
        for name in sorted({rule.head.predicate for rule in self._start.rules})[:4]:
            self._follow(name)

    def _follow(self, predicate: str) -> None:
        arity = next(rule.head.arity for rule in self._start.rules if rule.head.predicate == predicate)
        variables = ", ".join(f"X{place}" for place in range(arity))

        def on_change(message: AnswerChange) -> None:
            # Python takes 1, 1.0 and true for one value.
            self._answers.setdefault(predicate, set()).difference_update(map(row_identity, message.removed.rows()))
            self._answers[predicate].update(map(row_identity, message.added.rows()))
            self._updates.append(message.update)

        self.live.subscribe(f"{predicate}({variables})" if arity else predicate, on_change)

    def state_of(self, numbers: set[int]) -> Database:
        """The materialisation of some of the updates, in their order."""
        state = self._start
        for number in sorted(numbers):
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

    def take_back(self) -> None:
        """Undo what one of the last updates did to facts."""
        if self._submitted:
            last = self._choose.choice(self._submitted[-3:])
            self._submit(Update(add=last.delete, delete=last.add), priority=self._choose.choice((0, 1)))

    def _submit(self, update: Update, priority: int) -> None:
        self._submitted.append(update)
        number = self.live.submit(**update.mapping(), priority=priority)  # type: ignore[arg-type]
        assert number == len(self._submitted)

    def look(self) -> None:
        """Compare what holds with the updates that are settled. A read that has to wait for the one in work, which has
        changed rules, makes it come to its end.
        """
        settled: set[int] | None = None
        while settled != self.settled():
            settled = self.settled()
            found = materialisation(self.kb)
        assert found == self.state_of(settled)

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
        found = {name: set(map(row_identity, self.kb.facts(name))) for name in self._answers}
        return [name for name, rows in found.items() if rows != self._answers[name]]


def test_random_interleavings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidelog.live.worker, "SLICE", 5)
    monkeypatch.setattr(tidelog.live.passing, "TOGETHER", 0.0)
    for seed in seeds(range(20), "interleavings of everything in live mode"):
        course, choose = Course(seed), random.Random(seed)
        kept: list[tuple[Snapshot, Database]] = []
        going = True
        while going:
            going = course.submit()
            if choose.random() < 0.3:
                course.take_back()
            course.live.step(choose.randrange(6))
            if choose.random() < 0.5:
                course.look()
            if choose.random() < 0.2:
                kept.append(course.snapshot())
            if choose.random() < 0.15:
                course.live.settle()
                course.check_answers()
        course.live.settle()
        course.look()
        course.check_answers()
        for snapshot, wanted in kept:
            assert facts_of({name: snapshot.facts(name) for name in snapshot.predicates}) == wanted, seed
