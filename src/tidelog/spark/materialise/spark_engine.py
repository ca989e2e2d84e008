"""The engine on Spark: a program over facts in a working folder, to load, materialise, query and read back."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from tidelog.errors import ArityError, DataError
from tidelog.language import resolve_predicate
from tidelog.language.checks import check_arities
from tidelog.language.syntax import Program, Query
from tidelog.spark.data.dictionary import Dictionary, value_of
from tidelog.spark.data.fact_encoding import Shapes, load, shapes_of
from tidelog.spark.data.fact_parts import Relations
from tidelog.spark.materialise.materialiser import Materialiser
from tidelog.spark.options import OnProgress, Options, Statistics
from tidelog.spark.plan.sql_expressions import Functions
from tidelog.values import Value


class SparkEngine:
    """One program, its facts and its consequences, in Parquet under a working folder that every executor can reach."""

    def __init__(
        self,
        spark: SparkSession,
        program: Program,
        folder: str,
        dictionary: Dictionary | None = None,
        functions: Functions | None = None,
        options: Options | None = None,
        on_progress: OnProgress = lambda _: None,
    ) -> None:
        self.program = program
        self.dictionary = dictionary or Dictionary(spark, f"{folder}/terms")
        self.relations = Relations(spark, f"{folder}/facts")
        self.arities = check_arities((*program.facts, *program.rules, *program.queries), {})
        self._spark = spark
        self._functions = functions or {}
        self._options = options or Options()
        self._on_progress = on_progress
        self._materialiser: Materialiser | None = None

    def load(self, records: DataFrame, shapes: Shapes | None = None) -> int:
        """Add the facts of records, none of which has a reason; returns how many distinct ones there were."""
        records, shapes = self.resolved(records, shapes_of(records) if shapes is None else shapes)
        arities = {name: self._arity(name, counts) for name, counts in shapes.items()}
        self.arities |= arities
        values = sum(arities[name] * sum(counts.values()) for name, counts in shapes.items())
        return load(records, arities, values, self.dictionary, self.relations)

    def resolved(self, records: DataFrame, shapes: Shapes) -> tuple[DataFrame, Shapes]:
        """The same, with the names of predicates resolved by the program's prefixes."""
        prefixes = dict(self.program.prefixes)
        names = {name: resolve_predicate(name, prefixes) for name in shapes}
        changed = {name: resolved for name, resolved in names.items() if name != resolved}
        if not changed:
            return records, shapes
        merged: Shapes = {}
        for name, counts in shapes.items():
            target = merged.setdefault(names[name], {})
            for arity, count in counts.items():
                target[arity] = target.get(arity, 0) + count
        return records.replace(changed, subset="predicate"), merged

    def expected_arity(self, predicate: str, counts: Mapping[int, int]) -> int:
        """The arity of a predicate: that of the program or, if it has none, that of most rows."""
        return self.arities.get(predicate, max(counts, key=lambda arity: counts[arity]))

    def _arity(self, predicate: str, counts: Mapping[int, int]) -> int:
        arity = self.expected_arity(predicate, counts)
        wrong = [found for found in counts if found != arity]
        if wrong:
            raise ArityError(
                f"`{predicate}` has {arity} arguments, but {counts[wrong[0]]:,} rows have {wrong[0]}; mend these rows"
            )
        return arity

    @property
    def statistics(self) -> Statistics:
        """What the materialisation did."""
        return self._materialiser.statistics if self._materialiser else Statistics()

    def materialise(self) -> Statistics:
        """Derive all consequences."""
        self._materialiser = Materialiser(
            self._spark,
            self.program.rules,
            self.dictionary,
            self.relations,
            self._functions,
            self._options,
            self._on_progress,
        )
        self._materialiser.run()
        return self._materialiser.statistics

    def answers(self, query: Query) -> list[dict[str, Value]]:
        """The distinct answers of a query over the materialisation."""
        assert self._materialiser is not None, "materialise first"
        names, frame = self._materialiser.answers(query)
        if frame is None:
            return []
        found = frame.collect()
        return [{name: value_of(tuple(cell)) for name, cell in zip(names, row, strict=False)} for row in found]

    def values(self, predicate: str) -> DataFrame:
        """The facts of a predicate as values, in columns `a0`, `a1`, …; one of arity 0 has a column `c0`."""
        arity = self.relations[predicate].arity
        frame = self.relations.frame(predicate)
        if not arity:
            return frame
        decoded = self.dictionary.with_values(frame, {f"c{number}": f"a{number}" for number in range(arity)})
        return decoded.select(*(f"a{number}" for number in range(arity)))


def refuse_bad_records(records: DataFrame) -> None:
    """Raise for the first record that is not a fact."""
    bad = records.where("reason IS NOT NULL").orderBy("source", "row").select("reason").first()
    if bad is not None:
        raise DataError(bad["reason"])
