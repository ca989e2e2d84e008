"""The columns of Table 2 of Backward/Forward that are counts, by the definitions of the paper's procedures.

The engine maintains one component after the other, and leaves explicit facts aside where no rule derives their
predicate. The paper's procedures know no components and count every fact. So the engine's own counts are others, and
these are found beside it:

- Delete/Rederive (section 3) is determined. D is what the rules derive from E⁻ with rules (5), which the paper reads as
  Datalog over the relations R^D. The engine derives them. With M(X) for the number of rule instances in a set X of
  facts, the steps take DR2 = M(I) − M(I ∖ D) and DR5 = M(I′) − M(I ∖ D) derivations. DR4 is the number of facts in D
  that rule (6) derives from I ∖ D. One derivation is enough for each: the paper's figures never exceed |D|, although
  the rule may have many instances for a fact.
- Backward/Forward (Algorithms 1 to 3) depends on the order in which instances are found. Its procedure runs as it is
  printed (`tidelog.papers`), on instances that are found when it asks for them. Deletion propagation is determined:
  M(I) − M(I′).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.bench.data.cases import Tables
from tidelog.facts.results import Change
from tidelog.language import parse_program
from tidelog.language.names import resolve_predicate
from tidelog.language.syntax import Atom, Constant, Rule, Variable
from tidelog.papers.backward_forward import backward_forward
from tidelog.papers.instances import Fact, Instance
from tidelog.papers.lookup import InstancesOnDemand
from tidelog.papers.trace import Trace
from tidelog.papers.update import PaperUpdate
from tidelog.values import Value


@dataclass(frozen=True)
class DredCounts:
    """|D|, the derivations of steps DR2 and DR5, and the facts of DR4."""

    overdeleted: int
    dr2: int
    dr4: int
    dr5: int


@dataclass(frozen=True)
class BackwardForwardCounts:
    """|C|, the instances of line 16, and the derivations of lines 27 and 9."""

    checked: int
    backward: int
    saturation: int
    propagation: int


class DredProgram:
    """Delete/Rederive as Datalog: `p` holds I, `D/p` what is overdeleted, `K/p` what is kept.

    Deletions only grow: each one adds to D, and what it adds up to is counted.
    """

    def __init__(self, rules: str, materialised: Tables, instances: int) -> None:
        self._program = parse_program(rules)
        self._instances = instances
        kept = "".join(_kept(self._resolved(name), table.num_columns) for name, table in materialised.items())
        overdeleting = _text(_overdeleting(self._program.rules))
        self._kb = KnowledgeBase(overdeleting + kept, maintenance="dred", modules=False)
        self._kb.update(add={self._resolved(name): table for name, table in materialised.items()})

    def delete(self, rows: Tables, instances_left: int) -> DredCounts:
        """Overdelete more facts; `instances_left` is M(I′)."""
        self._kb.update(add={_in("D", self._resolved(name)): table for name, table in rows.items()})
        overdeleted = sum(len(self._kb.facts(name)) for name in self._kb.predicates if _is_in("D", name))
        kept = self._with(replace(_body_in("K", rule), head=_renamed("M", rule.head)) for rule in self._program.rules)
        rederived = self._with(_rederiving(rule) for rule in self._program.rules)
        count = kept.work["insertion"]
        return DredCounts(overdeleted, self._instances - count, _size(rederived), instances_left - count)

    def _resolved(self, name: str) -> str:
        return resolve_predicate(name, dict(self._program.prefixes))

    def _with(self, rules: Iterable[Rule]) -> Change:
        """What some rules add; they are removed again."""
        text = _text(rules)
        change = self._kb.add_rules(text)
        self._kb.remove_rules(text)
        return change


def _size(change: Change) -> int:
    return sum(map(len, change.added.values()))


def _overdeleting(rules: Iterable[Rule]) -> Iterator[Rule]:
    """Rules (5): H^D ← B₁, …, Bᵢ^D, …, Bₙ."""
    for rule in rules:
        for place, atom in enumerate(rule.body):
            assert isinstance(atom, Atom)
            body = (_renamed("D", atom), *rule.body[:place], *rule.body[place + 1 :])
            yield Rule(_renamed("D", rule.head), body)


def _rederiving(rule: Rule) -> Rule:
    """Rule (6): H^A ← H^D, B₁, …, Bₙ in I ∖ D."""
    return Rule(_renamed("A", rule.head), (_renamed("D", rule.head), *_body_in("K", rule).body))


def _body_in(letter: str, rule: Rule) -> Rule:
    return replace(rule, body=tuple(_renamed(letter, atom) for atom in rule.body if isinstance(atom, Atom)))


def _kept(name: str, arity: int) -> str:
    terms = tuple(Variable(f"X{place}") for place in range(arity))
    head, atom, overdeleted = (Atom(each, terms) for each in (_in("K", name), name, _in("D", name)))
    return f"{head} :- {atom}, not {overdeleted}.\n"


def _renamed(letter: str, atom: Atom) -> Atom:
    return replace(atom, predicate=_in(letter, atom.predicate))


def _in(letter: str, predicate: str) -> str:
    """The name of a relation R^X."""
    return f"<paper:{letter}/{predicate.strip('<>')}>"


def _is_in(letter: str, predicate: str) -> bool:
    return predicate.startswith(f"<paper:{letter}/")


def _text(rules: Iterable[Rule]) -> str:
    return "".join(f"{rule}\n" for rule in rules)


class Counts(Trace):
    """A trace that keeps no applications, because there may be millions, and gives up after a while."""

    deadline = math.inf

    def apply(self, kind: str, instance: Instance) -> None:
        self.work[kind] = self.work.get(kind, 0) + 1
        if time.process_time() > self.deadline:
            raise TimeoutError


class BackwardForwardProgram:
    """A program and its materialisation, from which any explicit facts can be deleted as Algorithms 1 to 3 say."""

    def __init__(self, rules: str, explicit: Tables, materialised: Tables) -> None:
        self._program = parse_program(rules)
        self._constants: dict[Value, Constant] = {}
        self._facts = set(self._read(materialised))
        self._explicit = set(self._read(explicit))
        self._instances = InstancesOnDemand(self._program.rules, self._facts)

    def delete(self, rows: Tables, seconds: float = math.inf) -> BackwardForwardCounts | None:
        """What the procedure does for these facts alone; the program is as before. None if it takes longer."""
        deleted = tuple(self._read(rows))
        trace = Counts("Backward/Forward")
        trace.deadline = time.process_time() + seconds
        update = PaperUpdate(self._explicit, self._facts, deleted, (), self._instances, self._instances)
        try:
            backward_forward(update, trace)
        except TimeoutError:
            return None
        work = (trace.work.get(kind, 0) for kind in ("backward", "forward", "deletion"))
        return BackwardForwardCounts(len(trace.sets["C"]), *work)

    def _read(self, tables: Tables) -> Iterator[Fact]:
        prefixes = dict(self._program.prefixes)
        for name, table in tables.items():
            predicate = resolve_predicate(name, prefixes)
            for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                yield Fact(predicate, tuple(map(self._constant, row)))

    def _constant(self, value: Value) -> Constant:
        """Each value as one object, which compares fast."""
        if value not in self._constants:
            self._constants[value] = Constant(value)
        return self._constants[value]
