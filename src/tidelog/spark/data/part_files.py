"""Facts as files that Spark writes: a folder of part files for each predicate, in the formats of `tidelog.formats`.

Tasks make text with the same code as everywhere else. In Parquet, a column of one native kind has its type; any other
column holds constants as text, and the metadata of its field says so, as in `tidelog.formats.parquet`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidelog.formats.batch import BOOL, FLOAT, INT, STR
from tidelog.formats.dlog import dlog_lines
from tidelog.formats.folder import ZIPPED, file_of_predicate
from tidelog.formats.rdf import ntriples
from tidelog.formats.rendering import CONSTANT_RENDERERS, Columns, delimited_format, json_format, render
from tidelog.formats.tables import CONSTANT_KIND, KIND_KEY, NULLARY_KIND
from tidelog.spark.data.dictionary import FIELDS
from tidelog.spark.data.fact_records import column_of_structs

_LINES: dict[str, Callable[[str, list[Columns]], Iterable[bytes]]] = {
    "csv": lambda _, batches: delimited_format(",").lines(batches),
    "tsv": lambda _, batches: delimited_format("\t").lines(batches),
    "jsonl": lambda _, batches: json_format().lines(batches),
    "nt": ntriples,
    "dlog": dlog_lines,
}
_NATIVE = {STR: "text", INT: "integer", FLOAT: "number", BOOL: "integer"}


def write_predicate(values: DataFrame, arity: int, predicate: str, folder: str, format: str) -> str:
    """Write the facts of a predicate, given as columns of values, to a folder named after it; returns its path."""
    path = str(Path(folder) / file_of_predicate(predicate, format))
    if format == "parquet":
        native_columns(values, arity).write.mode("overwrite").parquet(path)
        return path
    lines = _LINES[format.removesuffix(ZIPPED)]

    def blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Facts as text, a block of lines for each batch."""
        for batch in batches:
            if batch.num_rows:
                columns = [column_of_structs(column) for column in batch.columns[:arity]]
                text = b"".join(lines(predicate, [columns])).decode().removesuffix("\n")
                yield pa.RecordBatch.from_pydict({"value": pa.array([text], pa.large_string())})

    compression = "gzip" if format.endswith(ZIPPED) else "none"
    values.mapInArrow(blocks, "value string").write.mode("overwrite").text(path, compression=compression)
    return path


def native_columns(values: DataFrame, arity: int) -> DataFrame:
    """Columns `c0`, `c1`, … of plain Spark types; finding the types takes a pass over all values."""
    if not arity:
        return of_kinds(values, ())
    kinds = values.agg(*(F.expr(f"collect_set(a{number}.kind)").alias(f"k{number}") for number in range(arity))).first()
    assert kinds is not None
    return of_kinds(values, [set(found) for found in kinds])


def of_kinds(values: DataFrame, kinds: Sequence[Set[int]], *kept: str) -> DataFrame:
    """Columns `c0`, `c1`, … of plain Spark types for columns of constants of these kinds; columns in `kept` stay."""
    if not kinds:
        return values.select(*kept, F.lit(True).alias("holds", metadata={KIND_KEY.decode(): NULLARY_KIND.decode()}))
    return values.select(*kept, *(_native(number, found) for number, found in enumerate(kinds)))


def _native(number: int, kinds: Set[int]) -> Column:
    name = f"c{number}"
    if len(kinds) == 1 and kinds <= _NATIVE.keys():
        [kind] = kinds
        column = F.col(f"a{number}")[_NATIVE[kind]]
        return (column.cast("boolean") if kind == BOOL else column).alias(name)
    text = F.pandas_udf(_constant_texts, "string")(F.col(f"a{number}"))
    return text.alias(name, metadata={KIND_KEY.decode(): CONSTANT_KIND.decode()})


def _constant_texts(frame):  # type: ignore[no-untyped-def]
    """Constants as text, from a pandas frame of their fields.

    No field is missing: what pandas takes for missing is the number `nan`."""
    structs = pa.StructArray.from_arrays([pa.array(frame[name], from_pandas=False) for name in FIELDS], names=FIELDS)
    return render(column_of_structs(structs), CONSTANT_RENDERERS).to_pandas()
