"""Taking in what the writer of a followed folder has done since the last time, as one update.

The updates of the journal are folded into one: of several that name a fact or a rule, the last one counts. If the
writer has saved meanwhile, the journal is gone, and what it held is found by comparison: the explicit facts and the
rules of the new snapshot with those here. Either way the engine maintains what follows, so that the change is known,
and whoever holds a view of the facts goes on with it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tidelog.api.persistence import SavedFolder
from tidelog.engine.update.deltas import Request
from tidelog.engine.update.runner import Limits
from tidelog.errors import StorageError, TidelogError
from tidelog.facts.encoding import check_arities_of, row_keys
from tidelog.facts.results import Change
from tidelog.language.checks import foreign_functions
from tidelog.language.records.types import Declared, merged
from tidelog.language.syntax import Rule, rule_key
from tidelog.live.knowledge import Knowledge
from tidelog.runtime.knowledge_lock import unguarded
from tidelog.storage.follower import Follower, News
from tidelog.storage.journal import from_json
from tidelog.store.relation_parts import Cells


@dataclass
class Difference:
    """What leads from one state to another: for each predicate rows that are there afterwards or not, and rules."""

    rows: dict[str, list[tuple[Cells, bool]]] = field(default_factory=dict)
    rules: dict[Hashable, tuple[Rule, bool]] = field(default_factory=dict)
    prefixes: Mapping[str, str] = field(default_factory=dict)
    declared: Declared = field(default_factory=dict)
    commit: Mapping[str, str] = field(default_factory=dict)

    def take_rows(self, facts: Mapping[str, Cells], present: bool) -> None:
        for predicate, rows in facts.items():
            self.rows.setdefault(predicate, []).append((rows, present))

    def take_rules(self, rules: tuple[Rule, ...], present: bool) -> None:
        self.rules.update({rule_key(rule): (rule, present) for rule in rules})

    def facts(self, present: bool) -> dict[str, Cells]:
        """The rows of each predicate that are there afterwards, or those that are not."""
        found = {predicate: _last(pieces, present) for predicate, pieces in self.rows.items()}
        return {predicate: rows for predicate, rows in found.items() if len(rows)}


def refresh(knowledge: Knowledge) -> Change:
    """Bring a knowledge base to the state that its folder holds now. The caller has the lock."""
    followed = knowledge.followed
    if followed is None:
        raise StorageError("only a knowledge base that was opened with read_only=True can be refreshed")
    news = followed.news()
    limits, on_error, before = knowledge.engine.limits, knowledge.failures.on_error, knowledge.catalogue.prefixes
    with knowledge.terms_if_it_succeeds():
        knowledge.engine.reclaim_terms()
        knowledge.engine.limits, knowledge.failures.on_error = Limits(), "count"  # The writer has kept to its own.
        try:
            change = _apply(knowledge, _difference(knowledge, followed, news))
        except BaseException as problem:
            knowledge.catalogue.prefixes = before
            if isinstance(problem, TidelogError) and not isinstance(problem, StorageError):
                raise StorageError(f"what {followed.folder} holds now cannot be taken in: {problem}") from problem
            raise
        finally:
            knowledge.engine.limits, knowledge.failures.on_error = limits, on_error
    followed.took(news)
    return change


def _difference(knowledge: Knowledge, followed: Follower, news: News) -> Difference:
    if news.image is None:
        return _of_journal(knowledge, followed.folder, news.payloads)
    fresh = Knowledge(**news.image.options)
    for name, function in knowledge.functions.items():
        fresh.register(name, unguarded(function))
    SavedFolder(followed.folder, news.image, news.payloads).fill(fresh)
    return _between(knowledge, fresh)


def _of_journal(knowledge: Knowledge, folder: Path, payloads: list[bytes]) -> Difference:
    """Updates one after the other: in each, deletions come before additions."""
    found = Difference()
    for payload in payloads:
        record = from_json(payload, knowledge.engine.store.terms.encode_values, folder / "the journal")
        found.take_rows(record.delete, False)
        found.take_rows(record.add, True)
        found.take_rules(record.remove_rules, False)
        found.take_rules(record.add_rules, True)
        found.prefixes = record.prefixes or found.prefixes
        found.declared = merged(found.declared, record.declared.values())
        found.commit = record.commit or found.commit
    return found


def _between(knowledge: Knowledge, fresh: Knowledge) -> Difference:
    """What another knowledge base has, and what it has not."""
    catalogue = fresh.catalogue
    found = Difference(prefixes=catalogue.prefixes, declared=catalogue.declared, commit=fresh.commit_info)
    # Later pieces count: what is not there, unless it is.
    found.take_rows(dict(_explicit(knowledge)), False)
    encode, decode = knowledge.engine.store.terms.encode_values, fresh.engine.store.terms.table.decode_column
    for predicate, cells in _explicit(fresh):
        columns = [np.asarray(encode(decode(column)), np.int32) for column in cells.T]
        found.take_rows({predicate: np.stack(columns, axis=1) if columns else cells}, True)
    found.take_rules(tuple(knowledge.engine.graph.rules.values()), False)
    found.take_rules(tuple(fresh.engine.graph.rules.values()), True)
    return found


def _explicit(knowledge: Knowledge) -> Iterator[tuple[str, Cells]]:
    for predicate in list(knowledge.engine.store.named()):
        if not predicate.startswith("#") and knowledge.reader.count(predicate, explicit=True):
            yield predicate, knowledge.reader.rows(predicate, explicit=True).cells


def _last(pieces: list[tuple[Cells, bool]], present: bool) -> Cells:
    """The rows whose last piece says that they are present, or that they are not."""
    rows = np.concatenate([piece for piece, _ in pieces])
    signs: npt.NDArray[np.bool_] = np.concatenate([np.full(len(piece), sign) for piece, sign in pieces])
    _, first_from_behind = np.unique(row_keys(rows)[::-1], return_index=True)
    last = len(rows) - 1 - first_from_behind
    return rows[last[signs[last] == present]]


def _apply(knowledge: Knowledge, found: Difference) -> Change:
    catalogue = knowledge.catalogue
    known = catalogue.rule_numbers.keys()
    added = tuple(rule for key, (rule, present) in found.rules.items() if present and key not in known)
    removed = tuple(rule for key, (rule, present) in found.rules.items() if not present and key in known)
    catalogue.declare(found.prefixes.items())
    update = catalogue.check(added, removed, foreign_functions(added), found.declared.values())
    check_arities_of(({name: rows} for name, pieces in found.rows.items() for rows, _ in pieces), update.arities)
    facts = found.facts(present=False), found.facts(present=True)
    request = Request(*facts, tuple(update.removed), tuple(update.added.values()))
    return knowledge.replay(request, update, found.commit)
