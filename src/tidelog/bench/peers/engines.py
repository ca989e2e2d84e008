"""Other engines on the same input: clingo, DuckDB, Soufflé, SWI-Prolog, Spark, Pathway, plain Python, and tidelog.

Every engine gets the facts as Arrow tables and a program, and ends when it has counted the facts of the answer. Each
runs in a process of its own, with one thread.
"""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.bench.data.cases import CASES, Case, Tables, case_of
from tidelog.bench.measure import Failed, Measured, isolated, measure, measure_command
from tidelog.bench.peers import dataflow, floor, recursive_sql, sql
from tidelog.bench.peers.peer import Peer, Task, package_version, printed_version, rows_of
from tidelog.bench.peers.translate import (
    CLINGO,
    PROLOG,
    SOUFFLE,
    arities,
    derived_names,
    facts_text,
    plain_name,
    program_of,
    rule_text,
)


class Clingo(Peer):
    """The grounder of an answer set solver, which evaluates stratified programs by semi-naive evaluation."""

    name = "clingo"

    def version(self) -> str | None:
        return package_version("clingo")

    def materialise(self, task: Task) -> Measured:
        import clingo

        text = "".join(facts_text(name, rows, CLINGO) for name, rows in task.facts.items())
        text += "\n".join(rule_text(rule, CLINGO) for rule in task.rules)
        known = arities(task.rules, task.facts)
        text += "".join(f"\n#defined {name}/{arity}." for name, arity in known.items())

        def work() -> int:
            control = clingo.Control(["--warn=none"])
            control.add("base", [], text)
            control.ground([("base", [])])
            return sum(len(list(control.symbolic_atoms.by_signature(name, known[name]))) for name in task.answer)

        return measure(work)


def _connect(facts: Tables) -> Any:
    """DuckDB with one thread; the facts stand ready as views `input_NAME`."""
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET enable_progress_bar = false")
    for name, rows in facts.items():
        connection.register(f"input_{name}", rows)
    return connection


class DuckDB(Peer):
    """A recursive query, where the case has one."""

    name = "DuckDB"

    def version(self) -> str | None:
        return package_version("duckdb")

    def takes(self, case: Case) -> bool:
        return bool(case.query)

    def materialise(self, task: Task) -> Measured:
        connection = _connect(task.facts)

        def work() -> int:
            for name in task.facts:
                connection.execute(f"CREATE TABLE {name.removeprefix('p_')} AS SELECT * FROM input_{name}")
            (count,) = connection.execute(task.query).fetchone()
            return int(count)

        return measure(work)


class DuckDBLoop(Peer):
    """Semi-naive evaluation with a statement a round."""

    name = "DuckDB loop"

    def version(self) -> str | None:
        return package_version("duckdb")

    def materialise(self, task: Task) -> Measured:
        connection = _connect(task.facts)
        column_type = "BIGINT" if pa.types.is_integer(_some_type(task.facts)) else "VARCHAR"

        def work() -> int:
            for name in task.facts:
                connection.execute(f"CREATE TABLE {name} AS SELECT * FROM input_{name}")
            sql.create_tables(connection, column_type, arities(task.rules, task.facts))
            sql.materialise(connection, task.rules)
            counts = (connection.execute(f"SELECT count(*) FROM {name}").fetchone() for name in task.answer)
            return sum(int(count) for (count,) in counts)

        return measure(work)


def _some_type(facts: Tables) -> pa.DataType:
    return next(iter(facts.values())).schema.types[0]


class Souffle(Peer):
    """Soufflé's interpreter over files of facts."""

    name = "Soufflé"

    def version(self) -> str | None:
        return printed_version("souffle", "--version")

    def program(self, task: Task) -> str:
        kind = "number" if pa.types.is_integer(_some_type(task.facts)) else "symbol"
        lines = []
        for name, arity in arities(task.rules, task.facts).items():
            columns = ", ".join(f"c{column}: {kind}" for column in range(arity))
            lines.append(f".decl {name}({columns})")
        lines += [f".input {name}" for name in task.facts]
        lines += [rule_text(rule, SOUFFLE) for rule in task.rules]
        lines += [f".printsize {name}" for name in task.answer]
        return "\n".join(lines)

    def materialise(self, task: Task) -> Measured:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "program.dl").write_text(self.program(task))
            options = pyarrow.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
            for name, rows in task.facts.items():
                pyarrow.csv.write_csv(rows, Path(folder, f"{name}.facts"), options)
            measured = measure_command(["souffle", "-j1", "-F.", "program.dl"], folder)
        count = sum(int(line.split()[1]) for line in measured.value.splitlines() if len(line.split()) == 2)
        return Measured(measured.cpu, measured.wall, measured.memory, count)


class SwiProlog(Peer):
    """SWI-Prolog with tabling: every derived predicate is tabled, and the answers are counted."""

    name = "SWI-Prolog"
    OPTIONS = ("--stack-limit=8g", "--table-space=8g")

    def version(self) -> str | None:
        return printed_version("swipl", "--version")

    def program(self, task: Task, incremental: bool = False) -> str:
        known = arities(task.rules, task.facts)
        derived = derived_names(task.rules)
        given = {name: f"given_{name}" if name in derived else name for name in task.facts}
        kind = " as incremental" if incremental else ""
        lines = [f":- table {name}/{known[name]}{kind}." for name in derived]
        lines += [
            f":- dynamic {given.get(name, name)}/{known[name]}{kind}." for name in {*known} - {*derived} | {*given}
        ]
        lines.append(":- style_check(-discontiguous), style_check(-singleton).")
        lines += [facts_text(given[name], rows, PROLOG) for name, rows in task.facts.items()]
        for name in derived:
            lines += [rule_text(rule, PROLOG) for rule in task.rules if plain_name(rule.head.predicate) == name]
            if name in task.facts:
                row = ", ".join(f"V{column}" for column in range(known[name]))
                lines.append(f"{name}({row}) :- given_{name}({row}).")
        goals = [
            f"aggregate_all(count, {name}({', '.join('_' * known[name])}), N{i})" for i, name in enumerate(task.answer)
        ]
        total = " + ".join(f"N{i}" for i in range(len(goals)))
        lines.append(f"count(N) :- {', '.join(goals)}, N is {total}.")
        return "\n".join(lines)

    def materialise(self, task: Task) -> Measured:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "program.pl").write_text(self.program(task))
            goal = "count(N), print(N)"
            measured = measure_command(["swipl", *self.OPTIONS, "-g", goal, "-t", "halt", "program.pl"], folder)
        return Measured(measured.cpu, measured.wall, measured.memory, int(measured.value))


class SparkSQL(Peer):
    """Spark's `WITH RECURSIVE`, where the case has a recursive query; memory is that of its Java process."""

    name = "Spark SQL"

    def version(self) -> str | None:
        return package_version("pyspark")

    def takes(self, case: Case) -> bool:
        return bool(case.query)

    def materialise(self, task: Task) -> Measured:
        tables = {name.removeprefix("p_"): rows for name, rows in task.facts.items()}
        return recursive_sql.measured(task.query, tables)


class Pathway(Peer):
    """A dataflow that maintains what it derived; the facts come through a connector in Python."""

    name = "Pathway"

    def version(self) -> str | None:
        return package_version("pathway")

    def follow(self, task: Task, deleted: list[Tables]) -> list[tuple[float, int]]:
        """CPU seconds, and facts afterwards, of the materialisation and of each deletion after it."""
        logging.disable(logging.WARNING)
        updates = [
            [(number == 0, *row) for row in rows_of(facts)] for number, facts in enumerate([task.facts, *deleted])
        ]
        return dataflow.follow(task.rules, task.facts, task.answer, updates)

    def materialise(self, task: Task) -> Measured:
        measured = measure(lambda: self.follow(task, []))
        [(cpu, facts)] = measured.value
        return Measured(cpu, measured.wall, measured.memory, facts)


class PlainPython(Peer):
    """The floor."""

    name = "plain Python"

    def version(self) -> str | None:
        return "floor"

    def materialise(self, task: Task) -> Measured:
        original = {plain_name(rule.head.predicate): rule.head.predicate for rule in task.rules}
        for rule in task.rules:
            for item in rule.body:
                atom = getattr(item, "atom", item)
                if hasattr(atom, "predicate"):
                    original[plain_name(atom.predicate)] = atom.predicate
        rows = {
            name: list(zip(*(column.to_pylist() for column in table.columns), strict=True))
            for name, table in task.facts.items()
        }

        def work() -> int:
            found = floor.materialise(task.rules, {original.get(name, name): facts for name, facts in rows.items()})
            return sum(len(found[original[name]]) for name in task.answer)

        return measure(work)


PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (DuckDB(), DuckDBLoop(), Clingo(), Souffle(), SwiProlog(), SparkSQL(), Pathway(), PlainPython())
}


def installed() -> dict[str, str]:
    """The peers that are here, with their versions."""
    found = {name: peer.version() for name, peer in PEERS.items()}
    return {name: text for name, text in found.items() if text is not None}


def run_peer(peer: str, case: str, seed: int, size: float, timeout: float) -> Measured | Failed:
    """A peer on a case, in a process of its own."""
    if not PEERS[peer].takes(CASES[case]):
        return Failed("–")
    result: Measured | Failed = isolated(_peer_task, peer, case, seed, size, timeout=timeout)
    return result


def agreeing(ours: Measured | Failed, theirs: Measured | Failed) -> Measured | Failed:
    """A peer's figures, unless it found another number of facts than we: then its time would say nothing."""
    if isinstance(ours, Measured) and isinstance(theirs, Measured) and ours.value != theirs.value:
        return Failed(f"found {theirs.value:,} facts")
    return theirs


def _peer_task(peer: str, case: str, seed: int, size: float) -> Measured:
    return PEERS[peer].materialise(Task.of(CASES[case], seed, size))


# --- tidelog ----------------------------------------------------------------------------------------------------------


def run_tidelog(case: str | Case, seed: int, size: float, modules: bool, timeout: float) -> Measured | Failed:
    """tidelog on a case, in a process of its own, with its kernels loaded before the clock starts."""
    result: Measured | Failed = isolated(tidelog_task, case, seed, size, modules, timeout=timeout)
    return result


def tidelog_task(case: str | Case, seed: int, size: float, modules: bool) -> Measured:
    chosen = case_of(case)
    facts = chosen.facts(seed, size)
    materialise(chosen.rules, chosen.facts(seed, min(size, 0.002)), modules=modules)
    answer = chosen.answer or derived_predicates(chosen.rules)
    return measure(lambda: count_facts(materialise(chosen.rules, facts, modules=modules), answer))


def materialise(rules: str, facts: Tables, maintenance: str = "auto", modules: bool = True) -> KnowledgeBase:
    """A knowledge base of a program and its facts."""
    kb = KnowledgeBase(rules, maintenance=maintenance, modules=modules)
    kb.update(add=facts)
    return kb


def derived_predicates(rules: str) -> tuple[str, ...]:
    """The predicates of a program's heads, resolved."""
    return tuple(dict.fromkeys(rule.head.predicate for rule in program_of(rules)[0]))


def count_facts(kb: KnowledgeBase, predicates: tuple[str, ...]) -> int:
    return sum(len(kb.facts(predicate)) for predicate in predicates)
