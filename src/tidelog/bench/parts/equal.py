"""Equality: constants that are made equal in cliques, as `@equality` has it and as plain rules do.

The plain rules are those that `@equality` stands for: the equality is symmetric and transitive, and replaces a constant
in each place of each predicate. They derive every copy, each once for every way to it.
"""

from __future__ import annotations

import gc
import statistics
from dataclasses import dataclass

import numpy as np

from tidelog.bench.data import graphs
from tidelog.bench.data.cases import Tables, random_rows, scaled, table
from tidelog.bench.measure import Failed, isolated
from tidelog.bench.options import Options
from tidelog.bench.report import Cell, Check, Table, ratio
from tidelog.bench.work import timed, timed_materialise, warm

_CLIQUES, _CLIQUE, _PREDICATES, _ROWS = 20, 50, 20, 10
_DELETIONS = 3

_GIVEN = [f"p{number}" for number in range(_PREDICATES // 2)]
_DERIVED = [f"q{number}" for number in range(_PREDICATES // 2)]
_OWN_RULES = " ".join(f"q{number}(Y, X) :- p{number}(X, Y)." for number in range(_PREDICATES // 2))
_REPLACEMENT = " ".join(
    f"{name}(Z, Y) :- {name}(X, Y), same(X, Z). {name}(X, Z) :- {name}(X, Y), same(Y, Z)."
    for name in (*_GIVEN, *_DERIVED)
)
EQUALITY = f"@equality same. {_OWN_RULES}"
PLAIN = f"same(X, Y) :- same(Y, X). same(X, Z) :- same(X, Y), same(Y, Z). {_OWN_RULES} {_REPLACEMENT}"


def facts(seed: int, size: float) -> Tables:
    """The constants of each clique as a chain, and a few rows of each predicate that is given."""
    cliques, dice = scaled(_CLIQUES, size), np.random.default_rng(seed)
    rows = {name: table(dice.integers(0, cliques * _CLIQUE, (_ROWS, 2))) for name in _GIVEN}
    return {"same": table(graphs.chains(cliques, _CLIQUE)), **rows}


@dataclass(frozen=True)
class Found:
    """Materialisation, the median of some deletions of a pair of the equality, all facts, and how many went."""

    materialise: float
    delete: float
    facts: int
    gone: list[int]


def equal_constants(options: Options, scale: float) -> tuple[Table, list[Check]]:
    columns = ["", "facts", "materialise", "delete an equality"]
    found = Table("Equality: 1,000 constants in cliques of 50, 20 predicates, CPU ms", columns)
    ways: list[Found | Failed] = []
    for name, rules in (("@equality", EQUALITY), ("plain rules", PLAIN)):
        options.progress(f"equality, {name}")
        way = isolated(measure, rules, options.seed, scale, timeout=options.timeout)
        ways.append(way)
        cells: list[Cell] = [way] * 3
        if not isinstance(way, Failed):
            cells = [way.facts, 1000 * way.materialise, 1000 * way.delete]
        found.rows.append([name, *cells])
    found.note = f"The median of {_DELETIONS} deletions, each of which divides a clique."
    equality, plain = ways
    if isinstance(equality, Failed) or isinstance(plain, Failed):
        return found, []
    ratios = ratio(equality.materialise, plain.materialise), ratio(equality.delete, plain.delete)
    found.rows.append(["plain rules / @equality", "", *ratios])
    checks = [Check("equality: facts, and plain rules", equality.facts, plain.facts)]
    return found, [*checks, Check("equality: facts that go, and plain rules", equality.gone, plain.gone)]


def measure(rules: str, seed: int, size: float) -> Found:
    """Make constants equal; then delete one pair after the other, and add each again."""
    given = facts(seed, size)
    warm(rules, facts(seed, size / 20))
    kb, step = timed_materialise(rules, given)
    gc.disable()
    steps = []
    for number in range(_DELETIONS):
        pair = {"same": random_rows({"same": given["same"]}, 1, seed + number)["same"]}
        steps.append(timed(kb, delete=pair))
        kb.update(add=pair)
    delete = statistics.median(deletion.cpu for deletion in steps)
    return Found(step.cpu, delete, len(kb), [deletion.removed for deletion in steps])
