"""The Simple Knowledge Organization System (SKOS): the Datalog part of its vocabulary, and categories to go with it.

The rules are the vocabulary's axioms: sub-classes and sub-properties, inverses, symmetric and transitive properties,
domains and ranges, and a list's only value. The two hierarchies are inverses of each other, in both directions and on
every level: `broaderTransitive` and `narrowerTransitive` are one recursion.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tidelog.bench.data import graphs

_SUBCLASSES = {"collection": "orderedCollection"}
_SUBPROPERTIES = {
    "broaderTransitive": "broader",
    "narrowerTransitive": "narrower",
    "semanticRelation": "broaderTransitive narrowerTransitive related mappingRelation",
    "mappingRelation": "closeMatch broadMatch narrowMatch relatedMatch",
    "broader": "broadMatch",
    "narrower": "narrowMatch",
    "related": "relatedMatch",
    "closeMatch": "exactMatch",
    "inScheme": "topConceptOf",
}
_INVERSES = (
    ("broader", "narrower"),
    ("broaderTransitive", "narrowerTransitive"),
    ("broadMatch", "narrowMatch"),
    ("hasTopConcept", "topConceptOf"),
)
_SYMMETRIC = ("related", "closeMatch", "exactMatch", "relatedMatch")
_TRANSITIVE = ("broaderTransitive", "narrowerTransitive", "exactMatch")
_DOMAINS = {
    "semanticRelation": "concept",
    "hasTopConcept": "conceptScheme",
    "topConceptOf": "concept",
    "member": "collection",
    "memberList": "orderedCollection",
}
_RANGES = {
    "semanticRelation": "concept",
    "hasTopConcept": "concept",
    "topConceptOf": "conceptScheme",
    "inScheme": "conceptScheme",
}
_ONE_VALUE = ("memberList",)

# The share of the facts that is drawn: most hierarchies fall apart, and what still reaches the tangled core reaches all
# of it. With these, 40,000 categories have 19 times as many facts in I as in E, as the paper's sample of DBpedia has.
_SAMPLE, _PER_CORE = 0.35, 380


def rules() -> str:
    """The program."""
    return "\n".join(_axioms()) + "\n"


def _axioms() -> Iterator[str]:
    for kind, subclass in _SUBCLASSES.items():
        yield f"{kind}(X) :- {subclass}(X)."
    for relation, parts in _SUBPROPERTIES.items():
        yield from (f"{relation}(X, Y) :- {part}(X, Y)." for part in parts.split())
    for relation, inverse in _INVERSES:
        yield f"{relation}(X, Y) :- {inverse}(Y, X)."
        yield f"{inverse}(X, Y) :- {relation}(Y, X)."
    yield from (f"{relation}(X, Y) :- {relation}(Y, X)." for relation in _SYMMETRIC)
    yield from (f"{relation}(X, Z) :- {relation}(X, Y), {relation}(Y, Z)." for relation in _TRANSITIVE)
    yield from (f"{kind}(X) :- {relation}(X, Y)." for relation, kind in _DOMAINS.items())
    yield from (f"{kind}(Y) :- {relation}(X, Y)." for relation, kind in _RANGES.items())
    yield from (f"sameAs(Y, Z) :- {relation}(X, Y), {relation}(X, Z)." for relation in _ONE_VALUE)


def categories(count: int, seed: int) -> dict[str, pa.Table]:
    """A sample of the facts about so many categories, as DBpedia has them: each is a concept, has a label and broader
    categories, and a few are related to others."""
    numbers = np.arange(count, dtype=np.int64)
    core = max(2, count // _PER_CORE)
    facts = {
        "broader": _pairs(graphs.hierarchy(count, 2.2, seed, core)),
        "related": _pairs(graphs.random_graph(count, count // 20, seed + 1)),
        "concept": pa.table({"c0": numbers}),
        "prefLabel": pa.table({"c0": numbers, "c1": [f"category {number}" for number in range(count)]}),
    }
    rng = np.random.default_rng(seed)
    return {name: table.filter(rng.random(len(table)) < _SAMPLE) for name, table in facts.items()}


def _pairs(edges: graphs.Edges) -> pa.Table:
    return pa.table({"c0": edges[:, 0], "c1": edges[:, 1]})
