"""Arrow's stream format as a body: what it takes unpacked is known before anything is unpacked."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidelog.server.problems import Problem
from tidelog.server.requests.arrow_bodies import update_of_arrow

MOST = 100_000
EMPTY = pa.StructArray.from_buffers(pa.struct([]), 1 << 30, [None])


def stream_of(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=1 << 20)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def refused(body: bytes) -> Problem:
    with pytest.raises(Problem) as caught:
        update_of_arrow(body, "p", "add", MOST)
    return caught.value


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_what_is_small_when_it_is_unpacked_is_taken(compression: str | None) -> None:
    words = pa.array(["some", None, "words"] * 100)
    table = pa.table({"x": np.arange(300), "y": words, "z": words.dictionary_encode(), "w": pa.nulls(300)})
    found = update_of_arrow(stream_of(table, compression=compression), "p", "add", MOST)
    assert found["add"]["p"].equals(table)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_what_is_large_when_it_is_unpacked_is_refused(compression: str) -> None:
    text = "x" * 5_000_000
    for column in (pa.array(np.zeros(1_000_000, np.int64)), pa.array([text]), pa.array([text]).dictionary_encode()):
        body = stream_of(pa.table({"x": column}), compression=compression)
        assert len(body) < MOST
        problem = refused(body)
        assert (problem.status, problem.more["limit"]) == (413, {"name": "max_body", "value": MOST})


def test_several_batches_count_together() -> None:
    batch = pa.record_batch({"x": np.zeros(8_000, np.int64)})
    body = stream_of(pa.Table.from_batches([batch] * 2), compression="zstd")
    assert refused(body).status == 413


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"x": pa.NullArray.from_buffers(pa.null(), 1 << 30, [None])}),
        pa.table({"x": pa.RunEndEncodedArray.from_arrays(pa.array([1 << 30], pa.int64()), pa.array([7]))}),
        pa.Table.from_batches([pa.RecordBatch.from_struct_array(EMPTY)]),
    ],
    ids=["nulls", "runs", "no columns"],
)
def test_rows_without_bytes_are_counted(table: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)
    assert refused(sink.getvalue().to_pybytes()).status == 413


@pytest.mark.parametrize("length", [-2, -(1 << 63), (1 << 63) - 1, 0, 7])
def test_a_wrong_length_is_refused(length: int) -> None:
    body = stream_of(pa.table({"x": np.zeros(1000, np.int64)}), compression="lz4")
    assert refused(body.replace((8000).to_bytes(8, "little"), length.to_bytes(8, "little", signed=True))).status in (
        400,
        413,
    )


def test_a_body_that_is_damaged_anywhere_is_read_or_refused() -> None:
    chance = np.random.default_rng(1)
    body = stream_of(pa.table({"x": ["a", "b"], "y": pa.array(["c", "c"]).dictionary_encode()}), compression="zstd")
    for _ in range(300):
        wrong = bytearray(body)
        for place in chance.integers(len(wrong), size=chance.integers(1, 4)):
            wrong[place] = chance.integers(256)
        with suppress(Problem):
            update_of_arrow(bytes(wrong), "p", "add", MOST)
