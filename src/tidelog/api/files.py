"""Facts in files, as a knowledge base takes them in and gives them out: any format, one file or a folder of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.errors import DataError, TidelogError
from tidelog.facts.arguments import checked_path
from tidelog.facts.results import FactTable
from tidelog.formats.batch import FactBatch
from tidelog.formats.columns.column_order import sorted_columns
from tidelog.formats.files.folder import (
    NO_TYPES,
    TypesByPredicate,
    is_fact_folder,
    read_facts,
    read_file,
    write_folder,
)
from tidelog.formats.files.rendering import Columns
from tidelog.language import resolve_predicate
from tidelog.language.records.types import cell_types
from tidelog.storage.home import is_home

if TYPE_CHECKING:
    from tidelog.api.knowledge_base import KnowledgeBase

Types = Sequence[Any] | Mapping[str, Sequence[Any]]
Loadable = str | PathLike[str] | Iterable[FactBatch]


def declared_types(kb: KnowledgeBase) -> TypesByPredicate:
    """How cells of CSV and TSV files are read, by the declarations of their predicates."""
    return cell_types(kb._knowledge.catalogue.declared)


def facts_to_load(
    source: Loadable,
    predicate: str | None,
    header: bool | None,
    types: Types | None,
    declared: TypesByPredicate = NO_TYPES,
) -> Iterable[FactBatch]:
    """The facts of a file, of a folder of files, or of a reader that has been called already."""
    if not isinstance(source, str | PathLike):
        if predicate is not None or header is not None or types is not None:
            raise TidelogError("`predicate`, `header` and `types` say how a file is read; give them with its path")
        if not hasattr(source, "__iter__"):
            kind = type(source).__name__
            raise DataError(f"`load` takes the path of a file or folder, or what `tidelog.formats` reads, not a {kind}")
        return source
    path = checked_path(source)
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; check the path")
    if is_home(path):
        raise DataError(f"{path} holds a saved knowledge base; open it with KnowledgeBase.open or `tidelog shell`")
    if not is_fact_folder(path):
        if isinstance(types, Mapping):
            raise DataError(f'{path}: the types of one file are a list, such as ["string", "int"]')
        return read_file(path, predicate, header, types=types, declared=declared)
    if predicate is not None:
        raise DataError(f"{path} is a folder, whose files are named after their predicates; give no `predicate`")
    if types is not None and not isinstance(types, Mapping):
        raise DataError(f'{path}: the types of a folder are given by predicate, such as {{"edge": ["string", "int"]}}')
    return read_facts(path, header, types=types, declared=declared)


def export(
    kb: KnowledgeBase, folder: str | PathLike[str], format: str, predicates: Iterable[str] | None, explicit: bool
) -> list[Path]:
    """Write the facts of predicates to a folder, a file each, in ascending order."""
    path = checked_path(folder)
    if isinstance(predicates, str):
        raise TidelogError(f'`predicates` is a list of names, such as ["{predicates}"]')
    known = kb.explicit_predicates if explicit else kb.predicates
    prefixes = kb.prefixes
    # A file is named by the predicate itself: whoever reads it may have other prefixes.
    names = [resolve_predicate(name, prefixes) for name in (known if predicates is None else predicates)]

    view = kb.explicit if explicit else kb.facts
    return write_folder(path, ((name, sorted_facts(view(name))) for name in dict.fromkeys(names)), format)


def sorted_facts(facts: FactTable) -> list[Columns]:
    """Facts in ascending order, as a writer takes them."""
    table = facts.to_arrow()
    return [sorted_columns([column.chunk(0) for column in table.columns])] if table.num_rows else []
