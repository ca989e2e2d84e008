"""An audit of a knowledge base: all that must hold between two updates, down to flags, tables, chains and counters.

`audit` holds the arrays against each other and against the oracle; `fingerprint` is all that an update may change, so
that a failed update can be shown to have changed nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from naive import Database, Fact, Update, database, derivations, materialise, offering, without_empty
from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.closures.closed_graph import watch_nothing
from tidelog.closures.closure import ReadableClosure
from tidelog.engine.engine import Engine
from tidelog.engine.modules.closure_node import ClosureNode, fed_name
from tidelog.engine.rules.compiled import normal_form
from tidelog.engine.rules.policy import AT_LEVEL, NO_COUNTER, Counted
from tidelog.facts.results import row_identity
from tidelog.language.syntax import Aggregate, Constant, Rule, body_atoms
from tidelog.live.knowledge import Knowledge
from tidelog.machine import counters as counting
from tidelog.machine import flags as F
from tidelog.machine import index_fields as X
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine.jit import address
from tidelog.program.catalogue import numbers_by_key
from tidelog.program.graph import Component, RuleGraph
from tidelog.program.modules import Module, recognise_modules
from tidelog.program.plan import Plan, make_plan
from tidelog.store.indexes import Index
from tidelog.store.relation import Relation

Counts = dict[tuple[Constant, ...], tuple[int, int]]


# Everything that an update may change


def fingerprint(kb: KnowledgeBase) -> dict[str, Any]:
    """I, E and counters, rules under their numbers, prefixes, arities: whatever does not depend on how it is stored."""
    engine = kb._engine
    predicates = [relation for relation in _lasting(engine) if not relation.name.startswith("#") and len(relation)]
    return {
        "facts": {relation.name: _rows(engine, relation) for relation in predicates},
        "explicit": {relation.name: set(map(row_identity, kb.explicit(relation.name))) for relation in predicates},
        "counters": {r.name: _counts(engine, r) for r in predicates if _has_live_counters(engine, r)},
        "rules": {number: str(rule) for number, rule in engine.graph.rules.items()},
        "next rule": engine.graph.next_number,
        "prefixes": dict(kb.prefixes),
        "arities": dict(kb._catalogue.arities),
        "errors": kb._knowledge.failures.seen,
        "keys": dict(kb._catalogue.rule_numbers),
    }


def _lasting(engine: Engine) -> Iterator[Relation]:
    return (relation for name, relation in engine.store.named().items() if not name.startswith("#touched"))


def _rows(engine: Engine, relation: Relation) -> set[object]:
    return {row_identity(map(engine.store.terms.table.decode, map(int, row))) for row in relation.rows()}


def is_closure(engine: Engine, relation: Relation) -> bool:
    return engine.store.is_closure(relation.name)


# The audit


def audit(kb: KnowledgeBase, oracle: bool = True, may_be_opened: bool = False) -> None:
    """Raise `AssertionError` at the first thing that is not as it must be between two updates. A knowledge base that
    was opened does not know which closures had met values that they cannot take.
    """
    engine = kb._engine
    assert engine.store.machine[M.LOG_COUNT] == 0, "the undo log is not empty"
    assert engine.store.machine[M.REQUEST_COUNT] == 0, "function calls wait"
    for relation in engine.store.relations:
        _audit_arrays(relation)
        _audit_table(engine, relation)
        for index in relation.indexes:
            _audit_index(relation, index)
    for relation in _lasting(engine):
        if not is_closure(engine, relation):
            _audit_flags(engine, relation)
    _audit_graph(engine.graph)
    _audit_modules(engine, may_be_opened)
    _audit_plans(engine)
    _audit_names(kb)
    if oracle:
        _audit_facts(kb)
        _audit_counters(kb)
        _audit_ranks(kb)
        _audit_trace(kb)


def check_refused(kb: KnowledgeBase, update: Update, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update that fails at its very end leaves everything as it was."""
    before = fingerprint(kb)
    with monkeypatch.context() as patch:
        patch.setattr(Knowledge, "_change", _refuse)
        with pytest.raises(RuntimeError, match="refused"):
            kb.update(**update.mapping())  # type: ignore[arg-type]
    assert fingerprint(kb) == before
    audit(kb)


def _refuse(*_: object) -> None:
    raise RuntimeError("refused")


def _audit_arrays(relation: Relation) -> None:
    fields = relation.fields
    assert fields[R.CELLS] == address(relation.cells), relation.name
    assert fields[R.CAPACITY] == len(relation.cells), relation.name
    assert fields[R.KEYS] == address(relation.table.keys), relation.name
    assert fields[R.FACTS] == address(relation.table.facts), relation.name
    assert 0 <= fields[R.COUNT] <= len(relation.cells), relation.name
    assert fields[R.QUEUE_COUNT] == fields[R.BATCH_COUNT] == 0, f"facts wait in {relation.name}"
    assert all(index.fields[X.SLOTS] == address(index.slots) for index in relation.indexes), relation.name


def _audit_flags(engine: Engine, relation: Relation) -> None:
    records = relation.cells[: relation.count]
    flags = records[:, relation.flags_column]
    assert not (flags & ~F.PERSISTENT).any(), f"{relation.name}: flags of an update in work"
    assert (((flags & F.IN) != 0) == ((flags & F.OLD) != 0)).all(), f"{relation.name}: in I, but not as of before"
    dead = (flags & F.IN) == 0
    if relation.name not in engine.graph.component(relation.name).lattices:
        assert not (flags[dead] & F.EXPLICIT).any(), f"{relation.name}: explicit, but not in I"
    assert not (relation.clean and dead.any()), f"{relation.name}: clean, with a dead fact"
    assert relation.explicit_count == np.count_nonzero(flags & F.EXPLICIT), f"{relation.name}: count of explicit facts"
    if _has_live_counters(engine, relation):
        kept = 1 if _keeps_ranks(engine, relation) else 2
        counters = records[:, list(relation.counter_columns[:kept])]
        assert not counters[dead].any(), f"{relation.name}: a dead fact has derivations"
        assert (counters >= 0).all(), f"{relation.name}: a negative count"


def _audit_table(engine: Engine, relation: Relation) -> None:
    rows = np.ascontiguousarray(relation.cells[: relation.count, : relation.arity])
    assert (engine.store.find_facts(relation, rows) == np.arange(relation.count)).all(), f"{relation.name}: hash table"
    assert np.count_nonzero(relation.table.keys != R.EMPTY) == relation.count, f"{relation.name}: keys without facts"


def _audit_index(relation: Relation, index: Index) -> None:
    """Every record is in exactly one chain, among records with the same key, and each key has one chain."""
    link = relation.first_link_column + list(relation.indexes).index(index)
    columns = list(index.columns)
    seen: set[int] = set()
    keys: set[tuple[int, ...]] = set()
    for fact in index.slots[index.slots != R.EMPTY].tolist():
        key = tuple(relation.cells[fact, columns].tolist())
        assert key not in keys, f"{relation.name}{columns}: two chains of one key"
        keys.add(key)
        while fact != R.EMPTY:
            assert tuple(relation.cells[fact, columns].tolist()) == key, f"{relation.name}{columns}: a foreign fact"
            assert fact not in seen, f"{relation.name}{columns}: a fact twice"
            seen.add(fact)
            fact = int(relation.cells[fact, link])
    assert len(seen) == relation.count, f"{relation.name}{columns}: facts are missing"
    assert index.fields[X.USED] == len(keys), f"{relation.name}{columns}: count of keys"


def _audit_graph(graph: RuleGraph) -> None:
    fresh = RuleGraph.of_numbered(graph.rules, graph.next_number)
    assert set(graph.predicates) == set(fresh.predicates)
    assert {graph.component(name) for name in graph.predicates} == {fresh.component(name) for name in fresh.predicates}
    assert set(graph.hyper_nodes) == set(fresh.hyper_nodes)
    assert graph.hyper_edges() == fresh.hyper_edges()
    for name in graph.predicates:
        assert set(graph.readers(name)) == set(fresh.readers(name)), name
        assert set(graph.producers(name)) == set(fresh.producers(name)), name
    for number in graph.rules:
        place = graph.position(graph.rule(number).head.predicate)
        reads = graph.reads(number)
        assert reads == fresh.reads(number)
        assert all(graph.position(name) <= place for name in reads.positive), "the order of components"
        component = graph.component(graph.rule(number).head.predicate)
        own = component.predicates if component.lattices else ()
        strict = [name for name in reads.strict if name not in own]
        assert all(graph.position(name) < place for name in strict), "the order of strata"


def _audit_modules(engine: Engine, may_be_opened: bool) -> None:
    """The closures are those that the rules define, with the right rules, and with the pairs that their edges yield."""
    closures = engine.closures
    known: list[ClosureNode] = []
    for component in {engine.graph.component(name) for name in engine.graph.predicates}:
        for module in recognise_modules(component, engine.graph.rules):
            node = closures.get(module.predicate)
            if node is None:
                assert not closures._enabled or _may_be_none(engine, component, module, may_be_opened), module
                continue
            known.append(node)
            assert (node.module, node.rules, node.fed) == (module, closures._rules(module), closures._fed(module))
            assert bool(node.fed) == any(number not in module.rules for number in component.recursive_rules)
            assert all(closures.get(name) is node for name in module.predicates)
            _audit_pairs(engine, node)
    assert set(known) == set(closures.each())


def _may_be_none(engine: Engine, component: Component, module: Module, may_be_opened: bool) -> bool:
    """Whether a closure may be left to the general algorithms."""
    rules = {number: engine.graph.rule(number) for number in component.rules if number not in module.rules}
    feeding = (rule for rule in rules.values() if rule.head.predicate in module.predicates)
    if any(isinstance(term, Aggregate) for rule in feeding for term in rule.head.arguments):
        return True
    unfit = not engine.closures._unfit.isdisjoint(component.predicates)
    if not engine.plugins.mentioned(component, engine.graph).isdisjoint(module.predicates):
        return True
    # A linear pair that had explicit facts when its rules came stays with the general algorithms.
    given_up = module.needs_distinct_values or any(number in component.recursive_rules for number in rules)
    return unfit or module.needs_no_explicit_facts or (may_be_opened and given_up)


def _audit_pairs(engine: Engine, node: ClosureNode) -> None:
    """A closure shows what all of its edges yield."""
    fresh = ClosureNode(engine.store, node.module, node.rules)
    fresh.layers.add_safe(fresh.base.edges(node.base.rows()), watch_nothing)
    for relation, turned in node.fed_members():
        fresh.layers.add_more(fresh.layers.needed(node.fed_edges(relation.rows(), turned)), watch_nothing)
    for name, view in fresh.views():
        relation = engine.store.relation(name, 2)
        assert relation.closure is not None
        assert set(_pairs(view)) == set(_pairs(relation.closure)), f"{name}: pairs of the closure"
        assert relation.count == 0, name


def _pairs(closure: ReadableClosure) -> list[tuple[int, int]]:
    return [pair for source, target in closure.pairs() for pair in zip(source.tolist(), target.tolist(), strict=True)]


def _audit_plans(engine: Engine) -> None:
    """Except for the order of joins, what was compiled is what would be compiled now."""
    for number, compiled in engine.nodes._rules.items():
        rule = engine.graph.rule(number)
        component = engine.graph.component(rule.head.predicate)
        closures = engine.closures.of(component.predicates)
        own = {name for name, _ in engine.nodes._recorded(component)}
        stale = (compiled.own, compiled.recursive) != (own, number in component.recursive_rules)
        normal = normal_form(rule, number, _keeps_best(engine, rule))[0]
        assert replace(compiled.normal, head=normal.head) == normal
        if not stale and not any(number in closure.rules for closure in closures):
            fed = [fed_name(rule.head.predicate, closure.module) for closure in closures if closure.fed]
            assert compiled.normal.head.predicate in (rule.head.predicate, *fed)
        for pivot, plan in compiled.plans.items() if not stale else ():
            fresh = make_plan(compiled.normal, pivot, compiled.own, engine.store.estimate)
            assert _steps(plan) == _steps(fresh), f"{rule}, from {pivot}"
    for component, node in engine.nodes._nodes.values():
        if engine.graph.component(component.predicates[0]) is component:
            modules = (*engine.closures.of(component.predicates), *engine.plugins.of(component, engine.graph))
            closed = {number for module in modules for number in module.rules}
            assert all(relation.kept == node.shape for relation in node.relations if node.shape), component
            if node.shape is not None or not closed:
                assert [rule.number for rule in node.rules] == [n for n in component.rules if n not in closed]
            assert all(engine.nodes._rules[rule.number] is rule for rule in node.rules), component


def _steps(plan: Plan) -> list[str]:
    return sorted(f"{type(step).__name__} {str(step).split(' by ')[0]}" for step in plan.steps)


def _audit_names(kb: KnowledgeBase) -> None:
    engine = kb._engine
    assert kb._catalogue.rule_numbers == numbers_by_key(kb._engine.graph.rules)
    for name, relation in engine.store.named().items():
        assert engine.store.relations[relation.number] is relation
        assert name.startswith("#") or relation.count == 0 or kb._catalogue.arities[name] == relation.arity


# Against the oracle


def explicit_facts(kb: KnowledgeBase) -> Database:
    """E, by resolved predicate."""
    return without_empty(database({name: list(kb.explicit(name)) for name in kb._catalogue.arities}))


def all_facts(kb: KnowledgeBase) -> Database:
    """I, by resolved predicate."""
    return without_empty(database({name: list(kb.facts(name)) for name in kb._catalogue.arities}))


def _audit_facts(kb: KnowledgeBase) -> None:
    rules = [replace(rule, origin=None) for rule in kb._engine.graph.rules.values()]
    assert all_facts(kb) == without_empty(materialise(rules, explicit_facts(kb), kb._knowledge.functions))


def _audit_counters(kb: KnowledgeBase) -> None:
    """Counters are what counting all derivations by definition gives."""
    engine = kb._engine
    facts = all_facts(kb)
    expected: dict[str, Counter[tuple[tuple[Constant, ...], int]]] = {}
    for number, rule in engine.graph.rules.items():
        counter = engine.maintenance.counted.counter(number)
        if counter is not None and counter >= 0 and engine.closures.get(rule.head.predicate) is None:
            for derivation in derivations(rule, facts, kb._knowledge.functions):
                if derivation is not None:
                    name, row = derivation.head
                    expected.setdefault(name, Counter())[row, counter] += 1
    for closure in engine.closures.each():
        _audit_bases(kb, closure, facts)
        _audit_fed(kb, closure, facts)
    for relation in _lasting(engine):
        if _has_live_counters(engine, relation) and not _keeps_levels(engine, relation):
            wanted = expected.get(relation.name, Counter())
            for row, counts in _counts(engine, relation).items():
                assert _agrees(counts[0], wanted[row, 0]), (relation.name, row, counts)
                # A recursive counter that is full says nothing.
                assert counts[1] in (wanted[row, 1], counting.FULL_COUNT), (relation.name, row, counts)


def _agrees(count: int, derivations: int) -> bool:
    """A full counter has once seen that many derivations, and knows that there is one."""
    return derivations > 0 if count == counting.FULL_COUNT else count == derivations


def _audit_bases(kb: KnowledgeBase, closure: ClosureNode, facts: Database) -> None:
    """A base holds what is given, each pair with its number of derivations if these are counted."""
    engine = kb._engine
    for base in closure.base.nodes:
        (predicate,), (relation,) = base.predicates, base.relations
        wanted: Counter[tuple[Constant, ...]] = Counter()
        for number, rule in closure.rules.items():
            if number not in closure.module.rules and rule.head.predicate == predicate:
                for derivation in derivations(rule, facts, kb._knowledge.functions):
                    if derivation is not None:
                        wanted[derivation.head[1]] += 1
        for twin in closure.module.twins:
            rule = closure.rules[twin.copy]
            if rule.head.predicate == predicate:
                turns = rule.head.arguments != next(body_atoms(rule)).arguments
                for row in closure.base.explicit_relation(twin.predicate).rows().tolist():
                    wanted[_decoded(engine, row[::-1] if turns else row)] += 1
        explicit = {_decoded(engine, row) for row in closure.base.explicit_rows(predicate).tolist()}
        assert explicit == explicit_facts(kb).get(predicate, set()), relation.name
        assert {_decoded(engine, row) for row in relation.rows().tolist()} == explicit | set(wanted), relation.name
        if (
            relation.has_counters
            and (number := min(closure.rules, default=0))
            and engine.maintenance.counted.get(number) is not None
        ):
            counted = {row: counts[0] for row, counts in _counts(engine, relation).items() if counts[0]}
            assert counted.keys() == wanted.keys(), relation.name
            assert all(_agrees(count, wanted[row]) for row, count in counted.items()), relation.name


def _audit_fed(kb: KnowledgeBase, closure: ClosureNode, facts: Database) -> None:
    """The edges that a recursion feeds its closure with are those that its other rules derive."""
    engine = kb._engine
    recursive = engine.graph.component(closure.module.predicate).recursive_rules
    for predicate in closure.fed:
        rules = (engine.graph.rule(number) for number in recursive if number not in closure.rules)
        wanted = {
            derivation.head[1]
            for rule in rules
            if rule.head.predicate == predicate
            for derivation in derivations(rule, facts, kb._knowledge.functions)
            if derivation is not None
        }
        rows = closure.fed_relation(predicate).rows().tolist()
        assert {_decoded(engine, row) for row in rows} == wanted, predicate


def _decoded(engine: Engine, row: Sequence[int]) -> tuple[Constant, ...]:
    return tuple(Constant(engine.store.terms.table.decode(cell)) for cell in row)


def _audit_ranks(kb: KnowledgeBase) -> None:
    """Every fact of a recursion is explicit, or counted, or has a derivation from facts of lower ranks."""
    engine = kb._engine
    facts = all_facts(kb)
    for component in {engine.graph.component(name) for name in engine.graph.predicates}:
        relations = [found for name in component.predicates if (found := engine.store.find(name)) is not None]
        if not all(relation.ranked and _keeps_ranks(engine, relation) for relation in relations):
            continue
        ranks = {(r.name, row): rank for r in relations for row, (rank, _) in _ranks(engine, r).items()}
        needy = {(r.name, row) for r in relations for row, (_, needs) in _ranks(engine, r).items() if needs}
        # A rule that has left a recursion is counted only when its component is next in work.
        counter = engine.maintenance.counted.counter
        for number in [number for number in component.rules if counter(number) == NO_COUNTER]:
            for derivation in derivations(_rule(engine, number), facts, kb._knowledge.functions):
                if derivation is not None and derivation.head in needy:
                    rank = ranks[derivation.head]
                    if all(ranks[fact] < rank for fact in derivation.premises if fact in ranks):
                        needy.remove(derivation.head)
        assert not needy, f"without a derivation from lower ranks: {needy}"


def _keeps_best(engine: Engine, rule: Rule) -> bool:
    return rule.head.predicate in engine.graph.component(rule.head.predicate).lattices


def _rule(engine: Engine, number: int) -> Rule:
    """A rule, as one that offers values where its predicate keeps the best ones."""
    rule = engine.graph.rule(number)
    return offering(rule) if _keeps_best(engine, rule) else rule


def _ranks(engine: Engine, relation: Relation) -> dict[tuple[Constant, ...], tuple[int, bool]]:
    """The rank of each fact, and whether it needs one."""
    result: dict[tuple[Constant, ...], tuple[int, bool]] = {}
    for record in relation.cells[relation.live()].tolist():
        row = tuple(Constant(engine.store.terms.table.decode(cell)) for cell in record[: relation.arity])
        counted, rank = (record[column] for column in relation.counter_columns)
        result[row] = rank, not (counted or record[relation.flags_column] & F.EXPLICIT)
    return result


def _keeps_ranks(engine: Engine, relation: Relation) -> bool:
    """Whether ranks take the place of the recursive counter: derivations by recursive rules are not counted."""
    rules = engine.graph.producers(relation.name)
    return relation.has_counters and any(engine.maintenance.counted.counter(number) == NO_COUNTER for number in rules)


def _audit_trace(kb: KnowledgeBase) -> None:
    """Every fact of a recursion has the level that semi-naive evaluation gives it, and counts its instances there."""
    engine = kb._engine
    facts = all_facts(kb)
    for component in {engine.graph.component(name) for name in engine.graph.predicates}:
        relations = [found for name in component.predicates if (found := engine.store.find(name)) is not None]
        wanted = {number: Counted(AT_LEVEL, frozenset(component.predicates)) for number in component.recursive_rules}
        is_known = all(engine.maintenance.counted.get(number) == counted for number, counted in wanted.items())
        if not wanted or not is_known or not all(relation.ranked for relation in relations):
            continue
        found = {(r.name, row): counts[::-1] for r in relations for row, counts in _counts(engine, r).items()}
        assert found.keys() == (expected := _trace(kb, component, facts)).keys()
        for fact, (level, count) in found.items():
            assert level == expected[fact][0], (fact, level, expected[fact])
            assert _agrees(count, expected[fact][1]), (fact, count, expected[fact])


def _trace(kb: KnowledgeBase, component: Component, facts: Database) -> dict[Fact, tuple[int, int]]:
    """The level of each fact of a component, and how many of its instances the round of that number finds."""
    engine = kb._engine
    instances = [
        (derivation.head, {fact for fact in derivation.premises if fact[0] in component.predicates})
        for number in component.rules
        for derivation in derivations(engine.graph.rule(number), facts, kb._knowledge.functions)
        if derivation is not None
    ]
    explicit = explicit_facts(kb)
    found = {(name, row): (0, 0) for name in component.predicates for row in explicit.get(name, ())}
    for level in range(len(instances) + 1):
        heads = Counter(head for head, own in instances if own <= found.keys() and _round(own, found) == level)
        new = {head: (level, count) for head, count in heads.items() if head not in found or level == 0}
        if level > 0 and not new:
            break
        found.update(new)
    return found


def _round(own: set[Fact], levels: dict[Fact, tuple[int, int]]) -> int:
    """The round that finds an instance with these facts of the component."""
    return max((1 + levels[fact][0] for fact in own), default=0)


def _keeps_levels(engine: Engine, relation: Relation) -> bool:
    """Whether the counters are a level, and how many instances there are at that level."""
    rules = engine.graph.producers(relation.name)
    return any(engine.maintenance.counted.counter(number) == AT_LEVEL for number in rules)


def _has_live_counters(engine: Engine, relation: Relation) -> bool:
    """Whether an algorithm keeps the counters: rules may have been counted once, and be counted anew when needed."""
    producers = engine.graph.producers(relation.name)
    counters = [engine.maintenance.counted.counter(number) for number in producers]
    counted = any(counter is not None and counter >= 0 for counter in counters)
    return relation.has_counters and counted and not is_closure(engine, relation)


def _counts(engine: Engine, relation: Relation) -> Counts:
    records = relation.cells[relation.live()]
    result: Counts = {}
    for record in records.tolist():
        row = tuple(Constant(engine.store.terms.table.decode(cell)) for cell in record[: relation.arity])
        nonrecursive, recursive = (record[column] for column in relation.counter_columns)
        result[row] = (nonrecursive, 0 if _keeps_ranks(engine, relation) else recursive)
    return result


__all__ = ["all_facts", "audit", "check_refused", "explicit_facts", "fingerprint"]
