"""Marking: while one update of a stream is carried out, find out what the next one will have to check.

Backward/Forward with Marking (Illich and Glimm, Algorithm 1), with sets of facts. The explicit facts that the next
update deletes are marked as soon as that update is there (line 9). A rule instance that insertion finds anyway marks
its head if it uses a marked fact (line 12), and a rule with one body atom needs no search: its head shares the mark.
The marked heads are the first facts that the next update checks (line 32), and it does not run the rules that copy
marked facts. Marks change the work, never results: every candidate for deletion is proved, wherever it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from tidelog.formats.batch import FactBatch
from tidelog.language.printer import plain_text
from tidelog.program.normal_form import NormalRule
from tidelog.spark.data.dictionary import Dictionary
from tidelog.spark.data.term_lookup import Encoded, Fact, Ids, encode_few
from tidelog.spark.small.matching import Matches


@dataclass(frozen=True)
class Marked:
    """What an update leaves to the next one: the deleted facts that it marked, the heads, the rules that copy."""

    deleted: frozenset[Fact] = frozenset()
    heads: frozenset[Fact] = frozenset()
    copied: frozenset[str] = frozenset()


@dataclass
class Marks:
    """The marks of an update in a stream: those that the update before left, and those that this one makes.

    `look` tells what the next update deletes; None as long as it is not there."""

    before: Marked
    look: Callable[[], frozenset[Fact] | None]
    _deleted: dict[str, set[Ids]] | None = field(default=None, init=False)
    _heads: set[Fact] = field(default_factory=set, init=False)
    _copied: set[str] = field(default_factory=set, init=False)

    def expected(self, names: Collection[str]) -> set[Fact]:
        """The facts of predicates that were marked while the update before was carried out."""
        return {fact for fact in self.before.heads if fact[0] in names}

    def spares(self, rule: NormalRule, gone: Iterable[Ids]) -> bool:
        """Whether the heads of a rule that copies facts of which some are gone are all among those expected."""
        return plain_text(rule.source) in self.before.copied and all(
            (rule.positives[0].predicate, ids) in self.before.deleted for ids in gone
        )

    def deleted(self, name: str) -> set[Ids]:
        """The facts of a predicate that the next update deletes, as far as that is known."""
        if self._deleted is None:
            facts = self.look()
            if facts is None:
                return set()
            self._deleted = {}
            for predicate, ids in facts:
                self._deleted.setdefault(predicate, set()).add(ids)
        return self._deleted.get(name, set())

    def pass_on(self, rule: NormalRule, found: Matches) -> None:
        """Mark the heads of instances that use a marked fact."""
        for atom in rule.positives:
            marked = self.deleted(atom.predicate)
            if marked:
                heads = zip(found.facts(rule.head), found.facts(atom), strict=True)
                self._heads.update(head for head, (_, ids) in heads if ids in marked)

    def copy(self, rule: NormalRule, heads: Iterable[Fact]) -> None:
        """Mark the heads that a rule with one body atom derives from marked facts."""
        self._heads.update(heads)
        self._copied.add(plain_text(rule.source))

    def left(self) -> Marked:
        """What the next update may use."""
        deleted = [(name, ids) for name, facts in (self._deleted or {}).items() for ids in facts]
        return Marked(frozenset(deleted), frozenset(self._heads), frozenset(self._copied))


def deleted_next(dictionary: Dictionary, asked: Encoded, ahead: Sequence[FactBatch]) -> frozenset[Fact]:
    """What the next update deletes; it may have constants that are new with this one."""
    return encode_few(dictionary, (), ahead, asked.terms).take - asked.take


def copies(rule: NormalRule, component: Collection[str]) -> bool:
    """Whether a rule does nothing but copy facts of a predicate below its component."""
    more = rule.negatives or rule.aggregates or rule.conditions or rule.definitions
    return len(rule.positives) == 1 and not more and rule.positives[0].predicate not in component
