"""An image of a knowledge base as files in a folder: `manifest.json`, the terms and each relation as Parquet.

The manifest holds everything that is not a table, and the checksum of every table; the checksum of the manifest is kept
by the file that names the folder. A checksum finds damage, not malice: all input is checked as if a stranger had
written it, above all what kernels rely on: columns and their types, kinds of constants, texts in UTF-8, numbers of
constants. Impossible counters are left out, and derivations are counted again when they are needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.arrow_checks import text_offsets
from tidelog.engine.image import COUNTERS, Arrays, Image, RelationImage, RuleImage
from tidelog.errors import StorageError, TidelogError
from tidelog.facts.arguments import check_limits, check_on_error
from tidelog.language.checks import MOST_ARGUMENTS
from tidelog.machine import term_kinds as K
from tidelog.storage import durable_files as disk
from tidelog.storage.checked_json import Item, declared_prefixes, parsed_rules, read_arities, to_text
from tidelog.values import SEPARATOR

MANIFEST = "manifest.json"
TERMS = "terms.parquet"

_RELATION = re.compile(r"relation-(?:0|[1-9][0-9]*)\.parquet")

# By kind: a lookup in a table costs nothing.
_IS_TEXT = np.isin(np.arange(256), (K.STRING, K.IRI, K.LITERAL))
_IS_NUMBER = np.isin(np.arange(256), (K.INTEGER, K.FLOAT, K.BOOLEAN))

# Rules, constants, and bytes of a text are numbered by 32 bits.
_MOST = 2**31 - 1

_TERM_COLUMNS: Mapping[str, pa.DataType] = {"kind": pa.uint8(), "number": pa.int64(), "text": pa.large_string()}
_COUNTERS = ("nonrecursive", "recursive")


def is_snapshot_file(name: str) -> bool:
    """Whether a file of this name in the folder of a snapshot is part of it."""
    return name in (MANIFEST, TERMS) or _RELATION.fullmatch(name) is not None


def write_snapshot(folder: Path, image: Image) -> str:
    """Write an image into a new folder, force it to disk, and return the checksum of its manifest."""
    with disk.storage_errors("write", folder):
        folder.mkdir()
        files = {TERMS: write_table(folder / TERMS, table_of_terms(image.terms))}
        relations = []
        for number, relation in enumerate(image.relations):
            name = f"relation-{number}.parquet"
            files[name] = write_table(folder / name, table_of_relation(relation))
            relations.append({"name": relation.name, "arity": relation.arity, "file": name})
        rules = [
            {"number": item.number, "text": str(item.rule), "counter": item.counter, "applications": item.applications}
            for item in image.rules
        ]
        content = {
            "options": dict(image.options),
            "prefixes": dict(image.prefixes),
            "arities": dict(image.arities),
            "errors": image.errors,
            "next_rule": image.next_rule,
            "rules": rules,
            "relations": relations,
            "closures": list(image.closures),
            "pairs": dict(image.pairs),
            "commit": dict(image.commit),
            "declared": dict(image.declared),
            "files": files,
        }
        manifest = to_text(content)
        disk.create_file(folder / MANIFEST, manifest)
        disk.force_folder(folder)
        return disk.checksum(manifest)


def read_snapshot(folder: Path, expected: str) -> Image:
    """The image in a folder; `StorageError` where anything is missing or differs from what was written."""
    path = folder / MANIFEST
    content = disk.read_file(path)
    if disk.checksum(content) != expected:
        raise _damaged(path)
    manifest = Item.of_json(content, path)
    files = manifest["files"].texts()
    if TERMS not in files:
        manifest["files"].refuse(f"does not name {TERMS}")
    terms = terms_of_table(folder / TERMS, read_table(folder / TERMS, files[TERMS]))
    next_rule = manifest["next_rule"].integer(1, _MOST)
    pairs = manifest["pairs"].members() if manifest.get("pairs") is not None else ()
    return Image(
        options=_options(manifest["options"]),
        prefixes=declared_prefixes(manifest["prefixes"]),
        arities=read_arities(manifest["arities"]),
        errors=manifest["errors"].integer(0),
        next_rule=next_rule,
        rules=_rules(manifest["rules"], next_rule),
        terms=terms,
        relations=_relations(folder, manifest["relations"], files, len(terms["kinds"])),
        closures=_closures(manifest["closures"]),
        pairs={name: count.integer(0) for name, count in pairs},
        commit=manifest["commit"].texts() if manifest.get("commit") is not None else {},
        declared=read_arities(manifest["declared"]) if manifest.get("declared") is not None else {},
    )


def _options(item: Item) -> dict[str, Any]:
    names = ("maintenance", "modules", "max_facts", "timeout", "on_error")
    # Older snapshots do not say how failures are treated.
    maintenance, modules, max_facts, timeout, on_error = item.fields(*names, on_error="count")
    try:
        check_limits(max_facts.value, timeout.value)
        check_on_error(on_error.value)
    except TidelogError as problem:
        item.refuse(f"are wrong: {problem}")
    return {
        "maintenance": maintenance.text(),
        "modules": modules.flag(),
        "max_facts": max_facts.value,
        "timeout": timeout.value,
        "on_error": on_error.value,
    }


def _rules(item: Item, next_rule: int) -> tuple[RuleImage, ...]:
    rules: list[RuleImage] = []
    for rule in item.items():
        number = rule["number"].integer(rules[-1].number + 1 if rules else 1, next_rule - 1)
        parsed = parsed_rules(rule["text"])
        if len(parsed) != 1:
            rule["text"].refuse(f"is {len(parsed)} rules, not one")
        counter = None if rule["counter"].value is None else rule["counter"].integer(*COUNTERS)
        rules.append(RuleImage(number, parsed[0], counter, rule["applications"].integer(0)))
    return tuple(rules)


def _relations(folder: Path, item: Item, files: Mapping[str, str], terms: int) -> tuple[RelationImage, ...]:
    relations: dict[str, RelationImage] = {}
    for relation in item.items():
        name, arity, file = relation.fields("name", "arity", "file")
        if _RELATION.fullmatch(file.text()) is None or file.value not in files:
            file.refuse("is no file of a relation that the manifest names")
        if name.text() in relations:
            name.refuse("is there twice")
        path = folder / file.text()
        table = read_table(path, files[file.text()])
        relations[name.text()] = relation_of_table(path, name.text(), arity.integer(0, MOST_ARGUMENTS), terms, table)
    return tuple(relations.values())


def _closures(item: Item) -> tuple[str, ...]:
    names = tuple(name.text() for name in item.items())
    if len(set(names)) != len(names):
        item.refuse("names one twice")
    return names


def write_table(path: Path, table: pa.Table) -> str:
    """Write a table to a new file, force it to disk, and return its checksum."""
    with path.open("xb") as file:
        pq.write_table(table, file, compression="zstd", use_dictionary=False, write_statistics=False)
        disk.force(file)
    with disk.reading(path) as file:
        return disk.checksum_of(file)


def read_table(path: Path, expected: str) -> pa.Table:
    """The table in a file, which must be as it was written."""
    with disk.reading(path) as file:
        if disk.checksum_of(file) != expected:
            raise _damaged(path)
        file.seek(0)
        try:
            table = pq.ParquetFile(file).read(use_threads=False)
            table.schema.names  # noqa: B018 (raises where a name is not Unicode)
        except (UnicodeDecodeError, OverflowError, MemoryError) as problem:
            raise _refuse(path, str(problem) or "it takes more memory than there is") from problem
        return table


def _damaged(path: Path) -> StorageError:
    return StorageError(f"{path} is damaged: its checksum is not the one that was saved; restore it from a copy")


def _refuse(path: Path, problem: str) -> StorageError:
    return StorageError(f"{path} cannot be understood: {problem}; restore it from a copy")


def _check_columns(path: Path, table: pa.Table, columns: Mapping[str, pa.DataType]) -> None:
    found = {field.name: field.type for field in table.schema}
    if len(found) != table.num_columns or list(found.items()) != list(columns.items()):
        shown = ", ".join(f"{field.name} {field.type}" for field in table.schema)
        wanted = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        raise _refuse(path, f"it has the columns {shown:.200}, not {wanted:.200}")
    try:
        table.validate(full=True)
    except pa.ArrowException as problem:
        raise _refuse(path, str(problem)) from None


def table_of_terms(terms: Arrays) -> pa.Table:
    """A row for each term from number 1 on: its kind, and its number or text. Texts lie in the heap in that order."""
    kinds, payloads, sizes = (terms[name][1:] for name in ("kinds", "payloads", "sizes"))
    is_text = _IS_TEXT[kinds]
    offsets = np.zeros(len(kinds) + 1, np.int64)
    np.cumsum(np.where(is_text, sizes, 0), out=offsets[1:])
    texts = pa.LargeStringArray.from_buffers(len(kinds), pa.py_buffer(offsets), pa.py_buffer(terms["text"]))
    columns = {
        "kind": pa.array(kinds),
        "number": pa.array(np.where(is_text, 0, payloads), mask=is_text),
        "text": pc.if_else(pa.array(is_text), texts, None),
    }
    return pa.table(columns)


def terms_of_table(path: Path, table: pa.Table) -> Arrays:
    _check_columns(path, table, _TERM_COLUMNS)
    _check_terms(path, table)
    texts = pc.fill_null(table["text"], "").combine_chunks()
    offsets = text_offsets(texts) if len(texts) else np.zeros(1, np.int64)
    heap = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    sizes = np.diff(offsets)
    if sizes.max(initial=0) > _MOST:
        raise _refuse(path, "it has a text of more than two billion bytes")
    kinds = table["kind"].to_numpy()
    numbers = pc.fill_null(table["number"], 0).to_numpy()
    payloads = np.where(_IS_TEXT[kinds], offsets[:-1] - offsets[0], numbers)
    return {
        "kinds": np.concatenate((np.array([255], np.uint8), kinds)),
        "payloads": np.concatenate((np.zeros(1, np.int64), payloads)),
        "sizes": np.concatenate((np.zeros(1, np.int32), sizes.astype(np.int32))),
        "text": heap,
    }


def _check_terms(path: Path, table: pa.Table) -> None:
    """Check that each constant is of a known kind, and has what its kind needs."""
    if table.num_rows >= _MOST:
        raise _refuse(path, f"it has {table.num_rows} constants, and there can be at most {_MOST}")
    if table["kind"].null_count:
        raise _refuse(path, "a constant has no kind")
    kinds = table["kind"].to_numpy()
    is_text, is_number = _IS_TEXT[kinds], _IS_NUMBER[kinds]
    for fits, problem in (
        (is_text | is_number, "a constant of an unknown kind"),
        (pc.is_valid(table["text"]).to_numpy() == is_text, "a text without characters, or a number with some"),
        (pc.is_valid(table["number"]).to_numpy() == is_number, "a number without a value, or a text with one"),
    ):
        if not fits.all():
            raise _refuse(path, f"row {int(np.argmin(fits))} is {problem}")
    numbers = pc.fill_null(table["number"], 0).to_numpy()
    truths = numbers[kinds == K.BOOLEAN]
    if ((truths != 0) & (truths != 1)).any():
        raise _refuse(path, "a boolean is neither true nor false")
    bits = numbers[kinds == K.FLOAT]
    floats = bits.view(np.float64)
    # There is one zero and one NaN: equal constants have the same number.
    usual = np.where(floats == 0.0, 0.0, np.where(np.isnan(floats), np.nan, floats))
    if (usual.view(np.int64) != bits).any():
        raise _refuse(path, "a float is a zero or NaN other than the canonical one")
    literals = table["text"].filter(pa.array(kinds == K.LITERAL))
    if pc.any(pc.less(pc.count_substring(literals, SEPARATOR), 2)).as_py():
        raise _refuse(path, "a literal has no datatype and language")


def table_of_relation(relation: RelationImage) -> pa.Table:
    columns: dict[str, Any] = {
        f"c{place}": np.ascontiguousarray(relation.rows[:, place]) for place in range(relation.arity)
    }
    columns["explicit"] = relation.explicit
    if relation.counters is not None:
        columns.update(zip(_COUNTERS, np.ascontiguousarray(relation.counters.T), strict=True))
    return pa.table(columns)


def relation_of_table(path: Path, name: str, arity: int, term_count: int, table: pa.Table) -> RelationImage:
    """A relation whose facts hold constants of a dictionary of the given size."""
    columns = {f"c{place}": pa.int32() for place in range(min(arity, table.num_columns))}
    columns["explicit"] = pa.bool_()
    counted = _COUNTERS[1] in table.column_names
    if counted:
        columns.update(dict.fromkeys(_COUNTERS, pa.int32()))
    if arity != len(columns) - (3 if counted else 1):
        raise _refuse(path, f"`{name}` has {arity} arguments, and the file {table.num_columns} columns")
    _check_columns(path, table, columns)
    if any(column.null_count for column in table.columns):
        raise _refuse(path, f"`{name}` has an empty cell")
    rows = np.empty((table.num_rows, arity), np.int32)
    for place in range(arity):
        rows[:, place] = table[f"c{place}"].to_numpy()
    if rows.size and not (rows.min() > 0 and rows.max() < term_count):
        raise _refuse(path, f"`{name}` holds a constant that the dictionary does not have")
    counters = np.stack([table[column].to_numpy() for column in _COUNTERS], axis=1) if counted else None
    if counters is not None and counters.min(initial=0) < 0:
        counters = None  # One of them is impossible.
    return RelationImage(name, rows, table["explicit"].to_numpy(), counters)
