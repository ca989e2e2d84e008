"""All that a knowledge base is, as arrays and plain values: what a snapshot holds.

Indexes, hash tables, plans and what functions gave are not part of it: they are built again when they are needed.
Derivation counters are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.errors import StorageError
from tidelog.language.syntax import Rule
from tidelog.program.graph import RuleGraph
from tidelog.reason.cores import CORE
from tidelog.reason.engine import Engine
from tidelog.reason.policy import RECURSIVE, CountedRules
from tidelog.store.jit import address
from tidelog.store.layout import F_EXPLICIT, F_IN, F_OLD, M_RANK
from tidelog.store.records import Cells
from tidelog.store.relation import Relation
from tidelog.store.store import Store
from tidelog.store.update_kernels import load_rows

Arrays = Mapping[str, npt.NDArray[Any]]


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
    commit: Mapping[str, str]


def _is_kept(relation: Relation) -> bool:
    """Predicates, groups of aggregates and bases of closures are kept.

    What serves within an update only is not, and a closure is built from its base.
    """
    return not relation.name.startswith("#touched") and relation.closure is None


def image_of_relation(relation: Relation, all_counted: bool) -> RelationImage:
    """A relation with its counters; the second is a rank unless derivations of recursive rules are counted there."""
    records = relation.cells[relation.live()]
    explicit = (records[:, relation.flags_column] & F_EXPLICIT) != 0
    counters = records[:, list(relation.counter_columns)] if relation.has_counters else None
    if counters is not None and not (relation.ranked or all_counted):
        # Ranks that say nothing; see `_has_ranks`.
        counters[:, 1] = 0
    return RelationImage(relation.name, records[:, : relation.arity], explicit, counters)


def images_of_rules(engine: Engine) -> tuple[RuleImage, ...]:
    work = engine.store.rule_work
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


def restore_engine(engine: Engine, image: Image) -> None:
    """Fill an empty engine. Nothing is derived: everything is in the image."""
    engine.store.terms.restore(dict(image.terms))
    rules = {item.number: item.rule for item in image.rules}
    engine.restore_rules(RuleGraph.of_numbered(rules, image.next_rule))
    engine.counted = CountedRules((item.number, item.counter) for item in image.rules if item.counter is not None)
    engine.store.ensure_rules(image.next_rule)
    for item in image.rules:
        engine.store.rule_work[item.number] = item.applications
    for relation_image in image.relations:
        _restore_relation(engine.store, relation_image, len(image.terms["kinds"]))
    cores = {name for name in image.closures if name.startswith(CORE)}
    engine.closures.restore([name for name in image.closures if name not in cores])
    engine.cores.restore(cores)


def _restore_relation(store: Store, image: RelationImage, term_count: int) -> None:
    rows = np.ascontiguousarray(image.rows, np.int32)
    if rows.size and not (rows.min() > 0 and rows.max() < term_count):
        raise StorageError(
            f"`{image.name}` holds a constant that the dictionary does not have: the files do not fit together"
        )
    relation = store.relation(image.name, image.arity)
    if image.counters is not None:
        relation.add_counters()
    relation.reserve(len(rows))
    load_rows(store.machine, relation.number, address(rows), len(rows), F_IN | F_OLD)
    if relation.count != len(rows):
        raise StorageError(f"`{image.name}` holds a fact twice: the files have been changed")
    records = relation.cells[: len(rows)]
    records[:, relation.flags_column] |= np.where(image.explicit, F_EXPLICIT, 0).astype(np.int32)
    if image.counters is not None:
        records[:, list(relation.counter_columns)] = image.counters
        store.machine[M_RANK] = max(store.machine[M_RANK], image.counters[:, 1].max(initial=0))
    relation.ranked = _has_ranks(image)
    relation.explicit_count = int(np.count_nonzero(image.explicit))


def _has_ranks(image: RelationImage) -> bool:
    """Whether every fact that needs a rank has one, see `reason.ranks`. In a relation that keeps none, none needs one,
    or none has one.
    """
    if image.counters is None:
        return bool(image.explicit.all())
    counted, ranks = image.counters.T
    return bool((image.explicit | (counted > 0) | (ranks > 0)).all())
