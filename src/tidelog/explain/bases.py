"""What proofs read of the bases of a closure: the pairs that each of its predicates is given, by whatever name."""

from __future__ import annotations

import re

from tidelog.engine.compiled import CompiledRule
from tidelog.engine.modules.closure_node import ClosureNode
from tidelog.store.relation_parts import Cells

# The name of a predicate is a word or ends with `>`.
_BASE_NAME = re.compile("#base (.*?)(?: [0-9]+)*", re.DOTALL)


def base_name(closure: ClosureNode, predicate: str) -> str:
    return closure.base.explicit_relation(predicate).name


def closed_predicate(name: str) -> str:
    """The predicate that people know a closure's base by; any other is what it is."""
    base = _BASE_NAME.fullmatch(name)
    return base[1] if base else name


def is_turned(closure: ClosureNode, predicate: str) -> bool:
    """Whether a predicate holds the pairs of the leader the other way round."""
    return closure.members[closure.module.predicates.index(predicate)].turned


def base_rows(closure: ClosureNode, predicate: str) -> Cells:
    """All pairs that a closure starts from, which the base of the leader holds, as pairs of a predicate."""
    rows = closure.base.explicit_relation(closure.module.predicate).rows()
    return rows[:, ::-1] if is_turned(closure, predicate) else rows


def own_rules(closure: ClosureNode, predicate: str) -> list[CompiledRule]:
    """The rules that derive into the base of a predicate, but for copies."""
    return [
        rule
        for base in closure.base.nodes
        if base.predicates == (predicate,)
        for rule in base.rules
        if rule.number not in closure.module.rules
    ]
