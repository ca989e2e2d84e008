"""Rules without recursion as one lazy plan: each predicate is a frame over the frames of those that it reads.

The rules are evaluated by `plan/rule_frames.py`, as everywhere on Spark, but with constants that stand for themselves:
there is no dictionary, so there is nothing to write before the plan runs, and Spark optimises it as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidelog.formats.batch import BOOL, FLOAT, INT, STR
from tidelog.language.syntax import Atom, Constant
from tidelog.program.normal_form import NormalRule
from tidelog.program.plan import ALL, Absent, Match, Take, make_plan
from tidelog.spark.data.dictionary import VALUE_TYPE, fields_of
from tidelog.spark.data.part_files import constant_text
from tidelog.spark.data.wide_frames import keys, union_all
from tidelog.spark.dataframes.column_kinds import NUMBERS, Kinds, is_native, spark_type
from tidelog.spark.plan.rule_frames import Context, evaluate
from tidelog.spark.plan.schedule import constants_of
from tidelog.spark.plan.sql_expressions import Functions, as_double


@dataclass(frozen=True)
class Themselves:
    """Constants that stand for themselves: what takes the place of a dictionary."""

    floats: bool

    def with_values(self, frame: DataFrame, columns: Mapping[str, str], missing: bool = False) -> DataFrame:
        return frame.withColumns({value: F.col(id_) for id_, value in columns.items()})

    def with_known_ids(self, frame: DataFrame, columns: Mapping[str, str]) -> DataFrame:
        return self.with_values(frame, columns)


@dataclass(frozen=True)
class LazyRules:
    """The frames of predicates that do not depend on themselves; `facts` gives those of all others.

    Frames have columns `c0`, `c1`, … of values; those of a predicate of arity 0 have a column `c0` of zeros."""

    spark: SparkSession
    rules: Mapping[str, Sequence[NormalRule]]
    facts: Callable[[str], DataFrame | None]
    functions: Functions
    floats: bool

    def frame(self, predicate: str, made: dict[str, DataFrame | None]) -> DataFrame | None:
        """The facts of a predicate; None if it has none. `made` has the frames that have been made."""
        if predicate not in made:
            rules = self.rules.get(predicate, ())
            found = [head for rule in rules if (head := self._head(rule, made)) is not None]
            given = self.facts(predicate)
            frames = [*([given] if given is not None else []), *found]
            whole = union_all(frames) if frames else None
            # What is given may have a row twice. That matters to what it is aggregated into, and nowhere else.
            made[predicate] = whole.distinct() if whole is not None and (rules or predicate in self._counted) else whole
        return made[predicate]

    @cached_property
    def _counted(self) -> frozenset[str]:
        """The predicates that rules with aggregates read."""
        found = (rule for rules in self.rules.values() for rule in rules if rule.aggregates)
        return frozenset(atom.predicate for rule in found for atom in rule.positives)

    def _head(self, rule: NormalRule, made: dict[str, DataFrame | None]) -> DataFrame | None:
        """What a rule derives; None if one of its atoms has no facts."""
        if any(self.frame(atom.predicate, made) is None for atom in rule.positives):
            return None
        present = [atom for atom in rule.negatives if self.frame(atom.predicate, made) is not None]
        wanted = {atom.predicate: self.frame(atom.predicate, made) for atom in (*rule.positives, *present)}

        def lookup(step: Take | Match | Absent) -> DataFrame:
            found = wanted.get(step.atom.predicate)
            return self._nothing(step.atom.arity) if found is None else found

        context = Context(
            self.spark,
            Themselves(self.floats),
            {constant: _literal(constant) for constant in constants_of([rule])},
            self.functions,
            counts_failures=False,
            id_type=VALUE_TYPE,
        )
        return evaluate(make_plan(rule, ALL, (), _estimate), lookup, context).frame

    def _nothing(self, arity: int) -> DataFrame:
        schema = ", ".join(f"{name} {VALUE_TYPE}" for name in keys(arity))
        return self.spark.createDataFrame([], schema or "c0 bigint")


def _literal(constant: Constant) -> Column:
    return F.struct(*map(F.lit, fields_of(constant.value))).cast(VALUE_TYPE)


def _estimate(atom: Atom, bound: tuple[int, ...]) -> float:
    """Nobody knows how many facts there will be; what is bound decides."""
    return 1e6 * 0.1 ** len(bound)


# ── columns of plain types ───────────────────────────────────────────────────────────────────────────────────────────


def typed(frame: DataFrame, names: Sequence[str], kinds: Sequence[Kinds]) -> DataFrame:
    """Columns of values as columns of plain Spark types, under names; arity 0 has one column, `holds`."""
    if not names:
        return frame.select(F.lit(True).alias("holds")).distinct()
    columns = [_plain(key, found).alias(name) for key, name, found in zip(keys(len(names)), names, kinds, strict=True)]
    plain = frame.select(*columns)
    # An integer and a float of the same value are two constants, and one double.
    return plain.distinct() if NUMBERS in kinds else plain


def nothing_typed(spark: SparkSession, names: Sequence[str], kinds: Iterable[Kinds]) -> DataFrame:
    """The same for a predicate without facts."""
    fields = [T.StructField(name, spark_type(found)) for name, found in zip(names, kinds, strict=True)]
    return spark.createDataFrame([], T.StructType(fields or [T.StructField("holds", T.BooleanType())]))


def _plain(name: str, kinds: Kinds) -> Column:
    if not is_native(kinds):
        return constant_text(F.col(name))
    if kinds == NUMBERS:
        return F.expr(as_double(name))
    [kind] = kinds
    field = {STR: "text", INT: "integer", FLOAT: "number", BOOL: "integer"}[kind]
    value = F.col(name)[field].cast(spark_type(kinds))
    wrong = F.raise_error(F.lit(f"a function returns a value that is no {spark_type(kinds).simpleString()}"))
    return F.when(F.col(name)["kind"] == kind, value).otherwise(wrong.cast(spark_type(kinds)))
