"""Facts that are taken in, by the driver alone: blocks, what they have in common, and files of facts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from tidelog.formats import read_file, values_of
from tidelog.formats.batch import FactBatch
from tidelog.spark.data import encoded_blocks
from tidelog.spark.data.decoded_files import Decoder, Target, write_decoded
from tidelog.spark.data.dictionary import Dictionary, TermIds
from tidelog.spark.data.encoded_blocks import Layout
from tidelog.spark.data.fact_parts import Relations, load
from tidelog.spark.data.fact_sources import Source
from tidelog.spark.data.taking_in import Piece, TakenIn, in_shares, take_in
from tidelog.spark.data.wide_frames import keys

Row = tuple[object, ...]


def taken_in(folder: Path, pieces: list[Piece], mask: int, **known: object) -> tuple[TakenIn, Dictionary]:
    dictionary = Dictionary(None, str(folder / "terms"), ids=TermIds(mask=mask))  # type: ignore[arg-type]
    layout = Layout(str(folder / "taken"), decoded=True, **known)  # type: ignore[arg-type]
    return take_in(None, pieces, [], layout, dictionary), dictionary  # type: ignore[arg-type]


def decoded(taken: TakenIn, dictionary: Dictionary) -> dict[str, list[Row]]:
    """The facts of files of ids; and they are those of the decoded files beside them."""
    found: dict[str, list[Row]] = {}
    for file in taken.facts:
        ids = [column.to_numpy() for column in pq.read_table(file.path, columns=keys(file.arity)).columns]
        wanted = sorted({int(id_) for cells in ids for id_ in cells})
        decoder = Decoder(dictionary.parts, pa.array(wanted, pa.int64()).to_numpy())
        rows = list(zip(*(values_of(decoder.column(cells)) for cells in ids), strict=True))
        assert file.decoded is not None
        [batch] = read_file(file.decoded, predicate=file.predicate)
        assert sorted(rows, key=str) == sorted(zip(*map(values_of, batch.columns), strict=True), key=str)
        found.setdefault(file.predicate, []).extend(rows)
    return found


@pytest.mark.parametrize("mask", [encoded_blocks.TermIds().mask, 0x3F], ids=["whole hashes", "hashes of six bits"])
def test_blocks_are_one_set_of_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mask: int) -> None:
    """Whatever blocks there are, and however many constants share a hash."""
    monkeypatch.setattr(encoded_blocks, "BLOCK_ROWS", 25)
    monkeypatch.setattr("tidelog.spark.data.text_sources._CHUNK_ROWS", 10)
    lines = [f"n{number % 40},{number % 7}.5" for number in range(90)]
    (tmp_path / "p.csv").write_text("\n".join([*lines, *lines[:5]]))
    (tmp_path / "q.csv").write_text("\n".join(map(str, range(60))))
    pieces = [piece for name in "pq" for piece in Source(f"{tmp_path}/{name}.csv", header=False).pieces(None)]  # type: ignore[arg-type]
    taken, dictionary = taken_in(tmp_path, pieces, mask)
    facts = decoded(taken, dictionary)
    assert set(facts["p"]) == {(f"n{number % 40}", number % 7 + 0.5) for number in range(90)}
    assert sorted(facts["q"]) == [(number,) for number in range(60)]
    numbers = {file.predicate: file.number for file in taken.facts}
    assert taken.repeated == {numbers["p"]}
    assert taken.rows == 155
    assert dictionary.size == 40 + 7 + 60
    assert bool(dictionary.ids.exceptions) == (mask == 0x3F)


def test_what_the_dictionary_knows_is_not_added_again(tmp_path: Path) -> None:
    dictionary = Dictionary(None, str(tmp_path / "terms"), ids=TermIds(mask=0xF))  # type: ignore[arg-type]
    columns = [pa.array(["a", "b", "c", "d"]), pa.array([1, 2, 3, 4])]
    for number in range(2):
        layout = Layout(str(tmp_path / f"taken-{number}"))
        take_in(None, [], [FactBatch("p", columns, "test", 1)], layout, dictionary)  # type: ignore[arg-type]
        assert dictionary.size == 8


def test_rows_of_another_length_than_most_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text("[1, 2]\n[3]\n[4, 5]\n[6]\n[7, 8]\n")
    (tmp_path / "q.jsonl").write_text("[1]\n")
    pieces = [piece for name in "pq" for piece in Source(f"{tmp_path}/{name}.jsonl").pieces(None)]  # type: ignore[arg-type]
    taken, _ = taken_in(tmp_path, pieces, 0xFFFF, arities={"q": 2})
    taken.reject_wrong_lengths(lambda _, counts: max(counts, key=counts.__getitem__), str.upper, str(tmp_path))
    reasons = {reason: count for file in taken.rejected for reason, count in file.reasons.items()}
    assert reasons == {"1 values, but `P` has 2 arguments": 2, "1 values, but `q` has 2 arguments": 1}
    [rows] = [file for file in taken.rejected if file.count == 2]
    assert pq.read_table(rows.path).column("row").to_pylist() == [2, 4]
    assert [(file.predicate, file.count) for file in taken.facts] == [("p", 3)]


def test_predicates_whose_names_share_a_hash_have_numbers_of_their_own(tmp_path: Path) -> None:
    names = ("plumless", "buckeroo")
    assert len({crc32(name.encode()) for name in names}) == 1
    pieces = []
    for name in names:
        (tmp_path / f"{name}.csv").write_text(f"{name}\n")
        pieces += Source(f"{tmp_path}/{name}.csv", header=False).pieces(None)  # type: ignore[arg-type]
    taken, dictionary = taken_in(tmp_path, pieces, 0xFFFF)
    relations = Relations(None, str(tmp_path / "facts"))  # type: ignore[arg-type]
    assert load(taken, relations) == 2
    assert len({relation.number for relation in relations.values()}) == 2
    for name, relation in relations.items():
        [part] = relation.parts
        assert pq.ParquetFile(next(Path(part.path).iterdir())).read(["q"]).column("q").to_pylist() == [relation.number]
        target = {name: Target(tmp_path / f"{name}.parquet", name)}
        write_decoded(relations, dictionary, target, str(tmp_path / "decoded"))
        [batch] = read_file(tmp_path / f"{name}.parquet")
        assert values_of(batch.columns[0]) == [name]


def test_files_of_a_predicate_agree_on_the_types_of_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded_blocks, "BLOCK_ROWS", 1)
    batches = [FactBatch("p", [pa.array(cells), pa.array([7])], "test", 1) for cells in (["a"], ["b"], [3])]
    dictionary = Dictionary(None, str(tmp_path / "terms"))  # type: ignore[arg-type]
    taken = take_in(None, [], batches, Layout(str(tmp_path / "taken"), decoded=True), dictionary)  # type: ignore[arg-type]
    relations = Relations(None, str(tmp_path / "facts"))  # type: ignore[arg-type]
    load(taken, relations)
    folder = tmp_path / "p.parquet"
    write_decoded(relations, dictionary, {"p": Target(folder, "p")}, str(tmp_path / "decoded"))
    types = {tuple(map(str, pq.read_schema(path).types)) for path in folder.iterdir()}
    assert types == {("string", "int64")}
    rows = [row for batch in read_file(folder) for row in zip(*map(values_of, batch.columns), strict=True)]
    assert sorted(rows, key=str) == [("a", 7), ("b", 7), (3, 7)]


def test_a_file_that_dies_on_the_way_is_not_looked_at(tmp_path: Path) -> None:
    """What a task has written counts if the task has told of it."""
    (tmp_path / "p.csv").write_text("1\n2\n")
    layout = Layout(str(tmp_path / "taken"))

    def read_and_leave() -> object:
        Path(layout.folder, "left.parquet").write_bytes(b"half of a file")
        [piece] = Source(f"{tmp_path}/p.csv", header=False).pieces(None)  # type: ignore[arg-type]
        assert isinstance(piece, Piece)
        return piece.read()

    dictionary = Dictionary(None, str(tmp_path / "terms"))  # type: ignore[arg-type]
    taken = take_in(None, [Piece(partial(read_and_leave), 1)], [], layout, dictionary)  # type: ignore[arg-type]
    relations = Relations(None, str(tmp_path / "facts"))  # type: ignore[arg-type]
    assert load(taken, relations) == 2
    assert {path.suffix for path in Path(relations["p"].parts[0].path).iterdir()} == {".parquet"}
    assert not any(path.name == "left.parquet" for path in (tmp_path / "facts").rglob("*"))


def test_shares_are_about_equal() -> None:
    shares = in_shares([5, 1, 1, 1, 4, 3, 3], lambda size: size, 2)
    assert sorted(map(sum, shares)) == [9, 9]
    assert len(in_shares([1], lambda size: size, 4)) == 1


@pytest.mark.parametrize("format", ["parquet", "csv", "jsonl.gz", "dlog"])
@pytest.mark.parametrize("arity", [0, 2])
def test_a_predicate_without_facts_is_a_folder_without_facts(tmp_path: Path, format: str, arity: int) -> None:
    relations = Relations(None, str(tmp_path / "facts"))  # type: ignore[arg-type]
    relations.declare("p", arity)
    folder = tmp_path / f"p.{format}"
    dictionary = Dictionary(None, str(tmp_path / "terms"))  # type: ignore[arg-type]
    write_decoded(relations, dictionary, {"p": Target(folder, "p")}, str(tmp_path / "decoded"), format)
    assert len(list(folder.iterdir())) == 1
    assert list(read_file(folder)) == []
