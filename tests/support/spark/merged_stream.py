"""Several courses as one, since Spark costs its latency per job, not per rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

import courses
from courses import FUNCTIONS, Course
from merged import Merged, Part
from naive import Database, State, Update, database, minus, normal, plain, without_empty
from tidelog.language import parse_rules
from tidelog.language.names import is_hidden
from tidelog.language.syntax import Constant, Rule
from tidelog.spark import Materialisation, Options
from tidelog.spark.data.dictionary import value_of
from tidelog.spark.stored.layers import CAME, WENT, Snapshot

# The workers of Spark get functions of rules by value: they do not know the folder that the tests lie in.
cloudpickle.register_pickle_by_value(courses)


class Reader:
    """The facts of a version as the oracle has them, in one job each: under merged names, as constants."""

    def __init__(self, made: Materialisation) -> None:
        version = made._version
        self._snapshot: Snapshot = made._reader.snapshot
        self._changed = version.changed
        self._names = {stored.number: name for name, stored in version.stored.items()}
        terms = made._reader.dictionary().frame().select("id", "value.*").collect()
        self._terms = {row[0]: Constant(value_of(tuple(row[1:]))) for row in terms}

    def held(self) -> tuple[Database, Database]:
        """What holds, and which of it is explicit."""
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
        return {name: facts for name, facts in found.items() if not is_hidden(name)}


class MergedStream:
    """Several courses as one. A course that ends before the others does nothing from then on."""

    def __init__(self, courses: Sequence[Course]) -> None:
        updates = zip_longest(*(course.updates for course in courses), fillvalue=Update())
        self._updates = list(updates)
        self._courses = courses
        self._merged = Merged(Part(f"{n}", c.start.rules, c.start.explicit) for n, c in enumerate(courses))

    def check(self, spark: SparkSession, folder: Path, *options: Options) -> Materialisation:
        """Run all courses, each step with the next of the options, which come round; after each step what holds, what
        is explicit, what changed, and the rules must be what the oracle says.
        """
        rules = "\n".join(str(rule) for rule in self._merged.program().rules)
        facts = plain(self._together([course.start.explicit for course in self._courses]))
        made = Materialisation.create(spark, str(folder), rules, facts, options[0], FUNCTIONS)
        self._compare(made, 0)
        for number, updates in enumerate(self._updates, start=1):
            if len(options) > 1:
                made = Materialisation.open(spark, str(folder), options[number % len(options)], FUNCTIONS)
            made.update(
                plain(self._together([update.add for update in updates])),
                plain(self._together([update.delete for update in updates])),
                self._rules([update.add_rules for update in updates]),
                self._rules([update.remove_rules for update in updates]),
            )
            self._compare(made, number)
        return made

    def state(self, number: int) -> State:
        """The state of all courses after this many updates, under merged names."""
        states = [course.states[min(number, len(course.updates))] for course in self._courses]
        rules = [self._merged._rule(part, rule) for part, state in enumerate(states) for rule in state.rules]
        return State(tuple(rules), self._together([state.explicit for state in states]))

    def facts(self, number: int) -> Database:
        """What holds in that state."""
        return self._together([course.facts[min(number, len(course.updates))] for course in self._courses])

    def _compare(self, made: Materialisation, number: int) -> None:
        reader = Reader(made)
        held, explicit = reader.held()
        state, expected = self.state(number), self.facts(number)
        self._same(held, expected, "holds", number)
        self._same(explicit, state.explicit, "is explicit", number)
        rules = [rule.written for rule in parse_rules("\n".join(made.rules), {}) if rule.part == 0]
        assert Counter(map(normal, rules)) == Counter(map(normal, state.rules)), "the rules"
        assert len(made) == sum(map(len, expected.values()))
        if number:
            before = self.facts(number - 1)
            changes = (reader.changed(), (database(made.collected.added), database(made.collected.removed)))
            for came, went in changes:
                self._same(came, minus(expected, before), "came", number)
                self._same(went, minus(before, expected), "went", number)

    def _same(self, found: Database, expected: Database, what: str, number: int) -> None:
        for name in found.keys() | expected.keys():
            ours, theirs = found.get(name, set()), expected.get(name, set())
            if ours != theirs:
                [(part, original)] = [key for key, merged in self._merged._names.items() if merged == name]
                missing, extra = sorted(map(str, theirs - ours)), sorted(map(str, ours - theirs))
                raise AssertionError(
                    f"{original} of part {part}, after update {number}: what {what} lacks {missing} and has {extra} too"
                    f"\n{self._courses[part]}"
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
