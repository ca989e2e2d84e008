"""Updates of a knowledge base under the clock."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.bench.data.cases import CASES, Case, Tables, case_of, random_rows
from tidelog.bench.peers.engines import materialise
from tidelog.values import Row


@dataclass
class Step:
    """One update: its CPU seconds, rule applications by kind, and the facts that came and went."""

    cpu: float
    work: dict[str, int] = field(default_factory=dict)
    added: int = 0
    removed: int = 0

    @property
    def applications(self) -> int:
        """All rule applications, of whatever kind."""
        inserting = self.work.get("insertion_instances", self.work.get("insertion", 0))
        return inserting + sum(self.work.get(kind, 0) for kind in ("deletion", "backward", "forward", "rederivation"))


def timed(kb: KnowledgeBase, **update: Any) -> Step:
    """Do an update under the clock."""
    started = time.process_time()
    change = kb.update(**update)
    cpu = time.process_time() - started
    added, removed = (sum(map(len, facts.values())) for facts in (change.added, change.removed))
    return Step(cpu, dict(change.work), added, removed)


def timed_materialise(
    rules: str, facts: Tables, maintenance: str = "auto", modules: bool = True
) -> tuple[KnowledgeBase, Step]:
    """A knowledge base, and what it took."""
    started = time.process_time()
    kb = KnowledgeBase(rules, maintenance=maintenance, modules=modules)
    change = kb.update(add=facts)
    return kb, Step(time.process_time() - started, dict(change.work), sum(map(len, change.added.values())))


def materialised(kb: KnowledgeBase) -> Tables:
    """I, as tables like those of the explicit facts."""
    found = {name: kb.facts(name).to_arrow() for name in kb.predicates}
    return {name: table for name, table in found.items() if len(table)}


def warm(rules: str, facts: Tables, maintenance: str = "auto", modules: bool = True) -> None:
    """Load the kernels that an update needs, so that no figure holds their compilation."""
    kb = materialise(rules, facts, maintenance, modules)
    for row in list(single_rows(facts))[:3]:
        kb.update(delete=row)
        kb.update(add=row)
    for part in (random_rows(facts, sum(map(len, facts.values())) // 4, 0), facts):
        kb.update(delete=part)
        kb.update(add=part)


def ready_for_updates(
    case: str | Case, seed: int, size: float, maintenance: str, modules: bool
) -> tuple[KnowledgeBase, Tables]:
    """A case materialised, and its facts. The first deletion from a relation builds indexes; one from each takes that
    out of the figures."""
    chosen = case_of(case)
    facts = chosen.facts(seed, size)
    recursive = CASES["dag-right"]
    warm(recursive.rules, recursive.facts(seed, 0.03), maintenance, modules=False)
    warm(chosen.rules, chosen.facts(seed, size / 20), maintenance, modules)
    kb, _ = timed_materialise(chosen.rules, facts, maintenance, modules)
    first = {name: table.slice(0, 1) for name, table in facts.items()}
    kb.update(delete=first)
    kb.update(add=first)
    return kb, facts


def single_rows(facts: Tables) -> Iterable[dict[str, list[Row]]]:
    """Each fact as an update's part of its own."""
    for name, table in facts.items():
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
            yield {name: [row]}


def summed(steps: Iterable[Step]) -> Step:
    """A stream as one step."""
    total = Step(0.0)
    for step in steps:
        total.cpu += step.cpu
        total.added += step.added
        total.removed += step.removed
        for kind, count in step.work.items():
            total.work[kind] = total.work.get(kind, 0) + count
    return total


def without(facts: Tables, deleted: Tables) -> Tables:
    """Facts less some of them."""
    kept = dict(facts)
    for name, rows in deleted.items():
        keys = facts[name].column_names
        kept[name] = facts[name].join(rows, keys=keys, join_type="left anti")
    return kept


def percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
