"""Components that tasks solve together, each task for some of the keys, without a word between them.

Every derived predicate of a *block* has one argument as its key (`key_columns.py`), and every rule keeps to the key of
its head. So what follows for a key needs the facts of the block with that key alone, and whatever a task finds for its
keys is found by no other. Predicates that were complete before may be read in more than one way: dealt out by whichever
argument has the key of the rule, or, if none has, *shared*, which means that each task reads all of their facts. Of
them, tasks read only the columns that a rule asks for: of `p(X, _)`, one.

A component that needs a predicate of the block by another key has to wait for the next block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tidelog.language.syntax import Atom, BodyItem, Comparison, Negation, Rule, Term, Variable, body_atoms, variables
from tidelog.spark.plan.key_columns import choices_of_columns

Count = Callable[[str], int]
"""How many facts a predicate has that is complete, or begins with."""


@dataclass(frozen=True)
class Input:
    """Columns of a predicate that was complete before, and the column by which it is dealt out; None if it is shared.

    There may be no column left: rules then ask whether there is any fact."""

    predicate: str
    columns: tuple[int, ...]
    key: int | None


@dataclass
class KeyBlock:
    """Rules over names of their own: those of inputs, and those of derived predicates, each with its key column.

    A block without keys is solved by one task, which reads everything."""

    rules: list[Rule] = field(default_factory=list)
    homes: dict[str, int | None] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    inputs: dict[Input, str] = field(default_factory=dict)

    def add(self, rules: Iterable[Rule], homes: dict[str, int | None]) -> None:
        """Add the rules of a component, whose predicates have these keys."""
        self.homes |= homes
        for name in homes:
            self.names[name] = f"d{len(self.names)}"
        self.rules += [self._renamed(rule) for rule in rules]

    @property
    def shared(self) -> set[str]:
        """The predicates of which each task reads all facts."""
        return {one.predicate for one in self.inputs if one.key is None}

    def _renamed(self, rule: Rule) -> Rule:
        home = self.homes[rule.head.predicate]
        key = None if home is None else rule.head.arguments[home]
        times: Counter[Term] = Counter(variables(rule))

        def atom(given: Atom) -> Atom:
            if given.predicate in self.names:
                return replace(given, predicate=self.names[given.predicate])
            asked = tuple(column for column, term in enumerate(given.arguments) if times.get(term, 2) > 1)
            read = Input(given.predicate, asked, _column_of(key, given))
            name = self.inputs.setdefault(read, f"i{len(self.inputs)}")
            return Atom(name, tuple(given.arguments[column] for column in asked))

        def item(given: BodyItem) -> BodyItem:
            match given:
                case Atom():
                    return atom(given)
                case Negation(atom=negated):
                    return Negation(atom(negated))
                case Comparison():
                    return given

        return Rule(atom(rule.head), tuple(map(item, rule.body)))


def _column_of(key: Term | None, atom: Atom) -> int | None:
    """The first column in which an atom has a key."""
    return atom.arguments.index(key) if key is not None and key in atom.arguments else None


# ── choosing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


Candidate = tuple[Collection[str], Sequence[Rule]]
"""The predicates of a component, and its rules."""


def whole_block(candidates: Iterable[Candidate], count: Count) -> KeyBlock:
    """A block without keys of all candidates, each after those that it reads."""
    block, growing = KeyBlock(), _Growing(count)
    for names, rules in candidates:
        live = growing.live(names, rules)
        block.add(live, dict.fromkeys(_in_rules(names, live)))
    return block


def key_block(
    candidates: Sequence[Candidate], count: Count, most: int, others: Collection[str] = ()
) -> tuple[KeyBlock, list[int]]:
    """The candidates, each after those that it reads, that tasks can solve together, and their places.

    At most so many facts may be shared. Candidates of other predicates are left out, and all that need them."""
    block, growing = KeyBlock(), _Growing(count)
    chosen: list[int] = []
    left_out = set(others)
    for place, (names, rules) in enumerate(candidates):
        live = growing.live(names, rules)
        needed = {atom.predicate for rule in rules for atom in body_atoms(rule)}
        homes = None if left_out & {*needed, *names} else _homes(block, names, live, count, most)
        if homes is None:
            left_out.update(names)
            continue
        block.add(live, homes)
        chosen.append(place)
    return block, chosen


class _Growing:
    """Which predicates have facts, or will have some."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self._derived: set[str] = set()

    def live(self, names: Collection[str], rules: Iterable[Rule]) -> list[Rule]:
        """The rules of a component that can match."""
        found = [rule for rule in rules if all(self._may_hold(atom.predicate, names) for atom in _positives(rule))]
        self._derived |= {rule.head.predicate for rule in found}
        return found

    def _may_hold(self, predicate: str, own: Collection[str]) -> bool:
        return predicate in own or predicate in self._derived or self._count(predicate) > 0


def _positives(rule: Rule) -> Iterator[Atom]:
    return (item for item in rule.body if isinstance(item, Atom))


def _homes(
    block: KeyBlock, names: Collection[str], rules: Sequence[Rule], count: Count, most: int
) -> dict[str, int | None] | None:
    """The key columns of predicates for which the block shares the fewest facts; None if there are none."""
    arities = _in_rules(names, rules)
    derived = sorted(arities)
    least: tuple[int, dict[str, int | None]] | None = None
    for columns in choices_of_columns([arities[name] for name in derived]):
        own: dict[str, int | None] = dict(zip(derived, columns, strict=True))
        shared = _shared(rules, block.homes | own)
        if shared is not None:
            size = sum(map(count, shared | block.shared))
            if size <= most and (least is None or size < least[0]):
                least = size, own
    return None if least is None else least[1]


def _in_rules(names: Collection[str], rules: Iterable[Rule]) -> dict[str, int]:
    """Those of some predicates that rules derive or read, with their arities."""
    atoms = (atom for rule in rules for atom in (rule.head, *body_atoms(rule)))
    return {atom.predicate: atom.arity for atom in atoms if atom.predicate in names}


def _shared(rules: Iterable[Rule], homes: dict[str, int | None]) -> set[str] | None:
    """The predicates that rules need all facts of; None if a rule does not keep to its key."""
    found: set[str] = set()
    for rule in rules:
        home = homes[rule.head.predicate]
        key = None if home is None else rule.head.arguments[home]
        if not isinstance(key, Variable):
            return None
        dealt = 0
        for atom in body_atoms(rule):
            own = homes.get(atom.predicate)
            if atom.predicate in homes and (own is None or atom.arguments[own] != key):
                return None
            if key in atom.arguments:
                dealt += 1
            else:
                found.add(atom.predicate)
        if not dealt:
            return None
    return found
