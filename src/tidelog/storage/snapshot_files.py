"""An image of a knowledge base as files in a folder: `manifest.json`, the terms and each relation as Parquet.

The manifest holds everything that is not a table, and the checksum of every table; the checksum of the manifest is kept
by the file that names the folder. A checksum finds damage, not malice: all input is checked as if a stranger had
written it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidelog.engine.image import COUNTERS, Image, RelationImage, RuleImage
from tidelog.errors import TidelogError
from tidelog.facts.arguments import check_limits
from tidelog.language.checks import MOST_ARGUMENTS
from tidelog.language.syntax import Rule
from tidelog.storage import parquet_tables as tables
from tidelog.storage.checked_json import Item, declared_prefixes, is_predicate, parsed_rules, to_text
from tidelog.storage.durable_files import checksum, create_file, force_folder, read_file, storage_errors

MANIFEST = "manifest.json"
TERMS = "terms.parquet"

_RELATION = re.compile(r"relation-(?:0|[1-9][0-9]*)\.parquet")

# Rules are numbered by 32 bits.
_MOST_RULES = 2**31 - 1


def is_snapshot_file(name: str) -> bool:
    """Whether a file of this name in the folder of a snapshot is part of it."""
    return name in (MANIFEST, TERMS) or _RELATION.fullmatch(name) is not None


# --- writing ------------------------------------------------------------------------------------------------------


def write_snapshot(folder: Path, image: Image) -> str:
    """Write an image into a new folder, force it to disk, and return the checksum of its manifest."""
    with storage_errors("write", folder):
        folder.mkdir()
        files = {TERMS: tables.write_table(folder / TERMS, tables.table_of_terms(image.terms))}
        relations = []
        for number, relation in enumerate(image.relations):
            name = f"relation-{number}.parquet"
            files[name] = tables.write_table(folder / name, tables.table_of_relation(relation))
            relations.append({"name": relation.name, "arity": relation.arity, "file": name})
        manifest = to_text(_manifest(image, relations, files))
        create_file(folder / MANIFEST, manifest)
        force_folder(folder)
        return checksum(manifest)


def _manifest(image: Image, relations: list[dict[str, Any]], files: Mapping[str, str]) -> dict[str, Any]:
    rules = [
        {"number": item.number, "text": str(item.rule), "counter": item.counter, "applications": item.applications}
        for item in image.rules
    ]
    return {
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
        "files": dict(files),
    }


# --- reading ------------------------------------------------------------------------------------------------------


def read_snapshot(folder: Path, expected: str) -> Image:
    """The image in a folder; `StorageError` where anything is missing or differs from what was written."""
    path = folder / MANIFEST
    content = read_file(path)
    if checksum(content) != expected:
        raise tables.damaged(path)
    return _image(folder, Item.of_json(content, path))


def _image(folder: Path, manifest: Item) -> Image:
    files = manifest["files"].texts()
    if TERMS not in files:
        manifest["files"].refuse(f"does not name {TERMS}")
    terms = tables.terms_of_table(folder / TERMS, tables.read_table(folder / TERMS, files[TERMS]))
    next_rule = manifest["next_rule"].integer(1, _MOST_RULES)
    return Image(
        options=_options(manifest["options"]),
        prefixes=declared_prefixes(manifest["prefixes"]),
        arities=_arities(manifest["arities"]),
        errors=manifest["errors"].integer(0),
        next_rule=next_rule,
        rules=_rules(manifest["rules"], next_rule),
        terms=terms,
        relations=_relations(folder, manifest["relations"], files, len(terms["kinds"])),
        closures=_closures(manifest["closures"]),
        pairs=_pairs(manifest["pairs"]) if manifest.get("pairs") is not None else {},
        commit=manifest["commit"].texts() if manifest.get("commit") is not None else {},
    )


def _options(item: Item) -> dict[str, Any]:
    maintenance, modules, max_facts, timeout = item.fields("maintenance", "modules", "max_facts", "timeout")
    try:
        check_limits(max_facts.value, timeout.value)
    except TidelogError as problem:
        item.refuse(f"are wrong: {problem}")
    return {
        "maintenance": maintenance.text(),
        "modules": modules.flag(),
        "max_facts": max_facts.value,
        "timeout": timeout.value,
    }


def _arities(item: Item) -> dict[str, int]:
    arities = {}
    for name, arity in item.members():
        if not is_predicate(name):
            arity.refuse("is not named after a predicate")
        arities[name] = arity.integer(0, MOST_ARGUMENTS)
    return arities


def _rules(item: Item, next_rule: int) -> tuple[RuleImage, ...]:
    rules: list[RuleImage] = []
    for rule in item.items():
        number = rule["number"].integer(rules[-1].number + 1 if rules else 1, next_rule - 1)
        counter = rule["counter"]
        rules.append(
            RuleImage(
                number,
                _rule(rule["text"]),
                None if counter.value is None else counter.integer(*COUNTERS),
                rule["applications"].integer(0),
            )
        )
    return tuple(rules)


def _rule(item: Item) -> Rule:
    rules = parsed_rules(item)
    if len(rules) != 1:
        item.refuse(f"is {len(rules)} rules, not one")
    return rules[0]


def _relations(folder: Path, item: Item, files: Mapping[str, str], terms: int) -> tuple[RelationImage, ...]:
    relations: dict[str, RelationImage] = {}
    for relation in item.items():
        name, arity, file = relation.fields("name", "arity", "file")
        if _RELATION.fullmatch(file.text()) is None or file.value not in files:
            file.refuse("is no file of a relation that the manifest names")
        if name.text() in relations:
            name.refuse("is there twice")
        path = folder / file.text()
        table = tables.read_table(path, files[file.text()])
        relations[name.text()] = tables.relation_of_table(
            path, name.text(), arity.integer(0, MOST_ARGUMENTS), terms, table
        )
    return tuple(relations.values())


def _closures(item: Item) -> tuple[str, ...]:
    names = tuple(name.text() for name in item.items())
    if len(set(names)) != len(names):
        item.refuse("names one twice")
    return names


def _pairs(item: Item) -> dict[str, int]:
    return {name: count.integer(0) for name, count in item.members()}
