"""Several programs as one: every job on Spark has its latency, so tests evaluate many programs in the same jobs.

Each program's predicates get names of their own, and the results are taken apart again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from naive import Database, Row, materialise
from tidelog.language.names import is_hidden
from tidelog.language.syntax import Atom, BodyItem, Constant, Negation, Program, Rule
from tidelog.spark import Options, SparkEngine
from tidelog.spark.data.dictionary import value_of
from tidelog.spark.data.fact_records import batches_of_atoms


@dataclass(frozen=True)
class Part:
    """One of the programs: its name, its rules and its facts."""

    name: str
    rules: tuple[Rule, ...]
    facts: Database

    def expected(self) -> Database:
        return materialise(self.rules, self.facts)


class Merged:
    """Several programs as one."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self.parts = list(parts)
        self._names: dict[tuple[int, str], str] = {}

    def name(self, number: int, predicate: str) -> str:
        return self._names.setdefault((number, predicate), f"q{len(self._names)}")

    def program(self) -> Program:
        rules = tuple(self._rule(number, rule) for number, part in enumerate(self.parts) for rule in part.rules)
        return Program(facts=tuple(self._facts()), rules=rules)

    def _facts(self) -> Iterable[Atom]:
        for number, part in enumerate(self.parts):
            for predicate, rows in part.facts.items():
                yield from (Atom(self.name(number, predicate), row) for row in rows)

    def _rule(self, number: int, rule: Rule) -> Rule:
        return Rule(self._atom(number, rule.head), tuple(self._item(number, item) for item in rule.body))

    def _item(self, number: int, item: BodyItem) -> BodyItem:
        match item:
            case Atom():
                return self._atom(number, item)
            case Negation(atom=atom):
                return Negation(self._atom(number, atom))
        return item

    def _atom(self, number: int, atom: Atom) -> Atom:
        return replace(atom, predicate=self.name(number, atom.predicate))

    def run(self, spark: SparkSession, folder: Path, options: Options) -> tuple[SparkEngine, list[Database]]:
        """Materialise all programs; the engine, and the facts of each program."""
        program = self.program()
        engine = SparkEngine(spark, program, str(folder), options=options)
        engine.load(batches=batches_of_atoms(program.facts, "test"))
        engine.materialise()
        return engine, self._results(engine)

    def _results(self, engine: SparkEngine) -> list[Database]:
        found: list[Database] = [{} for _ in self.parts]
        given = facts_of(engine)
        for (part, predicate), name in self._names.items():
            if name in given and not is_hidden(predicate):
                found[part][predicate] = given[name]
        return found


def facts_of(engine: SparkEngine) -> Database:
    """All facts of an engine, which has none twice."""
    terms = {
        row[0]: Constant(value_of(tuple(row[1:])))
        for row in engine.dictionary.frame().select("id", "value.*").collect()
    }
    names = {relation.number: (name, relation.arity) for name, relation in engine.relations.items()}
    filled = [name for name, relation in engine.relations.items() if relation.parts]
    found: dict[str, list[Row]] = {}
    for number, *cells in engine.relations.wide(filled).collect():
        name, arity = names[number]
        found.setdefault(name, []).append(tuple(terms[cell] for cell in cells[:arity]))
    for name, rows in found.items():
        assert len(set(rows)) == len(rows), f"repeated facts of {name}"
    return {name: set(rows) for name, rows in found.items()}
