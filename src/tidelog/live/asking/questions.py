"""Queries, and whether facts hold: what is asked of a knowledge base, between updates and beside the one in work.

Most queries are joins over what is there. One with parts that only rules derive is answered within a trial.
"""

from __future__ import annotations

from collections.abc import Set
from contextlib import nullcontext

from tidelog.engine.engine import Engine
from tidelog.engine.queries import derived_answers, needs_parts, run_query
from tidelog.engine.update.deltas import Outcome, Request
from tidelog.engine.update.failures import Failures
from tidelog.engine.update.runner import OutOfPatience
from tidelog.facts.questions import Values, fact_of, query_of, refuse_new_windows, warn_of_unknown
from tidelog.facts.reading import Reader
from tidelog.facts.results import Answers, Encoded
from tidelog.language.parameters import NO_VALUES
from tidelog.language.parse_messages import told_of
from tidelog.language.syntax import Query
from tidelog.live.asking.committed import Committed
from tidelog.live.asking.trials import Trials
from tidelog.live.failure_log import FailureLog
from tidelog.program.catalogue import Catalogue
from tidelog.program.equality import answer_rules
from tidelog.runtime.knowledge_lock import KnowledgeLock, NotNow
from tidelog.store.relation_parts import Cells

# Candidates that a query looks at for somebody who does not wait: about a millisecond.
A_MOMENT = 20_000


class Questions:
    """Answers queries. All but `asked_query` take the lock themselves."""

    def __init__(
        self,
        engine: Engine,
        catalogue: Catalogue,
        reader: Reader,
        lock: KnowledgeLock,
        functions: Set[str],
        committed: Committed,
        trials: Trials,
        failures: FailureLog,
    ) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._reader = reader
        self._lock = lock
        self._functions = functions
        self._committed = committed
        self._trials = trials
        self._failures = failures

    def query(self, asked: str | Query, values: Values = NO_VALUES) -> Answers:
        """The answers of a query over the materialisation, with values in the place of its parameters."""
        return self.query_at(asked, values)[1]

    def query_at(
        self, asked: str | Query, values: Values = NO_VALUES, most: int | None = None, waits: bool = True
    ) -> tuple[int, Answers]:
        """The same, with the number of the update after which they are the answers. When there are `most`, no others
        are looked for. Who does not wait gets `NotNow` where somebody is in the way, or the search takes long.
        """
        patience = None if waits else A_MOMENT
        committed = self._committed
        try:
            found = self._lock.read(
                lambda: (committed.version, self._joined(asked, values, most, patience)), True, waits
            )
        except OutOfPatience:
            raise NotNow from None
        if found[1] is not None:
            return found[0], found[1]
        if not waits:
            raise NotNow
        with self._lock.working():
            return committed.version, self._derived(asked, values, most)

    def asked_query(self, asked: str | Query, values: Values) -> Query:
        """A query that is asked here, with values in the place of its parameters. The caller has the lock."""
        query = query_of(asked, values, self._catalogue, self._functions)
        with told_of(asked, "<query>") if isinstance(asked, str) else nullcontext():
            refuse_new_windows(query, self._engine.graph.readers)
        return query

    def _joined(self, asked: str | Query, values: Values, most: int | None, patience: int | None) -> Answers | None:
        """The answers of a query, unless parts of it must be derived first."""
        with self._reader.terms_for_a_question():
            query = self.asked_query(asked, values)
            answer = answer_rules(query, self._engine.graph.equality)
            if needs_parts(*answer):
                return None
            return self._answers(*run_query(self._engine, query, most, patience, answer))

    def _derived(self, asked: str | Query, values: Values, most: int | None) -> Answers:
        """The answers of a query for which rules are added that derive them, and then taken back."""
        with self._reader.terms_for_a_question():
            query = self.asked_query(asked, values)
            head, rules = answer_rules(query, self._engine.graph.equality)

            def look(outcome: Outcome) -> tuple[list[str], Cells, Failures]:
                names, cells = derived_answers(self._engine, head)
                return names, cells[:most], outcome.errors

            return self._answers(*self._trials.look(Request(add_rules=tuple(rules)), look))

    def _answers(self, names: list[str], cells: Cells, failures: Failures) -> Answers:
        self._failures.note(failures)
        return Answers(names, Encoded(cells, self._engine.store.terms.table), failures)

    def holds(self, fact: object, values: Values = NO_VALUES) -> bool:
        """Whether a fact is in the materialisation."""
        return self._lock.read(lambda: self._holds(fact, values))

    def _holds(self, fact: object, values: Values) -> bool:
        atom = fact_of(fact, values, self._catalogue)
        warn_of_unknown(self._catalogue, atom.predicate, atom.arity)
        return self._reader.holds(atom.predicate, atom.row)
