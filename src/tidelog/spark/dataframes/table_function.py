"""`datalog`, a table function for SQL: `SELECT * FROM datalog('path(X, Y) :- …', TABLE(edges))`.

Spark asks first what the result will look like (`analyze`): the names and types of its columns follow from the program
and from the types of the table, as for `derive`. Then one task gets all rows, and the embedded engine solves the
program there. If the rules keep to the values of one column of the table, each task gets the rows of some of these
values instead, and no more than those have to fit into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pyarrow as pa
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, PartitioningColumn, SelectedColumn

from tidelog.errors import ArityError, DataError
from tidelog.formats.batch import BOOL, FLOAT, INT, STR, FactBatch, values_of
from tidelog.formats.columns.tables import columns_of
from tidelog.formats.files.rendering import CONSTANT_RENDERERS, render
from tidelog.language import display_predicate, parse_program
from tidelog.language.checks import check_arities
from tidelog.language.parameters import bind
from tidelog.language.parse_messages import Source
from tidelog.language.printer import plain_text
from tidelog.language.syntax import Atom, Program, Query, Rule, body_atoms, variables
from tidelog.language.written.expansion import with_plain_queries
from tidelog.program.catalogue import Catalogue
from tidelog.program.normal_form import normalise
from tidelog.spark.data.fact_sources import kind_of_spark_type, quoted
from tidelog.spark.dataframes.column_kinds import (
    NUMBERS,
    Kinds,
    column_names,
    is_native,
    kinds_of_columns,
    kinds_of_facts,
    names_of_heads,
    spark_type,
)
from tidelog.spark.materialise.embedded_tasks import solved
from tidelog.spark.plan.key_columns import key_columns
from tidelog.spark.plan.refusals import refuse_equality, refuse_expiries, refuse_windows

# Tasks get the rows of as many shares of the key's values as this.
SHARES = 64


@dataclass
class Analysis(AnalyzeResult):  # type: ignore[misc]
    """What `analyze` tells Spark, with what the tasks need to know."""

    program: str = ""
    table: T.StructType = field(default_factory=T.StructType)


def register(spark: SparkSession, name: str = "datalog") -> None:
    """Let a session's SQL call `datalog(program, TABLE(…))`.

    The table holds the facts of the one predicate that the program reads and does not derive. The result is what the
    program derives last: the answers to its query, or the facts of the predicate of its last rule. Columns are named
    after the variables there.

    Examples:
        >>> from tidelog.spark import register
        >>> register(spark)
        >>> spark.createDataFrame([("a", "b"), ("b", "c")], ["from", "to"]).createOrReplaceTempView("edges")
        >>> program = "path(X, Y) :- edge(X, Y).  path(X, Z) :- edge(X, Y), path(Y, Z)."
        >>> spark.sql(f"SELECT * FROM datalog('{program}', TABLE(edges)) ORDER BY X, Y").collect()
        [Row(X='a', Y='b'), Row(X='a', Y='c'), Row(X='b', Y='c')]
    """
    spark.udtf.register(name, F.udtf(Datalog, useArrow=False))


class Datalog:
    """What Spark calls: `analyze` before the query runs, `eval` for each row, `terminate` after the last."""

    @staticmethod
    def analyze(program: AnalyzeArgument, facts: AnalyzeArgument) -> AnalyzeResult:
        if not isinstance(program.value, str) or not program.isConstantExpression:
            raise DataError("the first argument of datalog is the program, as a text that is written there")
        if not facts.isTable:
            raise DataError("the second argument of datalog is a table: TABLE(edges)")
        assert isinstance(facts.dataType, T.StructType)
        outline = Outline.of(program.value, facts.dataType)
        found = Analysis(outline.schema, program=program.value, table=facts.dataType, select=_cast(facts.dataType))
        if outline.key is None:
            found.withSinglePartition = True
        else:
            name = quoted(facts.dataType.names[outline.key])
            found.partitionBy = [PartitioningColumn(f"pmod(hash({name}), {SHARES})")]
        return found

    def __init__(self, analysis: Analysis) -> None:
        self._outline = Outline.of(analysis.program, analysis.table)
        self._rows: list[Row] = []

    def eval(self, program: str, facts: Row) -> None:
        """Keep a row: nothing is known before all of them are there."""
        self._rows.append(facts)

    def terminate(self) -> Iterator[tuple[Any, ...]]:
        yield from self._outline.solve(self._rows)


@dataclass(frozen=True)
class Outline:
    """What a program makes of a table: which predicate it holds, what is derived last, and with which columns."""

    program: Program
    reads: str
    derives: str
    names: list[str]
    kinds: list[Kinds]
    rules: tuple[Rule, ...] = field(repr=False, default=())

    @classmethod
    def of(cls, text: str, table: T.StructType) -> Outline:
        """Raises if the program and the table do not fit together."""
        program = parse_program(text)
        refuse_expiries(program.expiries, "a table function")
        rules, derives, names = _last(program, text)
        for rule in rules:
            refuse_equality(rule, "a table function")
            refuse_windows(rule, "a table function")
        Catalogue(dict(program.prefixes)).check(rules, (), frozenset(), program.predicates)
        arities = check_arities((*program.predicates, *program.facts, *rules), {}, dict(program.prefixes))
        reads = _read_predicate(program, rules)
        if arities[reads] != len(table.fields):
            raise ArityError(
                f"`{display_predicate(reads, dict(program.prefixes))}` has {arities[reads]} arguments, but the table "
                f"has {len(table.fields)} columns; select {arities[reads]} of them: "
                f"TABLE(SELECT … FROM …)"
            )
        kinds = kinds_of_facts(program.facts)
        given = [frozenset((kind_of_spark_type(each.dataType, f"column {each.name}"),)) for each in table.fields]
        known = kinds.get(reads, [frozenset()] * len(given))
        kinds[reads] = [one | other for one, other in zip(known, given, strict=True)]
        found = kinds_of_columns([normalise(rule) for rule in rules], kinds, {})
        return cls(program, reads, derives, names, list(found[derives]), rules)

    @property
    def schema(self) -> T.StructType:
        fields = zip(self.names, self.kinds, strict=True)
        found = [T.StructField(name, spark_type(kinds), nullable=False) for name, kinds in fields]
        return T.StructType(found or [T.StructField("holds", T.BooleanType(), nullable=False)])

    @property
    def key(self) -> int | None:
        """The column of the table to whose values the rules keep, if there is one and the result has it as well."""
        columns = key_columns(self.rules, {self.reads})
        if columns is None or self.derives not in columns:
            return None
        # Every task has the facts of the text: those of a predicate with a key would be there more than once.
        return None if any(fact.predicate in columns for fact in self.program.facts) else columns[self.reads]

    def solve(self, rows: list[Row]) -> Iterable[tuple[Any, ...]]:
        """The result, from rows of the table."""
        given = [(self.reads, rows), *self.program.rows.items()]
        batches = [
            FactBatch(predicate, columns, "the table or the program", 1)
            for predicate, found in given
            if (columns := columns_of(found, display_predicate(predicate, dict(self.program.prefixes)))) is not None
        ]
        kb, _ = solved("\n".join(map(plain_text, self.rules)), batches)
        facts = kb.facts(self.derives)
        if not self.names:
            return [(True,)] * len(facts)
        if not len(facts):
            return []
        columns = [column.combine_chunks() for column in facts.to_arrow().columns]
        found = zip(*map(_plain, columns, self.kinds), strict=True)
        # An integer and a float of the same value are two constants, and one double.
        return dict.fromkeys(found) if NUMBERS in self.kinds else found


def _last(program: Program, text: str) -> tuple[tuple[Rule, ...], str, list[str]]:
    """The rules, the predicate that is derived last, and the names of its columns; a query becomes a rule."""
    if program.queries:
        bind(program.queries[-1], {}, Source(text, "<program>"))  # Nobody could give values for parameters.
        program = with_plain_queries(program)
        query = program.queries[-1]
        head = Atom(_new_name(program), tuple(_asked(query)))
        return (*program.rules, Rule(head, query.body)), head.predicate, column_names(head.arguments)
    deriving = [rule for rule in program.rules if not rule.written.is_constraint]
    if not deriving:
        raise DataError("the program of datalog has no rules, so that there is nothing to derive")
    derives = deriving[-1].head.predicate
    return program.rules, derives, names_of_heads(program.rules, program.predicates)[derives]


def _new_name(program: Program) -> str:
    """A name for the answers that no predicate of the program has."""
    used = {atom.predicate for rule in program.rules for atom in (rule.head, *body_atoms(rule))}
    used |= {fact.predicate for fact in program.facts}
    used |= {atom.predicate for query in program.queries for atom in body_atoms(query)}
    return next(name for name in (f"answer{number}" for number in count()) if name not in used)


def _asked(query: Query) -> Iterator[Any]:
    """The named variables that a query binds."""
    bound = {variable for item in query.body if isinstance(item, Atom) for variable in variables(item)}
    bound |= {item.variable for item in normalise(Rule(Atom("#probe"), query.body)).definitions}
    named = dict.fromkeys(variable for item in query.body for variable in variables(item) if not variable.anonymous)
    return (variable for variable in named if variable in bound)


def _read_predicate(program: Program, rules: tuple[Rule, ...]) -> str:
    """The one predicate that rules read, and that neither rules nor facts of the text give."""
    given = {rule.head.predicate for rule in rules} | {fact.predicate for fact in program.facts}
    read = dict.fromkeys(atom.predicate for rule in rules for atom in body_atoms(rule))
    open_ones = [name for name in read if name not in given]
    if len(open_ones) == 1:
        return open_ones[0]
    shown = [f"`{display_predicate(name, dict(program.prefixes))}`" for name in open_ones]
    if not shown:
        raise DataError("the program of datalog reads nothing but its own facts, so that the table has no place in it")
    raise DataError(
        f"the program of datalog reads {', '.join(shown)}, but a table function has one table; give the facts of the "
        "others in the program, or use tidelog.spark.derive, which takes a DataFrame for each"
    )


_PLAIN_TYPES = {STR: "string", INT: "bigint", FLOAT: "double", BOOL: "boolean"}


def _cast(table: T.StructType) -> list[SelectedColumn]:
    """The columns of a table with the types of constants: dates are strings, say."""
    found = []
    for each in table.fields:
        type_ = _PLAIN_TYPES[kind_of_spark_type(each.dataType, f"column {each.name}")]
        found.append(SelectedColumn(f"CAST({quoted(each.name)} AS {type_})", alias=each.name))
    return found


def _plain(column: pa.Array, kinds: Kinds) -> list[Any]:
    """A column of facts as values of one type."""
    if not is_native(kinds):
        texts: list[Any] = render(column, CONSTANT_RENDERERS).to_pylist()
        return texts
    values: list[Any] = values_of(column)
    return list(map(float, values)) if kinds == NUMBERS else values
