"""An image of a knowledge base as files in a folder: `manifest.json`, the terms and each relation as arrays.

The manifest holds everything that is not a table, and the checksum of every table; the checksum of the manifest is kept
by the file that names the folder. A checksum finds damage, not malice: all input is checked as if a stranger had
written it, above all what kernels rely on: columns and their types, kinds of constants, texts in UTF-8, numbers of
constants. Impossible counters are left out, and derivations are counted again when they are needed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.engine.image import COUNTERS, Arrays, Image, RelationImage, RuleImage
from tidelog.errors import TidelogError
from tidelog.extras import needing
from tidelog.facts.arguments import check_limits, check_on_error
from tidelog.language.checks import MOST_ARGUMENTS
from tidelog.program.equality import Equality, equality_of, under_equality
from tidelog.storage import durable_files as disk
from tidelog.storage.array_files import check_layout, damaged, read_arrays, refused, write_arrays
from tidelog.storage.checked_json import (
    Item,
    declared_prefixes,
    parsed_rules,
    read_arities,
    read_declarations,
    to_text,
    with_lattices,
    written_declarations,
)
from tidelog.storage.term_columns import columns_of_terms, terms_of_columns

MANIFEST = "manifest.json"
TERMS = "terms.arrays"
# In snapshots that an earlier version wrote, files with this ending take the place of those with the other.
OLD_ENDING = ".parquet"
OLD_TERMS = "terms.parquet"

_RELATION = re.compile(r"relation-(?:0|[1-9][0-9]*)\.(?:arrays|parquet)")

# Rules are numbered by 32 bits.
_MOST = 2**31 - 1

_COUNTERS = ("nonrecursive", "recursive")


def is_snapshot_file(name: str) -> bool:
    """Whether a file of this name in the folder of a snapshot is part of it."""
    return name in (MANIFEST, TERMS, OLD_TERMS) or _RELATION.fullmatch(name) is not None


def write_snapshot(folder: Path, image: Image) -> str:
    """Write an image into a new folder, force it to disk, and return the checksum of its manifest."""
    with disk.storage_errors("write", folder):
        folder.mkdir()
        files = {TERMS: write_arrays(folder / TERMS, columns_of_terms(image.terms))}
        relations = []
        for number, relation in enumerate(image.relations):
            name = f"relation-{number}.arrays"
            files[name] = write_arrays(folder / name, columns_of_relation(relation))
            relations.append({"name": relation.name, "arity": relation.arity, "file": name})
        rules = [
            with_lattices(
                {
                    "number": item.number,
                    "text": str(item.rule),
                    "part": item.rule.part,
                    "variant": item.rule.variant,
                    "counter": item.counter,
                    "applications": item.applications,
                },
                (item.rule,),
            )
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
            "declared": written_declarations(image.declared),
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
        raise damaged(path)
    manifest = Item.of_json(content, path)
    files = manifest["files"].texts()
    name = OLD_TERMS if OLD_TERMS in files else TERMS
    if name not in files:
        manifest["files"].refuse(f"does not name {TERMS}")
    terms = terms_of_columns(folder / name, _read(folder / name, files[name], are_terms=True))
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
        declared=read_declarations(manifest["declared"]) if manifest.get("declared") is not None else {},
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
    plain = Counter(text for text, _ in {(rule["text"].text(), rule.get("part")) for rule in item.items()})
    for rule in item.items():
        number = rule["number"].integer(rules[-1].number + 1 if rules else 1, next_rule - 1)
        parsed = parsed_rules(rule["text"], rule)
        if sum(each.part == 0 for each in parsed) != 1:
            rule["text"].refuse(f"is {len(parsed)} rules, not one")
        part = rule["part"].integer(0, len(parsed) - 1) if rule.get("part") is not None else 0
        counter = None if rule["counter"].value is None else rule["counter"].integer(*COUNTERS)
        # Earlier versions of tidelog had one rule where parts of a body are checked once now.
        own = parsed[part] if plain[rule["text"].text()] == len(parsed) else parsed[0].written
        rules.append(RuleImage(number, own, counter, rule["applications"].integer(0)))
    equality = equality_of(image.rule for image in rules)
    if equality is None:
        return tuple(rules)
    return tuple(_variant(image, equality, rule) for image, rule in zip(rules, item.items(), strict=True))


def _variant(image: RuleImage, equality: Equality, item: Item) -> RuleImage:
    """A rule as the equality of the program made it."""
    found = under_equality(image.rule, equality)
    return replace(image, rule=found[item["variant"].integer(0, len(found) - 1)])


def _relations(folder: Path, item: Item, files: Mapping[str, str], terms: int) -> tuple[RelationImage, ...]:
    relations: dict[str, RelationImage] = {}
    for relation in item.items():
        name, arity, file = relation.fields("name", "arity", "file")
        if _RELATION.fullmatch(file.text()) is None or file.value not in files:
            file.refuse("is no file of a relation that the manifest names")
        if name.text() in relations:
            name.refuse("is there twice")
        path = folder / file.text()
        columns = _read(path, files[file.text()])
        places = arity.integer(0, MOST_ARGUMENTS)
        relations[name.text()] = relation_of_columns(path, name.text(), places, terms, columns)
    return tuple(relations.values())


def _closures(item: Item) -> tuple[str, ...]:
    names = tuple(name.text() for name in item.items())
    if len(set(names)) != len(names):
        item.refuse("names one twice")
    return names


def _read(path: Path, expected: str, are_terms: bool = False) -> Arrays:
    """The arrays of a file: those of the dictionary, or those of a relation."""
    if path.suffix != OLD_ENDING:
        return read_arrays(path, expected)
    with needing("opening a knowledge base that an earlier version saved"):
        from tidelog.storage.parquet_files import read_parquet
    return read_parquet(path, expected, are_terms)


def columns_of_relation(relation: RelationImage) -> Arrays:
    columns: dict[str, npt.NDArray[Any]] = {f"c{place}": relation.rows[:, place] for place in range(relation.arity)}
    columns["explicit"] = relation.explicit
    if relation.counters is not None:
        columns.update(zip(_COUNTERS, relation.counters.T, strict=True))
    return columns


def relation_of_columns(path: Path, name: str, arity: int, term_count: int, columns: Arrays) -> RelationImage:
    """A relation whose facts hold constants of a dictionary of the given size."""
    counted = _COUNTERS[1] in columns
    if arity != len(columns) - (3 if counted else 1):
        raise refused(path, f"`{name}` has {arity} arguments, and the file {len(columns)} columns")
    layout = {f"c{place}": "int32" for place in range(arity)} | {"explicit": "bool"}
    check_layout(path, columns, layout | (dict.fromkeys(_COUNTERS, "int32") if counted else {}))
    explicit = columns["explicit"]
    if any(len(column) != len(explicit) for column in columns.values()):
        raise refused(path, f"the columns of `{name}` are not of one length")
    rows = np.empty((len(explicit), arity), np.int32)
    for place in range(arity):
        rows[:, place] = columns[f"c{place}"]
    if rows.size and not (rows.min() > 0 and rows.max() < term_count):
        raise refused(path, f"`{name}` holds a constant that the dictionary does not have")
    counters = np.stack([columns[column] for column in _COUNTERS], axis=1) if counted else None
    if counters is not None and counters.min(initial=0) < 0:
        counters = None  # One of them is impossible.
    return RelationImage(name, rows, explicit, counters)
