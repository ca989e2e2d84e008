"""Decoded facts as frames of plain Spark types, as they look in files.

A column of one native kind has its type; any other column holds constants as text, and the metadata of its field says
so, as in `tidelog.formats.files.parquet`.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidelog.formats.batch import BOOL, FLOAT, INT, STR
from tidelog.formats.columns.tables import CONSTANT_KIND, KIND_KEY, NULLARY_KIND
from tidelog.formats.files.rendering import CONSTANT_RENDERERS, render
from tidelog.spark.data.dictionary import FIELDS
from tidelog.spark.data.fact_records import column_of_structs

_NATIVE = {STR: "text", INT: "integer", FLOAT: "number", BOOL: "integer"}


def native_columns(values: DataFrame, arity: int) -> DataFrame:
    """Columns `c0`, `c1`, … of plain Spark types; finding the types takes a pass over all values."""
    if not arity:
        return _of_kinds(values, ())
    kinds = values.agg(*(F.expr(f"collect_set(a{number}.kind)").alias(f"k{number}") for number in range(arity))).first()
    assert kinds is not None
    return _of_kinds(values, [set(found) for found in kinds])


def _of_kinds(values: DataFrame, kinds: Sequence[Set[int]]) -> DataFrame:
    """Columns `c0`, `c1`, … of plain Spark types for columns of constants of these kinds."""
    if not kinds:
        return values.select(F.lit(True).alias("holds", metadata={KIND_KEY.decode(): NULLARY_KIND.decode()}))
    return values.select(*(_native(number, found) for number, found in enumerate(kinds)))


def _native(number: int, kinds: Set[int]) -> Column:
    name = f"c{number}"
    if len(kinds) == 1 and kinds <= _NATIVE.keys():
        [kind] = kinds
        column = F.col(f"a{number}")[_NATIVE[kind]]
        return (column.cast("boolean") if kind == BOOL else column).alias(name)
    text = constant_text(F.col(f"a{number}"))
    return text.alias(name, metadata={KIND_KEY.decode(): CONSTANT_KIND.decode()})


def constant_text(value: Column) -> Column:
    """Constants as text, as programs write them."""
    return F.pandas_udf(_constant_texts, "string")(value)


def _constant_texts(frame):  # type: ignore[no-untyped-def]
    """Constants as text, from a pandas frame of their fields.

    No field is missing: what pandas takes for missing is the number `nan`."""
    structs = pa.StructArray.from_arrays([pa.array(frame[name], from_pandas=False) for name in FIELDS], names=FIELDS)
    return render(column_of_structs(structs), CONSTANT_RENDERERS).to_pandas()
