"""Every way to a state: how a knowledge base can come from the beginning of a course to its end.

A way yields *moments*: a knowledge base, the number of the state that it must be in, and the changes that were reported
since the moment before. Whoever looks holds them against the oracle (`moments.py`). What a way leaves open (which
algorithm, with or without modules, in which pieces) is chosen by dice.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Queue

from courses import FUNCTIONS, Course
from generate import Source, merge, recut
from naive import Database, State, Update, minus, normal, union
from tidelog import Change, KnowledgeBase, StorageWarning

Changes = Sequence[Change]


@dataclass(frozen=True)
class Moment:
    """A knowledge base that must be in a state of the course. `changes`, in any order, lead there from the moment
    before, or from the state `since`; None where nobody reported any.
    """

    kb: KnowledgeBase
    state: int
    changes: Changes | None = None
    since: int | None = None


@dataclass(frozen=True)
class Setting:
    """What a way leaves open."""

    source: Source
    maintenance: str
    modules: bool
    folder: Path
    elsewhere: Callable[[Course, Path], None]

    def empty(self, text: str = "") -> KnowledgeBase:
        """Empty, except for the facts and rules of a text that calls none of our functions."""
        kb = KnowledgeBase(text, maintenance=self.maintenance, modules=self.modules)
        for name, function in FUNCTIONS.items():
            kb.register(name, function)
        return kb

    def begun(self, state: State) -> KnowledgeBase:
        """With the rules and the facts of a state: together, or one before the other."""
        kb = self.empty()
        whole = Update(add=state.explicit, add_rules=state.rules)
        for update in self.source.pick(((whole,), _apart(whole), _apart(whole)[::-1])):
            apply(kb, update)
        return kb


def _apart(update: Update) -> tuple[Update, Update]:
    return replace(update, add_rules=()), Update(add_rules=update.add_rules)


def apply(kb: KnowledgeBase, update: Update) -> Change:
    return kb.update(**update.mapping())  # type: ignore[arg-type]


Way = Callable[[Course, Setting], Iterator[Moment]]


# At once


def from_text(course: Course, setting: Setting) -> Iterator[Moment]:
    """The program and its facts as one text."""
    state = course.states[course.end]
    if Course(state, (Update(),)).calls:
        yield Moment(setting.begun(state), course.end)
        return
    lines = setting.source.shuffled(repr(state).strip().splitlines())
    yield Moment(setting.empty("\n".join(lines)), course.end)


def from_scratch(course: Course, setting: Setting) -> Iterator[Moment]:
    """The rules and the facts of the end."""
    yield Moment(setting.begun(course.states[course.end]), course.end)


def merged(course: Course, setting: Setting) -> Iterator[Moment]:
    """The whole history as one update."""
    kb = setting.begun(course.start)
    yield Moment(kb, 0)
    whole = Update()
    for update in course.history:
        whole = merge(course.start, whole, update)
    yield Moment(kb, course.end, [apply(kb, whole)])


def in_other_pieces(course: Course, setting: Setting) -> Iterator[Moment]:
    """Updates merged and split at random."""
    kb = setting.begun(course.start)
    yield Moment(kb, 0)
    yield Moment(kb, course.end, [apply(kb, piece) for piece in recut(setting.source, course.start, course.history)])


def rules_in_another_order(course: Course, setting: Setting) -> Iterator[Moment]:
    """From nothing, a rule or a few facts at a time, including rules and facts that do not stay."""
    kb, end = setting.empty(), course.states[course.end]
    kept = {normal(rule) for rule in end.rules}
    passing = [rule for rule in course.start.rules if normal(rule) not in kept]
    passing_facts = minus(course.start.explicit, end.explicit)
    came = [Update(add_rules=(rule,)) for rule in (*end.rules, *passing)]
    came += [Update(add=piece) for piece in _one_by_one(union(end.explicit, passing_facts))]
    went = [Update(remove_rules=(rule,)) for rule in passing]
    went += [Update(delete=piece) for piece in _one_by_one(passing_facts)]
    for update in (*setting.source.shuffled(came), *setting.source.shuffled(went)):
        apply(kb, update)
    yield Moment(kb, course.end)


def _one_by_one(facts: Database) -> Iterator[Database]:
    for name, rows in facts.items():
        for row in sorted(rows, key=repr):
            yield {name: {row}}


# Update by update


def updates(course: Course, setting: Setting) -> Iterator[Moment]:
    kb = setting.begun(course.start)
    yield Moment(kb, 0)
    for number, update in enumerate(course.history, start=1):
        yield Moment(kb, number, [apply(kb, update)])


def stream(course: Course, setting: Setting) -> Iterator[Moment]:
    """From a list, a generator or a queue, with marking or without."""
    kb = setting.begun(course.start)
    mappings = [update.mapping() for update in course.history]
    queue: Queue[object] = Queue()
    for mapping in (*mappings, None):
        queue.put(mapping)
    given = setting.source.pick((mappings, iter(mappings), queue))
    yield Moment(kb, 0)
    for number, change in enumerate(kb.stream(given, marking=setting.source.chance(70)), start=1):
        yield Moment(kb, number, [change])


def async_stream(course: Course, setting: Setting) -> Iterator[Moment]:
    kb = setting.begun(course.start)
    marking = setting.source.chance(70)

    async def given() -> AsyncIterator[dict[str, object]]:
        for update in course.history:
            await asyncio.sleep(0)
            yield update.mapping()

    with asyncio.Runner() as runner:
        changes = kb.stream(given(), marking=marking)
        for number in range(1, len(course.history) + 1):
            yield Moment(kb, number, [runner.run(_next(changes))])


async def _next(changes: AsyncIterator[Change]) -> Change:
    return await anext(changes)


# Live


def live(course: Course, setting: Setting) -> Iterator[Moment]:
    """Submitted one after another, with a few units of work in between, and settled now and then."""
    kb = setting.begun(course.start)
    yield Moment(kb, 0)
    flux = kb.live()
    for number, update in enumerate(course.history, start=1):
        flux.submit(**update.mapping())  # type: ignore[arg-type]
        if setting.source.chance(60):
            flux.step(setting.source.between(0, 12))
        if number == course.end or setting.source.chance(30):
            yield Moment(kb, number, [flux.settle()])


def live_in_the_background(course: Course, setting: Setting) -> Iterator[Moment]:
    """Submitted by several threads while another thread works."""
    kb = setting.begun(course.start)
    yield Moment(kb, 0)
    with kb.live() as flux:
        in_threads(
            [
                [lambda part=part: flux.submit(**part.mapping()) for part in parts]  # type: ignore[misc]
                for parts in _dealt(course, setting)
            ]
        )
        flux.snapshot()
    yield Moment(kb, course.end, [flux.settle()])


# Threads


def threads(course: Course, setting: Setting) -> Iterator[Moment]:
    """Updates of several threads."""
    kb = setting.begun(course.start)
    yield Moment(kb, 0)
    changes: list[Change] = []
    in_threads(
        [
            [lambda part=part: changes.append(apply(kb, part)) for part in parts]  # type: ignore[misc]
            for parts in _dealt(course, setting)
        ]
    )
    yield Moment(kb, course.end, changes)


def _dealt(course: Course, setting: Setting, hands: int = 3) -> list[list[Update]]:
    """The history for several threads, so that any interleaving ends in the same state: each fact has its thread, and
    so have the rules."""
    owner: dict[object, int] = {}

    def mine(facts: Database, hand: int) -> Database:
        for name, rows in facts.items():
            for row in sorted(rows, key=repr):
                owner.setdefault((name, row), setting.source.below(hands))
        chosen = {name: {row for row in rows if owner[name, row] == hand} for name, rows in facts.items()}
        return {name: rows for name, rows in chosen.items() if rows}

    dealt: list[list[Update]] = [[] for _ in range(hands)]
    for update in course.history:
        for hand, parts in enumerate(dealt):
            part = Update(mine(update.add, hand), mine(update.delete, hand))
            parts.append(replace(update, add=part.add, delete=part.delete) if hand == 0 else part)
    return dealt


def in_threads(work: Sequence[Sequence[Callable[[], object]]]) -> None:
    """Do each list of things in a thread of its own, and raise what any of them raises."""
    problems: list[BaseException] = []

    def do(calls: Sequence[Callable[[], object]]) -> None:
        try:
            for call in calls:
                call()
        except BaseException as problem:
            problems.append(problem)

    running = [threading.Thread(target=do, args=(calls,)) for calls in work]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if problems:
        raise problems[0]


# On the disk


def saved_and_opened(course: Course, setting: Setting) -> Iterator[Moment]:
    """Saved after every step, and opened again."""
    kb = setting.begun(course.start)
    for number, update in enumerate((None, *course.history)):
        changes = None if update is None else [apply(kb, update)]
        kb.save(setting.folder)
        kb = _opened(setting.folder)
        yield Moment(kb, number, changes)


def with_a_journal(course: Course, setting: Setting) -> Iterator[Moment]:
    """Journalled, and now and then closed, saved and opened again."""
    setting.begun(course.start).save(setting.folder)
    kb = _opened(setting.folder, journal=True)
    yield Moment(kb, 0)
    for number, update in enumerate(course.history, start=1):
        changes = [apply(kb, update)]
        if setting.source.chance(20):
            kb.save(setting.folder)
        if setting.source.chance(60):
            kb.close()
            kb = _opened(setting.folder, journal=True)
        yield Moment(kb, number, changes)


def replayed(course: Course, setting: Setting) -> Iterator[Moment]:
    """From copies of a folder whose journal is still being written, as a crash would leave it."""
    original = setting.folder / "original"
    setting.begun(course.start).save(original)
    with _opened(original, journal=True) as kb:
        for number, update in enumerate(course.history, start=1):
            apply(kb, update)
            if number == course.end or setting.source.chance(40):
                copy, told = setting.folder / f"copy-{number}", list[Change]()
                shutil.copytree(original, copy)
                yield Moment(_opened(copy, told=told), number, told, since=0)


def in_another_process(course: Course, setting: Setting) -> Iterator[Moment]:
    """Saved, opened by another process, which looks at everything and goes on, and opened here again."""
    kb = setting.begun(course.start)
    kb.save(setting.folder)
    with _opened(setting.folder, journal=True) as kb:
        for update in course.history:
            apply(kb, update)
        if setting.source.chance(50):
            kb.save(setting.folder)
    setting.elsewhere(course, setting.folder)
    yield Moment(_opened(setting.folder), course.end + 1)


def _opened(folder: Path, journal: bool = False, told: list[Change] | None = None) -> KnowledgeBase:
    def tell(_: object, change: Change) -> None:
        if told is not None:
            told.append(change)

    with warnings.catch_warnings():
        warnings.simplefilter("error", StorageWarning)
        return KnowledgeBase.open(folder, journal=journal, functions=FUNCTIONS, on_replay=tell)


WAYS: dict[str, Way] = {
    way.__name__: way
    for way in (
        *(from_text, from_scratch, merged, in_other_pieces, rules_in_another_order),
        *(updates, stream, async_stream, live, live_in_the_background, threads),
        *(saved_and_opened, with_a_journal, replayed, in_another_process),
    )
}
