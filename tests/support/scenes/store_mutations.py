"""Random changes of what a store consists of: JSON, texts, bytes, and tables as arrays or as Parquet."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.storage.array_files import MAGIC

# These may replace any value.
ODDITIES: list[Any] = [
    *(None, True, False, -1, 0, 1, 2, 3, 255, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 10**30, -(2**63), 0.5, 1e308),
    *(
        float("nan"),
        float("inf"),
        "",
        "x",
        "#base path",
        "#groups 13",
        "path",
        "../CURRENT",
        "a\x1fb",
        "\ud800",
        "p(X).",
    ),
    *([], {}, [1], {"a": 1}, [[]], "p(X, Y, Z) :- path(X, Y), edge(Y, Z).", "p(X) :- q(X), not p(X)."),
]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value: what it is in, and its key there."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


def mutate_json(value: Any, dice: random.Random) -> None:
    """Make one random change."""
    spots = list(places(value))
    # Of long lists of the same, each place is one of many: choose by what it is called as often as by where it is.
    by_name: dict[str, list[tuple[Any, Any]]] = {}
    for spot in spots:
        by_name.setdefault(str(spot[1]) if isinstance(spot[0], dict) else "an item", []).append(spot)
    inside, key = dice.choice(by_name[dice.choice(list(by_name))] if dice.random() < 0.5 else spots)
    match dice.randrange(8):
        case 0 | 1:
            inside[key] = dice.choice(ODDITIES)
        case 2:
            del inside[key]
        case 3:
            other, there = dice.choice(spots)
            inside[key] = json.loads(json.dumps(other[there]))
        case 4 if isinstance(inside, list):
            inside.insert(dice.randrange(len(inside) + 1), inside[key])
        case 4:
            inside[dice.choice(["x", "#base path", "rows", "path", "edge", "p q"])] = inside[key]
        case 5 if isinstance(inside[key], int | float):
            inside[key] += dice.choice([-1, 1, 2, 0.5, 2**31])
        case 6 if isinstance(inside, list):
            dice.shuffle(inside)
        case _ if isinstance(inside[key], str):
            inside[key] = mutate_text(inside[key], dice)
        case _:
            inside[key] = [inside[key]]


def mutate_text(text: str, dice: random.Random) -> str:
    words = ["path", "edge", "X", "Y", "Z", ", ", "(", ")", "not ", "count(X)", "1", "kin", "top", ".", " :- ", "", "é"]
    old = dice.choice(words)
    if old and old in text and dice.random() < 0.7:
        return text.replace(old, dice.choice(words), dice.choice([1, -1]))
    at = dice.randrange(len(text) + 1)
    return text[:at] + dice.choice(words) + text[at + dice.randrange(2) :]


def mutate_bytes(content: bytes, dice: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(dice.choice([1, 1, 2, 8])):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    if dice.random() < 0.1:
        del changed[dice.randrange(len(changed)) :]
    return bytes(changed)


def table_in(content: bytes) -> pa.Table | None:
    """The table in a file that may no longer be one."""
    try:
        table = pq.read_table(pa.BufferReader(content))
        table.validate(full=True)
        return table if table.column_names else None
    except (pa.ArrowException, OSError, ValueError):
        return None


def mutate_column(column: pa.ChunkedArray, dice: random.Random) -> pa.Array:
    values = column.to_pylist()
    at = dice.randrange(len(values)) if values else 0
    if pa.types.is_large_string(column.type) and dice.random() < 0.2:
        wrong = [None if value is None else value.encode() + b"\xff" for value in values]
        return pa.array(wrong, pa.large_binary()).view(pa.large_string())
    choices: list[Any] = [None, 0, 1, 2, 3, 5, 6, 255, -1, 2**31 - 1, -(2**31), 2**63 - 1, True, False, "", "a\x1fb"]
    match dice.randrange(4):
        case 0 if values:
            values[at] = dice.choice(choices)
        case 1 if values:
            values[at] = dice.choice(values)
        case 2:
            dice.shuffle(values)
        case _:
            values = [dice.choice(choices)] * len(values)
    try:
        return pa.array(values, column.type)
    except (pa.ArrowException, TypeError, OverflowError):
        try:
            return pa.array(values)
        except (pa.ArrowException, TypeError, OverflowError):
            return column.combine_chunks()


def mutate_table(content: bytes, dice: random.Random) -> bytes:
    if content.startswith(MAGIC):
        return mutate_arrays(content, dice)
    table = table_in(content)
    if table is None or not table.num_columns:
        return mutate_bytes(content, dice)
    name = dice.choice(table.column_names)
    place = table.column_names.index(name)
    match dice.randrange(9):
        case 0:
            table = table.slice(dice.randrange(table.num_rows + 1))
        case 1:
            table = pa.concat_tables([table, table.slice(0, dice.randrange(3))])
        case 2:
            table = table.drop_columns([name])
        case 3:
            names = [*table.column_names, "nonrecursive", "recursive", "c9", "explicit"]
            table = table.append_column(dice.choice(names), table[name])
        case 4:
            table = table.rename_columns({name: dice.choice(["c0", "c1", "recursive", "kind", "explicit"])})
        case 5:
            kind = dice.choice([pa.int64(), pa.int32(), pa.string(), pa.float64(), pa.bool_(), pa.uint8(), pa.binary()])
            try:
                table = table.set_column(place, name, table[name].cast(kind))
            except pa.ArrowException:
                table = table.set_column(place, name, pa.nulls(table.num_rows, kind))
        case _:
            table = table.set_column(place, name, mutate_column(table[name], dice))
    return written(table)


def alter_table(content: bytes, dice: random.Random) -> bytes:
    """Change values into others that might stand there: constants, counters, ranks, what is explicit."""
    if (arrays := arrays_in(content)) is not None:
        return alter_arrays(arrays, dice)
    table = table_in(content)
    if table is None or len(set(table.column_names)) < table.num_columns:
        return content
    for name in table.column_names:
        kind, values = table[name].type, table[name].to_pylist()
        if dice.random() < 0.5 or not values or kind not in (pa.int32(), pa.bool_()):
            continue
        choices = likely_values(name)
        for place in dice.sample(range(len(values)), dice.randint(1, len(values))):
            values[place] = dice.choice(choices)
        table = table.set_column(table.column_names.index(name), name, pa.array(values, kind))
    return written(table.slice(0, dice.choice([table.num_rows, dice.randrange(table.num_rows + 1)])))


def likely_values(column: str) -> list[Any]:
    """What might stand in a column of a relation."""
    if column == "explicit":
        return [True, False]
    numbers: list[Any] = [1, 2, 3, 5, 8, 13, 21]
    return [*numbers, 0, 0, 0, 1000, 2**30, 2**31 - 1] if column.endswith("recursive") else numbers


def arrays_in(content: bytes) -> dict[str, npt.NDArray[Any]] | None:
    """The arrays in a file that may no longer be one."""
    try:
        magic, header, data = content.split(b"\n", 2)
        arrays, at = {}, 0
        for name, (kind, length) in json.loads(header).items():
            arrays[name] = np.frombuffer(data, kind, length, at).copy()
            at += arrays[name].nbytes
        return arrays if magic + b"\n" == MAGIC else None
    except (ValueError, TypeError, AttributeError):
        return None


def written_arrays(arrays: dict[str, npt.NDArray[Any]]) -> bytes:
    header = json.dumps({name: [array.dtype.name, len(array)] for name, array in arrays.items()}).encode()
    return MAGIC + header + b"\n" + b"".join(array.tobytes() for array in arrays.values())


def mutate_arrays(content: bytes, dice: random.Random) -> bytes:
    arrays = arrays_in(content)
    if not arrays:
        return mutate_bytes(content, dice)
    name = dice.choice(list(arrays))
    match dice.randrange(8):
        case 0:
            end = dice.randrange(len(arrays[name]) + 1)
            arrays = {column: array[:end] for column, array in arrays.items()}
        case 1:
            arrays[name] = arrays[name][: dice.randrange(len(arrays[name]) + 1)]
        case 2:
            del arrays[name]
        case 3:
            arrays[dice.choice(["nonrecursive", "recursive", "c9", "explicit"])] = arrays[name]
        case 4:
            new = dice.choice(["c0", "c1", "recursive", "kind", "explicit"])
            arrays = {new if column == name else column: array for column, array in arrays.items()}
        case 5:
            arrays[name] = arrays[name].astype(dice.choice(["int64", "int32", "bool", "uint8", "float64"]))
        case 6:
            _, header, data = content.split(b"\n", 2)
            told = json.loads(header)
            mutate_json(told, dice)
            return MAGIC + dumped(told) + b"\n" + data
        case _ if len(arrays[name]):
            values, at = arrays[name], dice.randrange(len(arrays[name]))
            odd = np.array([0, 1, 2, 3, 5, 6, 255, -1, 2**31 - 1, -(2**31), 2**63 - 1, 0x1F, 0xE9])
            values[at] = dice.choice([*odd.astype(values.dtype), *values[:3]])
    return written_arrays(arrays)


def alter_arrays(arrays: dict[str, npt.NDArray[Any]], dice: random.Random) -> bytes:
    if "kind" in arrays:  # the dictionary
        return written_arrays(arrays)
    for name, values in arrays.items():
        if len(values) and dice.random() < 0.5:
            for place in dice.sample(range(len(values)), dice.randint(1, len(values))):
                values[place] = dice.choice(likely_values(name))
    most = max(map(len, arrays.values()), default=0)
    end = dice.choice([most, dice.randrange(most + 1)])
    return written_arrays({name: array[:end] for name, array in arrays.items()})


def written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def dumped(value: Any) -> bytes:
    """As JSON; half a surrogate pair is spelled out."""
    return json.dumps(value).encode()
