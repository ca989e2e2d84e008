"""A look at a knowledge base: whether it is in the state of a course in which it must be, by all that one can ask it.

`Onlooker.look` holds facts, explicit facts, rules and changes against the oracle, after every step; `examine` also
holds arrays, counters and ranks (`audit`), proofs, queries and columns, and then applies the update that comes next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache

from audit import audit
from courses import FUNCTIONS, Course
from engine_util import explicit, facts_of, materialisation
from generate import Case, Source
from naive import Database, Fact, Row, answers, constant, normal, without_empty
from proof_util import Checker, text_of
from tidelog import KnowledgeBase
from tidelog.language import parse_rules
from tidelog.language.syntax import Atom, Query, body_atoms
from ways import Changes, Moment, apply

MOST_FACTS = 4


class Onlooker:
    """Follows a knowledge base through a course."""

    def __init__(self, course: Course, source: Source) -> None:
        self._course = course
        self._source = source
        self._before: int | None = None

    def look(self, moment: Moment) -> None:
        kb, expected = moment.kb, self._course.facts[moment.state]
        state = self._course.states[moment.state]
        where = f"in state {moment.state}"
        _same(materialisation(kb), expected, f"what holds {where}")
        _same(explicit(kb), without_empty(state.explicit), f"what is explicit {where}")
        rules = [normal(rule.written) for rule in parse_rules("\n".join(map(str, kb.rules)), {}) if rule.part == 0]
        assert len(rules) == len(set(rules)), f"a rule twice {where}"
        assert set(rules) == {normal(rule.written) for rule in state.rules}, f"the rules {where}"
        assert len(kb) == sum(map(len, expected.values())), f"len {where}"
        if moment.changes is not None:
            since = self._before if moment.since is None else moment.since
            if since is not None:
                self._look_at_changes(moment.changes, since, moment.state)
        self._before = moment.state

    def _look_at_changes(self, changes: Changes, since: int, now: int) -> None:
        """What came less what went, over all changes in any order, is the difference of the two states."""
        found: Counter[Fact] = Counter()
        for change in changes:
            for facts, sign in ((change.added, 1), (change.removed, -1)):
                for name, rows in facts_of(facts).items():
                    assert len(rows) == len(facts[name]), f"len of a change of {name}"
                    found.update(dict.fromkeys(((name, row) for row in rows), sign))
            assert all(len(rows) for facts in (change.added, change.removed) for rows in facts.values())
        before, after = (set(_listed(self._course.facts[number])) for number in (since, now))
        wanted = dict.fromkeys(after - before, 1) | dict.fromkeys(before - after, -1)
        assert {fact: count for fact, count in found.items() if count} == wanted, f"the change from {since} to {now}"

    def examine(self, kb: KnowledgeBase, number: int) -> None:
        """Check everything else, and then the next update."""
        audit(kb, oracle=self._source.chance(40), may_be_opened=True)
        self._look_at_names(kb, number)
        self._ask_for_facts(kb, number)
        self._ask_for_proofs(kb, number)
        self._query(kb, number)
        self._read_columns(kb)
        if number == self._course.end:
            self.look(Moment(kb, number + 1, [apply(kb, self._course.updates[-1])], since=number))
            audit(kb, oracle=self._source.chance(40), may_be_opened=True)

    def _look_at_names(self, kb: KnowledgeBase, number: int) -> None:
        state, facts = self._course.states[number], self._course.facts[number]
        mentioned = {atom.predicate for rule in state.rules for atom in (rule.head, *body_atoms(rule))}
        negated = {item.atom.predicate for rule in state.rules for item in rule.body if hasattr(item, "atom")}
        assert kb.predicates == sorted(mentioned | negated | facts.keys())
        assert kb.explicit_predicates == sorted(without_empty(state.explicit))

    def _some(self, facts: Iterable[Fact]) -> list[Fact]:
        """A few facts, preferably derived ones."""
        return self._source.shuffled(sorted(facts, key=repr))[:MOST_FACTS]

    def _missing(self, number: int) -> list[Fact]:
        """Facts that do not hold now: those of other states, and reversed rows."""
        now = set(_listed(self._course.facts[number]))
        elsewhere = {fact for facts in self._course.facts for fact in _listed(facts)}
        return self._some({(name, turned) for name, row in elsewhere for turned in (row, row[::-1])} - now)

    def _ask_for_facts(self, kb: KnowledgeBase, number: int) -> None:
        given = self._course.states[number].explicit
        for fact in self._some(_listed(self._course.facts[number])):
            name, row = fact
            assert text_of(fact) in kb
            assert _values(row) in kb.facts(name)
            assert (_values(row) in kb.explicit(name)) == (row in given.get(name, ()))
        for fact in self._missing(number):
            name, row = fact
            assert text_of(fact) not in kb
            assert _values(row) not in kb.facts(name)

    def _ask_for_proofs(self, kb: KnowledgeBase, number: int) -> None:
        state = self._course.states[number]
        checker = _checker(self._course, number)
        derived = set(_listed(self._course.facts[number])) - set(_listed(state.explicit))
        for fact in self._some(derived):
            proof = kb.explain(text_of(fact))
            assert proof is not None, f"{text_of(fact)} has no proof"
            checker.check(proof, fact)
        for fact in self._missing(number):
            assert kb.explain(text_of(fact)) is None, f"{text_of(fact)} has a proof"

    def _query(self, kb: KnowledgeBase, number: int) -> None:
        """The bodies of rules as queries."""
        facts = self._course.facts[number]
        for rule in self._source.shuffled(self._course.states[number].rules)[:2]:
            query = Query(rule.body)
            found = [tuple(map(constant, row)) for row in kb.query(str(query)).rows()]
            wanted = [tuple(answer.values()) for answer in answers(query, facts, FUNCTIONS)]
            assert Counter(found) == Counter(wanted), f"the answers of {query}"

    def _read_columns(self, kb: KnowledgeBase) -> None:
        """What is read as columns says the same, to a knowledge base that reads it, as what is read as rows."""
        tables = {name: kb.facts(name).to_arrow() for name in kb.predicates if len(kb.facts(name))}
        again = KnowledgeBase()
        again.update(add=tables)
        _same(materialisation(again), materialisation(kb), "what columns hold")


@lru_cache(maxsize=4)
def _checker(course: Course, number: int) -> Checker:
    return Checker(Case(course.states[number], (), ()), FUNCTIONS)


def _values(row: Row) -> tuple[object, ...]:
    return tuple(cell.value for cell in row)


def _listed(facts: Database) -> Iterator[Fact]:
    return ((name, row) for name, rows in facts.items() for row in rows)


def _same(found: Database, expected: Database, what: str) -> None:
    if found != expected:
        missing, extra = set(_listed(expected)) - set(_listed(found)), set(_listed(found)) - set(_listed(expected))
        lines = [f"{what} is not what the oracle says"]
        lines += [f"  lacks {Atom(*fact)}" for fact in sorted(missing, key=repr)]
        lines += [f"  has {Atom(*fact)}" for fact in sorted(extra, key=repr)]
        raise AssertionError("\n".join(lines[:20]))
