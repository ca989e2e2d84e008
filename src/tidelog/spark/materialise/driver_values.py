"""Rules on values over few facts, solved by the driver: what a task would do, without a job.

The facts are decoded from the files of the dictionary, given to the program of a task (`embedded_tasks.py`), and what
it finds is encoded as facts that are read are (`taking_in.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tidelog.formats.batch import FactBatch
from tidelog.spark.data.decoded_files import Decoder, IdFile, read_ids
from tidelog.spark.data.dictionary import ARROW_VALUE, Dictionary
from tidelog.spark.data.encoded_blocks import FactFile, Layout
from tidelog.spark.data.fact_parts import BEYOND_LIMIT, Relations
from tidelog.spark.data.fact_records import column_of_structs, structs_of_column
from tidelog.spark.data.taking_in import take_in
from tidelog.spark.materialise.embedded_tasks import FAILURES, TaskProgram
from tidelog.spark.materialise.keyed_tasks import files_of


def add_from_values(
    program: TaskProgram, inputs: Sequence[str], relations: Relations, dictionary: Dictionary
) -> tuple[int, int] | None:
    """Add what follows: how many facts, and how many rule instances failed; None where there was too much."""
    failures = 0
    batches: list[FactBatch] = []
    names = {number: name for name, (number, _) in program.numbers.items()}
    for rows in program.solve(_decoded(program, inputs, relations, dictionary)):
        number = rows.column("p")[0].as_py()
        if number == BEYOND_LIMIT:
            return None
        if number == FAILURES:
            failures = rows.column(program.names[0])[0]["integer"].as_py()
            continue
        arity = program.numbers[names[number]][1]
        columns = [column_of_structs(rows.column(name)) for name in program.names[:arity]]
        batches.append(FactBatch(names[number], columns, "the rules", 1))
    layout = Layout(
        relations.next_folder("taken"), relations.numbers, {name: relations[name].arity for name in relations}
    )
    found: dict[str, list[FactFile]] = defaultdict(list)
    for file in take_in(relations.spark, [], batches, layout, dictionary).facts:
        found[file.predicate].append(file)
    return relations.add_files(found), failures


def _decoded(
    program: TaskProgram, inputs: Sequence[str], relations: Relations, dictionary: Dictionary
) -> Iterator[pa.RecordBatch]:
    """The facts of predicates as a task gets them."""
    files = [
        IdFile(name, relations[name].arity, path, 0)
        for name in inputs
        for path in files_of(part.path for part in relations[name].parts)
    ]
    ids = [read_ids(file) for file in files]
    cells = [column for columns in ids for column in columns]
    decoder = Decoder(dictionary.parts, np.unique(np.concatenate(cells)) if cells else np.empty(0, np.int64))
    for file, columns in zip(files, ids, strict=True):
        rows = len(columns[0]) if columns else 1
        values = [structs_of_column(decoder.column(column)) for column in columns]
        missing = [pa.nulls(rows, ARROW_VALUE)] * (len(program.names) - len(values))
        numbers = pa.array(np.full(rows, relations[file.predicate].number, np.int32))
        yield pa.RecordBatch.from_arrays([numbers, *values, *missing], names=["p", *program.names])
