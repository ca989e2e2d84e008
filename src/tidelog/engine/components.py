"""The components of a program, compiled when they are first needed and kept for as long as their rules stay; and the
rules that an update removes and adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tidelog.engine.algorithms.aggregates import AggregateRule
from tidelog.engine.modules.closure_node import fed_name
from tidelog.engine.modules.closure_registry import Closures
from tidelog.engine.modules.plugin_registry import Plugins
from tidelog.engine.rules.compiled import CompiledRule, Node, normal_form
from tidelog.engine.rules.policy import Costs
from tidelog.engine.update.deltas import NO_RULE_CHANGE, RuleChange
from tidelog.errors import TidelogError
from tidelog.language.syntax import Atom, body_atoms
from tidelog.program.graph import Component, Impact, RuleGraph
from tidelog.store.relation import Relation
from tidelog.store.store import Store


class Nodes:
    """Compiled rules and components of a graph."""

    def __init__(self, store: Store, graph: RuleGraph, closures: Closures, plugins: Plugins) -> None:
        self._store = store
        self._graph = graph
        self._closures = closures
        self._plugins = plugins
        self._rules: dict[int, CompiledRule] = {}
        self._aggregates: dict[int, AggregateRule] = {}
        self._nodes: dict[str, tuple[Component, Node]] = {}  # by the first predicate
        self._own: dict[str, tuple[Component, frozenset[str]]] = {}  # by the first predicate
        self._learnt: dict[tuple[str, ...], Costs] = {}  # what `costs` gave, for components to be compiled again

    def relation(self, predicate: str) -> Relation:
        """The relation of a predicate that facts or rules mention."""
        found = self._store.find(predicate)
        return found if found is not None else self._store.relation(predicate, self._arity(predicate))

    def _arity(self, predicate: str) -> int:
        for rule in map(self._graph.rule, (*self._graph.producers(predicate), *self._graph.readers(predicate))):
            for atom in (rule.head, *body_atoms(rule)):
                if atom.predicate == predicate:
                    return atom.arity
        raise TidelogError(f"nothing is known of `{predicate}`")

    def rule(self, number: int) -> CompiledRule:
        """A rule, as part of the component that its head is in now. One that gives edges to a closure of its own
        recursion derives them into a relation for these.
        """
        source = self._graph.rule(number)
        component = self._graph.component(source.head.predicate)
        own, lattice = self._predicates_of(component), component.lattices.get(source.head.predicate)
        recursive = self._graph.recursive(number)
        fed = self._closures.feeds(number, source)
        head = source.head.predicate if fed is None else fed_name(source.head.predicate, fed.module)
        known = self._rules.get(number)
        unmoved = known is not None and known.own is own and known.head is self._store.find(head)
        if known is not None and unmoved and (known.recursive, known.lattice) == (recursive, lattice):
            return known
        normal, aggregate = normal_form(source, number, lattice is not None)
        if aggregate is not None and number not in self._aggregates:
            self._aggregates[number] = AggregateRule(self._store, number, aggregate)
        normal = replace(normal, head=Atom(head, normal.head.arguments))
        self._rules[number] = CompiledRule(self._store, number, normal, own, recursive, lattice)
        return self._rules[number]

    def _predicates_of(self, component: Component) -> frozenset[str]:
        """The predicates whose facts lie in records of a component: one set for all of its rules, and the same one for
        as long as the predicates stay the same.
        """
        first = component.predicates[0]
        known = self._own.get(first)
        if known is None or known[0] is not component:
            own = frozenset(name for name, _ in self._recorded(component))
            known = self._own[first] = component, known[1] if known is not None and known[1] == own else own
        return known[1]

    def _recorded(self, component: Component) -> list[tuple[str, int | None]]:
        """The relations of a component that hold records, each with its arity, where that is known: those of its
        predicates, and in the place of closures those of the edges that are derived for them.
        """
        closures = self._closures.of(component.predicates)
        if not any(closure.fed for closure in closures):
            return [(name, None) for name in component.predicates]
        closed = {name for closure in closures for name in closure.module.predicates}
        others: list[tuple[str, int | None]] = [(name, None) for name in component.predicates if name not in closed]
        return others + [(relation.name, 2) for closure in closures for relation, _ in closure.fed_members()]

    def aggregates_of(self, rules: Iterable[int]) -> Iterator[AggregateRule]:
        """The aggregates behind those of these rules that have some."""
        return (self._aggregates[number] for number in rules if number in self._aggregates)

    def node(self, predicate: str) -> Node:
        """The component of a predicate."""
        component = self._graph.component(predicate)
        known = self._nodes.get(component.predicates[0])
        plugged_in = self._plugins.of(component, self._graph)
        if known is not None and known[0] is component and known[1].plugged_in == plugged_in:
            return known[1]
        closures = [closure for closure in self._closures.of(component.predicates) if closure.fed]
        of_modules = {number for closure in closures for number in closure.rules}.union(
            *(part.rules for part in plugged_in)
        )
        rules = [self.rule(number) for number in component.rules if number not in of_modules]
        recorded = self._recorded(component)
        relations = [
            self.relation(name) if arity is None else self._store.relation(name, arity) for name, arity in recorded
        ]
        node = Node(self._store, tuple(name for name, _ in recorded), relations, rules)
        if closures or plugged_in:
            closed = tuple(closure.module.predicates for closure in closures)
            node.shape = (node.predicates, closed, tuple((part.plugin.name, part.rules) for part in plugged_in))
        node.plugged_in = plugged_in
        node.lattices = component.lattices
        node.aggregated = tuple(rule.number for rule in node.rules if self._reads_groups(rule))
        if known is not None and known[1].predicates == node.predicates:
            node.costs = known[1].costs  # of other rules, but still the best guess
        elif component.predicates in self._learnt:
            node.costs = self._learnt.pop(component.predicates)
        self._nodes[component.predicates[0]] = (component, node)
        return node

    def _reads_groups(self, rule: CompiledRule) -> bool:
        return rule.number in self._aggregates and rule.lattice is None

    def no_longer_grouped(self, node: Node) -> Iterator[AggregateRule]:
        """The aggregates that a component had before its values became part of a recursion."""
        return self.aggregates_of(rule.number for rule in node.rules if rule.lattice is not None)

    def forget_rules(self, numbers: Iterable[int]) -> None:
        """These rules are gone."""
        for number in numbers:
            self._rules.pop(number, None)
            self._aggregates.pop(number, None)

    def forget_plans(self, predicate: str) -> None:
        """The facts of a predicate have moved: compile what reads or derives it again, and itself if no rule does."""
        touched = (*self._graph.readers(predicate), *self._graph.producers(predicate))
        heads = tuple(dict.fromkeys((predicate, *(self._graph.rule(number).head.predicate for number in touched))))
        for number in touched:
            self._rules.pop(number, None)
        for aggregate in self.aggregates_of(touched):
            aggregate.forget_plans()
        for head in heads:
            first = self._graph.component(head).predicates[0]
            self._nodes.pop(first, None)
            self._own.pop(first, None)
        for closure in self._closures.of(heads):
            closure.base.forget_plans()

    def words(self) -> int:
        """The words of code that the plans of all rules take; those of aggregates, which are few, are left out."""
        return sum(rule.words for rule in self._rules.values())

    def forget_all_plans(self) -> None:
        """Make all plans anew when they are next needed."""
        for rule in self._rules.values():
            rule.forget_plans()
        for aggregate in self._aggregates.values():
            aggregate.forget_plans()
        for _, node in self._nodes.values():
            node.forget_plans()
        self._closures.forget_plans()

    def costs(self) -> dict[tuple[str, ...], Costs]:
        """A copy of what has been learnt about components."""
        return self._learnt | {component.predicates: replace(node.costs) for component, node in self._nodes.values()}

    def restore_costs(self, costs: dict[tuple[str, ...], Costs]) -> None:
        """What was learnt before, now that everything is to be compiled again."""
        self._learnt = costs

    def clear(self) -> None:
        """Numbers of rules and names of relations will mean something else from now on."""
        for known in (self._rules, self._aggregates, self._nodes, self._own):
            known.clear()


class RuleChanges:
    """What an update did to the rules; nothing, where it has facts alone."""

    def __init__(
        self,
        impact: Impact | None = None,
        removed: Mapping[int, CompiledRule] | None = None,
        removed_aggregates: Iterable[AggregateRule] = (),
        rearranged: tuple[str, ...] = (),
    ) -> None:
        """`rearranged` are predicates whose facts other modules keep from now on."""
        self._impact = impact
        self._rearranged = rearranged
        self.added = frozenset(impact.added if impact else ())
        # The predicates that may be derived otherwise now.
        self.heads = (*impact.heads, *rearranged) if impact else ()
        self.removed = removed or {}
        self.removed_aggregates = tuple(removed_aggregates)
        self._removed_by_head: dict[Relation, list[CompiledRule]] = {}
        for rule in self.removed.values():
            self._removed_by_head.setdefault(rule.head, []).append(rule)

    def __bool__(self) -> bool:
        return self._impact is not None

    def of_component(self, node: Node) -> RuleChange:
        """The rules that one component loses and gets."""
        if self._impact is None:
            return NO_RULE_CHANGE
        return RuleChange(
            tuple(rule for relation in node.relations for rule in self._removed_by_head.get(relation, ())),
            tuple(rule for rule in node.rules if rule.number in self.added),
        )

    def unread_heads(self) -> set[str]:
        """The predicates that lose a rule, and that no other removed rule reads: its component may come first now."""
        sources = [rule.normal.source for rule in self.removed.values()]
        read = ((rule.head.predicate, atom) for rule in sources for atom in body_atoms(rule))
        others = {atom.predicate for head, atom in read if atom.predicate != head}
        return {rule.head.predicate for rule in sources} - others

    def touched(self, graph: RuleGraph) -> Iterator[str]:
        """The heads of the rules that went and came, and of those that others keep now."""
        yield from self._rearranged
        yield from (rule.normal.source.head.predicate for rule in self.removed.values())
        yield from (graph.rule(number).head.predicate for number in self.added)

    def forget_plans(self) -> None:
        """What the removed rules read has moved."""
        for rule in self.removed.values():
            rule.forget_plans()

    def take_back(self, graph: RuleGraph) -> None:
        if self._impact is not None:
            graph.take_back(self._impact, {number: rule.normal.source for number, rule in self.removed.items()})


NO_RULE_CHANGES = RuleChanges()
