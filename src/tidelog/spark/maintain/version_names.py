"""The names that a version uses, for the check of prefixes that are declared late."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tidelog.program.catalogue import NamesInUse, name_of
from tidelog.program.graph import RuleGraph
from tidelog.spark.data.term_lookup import values_that_name
from tidelog.spark.stored.keyed_files import ColumnCache, Files, TooManyFacts
from tidelog.spark.stored.version_history import Version

# A name that so many facts have counts as in use, even if some of them have been deleted since.
_MANY = 1_000_000


def names_in_version(root: Path, version: Version, graph: RuleGraph, columns: ColumnCache) -> NamesInUse:
    """The names that a version of a materialisation uses."""

    def names_in_facts(start: str) -> Iterator[str]:
        """The dictionary never forgets a constant, so facts are looked at as well."""
        candidates = values_that_name([str(root / part) for part in version.terms], start)
        names = {id_: name_of(value) for id_, value in candidates.items()}
        if names:
            files = Files(root, columns, version.stored, version.terms_count, _MANY)
            for name, stored in version.stored.items():
                for column in range(stored.arity):
                    yield from (names[id_] for id_ in _used(files, name, column, names))

    with_facts = (name for name, stored in version.stored.items() if stored.facts)
    return NamesInUse((*graph.predicates, *with_facts), graph.rules.values(), names_in_facts)


def _used(files: Files, name: str, column: int, ids: Iterable[int]) -> set[int]:
    """The ids among these that facts of a predicate have in a column."""
    try:
        return {fact[column] for fact in files.matching(name, (column,), {(id_,) for id_ in ids})}
    except TooManyFacts:
        return set(ids)
