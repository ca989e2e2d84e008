"""What held before the updates in work, for those who read while these are paused.

Most of it lies in the records: a fact that was in I has the flag OLD, whatever an update has done to it since. Where an
update has put something else in the place of what was, a *stand-in* is found under the predicate's name: a relation
over the records that were set aside, or one that shows a closure as it was. Stand-ins are made when somebody reads, and
go with the update. Rules that an update has changed are as before, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidelog.engine.components import RuleChanges
from tidelog.engine.transaction.transaction import Transaction
from tidelog.engine.update.deltas import Request
from tidelog.machine import flags as F
from tidelog.program.graph import RuleGraph
from tidelog.runtime.knowledge_lock import NotSettled
from tidelog.store.relation import Relation

if TYPE_CHECKING:
    from tidelog.engine.engine import Engine


@dataclass(slots=True, eq=False)
class Work:
    """An update in work, and what readers have needed to see what was before it."""

    transaction: Transaction
    rules: RuleChanges
    request: Request
    claims: frozenset[str] | None = None  # the predicates that it may change, where somebody has asked
    agenda: list[tuple[int, str]] = field(default_factory=list)  # the components that it has yet to visit, as a heap
    visited: list[str] = field(default_factory=list)  # the first predicates of those that it has come to
    is_at_its_end: bool = False  # no component is left
    graph: RuleGraph | None = None  # of the rules before it, where it changes them
    # Stand-ins for the records of relations and for the closures of predicates, and for explicit facts.
    stand_ins: dict[Relation | str, Relation] = field(default_factory=dict)
    explicit: dict[Relation, Relation] = field(default_factory=dict)


class Past:
    """Looks back in an engine, behind the updates in work."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.works: list[Work] = []  # each but the first has overtaken the one before it
        self.shown = False  # whether somebody looks back

    @contextmanager
    def looking_back(self, at_rest: bool) -> Iterator[None]:
        """Within, all that is read of the engine is as before the updates in work. Between two pieces of a change,
        where an update is not at rest, nothing can be made for that.
        """
        if not self.works:
            yield
            return
        engine, store = self._engine, self._engine.store
        graph, rest = engine.graph, store.at_rest
        with store.hooks.using_terms(), store.apart():
            store.at_rest = at_rest
            try:
                with store.showing(F.OLD, self._stand_ins()):
                    engine.graph = self._graph_before()
                    self.shown = True
                    yield
            finally:
                self.shown = False
                engine.graph, store.at_rest = graph, rest

    def check_settled(self) -> None:
        """Refuse what can only be read when nothing is in work."""
        if self.shown:
            raise NotSettled

    @property
    def rules_change(self) -> bool:
        """Whether an update in work changes rules."""
        return any(work.rules for work in self.works)

    def _graph_before(self) -> RuleGraph:
        for work in self.works:
            if work.rules:
                if work.graph is None:
                    work.graph = self._engine.graph.copy()
                    work.rules.take_back(work.graph)
                return work.graph
        return self._engine.graph

    # --- stand-ins ----------------------------------------------------------------------------------------------------

    def _stand_ins(self) -> dict[str, Relation]:
        store, named = self._engine.store, self._engine.store.named()
        found: dict[str, Relation] = {}
        for work in self.works:
            for relation, records in work.transaction.undo.records_before():
                if named.get(relation.name) is relation:
                    if relation not in work.stand_ins:
                        work.stand_ins[relation] = store.stand_in(relation.name, relation.arity)
                        work.stand_ins[relation].show(records)
                    found[relation.name] = work.stand_ins[relation]
        for predicate, closure in self._engine.closures.before().items():
            stand_ins = self.works[0].stand_ins
            if predicate not in stand_ins:
                stand_ins[predicate] = store.stand_in(predicate, 2)
            found[predicate] = stand_ins[predicate]
            found[predicate].become_closure(closure)  # Anew: at another pause, it may be seen by another view.
        return found

    def explicit_relation(self, predicate: str) -> Relation | None:
        """Where the explicit facts of a predicate can be read, as they were."""
        base = self._engine.closures.base_before(predicate)
        relation = self._engine.store.find(predicate) if base is None else base.explicit_relation(predicate)
        if relation is None:
            return None
        for work in self.works:
            undo = work.transaction.undo
            if undo.changes_explicit(relation):
                if relation not in work.explicit:
                    rows = undo.explicit_before(relation)
                    stand_in = self._engine.store.stand_in(relation.name, relation.arity)
                    stand_in.load(rows, F.IN | F.OLD | F.EXPLICIT)
                    stand_in.explicit_count = len(rows)
                    work.explicit[relation] = stand_in
                return work.explicit[relation]
        return relation

    def forget(self, work: Work) -> None:
        """An update has ended."""
        self.works.remove(work)
        for stand_in in (*work.stand_ins.values(), *work.explicit.values()):
            self._engine.store.remove_stand_in(stand_in)
