"""The kinds that rules promise: what the embedded engine computes is among them, for every function and aggregate."""

from __future__ import annotations

import pytest

from tidelog import KnowledgeBase
from tidelog.formats.batch import KIND_OF_TYPE
from tidelog.language import parse_program
from tidelog.language.checks import BUILTIN_FUNCTIONS, OPERATORS
from tidelog.program.normal_form import normalise
from tidelog.spark.dataframes.column_kinds import kinds_of_columns, kinds_of_facts

# A predicate for each kind of constants, so that a promise for one is not kept by another.
KINDS = {
    "text": ['"ab"', '"2024-02-29"', '"7"', '"[1]"', '"$[0]"'],
    "whole": ["2", "-3"],
    "broken": ["2.5", "1.0"],
    "truth": ["true"],
    "name": ["<http://e.org/a>"],
    "literal": [
        '"2024-02-29T12:00:00Z"^^xsd:dateTime',
        '"2024-02-29"^^xsd:date',
        '"PT45M"^^xsd:dayTimeDuration',
        '"1.10"^^xsd:precisionDecimal',
        '"123456789012345678901"^^xsd:integer',
        "[1, b]",
    ],
}
FACTS = "".join(f"{kind}({value}). " for kind, values in KINDS.items() for value in values)
TERMS = [f"A {name} B" for name, arity in OPERATORS.items() if arity == 2]
TERMS += ["-A", "[A, B]", "replace(A, A, B)", "split(A, A, 0)", "substr(A, 0, 1)", "format(A, B)"]
TERMS += [f"{name}({', '.join('AB'[:arity])})" for name, arity in BUILTIN_FUNCTIONS.items() if arity <= 2]
AGGREGATES = ("count", "sum", "avg", "median", "min", "max", "stddev", "list", "concat", "any", "all")


def check(rules: list[str]) -> None:
    text = FACTS + "\n".join(rules)
    program, kb = parse_program(text), KnowledgeBase(text)
    promised = kinds_of_columns(list(map(normalise, program.rules)), kinds_of_facts(program.facts), {})
    for rule in program.rules:
        name = rule.head.predicate
        for row in kb.facts(name):
            for value, kinds in zip(row, promised[name], strict=True):
                assert KIND_OF_TYPE[type(value)] in kinds, f"{rule} gives {value!r}"


@pytest.mark.filterwarnings("ignore::tidelog.CrossProductWarning")
def test_functions_and_operators() -> None:
    rules = [
        f"r{number}_{left}_{right}({term}) :- {left}(A), {right}(B)."
        for number, term in enumerate(TERMS)
        for left in KINDS
        for right in (KINDS if "B" in term else ["text"])
    ]
    check(rules)


def test_aggregates() -> None:
    check([f"r_{name}_{kind}({name}(A)) :- {kind}(A)." for name in AGGREGATES for kind in KINDS])
    durations = ('span("PT45M"^^xsd:dayTimeDuration).', 'span("PT1H"^^xsd:dayTimeDuration).')
    check([*durations, "total(sum(A)) :- span(A).", "longest(max(A)) :- span(A)."])


def test_fields_of_records() -> None:
    check(["field(X) :- literal([X, _]).", "other(X) :- literal(P), P = [_, X].", "next(X + 1) :- literal([X, _])."])
