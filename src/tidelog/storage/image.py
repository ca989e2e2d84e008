"""All that a knowledge base is, as arrays and plain values: what a snapshot holds.

Indexes, hash tables, plans and what functions gave are not part of it: they are built again when they are needed.
Derivation counters are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.engine.algorithms.policy import NO_COUNTER, RECURSIVE, CountedRules
from tidelog.engine.compiled import aggregates, group_predicate
from tidelog.engine.engine import Engine
from tidelog.engine.modules.closure_node import BASE
from tidelog.engine.modules.cores import CORE
from tidelog.errors import StorageError
from tidelog.language.checks import check_arities, check_rule, foreign_functions
from tidelog.language.syntax import Rule
from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine import term_kinds as K
from tidelog.machine.jit import address
from tidelog.program.graph import RuleGraph
from tidelog.store.relation import Relation
from tidelog.store.relation_parts import Cells
from tidelog.store.store import Store
from tidelog.store.terms import Terms
from tidelog.store.update_kernels import load_rows

Arrays = Mapping[str, npt.NDArray[Any]]

# What is counted for statistics has room to grow.
MOST_COUNTED = 1 << 62


@dataclass(frozen=True, slots=True)
class RelationImage:
    """The facts of a relation that are in I: rows, which are explicit, and the two counters where it keeps them."""

    name: str
    rows: Cells
    explicit: npt.NDArray[np.bool_]
    counters: Cells | None

    @property
    def arity(self) -> int:
        return int(self.rows.shape[1])

    @property
    def is_internal(self) -> bool:
        """Whether it is of no predicate, and serves rules or closures."""
        return self.name.startswith("#")


@dataclass(frozen=True, slots=True)
class RuleImage:
    """A rule under its number, the counter that its derivations stand in, and how often it was applied so far."""

    number: int
    rule: Rule
    counter: int | None
    applications: int


@dataclass(frozen=True, slots=True)
class Image:
    """A knowledge base. `options` are the arguments of its constructor, `closures` the predicates kept as closures,
    and where the cores of closures are shown."""

    options: Mapping[str, Any]
    prefixes: Mapping[str, str]
    arities: Mapping[str, int]
    errors: int
    next_rule: int
    rules: tuple[RuleImage, ...]
    terms: Arrays
    relations: tuple[RelationImage, ...]
    closures: tuple[str, ...]
    pairs: Mapping[str, int]  # how many each closure has; older snapshots do not tell
    commit: Mapping[str, str]


def _is_kept(relation: Relation) -> bool:
    """Predicates, groups of aggregates and bases of closures are kept.

    What serves within an update only is not, and a closure is built from its base.
    """
    return not relation.name.startswith("#touched") and relation.closure is None


def image_of_relation(relation: Relation, all_counted: bool) -> RelationImage:
    """A relation with its counters; the second is a rank unless derivations of recursive rules are counted there."""
    records = relation.cells[relation.live()]
    explicit = (records[:, relation.flags_column] & F.EXPLICIT) != 0
    counters = records[:, list(relation.counter_columns)] if relation.has_counters else None
    if counters is not None and not (relation.ranked or all_counted):
        # Ranks that say nothing; see `_has_ranks`.
        counters[:, 1] = 0
    return RelationImage(relation.name, records[:, : relation.arity], explicit, counters)


def images_of_rules(engine: Engine) -> tuple[RuleImage, ...]:
    work = engine.store.arrays.rule_work
    return tuple(
        RuleImage(number, rule, engine.counted.get(number), int(work[number]) if number < len(work) else 0)
        for number, rule in engine.graph.rules.items()
    )


def images_of_relations(engine: Engine) -> tuple[RelationImage, ...]:
    return tuple(
        image_of_relation(relation, _counts_recursion(engine, relation.name))
        for relation in engine.store.named().values()
        if _is_kept(relation)
    )


def _counts_recursion(engine: Engine, predicate: str) -> bool:
    return any(engine.counted.get(number) == RECURSIVE for number in engine.graph.producers(predicate))


def pairs_of_closures(engine: Engine) -> dict[str, int]:
    names = (*engine.closures.predicates, *engine.cores.names)
    return {name: len(engine.store.relation(name, 2)) for name in names}


# --- restoring ----------------------------------------------------------------------------------------------------


def restore_engine(engine: Engine, image: Image) -> dict[str, int]:
    """Fill an empty engine; the arities of all predicates. Nothing is derived: everything is in the image. It raises
    `TidelogError` where its parts do not fit together, before a kernel sees them.
    """
    graph = _graph(image)
    arities = check_arities(graph.rules.values(), image.arities, image.prefixes)
    for relation in image.relations:
        _check_relation(relation, graph, image, arities)
    engine.store.terms.restore(dict(image.terms))
    _check_terms(engine.store.terms, image.terms)
    engine.restore_rules(graph)
    engine.store.arrays.ensure_rules(max(graph.rules, default=0) + 1)
    for item in image.rules:
        engine.store.arrays.rule_work[item.number] = min(item.applications, MOST_COUNTED)
    for relation in image.relations:
        # Those of rules and closures are there by themselves.
        if len(relation.rows) or not relation.is_internal:
            _restore_relation(engine.store, relation)
    _restore_closures(engine, image)
    engine.counted = CountedRules(_counted(engine, image))
    return arities


def _check_terms(terms: Terms, arrays: Arrays) -> None:
    """Refuse a dictionary that has a constant twice: facts with one of them could not be found by the other. Only those
    whose hashes are equal are held against each other.
    """
    kinds, payloads, sizes, text = (arrays[name] for name in ("kinds", "payloads", "sizes", "text"))
    keys = terms._hashes[: len(kinds)].astype(np.int64) << 32 | sizes
    ordered = np.sort(keys)
    suspects = np.flatnonzero(np.isin(keys, ordered[1:][ordered[1:] == ordered[:-1]]))
    seen: set[tuple[int, int | bytes]] = set()
    for number in suspects.tolist():
        kind, payload = int(kinds[number]), int(payloads[number])
        texts = kind in (K.STRING, K.IRI, K.LITERAL)
        seen.add((kind, text[payload : payload + int(sizes[number])].tobytes() if texts else payload))
    if len(seen) < len(suspects):
        raise StorageError("the dictionary has a constant twice")


def _graph(image: Image) -> RuleGraph:
    rules = {item.number: item.rule for item in image.rules}
    for rule in rules.values():
        check_rule(rule, foreign_functions((rule,)), image.prefixes)
    graph = RuleGraph.of_numbered(rules, image.next_rule)
    graph.check_strata()
    return graph


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
    """The arity of a relation that serves rules; None of one that does not."""
    if name.startswith((f"{BASE} ", f"{CORE} ")):
        return 2
    aggregated = (number for number, rule in graph.rules.items() if aggregates(rule))
    return next((graph.rule(number).head.arity for number in aggregated if group_predicate(number) == name), None)


def _restore_relation(store: Store, image: RelationImage) -> None:
    rows = np.ascontiguousarray(image.rows, np.int32)
    relation = store.relation(image.name, image.arity)
    if image.counters is not None:
        relation.add_counters()
    relation.reserve(len(rows))
    load_rows(store.machine, relation.number, address(rows), len(rows), F.IN | F.OLD)
    if relation.count != len(rows):
        raise StorageError(f"`{image.name}` holds a fact twice")
    records = relation.cells[: len(rows)]
    records[:, relation.flags_column] |= np.where(image.explicit, F.EXPLICIT, 0).astype(np.int32)
    if image.counters is not None:
        records[:, list(relation.counter_columns)] = image.counters
        store.machine[M.RANK] = max(store.machine[M.RANK], image.counters[:, 1].max(initial=0))
    relation.ranked = _has_ranks(image)
    relation.explicit_count = int(np.count_nonzero(image.explicit))


def _restore_closures(engine: Engine, image: Image) -> None:
    """Build the closures and the cores, and see that they are what was saved: from the bases that were, with as many
    pairs as they had.
    """
    cores = {name for name in image.closures if name.startswith(CORE)}
    predicates = [name for name in image.closures if name not in cores]
    unknown = set(predicates).difference(engine.graph.predicates)
    if unknown:
        raise StorageError(f"`{min(unknown)}` was saved as a closure, and no rule mentions it")
    engine.closures.restore(predicates)
    engine.cores.restore(cores)
    bases = {*engine.closures.bases, *engine.cores.bases}
    saved = {relation.name for relation in image.relations}
    missing = bases - saved
    if missing:
        raise StorageError(f"`{min(missing)}`, which a closure starts from, is missing")
    for relation in image.relations:
        if relation.name.startswith((BASE, CORE)) and relation.name not in bases and len(relation.rows):
            raise StorageError(f"`{relation.name}` has pairs, and no closure starts from them")
    if image.pairs and pairs_of_closures(engine) != image.pairs:
        raise StorageError("the closures have not as many pairs as they had when they were saved")


def _counted(engine: Engine, image: Image) -> Iterator[tuple[int, int]]:
    """The counters that rules are counted in. Where there is none, nobody knows, and they are counted when needed."""
    for item in image.rules:
        relation = engine.explicit_relation(item.rule.head.predicate)
        there = relation is None or relation.has_counters or relation.count == 0
        if item.counter is not None and (item.counter == NO_COUNTER or there):
            yield item.number, item.counter


def _has_ranks(image: RelationImage) -> bool:
    """Whether every fact that needs a rank has one, see `ranks`. In a relation that keeps none, none needs one,
    or none has one.
    """
    if image.counters is None:
        return bool(image.explicit.all())
    counted, ranks = image.counters.T
    return bool((image.explicit | (counted > 0) | (ranks > 0)).all())
