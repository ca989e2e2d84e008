"""The first facts of a materialisation: derived by the batch engine, and laid out as the first layers.

Nothing holds before, so there is nothing to compare with: all that is given is explicit, and all that follows comes.
The files that tasks have written become layers by columns that are the same in each row. Derivations are not counted.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.language.syntax import Program
from tidelog.spark.data.fact_parts import Part, Relations
from tidelog.spark.data.taking_in import in_shares, in_tasks
from tidelog.spark.data.wide_frames import keys
from tidelog.spark.maintain.given_facts import Records
from tidelog.spark.maintain.update_work import Work
from tidelog.spark.materialise.keyed_tasks import DRIVER_FACTS, files_of
from tidelog.spark.materialise.spark_engine import SparkEngine
from tidelog.spark.options import OnProgress
from tidelog.spark.plan.rule_changes import RuleChanges
from tidelog.spark.session import parallelism


@dataclass(frozen=True)
class Plain:
    """A file of ids, and whether its facts are explicit."""

    predicate: str
    number: int
    width: int
    path: str
    rows: int
    explicit: bool

    def with_state(self, folder: str) -> LayerFile:
        """The same facts in a file of a layer."""
        with pq.ParquetFile(self.path) as file:
            table = file.read(keys(self.width))
        rows = table.num_rows
        no, yes = (pa.array(np.full(rows, flag)) for flag in (False, True))
        state = {
            "e0": no,
            "h0": no,
            "e": yes if self.explicit else no,
            "n": pa.array(np.zeros(rows, np.int64)),
            "h": yes,
        }
        columns = {"q": pa.array(np.full(rows, self.number, np.int32))}
        columns |= dict(zip(table.column_names, table.columns, strict=True))
        path = Path(folder) / f"{uuid4().hex}.parquet"
        pq.write_table(pa.table(columns | state), path, use_dictionary=["q", "n"], compression="none")
        return LayerFile(self.predicate, str(path), rows, rows if self.explicit else 0)


@dataclass(frozen=True)
class LayerFile:
    """A file of a layer, how many facts it has, and how many of these are explicit."""

    predicate: str
    path: str
    rows: int
    explicit: int


def materialise_first(work: Work, rules: RuleChanges, records: Records, on_progress: OnProgress) -> None:
    """Take facts in, derive what follows from them, and settle all predicates, which have no facts yet."""
    taken = records.given(work)
    program = Program(rules=tuple(rules.graph.rules.values()))
    folder = str(work.staging.next_path())
    engine = SparkEngine(
        work.spark, program, folder, work.dictionary, work.functions, work.options, on_progress=on_progress
    )
    stored = work.facts.stored
    engine.relations.numbers = {name: found.number for name, found in stored.items()}
    engine.add(taken)
    given = {name: list(relation.parts) for name, relation in engine.relations.items()}
    engine.materialise()
    ruled = {rule.head.predicate for rule in rules.graph.rules.values()}
    found: dict[str, list[LayerFile]] = defaultdict(list)
    for file in _with_state(work, list(_plain_files(engine.relations, given))):
        found[file.predicate].append(file)
    place = work.staging.next_path("facts")
    for name in stored.keys() & (engine.relations.keys() | ruled):
        own = place / f"p={stored[name].number}"
        for file in found[name]:
            own.mkdir(parents=True, exist_ok=True)
            Path(file.path).rename(own / Path(file.path).name)
        rows, explicit = sum(file.rows for file in found[name]), sum(file.explicit for file in found[name])
        work.facts.settle_first(name, own, rows, explicit, counted=name not in ruled)


def _plain_files(relations: Relations, given: dict[str, list[Part]]) -> Iterator[Plain]:
    for name, relation in relations.items():
        for part in relation.parts:
            for path in files_of([part.path]):
                rows = pq.read_metadata(path).num_rows
                yield Plain(name, relation.number, relation.width, path, rows, part in given.get(name, ()))


def _with_state(work: Work, files: Sequence[Plain]) -> list[LayerFile]:
    """All files with the state of their facts: by the driver, if they are small."""
    folder = work.staging.next_path()
    folder.mkdir(parents=True)
    total = sum(file.rows for file in files)
    if total <= DRIVER_FACTS:
        return [file.with_state(str(folder)) for file in files]
    shares = in_shares(files, lambda file: file.rows, parallelism(work.spark))
    told = in_tasks(work.spark, partial(_share_with_state, shares, str(folder)), len(shares)).collect()
    return [LayerFile(**json.loads(row["told"])) for row in told]


def _share_with_state(shares: Sequence[Sequence[Plain]], folder: str, number: int) -> Iterator[str]:
    return (json.dumps(vars(file.with_state(folder))) for file in shares[number])
