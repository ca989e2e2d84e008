"""Update streams as the papers on marking draw them (§5.1): a first update that adds facts, then updates that each
delete and add as many.

`read_streams` reads the public ones in the layout of M-Illich/inc-mat-mark. `coin_stream` draws new ones as the
generator of the authors does, and `random_stream` ones whose updates all have their full size. A program that is public
with facts of its own is a case like the generated ones (`read_case`).
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pyarrow as pa

from tidelog.bench.data.cases import Case, Tables, random_rows
from tidelog.errors import DataError
from tidelog.formats import open_updates, read_file, values_of
from tidelog.formats.files.updates import Update
from tidelog.values import Row

P_TRANS = "path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z)."
P_SEQ = "edge1(X, Y) :- edge(X, Y). " + " ".join(f"edge{i + 1}(X, Y) :- edge{i}(X, Y)." for i in range(1, 4))
WAYS = """
connection(Z1, Z2) :- nextInWay(X, Y1, Z1), nextInWay(X, Y2, Z2), Z1 != Z2.
connection(Z1, Z2) :- nextInWay(X, Y1, Z1), nextInWay(X2, X, Z2), Z1 != Z2.
connection(Z1, Z2) :- nextInWay(X1, Y, Z1), nextInWay(Y, Y2, Z2), Z1 != Z2.
connection(Z1, Z2) :- nextInWay(X1, Y, Z1), nextInWay(X2, Y, Z2), Z1 != Z2.
connection(X, Z) :- connection(X, Y), connection(Y, Z).
"""
"""Figures 1 and 2 of B/F with Marking."""

PROGRAMS = ("path", "sequence", "dbpedia", "lubm", "family", "claros", "relations")
"""The rule sets of M-Illich/inc-mat-mark."""

FIRST, UPDATES = 100, 50


def random_stream(nodes: int, size: int, seed: int, overlap: float = 0.0) -> list[Update]:
    """50 updates of a graph: the first adds 100 edges, each later one deletes and adds `size`. A share `overlap` of
    what an update adds is what the one before deleted: an update that undoes a part of its predecessor."""
    rng = random.Random(seed)
    present = sorted(_fresh(rng, nodes, FIRST, set()))
    stream: list[Update] = [{"add": {"edge": list(present)}, "delete": {}}]
    gone: list[Row] = []
    for _ in range(UPDATES - 1):
        deleted = rng.sample(present, size)
        back = rng.sample(gone, min(len(gone), round(size * overlap)))
        added = [*back, *sorted(_fresh(rng, nodes, size - len(back), {*present, *back}))]
        leaving = set(deleted)
        present = [edge for edge in present if edge not in leaving] + added
        gone = deleted
        stream.append({"add": {"edge": added}, "delete": {"edge": deleted}})
    return stream


def coin_stream(nodes: int, size: int, seed: int) -> list[Update]:
    """50 updates of a graph, drawn as in the generator of the paper's authors (M-Illich/dred-mark-eval). An update may
    draw an edge twice, and loops are edges. It deletes by tossing a coin for each edge in the order of a hash set,
    until it has enough or the edges end. So updates may be smaller than `size`, and edges late in that order live long.
    """
    rng = random.Random(seed)
    present: set[Row] = set()
    stream: list[Update] = []
    for number in range(UPDATES):
        added = {_absent(rng, nodes, present) for _ in range(size if number else FIRST)}
        chosen = [edge for edge in sorted(present, key=_place_in_hash_set) if rng.random() < 0.5]
        deleted = chosen[:size]
        present = present.union(added).difference(deleted)
        stream.append({"add": {"edge": sorted(added)}, "delete": {"edge": deleted} if deleted else {}})
    return stream


def _absent(rng: random.Random, nodes: int, present: set[Row]) -> Row:
    while (edge := (rng.randrange(nodes), rng.randrange(nodes))) in present:
        pass
    return edge


def _place_in_hash_set(edge: Row) -> tuple[int, Row]:
    """The bucket of an edge in a Java hash set of 256 buckets: by the hash code of its text."""
    code = 0
    for letter in f"[edge, {edge[0]}, {edge[1]}]":
        code = (31 * code + ord(letter)) % 2**32
    return (code ^ code >> 16) % 256, edge


def _fresh(rng: random.Random, nodes: int, count: int, taken: set[Row]) -> set[Row]:
    """So many edges that are not taken."""
    found: set[Row] = set()
    while len(found) < count:
        edge = (rng.randrange(nodes), rng.randrange(nodes))
        if edge[0] != edge[1] and edge not in taken:
            found.add(edge)
    return found


def read_rules(data: Path, program: str) -> str:
    """The rules of a public stream; those of the GPS tracks are in the paper only."""
    if program == "ways":
        return WAYS
    return (data / "kb" / program / f"{program}.dlog").read_text(encoding="utf-8")


def read_case(data: Path, program: str) -> Case:
    """A public program over its public facts."""
    facts = data / "kb" / program / f"{program}.ttl"
    if not facts.is_file():
        raise DataError(f"there is no {facts}; --data is the folder with `kb`")
    return Case(f"{program}, public facts", read_rules(data, program), partial(_read_facts, facts))


def _read_facts(file: Path, seed: int, size: float) -> Tables:
    """The facts of a file, each once, or a share of them, with texts for all terms: the rules name none."""
    parts: dict[str, list[pa.Table]] = {}
    for batch in read_file(file):
        texts = [[str(value) for value in values_of(column)] for column in batch.columns]
        parts.setdefault(batch.predicate, []).append(pa.table(texts, [f"c{place}" for place in range(len(texts))]))
    facts = {predicate: _distinct(pa.concat_tables(tables)) for predicate, tables in parts.items()}
    return random_rows(facts, max(1, round(size * sum(map(len, facts.values())))), seed)


def _distinct(table: pa.Table) -> pa.Table:
    # One thread keeps the order of the file, and so the same facts are drawn for the same seed.
    return table.group_by(table.column_names, use_threads=False).aggregate([])


def read_stream(folder: Path) -> list[Update]:
    """A public stream: a folder of files 00.pl, 01.pl, …"""
    return [unread.read() for unread in open_updates(str(folder))]


def read_streams(data: Path, kind: str, name: str) -> list[list[Update]]:
    """All streams of a kind (`random`, `overlap`, `real`) of a program, one for each run of the generator."""
    folders = sorted({file.parent for file in (data / "updates" / kind / name).glob("*/*/*.pl")})
    if not folders:
        raise DataError(f"there are no streams {data / 'updates' / kind / name}; --data is the folder with `updates`")
    return [read_stream(folder) for folder in folders]
