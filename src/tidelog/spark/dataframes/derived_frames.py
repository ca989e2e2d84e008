"""`derive`: from DataFrames of facts to DataFrames of conclusions, in one line.

What does not depend on a recursion is a lazy plan over the frames that were given. A recursion needs to know when to
stop, so it is computed when one of its frames, or one above it, is asked for: by `SparkEngine`, once, with everything
below it; its results lie in files, from which the frames read. A plan repeats what a predicate is made of wherever
that is used, so predicates at the top of deep programs are computed in that way, too.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidelog.errors import ArityError, DataError
from tidelog.formats.batch import FLOAT, parts
from tidelog.formats.columns.tables import columns_of
from tidelog.language import parse_program
from tidelog.language.checks import check_arities
from tidelog.language.names import is_hidden
from tidelog.language.syntax import Program, body_atoms
from tidelog.program.catalogue import Catalogue
from tidelog.program.graph import RuleGraph
from tidelog.program.normal_form import normalise
from tidelog.spark.data.dictionary import VALUE_TYPE
from tidelog.spark.data.fact_records import batches_of_atoms, structs_of_column
from tidelog.spark.data.value_frames import ValueSource, frame_of_values, kinds_of_frame
from tidelog.spark.data.wide_frames import keys, union_all
from tidelog.spark.dataframes.column_kinds import Kinds, kinds_of_columns, kinds_of_facts, names_of_heads
from tidelog.spark.dataframes.lazy_rules import LazyRules, nothing_typed, typed
from tidelog.spark.materialise.spark_engine import SparkEngine
from tidelog.spark.options import Options
from tidelog.spark.plan.refusals import check_fit, refuse_expiries, refuse_lattices
from tidelog.spark.plan.schedule import reads
from tidelog.spark.plan.sql_expressions import Functions
from tidelog.spark.session import open_session

# A predicate whose plan would have more scans than this is computed, as recursions are.
MOST_SCANS = 200


def derive(
    program: str,
    facts: Mapping[str, Any] | None = None,
    /,
    *,
    functions: Functions | None = None,
    options: Options | None = None,
    folder: str | None = None,
    **frames: Any,
) -> Derived:
    """The conclusions of a program from DataFrames of facts: a mapping from derived predicates to DataFrames.

    Facts are Spark DataFrames, or rows in any form that `KnowledgeBase.update` takes, by the name of their predicate;
    those whose name is no word of Python, or is one of the parameters, are given in a mapping. Their columns are the
    arguments, in order. The columns of results are named after the variables in the head of the first rule, or like
    those of the frame if one was given for the same predicate.

    Rules without recursion become one lazy plan. A recursion is computed when its first frame is asked for, with its
    facts in `folder`, which all executors must reach; the default is a folder of this machine that goes with the
    process.

    Examples:
        >>> from tidelog.spark import derive
        >>> edges = spark.createDataFrame([("a", "b"), ("b", "c")], ["from", "to"])
        >>> derived = derive("path(X, Y) :- edge(X, Y).  path(X, Z) :- edge(X, Y), path(Y, Z).", edge=edges)
        >>> list(derived)
        ['path']
        >>> derived["path"].orderBy("X", "Y").collect()
        [Row(X='a', Y='b'), Row(X='a', Y='c'), Row(X='b', Y='c')]
    """
    parsed = parse_program(program)
    refuse_expiries(parsed.expiries)
    if parsed.queries:
        raise DataError(
            f"derive does not answer queries; write `{parsed.queries[0]}` as a rule, such as answer(X) :- …"
        )
    given = [*(facts or {}).items(), *frames.items()]
    return Derived(parsed, given, functions or {}, options or Options(), folder)


class Derived(Mapping[str, DataFrame]):
    """The derived predicates of a program as DataFrames, each made when it is asked for.

    Examples:
        >>> from tidelog.spark import derive
        >>> derived = derive("busy(X, count(Y)) :- edge(X, Y).", edge=[("a", "b"), ("a", "c")])
        >>> derived["busy"].collect()
        [Row(X='a', count_Y=2)]
        >>> derived["busy"].schema.simpleString()
        'struct<X:string,count_Y:bigint>'
    """

    def __init__(
        self,
        program: Program,
        given: Sequence[tuple[str, Any]],
        functions: Functions,
        options: Options,
        folder: str | None,
    ) -> None:
        self._catalogue = Catalogue(dict(program.prefixes))
        rules = self._catalogue.check(program.rules, (), functions.keys(), program.predicates).added.values()
        self._program = program
        refuse_lattices(functions)
        self._functions = functions
        self._options = options
        self._folder = folder
        self._graph = RuleGraph(rules)
        check_fit(self._graph)
        self._arities = check_arities((*program.predicates, *program.facts, *rules), {}, self._catalogue.prefixes)
        self._spark = _session(found for _, found in given)
        kinds = kinds_of_facts(program.facts)
        self._given: dict[str, DataFrame] = {}
        self._names = names_of_heads(rules, program.predicates)
        for name, found in given:
            predicate = self._catalogue.resolve(name)
            if predicate in self._given:
                raise DataError(f"`{name}` is given twice; give the union of both")
            frame, frame_kinds = self._frame(name, found)
            self._check_arity(name, predicate, len(frame_kinds))
            self._given[predicate] = frame
            known = kinds.get(predicate, [frozenset()] * len(frame_kinds))
            kinds[predicate] = [one | other for one, other in zip(known, frame_kinds, strict=True)]
            if isinstance(found, DataFrame) and predicate in self._names:
                self._names[predicate] = list(found.columns)
        normal = [normalise(rule) for rule in self._graph.rules.values()]
        self._kinds = kinds_of_columns(normal, kinds, functions)
        self._made: dict[str, DataFrame | None] = {}

    # ── a mapping ────────────────────────────────────────────────────────────────────────────────────────────────

    def __getitem__(self, name: str) -> DataFrame:
        predicate = self._catalogue.resolve(name)
        if predicate not in self._names:
            raise KeyError(f"no rule derives `{name}`; there are {', '.join(self) or 'no rules'}")
        names, kinds = self._names[predicate], self._kinds[predicate]
        found = self._lazy.frame(predicate, self._made)
        return nothing_typed(self._spark, names, kinds) if found is None else typed(found, names, kinds)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._catalogue.resolve(name) in self._names

    def __iter__(self) -> Iterator[str]:
        return (self._catalogue.display(name) for name in self._names if not is_hidden(name))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return f"<Derived: {', '.join(self)}>"

    # ── what Spark will do ───────────────────────────────────────────────────────────────────────────────────────

    def explain(self, extended: bool = False) -> None:
        """Print for each predicate whether it is one lazy plan, which Spark prints, or part of a recursion."""
        for name in self:
            predicate = self._catalogue.resolve(name)
            if predicate in self._eager and "_engine" not in self.__dict__:
                print(f"{name}: {self._outlook(predicate)}")
                continue
            below = sorted(map(self._catalogue.display, self._reached(predicate) & self._eager - {predicate}))
            if below and "_engine" not in self.__dict__:
                print(f"{name}: a lazy plan over {', '.join(below)}, which {_ARE[len(below) > 1]} computed first")
                continue
            done = [f"{found.how}: {found.new_facts:,} facts" for found in self._rounds(predicate)]
            print(f"{name}: {'; '.join(done) if done else 'one lazy plan'}")
            self[name].explain(extended)

    def _outlook(self, predicate: str) -> str:
        how = "recursive" if self._graph.component(predicate).recursive else "below a recursion, or of many parts"
        return f"{how}; computed when it is asked for, inside one task if it is small, by rounds if it is not"

    def _rounds(self, predicate: str) -> list[Any]:
        if predicate not in self._eager:
            return []
        return [found for found in self._engine.statistics.rounds if predicate in found.predicates]

    # ── the parts of the program ─────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _eager(self) -> frozenset[str]:
        """The derived predicates of recursions, those whose plans would be huge, and those that these read."""
        found: set[str] = set()
        scans: dict[str, int] = {}
        components = self._graph.components_in_order()
        for component in components:
            rules = [self._graph.rule(number) for number in component.rules]
            size = sum(scans.get(atom.predicate, 1) for rule in rules for atom in body_atoms(rule))
            is_eager = component.recursive or size > MOST_SCANS
            scans.update(dict.fromkeys(component.predicates, 1 if is_eager else size))
            if is_eager:
                found.update(component.predicates)
        for component in reversed(components):
            if not found.isdisjoint(component.predicates):
                found |= reads(self._graph, component)
        return frozenset(found & self._names.keys())

    def _reached(self, predicate: str) -> set[str]:
        """The predicates that a predicate depends on."""
        found, waiting = set[str](), [predicate]
        while waiting:
            name = waiting.pop()
            for number in self._graph.producers(name):
                for below in self._graph.reads(number):
                    new = set(below) - found
                    found |= new
                    waiting += new
        return found

    @cached_property
    def _lazy(self) -> LazyRules:
        rules: dict[str, list[Any]] = {}
        for rule in self._graph.rules.values():
            if rule.head.predicate not in self._eager:
                rules.setdefault(rule.head.predicate, []).append(normalise(rule))
        floats = any(FLOAT in kinds for columns in self._kinds.values() for kinds in columns)
        return LazyRules(self._spark, rules, self._facts, self._functions, floats)

    def _facts(self, predicate: str) -> DataFrame | None:
        """The facts of a predicate that no lazy rule derives: those of the engine, or given ones."""
        if predicate in self._eager:
            engine = self._engine
            if not engine.relations.count(predicate):
                return None
            arity = engine.relations[predicate].arity
            values = engine.values(predicate)
            return values.toDF(*keys(arity)) if arity else values
        written = [fact for fact in self._program.facts if fact.predicate == predicate]
        frames = [self._given[predicate]] if predicate in self._given else []
        if written:
            columns = columns_of([fact.row for fact in written], predicate)
            assert columns is not None
            frames.append(self._local(columns))
        return union_all(frames) if frames else None

    @cached_property
    def _engine(self) -> SparkEngine:
        """The recursions and all that they need, computed."""
        folder = self._folder
        if folder is None:
            folder = tempfile.mkdtemp(prefix="tidelog-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
        wanted = self._eager | {name for predicate in self._eager for name in self._reached(predicate)}
        program = Program(
            self._program.prefixes,
            rules=tuple(rule for rule in self._graph.rules.values() if rule.head.predicate in self._eager),
        )
        engine = SparkEngine(self._spark, program, folder, functions=self._functions, options=self._options)
        written = [fact for fact in self._program.facts if fact.predicate in wanted]
        given = [ValueSource(name, self._arities[name], frame) for name, frame in self._given.items() if name in wanted]
        engine.load(given, batches_of_atoms(written, "the program"))
        engine.materialise()
        return engine

    # ── given facts ──────────────────────────────────────────────────────────────────────────────────────────────

    def _frame(self, name: str, rows: Any) -> tuple[DataFrame, list[Kinds]]:
        """Given facts as a frame of values, and the kinds of its columns."""
        if isinstance(rows, DataFrame):
            return frame_of_values(rows, name), [frozenset((kind,)) for kind in kinds_of_frame(rows, name)]
        columns = columns_of(rows, name)
        if columns is None:
            arity = self._arities.get(self._catalogue.resolve(name), 1)
            empty = self._local([pa.array([], pa.string())] * arity)
            return empty.limit(0), [frozenset()] * arity
        return self._local(columns), [frozenset(part.kind for part in parts(column)) for column in columns]

    def _local(self, columns: list[pa.Array]) -> DataFrame:
        """Columns of facts of the driver as a frame of values."""
        if not columns:
            return self._spark.range(1).toDF("c0")
        names = keys(len(columns))
        schema = ", ".join(f"{name} {VALUE_TYPE}" for name in names)
        return self._spark.createDataFrame(pa.table([*map(structs_of_column, columns)], names=names), schema)

    def _check_arity(self, name: str, predicate: str, found: int) -> None:
        wanted = self._arities.setdefault(predicate, found)
        if wanted != found:
            raise ArityError(
                f"`{name}` has {wanted} arguments in the program, but its frame has {found} columns; select {wanted}"
            )


_ARE = ("is", "are")


def _session(given: Iterable[Any]) -> SparkSession:
    """The session of the frames, or that of this process."""
    return next((frame.sparkSession for frame in given if isinstance(frame, DataFrame)), None) or open_session()
