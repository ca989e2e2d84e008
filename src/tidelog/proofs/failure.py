"""Why a fact does not hold: the rule that came closest, what its body lacks, and what that lacks in turn.

Each rule that could derive the fact is tried (`attempts`). An atom of its body that nothing matches is a question of
the same kind, unless no rule derives its predicate: then a fact is missing. The way with the fewest missing facts is
the nearest; of equal ones that with the fewest rules, and then that with the most parts that hold. A question within
itself is not asked again, no way goes through more than `DEEPEST` rules, and all attempts share an allowance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tidelog.language import display_predicate
from tidelog.language.checks import Spellings, unknown_predicate
from tidelog.language.names import is_checked_once
from tidelog.language.syntax import Atom, own_lattices, variables
from tidelog.program.plan import Absent, Compare, Define, Match, Step, Take
from tidelog.proofs.attempts import Attempt, Attempts, Grounds
from tidelog.proofs.wording import Wording

# Rules that one way to a fact goes through, one below the other.
DEEPEST = 5
MOST_RULES_TRIED = 60
MOST_OTHERS = 3
MOST_LISTED = 8

# What parts cost, where a missing fact costs 1: a question that was not followed to its end, a comparison that is not
# so, which no added fact can mend, and a fact whose rules need itself.
CUT, HOPELESS, CIRCULAR = 100, 1000, 10_000

LEGEND = "(✓ holds   ✗ does not hold   ? cannot be told: it depends on what does not hold)"


class WhyNot(str):
    """What a fact lacks, in words. `missing` are the facts that the nearest way lacks, with variables where any value
    would do, and `in_the_way` those that a negated atom forbids.
    """

    missing: tuple[str, ...]
    in_the_way: tuple[str, ...]

    @classmethod
    def of(cls, text: str, missing: Iterable[str] = (), in_the_way: Iterable[str] = ()) -> WhyNot:
        made = cls(text)
        made.missing, made.in_the_way = tuple(dict.fromkeys(missing)), tuple(dict.fromkeys(in_the_way))
        return made


@dataclass(slots=True)
class Part:
    """A part of a body: its sign, its text, and the nearest way to it if it is a fact that a rule could derive."""

    sign: str
    text: str
    cost: int = 0
    below: Way | None = None
    missing: tuple[str, ...] = ()
    in_the_way: tuple[str, ...] = ()


@dataclass(slots=True)
class Way:
    """A rule that could derive a fact, and the parts of its body."""

    attempt: Attempt
    parts: list[Part]

    @property
    def rank(self) -> tuple[int, int, int]:
        """Nearer ways have lower ranks."""
        held = sum(part.sign == "✓" for part in self.parts)
        return sum(part.cost for part in self.parts), self.height, -held

    @property
    def height(self) -> int:
        """How many rules it goes through."""
        return 1 + max((part.below.height for part in self.parts if part.below is not None), default=0)

    def missing(self) -> list[str]:
        return [fact for part in self.leaves() for fact in part.missing]

    def in_the_way(self) -> list[str]:
        return [fact for part in self.leaves() for fact in part.in_the_way]

    def leaves(self) -> Iterator[Part]:
        """The parts that nothing lies below."""
        for part in self.parts:
            if part.below is None:
                yield part
            else:
                yield from part.below.leaves()


@dataclass(slots=True)
class Inquest:
    """Looks for what one fact lacks."""

    grounds: Grounds
    wording: Wording
    _attempts: Attempts = field(init=False)
    _tried: int = 0

    def __post_init__(self) -> None:
        self._attempts = Attempts(self.grounds)

    def report(self, fact: Atom, is_known: bool, arities: Mapping[str, int]) -> WhyNot:
        """What the fact lacks. `is_known` tells whether its predicate is; `arities` are those of the known ones."""
        text, prefixes = self.wording.text(fact), self.wording.prefixes
        name = display_predicate(fact.predicate, prefixes)
        if not is_known:
            meant = Spellings(arities).closest(fact.predicate)
            unknown = unknown_predicate(fact.predicate, fact.arity, meant, prefixes)
            return WhyNot.of(f"{text} does not hold: {unknown}", [text])
        if not self.grounds.producers(fact.predicate):
            return WhyNot.of(f"{text} does not hold: it is not explicit, and there is no rule for `{name}`.", [text])
        outdone = self.grounds.outdone_by(fact)
        if outdone is not None:
            better = self.wording.fact(fact.predicate, outdone)
            kept = f"keeps the best value of each group, and {better} is better"
            if own_lattices(map(self.grounds.rule, self.grounds.producers(fact.predicate))):
                kept = f"joins the values of each group, which gives {better}"
            return WhyNot.of(f"{text} does not hold: `{name}` {kept}.")
        ways = self._ways(fact, ())
        if not ways:
            return WhyNot.of(
                f"{text} does not hold: it is not explicit, and no rule for `{name}` has a head that fits."
            )
        missing, in_the_way = ways[0].missing(), ways[0].in_the_way()
        lines = [f"{text} does not hold. The rule that came closest:", *self._lines(ways[0], "  ")]
        lines += _listed("Missing", missing)
        lines += _listed("In the way", in_the_way)
        lines += self._others(ways[1:])
        return WhyNot.of("\n".join([*lines, LEGEND]), missing, in_the_way)

    # --- ways ---------------------------------------------------------------------------------------------------------

    def _ways(self, goal: Atom, above: tuple[Atom, ...]) -> list[Way]:
        """The ways to a fact that matches the goal, the nearest first. `above` are the goals that it serves."""
        attempts: list[Attempt] = []
        for number in self.grounds.producers(goal.predicate):
            if self._tried < MOST_RULES_TRIED and not self.grounds.exhausted:
                self._tried += 1
                attempts += self._attempts.attempts(number, goal)
        ways: list[Way] = []
        attempts.sort(key=lambda attempt: (len(attempt.failed), -len(attempt.held)))
        for attempt in attempts:
            # Each part that failed lacks one fact at least. A way that cannot be nearer is not followed; for the fact
            # itself, one that may be as near is.
            best = min((way.rank[0] for way in ways), default=CIRCULAR)
            follow = len(attempt.failed) < best + (not above)
            ways.append(Way(attempt, list(self._parts(attempt, (*above, goal), follow))))
        return sorted(ways, key=lambda way: way.rank)

    def _parts(self, attempt: Attempt, above: tuple[Atom, ...], follow: bool) -> Iterator[Part]:
        for step in attempt.held:
            yield Part("✓", self._said(step, attempt))
        for step in attempt.failed:
            part = self._failed(step, attempt, above, follow)
            if part.below is not None and is_checked_once(part.below.attempt.rule.head.predicate):
                yield from part.below.parts
            else:
                yield part
        for step in attempt.open:
            yield Part("?", self._said(step, attempt))
        if not attempt.failed and not attempt.open:
            yield Part("✗", self._other_value(attempt), HOPELESS)

    def _failed(self, step: Step, attempt: Attempt, above: tuple[Atom, ...], follow: bool) -> Part:
        said = self._said(step, attempt)
        match step:
            case Take(atom=atom) | Match(atom=atom):
                return self._missing(self.wording.atom(atom, attempt.binding), said, above, follow)
            case Absent(atom=atom):
                witness = self._witness(self.wording.atom(atom, attempt.binding))
                return Part("✗", f"{said}  but {witness} holds", 1, in_the_way=(witness,))
            case Define(binds=True):
                return Part("✗", f"{said}  has no value", HOPELESS)
        return Part("✗", f"{said}  is not so", HOPELESS)

    def _missing(self, goal: Atom, said: str, above: tuple[Atom, ...], follow: bool) -> Part:
        """An atom that no fact matches: a missing fact, or a question of its own."""
        text = f"{said}  no fact matches"
        if self.grounds.matches(goal):
            return Part("✗", f"{said}  does not hold together with the rest", HOPELESS)
        if not self.grounds.producers(goal.predicate):
            return Part("✗", text, 1, missing=(said,))
        if goal in above:
            return Part("✗", f"{text}, as above", CIRCULAR)
        ways = self._ways(goal, above) if follow and len(above) < DEEPEST and _asks_once(goal) else []
        if not ways:
            return Part("✗", text, CUT, missing=(said,))
        cost = ways[0].rank[0]
        if cost >= CIRCULAR:
            return Part("✗", f"{text}; its rules lead in a circle", CIRCULAR)
        return Part("✗", text, cost, ways[0])

    # --- words --------------------------------------------------------------------------------------------------------

    def _lines(self, way: Way, indent: str) -> Iterator[str]:
        yield f"{indent}{self.wording.text(way.attempt.rule.source)}"
        for part in way.parts:
            yield f"{indent}  {part.sign} {part.text}{'; the rule that came closest:' if part.below else ''}"
            if part.below is not None:
                yield from self._lines(part.below, f"{indent}      ")

    def _others(self, ways: list[Way]) -> Iterator[str]:
        """Other ways, the nearest first, with what they lack."""
        if ways:
            yield "Other ways, the nearest first:"
        for way in ways[:MOST_OTHERS]:
            yield f"  {self.wording.text(way.attempt.rule.source)}"
            yield from (f"    ✗ {part.text}" for part in way.parts if part.sign == "✗")
            if way.height > 1:
                lacks = (*_listed("Missing", way.missing()), *_listed("In the way", way.in_the_way()))
                yield from (f"    {line}" for line in lacks)
        if len(ways) > MOST_OTHERS:
            yield f"  … {len(ways) - MOST_OTHERS:,} more"

    def _said(self, step: Step, attempt: Attempt) -> str:
        wording, binding = self.wording, attempt.binding
        match step:
            case Take(atom=atom) | Match(atom=atom):
                return wording.text(wording.atom(atom, binding))
            case Absent(atom=atom):
                return f"not {wording.text(wording.atom(atom, binding))}"
            case Compare(comparison=comparison):
                return wording.comparison(comparison, binding)
            case Define(definition=definition):
                return wording.definition(definition.variable, definition.expression, binding)

    def _witness(self, pattern: Atom) -> str:
        """A fact that matches a negated atom."""
        return self.wording.fact(pattern.predicate, self.grounds.least_fact(pattern))

    def _other_value(self, attempt: Attempt) -> str:
        """For an aggregate whose body matches: the value that its group has instead."""
        group = self.grounds.group(attempt.rule, attempt.binding)
        if group is None:
            return "the values of its group cannot be aggregated"
        return f"its group gives {self.wording.fact(attempt.rule.head.predicate, group)}"


def _asks_once(goal: Atom) -> bool:
    """Whether no unknown value is asked for twice: attempts do not compare unknown values of a head."""
    unknown = variables(goal)
    return len(unknown) == len(set(unknown))


def _listed(title: str, facts: list[str]) -> Iterator[str]:
    distinct = list(dict.fromkeys(facts))
    if distinct:
        more = f", … {len(distinct) - MOST_LISTED:,} more" if len(distinct) > MOST_LISTED else ""
        yield f"{title}: {', '.join(distinct[:MOST_LISTED])}{more}"
