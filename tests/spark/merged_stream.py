"""Several programs with their streams of updates as one, since Spark costs its latency per job, not per rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path

from merged import Merged, Part
from pyspark.sql import DataFrame, SparkSession

from generate import Case
from naive import Database, Update, minus, plain, without_empty
from tidelog.language.syntax import Constant, Rule
from tidelog.spark import Materialisation, Options
from tidelog.spark.maintenance.snapshot import CAME, WENT, Snapshot
from tidelog.spark.terms import value_of


class Reader:
    """The facts of a version as the oracle has them, in one job each: under merged names, as constants."""

    def __init__(self, made: Materialisation) -> None:
        version = made._version
        self._snapshot: Snapshot = made._snapshot()
        self._changed = version.changed
        self._names = {stored.number: name for name, stored in version.stored.items()}
        terms = made._dictionary(version).frame().select("id", "value.*").collect()
        self._terms = {row[0]: Constant(value_of(tuple(row[1:]))) for row in terms}

    def held(self) -> tuple[Database, Database]:
        """What holds, and what of it is explicit."""
        rows = self._snapshot.rows(self._snapshot.stored).collect()
        assert all(row["e"] or row["n"] >= 0 for row in rows)
        return self._facts(rows), self._facts([row for row in rows if row["e"]])

    def changed(self) -> tuple[Database, Database]:
        """What came and what went."""
        paths = [changed.path for changed in self._changed.values()]
        if not paths:
            return {}, {}
        touched: DataFrame = self._snapshot.read(paths, self._snapshot.width(self._changed), "h0 boolean, ")
        came, went = touched.where(CAME).collect(), touched.where(WENT).collect()
        assert len(came) == sum(changed.come for changed in self._changed.values())
        assert len(went) == sum(changed.gone for changed in self._changed.values())
        return self._facts(came), self._facts(went)

    def _facts(self, rows: Iterable[DataFrame]) -> Database:
        found: Database = {}
        for row in rows:
            name = self._names[row["p"]]
            cells = (row[f"c{number}"] for number in range(self._snapshot.stored[name].arity))
            fact = tuple(self._terms[cell] for cell in cells)
            known = found.setdefault(name, set())
            assert fact not in known, f"{name}{fact} twice"
            known.add(fact)
        return found


class MergedStream:
    """Cases and their streams under one roof."""

    def __init__(self, streams: Sequence[tuple[Case, Sequence[Update]]]) -> None:
        self._states = [case.state for case, _ in streams]
        self._updates = list(zip_longest(*(updates for _, updates in streams), fillvalue=Update()))
        self._merged = Merged(Part(f"{number}", s.rules, s.explicit) for number, s in enumerate(self._states))

    def check(self, spark: SparkSession, folder: Path, options: Options) -> Materialisation:
        """Run all streams; after each update what holds, and what changed, must be what the oracle says."""
        rules = "\n".join(str(rule) for rule in self._merged.program().rules)
        facts = self._together([state.explicit for state in self._states])
        made = Materialisation.create(spark, str(folder), rules, plain(facts), options)
        before = self._compare(made, None)
        for updates in self._updates:
            self._states = [state.apply(update) for state, update in zip(self._states, updates, strict=True)]
            made.update(
                plain(self._together([update.add for update in updates])),
                plain(self._together([update.delete for update in updates])),
                self._rules([update.add_rules for update in updates]),
                self._rules([update.remove_rules for update in updates]),
            )
            before = self._compare(made, before)
        return made

    def _compare(self, made: Materialisation, before: Database | None) -> Database:
        reader = Reader(made)
        held, explicit = reader.held()
        expected = self._together([state.materialise() for state in self._states])
        self._same(held, expected, "holds")
        self._same(explicit, self._together([state.explicit for state in self._states]), "is explicit")
        if before is not None:
            came, went = reader.changed()
            self._same(came, without_empty(minus(expected, before)), "came")
            self._same(went, without_empty(minus(before, expected)), "went")
        return expected

    def _same(self, found: Database, expected: Database, what: str) -> None:
        for name in found.keys() | expected.keys():
            ours, theirs = found.get(name, set()), expected.get(name, set())
            if ours != theirs:
                [(part, original)] = [key for key, merged in self._merged._names.items() if merged == name]
                missing, extra = sorted(map(str, theirs - ours)), sorted(map(str, ours - theirs))
                raise AssertionError(
                    f"{original} of part {part}: what {what} lacks {missing} and has {extra} too\n{self._states[part]}"
                )

    def _together(self, databases: Sequence[Database]) -> Database:
        return without_empty(
            {
                self._merged.name(number, predicate): rows
                for number, database in enumerate(databases)
                for predicate, rows in database.items()
            }
        )

    def _rules(self, rules: Sequence[Sequence[Rule]]) -> list[str]:
        return [str(self._merged._rule(number, rule)) for number, of_part in enumerate(rules) for rule in of_part]
