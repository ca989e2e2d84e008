"""Small hyper-nodes inside one executor: the embedded engine solves them in a single task, fed and read by Arrow.

A round on Spark costs its latency however small it is. Components whose inputs are small go to one task together, as
far as they follow from each other. Rules that only ask which constant is which see ids in place of constants, and
nothing is decoded; the others get the values themselves. What the task finds may be far more than what it reads, so it
stops at a limit, and the components are then evaluated by rounds after all.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from tidelog.errors import LimitError
from tidelog.formats.batch import FactBatch
from tidelog.formats.tables import columns_of
from tidelog.language.syntax import Atom, BodyItem, Comparison, Constant, Negation, Rule
from tidelog.spark.data.dictionary import Fields, fields_of, value_of
from tidelog.spark.data.fact_records import RECORD_TYPE, record_batch, rejected
from tidelog.spark.plan.sql_expressions import Functions

BEYOND_LIMIT = "beyond the limit"
KNOWN, CAME, WENT = "known", "came", "went"
_SOURCE = "a task"

Arities = Mapping[str, int]
Batches = Iterator[pa.RecordBatch]


def with_ids(rule: Rule, ids: Mapping[Constant, int]) -> Rule:
    """A rule whose constants are the integers by which facts know them."""
    return Rule(_atom_with_ids(rule.head, ids), tuple(_item_with_ids(item, ids) for item in rule.body))


def _item_with_ids(item: BodyItem, ids: Mapping[Constant, int]) -> BodyItem:
    match item:
        case Atom():
            return _atom_with_ids(item, ids)
        case Negation(atom=atom):
            return Negation(_atom_with_ids(atom, ids))
        case Comparison(operator=operator, left=left, right=right):
            return Comparison(operator, _term_with_id(left, ids), _term_with_id(right, ids))


def _atom_with_ids(atom: Atom, ids: Mapping[Constant, int]) -> Atom:
    return Atom(atom.predicate, tuple(_term_with_id(term, ids) for term in atom.arguments))


def _term_with_id(term: Any, ids: Mapping[Constant, int]) -> Any:
    return Constant(ids[term]) if isinstance(term, Constant) else term


def solve_by_ids(
    wide: DataFrame,
    numbers: Mapping[str, int],
    outputs: Sequence[str],
    arities: Arities,
    rules: Sequence[Rule],
    limit: int,
) -> DataFrame:
    """What rules without values derive from rows of ids under the number of their predicate, in the same form.

    Facts that were given are left out. A row under -1 says that there was more than the limit."""
    text = "\n".join(map(str, rules))
    schema = _schema_of_ids(arities[name] for name in numbers)

    def solve(batches: Batches) -> Batches:
        given = _tables_by_predicate(list(batches), numbers, arities)
        kb = _solved_by_ids(text, given, arities, limit)
        if kb is None:
            yield _padded(schema, -1, pa.table({"c0": pa.array([0], pa.int64())}))
            return
        for name in outputs:
            found = _id_table(kb, name, arities[name])
            found = _minus(found, given[name]) if name in given else found
            if found.num_rows:
                yield _padded(schema, numbers[name], found)

    return wide.repartition(1).mapInArrow(solve, _type_of(schema))


def differences_by_ids(
    wide: DataFrame,
    numbers: Mapping[str, int],
    outputs: Sequence[str],
    arities: Arities,
    rules: Sequence[Rule],
    limit: int,
) -> DataFrame:
    """How what rules without values derive differs from what was known: under p * 2 what came, p * 2 + 1 what went.

    Of the rows given, those under p * 2 are the facts to start from, and those under p * 2 + 1 what was known."""
    text = "\n".join(map(str, rules))
    schema = _schema_of_ids(arities[name] for name in numbers)

    def solve(batches: Batches) -> Batches:
        held = list(batches)
        given = _tables_by_predicate(held, {name: number * 2 for name, number in numbers.items()}, arities)
        known = _tables_by_predicate(held, {name: numbers[name] * 2 + 1 for name in outputs}, arities)
        kb = _solved_by_ids(text, given, arities, limit)
        if kb is None:
            yield _padded(schema, -1, pa.table({"c0": pa.array([0], pa.int64())}))
            return
        for name in outputs:
            now = _id_table(kb, name, arities[name])
            before = known.get(name, now.slice(0, 0))
            for tag, found in ((0, _minus(now, before)), (1, _minus(before, now))):
                if found.num_rows:
                    yield _padded(schema, numbers[name] * 2 + tag, found)

    return wide.repartition(1).mapInArrow(solve, _type_of(schema))


def _schema_of_ids(arities: Iterable[int]) -> pa.Schema:
    """The number of a predicate, and ids as many as the widest has."""
    width = max(1, *arities)
    return pa.schema([("p", pa.int32()), *((f"c{number}", pa.int64()) for number in range(width))])


def _type_of(schema: pa.Schema) -> str:
    """The same as Spark writes it."""
    return ", ".join(["p int", *(f"{name} bigint" for name in schema.names[1:])])


def _solved_by_ids(text: str, given: Mapping[str, pa.Table], arities: Arities, limit: int) -> Any | None:
    """A knowledge base of rows of ids and rules; None where there is more than the limit."""
    facts = [FactBatch(name, _columns(table, arities[name]), _SOURCE, 1) for name, table in given.items()]
    try:
        return solved(text, facts, {}, limit)[0]
    except LimitError:
        return None


def _minus(left: pa.Table, right: pa.Table) -> pa.Table:
    if not left.num_rows or not right.num_rows:
        return left
    return left.join(right, left.column_names, join_type="left anti")


def _tables_by_predicate(
    held: Sequence[pa.RecordBatch], numbered: Mapping[str, int], arities: Arities
) -> dict[str, pa.Table]:
    if not held:
        return {}
    whole = pa.Table.from_batches(held)
    numbers = whole.column("p").to_numpy()
    found = {}
    for name, number in numbered.items():
        rows = np.flatnonzero(numbers == number)
        if rows.size:
            columns = [f"c{column}" for column in range(max(1, arities[name]))]
            found[name] = whole.select(columns).take(pa.array(rows))
    return found


def _columns(table: pa.Table, arity: int) -> list[pa.Array]:
    return [column.combine_chunks() for column in table.columns[:arity]]


def _id_table(kb: Any, name: str, arity: int) -> pa.Table:
    facts = kb.facts(name)
    if arity:
        return facts.to_arrow()
    return pa.table({"c0": pa.array([0] * len(facts), pa.int64())})


def _padded(schema: pa.Schema, number: int, table: pa.Table) -> pa.RecordBatch:
    rows = table.num_rows
    columns = [pa.array(np.full(rows, number, np.int32))]
    for name in schema.names[1:]:
        present = name in table.column_names
        columns.append(table.column(name).combine_chunks() if present else pa.nulls(rows, pa.int64()))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def solve_by_values(
    records: DataFrame,
    outputs: Sequence[str],
    arities: Arities,
    rules: Sequence[Rule],
    functions: Functions,
    limit: int,
) -> DataFrame:
    """What rules derive from records, as records, the given facts of their heads among them.

    One record has a reason: the number of instances that failed, or that there was more than the limit."""
    text = "\n".join(map(str, rules))

    def solve(batches: Batches) -> Batches:
        facts = [found for batch in batches for found in _fact_batches(batch)]
        kb, told = _solved_by_values(text, facts, functions, limit)
        yield told
        if kb is None:
            return
        for name in outputs:
            found = kb.facts(name)
            if len(found):
                columns = _one_array_each(found.to_arrow()) if arities[name] else []
                yield record_batch(FactBatch(name, columns, _SOURCE, 1))

    return records.repartition(1).mapInArrow(solve, RECORD_TYPE)


def differences_by_values(
    records: DataFrame,
    outputs: Sequence[str],
    arities: Arities,
    rules: Sequence[Rule],
    functions: Functions,
    limit: int,
) -> DataFrame:
    """How what rules derive from records differs from what was known: records from `CAME` or `WENT`.

    Records from `KNOWN` are what was known. One record has a reason, as in `solve_by_values`."""
    text = "\n".join(map(str, rules))

    def solve(batches: Batches) -> Batches:
        facts: list[FactBatch] = []
        known: dict[str, set[tuple[Fields, ...]]] = {name: set() for name in outputs}
        for batch in batches:
            is_known = np.array([source == KNOWN for source in batch.column("source").to_pylist()], bool)
            facts += _fact_batches(batch.filter(pa.array(~is_known)))
            for name, rows in _rows_by_predicate(batch.filter(pa.array(is_known))).items():
                known[name].update(tuple(map(fields_of, row)) for row in rows)
        kb, told = _solved_by_values(text, facts, functions, limit)
        yield told
        if kb is None:
            return
        for name in outputs:
            now = {tuple(map(fields_of, row)) for row in kb.facts(name)}
            for source, found in ((CAME, now - known[name]), (WENT, known[name] - now)):
                columns = columns_of([tuple(map(value_of, row)) for row in found], name)
                if columns is not None:
                    yield record_batch(FactBatch(name, columns, source, 1))

    return records.repartition(1).mapInArrow(solve, RECORD_TYPE)


def _solved_by_values(
    text: str, facts: list[FactBatch], functions: Functions, limit: int
) -> tuple[Any | None, pa.RecordBatch]:
    """A knowledge base of facts and rules, none beyond the limit, and the record that tells how it went."""
    try:
        kb, failures = solved(text, facts, functions, limit)
    except LimitError:
        return None, rejected(_SOURCE, [None], [BEYOND_LIMIT])
    return kb, rejected(_SOURCE, [None], [str(failures)])


def _fact_batches(batch: pa.RecordBatch) -> Iterator[FactBatch]:
    """Records as facts of the embedded engine."""
    for name, found in _rows_by_predicate(batch).items():
        columns = columns_of(found, name)
        if columns is not None:
            yield FactBatch(name, columns, _SOURCE, 1)


def _rows_by_predicate(batch: pa.RecordBatch) -> dict[str, list[tuple[Any, ...]]]:
    """Records as Python values; they are few."""
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for record in batch.select(["predicate", "arguments"]).to_pylist():
        values = tuple(value_of(tuple(cell.values())) for cell in record["arguments"])
        rows.setdefault(record["predicate"], []).append(values)
    return rows


def _one_array_each(table: pa.Table) -> list[pa.Array]:
    return [column.combine_chunks() if column.num_chunks != 1 else column.chunk(0) for column in table.columns]


def solved(text: str, facts: list[FactBatch], functions: Functions, limit: int) -> tuple[Any, int]:
    """A knowledge base of facts and rules, and how many rule instances failed for want of a value."""
    from tidelog.api.knowledge_base import KnowledgeBase

    kb = KnowledgeBase(max_facts=limit)
    for name, function in functions.items():
        kb.register(name, function)
    kb.load(facts)
    with warnings.catch_warnings():
        # Whoever reads the program is warned on the driver; nobody sees what a task prints.
        warnings.simplefilter("ignore")
        return kb, kb.add_rules(text).errors
