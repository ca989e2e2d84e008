"""The facts of an update: from rows in any form to rows of ids that are given or taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.errors import ArityError, DataError
from tidelog.formats.batch import FactBatch
from tidelog.formats.columns.tables import columns_of
from tidelog.language import resolve_predicate
from tidelog.spark.data.dictionary import Dictionary
from tidelog.spark.data.encoded_blocks import FactFile, Layout
from tidelog.spark.data.fact_sources import Source
from tidelog.spark.data.taking_in import TakenIn, take_in
from tidelog.spark.data.term_lookup import FEW_VALUES, GIVE, TAKE, Encoded, Fact, encode_few
from tidelog.spark.data.wide_frames import NOT_A_TERM, keys, read_wide, union_all
from tidelog.spark.maintain.update_work import Work

Given = Mapping[str, Any]
"""Facts by predicate: a Spark DataFrame, or rows in any form that `KnowledgeBase.update` takes."""


class Records:
    """What an update gives and takes."""

    def __init__(self, spark: SparkSession, prefixes: Mapping[str, str], arities: Mapping[str, int]) -> None:
        self._spark = spark
        self._prefixes = prefixes
        self._batches: dict[str, list[FactBatch]] = {GIVE: [], TAKE: []}
        self._frames: dict[str, list[Source]] = {GIVE: [], TAKE: []}
        self._taken_in: dict[str, TakenIn] | None = None
        self.arities = dict(arities)
        self.names: set[str] = set()

    def add(self, facts: Given, kind: str) -> None:
        """Add facts to give, or to take."""
        for name, rows in facts.items():
            predicate = resolve_predicate(name, dict(self._prefixes))
            if isinstance(rows, DataFrame):
                self._note(predicate, len(rows.columns))
                self._frames[kind].append(Source(predicate=predicate, frame=rows))
                continue
            columns = columns_of(rows, name)
            if columns is not None:
                self._note(predicate, len(columns))
                self._batches[kind].append(FactBatch(predicate, columns, name, 1))

    def _note(self, predicate: str, arity: int) -> None:
        self.names.add(predicate)
        known = self.arities.setdefault(predicate, arity)
        if known != arity:
            raise ArityError(f"`{predicate}` has {known} arguments, but a row has {arity} values")

    def few_taken(self) -> list[FactBatch] | None:
        """What is to be taken, if it came as rows and is little."""
        return self._batches[TAKE] if self.are_few_rows else None

    @property
    def are_few_rows(self) -> bool:
        """Whether everything came as rows, and is little."""
        values = sum(batch.rows * len(batch.columns) for batches in self._batches.values() for batch in batches)
        return not any(self._frames.values()) and values <= FEW_VALUES

    def few(self, work: Work) -> Encoded | None:
        """All that is asked for, if it is little enough for the driver."""
        if self.are_few_rows:
            return encode_few(work.dictionary, self._batches[GIVE], self._batches[TAKE])
        files = {kind: found.facts for kind, found in self._gathered(work).items()}
        if sum(file.count * file.arity for own in files.values() for file in own) > FEW_VALUES:
            return None
        return Encoded([], *(frozenset(_facts(files[kind])) for kind in (GIVE, TAKE)))

    def encoded(self, work: Work) -> DataFrame | None:
        """Rows of ids under the numbers of their predicates, and whether each is to `give` or to `take`."""
        few = self.few(work)
        if few is not None:
            work.dictionary.append(few.terms)
            return given_frame(work, few, self.names)
        width = max(1, *(self.arities[name] for name in self.names))
        found = self._gathered(work)
        frames = [
            read_wide(self._spark, [file.path for file in found[kind].facts], width).withColumns(
                {GIVE: F.lit(kind == GIVE), TAKE: F.lit(kind == TAKE)}
            )
            for kind in (GIVE, TAKE)
            if found[kind].facts
        ]
        if len(frames) == 1 and not any(one.repeated for one in found.values()):
            return frames[0]
        kinds = (F.max(kind).alias(kind) for kind in (GIVE, TAKE))
        return work.staging.cut(union_all(frames).groupBy("p", *keys(width)).agg(*kinds))

    def given(self, work: Work) -> TakenIn:
        """Files of what is given alone: where nothing holds, there is nothing to take."""
        return self._gather(work, GIVE, work.dictionary)

    def _gathered(self, work: Work) -> dict[str, TakenIn]:
        """Files of what is given and taken, made once. The dictionary learns the constants of what is given."""
        if self._taken_in is None:
            scratch = replace(work.dictionary, folder=str(work.staging.next_path()), parts=list(work.dictionary.parts))
            dictionaries = {GIVE: work.dictionary, TAKE: scratch}
            self._taken_in = {kind: self._gather(work, kind, dictionaries[kind]) for kind in (GIVE, TAKE)}
        return self._taken_in

    def _gather(self, work: Work, kind: str, dictionary: Dictionary) -> TakenIn:
        pieces = [piece for source in self._frames[kind] for piece in source.pieces(self._spark)]
        if not pieces and not self._batches[kind]:
            return TakenIn()
        numbers = {name: work.facts.stored[name].number for name in self.names}
        layout = Layout(str(work.staging.next_path()), numbers, self.arities)
        found = take_in(self._spark, pieces, self._batches[kind], layout, dictionary)
        if found.rejected:
            raise DataError(min(file.first for file in found.rejected)[2])
        return found


def _facts(files: Sequence[FactFile]) -> Iterator[Fact]:
    for file in files:
        cells = pq.read_table(file.path, columns=keys(file.arity)).to_pydict()
        yield from ((file.predicate, ids) for ids in (zip(*cells.values(), strict=True) if file.arity else [()]))


def given_frame(work: Work, asked: Encoded, names: Iterable[str]) -> DataFrame | None:
    """What is given and taken of some predicates, laid out as by `Records.encoded`."""
    wanted = set(names)
    facts = [fact for fact in asked.give | asked.take if fact[0] in wanted]
    if not facts:
        return None
    number, *cells = work.facts.columns({name for name, _ in facts})
    table: dict[str, pa.Array] = {number: pa.array([work.facts.stored[name].number for name, _ in facts], pa.int32())}
    padding = [NOT_A_TERM] * len(cells)
    rows = [(*(ids or (0,)), *padding)[: len(cells)] for _, ids in facts]
    table |= {column: pa.array(ids, pa.int64()) for column, ids in zip(cells, zip(*rows, strict=True), strict=True)}
    for kind, chosen in ((GIVE, asked.give), (TAKE, asked.take)):
        table[kind] = pa.array([fact in chosen for fact in facts], pa.bool_())
    return work.spark.createDataFrame(pa.table(table))
