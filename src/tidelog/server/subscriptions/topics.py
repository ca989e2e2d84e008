"""Topics: those who ask the same share one, which is one subscription of the knowledge base. What a commit changes for
it becomes one event, which all its streams send.

Everything here is for the thread that makes the updates (`commits/writer.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from tidelog.engine.queries import run_query
from tidelog.errors import TidelogError, warnings_collected
from tidelog.facts.results import Answers, Encoded, row_identity
from tidelog.language import parse_query
from tidelog.language.syntax import Query, body_atoms
from tidelog.live.subscriptions import AnswerChange, Subscription
from tidelog.server import problems
from tidelog.server.commits.store import ServedStore
from tidelog.server.listing import rows_of
from tidelog.server.questions.queries import check_size
from tidelog.server.subscriptions.news import News, event
from tidelog.server.subscriptions.streams import Stream
from tidelog.values import Row, Value

Values = Mapping[str, Value]
Key = tuple[str, bytes]


class Topic:
    """A query with values, and the streams of those who asked for it."""

    def __init__(self, key: Key, query: str, values: Values, told: Callable[[Topic, AnswerChange], None]) -> None:
        self.key = key
        self.query = query
        self.values = values
        self.streams: dict[Stream, None] = {}
        self.members = 0  # the writer's: how many streams there are, or will be
        self.subscription: Subscription | None = None
        self.first: AnswerChange | None = None
        self._told = told

    def take(self, message: AnswerChange) -> None:
        """The writer's: hear of a change."""
        if message.first:
            self.first = message
        else:
            self._told(self, message)


class Topics:
    """All topics of a server. `ended` is called when a topic can no longer be told, with its last event."""

    def __init__(self, store: ServedStore, told: Callable[[Topic, bytes], None], ended: Callable[[Topic, bytes], None]):
        self._store = store
        self._knowledge = store.knowledge
        self._topics: dict[Key, Topic] = {}
        self._told = told
        self._ended = ended

    def __len__(self) -> int:
        return len(self._topics)

    def _tell(self, topic: Topic, message: AnswerChange) -> None:
        halves = {"added": rows_of(message.added), "removed": rows_of(message.removed)}
        number = self._store.number()
        self._told(topic, event("change", number, {"update": number, **halves}))

    def join(self, query: str, values: Values, since: int | None) -> tuple[Topic, News]:
        """The topic of a query for one more stream, and what that begins with: what it missed since a commit, or all
        answers.
        """
        key = query, msgspec.json.encode(sorted((name, repr(value)) for name, value in values.items()))
        with warnings_collected():
            topic = self._topics.get(key)
            news: News | None = None
            if topic is None:
                topic = Topic(key, query, values, self._tell)
                subscriptions = self._knowledge.subscriptions
                topic.subscription = subscriptions.subscribe(query, topic.take, values, self._end_of(topic))
                first, topic.first = topic.first, None
                assert first is not None
                if since is None:
                    news = self._snapshot(first.added)
                self._topics[key] = topic
            topic.members += 1
            try:
                if news is None:
                    news = self._snapshot(self._ask(topic)) if since is None else self.missed(topic, since)
                if news.answers is not None:
                    check_size(news.answers, self._store.settings.limits.max_answers)
            except BaseException:
                self.drop(topic)
                raise
            return topic, news

    def _end_of(self, topic: Topic) -> Callable[[Subscription], None]:
        """What is done when a subscription can no longer be told: its predicate has become another one."""

        def end(subscription: Subscription) -> None:
            self._forget(topic)
            problem = subscription.error
            document = (
                problems.of_error(problem) if isinstance(problem, TidelogError) else problems.of_status(500)
            ).document()
            self._ended(topic, event("error", None, document))

        return end

    def drop(self, topic: Topic) -> None:
        """A stream of a topic has ended."""
        topic.members -= 1
        if not topic.members:
            self._forget(topic)
            if topic.subscription is not None:
                topic.subscription.close()

    def _forget(self, topic: Topic) -> None:
        """Let nobody else join a topic. One that has ended before may have a successor, which stays."""
        if self._topics.get(topic.key) is topic:
            del self._topics[topic.key]

    def _ask(self, topic: Topic) -> Answers:
        return self._knowledge.questions.query(topic.query, topic.values)

    def _snapshot(self, answers: Answers, kind: str = "snapshot", reason: str = "") -> News:
        return News(self._store.number(), kind, answers.variables, answers, reason=reason)

    def missed(self, topic: Topic, since: int) -> News:
        """What a topic told after a commit, as one net difference; all answers where nobody knows any more."""
        history = self._store.history
        if reason := history.out_of_reach(since):
            return self._snapshot(self._ask(topic), "reset", reason)
        before = self._answers_after(topic, since)
        if before is None:
            return News(history.number, "nothing")
        now = self._ask(topic)
        came = {row_identity(row): row for row in now.rows()}
        went = {row_identity(row): row for row in before}
        added = [row for key, row in came.items() if key not in went]
        removed = [row for key, row in went.items() if key not in came]
        if not added and not removed:
            return News(history.number, "nothing")
        return News(history.number, "change", added=added, removed=removed)

    def _answers_after(self, topic: Topic, number: int) -> list[Row] | None:
        """The answers after a commit, found in the state that the way back leads to; None where they are the same."""
        knowledge = self._knowledge
        if not self._is_concerned(topic, number):
            return None

        def look() -> list[Row]:
            query = knowledge.questions.asked_query(topic.query, topic.values)
            _, cells, _ = run_query(knowledge.engine, query)
            return list(Encoded(cells.copy(), knowledge.engine.store.terms.table).rows())

        return self._store.in_state(number, look)

    def _is_concerned(self, topic: Topic, number: int) -> bool:
        """Whether anything has changed after a commit that a topic reads."""
        catalogue = self._knowledge.catalogue
        query: Query = parse_query(topic.query, catalogue.prefixes)
        read = {atom.predicate for atom in body_atoms(query)}
        shown = set(map(catalogue.display, read))
        return any(
            not (shown.isdisjoint(commit.predicates) and read.isdisjoint(commit.explicit))
            for commit in self._store.history.after(number)
        )
