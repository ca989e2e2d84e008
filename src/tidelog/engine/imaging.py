"""An engine as an image, and an engine from an image.

A saved image holds the terms that its facts use, and no others: the rest of the dictionary would be of no use.

Rules are numbered in the order of their arrival, and the number of a rule that goes is not used again. The engine has
memory for every number below the next one. A knowledge base whose rules come and go for years, or a store that somebody
has made up, would make each update expensive. So an image whose rules have used up a great many numbers gets new ones:
rules keep their order, and the relations that are named after their numbers are renamed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tidelog.engine.algorithms.maintenance import kept_in
from tidelog.engine.engine import Engine
from tidelog.engine.image import MOST_COUNTED, Arrays, Image, RelationImage, RuleImage
from tidelog.engine.modules.closure_base import BASE, FED
from tidelog.engine.rules.compiled import group_predicate
from tidelog.engine.rules.policy import AT_LEVEL, NO_COUNTER, RECURSIVE, Counted, CountedRules
from tidelog.errors import StorageError
from tidelog.language.checks import check_arities, check_rule, foreign_functions
from tidelog.language.records.types import Declared
from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine import term_kinds as K
from tidelog.program.graph import RuleGraph
from tidelog.program.lattices import aggregates
from tidelog.store.relation import Relation
from tidelog.store.store import Store
from tidelog.store.term_table import TermTable

# This many numbers of rules cost no noticeable memory.
FEW_NUMBERS = 1 << 20
# Or this many for each rule.
SPARSE_NUMBERS = 16

# The explicit facts of a predicate that are not in I have a relation of this name in an image.
OUTDONE = "#outdone"

# The name of a predicate is a word or ends with `>`; what follows are numbers of rules.
_DIGEST = re.compile(r".* [0-9a-f]{32}", re.DOTALL)  # instead of very many numbers
_NUMBERED_NAME = re.compile(rf"({BASE}|{FED}) (.*?)((?: [0-9]+)*)", re.DOTALL)


# --- taking an image ----------------------------------------------------------------------------------------------


def image_of_engine(
    engine: Engine,
    options: Mapping[str, Any],
    prefixes: Mapping[str, str],
    arities: Mapping[str, int],
    errors: int,
    commit: Mapping[str, str],
    declared: Declared,
) -> Image:
    """All that has to be saved: what the engine holds, and what its knowledge base knows besides."""
    graph, work = engine.graph, engine.store.rule_counts.work
    pairs = _pairs_of_closures(engine)
    image = Image(
        options=options,
        prefixes=prefixes,
        arities=arities,
        errors=errors,
        next_rule=graph.next_number,
        rules=tuple(
            RuleImage(number, rule, _counter(engine, number), int(work[number])) for number, rule in graph.rules.items()
        ),
        terms=engine.store.terms.to_arrays(),
        # Neither what serves within an update only or watched queries, nor closures, which are built from their bases.
        relations=tuple(
            _relation(engine, relation)
            for relation in engine.store.named().values()
            if not relation.name.startswith(("#touched", "#asked")) and relation.closure is None
        )
        + tuple(_outdone(engine)),
        closures=tuple(pairs),
        pairs=pairs,
        commit=commit,
        declared=declared,
    )
    return _without_unused_terms(image)


def _counter(engine: Engine, number: int) -> int | None:
    """The counter of a rule; None where it is counted as in a component that has changed since."""
    counted = engine.maintenance.counted.get(number)
    if counted is None or counted != Counted.of(counted.counter, _component(engine, number)):
        return None
    return counted.counter


def _component(engine: Engine, number: int) -> tuple[str, ...]:
    """The predicates of the component that a rule belongs to."""
    return engine.graph.component(engine.graph.rule(number).head.predicate).predicates


def _relation(engine: Engine, relation: Relation) -> RelationImage:
    """A relation with its counters; the second is a rank unless derivations of recursive rules are counted there."""
    records = relation.cells[relation.live()]
    explicit = (records[:, relation.flags_column] & F.EXPLICIT) != 0
    counters = records[:, list(relation.counter_columns)] if relation.has_counters else None
    counted = set(map(engine.maintenance.counted.counter, engine.graph.producers(relation.name)))
    if counters is not None and not relation.ranked and RECURSIVE not in counted:
        counters[:, 1] = 0  # ranks that mean nothing; see `_has_ranks`
    if counters is not None and counted <= {None, NO_COUNTER} and not relation.name.startswith("#"):
        # Nothing is counted here, as after an update that was taken back: only ranks may be worth keeping.
        counters = counters if counters.any() else None
    return RelationImage(relation.name, records[:, : relation.arity], explicit, counters)


def _outdone(engine: Engine) -> Iterator[RelationImage]:
    """The explicit facts that are not in I, because their groups have better values."""
    for component in engine.graph.components_in_order():
        for predicate in component.lattices:
            relation = engine.store.find(predicate)
            if relation is not None:
                outdone = np.flatnonzero(relation.flags & (F.IN | F.EXPLICIT) == F.EXPLICIT)
                if len(outdone):
                    rows = relation.cells[outdone, : relation.arity]
                    yield RelationImage(f"{OUTDONE} {predicate}", rows, np.ones(len(outdone), np.bool_), None)


def _pairs_of_closures(engine: Engine) -> dict[str, int]:
    return {name: len(engine.store.relation(name, 2)) for name in engine.closures.predicates}


def _without_unused_terms(image: Image) -> Image:
    """The same knowledge base, with terms renumbered where some are in no fact."""
    count = len(image.terms["kinds"])
    used = np.zeros(count, np.bool_)
    for relation in image.relations:
        used[relation.rows] = True
    used[K.FAILURE] = True
    if used.all():
        return image
    (kept,) = used.nonzero()
    table, text_used = TermTable(**image.terms).with_only(kept[K.FAILURE + 1 :], count)
    terms: Arrays = {
        "kinds": table.kinds[kept],
        "payloads": table.payloads[kept],
        "sizes": table.sizes[kept],
        "text": table.text[:text_used],
    }
    numbers = (np.cumsum(used) - 1).astype(np.int32)
    relations = tuple(replace(relation, rows=numbers[relation.rows]) for relation in image.relations)
    return replace(image, terms=terms, relations=relations)


# --- restoring ----------------------------------------------------------------------------------------------------


def restore_engine(engine: Engine, image: Image) -> dict[str, int]:
    """Fill an empty engine; the arities of all predicates. Nothing is derived: everything is in the image. It raises
    `TidelogError` where its parts do not fit together, before a kernel sees them.
    """
    image = _with_few_numbers(image)
    rules = {item.number: item.rule for item in image.rules}
    for rule in rules.values():
        check_rule(rule, foreign_functions((rule,)), image.prefixes)
    graph = RuleGraph.of_numbered(rules, image.next_rule)
    graph.check_strata()
    arities = check_arities(graph.rules.values(), image.arities, image.prefixes)
    for relation in image.relations:
        _check_relation(relation, graph, image, arities)
    engine.store.terms.restore(dict(image.terms))
    if engine.store.terms.has_duplicates():
        raise StorageError("the dictionary has a constant twice")
    engine.restore_rules(graph)
    engine.store.rule_counts.ensure(max(graph.rules, default=0) + 1)
    for item in image.rules:
        engine.store.rule_counts.work[item.number] = min(item.applications, MOST_COUNTED)
    for relation in image.relations:
        # Empty ones that serve rules and closures come with those.
        if (len(relation.rows) or not relation.is_internal) and not relation.name.startswith(OUTDONE):
            _restore_relation(engine.store, relation)
    _restore_best_values(engine, image)
    _restore_closures(engine, image)
    engine.maintenance.counted = CountedRules(_counted(engine, image))
    return arities


def _check_relation(relation: RelationImage, graph: RuleGraph, image: Image, arities: Mapping[str, int]) -> None:
    name, arity = relation.name, relation.arity
    if name in image.closures:
        raise StorageError(f"`{name}` is said to be a closure, and has facts of its own")
    expected = _internal_arity(name, graph) if relation.is_internal else arities.get(name)
    if expected is None and len(relation.rows):
        raise StorageError(f"`{name}` has facts, and nothing is known of it")
    if expected is not None and expected != arity:
        raise StorageError(f"`{name}` has facts with {arity} arguments, and should have {expected}")


def _internal_arity(name: str, graph: RuleGraph) -> int | None:
    """The arity of a relation that serves rules; None for one that does not."""
    if name.startswith((f"{BASE} ", f"{FED} ")):
        return 2
    if name.startswith(f"{OUTDONE} "):
        predicate = name.removeprefix(f"{OUTDONE} ")
        kept = predicate in graph.component(predicate).lattices
        return next((graph.rule(number).head.arity for number in graph.producers(predicate)), None) if kept else None
    aggregated = (number for number, rule in graph.rules.items() if aggregates(rule))
    return next((graph.rule(number).head.arity for number in aggregated if group_predicate(number) == name), None)


def _restore_relation(store: Store, image: RelationImage) -> None:
    rows = image.rows
    relation = store.relation(image.name, image.arity)
    if image.counters is not None:
        relation.add_counters()
    relation.load(rows, F.IN | F.OLD)
    if relation.count != len(rows):
        raise StorageError(f"`{image.name}` holds a fact twice")
    records = relation.cells[: len(rows)]
    records[:, relation.flags_column] |= np.where(image.explicit, F.EXPLICIT, 0).astype(np.int32)
    if image.counters is not None:
        records[:, list(relation.counter_columns)] = image.counters
        store.machine[M.RANK] = max(store.machine[M.RANK], image.counters[:, 1].max(initial=0))
    relation.ranked = _has_ranks(image)
    relation.explicit_count = int(np.count_nonzero(image.explicit))


def _restore_best_values(engine: Engine, image: Image) -> None:
    """Add the explicit facts that are not in I, and note which predicates keep the best value of each group."""
    for outdone in image.relations:
        if outdone.name.startswith(OUTDONE):
            relation = engine.store.relation(outdone.name.removeprefix(f"{OUTDONE} "), outdone.arity)
            before = relation.count
            relation.load(outdone.rows, F.EXPLICIT)
            if relation.count != before + len(outdone.rows):
                raise StorageError(f"`{relation.name}` holds a fact twice")
            relation.explicit_count += len(outdone.rows)
            relation.mark_unclean()
    for component in engine.graph.components_in_order():
        for predicate in component.predicates if component.lattices else ():
            engine.nodes.relation(predicate).kept = kept_in(component, predicate)


def _has_ranks(image: RelationImage) -> bool:
    """Whether every fact that needs a rank has one, see `ranks`. In a relation that keeps none, none needs one,
    or none has one.
    """
    if image.counters is None:
        return bool(image.explicit.all())
    counted, ranks = image.counters.T
    return bool((image.explicit | (counted > 0) | (ranks > 0)).all())


def _restore_closures(engine: Engine, image: Image) -> None:
    """Build the closures, and check that they are what was saved: from the same bases, with as many pairs as before."""
    unknown = set(image.closures).difference(engine.graph.predicates)
    if unknown:
        raise StorageError(f"`{min(unknown)}` was saved as a closure, and no rule mentions it")
    engine.closures.restore(image.closures)
    bases = set(engine.closures.bases)
    missing = bases.difference(relation.name for relation in image.relations)
    if missing:
        raise StorageError(f"`{min(missing)}`, which a closure starts from, is missing")
    for relation in image.relations:
        if relation.name.startswith((BASE, FED)) and relation.name not in bases and len(relation.rows):
            raise StorageError(f"`{relation.name}` has pairs, and no closure starts from them")
    if image.pairs and _pairs_of_closures(engine) != image.pairs:
        raise StorageError("the closures do not have as many pairs as when they were saved")
    for closure in engine.closures.each():
        if closure.fed:
            node = engine.nodes.node(closure.module.predicate)
            for kept in node.relations:
                kept.kept = node.shape


def _counted(engine: Engine, image: Image) -> Iterator[tuple[int, Counted]]:
    """How rules are counted. Where it is unknown, they are counted again when needed."""
    facts = sum(len(relation.rows) for relation in image.relations)
    for item in image.rules:
        relation = engine.explicit_relation(item.rule.head.predicate)
        there = relation is None or relation.has_counters or relation.count == 0
        if item.counter == AT_LEVEL and relation is not None and relation.count:
            there = relation.has_counters and relation.counters[:, 1].max() < facts  # as all levels are
        if item.counter is not None and (item.counter == NO_COUNTER or there):
            yield item.number, Counted.of(item.counter, _component(engine, item.number))


# --- numbers of rules ---------------------------------------------------------------------------------------------


def _with_few_numbers(image: Image) -> Image:
    """The image, with other numbers for its rules where they have used up too many."""
    few = max(FEW_NUMBERS, SPARSE_NUMBERS * len(image.rules))
    if image.next_rule <= few or any(map(_DIGEST.fullmatch, image.closures)):
        return image
    numbers = {item.number: number for number, item in enumerate(image.rules, start=1)}
    groups = {group_predicate(old): group_predicate(new) for old, new in numbers.items()}

    def named(name: str) -> str:
        return groups.get(name) or _renamed(name, numbers)

    return replace(
        image,
        next_rule=len(image.rules) + 1,
        rules=tuple(replace(item, number=numbers[item.number]) for item in image.rules),
        relations=tuple(replace(relation, name=named(relation.name)) for relation in image.relations),
        closures=tuple(map(named, image.closures)),
        pairs={named(name): count for name, count in image.pairs.items()},
    )


def _renamed(name: str, numbers: Mapping[int, int]) -> str:
    """The name of a relation that serves a closure, by the new numbers of rules; any other name stays."""
    found = _NUMBERED_NAME.fullmatch(name)
    if found is None:
        return name
    kind, predicate, copies = found.groups()
    return " ".join((kind, predicate, *(str(numbers.get(int(copy), copy)) for copy in copies.split())))
