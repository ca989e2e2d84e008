"""Matches for the attempts of `proofs/attempts.py`, found by lookups in the files of a version."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from tidelog.language.syntax import Atom, Constant, Rule, Variable
from tidelog.program.graph import RuleGraph
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import Plan
from tidelog.proofs.attempts import Matcher, OutOfReach
from tidelog.proofs.wording import Binding
from tidelog.spark.data.term_lookup import Ids
from tidelog.spark.small.matching import Facts, Matches
from tidelog.spark.small.pending_facts import Groups, PendingFacts
from tidelog.spark.stored.keyed_files import TooManyFacts
from tidelog.values import Value


class FileGrounds:
    """The facts of a version, until too many of them would be needed."""

    def __init__(self, facts: PendingFacts, graph: RuleGraph) -> None:
        self._facts = facts
        self._graph = graph
        self.exhausted = False

    def producers(self, predicate: str) -> Collection[int]:
        return self._graph.producers(predicate)

    def rule(self, number: int) -> Rule:
        return self._graph.rule(number)

    def estimate(self, atom: Atom, bound: tuple[int, ...]) -> float:
        return self._facts.estimate(atom, bound)

    @contextmanager
    def asking(self, number: int, head: Atom, values: Sequence[Value]) -> Iterator[Matcher]:
        start = Facts([tuple(self._facts.values.ids(values))])
        sets = self._facts.phases.held(lambda _: start)

        def match(plan: Plan, bound: Sequence[Variable]) -> Binding | None:
            try:
                found = Matches(plan, sets.lookup, self._facts.ids, self._facts.values, few=True)
            except TooManyFacts:
                self.exhausted = True
                raise OutOfReach from None
            rows = found.values(bound)
            self._facts.values.fetch(rows[0] if rows else ())
            return dict(zip(bound, rows[0], strict=True)) if rows else None

        yield match

    def matches(self, pattern: Atom) -> bool:
        return bool(self._matching(pattern))

    def least_fact(self, pattern: Atom) -> Sequence[int]:
        found = min(self._matching(pattern))
        self._facts.values.fetch(found)
        return found

    def _matching(self, pattern: Atom) -> list[Ids]:
        """The facts that match an atom; only some of them if there are too many."""
        constants = [(place, term) for place, term in enumerate(pattern.arguments) if isinstance(term, Constant)]
        columns = [place for place, _ in constants]
        keys = {tuple(self._facts.values.ids([term.value for _, term in constants]))}
        files = self._facts.files
        try:
            found = list(files.matching(pattern.predicate, columns, keys))
        except TooManyFacts:
            self.exhausted = True
            found = files.some(pattern.predicate, columns, keys, ()) if columns else []
        return [ids for ids in found if _is_like(pattern, ids)]

    def outdone_by(self, fact: Atom) -> Sequence[int] | None:
        return None  # No predicate keeps the best value of a recursion here: see `plan.refusals`.

    def group(self, rule: NormalRule, binding: Binding) -> Sequence[int] | None:
        groups = Groups(self._facts, rule)
        wanted = {tuple(binding[variable] for variable in groups.bound)} if set(groups.bound) <= set(binding) else None
        try:
            heads = groups.heads(wanted, before=True)
        except TooManyFacts:
            return None
        terms = list(enumerate(rule.head.arguments))
        known = [(place, binding[term]) for place, term in terms if isinstance(term, Variable) and term in binding]
        fitting = [ids for _, ids in heads if all(ids[place] == id_ for place, id_ in known)]
        if not fitting:
            return None
        self._facts.values.fetch(fitting[0])
        return fitting[0]


def _is_like(pattern: Atom, ids: Sequence[int]) -> bool:
    """Whether a fact has the same constant wherever a pattern has the same variable."""
    seen: dict[Variable, int] = {}
    return all(
        seen.setdefault(term, id_) == id_
        for term, id_ in zip(pattern.arguments, ids, strict=True)
        if isinstance(term, Variable)
    )
