"""One update as a paper's procedure goes through it: the door between the engine and `tidelog.papers`.

Before the update, and again before it is committed, all instances of the rules are found. Between these two states the
procedure runs on sets of its own, and has to end where the engine did. The papers' programs are positive. With
negation, a procedure runs once for each stratum: what lies below counts as explicit, and so does that no fact matches a
negated atom. A rule that comes or goes with the update is one more fact in the bodies of its instances.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from tidelog.engine.engine import Engine
from tidelog.engine.update.deltas import EncodedFacts
from tidelog.errors import TidelogError
from tidelog.facts.rule_instances import State, read_facts, read_state
from tidelog.language.syntax import Rule
from tidelog.papers.backward_forward import backward_forward
from tidelog.papers.delete_rederive import delete_rederive
from tidelog.papers.instances import Fact, Instance, Instances
from tidelog.papers.marking import marking
from tidelog.papers.trace import Trace
from tidelog.papers.update import PaperUpdate
from tidelog.program.stratification import reads_of

Item = TypeVar("Item")
Procedure = Callable[[PaperUpdate, Trace], set[Fact]]
PROCEDURES: Mapping[str, tuple[str, Procedure]] = {
    "dred": ("Delete/Rederive: Backward/Forward, section 3, DR1 to DR5", delete_rederive),
    "backward-forward": ("Backward/Forward, Algorithms 1 to 3", backward_forward),
}
MARKING = "Backward/Forward with Marking, Algorithm 1"


def check_trace(trace: str, maintenance: str) -> None:
    """Refuse what no procedure of a paper is there for."""
    if trace != "paper":
        raise TidelogError(f"`trace` is 'paper' or None, not {trace!r}")
    if maintenance not in PROCEDURES:
        known = " and ".join(f"`{name}`" for name in PROCEDURES)
        raise TidelogError(f"`trace` follows the papers' procedures for {known}, and has none for `{maintenance}`")


class PaperTracer:
    """Traces the updates of one knowledge base, and keeps what marks have left for the next update of a stream."""

    def __init__(self, engine: Engine, maintenance: str) -> None:
        self._engine = engine
        self._title, self._procedure = PROCEDURES[maintenance]
        self._marks = maintenance == "backward-forward"
        self.waiting: list[Fact] = []  # from the last update of a stream

    def begin(self) -> State:
        """The state before an update."""
        return read_state(self._engine)

    def end(self, before: State, streams: bool, ahead: EncodedFacts) -> Trace:
        """What the procedure does, with the engine in the state after the update. In a stream, `ahead` is what the next
        update deletes, as far as it has been seen.
        """
        after = read_state(self._engine)
        if not (streams and self._marks):
            self.waiting = []
            return self._traced(Trace(self._title), self._procedure, before, after)
        deleted_next = [fact for fact in read_facts(self._engine, ahead) if fact in after.explicit]
        waiting, self.waiting = self.waiting, []

        def procedure(update: PaperUpdate, trace: Trace) -> set[Fact]:
            facts, left = marking(update, trace, waiting, deleted_next)
            self.waiting += left
            return facts

        return self._traced(Trace(MARKING), procedure, before, after)

    def _traced(self, trace: Trace, procedure: Procedure, before: State, after: State) -> Trace:
        levels = _levels((*before.instances, *after.instances))
        found = {fact for update in _strata(before, after, levels) for fact in procedure(update, trace)}
        known = after.facts()
        if any(fact not in found for fact in known) or any(fact.predicate in levels for fact in found - known.keys()):
            raise AssertionError(f"{trace.procedure}: ends in another materialisation than the engine")
        trace.work["checked"] = len(trace.sets.get("C", ()))
        trace.work["overdeleted"] = len(trace.sets.get("D", ()))
        return trace


def _levels(rules: Iterable[Rule]) -> dict[str, int]:
    """The stratum of each derived predicate; all others are in the first, 0."""
    rules = list(rules)
    levels = {rule.head.predicate: 0 for rule in rules}
    changed = True
    while changed:
        changed = False
        for rule in rules:
            reads = reads_of(rule)
            needed = [levels.get(name, 0) for name in reads.positive]
            needed += [levels.get(name, 0) + 1 for name in reads.strict]
            if max(needed, default=0) > levels[rule.head.predicate]:
                levels[rule.head.predicate] = max(needed)
                changed = True
    return levels


def _strata(before: State, after: State, levels: Mapping[str, int]) -> Iterator[PaperUpdate]:
    """The update as each stratum sees it, from below."""
    facts, wanted = before.facts(), after.facts()
    gone, come = _without(facts, wanted), _without(wanted, facts)
    # What else an instance may rest on, and what of it goes and comes.
    rules_gone, rules_come = _without(before.instances, after.instances), _without(after.instances, before.instances)
    lost = [*before.met_by(come), *map(_in_force, rules_gone)]
    won = [*after.met_by(gone), *map(_in_force, rules_come)]
    # A negated atom of a new instance may have held before, when no instance asked.
    held = [*before.negated, *_without(after.negated, won), *map(_in_force, rules_gone)]
    explicit_gone, explicit_come = _without(before.explicit, after.explicit), _without(after.explicit, before.explicit)
    for level in sorted({0, *levels.values()}):
        old, new = _instances(before, rules_gone, levels, level), _instances(after, rules_come, levels, level)

        def given(explicit: Iterable[Fact], known: Iterable[Fact], level: int = level) -> list[Fact]:
            """What a stratum is given: what is explicit in it, and all that lies below."""
            own = [fact for fact in explicit if levels.get(fact.predicate, 0) == level]
            return own + [fact for fact in known if levels.get(fact.predicate, 0) < level]

        explicit = {*given(before.explicit, facts), *(fact for fact in held if old.using(fact) or new.using(fact))}
        yield PaperUpdate(
            explicit=explicit,
            facts=explicit.union(fact for fact in facts if levels.get(fact.predicate, 0) == level),
            delete=(*given(explicit_gone, gone), *(fact for fact in lost if old.using(fact))),
            add=(*given(explicit_come, come), *(fact for fact in won if new.using(fact))),
            before=old,
            after=new,
        )


def _without(items: Iterable[Item], others: Container[Item]) -> list[Item]:
    return [item for item in items if item not in others]


def _instances(state: State, changed: Sequence[Rule], levels: Mapping[str, int], level: int) -> Instances:
    """The instances of a stratum; those of a rule that comes or goes rest on the rule, too."""
    found: list[Instance] = []
    for rule, instances in state.instances.items():
        if levels[rule.head.predicate] == level:
            force = (_in_force(rule),) if rule in changed else ()
            found += [replace(each, body=each.body + force) for each in instances] if force else instances
    return Instances(found)


def _in_force(rule: Rule) -> Fact:
    return Fact(str(rule))
