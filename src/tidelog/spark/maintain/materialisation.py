"""A materialisation in Parquet files, kept up to date: `Materialisation.update` makes each update a new version.

made = Materialisation.create(spark, "folder", "path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z).")
change = made.update(add={"edge": [("a", "b"), ("b", "c")]})
change.added["path"].show()
Materialisation.open(spark, "folder").at(1).facts("path").show()
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidelog.errors import StorageError, TidelogError
from tidelog.facts.questions import Fact as Asked
from tidelog.facts.questions import fact_of, warn_of_unknown
from tidelog.formats.batch import FactBatch
from tidelog.language import parse_program, parse_rules, render
from tidelog.language.names import is_checked_once, is_hidden
from tidelog.language.syntax import Constant, Program, Rule
from tidelog.language.written.conditions import PRINTED
from tidelog.program.catalogue import Catalogue, NamesInUse, name_of
from tidelog.program.graph import RuleGraph
from tidelog.proofs.failure import WhyNot
from tidelog.proofs.proof import Proof
from tidelog.spark.data.term_lookup import GIVE, TAKE, ids_of_constants, values_that_name
from tidelog.spark.maintain.given_facts import Given, Records
from tidelog.spark.maintain.maintenance_run import Maintenance
from tidelog.spark.maintain.update_work import Staging, Transition, Work
from tidelog.spark.options import OnProgress, Options
from tidelog.spark.places import absolute_path
from tidelog.spark.plan.refusals import refuse_expiries, refuse_lattices
from tidelog.spark.plan.rule_changes import RuleChanges, changed_rules
from tidelog.spark.plan.schedule import constants_of
from tidelog.spark.proofs.explaining import Explainer
from tidelog.spark.small.marks import Marked
from tidelog.spark.small.pending_facts import PendingFacts
from tidelog.spark.small.term_values import Values
from tidelog.spark.stored.keyed_files import ColumnCache, Files, TooManyFacts
from tidelog.spark.stored.layers import Stored, compacted
from tidelog.spark.stored.version_history import History, Version
from tidelog.spark.stored.version_reader import Collected, SparkChange, VersionReader
from tidelog.storage.folder_lock import FolderLock

RuleTexts = str | Iterable[str]

Ahead = Callable[[], Mapping[str, Any] | None]
"""The next update of a stream, with the arguments of `update` by name; None if it is not there yet."""

# A name that so many facts have counts as in use, even if some of them have been deleted since.
_MANY = 1_000_000
# So many facts and rule instances are looked up for a proof, at most.
_LOOKED_UP = 5_000_000


class Materialisation:
    """One version of a materialisation: the current one, which updates move on, or an older one to read.

    Examples:
        >>> from tidelog.spark import Materialisation
        >>> made = Materialisation.create(spark, f"{folder}/graph", "path(X, Y) :- edge(X, Y).")
        >>> made.update(add={"edge": [("a", "b")]}).added_counts
        {'edge': 1, 'path': 1}
        >>> made.version, made.count("path"), made.at(1).count("path")
        (2, 1, 0)
    """

    def __init__(
        self,
        spark: SparkSession,
        history: History,
        version: Version,
        options: Options | None,
        functions: Mapping[str, Callable[..., Any]] | None,
        on_progress: OnProgress,
        pinned: bool = False,
    ) -> None:
        self._spark = spark
        self._history = history
        self._options = options or Options()
        refuse_lattices(functions or {})
        self._functions = dict(functions or {})
        self._on_progress = on_progress
        self._pinned = pinned
        self._ids: dict[Constant, int] = {}
        self._columns = ColumnCache()
        self._marked = Marked()
        self._show(version, RuleGraph(_rules_of(version)))

    @classmethod
    def create(
        cls,
        spark: SparkSession,
        path: str,
        program: str = "",
        add: Given | None = None,
        options: Options | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        on_progress: OnProgress = lambda _: None,
    ) -> Materialisation:
        """Materialise the facts and rules of a text, and more facts, into a folder, as version 1."""
        folder = Path(absolute_path(path))
        history = History(folder)
        if history.current() is not None:
            raise StorageError(f"{folder} holds a materialisation already; open it, or choose another folder")
        folder.mkdir(parents=True, exist_ok=True)
        parsed = parse_program(program)
        empty = Version(prefixes=dict(parsed.prefixes))
        made = cls(spark, history, empty, options, functions, on_progress)
        made._apply(parsed, (), [(parsed.rows, GIVE), (add or {}, GIVE)], {})
        return made

    @classmethod
    def open(
        cls,
        spark: SparkSession,
        path: str,
        options: Options | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        on_progress: OnProgress = lambda _: None,
    ) -> Materialisation:
        """The current version of the materialisation in a folder."""
        history = History(Path(absolute_path(path)))
        current = history.current()
        if current is None:
            raise StorageError(f"{path}: there is no materialisation; make one with Materialisation.create")
        return cls(spark, history, current, options, functions, on_progress)

    @property
    def version(self) -> int:
        """The number of this version, from 1 on."""
        return self._version.number

    @property
    def versions(self) -> list[int]:
        """The versions that can be read, the current one last."""
        return self._history.numbers()

    @property
    def commit_info(self) -> Mapping[str, str]:
        """What the caller of the update that made this version committed with it."""
        return dict(self._version.commit)

    @property
    def rules(self) -> list[str]:
        """The rules of the program as text."""
        return list(dict.fromkeys(render(rule, self._catalogue.prefixes) for rule in self._graph.rules.values()))

    @property
    def predicates(self) -> list[str]:
        """Every predicate that has been stored."""
        return self._reader.predicates

    @property
    def change(self) -> SparkChange:
        """What the update that made this version did."""
        return self._reader.change()

    @property
    def collected(self) -> Collected:
        """The same, brought to the driver as values, without a job."""
        return self._reader.collected()

    def __len__(self) -> int:
        return sum(stored.facts for name, stored in self._version.stored.items() if not is_hidden(name))

    def count(self, predicate: str) -> int:
        """How many facts a predicate has."""
        return self._reader.count(predicate)

    def facts(self, predicate: str) -> DataFrame:
        """The facts of a predicate, with decoded terms in columns `c0`, `c1`, …"""
        return self._reader.facts(predicate)

    def explicit(self, predicate: str) -> DataFrame:
        """The explicit facts of a predicate."""
        return self._reader.facts(predicate, "e")

    def at(self, version: int) -> Materialisation:
        """An older version, to read."""
        found = self._history.version(version)
        return Materialisation(
            self._spark, self._history, found, self._options, self._functions, self._on_progress, pinned=True
        )

    def update(
        self,
        add: Given | None = None,
        delete: Given | None = None,
        add_rules: RuleTexts = (),
        remove_rules: RuleTexts = (),
        commit: Mapping[str, str] | None = None,
        ahead: Ahead | None = None,
    ) -> SparkChange:
        """Apply one update, deletions before additions, and commit it as the next version: all or nothing.

        Facts are given by predicate, as DataFrames or as rows. `commit` is stored with the version, in the same step.
        `ahead`, in a stream, tells what the next update is, if that is known yet: small updates mark what it deletes.
        """
        program = self._catalogue.parse_added(_joined(add_rules), self._names_in_use, functions=self._functions)
        known = self._catalogue.names(self._functions)
        prefixes = self._catalogue.prefixes | dict(program.prefixes)
        removed = parse_rules(_joined(remove_rules), prefixes, names=known)
        return self._apply(program, removed, [(add or {}, GIVE), (delete or {}, TAKE)], commit or {}, ahead)

    # ── proofs ───────────────────────────────────────────────────────────────────────────────────────────────────

    def explain(self, fact: Asked, /, **values: object) -> Proof | None:
        """A proof of least height of a fact such as `"path(a, c)"`; None if it does not hold. Facts with parameters
        are asked with their values, or as tuples, as in `KnowledgeBase.explain`.

        The driver looks up what it needs in the files of this version; no job is run.

        Examples:
            >>> from tidelog.spark import Materialisation
            >>> print(Materialisation.open(spark, f"{folder}/graph").explain("path(a, b)"))
            path(a, b)  by path(X, Y) :- edge(X, Y).
            └── edge(a, b)  explicit
        """
        asked = fact_of(fact, values, self._catalogue)
        warn_of_unknown(self._catalogue, asked.predicate, asked.arity)
        return self._explainer().explain(asked)

    def why_not(self, fact: Asked, /, **values: object) -> WhyNot:
        """What a fact that does not hold lacks, down to the explicit facts, as `KnowledgeBase.why_not` says it.

        Examples:
            >>> from tidelog.spark import Materialisation
            >>> Materialisation.open(spark, f"{folder}/graph").why_not("path(b, a)").missing
            ('edge(b, a)',)
        """
        asked = fact_of(fact, values, self._catalogue)
        return self._explainer().why_not(asked, self._catalogue.arities)

    def _explainer(self) -> Explainer:
        files = self._files(_LOOKED_UP)
        values = Values(self._reader.dictionary(), (), self._functions)
        facts = PendingFacts(files, self._version.stored, self._ids, values)
        return Explainer(facts, self._graph, self._catalogue.prefixes)

    def _files(self, most: int) -> Files:
        """The files of this version, for looking up at most so many facts."""
        version = self._version
        return Files(self._history.folder, self._columns, version.stored, most)

    def compact(self) -> int:
        """Fold all layers into one base for each predicate, as a new version; returns its number."""
        with self._writing() as folder:
            stored = compacted(self._spark, self._history.folder, folder, self._version.stored, everything=True)
            version = replace(self._version, number=self.version + 1, stored=stored, changed={}, work={})
            self._commit(version, self._graph)
        return self.version

    def vacuum(self, keep: int = 2) -> list[int]:
        """Remove all versions but the newest ones, and the files that only they needed; returns their numbers."""
        with FolderLock.for_writing(self._history.folder):
            return self._history.vacuum(keep)

    def _apply(
        self,
        program: Program,
        removed: tuple[Rule, ...],
        given: list[tuple[Given, str]],
        commit: Mapping[str, str],
        ahead: Ahead | None = None,
    ) -> SparkChange:
        refuse_expiries(program.expiries)
        catalogue = self._draft()
        catalogue.declare(program.prefixes)
        update = catalogue.check(program.rules, removed, self._functions.keys(), program.predicates)
        records = Records(self._spark, catalogue.prefixes, update.arities)
        for facts, kind in given:
            records.add(facts, kind)
        rules = changed_rules(self._graph.copy(), update.added.values(), update.removed)
        with self._writing() as folder:
            work = self._work(folder, records.arities, rules)
            is_marking = ahead is not None and not rules.heads
            next_taken = partial(self._taken_next, ahead, records.arities) if ahead else lambda: None
            marked = self._marked if is_marking else None
            run = Maintenance(work, rules, records, self._columns, self._on_progress, marked, next_taken)
            run.run()
            root, dictionary = self._history.folder, work.dictionary
            version = Version(
                self.version + 1,
                tuple(dict.fromkeys(map(str, rules.graph.rules.values()))),
                catalogue.prefixes,
                compacted(self._spark, root, folder, work.facts.stored),
                work.facts.changed,
                work.by_kind(),
                tuple(str(Path(part).relative_to(root)) for part in dictionary.parts),
                dictionary.size,
                dictionary.floats,
                dictionary.ids.exceptions,
                dict(commit),
            )
            self._commit(version, rules.graph)
        self._ids = dict(work.ids)
        self._marked = run.marked
        return self.change

    def _taken_next(self, ahead: Ahead, arities: Mapping[str, int]) -> list[FactBatch] | None:
        """What the next update takes; None if it is not there yet, or too large to mark, or changes rules.

        Whether it fits at all is told when it is applied."""
        update = ahead()
        if update is None or update.get("add_rules") or update.get("remove_rules"):
            return None
        try:
            records = Records(self._spark, self._catalogue.prefixes, arities)
            records.add(update.get("delete") or {}, TAKE)
        except TidelogError:
            return None
        return records.few_taken()

    def _names_in_use(self) -> NamesInUse:
        """The names that this version uses, for the check of prefixes that are declared late."""
        root, version = self._history.folder, self._version

        def names_in_facts(start: str) -> Iterator[str]:
            """The dictionary never forgets a constant, so facts are looked at as well."""
            candidates = values_that_name([str(root / part) for part in version.terms], start)
            names = {id_: name_of(value) for id_, value in candidates.items()}
            if names:
                files = self._files(_MANY)
                for name, stored in version.stored.items():
                    for column in range(stored.arity):
                        yield from sorted(names[id_] for id_ in _used(files, name, column, names))

        with_facts = (name for name, stored in version.stored.items() if stored.facts)
        return NamesInUse((*self._graph.predicates, *with_facts), self._graph.rules.values(), names_in_facts)

    def _draft(self) -> Catalogue:
        """The catalogue of this version, for an update to try its prefixes and rules on."""
        arities = {name: stored.arity for name, stored in self._version.stored.items()}
        return Catalogue(self._version.prefixes, arities, self._graph.rules)

    @contextmanager
    def _writing(self) -> Iterator[Path]:
        """A folder for the files of the next version, while nobody else writes; removed if something raises."""
        if self._pinned:
            raise StorageError(f"version {self.version} is here to be read; open the materialisation to update it")
        with FolderLock.for_writing(self._history.folder):
            current = self._history.current()
            if current is not None and current.number != self.version:
                raise StorageError(f"version {current.number} was committed by another writer; open it again")
            folder = self._history.begin(self.version + 1)
            try:
                yield folder
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise

    def _work(self, folder: Path, arities: Mapping[str, int], rules: RuleChanges) -> Work:
        stored = dict(self._version.stored)
        for name, arity in arities.items():
            stored.setdefault(name, Stored(len(stored), arity))
        dictionary = self._reader.dictionary()
        wanted = set(constants_of([*rules.normal.values(), *rules.removed.values()]))
        ids = self._ids | ids_of_constants(dictionary, wanted - self._ids.keys())
        staging = Staging(self._spark, folder)
        facts = Transition(staging, self._history.folder, stored)
        return Work(self._spark, staging, facts, dictionary, ids, self._functions, self._options)

    def _commit(self, version: Version, graph: RuleGraph) -> None:
        self._history.commit(version)
        self._show(version, graph)
        self._columns.keep({self._history.folder / path for path in version.paths})
        for path in self._history.data_folder(version.number).glob("scratch-*"):
            shutil.rmtree(path, ignore_errors=True)

    def _show(self, version: Version, graph: RuleGraph) -> None:
        """Make a version the one to read."""
        self._version = version
        self._graph = graph
        self._catalogue = self._draft()
        self._reader = VersionReader(self._spark, self._history.folder, version, self._catalogue)


def _used(files: Files, name: str, column: int, ids: Iterable[int]) -> set[int]:
    """The ids among these that facts of a predicate have in a column."""
    try:
        return {fact[column] for fact in files.matching(name, (column,), {(id_,) for id_ in ids})}
    except TooManyFacts:
        return set(ids)


def _rules_of(version: Version) -> list[Rule]:
    """The rules of a version. Earlier versions of tidelog had one rule where parts of a body are checked once now."""
    rules = parse_rules("\n".join(version.rules), {}, names=PRINTED)
    heads = {rule.head.predicate: rule.written for rule in rules if is_checked_once(rule.head.predicate)}
    whole = {rule for predicate, rule in heads.items() if predicate not in version.stored}
    return list(dict.fromkeys(rule.written if rule.written in whole else rule for rule in rules))


def _joined(texts: RuleTexts) -> str:
    return texts if isinstance(texts, str) else "\n".join(texts)
