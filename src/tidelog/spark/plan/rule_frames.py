"""One plan of one rule as a DataFrame: each step of the plan is a join, an anti-join, a column or a filter.

A variable is bound to an id, to a value, or to both. Facts bind ids, and expressions bind values; the other form is
looked up in the dictionary where a step needs it. `=` and `!=` on plain terms need no values while no constant is a
float: then two constants are equal by value exactly when they are the same constant. The heads of all rules of a round
become one frame; constants that rules computed get their ids there. What stands for an id is up to the dictionary:
without ids, a constant stands for itself (`dataframes/lazy_rules.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Protocol

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from tidelog.language.syntax import Aggregate, Atom, Call, Comparison, Constant, Expression, Variable, variables
from tidelog.program.normal_form import NormalRule, is_foreign
from tidelog.program.plan import Absent, Compare, Define, Match, Plan, Take
from tidelog.spark.data.dictionary import VALUE_TYPE, Dictionary, fields_of
from tidelog.spark.data.wide_frames import Cut, keys, padded, union_all
from tidelog.spark.plan.sql_expressions import Functions, aggregate, arithmetic, comparison, foreign_call

Lookup = Callable[[Take | Match | Absent], DataFrame]
"""The facts that a step is to match, in columns `c0`, `c1`, …"""


class Terms(Protocol):
    """What rules need of a dictionary: columns of values for columns of ids and back, and whether there are floats."""

    @property
    def floats(self) -> bool: ...

    def with_values(self, frame: DataFrame, columns: Mapping[str, str], missing: bool = False) -> DataFrame: ...

    def with_known_ids(self, frame: DataFrame, columns: Mapping[str, str]) -> DataFrame: ...


@dataclass
class Context:
    """What the rules of a round share. `failures` counts the rule instances that had no value, if that is wanted."""

    spark: SparkSession
    dictionary: Terms
    ids: Mapping[Constant, int | Column]
    functions: Functions
    failures: list[tuple[NormalRule, Observation]] = field(default_factory=list)
    counts_failures: bool = True
    id_type: str = "bigint"


@dataclass(frozen=True)
class Head:
    """The facts that a rule yields: columns `c0`, `c1`, … of ids, except those in `unencoded`, which hold values."""

    frame: DataFrame
    unencoded: tuple[str, ...]


def evaluate(plan: Plan, lookup: Lookup, context: Context, small: bool = False) -> Head:
    """The heads of all instances that a plan finds, with repetitions.

    Where the plan starts from few facts (`small`), the matches are broadcast to the facts, not the other way round."""
    return _Evaluation(plan.rule, lookup, context, small).run(plan)


def needs_values(rule: NormalRule, by_identity: bool) -> bool:
    """Whether a rule needs to know more of its constants than which is which."""
    comparisons = [item for item in rule.conditions if not (by_identity and is_plain(item))]
    computed = [item for item in rule.definitions if isinstance(item.expression, Call)]
    return bool(comparisons or computed or rule.aggregates)


def is_plain(item: Comparison) -> bool:
    """Whether a comparison asks, while no constant is a float, only whether two constants are the same."""
    return item.operator in ("=", "!=") and not isinstance(item.left, Call) and not isinstance(item.right, Call)


class _Evaluation:
    def __init__(self, rule: NormalRule, lookup: Lookup, context: Context, small: bool) -> None:
        self._rule = rule
        self._lookup = lookup
        self._context = context
        self._small = small
        self._frame: DataFrame | None = None
        self._with_id: set[Variable] = set()
        self._with_value: set[Variable] = set()
        self._numbers: dict[Variable, int] = {}
        self._temporaries = 0

    def run(self, plan: Plan) -> Head:
        for step in plan.steps:
            match step:
                case Take(atom=atom):
                    self._take(atom, self._lookup(step))
                case Match(atom=atom):
                    self._match(atom, self._lookup(step))
                case Absent(atom=atom):
                    self._reject(atom, self._lookup(step))
                case Compare(comparison=item):
                    self._filter(self._holds(item))
                case Define(definition=definition, binds=binds):
                    (self._define if binds else self._check)(definition.variable, definition.expression)
        return self._aggregated() if self._rule.aggregates else self._plain_head()

    # ── columns of variables ─────────────────────────────────────────────────────────────────────────────────────

    def _number(self, variable: Variable) -> int:
        return self._numbers.setdefault(variable, len(self._numbers))

    def _id(self, variable: Variable) -> str:
        return f"x{self._number(variable)}"

    def _value(self, variable: Variable) -> str:
        return f"v{self._number(variable)}"

    @property
    def _bound(self) -> set[Variable]:
        return self._with_id | self._with_value

    @property
    def _matches(self) -> DataFrame:
        """The matches so far; at first, one that binds nothing."""
        if self._frame is None:
            self._frame = self._context.spark.range(1).select(F.lit(0).alias("unit"))
        return self._frame

    def _need_ids(self, wanted: Iterable[Variable]) -> None:
        """Look up the ids of computed values. A value without one is in no fact."""
        missing = [variable for variable in dict.fromkeys(wanted) if variable not in self._with_id]
        columns = {self._value(variable): self._id(variable) for variable in missing}
        if missing:
            self._frame = self._context.dictionary.with_known_ids(self._matches, columns)
            self._with_id.update(missing)

    def _need_values(self, wanted: Iterable[Variable]) -> None:
        missing = [variable for variable in dict.fromkeys(wanted) if variable not in self._with_value]
        columns = {self._id(variable): self._value(variable) for variable in missing}
        if missing:
            self._frame = self._context.dictionary.with_values(self._matches, columns)
            self._with_value.update(missing)

    # ── atoms ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _take(self, atom: Atom, facts: DataFrame) -> None:
        """Start from facts; of those of a negated atom, keep only the variables that the rest of the rule has too."""
        mentioned = list(dict.fromkeys(variables(atom)))
        kept = [variable for variable in mentioned if variable not in self._rule.negated_only]
        rows = self._selected(atom, facts, kept)
        self._frame = rows if len(kept) == len(mentioned) and mentioned else rows.distinct()
        self._with_id.update(kept)

    def _match(self, atom: Atom, facts: DataFrame) -> None:
        mentioned = list(dict.fromkeys(variables(atom)))
        shared = [variable for variable in mentioned if variable in self._bound]
        self._need_ids(shared)
        rows = self._selected(atom, facts, mentioned)
        if self._frame is None:
            self._frame = rows
        elif shared:
            self._frame = self._sent(self._frame).join(rows, [self._id(variable) for variable in shared])
        else:
            self._frame = self._sent(self._frame).crossJoin(rows)
        self._with_id.update(mentioned)

    def _reject(self, atom: Atom, facts: DataFrame) -> None:
        """Keep the matches for which no fact fits the atom; a variable that occurs only here may be anything."""
        shared = [variable for variable in dict.fromkeys(variables(atom)) if variable in self._bound]
        computed = [variable for variable in shared if variable not in self._with_id]
        self._need_ids(shared)
        rows = self._selected(atom, facts, shared).withColumn("unit", F.lit(0)).distinct()
        matches = self._matches
        if "unit" not in matches.columns:
            matches = matches.withColumn("unit", F.lit(0))
        columns = [*(self._id(variable) for variable in shared), "unit"]
        if self._small:
            rows = rows.join(self._sent(matches.select(*columns)), columns, "left_semi")
        # What is in no fact may have no id yet: unlike that of an atom's variable, it is good for nothing else.
        self._frame = matches.join(rows, columns, "left_anti").drop("unit", *map(self._id, computed))
        self._with_id.difference_update(computed)

    def _sent(self, frame: DataFrame) -> DataFrame:
        return F.broadcast(frame) if self._small else frame

    def _selected(self, atom: Atom, facts: DataFrame, kept: list[Variable]) -> DataFrame:
        """The facts that fit the constants and repeated variables of an atom; the columns of the variables to keep."""
        first: dict[Variable, str] = {}
        tests: list[Column] = []
        for number, term in enumerate(atom.arguments):
            name = f"c{number}"
            if isinstance(term, Constant):
                tests.append(F.col(name) == self._context.ids[term])
            elif isinstance(term, Variable) and first.setdefault(term, name) != name:
                tests.append(F.col(name) == F.col(first[term]))
        rows = facts.where(reduce(Column.__and__, tests)) if tests else facts
        unit = [] if kept else [F.lit(0).alias("one")]
        return rows.select(*(F.col(first[variable]).alias(self._id(variable)) for variable in kept), *unit)

    # ── expressions ──────────────────────────────────────────────────────────────────────────────────────────────

    def _holds(self, item: Comparison) -> Column:
        if not self._context.dictionary.floats and is_plain(item) and self._with_id.issuperset(variables(item)):
            left, right = self._term_id(item.left), self._term_id(item.right)
            return left == right if item.operator == "=" else left != right
        self._need_values(variables(item))
        return F.expr(comparison(item.operator, self._computed(item.left), self._computed(item.right)))

    def _term_id(self, term: Expression) -> Column:
        return F.lit(self._context.ids[term]) if isinstance(term, Constant) else F.col(self._id(term))  # type: ignore[arg-type]

    def _define(self, variable: Variable, expression: Expression) -> None:
        if isinstance(expression, Variable) and expression in self._with_id:
            self._frame = self._matches.withColumn(self._id(variable), F.col(self._id(expression)))
            self._with_id.add(variable)
            return
        self._need_values(variables(expression))
        computed = self._computed(expression)
        self._frame = self._matches.withColumn(self._value(variable), F.col(computed))
        self._with_value.add(variable)
        if isinstance(expression, Call):
            self._filter(F.when(F.col(self._value(variable)).isNotNull(), F.lit(True)))

    def _check(self, variable: Variable, expression: Expression) -> None:
        """Keep the matches in which a variable that is already bound is this very constant."""
        if isinstance(expression, Variable) and self._with_id.issuperset((variable, expression)):
            self._frame = self._matches.where(F.col(self._id(variable)) == F.col(self._id(expression)))
            return
        self._need_values(variables(expression))
        computed = self._computed(expression)
        if variable in self._with_value:  # It may have no id: nothing says that it is in any fact.
            self._frame = self._matches.where(F.col(self._value(variable)) == F.col(computed))
            return
        found = self._context.dictionary.with_known_ids(self._matches, {computed: "found"})
        self._frame = found.where(F.col("found") == F.col(self._id(variable))).drop("found")

    def _computed(self, expression: Expression) -> str:
        """The column with the value of an expression; every call has its own column, so nothing is computed twice."""
        match expression:
            case Constant(value=value):
                return self._held(F.struct(*map(F.lit, fields_of(value))).cast(VALUE_TYPE))
            case Variable():
                return self._value(expression)
            case Call(function=function, arguments=arguments):
                values = [self._computed(argument) for argument in arguments]
                if is_foreign(expression):
                    return self._held(foreign_call(function, values, self._context.functions))
                return self._held(F.expr(arithmetic(function, values)))

    def _held(self, column: Column) -> str:
        self._temporaries += 1
        name = f"t{self._temporaries}"
        self._frame = self._matches.withColumn(name, column)
        return name

    def _filter(self, test: Column) -> None:
        """Keep the matches for which a test holds; a match without a verdict counts as a failure."""
        tested = self._matches.withColumn("verdict", test)
        if self._context.counts_failures:
            failed = Observation()
            self._context.failures.append((self._rule, failed))
            tested = tested.observe(failed, F.count_if(F.col("verdict").isNull()).alias("failures"))
        self._frame = tested.where("verdict").drop("verdict")

    # ── heads ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _plain_head(self) -> Head:
        columns, unencoded = self._head_columns()
        return Head(self._matches.select(*columns or [F.lit(0).cast("bigint").alias("c0")]), tuple(unencoded))

    def _head_columns(self) -> tuple[list[Column], list[str]]:
        """The columns of the head without its aggregates, and which of them hold values."""
        columns, unencoded = [], []
        for number, term in enumerate(self._rule.head.arguments):
            name = f"c{number}"
            if isinstance(term, Variable) and term not in self._with_id:
                unencoded.append(name)
                columns.append(F.col(self._value(term)).alias(name))
            elif not isinstance(term, Aggregate):
                columns.append(self._term_id(term).cast(self._context.id_type).alias(name))
        return columns, unencoded

    def _aggregated(self) -> Head:
        """Group by the other terms of the head, and by a constant, so that there is always something to group by."""
        names = keys(len(self._rule.head.arguments))
        aggregates = {
            name: term
            for name, term in zip(names, self._rule.head.arguments, strict=True)
            if isinstance(term, Aggregate)
        }
        self._need_values(variable for item in self._rule.aggregates for variable in variables(item))
        columns, unencoded = self._head_columns()
        group = [*(name for name in names if name not in aggregates), "everything"]
        inputs = [F.col(self._value(term.argument)).alias(f"of_{name}") for name, term in aggregates.items()]  # type: ignore[arg-type]
        rows = self._matches.select(*columns, F.lit(0).alias("everything"), *inputs)
        parts = [
            aggregate(rows, group, term.function, f"of_{name}", term.distinct, name)
            for name, term in aggregates.items()
        ]
        self._frame = reduce(lambda left, right: left.join(right, group), parts)
        has_values = (F.col(name).isNotNull() for name in aggregates)
        self._filter(F.when(reduce(Column.__and__, has_values), F.lit(True)))
        return Head(self._matches.select(*names), (*unencoded, *aggregates))


# ── the heads of a round ─────────────────────────────────────────────────────────────────────────────────────────────


def encoded(heads: Sequence[tuple[int, int, Head]], cut: Cut, dictionary: Dictionary) -> DataFrame:
    """All heads, given with the number and arity of their predicates, as rows of ids in one wide frame.

    Heads that hold values are written to files first, because they are needed twice: for the new constants, and for
    the rows. Heads with values in the same columns are encoded together."""
    width = max(max(1, arity) for _, arity, _ in heads)
    found = []
    computed: dict[tuple[int, tuple[str, ...]], list[DataFrame]] = {}
    for number, arity, head in heads:
        rows = head.frame.withColumn("p", F.lit(number))
        if head.unencoded:
            computed.setdefault((arity, head.unencoded), []).append(rows)
        else:
            found.append(padded(rows, max(1, arity), width))
    if not computed:
        return union_all(found)
    tagged = [
        _uniform(rows, arity, unencoded, width).withColumn("s", F.lit(shape))
        for shape, ((arity, unencoded), frames) in enumerate(computed.items())
        for rows in frames
    ]
    stored = cut(union_all(tagged))
    values = F.explode(F.array(*(f"v{number}" for number in range(width)))).alias("value")
    dictionary.extend(stored.select(values).where("value IS NOT NULL"))
    for shape, (arity, unencoded) in enumerate(computed):
        rows = stored.where(F.col("s") == shape).drop(*unencoded)
        rows = dictionary.with_ids(rows, {f"v{name[1:]}": name for name in unencoded})
        found.append(padded(rows, arity, width))
    return union_all(found)


def _uniform(rows: DataFrame, arity: int, unencoded: Sequence[str], width: int) -> DataFrame:
    """Heads with a column of ids and one of values for each argument, at least one of them null."""
    columns = []
    for number, name in enumerate(keys(width)):
        has_value, has_id = name in unencoded, name not in unencoded and number < arity
        columns.append((F.col(name) if has_id else F.lit(None).cast("bigint")).alias(name))
        columns.append((F.col(name) if has_value else F.lit(None).cast(VALUE_TYPE)).alias(f"v{number}"))
    return rows.select("p", *columns)
