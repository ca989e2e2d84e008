"""The rule dependency graph, its hyper-nodes and components, maintained while rules come and go.

After ZodiacEdge (Xu and Curé), §2.1 and §4.2 (the graph), Algorithms 2 and 3 (its maintenance, and the hyper-nodes that
an update impacts directly) and Algorithm 4 (the execution plan). A rule depends on the rules that derive what its body
reads, *strictly* where it reads under negation or into an aggregate: what is read strictly must be complete first.

How to think about it: rules are not linked to rules, which would cost producers times consumers for each predicate, but
to predicates. Rules (by number) and predicates (by name) are the two kinds of nodes of one graph, in which a predicate
leads to the rules that read it, and a rule to the predicate that it derives. A walk from rule to rule in the paper's
graph is a walk here, and so is one from predicate to predicate. One set of strongly connected components therefore
gives both views:

- its rules are a *hyper-node* of the paper: `path :- edge` is one of its own beside the recursive `path :- edge, path`;
- its predicates are a *component*, the unit of evaluation, with every rule that derives one of them; those rules
  that lie in the same strongly connected component are its recursive ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from types import MappingProxyType

from tidelog.errors import StratificationError, UnknownRuleError
from tidelog.language.syntax import Rule
from tidelog.program.condensation import Condensation, Part
from tidelog.program.equality import Equality
from tidelog.program.lattices import IsMonotone, Lattice, lattices_of
from tidelog.program.stratification import Node, Reads, check_strata, reads_of

Edge = tuple[int, int]

# Of so many predicates at most, a graph keeps what depends on them.
MOST_KNOWN = 256


@dataclass(frozen=True, slots=True)
class HyperNode:
    """A strongly connected component of the rule dependency graph; its id is its least rule."""

    id: int
    rules: tuple[int, ...]
    predicates: tuple[str, ...]
    recursive: bool


@dataclass(frozen=True, slots=True)
class Component:
    """Predicates that depend on each other (mostly just one), and every rule that derives one of them."""

    predicates: tuple[str, ...]
    rules: tuple[int, ...]
    recursive_rules: tuple[int, ...]
    # The predicates that keep one value for each group, because a recursive rule of theirs aggregates.
    lattices: Mapping[str, Lattice] = field(default_factory=dict, hash=False)

    @property
    def recursive(self) -> bool:
        return bool(self.recursive_rules)


@dataclass(frozen=True, slots=True)
class Impact:
    """What an update did to the hyper-nodes.

    `vanished` and the keys of `split` are ids before it; `new`, `direct` and the keys of `merged` are ids after it.
    """

    added: tuple[int, ...]
    removed: tuple[int, ...]
    new: tuple[int, ...]
    vanished: tuple[int, ...]
    # To the earlier hyper-nodes that it took in; to itself alone where only new rules joined it.
    merged: Mapping[int, tuple[int, ...]]
    # To the hyper-nodes that it became; to one alone where it lost rules and still holds together.
    split: Mapping[int, tuple[int, ...]]
    # The paper's DIHN: those that gained, lost or exchanged rules, and readers of a hyper-node that is gone or split.
    direct: frozenset[int]
    # Rules that stayed, but entered or left a recursion.
    now_recursive: frozenset[int]
    no_longer_recursive: frozenset[int]
    # The heads of rules that came or went, and of the hyper-nodes in `direct`.
    heads: tuple[str, ...]


def _trusted(function: str) -> bool:
    return True


class RuleGraph:
    """The rules of a program, numbered from 1 in the order of their arrival, and what depends on what among them."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules: dict[int, Rule] = {}
        self._reads: dict[int, Reads] = {}
        self._graph: Condensation[Node] = Condensation()
        self.next_number = 1  # that of the next rule
        self._hyper_nodes: dict[Part[Node], HyperNode] = {}
        self._components: dict[Part[Node], Component] = {}
        self._dependents: dict[str, frozenset[str]] = {}
        self._equality: Equality | None = None
        # Whether a registered function is monotone. Where nobody knows what is registered, those of rules are trusted.
        self.monotone: IsMonotone = _trusted
        self.update(rules)

    # ── updates ──────────────────────────────────────────────────────────────────────────────────────────────────

    def update(self, add: Iterable[Rule] = (), remove: Iterable[int] = ()) -> Impact:
        """Remove rules by number (Algorithm 3), then add rules (Algorithm 2). `StratificationError`, and nothing done,
        where the result cannot be stratified.
        """
        added = dict(enumerate(add, start=self.next_number))
        removed = {number: self.rule(number) for number in remove}
        before = self._graph.start_record()
        self._detach(removed)
        self._attach(added)
        try:
            check_strata(self._graph, self._rules, self._reads, added, self.monotone)
        except StratificationError:
            self._exchange(added, removed)
            raise
        finally:
            self._forget_views(before, chain(added.values(), removed.values()))
        self.next_number += len(added)
        return self._impact(before, added, removed)

    def take_back(self, impact: Impact, removed: Mapping[int, Rule]) -> None:
        """Undo the last update: its rules go, and those that it removed return under their old numbers."""
        added = {number: self._rules[number] for number in impact.added}
        before = self._graph.start_record()
        self._exchange(added, removed)
        self.next_number -= len(added)
        self._forget_views(before, chain(added.values(), removed.values()))

    def _exchange(self, gone: Mapping[int, Rule], come: Mapping[int, Rule]) -> None:
        """Put rules that were there before in place of others; rules stay in the order of their numbers."""
        self._detach(gone)
        self._attach(come)
        if come:
            self._rules = dict(sorted(self._rules.items()))

    def copy(self) -> RuleGraph:
        """A graph of the same rules under the same numbers, to try an update on."""
        graph = RuleGraph.of_numbered(self._rules, self.next_number)
        graph.monotone = self.monotone
        return graph

    @classmethod
    def of_numbered(cls, rules: Mapping[int, Rule], next_number: int) -> RuleGraph:
        """A graph of rules that have numbers already, and can be stratified; the next rule gets `next_number`."""
        graph = cls()
        graph._attach(rules)
        graph.next_number = next_number
        return graph

    def check_strata(self) -> None:
        """Refuse rules that cannot be stratified."""
        check_strata(self._graph, self._rules, self._reads, self._rules, self.monotone)

    def _attach(self, rules: Mapping[int, Rule]) -> None:
        nodes: dict[Node, tuple[Collection[Node], Collection[Node]]] = {}
        for number, rule in rules.items():
            reads = reads_of(rule)
            self._rules[number] = rule
            self._reads[number] = reads
            if rule.written.is_equality:
                self._equality = Equality(rule.written)
            nodes[number] = (dict.fromkeys(reads.positive + reads.strict), (rule.head.predicate,))
        self._graph.insert(nodes)

    def _detach(self, rules: Mapping[int, Rule]) -> None:
        self._graph.remove(rules)
        mentioned: dict[str, None] = {}
        for number, rule in rules.items():
            reads = self._reads.pop(number)
            del self._rules[number]
            if rule.written.is_equality:
                self._equality = None
            mentioned.update(dict.fromkeys((rule.head.predicate, *reads.positive, *reads.strict)))
        self._graph.remove([name for name in mentioned if not self.readers(name) and not self.producers(name)])

    def _forget_views(self, before: Iterable[Part[Node]], rules: Iterable[Rule]) -> None:
        """Drop the views of what changed: the components recorded, and those of the heads of the rules."""
        heads = {rule.head.predicate for rule in rules}
        for part in chain(before, (self._graph.part(name) for name in heads if name in self._graph)):
            self._hyper_nodes.pop(part, None)
            self._components.pop(part, None)
        self._dependents = {}  # Another one: a thread that looks at the rules of before may still fill the last one.

    # ── rules and predicates ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def equality(self) -> Equality | None:
        """The equality of the program, if it has one: `program.equality` has made its rules."""
        return self._equality

    @property
    def rules(self) -> Mapping[int, Rule]:
        return MappingProxyType(self._rules)

    def rule(self, number: int) -> Rule:
        try:
            return self._rules[number]
        except KeyError:
            raise UnknownRuleError(f"there is no rule number {number} in the program") from None

    def reads(self, number: int) -> Reads:
        """The predicates in the body of a rule."""
        return self._reads[number]

    def readers(self, predicate: str) -> Collection[int]:
        """The rules whose bodies mention a predicate."""
        return self._graph.successors(predicate) if predicate in self._graph else ()  # type: ignore[return-value]

    def producers(self, predicate: str) -> Collection[int]:
        """The rules whose heads are of a predicate."""
        return self._graph.predecessors(predicate) if predicate in self._graph else ()  # type: ignore[return-value]

    @property
    def predicates(self) -> Iterator[str]:
        """Every predicate that a rule mentions."""
        return (node for node in self._graph if isinstance(node, str))

    # ── components, the view that evaluation takes ───────────────────────────────────────────────────────────────

    def component(self, predicate: str) -> Component:
        """The component of a predicate; one that no rule mentions stands alone, without rules."""
        if predicate not in self._graph:
            return Component((predicate,), (), ())
        part = self._graph.part(predicate)
        if part not in self._components:
            predicates = tuple(sorted(node for node in part.members if isinstance(node, str)))
            rules = sorted(chain.from_iterable(map(self.producers, predicates)))
            recursive = tuple(number for number in rules if number in part.members)
            lattices = lattices_of(map(self.rule, recursive))
            self._components[part] = Component(predicates, tuple(rules), recursive, lattices)
        return self._components[part]

    def position(self, predicate: str) -> int:
        """A number smaller than those of the other components that read this one, and equal within a component.

        Numbers change with updates; between two updates they order work, for instance as the keys of a heap.
        """
        return self._graph.part(predicate).position

    def recursive(self, number: int) -> bool:
        """Whether a rule takes part in a recursion: whether its body reads the component that its head is in."""
        return len(self._graph.part(number).members) > 1

    def dependents(self, predicate: str) -> frozenset[str]:
        """A predicate, and all whose facts may change where its facts do."""
        known = self._dependents
        if predicate not in known:
            if len(known) >= MOST_KNOWN:
                known.clear()
            found: set[str] = set()
            waiting = [predicate]
            while waiting:
                component = self.component(waiting.pop()).predicates
                if found.isdisjoint(component):
                    found.update(component)
                    readers = (number for name in component for number in self.readers(name))
                    waiting += (self.rule(number).head.predicate for number in readers)
            known[predicate] = frozenset(found)
        return known[predicate]

    def components_in_order(self, touched: Iterable[str] | None = None) -> list[Component]:
        """The components that have rules, each after those that it reads; with `touched`, only those it reaches."""
        nodes = self._graph if touched is None else (name for name in touched if name in self._graph)
        components = (self.component(name) for name in self._in_order(nodes, str) if isinstance(name, str))
        return [component for component in components if component.rules]

    # ── hyper-nodes, the view of the paper ───────────────────────────────────────────────────────────────────────

    def hyper_node(self, number: int) -> HyperNode:
        """The hyper-node of a rule; the id of a hyper-node works too, since it is one of its rules."""
        self.rule(number)
        part = self._graph.part(number)
        if part not in self._hyper_nodes:
            rules = sorted(node for node in part.members if isinstance(node, int))
            heads = sorted({self._rules[number].head.predicate for number in rules})
            self._hyper_nodes[part] = HyperNode(rules[0], tuple(rules), tuple(heads), len(part.members) > 1)
        return self._hyper_nodes[part]

    @property
    def hyper_nodes(self) -> list[HyperNode]:
        """Every hyper-node, each after those that it depends on."""
        return self.execution_plan(self._rules)

    def execution_plan(self, direct: Iterable[int]) -> list[HyperNode]:
        """The hyper-nodes that these reach, themselves included, in the order of evaluation (Algorithm 4)."""
        return [self.hyper_node(rule) for rule in self._in_order(direct, int) if isinstance(rule, int)]

    def hyper_edges(self) -> tuple[dict[Edge, set[str]], dict[Edge, set[str]]]:
        """HE_p and HE_n of the hyper rule dependency graph, each edge with the predicates that are read along it."""
        positive: dict[Edge, set[str]] = {}
        strict: dict[Edge, set[str]] = {}
        for number, reads in self._reads.items():
            target = self.hyper_node(number).id
            for edges, names in ((positive, reads.positive), (strict, reads.strict)):
                for name in names:
                    for source in {self.hyper_node(producer).id for producer in self.producers(name)} - {target}:
                        edges.setdefault((source, target), set()).add(name)
        return positive, strict

    def _in_order(self, nodes: Iterable[Node], kind: type) -> Iterator[Node]:
        """One node of this kind of each part that the nodes lead to, in topological order; some parts have none."""
        for part in sorted(self._graph.reachable(nodes), key=lambda part: part.position):
            yield from islice((node for node in part.members if isinstance(node, kind)), 1)

    # ── impact ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _impact(
        self, before: Mapping[Part[Node], tuple[Node, ...]], added: Mapping[int, Rule], removed: Mapping[int, Rule]
    ) -> Impact:
        """Compare the components recorded before an update with what became of their rules (lines 9-15 of Algorithm 2,
        8-18 of Algorithm 3, whose loop is over the hyper-nodes that lost rules).
        """
        vanished: list[int] = []
        split: dict[int, tuple[int, ...]] = {}
        grown = {self.hyper_node(number).id for number in added}
        origins: dict[int, list[int]] = {id: [] for id in grown}
        displaced: list[str] = []
        was_recursive: dict[int, bool] = {}
        for members in before.values():
            rules = sorted(node for node in members if isinstance(node, int))
            if not rules:
                continue
            kept = [number for number in rules if number not in removed]
            was_recursive.update(dict.fromkeys(kept, len(members) > 1))
            pieces = sorted({self.hyper_node(number).id for number in kept})
            for piece in pieces:
                origins.setdefault(piece, []).append(rules[0])
            if not pieces:
                vanished.append(rules[0])
            elif len(kept) < len(rules) or len(pieces) > 1:
                split[rules[0]] = tuple(pieces)
            if len(pieces) != 1:
                displaced.extend((removed.get(number) or self._rules[number]).head.predicate for number in rules)
        readers = (number for predicate in displaced for number in self.readers(predicate))
        direct = frozenset(origins).union(self.hyper_node(number).id for number in readers)
        changed = (rule.head.predicate for rule in chain(added.values(), removed.values()))
        heads = dict.fromkeys(chain(changed, *(self.hyper_node(id).predicates for id in direct)))
        return Impact(
            added=tuple(added),
            removed=tuple(removed),
            new=tuple(sorted(id for id, sources in origins.items() if not sources)),
            vanished=tuple(sorted(vanished)),
            merged={id: tuple(sorted(old)) for id, old in origins.items() if old and (len(old) > 1 or id in grown)},
            split=split,
            direct=direct,
            now_recursive=frozenset(n for n, old in was_recursive.items() if not old and self.recursive(n)),
            no_longer_recursive=frozenset(n for n, old in was_recursive.items() if old and not self.recursive(n)),
            heads=tuple(heads),
        )
