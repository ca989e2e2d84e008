"""A handful of constants and their ids, straight from the files of the dictionary."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.formats.batch import BOOL, FLOAT, INT, IRI_KIND, LITERAL
from tidelog.language.syntax import Constant
from tidelog.spark.data.dictionary import FIELDS, Dictionary, Fields, fields_of, value_of
from tidelog.values import Value

Key = tuple[Any, ...]

_INTEGERS = (INT, BOOL)
_BATCH_ROWS = 1 << 18


def key_of(fields: Sequence[Any]) -> Key:
    """Fields of a constant that are equal exactly when the constants are: NaN is one constant."""
    kind, text, integer, number = fields
    return kind, text, integer, "nan" if number != number else number


def ids_of(parts: Iterable[str], wanted: Iterable[Fields]) -> dict[Key, int]:
    """The ids of those constants that have one."""
    keys = {key_of(fields): fields for fields in wanted}
    found: dict[Key, int] = {}
    if not keys:
        return found
    sought = _Sought(keys.values())
    for part in parts:
        for path in sorted(Path(part).glob("*.parquet")):
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(_BATCH_ROWS, columns=["id", *FIELDS]):
                    rows = batch.filter(sought.fitting(batch)).to_pydict()
                    numbered = zip(zip(*(rows[name] for name in FIELDS), strict=True), rows["id"], strict=True)
                    found.update((key, id_) for fields, id_ in numbered if (key := key_of(fields)) in keys)
    return found


def values_of_ids(parts: Iterable[str], wanted: set[int]) -> dict[int, Value]:
    """The constants of ids, from one pass over the dictionary."""
    ids = np.fromiter(sorted(wanted), np.int64)
    found: dict[int, Value] = {}
    for part in parts if wanted else ():
        for path in sorted(Path(part).glob("*.parquet")):
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(_BATCH_ROWS, columns=["id", *FIELDS]):
                    found |= _values_of_batch(batch, ids)
    return found


def values_that_name(parts: Iterable[str], start: str) -> dict[int, Value]:
    """The IRIs that begin so, and the literals whose datatype may, by their ids."""
    found: dict[int, Value] = {}
    for part in parts:
        for path in sorted(Path(part).glob("*.parquet")):
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(_BATCH_ROWS, columns=["id", *FIELDS]):
                    kind, text = batch.column("kind"), batch.column("text")
                    iris = pc.and_(pc.equal(kind, IRI_KIND), pc.starts_with(text, start))
                    literals = pc.and_(pc.equal(kind, LITERAL), pc.match_substring(text, start))
                    found |= _values(batch.filter(pc.or_(iris, literals)))
    return found


def _values_of_batch(batch: pa.RecordBatch, ids: np.ndarray[Any, Any]) -> dict[int, Value]:
    numbers = batch.column("id").to_numpy()
    places = np.searchsorted(ids, numbers)
    places[places == len(ids)] = 0
    return _values(batch.filter(pa.array(ids[places] == numbers)))


def _values(batch: pa.RecordBatch) -> dict[int, Value]:
    rows = batch.to_pydict()
    fields = zip(*(rows[name] for name in FIELDS), strict=True)
    return {id_: value_of(cells) for id_, cells in zip(rows["id"], fields, strict=True)}


def ids_of_constants(dictionary: Dictionary, constants: Iterable[Constant]) -> dict[Constant, int]:
    """The ids of the constants of rules, which get one where they have none; without a job, where that can be."""
    if not dictionary.is_local:
        return dictionary.ids_of(constants)
    wanted = {constant: fields_of(constant.value) for constant in constants}
    known = ids_of(dictionary.parts, wanted.values())
    new = [fields for fields in wanted.values() if key_of(fields) not in known]
    known |= {key_of(fields): dictionary.size + place for place, fields in enumerate(new)}
    dictionary.append(new)
    return {constant: known[key_of(fields)] for constant, fields in wanted.items()}


class _Sought:
    """Constants to be found, by the field that counts for each."""

    def __init__(self, wanted: Collection[Fields]) -> None:
        texts = (text for kind, text, _, _ in wanted if kind not in (*_INTEGERS, FLOAT))
        integers = (integer for kind, _, integer, _ in wanted if kind in _INTEGERS)
        numbers = (number for kind, _, _, number in wanted if kind == FLOAT)
        self._texts = pa.array(texts, pa.string())
        self._integers = pa.array(integers, pa.int64())
        self._numbers = pa.array(numbers, pa.float64())

    def fitting(self, batch: pa.RecordBatch) -> pa.Array:
        """The rows that agree with some constant in the field that counts for it; a few others may be among them."""
        kind = batch.column("kind")
        is_integer, is_float = pc.is_in(kind, pa.array(_INTEGERS, pa.int8())), pc.equal(kind, FLOAT)
        by_number = pc.if_else(is_float, pc.is_in(batch.column("number"), self._numbers), False)
        by_integer = pc.if_else(is_integer, pc.is_in(batch.column("integer"), self._integers), by_number)
        return pc.if_else(pc.or_(is_integer, is_float), by_integer, pc.is_in(batch.column("text"), self._texts))
