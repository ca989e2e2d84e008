"""Throws damaged input at tidelog, case after case: `python fuzz_worker.py KIND SEED CASES`.

Each case is printed on standard output before it runs, so that a crash can be traced: `python fuzz_worker.py KIND SEED
1` runs it alone. Whatever is not refused by an error of tidelog must behave: what was taken in can be read, and is what
the input says. CASES may be a time, such as `60s`.
"""

from __future__ import annotations

import faulthandler
import io
import itertools
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidelog import KnowledgeBase, TidelogError
from tidelog.formats import FactBatch, read_file, read_updates
from tidelog.formats.batch import KINDS
from tidelog.machine import registers as M
from tidelog.store.arrow_columns import encode_arrow
from tidelog.store.terms import Terms
from tidelog.values import canonical, identity

# Seconds until a case counts as hanging, however slow the machine is.
PATIENCE = 300

TEXTS = ["", "a", "é", "\u2028", "a longer text of some bytes", "\U0001f30a", "1", "x" * 40]

# ── Arrow arrays made of buffers ─────────────────────────────────────────────────────────────────────────────────────


def hostile_array(choose: random.Random, depth: int = 0) -> pa.Array:
    """An array with sound buffers, or with buffers that are wrong in some way."""
    kinds = [
        _texts,
        _texts,
        _texts,
        _numbers,
        _views,
        *([_dictionary, _dictionary, _union, _union] if depth < 2 else []),
    ]
    made = choose.choice(kinds)(choose, depth)
    if len(made) > 1 and choose.random() < 0.3:
        start = choose.randrange(len(made))
        made = made.slice(start, choose.randrange(len(made) - start + 1))
    return made


def _damaged(choose: random.Random, data: bytes, often: float = 0.4) -> bytes:
    """Bytes with some changed or missing."""
    changed = bytearray(data)
    if changed and choose.random() < often:
        for _ in range(choose.randrange(1, 4)):
            changed[choose.randrange(len(changed))] = choose.choice((0, 1, 0x7F, 0x80, 0xC3, 0xED, 0xFF))
    if changed and choose.random() < often / 4:
        del changed[choose.randrange(len(changed)) :]
    return bytes(changed)


def _buffer(choose: random.Random, data: bytes, often: float = 0.4) -> pa.Buffer | None:
    return None if choose.random() < 0.02 else pa.py_buffer(_damaged(choose, data, often))


def _validity(choose: random.Random, count: int) -> tuple[pa.Buffer | None, int]:
    """Which rows are null, and how many are claimed to be."""
    if choose.random() < 0.85:
        return None, 0
    bits = bytes(choose.choice((0xFF, 0xFF, 0xFE)) for _ in range(count // 8 + 1))
    return _buffer(choose, bits, 0.1), choose.choice((-1, 0, 1))


def _texts(choose: random.Random, _: int) -> pa.Array:
    texts = [choose.choice(TEXTS).encode() for _ in range(choose.randrange(0, 12))]
    wide = choose.random() < 0.4
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int64 if wide else np.int32)
    valid, nulls = _validity(choose, len(texts))
    buffers = [valid, _buffer(choose, offsets.tobytes()), _buffer(choose, b"".join(texts))]
    return pa.Array.from_buffers(pa.large_string() if wide else pa.string(), len(texts), buffers, nulls)


def _views(choose: random.Random, _: int) -> pa.Array:
    made = pa.array([choose.choice(TEXTS) for _ in range(choose.randrange(0, 8))], pa.string_view())
    valid, views, *data = made.buffers()
    # Arrow crashes when a view is made whose buffer is missing.
    damaged = [pa.py_buffer(_damaged(choose, bytes(buffer or b""))) for buffer in (views, *data)]
    return pa.Array.from_buffers(made.type, len(made), [valid, *damaged])


def _numbers(choose: random.Random, _: int) -> pa.Array:
    type_ = choose.choice((pa.int64(), pa.float64(), pa.uint64(), pa.int8(), pa.bool_(), pa.float16(), pa.binary()))
    count = choose.randrange(0, 9)
    data = choose.randbytes(8 * count + 8)
    valid, nulls = _validity(choose, count)
    if type_ == pa.binary():
        return pa.array([b"\xff"] * count, type_)
    return pa.Array.from_buffers(type_, count, [valid, _buffer(choose, data)], nulls)


def _dictionary(choose: random.Random, depth: int) -> pa.Array:
    values = hostile_array(choose, depth + 1)
    type_ = choose.choice((pa.int8(), pa.int32(), pa.uint16(), pa.int64(), pa.uint64()))
    count = choose.randrange(0, 9)
    most = max(len(values), 1)
    places = np.array([choose.randrange(most) for _ in range(count)], type_.to_pandas_dtype())
    valid, nulls = _validity(choose, count)
    indices = pa.Array.from_buffers(type_, count, [valid, _buffer(choose, places.tobytes(), 0.2)], nulls)
    return pa.DictionaryArray.from_arrays(indices, values, safe=False)


def _union(choose: random.Random, depth: int) -> pa.Array:
    children = [hostile_array(choose, depth + 1) for _ in range(choose.randrange(1, 4))]
    names = [choose.choice((*KINDS, "iri", "literal", "date")) for _ in children]
    codes_of = choose.sample(range(choose.choice((len(children), 128))), len(children))
    count = choose.randrange(0, 9)
    numbers = [choose.randrange(len(children)) for _ in range(count)]
    places = [choose.randrange(max(len(children[number]), 1)) for number in numbers]
    fields = [pa.field(name, child.type) for name, child in zip(names, children, strict=True)]
    type_ = pa.dense_union(fields, codes_of)
    codes = _buffer(choose, np.array([codes_of[number] for number in numbers], np.int8).tobytes(), 0.2)
    offsets = _buffer(choose, np.array(places, np.int32).tobytes(), 0.2)
    return pa.Array.from_buffers(type_, count, [None, codes, offsets], children=children)


def take_arrays(choose: random.Random, _: Path) -> None:
    """An array, or some chunks of one, through the front door and through the dictionary alone."""
    try:
        array = hostile_array(choose)
        column = pa.chunked_array([array, array]) if choose.random() < 0.2 else array
        table = pa.table([column], names=["c"])
    except pa.ArrowInvalid:
        return  # Arrow itself looks at the sizes of buffers
    door = choose.randrange(3)
    if door == 0:
        encode_arrow(Terms(np.zeros(M.SIZE, np.int64)), column)
        _agree(column)
        return
    kb = KnowledgeBase()
    if door == 1:
        kb.update(add={"p": table})
    else:
        kb.load([FactBatch("p", [column], "case", 1)])
    _agree(column)
    _read_all(kb)


def _agree(column: pa.Array | pa.ChunkedArray) -> None:
    """What was taken in is right by Arrow's own full validation, and decodes to what it says. Nobody looks at what
    belongs to no row; and offsets of unions may go back, which Arrow does not like.
    """
    terms = Terms(np.zeros(M.SIZE, np.int64))
    found = terms.table.decode_column(encode_arrow(terms, column))
    if len(column) and "union" not in str(column.type):
        column.validate(full=True)
        assert list(map(identity, found)) == [identity(canonical(value)) for value in column.to_pylist()]


def _read_all(kb: KnowledgeBase) -> None:
    """Check that everything that was taken in can be read."""
    for name in kb.predicates:
        rows = list(kb.facts(name))
        assert len(rows) == len(kb.facts(name))
        kb.facts(name).to_arrow().validate(full=True)
        assert all(row in kb.facts(name) for row in rows)


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _mutated(choose: random.Random, data: bytes) -> bytes:
    """A file whose bytes are flipped, cut, doubled or moved."""
    changed = bytearray(data)
    for _ in range(choose.choice((1, 1, 2, 5, 20))):
        if not changed:
            break
        place = choose.randrange(len(changed))
        match choose.randrange(6):
            case 0:
                changed[place] ^= 1 << choose.randrange(8)
            case 1:
                changed[place] = choose.choice((0, 0x0A, 0x22, 0x2C, 0x5C, 0x7F, 0x80, 0xE2, 0xFF))
            case 2:
                del changed[place : place + choose.randrange(1, 30)]
            case 3:
                changed[place:place] = changed[place : place + choose.randrange(1, 30)]
            case 4:
                changed[place:place] = choose.choice(
                    ("\u2028", "\x85", "\\ud800", '""', "{", "[" * 50, "1e999")
                ).encode()
            case 5:
                del changed[choose.randrange(place, len(changed)) :]
    return bytes(changed)


def _table(choose: random.Random) -> pa.Table:
    count = choose.randrange(0, 20)
    columns: list[Any] = [
        pa.array([choose.choice(TEXTS) for _ in range(count)]),
        pa.array([choose.randrange(-5, 5) for _ in range(count)]),
        pa.array([choose.choice(TEXTS) for _ in range(count)]).dictionary_encode(),
        pa.array([choose.random() for _ in range(count)]),
    ]
    chosen = choose.sample(columns, choose.randrange(1, 4))
    constant = pa.field("k", pa.string(), metadata={b"tidelog:kind": b"constant"})
    fields = [pa.field(f"c{number}", column.type) for number, column in enumerate(chosen)]
    texts = ['"a"', "1", "<a:b>", '"x"@en', '"5"^^<a:d>', "true", "1.5", "inf"]
    return pa.table(
        [*chosen, pa.array([choose.choice(texts) for _ in range(count)])], schema=pa.schema([*fields, constant])
    )


def take_ipc(choose: random.Random, _: Path) -> None:
    """A stream of Arrow, whose reader is Arrow's own: what it lets through comes in here."""
    sink = io.BytesIO()
    table = _table(choose)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)
    try:
        reader = pa.ipc.open_stream(_mutated(choose, sink.getvalue()))
        given = reader.read_all()
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError, ValueError):
        return
    kb = KnowledgeBase()
    kb.update(add={"p": given})
    _read_all(kb)


def take_parquet(choose: random.Random, folder: Path) -> None:
    sink = io.BytesIO()
    compression = choose.choice(("none", "snappy", "zstd"))
    pq.write_table(_table(choose), sink, compression=compression, use_dictionary=choose.random() < 0.5)
    path = folder / "p.parquet"
    path.write_bytes(_mutated(choose, sink.getvalue()))
    kb = KnowledgeBase(max_facts=10_000)
    kb.load(read_file(path))
    _read_all(kb)


GOOD_FILES = {
    "p.csv": 'a,1,"x, ""y"""\nb,2.5,<a:b>\n"é",true,"c"@en\n\r\nd,-7,"5"^^<a:d>\n',
    "p.tsv": 'a\t1\t"x\ty"\nb\tinf\tz\n',
    "p.jsonl": '["a", 1, {"iri": "a:b"}]\n["b", 2.5, {"text": "x", "language": "en"}]\n[true, "\\u00e9", "c"]\n',
    "p.nt": '<a:b> <a:c> "x"@en .\n_:x <a:c> "5"^^<a:d> .\n<a:b> <a:d> <a:e> .\n',
    "p.ttl": '@prefix e: <a:> .\ne:a e:b "x", 5 ; e:c [ e:d e:e ] .\n',
    "p.dlog": "@prefix e: <a:> .\np(a, \"x.y\", 1.5). e:q(e:a, <b:c>).\np(b, 'z', -3).\nr.\n",
}


def take_files(choose: random.Random, folder: Path) -> None:
    name = choose.choice(sorted(GOOD_FILES))
    path = folder / name
    path.write_bytes(_mutated(choose, GOOD_FILES[name].encode() * choose.randrange(1, 4)))
    kb = KnowledgeBase()
    kb.load(read_file(path, header=choose.random() < 0.2))
    _read_all(kb)


UPDATES = [
    {"add": {"edge": [["a", "b"], ["b", 1]]}, "delete": {"edge": [["a", "c"]]}},
    {"add_rules": "path(X, Y) :- edge(X, Y).", "add": {"p": [[{"iri": "a:b"}, True]]}},
    {"remove_rules": "path(X, Y) :- edge(X, Y)."},
    {"delete": {"p": [[{"text": "x", "datatype": "a:d"}, 1.5]]}},
]


def take_updates(choose: random.Random, _: Path) -> None:
    text = "".join(json.dumps(update, ensure_ascii=False) + "\n" for update in UPDATES).encode()
    kb = KnowledgeBase()
    for line in _mutated(choose, text * 2).split(b"\n"):
        try:
            for update in read_updates([line]):
                kb.update(**update)
        except TidelogError as error:
            str(error).encode()
    _read_all(kb)


def take_spool(choose: random.Random, folder: Path) -> None:
    """Parts of a spool, their names too, a batch in the inbox, and the records in both."""
    from tidelog.spark.streams.mqtt import Spool
    from tidelog.spark.streams.queued_engine import Inbox
    from tidelog.spark.streams.update_records import entry_of, parse_entry

    bodies = [json.dumps(update, ensure_ascii=False) for update in UPDATES] + [
        "add,edge,a,b",
        "\u2028",
        '{"op": "add"}',
    ]
    spool, last = Spool(folder / "spool"), 0
    for _ in range(choose.randrange(1, 4)):
        payloads = [choose.choice(bodies).encode() for _ in range(choose.randrange(1, 4))]
        damaged = [_mutated(choose, data) if choose.random() < 0.3 else data for data in payloads]
        last = spool.append(last, [("t", _payload(data)) for data in damaged])
    inbox = Inbox(folder / "inbox")
    inbox.put(0, [entry_of("t", data) for data in damaged])
    for path in [*(folder / "spool").iterdir(), *(folder / "inbox").iterdir()]:
        if choose.random() < 0.5:
            path.write_bytes(_mutated(choose, path.read_bytes()))
        if choose.random() < 0.1:
            path.rename(path.with_name(choose.choice(("2-1.jsonl", "1-99.jsonl", "0-0.jsonl", "x", "007-8.jsonl"))))
    _each(lambda: [entry.body for batch in inbox.batches for entry in inbox.get(batch)])
    for _, _, payload in _each(lambda: list(spool.read(0, spool.last))):
        body = payload if isinstance(payload, str) else entry_of("t", payload).body
        _each(lambda body=body: [parse_entry(body, csv=choose.random() < 0.3)])
    _each(lambda: [spool.forget(1)])


def _payload(data: bytes) -> str | bytes:
    from tidelog.spark.streams.mqtt import payload_of

    return payload_of(data)


def _each(read: Callable[[], list[Any]]) -> list[Any]:
    try:
        return read()
    except TidelogError as error:
        str(error).encode()
        return []


KINDS_OF_CASES: dict[str, Callable[[random.Random, Path], None]] = {
    "arrays": take_arrays,
    "ipc": take_ipc,
    "parquet": take_parquet,
    "files": take_files,
    "updates": take_updates,
    "spool": take_spool,
}


def seeds(first: int, enough: str) -> Iterator[int]:
    """A number of cases, or, for `60s`, as many as fit into that time."""
    if not enough.endswith("s"):
        yield from range(first, first + int(enough))
        return
    end = time.monotonic() + float(enough[:-1])
    for seed in itertools.count(first):
        if time.monotonic() > end:
            return
        yield seed


def main(kind: str, first: int, enough: str) -> None:
    take = KINDS_OF_CASES[kind]
    with tempfile.TemporaryDirectory() as name:
        for seed in seeds(first, enough):
            print(seed, flush=True)
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            folder = Path(name) / "case"
            folder.mkdir()
            try:
                take(random.Random(f"{kind} {seed}"), folder)
            except TidelogError as error:
                str(error).encode()  # a message that can be written
            shutil.rmtree(folder)


if __name__ == "__main__":
    faulthandler.enable()
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
