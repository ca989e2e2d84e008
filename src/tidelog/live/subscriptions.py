"""Subscriptions: the answers of a query as they are now, and then what comes and what goes with each update.

What an update changes in the answers is found before its commit, from the change alone (`engine.watching`). It is
numbered and put into one queue under the lock of the knowledge base, together with the commit: no message is missed,
none is doubled, and all subscriptions get theirs in the order of the updates. Messages are handed over without the
lock, one at a time, by one thread at a time (`deliver`): by the thread that made the update, after it; by a thread of
their own where the update was made in the background, so that nobody who listens holds up the work.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tidelog.engine.queries import run_query
from tidelog.engine.update.answers import AnswersChanged, Watched
from tidelog.engine.update.failures import NO_FAILURES, Failures
from tidelog.engine.update.rows import NO_ROWS, Rows
from tidelog.errors import ArityError, SubscriptionWarning, TidelogError, warn
from tidelog.facts.questions import Values
from tidelog.facts.results import Answers
from tidelog.formats.plain_data import PlainData
from tidelog.language import render
from tidelog.language.syntax import Atom, Query
from tidelog.language.written.expansion import refuse_special
from tidelog.program.equality import answer_variables, refuse_copies

if TYPE_CHECKING:
    from tidelog.live.knowledge import Knowledge

# Seconds after which a thread that has nothing to hand over ends.
IDLE = 1.0


@dataclass(frozen=True, slots=True)
class AnswerChange(PlainData):
    """What an update did to the answers of a query: those that came and those that went. `update` is its number, as
    `kb.version` was after it. The `first` message of a subscription has the answers at its beginning in `added`.
    `errors` tells of matches of such queries that failed because an expression had no value.

    Examples:
        >>> kb = tidelog.KnowledgeBase("edge(a, b).")
        >>> messages = []
        >>> subscription = kb.subscribe("edge(a, X)", messages.append)
        >>> _ = kb.update(add={"edge": [("a", "c"), ("b", "c")]}, delete={"edge": [("a", "b")]})
        >>> messages[0].added, messages[0].first
        ([{'X': 'b'}], True)
        >>> messages[1]
        <AnswerChange: update 2, + 1, - 1>
        >>> messages[1].added, messages[1].removed
        ([{'X': 'c'}], [{'X': 'b'}])
    """

    update: int
    added: Answers
    removed: Answers
    first: bool = False
    errors: Failures = NO_FAILURES

    def to_dict(self) -> dict[str, Any]:
        """The change as plain data for JSON."""
        halves = {"added": self.added.to_dicts(), "removed": self.removed.to_dicts()}
        return {"update": self.update, "first": self.first, **halves, "errors": int(self.errors)}

    _plain_type = dict[str, Any]

    def _plain(self) -> dict[str, Any]:
        return self.to_dict()

    def __repr__(self) -> str:
        return f"<AnswerChange: update {self.update}, + {len(self.added):,}, - {len(self.removed):,}>"


OnChange = Callable[[AnswerChange], object]

OnError = Callable[["Subscription"], None]
"""Called with a subscription that has ended because of its `error`."""

Message = AnswerChange | ArityError
"""What a subscription is told: a change, or why it cannot go on."""


class Subscription:
    """Somebody who is told of the answers of a query, until `close`. As a context manager, it closes itself.

    If `on_change` raises, the subscription ends: `error` is what it raised, and a `SubscriptionWarning` tells of it.
    Neither the update nor other subscriptions notice.

    Examples:
        >>> kb = tidelog.KnowledgeBase("edge(a, b).")
        >>> with kb.subscribe("edge(a, X)", print) as subscription:
        ...     _ = kb.update(add={"edge": [("a", "c")]})
        <AnswerChange: update 1, + 1, - 0>
        <AnswerChange: update 2, + 1, - 0>
        >>> subscription.query, subscription.answers, subscription.closed
        ('edge(a, X)', 2, True)
    """

    def __init__(
        self, owner: Subscriptions, query: str, names: tuple[str, ...], on_change: OnChange, on_error: OnError
    ) -> None:
        self._owner = owner
        self._query = query
        self._on_change = on_change
        self._on_error = on_error
        self._answers = 0
        self.names = names
        self.closed = False
        self.error: Exception | None = None

    @property
    def query(self) -> str:
        """The query, with the values of its parameters."""
        return self._query

    @property
    def answers(self) -> int:
        """How many answers there were after the last message."""
        return self._answers

    def close(self) -> None:
        """Hear of nothing any more, from now on; also from within `on_change`. Waits for nobody, whatever is in work.
        A message that another thread is just handing over may still arrive.
        """
        if not self.closed:
            self.closed = True
            self._owner.leaving.append(self)

    def take(self, message: AnswerChange, more: int) -> None:
        """Hear of a change, after which there are so many more answers."""
        if not self.closed:
            self._answers += more
            try:
                self._on_change(message)
            except Exception as problem:
                self.fail(problem)

    def fail(self, problem: Exception) -> None:
        """End because of an error."""
        if self.closed:
            return
        self.error = problem
        self.close()
        self._on_error(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self._answers:,} answers"
        return f"<Subscription: {self._query}, {state}>"


@cache
def _nothing(width: int) -> Rows:
    """No rows of so many columns: what most changes have for one of their halves."""
    return Rows.of(np.empty((0, width), np.int32))


def _warn(subscription: Subscription) -> None:
    problem = subscription.error
    text = f"the subscription to `{subscription.query}` has ended: {type(problem).__name__}: {problem}"
    warn(text, SubscriptionWarning)


Delivery = tuple[list[Subscription], Message]
"""Who is told what."""


class Subscriptions:
    """All subscriptions of a knowledge base."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        # In the order in which they came. Some may call the variables of one query by other names.
        self._by_query: dict[Watched, dict[tuple[str, ...], dict[Subscription, None]]] = {}
        self._watched: dict[Subscription, Watched] = {}
        self.leaving: deque[Subscription] = deque()
        self._queue: deque[Delivery] = deque()
        self._turn = threading.Lock()  # held by whoever hands messages over
        self._process = os.getpid()
        self._starting = threading.Lock()
        self._awake = threading.Event()
        self._thread: threading.Thread | None = None

    def subscribe(
        self, asked: str | Query, on_change: OnChange, values: Values, on_error: OnError = _warn
    ) -> Subscription:
        """Tell somebody of the answers of a query, and then of what changes in them."""
        if not callable(on_change):
            raise TidelogError(f"`on_change` is a function that takes a message, not {on_change!r:.60}")
        knowledge = self._knowledge
        with knowledge.lock.working(), knowledge.terms_if_it_succeeds():
            self.let_go()
            knowledge.engine.reclaim_terms()
            query = knowledge.questions.asked_query(asked, values)
            refuse_special(query, "a query that is followed cannot have")
            refuse_copies(query, knowledge.engine.graph.equality)
            names, cells, errors = run_query(knowledge.engine, query)
            knowledge.failures.note(errors)
            text = ", ".join(render(item, knowledge.catalogue.prefixes) for item in query.body)
            subscription = Subscription(self, text, tuple(names), on_change, on_error)
            watched = knowledge.engine.watches.watch(query, answer_variables(query))
            self._by_query.setdefault(watched, {}).setdefault(subscription.names, {})[subscription] = None
            self._watched[subscription] = watched
            now = self._answers(subscription.names, Rows.of(cells)), self._answers(subscription.names, NO_ROWS)
            self._queue.append(([subscription], AnswerChange(knowledge.version, *now, True, errors)))
        self.deliver()
        return subscription

    def _answers(self, names: tuple[str, ...], rows: Rows) -> Answers:
        return Answers.read_later(
            names, rows if rows.count else _nothing(len(names)), self._knowledge.engine.store.terms.table
        )

    # --- under the lock ---

    def let_go(self) -> None:
        """Forget those that have been closed. The caller has the lock, and no update is in work."""
        while self.leaving:
            subscription = self.leaving.popleft()
            watched = self._watched.pop(subscription, None)
            if watched is None:  # Two threads have closed it at once.
                continue
            by_names = self._by_query[watched]
            del by_names[subscription.names][subscription]
            if not by_names[subscription.names]:
                del by_names[subscription.names]
            if not by_names:
                del self._by_query[watched]
                self._knowledge.engine.watches.forget(watched)

    def messages(self, changes: Iterable[AnswersChanged]) -> list[Delivery]:
        """Who is to be told what about an update that is about to be committed. The caller has the lock."""
        return [
            (list(told), self._message(names, change))
            for change in changes
            for names, told in self._by_query[change.watched].items()
        ]

    def _message(self, names: tuple[str, ...], change: AnswersChanged) -> Message:
        if change.misfit is not None:
            return self._misfit(change.misfit)
        halves = self._answers(names, change.added), self._answers(names, change.removed)
        return AnswerChange(self._knowledge.version + 1, *halves, False, change.errors)

    def _misfit(self, atom: Atom) -> ArityError:
        catalogue = self._knowledge.catalogue
        shown, name = render(atom, catalogue.prefixes), catalogue.display(atom.predicate)
        return ArityError(f"`{shown}` cannot be asked any more: `{name}` has another number of arguments now")

    def publish(self, messages: list[Delivery]) -> None:
        """The update has been committed. The caller has the lock."""
        self._queue.extend(messages)

    # --- without the lock ---

    def deliver(self) -> None:
        """Hand over what waits. If another thread is doing so, or this one further up, nothing is done: they look again
        when they are done, so that nothing is overlooked.
        """
        while self._queue:
            turn = self._turn_here()
            if not turn.acquire(blocking=False):
                return
            try:
                while self._queue:
                    self._hand_over(*self._queue.popleft())
            finally:
                turn.release()

    def _hand_over(self, subscriptions: list[Subscription], message: Message) -> None:
        waiting = iter(subscriptions)
        try:
            if isinstance(message, ArityError):
                for subscription in waiting:
                    subscription.fail(message)
            else:
                more = len(message.added) - len(message.removed)
                for subscription in waiting:
                    subscription.take(message, more)
        except BaseException:
            # As after Ctrl-C in the function of one of them: the others hear of it the next time.
            self._queue.appendleft((list(waiting), message))
            raise

    def _turn_here(self) -> threading.Lock:
        """A forked child has none of its parent's threads, which may be handing messages over."""
        if self._process != os.getpid():
            self._turn, self._process, self._thread = threading.Lock(), os.getpid(), None
        return self._turn

    def deliver_elsewhere(self) -> None:
        """Let another thread hand over what waits."""
        if not self._queue:
            return
        self._turn_here()
        self._awake.set()
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tidelog-messages", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while self._awake.wait(IDLE):
            self._awake.clear()
            self.deliver()
        with self._starting:
            self._thread = None
        self.deliver_elsewhere()  # Something may have come just now.
