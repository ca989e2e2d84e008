"""Each form of the language on Spark: the answers of the embedded engine, or a refusal that names the form."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from merged import facts_of
from tidelog import KnowledgeBase, Lattice, StratificationError, TidelogError
from tidelog.language import parse_program
from tidelog.language.syntax import Constant
from tidelog.language.written.conditions import Names
from tidelog.program.graph import RuleGraph
from tidelog.spark import Options, SparkEngine
from tidelog.spark.data.fact_records import batches_of_atoms
from tidelog.spark.plan.refusals import check_fit, refuse_lattices

BY_ROUNDS = Options(local_facts=0, closure_edges=0)

FORMS = """
node(a). node(b). node(c). edge(a, b). edge(a, c). edge(b, c). limit(3).
left(X), right(X) :- ( edge(X, _) ; edge(_, X), node(X) ).
even(X) :- limit(L), X in range(0, L * 2, 2).
busy(X) :- node(X), count { Y : edge(X, Y) } >= 2.
path(X, Y) :- ( edge(X, Y) ; edge(X, Z), path(Z, Y) ).

word(abc). word(abd). word(xyz). word("7").
begins(X) :- word(X), starts_with(X, "ab").
number(int(X)) :- word(X), is_int(X).

reading(a, 1). reading(a, 2). reading(a, 4.5). reading(b, 3). reading(c, x).
spread(X, stddev(V)) :- reading(X, V).
in_order(X, list(V)) :- reading(X, V).

link(1, 2). link(2, 3). link(3, 1). link(5, 6). ok(1). ok(2).
near(X, Y) :- link(X, Y).
near(X, Z) :- near(X, Y), near(Y, Z).
near(X, Y) :- far(X, Y), ok(Y).
far(Y, X) :- near(X, Y), ok(X).

starts(talk, "2024-02-29T12:00:00Z"^^xsd:dateTime). starts(tea, "2024-02-29T12:00:00Z"^^xsd:dateTime).
price(tea, "1.10"^^xsd:precisionDecimal).
together(X, Y) :- starts(X, T), starts(Y, T), X != Y.

pair(a, [1, 2]). pair(b, [7, [7]]). pair(c, [8, 8]). pair(d, [9, 9.0]). single([7]).
twice(X, A) :- pair(X, [A, A]).
inside(X) :- pair(X, [A, B]), B = [A].
free(X, Z) :- link(Y, _), X = Y + 100, Z = Y + 200, not ok(X), not link(X, Z), not word(Z).
frees(count(X)) :- link(Y, _), X = Y + 300, not ok(X).
alone(X) :- single(B), pair(X, [A, B]), [A] = B.
cost(X, P) :- price(X, P), starts(X, _).
"""
MORE_FORMS = """
degree(X, N) :- node(X), N = count { Y : edge(X, Y) }.
total(sum(N)) :- node(X), N = count { Y : edge(X, Y) }.
widest(X, N) :- node(X), N = max { M : edge(X, Y), M = count { Z : edge(Y, Z), Z != X } }.
either(count(X)) :- ( node(X) ; edge(_, X) ).
others(X) :- word(X), not starts_with(X, "ab").
upper(X, quantile(V, 0.9)) :- reading(X, V).
names(concat(X), string_agg(X, " | ")) :- reading(X, _).
kinds(count_distinct(V)) :- reading(_, V).
"""
WITH_DATES = """
starts(talk, "2024-02-29T12:00:00Z"^^xsd:dateTime). lasts(talk, "PT45M"^^xsd:dayTimeDuration).
over(X, T + D) :- starts(X, T), lasts(X, D).
"""


def engine_of(spark: SparkSession, text: str, folder: Path, options: Options | None = None) -> SparkEngine:
    program = parse_program(text)
    engine = SparkEngine(spark, program, str(folder), options=options)
    engine.load(batches=batches_of_atoms(program.facts, "test"))
    engine.materialise()
    return engine


@pytest.mark.parametrize(
    ("text", "options"),
    [(FORMS + MORE_FORMS + WITH_DATES, None), (FORMS, BY_ROUNDS)],
    ids=["tasks", "rounds"],
)
def test_answers_are_those_of_the_embedded_engine(
    spark: SparkSession, tmp_path: Path, text: str, options: Options | None
) -> None:
    engine, kb = engine_of(spark, text, tmp_path, options), KnowledgeBase(text)
    found = facts_of(engine)
    for name in kb.predicates:
        assert found.get(name, set()) == {tuple(map(Constant, row)) for row in kb.facts(name)}, name
    if options is BY_ROUNDS:
        assert not any("task" in done.how for done in engine.statistics.rounds)


def test_computing_with_dates_by_rounds_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="does not compute with dates, times, durations, decimals"):
        engine_of(spark, WITH_DATES, tmp_path, BY_ROUNDS)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (":- on(X), broken(X).", "constraints, such as `:- on"),
        ("@constraint warn :- task(T), not owner(T, _).", "constraints, such as `@constraint warn"),
        ("d(X, min(0)) :- s(X). d(Y, min(D + W)) :- d(X, D), e(X, Y, W).", "`min` within a recursion"),
        ("up(X, any(B)) :- on(X, B). up(Y, any(B)) :- up(X, B), e(X, Y).", "`any` within a recursion"),
        ("cheapest(P, min(A), min(A, S)) :- offer(P, S, A).", "the witness `min(A, S)`"),
        ("closest(X, Y) :- node(X), Y = min { D, Z : road(X, Z, D) }.", "the witness `min("),
        ("safe(X, all(B)) :- test(X, B).", "the aggregate `all`"),
        ("safe(X) :- part(X), all { B : test(X, B) } = true.", "the aggregate `all`"),
    ],
)
def test_what_is_refused_is_named(text: str, named: str) -> None:
    with pytest.raises(StratificationError) as caught:
        check_fit(RuleGraph(parse_program(text).rules))
    message = str(caught.value)
    assert f"the Spark engine does not have {named}" in message
    assert "tidelog.KnowledgeBase" in message, "the hint"


def test_lattices_are_refused() -> None:
    names = Names.of((), frozenset(), lattices=frozenset({"hull"}))
    with pytest.raises(StratificationError, match="does not have lattices of your own, such as `hull`"):
        check_fit(RuleGraph(parse_program("b(X, hull(V)) :- s(X, V).", names=names).rules))
    with pytest.raises(TidelogError, match="does not have lattices of your own, such as `hull`"):
        refuse_lattices({"size": len, "hull": Lattice(max)})
