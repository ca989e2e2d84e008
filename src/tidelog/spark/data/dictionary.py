"""Constants on Spark: values as structs, and the dictionary that leads from ids back to constants.

A value is a struct of its kind and three fields. The kind says which field counts: `text` (strings, IRIs, RDF
literals), `integer` (integers and booleans) or `number` (floats). No field is null and the others hold fixed values, so
two structs are equal exactly when they are the same constant. Facts are joined by ids alone.

Whoever has a constant computes its id (`term_hashes.py`), so encoding looks nothing up, and no constant ever changes
its id. The dictionary is there to decode, and to find constants with the same hash: whatever is added is compared with
what there is. A constant whose hash belongs to another one gets a different id, and is noted as an *exception*, which
all who compute ids know from then on.

The dictionary lies in Parquet files, a folder of them for the new constants of each step.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from tidelog.formats.batch import BOOL, FLOAT, INT, IRI_KIND, LITERAL, STR, Part, literal_text
from tidelog.language import parse_literal
from tidelog.spark.data.term_hashes import MOST, HashIds, hash_column, hashes_of
from tidelog.spark.data.wide_frames import NOT_A_TERM, observed, write_part
from tidelog.values import IRI, Literal, Value, canonical

FIELDS = ("kind", "text", "integer", "number")
VALUE_TYPE = "struct<kind:tinyint,text:string,integer:bigint,number:double>"
ARROW_VALUE = pa.struct([("kind", pa.int8()), ("text", pa.string()), ("integer", pa.int64()), ("number", pa.float64())])
ARROW_TERM = pa.schema([("id", pa.int64()), *ARROW_VALUE])
_STORED = "id bigint, kind tinyint, text string, integer bigint, number double"

Fields = tuple[int, str, int, Any]

# The place of the field that counts; for all other kinds it is the text.
_FIELD_OF_KIND = {INT: 2, BOOL: 2, FLOAT: 3}

Key = tuple[Any, ...]

Term = tuple[int, Fields]
"""A constant after its id."""


def fields_of(value: Value) -> Fields:
    match canonical(value):
        case bool(truth):
            return (BOOL, "", int(truth), 0.0)
        case int(integer):
            return (INT, "", integer, 0.0)
        case float(number):
            return (FLOAT, "", 0, number)
        case str(text):
            return (STR, text, 0, 0.0)
        case IRI(iri):
            return (IRI_KIND, iri, 0, 0.0)
        case Literal() as literal:
            return (LITERAL, literal_text(literal), 0, 0.0)


def value_of(fields: Sequence[Any]) -> Value:
    kind, text, integer, number = fields
    if kind == STR:
        return str(text)
    if kind == INT:
        return int(integer)
    if kind == FLOAT:
        return float(number)
    if kind == BOOL:
        return bool(integer)
    return IRI(text) if kind == IRI_KIND else parse_literal(text)


def key_of(fields: Sequence[Any]) -> Key:
    """A key for the fields of a constant, equal exactly when the constants are: NaN is one constant."""
    kind, text, integer, number = fields
    return kind, text, integer, "nan" if number != number else number


def values_frame(spark: SparkSession, values: Iterable[Value]) -> DataFrame:
    """Constants of the driver as a frame with a column `value`."""
    cells = [dict(zip(FIELDS, fields_of(value), strict=True)) for value in values]
    return spark.createDataFrame(pa.table({"value": pa.array(cells, ARROW_VALUE)})).select(
        F.col("value").cast(VALUE_TYPE).alias("value")
    )


@dataclass(frozen=True)
class TermIds:
    """How constants get their ids: the bits of the hash that `mask` keeps, but for the exceptions."""

    exceptions: tuple[Term, ...] = ()
    mask: int = MOST

    def of_part(self, part: Part) -> HashIds:
        """The ids of constants of one kind, each of which should occur once."""
        found = hashes_of(part) & self.mask
        for row in np.flatnonzero(np.isin(found, self._hashes)).tolist() if self.exceptions else ():
            fields = _fields_of_kind(part.kind, part.values[row].as_py())
            found[row] = self._known.get(key_of(fields), found[row])
        return found

    def of_fields(self, constants: Sequence[Fields]) -> list[int]:
        """The ids of a few constants."""
        hashed = self.hashes(constants)
        return [self._known.get(key_of(fields), id_) for fields, id_ in zip(constants, hashed, strict=True)]

    def hashes(self, constants: Sequence[Fields], attempt: int = 0) -> list[int]:
        """Hashes of a few constants; a later attempt has other ones, with all their bits."""
        found = [0] * len(constants)
        for kind in {fields[0] for fields in constants}:
            rows = [row for row, fields in enumerate(constants) if fields[0] == kind]
            cells = pa.array([constants[row][_FIELD_OF_KIND.get(kind, 1)] for row in rows])
            hashed = hashes_of(Part(kind, cells, None), attempt)
            for row, id_ in zip(rows, hashed.tolist(), strict=True):
                found[row] = id_ if attempt else id_ & self.mask
        return found

    @cached_property
    def _known(self) -> dict[Key, int]:
        return {key_of(fields): id_ for id_, fields in self.exceptions}

    @cached_property
    def _hashes(self) -> list[int]:
        """The hashes of the exceptions, which belong to others."""
        return self.hashes([fields for _, fields in self.exceptions])

    def column(self, value: str) -> Column:
        """The ids of a column of values; `NOT_A_TERM` for null."""
        column = hash_column(value).bitwiseAND(F.lit(self.mask).cast("bigint"))
        if self.exceptions:
            structs = (F.struct(*map(F.lit, fields)).cast(VALUE_TYPE) for _, fields in self.exceptions)
            ids = (F.lit(id_).cast("bigint") for id_, _ in self.exceptions)
            known = F.create_map(*(cell for pair in zip(structs, ids, strict=True) for cell in pair))
            column = F.coalesce(F.when(column.isin(self._hashes), known[F.col(value)]), column)
        return F.when(F.col(value).isNull(), F.lit(NOT_A_TERM).cast("bigint")).otherwise(column)


def _fields_of_kind(kind: int, value: Any) -> Fields:
    if kind in (INT, BOOL):
        return kind, "", int(value), 0.0
    return (kind, "", 0, value + 0.0) if kind == FLOAT else (kind, value, 0, 0.0)


@dataclass
class Dictionary:
    """The constants that have been met, in the folders `parts`; `floats` says whether any of them is a float."""

    spark: SparkSession
    folder: str
    parts: list[str] = field(default_factory=list)
    size: int = 0
    floats: bool = False
    ids: TermIds = field(default_factory=TermIds)

    def frame(self) -> DataFrame:
        """Every constant: columns `id` and `value`."""
        if not self.parts:
            return self.spark.createDataFrame([], f"id bigint, value {VALUE_TYPE}")
        stored = self.spark.read.schema(_STORED).parquet(*self.parts)
        return stored.select("id", F.struct(*FIELDS).alias("value"))

    def extend(self, values: DataFrame) -> int:
        """Add those constants of a column `value` that are not there yet; returns how many there were."""
        new = values.distinct().select(self.ids.column("value").alias("id"), "value")
        if self.size:
            known = self.frame().withColumnRenamed("value", "known")
            new = new.join(known, "id", "left").where("known IS NULL OR known != value")
        else:
            new = new.withColumn("known", F.lit(None).cast(VALUE_TYPE))
        found = Observation()
        counts = {
            "count": F.count("*"),
            "floats": F.count_if(F.col("value.kind") == FLOAT),
            "clashes": F.count_if(F.col("known").isNotNull()),
        }
        path = self.next_part
        told = new.observe(found, *(count.alias(name) for name, count in counts.items()))
        told.select("id", "value.*", F.col("known").isNotNull().alias("clash")).write.mode("overwrite").parquet(path)
        count = observed(found, "count")
        if not count:
            return 0
        if observed(found, "clashes") or self._repeats(path):
            self._settle(path)
        else:
            self.note(path, count, observed(found, "floats") > 0)
        return count

    def _repeats(self, path: str) -> bool:
        """Whether constants that are new together share an id."""
        ids = self.spark.read.schema("id bigint").parquet(path)
        return bool(ids.groupBy("id").count().where("count > 1").limit(1).count())

    def _settle(self, path: str) -> None:
        """Add new constants of which some have the id of another one: these get ids of their own."""
        stored = self.spark.read.schema(f"{_STORED}, clash boolean").parquet(path)
        shared = stored.groupBy("id").agg(F.count("*").alias("count"), F.max("clash").alias("taken"))
        shared = shared.where("count > 1 OR taken").select("id", "taken")
        rows = stored.join(shared, "id").select("id", *FIELDS, "taken").collect()
        terms = [(row["id"], tuple(row[name] for name in FIELDS)) for row in rows]
        clashing = clashing_terms(terms, {row["id"] for row in rows if row["taken"]})
        self.except_for(clashing)
        clear = self.spark.createDataFrame(terms_table([term for term in terms if term not in clashing]), _STORED)
        moved = [fields for _, fields in clashing]
        others = stored.join(shared, "id", "left_anti").select("id", *FIELDS).unionByName(clear)
        settled, found = f"{path}-settled", Observation()
        counts = F.count("*").alias("count"), F.count_if(F.col("kind") == FLOAT).alias("floats")
        others.observe(found, *counts).write.mode("overwrite").parquet(settled)
        self.note(settled, observed(found, "count"), observed(found, "floats") > 0)
        self._append_table(terms_table(list(zip(self.ids.of_fields(moved), moved, strict=True))))
        shutil.rmtree(path)

    def except_for(self, clashing: Sequence[Term]) -> None:
        """Give other ids to constants whose hash belongs to another one."""
        constants = [fields for _, fields in clashing]
        chosen: dict[Key, Term] = {}
        attempt = 0
        while constants:
            attempt += 1
            ids = self.ids.hashes(constants, attempt)
            used = self._used(ids) | {id_ for id_, _ in (*self.ids.exceptions, *chosen.values())}
            for id_, fields in zip(ids, constants, strict=True):
                if id_ not in used:
                    used.add(id_)
                    chosen[key_of(fields)] = id_, fields
            constants = [fields for fields in constants if key_of(fields) not in chosen]
        self.ids = replace(self.ids, exceptions=(*self.ids.exceptions, *chosen.values()))

    def _used(self, ids: Sequence[int]) -> set[int]:
        if not self.parts:
            return set()
        found = self.frame().where(F.col("id").isin(list(ids))).select("id").collect()
        return {row["id"] for row in found}

    def append(self, terms: Sequence[Term]) -> None:
        """Add a few constants that are not there yet, without a job. An id that is no hash makes an exception."""
        if not terms:
            return
        hashed = self.ids.of_fields([fields for _, fields in terms])
        exceptions = [term for term, id_ in zip(terms, hashed, strict=True) if term[0] != id_]
        self.ids = replace(self.ids, exceptions=(*self.ids.exceptions, *exceptions))
        self._append_table(terms_table(terms))

    def _append_table(self, table: pa.Table) -> None:
        path = Path(self.next_part)
        shutil.rmtree(path, ignore_errors=True)
        write_part(path, table.sort_by("id"))
        self.note(str(path), table.num_rows, FLOAT in set(table.column("kind").to_pylist()))

    def note(self, path: str, count: int, floats: bool) -> None:
        """Take in a folder of constants that are not there yet."""
        self.parts.append(path)
        self.size += count
        self.floats = self.floats or floats

    @property
    def next_part(self) -> str:
        """Where the next constants go."""
        return f"{self.folder}/part-{len(self.parts):05d}-{self.size}"

    def with_values(self, frame: DataFrame, columns: Mapping[str, str], missing: bool = False) -> DataFrame:
        """Add columns of values for columns of ids; `missing` keeps rows with a cell that is not an id, as null."""
        for id_name, value_name in columns.items():
            frame = frame.join(self._named(id_name, value_name), id_name, "left" if missing else "inner")
        return frame

    def with_ids(self, frame: DataFrame, columns: Mapping[str, str]) -> DataFrame:
        """Add columns of ids for columns of values, which are in the dictionary or null. Nothing is looked up."""
        return frame.withColumns({id_name: self.ids.column(value) for value, id_name in columns.items()})

    def with_known_ids(self, frame: DataFrame, columns: Mapping[str, str]) -> DataFrame:
        """Add columns of ids for columns of values; `NOT_A_TERM` for values that are not in the dictionary."""
        for value_name, id_name in columns.items():
            frame = frame.withColumn(id_name, self.ids.column(value_name))
            frame = frame.join(self._named(id_name, "met"), id_name, "left")
            is_this = F.col("met") == F.col(value_name)
            known = F.when(is_this, F.col(id_name)).otherwise(F.lit(NOT_A_TERM).cast("bigint"))
            frame = frame.withColumn(id_name, known).drop("met")
        return frame

    def _named(self, id_name: str, value_name: str) -> DataFrame:
        return self.frame().select(F.col("id").alias(id_name), F.col("value").alias(value_name))


def terms_table(terms: Sequence[Term]) -> pa.Table:
    """A few constants as they are stored."""
    columns = list(zip(*((id_, *fields) for id_, fields in terms), strict=True)) or [()] * len(ARROW_TERM)
    cells = [pa.array(column, field.type) for column, field in zip(columns, ARROW_TERM, strict=True)]
    return pa.Table.from_arrays(cells, schema=ARROW_TERM)


def clashing_terms(terms: Iterable[Term], taken: Iterable[int] = ()) -> list[Term]:
    """Of constants with the same id all but the first in their order, and all whose id is taken."""
    owners: dict[int, Key] = dict.fromkeys(taken, ())
    distinct = {(id_, key_of(fields)): (id_, fields) for id_, fields in terms}
    ordered = sorted(distinct.items(), key=lambda item: str(item[0]))
    return [term for (id_, key), term in ordered if owners.setdefault(id_, key) != key]
