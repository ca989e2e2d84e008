"""The one thread that changes the knowledge base: updates in the order of their arrival, those that wait as one commit.

While a commit is on its way to the disk, the next updates arrive. They are then applied together, as one update whose
operations are netted (`live.backlog`), with one record in the journal and one fsync. Where the last commit was of
several, as many are likely to be on their way again, and the next one waits for them, a moment at most: to commit two
updates takes hardly longer than one. An update that is wrong is refused by itself; if a group fails as a whole,
its updates are applied one at a time. Rules change in commits of their own.

Whoever needs the state that no update is changing runs here as well: subscriptions begin, clients come back, updates
are tried. What has been done is told to the event loop in the same order (`call_soon_threadsafe`), so that nobody in
the loop ever sees a commit before those that came before it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tidelog.engine.update.deltas import Request
from tidelog.errors import StorageError, TidelogError, warnings_collected
from tidelog.facts.encoding import check_arities_of
from tidelog.facts.results import Change, row_identity
from tidelog.live.backlog import Batch, Part
from tidelog.program.catalogue import RuleUpdate
from tidelog.server import problems
from tidelog.server.commits.history import Commit, commit_of
from tidelog.server.commits.keys import Keys, KeysOfCommit
from tidelog.server.commits.store import AT, KEYS, UNDONE, UPDATE, ServedStore, now
from tidelog.server.listing import listed_change
from tidelog.server.tokens import Caller
from tidelog.values import Row

Update = Mapping[str, Any]

log = logging.getLogger("tidelog.server")

# Of a group, at most this many updates, and this many facts beyond the first of them.
MOST_TOGETHER = 1024
MOST_FACTS_TOGETHER = 50_000

# Seconds between two looks at what has arrived meanwhile, and how often the writer looks.
MOMENT = 0.00025
LOOKS = 4

# A commit answers so many of its updates before the event loop looks for requests again: each answer takes a tenth of
# a millisecond, and a query does not wait for all of them.
ANSWERS_AT_ONCE = 8


@dataclass(slots=True, eq=False)
class UpdateJob:
    """An update that somebody waits for. `prepare` makes the update in the thread that applies it, where what it is to
    be depends on the state. `rows` is how many facts of each predicate the answer lists, and `caller` who may see them.
    """

    update: Update
    answer: asyncio.Future[bytes]
    caller: Caller
    rows: int = 100
    key: str = ""
    asked: str = ""
    alone: bool = False
    prepare: Callable[[], tuple[Update, int | None]] | None = None
    arrived: float = field(default_factory=time.perf_counter)

    @property
    def facts(self) -> int:
        sides = (self.update.get("add") or {}, self.update.get("delete") or {})
        return sum(len(rows) for side in sides if isinstance(side, Mapping) for rows in side.values())

    @property
    def wanted(self) -> tuple[int, frozenset[str] | None]:
        """What the answer lists."""
        return self.rows, self.caller.predicates

    @property
    def is_plain(self) -> bool:
        """Whether all facts are given as rows."""
        sides = (self.update.get("add") or {}, self.update.get("delete") or {})
        return all(isinstance(rows, list) for side in sides for rows in side.values())

    @property
    def joins(self) -> bool:
        """Whether it may be committed with others."""
        if self.alone or self.prepare is not None:
            return False
        update = self.update
        return not (
            update.get("add_rules")
            or update.get("remove_rules")
            or "at" in update
            or any(isinstance(update.get(side), str) for side in ("add", "delete"))
        )


@dataclass(slots=True, eq=False)
class CallJob:
    """Something else that has to be done in this thread. `finish` is called in the event loop with what came of it,
    before anything that is told later.
    """

    call: Callable[[], Any]
    answer: asyncio.Future[Any]
    finish: Callable[[Any], None] | None = None


Job = UpdateJob | CallJob


class Writer:
    """Runs in a thread of its own, from `start` to `stop`. `publish` is called in the loop with each commit, and what
    it changed for topics.
    """

    def __init__(
        self,
        store: ServedStore,
        loop: asyncio.AbstractEventLoop,
        publish: Callable[[Commit, list[tuple[Any, bytes]]], None],
    ) -> None:
        self._store = store
        self._knowledge = store.knowledge
        self._loop = loop
        self._publish = publish
        self._jobs: deque[Job] = deque()
        self._awake = threading.Event()
        self._stopping = False
        self._together = 1  # how many updates the last commit was of
        self._thread = threading.Thread(target=self._run, name="tidelog-writer", daemon=True)
        self.told: list[tuple[Any, bytes]] = []  # what the update in work changes for topics
        self.commits = self.updates = self.refused = 0
        self.seconds = 0.0
        self.published = store.history.number  # the last commit that the loop knows

    # --- for the event loop -------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    @property
    def waiting(self) -> int:
        return len(self._jobs)

    @property
    def number(self) -> int:
        """The number of the last commit."""
        return self._store.history.number

    def submit(self, job: Job) -> None:
        """Take in a job."""
        if self._stopping:
            raise problems.Problem(503, "busy", "The server is closing", "the server is closing; try again")
        if len(self._jobs) >= self._store.settings.limits.max_waiting:
            most = self._store.settings.limits.max_waiting
            raise problems.over_limit("max_waiting", most, f"{most} updates wait already; try again", 503, "busy")
        self._put(job)

    def soon(self, call: Callable[[], Any]) -> None:
        """Let a function run between two updates, however many wait: nobody is there who could ask for it again."""
        self._put(CallJob(call, self._loop.create_future()))

    def _put(self, job: Job) -> None:
        self._jobs.append(job)
        if not self._awake.is_set():  # The thread forgets that before it looks for jobs.
            self._awake.set()

    async def call(self, call: Callable[[], Any], finish: Callable[[Any], None] | None = None) -> Any:
        """What a function gives that runs between two updates."""
        job = CallJob(call, self._loop.create_future(), finish)
        self.submit(job)
        return await job.answer

    async def stop(self) -> None:
        """Finish all that waits, and end."""
        self._stopping = True
        self._awake.set()
        await self._loop.run_in_executor(None, self._thread.join)

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            self._awake.wait()
            self._awake.clear()
            while self._jobs:
                self._gather()
                self._work(self._take())
                self._compact()
            if self._stopping and not self._jobs:
                return

    def _gather(self) -> None:
        """Wait for as many jobs as were done together last."""
        for _ in range(LOOKS):
            if len(self._jobs) >= self._together:
                return
            time.sleep(MOMENT)

    def _take(self) -> list[Job]:
        """The next job, with those behind it that may be committed with it."""
        first = self._jobs.popleft()
        found: list[Job] = [first]
        self._together = 1
        if not isinstance(first, UpdateJob) or not first.joins:
            return found
        room = MOST_FACTS_TOGETHER
        while self._jobs and len(found) < MOST_TOGETHER:
            following = self._jobs[0]
            if not isinstance(following, UpdateJob) or not following.joins:
                break
            room -= following.facts
            if room < 0:
                break
            found.append(self._jobs.popleft())
        self._together = len(found)
        return found

    def _work(self, jobs: list[Job]) -> None:
        first = jobs[0]
        try:
            if isinstance(first, CallJob):
                self._tell_result(first, first.call())
            elif first.joins:
                self._commit_together([job for job in jobs if isinstance(job, UpdateJob)])
            else:
                self._commit_alone(first)
        except BaseException as problem:
            for job in jobs:
                self._tell_problem(job, problem)

    def _compact(self) -> None:
        """Write a snapshot where the journal has become long. If that fails, if only for want of memory, the journal
        goes on, and so does this thread.
        """
        limit = self._store.settings.limits.compact
        if self._store.journal_bytes > limit:
            try:
                self._store.save()
            except StorageError:
                pass  # as where the disk is full: the next update says so
            except Exception:
                log.exception("no snapshot could be made; the journal goes on")

    # --- commits ------------------------------------------------------------------------------------------------------

    def _commit_alone(self, job: UpdateJob) -> None:
        """A change of rules, or of facts that are given as text, or one that says when it comes."""
        if self._is_repeated(job):
            return
        undone: int | None = None
        update = job.update
        try:
            if job.prepare is not None:
                update, undone = job.prepare()
            with warnings_collected() as warnings:
                began = time.perf_counter()
                note = self._note([job], undone)
                change = self._knowledge.update(
                    update.get("add"),
                    update.get("delete"),
                    update.get("add_rules") or "",
                    update.get("remove_rules") or "",
                    note,
                    at=update.get("at"),
                )
        except Exception as problem:
            self._refuse(job, problem)
            return
        self._committed([job], change, note, time.perf_counter() - began, warnings, undone)

    def _commit_together(self, jobs: list[UpdateJob]) -> None:
        """Facts of several updates, as one."""
        knowledge = self._knowledge
        jobs = self._once_each(jobs)
        if not jobs:
            return
        began = time.perf_counter()
        kept: list[UpdateJob] = []
        try:
            with knowledge.lock.working(), knowledge.using_terms(), knowledge.terms_if_it_succeeds():
                knowledge.engine.reclaim_terms()
                update = RuleUpdate(dict(knowledge.catalogue.arities))
                request = self._encoded_together(jobs, update, kept) or self._encoded(jobs, update, kept)
                if not kept:
                    return
                note = self._note(kept)
                change = knowledge.apply(request, update, note)
        except Exception as problem:
            if isinstance(problem, StorageError) or len(kept) <= 1:
                for job in kept:
                    self._refuse(job, problem)
            else:
                for job in kept:
                    self._commit_together([job])
            return
        self._committed(kept, change, note, time.perf_counter() - began, [])

    def _encoded_together(self, jobs: list[UpdateJob], update: RuleUpdate, kept: list[UpdateJob]) -> Request | None:
        """The facts of many small updates, which are encoded in a fraction of the time that each of them by itself
        takes; None if anything is wrong with one of them, or if there is only one.
        """
        last: dict[tuple[str, object], tuple[bool, str, Row]] = {}
        if len(jobs) == 1 or not all(job.is_plain for job in jobs):
            return None
        try:
            for job in jobs:
                for side, wanted in (("delete", False), ("add", True)):
                    for name, rows in (job.update.get(side) or {}).items():
                        predicate = self._knowledge.catalogue.resolve(name)  # A name can be spelt in several ways.
                        for row in rows:
                            last[predicate, row_identity(row)] = wanted, name, row
            sides: dict[bool, dict[str, list[Row]]] = {False: {}, True: {}}
            for wanted, name, row in last.values():
                sides[wanted].setdefault(name, []).append(row)
            arities = dict(update.arities)
            delete, add = (self._knowledge.incoming.encode(sides[wanted], arities) for wanted in (False, True))
            check_arities_of((delete, add), arities)
        except (TidelogError, TypeError):
            return None
        update.arities = arities
        kept.extend(jobs)
        return Request(delete, add)

    def _encoded(self, jobs: list[UpdateJob], update: RuleUpdate, kept: list[UpdateJob]) -> Request:
        """The facts of updates; one that cannot be read is refused."""
        parts: list[Part] = []
        for number, job in enumerate(jobs):
            arities = dict(update.arities)
            try:
                delete = self._knowledge.incoming.encode(job.update.get("delete") or {}, arities)
                add = self._knowledge.incoming.encode(job.update.get("add") or {}, arities)
                check_arities_of((delete, add), arities)
            except TidelogError as problem:
                self._refuse(job, problem)
                continue
            update.arities = arities
            parts.append(Part(number, delete, add))
            kept.append(job)
        return Batch(parts).request(self._knowledge.engine)

    def _note(self, jobs: list[UpdateJob], undone: int | None = None) -> dict[str, str]:
        """What is journalled with a commit."""
        note = {UPDATE: str(self.number + 1), AT: now()}
        keys: KeysOfCommit = [(job.key, job.asked) for job in jobs if job.key]
        if keys:
            note[KEYS] = Keys.text(keys)
        if undone is not None:
            note[UNDONE] = str(undone)
        return note

    def _committed(
        self,
        jobs: list[UpdateJob],
        change: Change,
        note: Mapping[str, str],
        seconds: float,
        warnings: list[str],
        undone: int | None = None,
    ) -> None:
        """An update is on the disk. Tell everybody."""
        store, number = self._store, int(note[UPDATE])
        try:
            commit = commit_of(self._knowledge, number, change, store.settings.limits.history)
        except Exception:  # It has been made, and counts. Nobody can be told what it did.
            log.exception("what an update did could not be kept")
            commit = Commit(number, come=None, gone=None)
        commit.at, commit.seconds, commit.together, commit.undone = note[AT], seconds, len(jobs), undone
        store.history.append(commit)
        store.keys.note([(job.key, job.asked) for job in jobs if job.key], number)
        self._knowledge.deliver()
        told, self.told = self.told, []
        commit.latency = time.perf_counter() - min(job.arrived for job in jobs)
        self.commits, self.updates, self.seconds = self.commits + 1, self.updates + len(jobs), self.seconds + seconds
        answers: dict[tuple[int, frozenset[str] | None], bytes] = {}
        for job in jobs:
            if job.wanted not in answers:
                more = {} if undone is None else {"undone": undone}
                answers[job.wanted] = msgspec.json.encode(
                    {
                        "update": number,
                        "change": listed_change(change, job.rows, self._readable(job)),
                        "together": len(jobs),
                        "seconds": round(seconds, 6),
                        "repeated": False,
                        "warnings": warnings,
                        **more,
                    }
                )
        self.tell(self._finish_commit, commit, told, [(job.answer, answers[job.wanted]) for job in jobs])

    def _readable(self, job: UpdateJob) -> set[str] | None:
        """The predicates whose facts somebody may read, as changes name them."""
        catalogue = self._knowledge.catalogue
        readable = job.caller.readable(catalogue.resolve)
        return None if readable is None else set(map(catalogue.display, readable))

    # --- retries ------------------------------------------------------------------------------------------------------

    def _once_each(self, jobs: list[UpdateJob]) -> list[UpdateJob]:
        """The updates that have not been made yet. Of two with the same key, the second comes after the first."""
        found: list[UpdateJob] = []
        seen: set[str] = set()
        for job in jobs:
            if job.key and job.key in seen:
                self._jobs.appendleft(job)
            elif not self._is_repeated(job):
                seen.add(job.key)
                found.append(job)
        return found

    def _is_repeated(self, job: UpdateJob) -> bool:
        """Whether an update has been made before; then that is the answer."""
        made = self._store.keys.get(job.key) if job.key else None
        if made is None:
            return False
        if made.asked != job.asked:
            detail = f"the Idempotency-Key {job.key!r} was used for another request; use a new key for each"
            self._tell_problem(job, problems.Problem(409, "conflict", "The key is taken", detail))
            return True
        nothing = {"added": {}, "removed": {}, "work": {}, "errors": 0, "failures": []}
        answer = {
            "update": made.number,
            "change": nothing,
            "together": 1,
            "seconds": 0.0,
            "repeated": True,
            "warnings": [],
        }
        self.tell(_resolve, job.answer, msgspec.json.encode(answer))
        return True

    # --- telling the loop ---------------------------------------------------------------------------------------------

    def _refuse(self, job: UpdateJob, problem: BaseException) -> None:
        self.refused += 1
        self._tell_problem(job, problem)

    def tell(self, function: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # The loop has ended, and nobody waits any more.
            self._loop.call_soon_threadsafe(function, *arguments)

    def _tell_problem(self, job: Job, problem: BaseException) -> None:
        self.tell(_reject, job.answer, problem)

    def _tell_result(self, job: CallJob, result: Any) -> None:
        def finish() -> None:
            if job.finish is not None:
                job.finish(result)
            _resolve(job.answer, result)

        self.tell(finish)

    def _finish_commit(
        self, commit: Commit, told: list[tuple[Any, bytes]], answers: list[tuple[asyncio.Future[bytes], bytes]]
    ) -> None:
        self.published = commit.number
        self._publish(commit, told)
        self._answer(answers)

    def _answer(self, answers: list[tuple[asyncio.Future[bytes], bytes]]) -> None:
        """Answer some, and the others after what has arrived meanwhile."""
        for future, answer in answers[:ANSWERS_AT_ONCE]:
            _resolve(future, answer)
        if len(answers) > ANSWERS_AT_ONCE:
            self._loop.call_soon(self._answer, answers[ANSWERS_AT_ONCE:])


def _resolve(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _reject(future: asyncio.Future[Any], problem: BaseException) -> None:
    if not future.done():
        future.set_exception(problem)
