"""Semi-naive evaluation with SQL: what one writes by hand to run Datalog on DuckDB.

Each predicate is a table, and for each recursive one there is a table of the facts that the last round found. The
rules of a component are one statement a round: for each recursive atom a SELECT in which that atom reads the last
round's facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidelog.bench.peers.translate import Untranslatable, plain_name
from tidelog.language.syntax import Atom, Comparison, Constant, Negation, Rule, Term, Variable
from tidelog.program.graph import Component, RuleGraph


def create_tables(connection: Any, column_type: str, arities: Mapping[str, int]) -> None:
    """An empty table for each predicate without facts of its own."""
    for name, arity in arities.items():
        columns = ", ".join(f"c{column} {column_type}" for column in range(arity))
        connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns})")


def materialise(connection: Any, rules: Iterable[Rule]) -> None:
    """Evaluate a program over tables that hold its facts."""
    graph = RuleGraph(tuple(rules))
    for component in graph.components_in_order():
        if component.rules:
            _evaluate(connection, component, [graph.rule(number) for number in component.rules])


def _evaluate(connection: Any, component: Component, rules: list[Rule]) -> None:
    heads = list(dict.fromkeys(plain_name(rule.head.predicate) for rule in rules))
    own = set(component.predicates)
    for head in heads:
        starts = [
            select(rule) for rule in rules if plain_name(rule.head.predicate) == head and not _recursive(rule, own)
        ]
        _insert_new(connection, head, starts)
    if not component.recursive:
        return
    for head in heads:
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {head}_last AS SELECT * FROM {head}")
    while _round(connection, heads, rules, own):
        pass


def _recursive(rule: Rule, own: set[str]) -> bool:
    return any(isinstance(item, Atom) and item.predicate in own for item in rule.body)


def _round(connection: Any, heads: list[str], rules: list[Rule], own: set[str]) -> bool:
    """One round; whether it found anything."""
    for head in heads:
        selects = [
            select(rule, place)
            for rule in rules
            if plain_name(rule.head.predicate) == head
            for place, item in enumerate(rule.body)
            if isinstance(item, Atom) and item.predicate in own
        ]
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {head}_next AS {_new_rows(head, selects)}")
    found = 0
    for head in heads:
        connection.execute(f"INSERT INTO {head} SELECT * FROM {head}_next")
        connection.execute(f"DROP TABLE {head}_last")
        connection.execute(f"ALTER TABLE {head}_next RENAME TO {head}_last")
        found += connection.execute(f"SELECT count(*) FROM {head}_last").fetchone()[0]
    return found > 0


def _insert_new(connection: Any, head: str, selects: list[str]) -> None:
    if selects:
        connection.execute(f"INSERT INTO {head} {_new_rows(head, selects)}")


def _new_rows(head: str, selects: list[str]) -> str:
    if not selects:
        return f"SELECT * FROM {head} WHERE false"
    return f"({' UNION '.join(selects)}) EXCEPT SELECT * FROM {head}"


def select(rule: Rule, last: int = -1) -> str:
    """A rule as a SELECT; the atom at `last` reads the facts of the last round."""
    places: dict[str, str] = {}
    tables: list[str] = []
    conditions: list[str] = []
    for number, item in enumerate(rule.body):
        if isinstance(item, Atom):
            tables.append(f"{plain_name(item.predicate)}{'_last' if number == last else ''} t{number}")
            conditions += _bind(item, number, places)
    for number, item in enumerate(rule.body):
        if isinstance(item, Negation):
            inner = " AND ".join(_bind(item.atom, number, dict(places))) or "true"
            conditions.append(f"NOT EXISTS (SELECT 1 FROM {plain_name(item.atom.predicate)} t{number} WHERE {inner})")
        elif isinstance(item, Comparison):
            operator = {"!=": "<>"}.get(item.operator, item.operator)
            conditions.append(f"{_value(item.left, places)} {operator} {_value(item.right, places)}")
    columns = ", ".join(f"{_value(term, places)} AS c{column}" for column, term in enumerate(rule.head.arguments))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {columns} FROM {', '.join(tables)}{where}"


def _bind(atom: Atom, number: int, places: dict[str, str]) -> list[str]:
    """What an atom demands; variables that it meets first are bound to its columns."""
    conditions = []
    for column, term in enumerate(atom.arguments):
        place = f"t{number}.c{column}"
        if isinstance(term, Variable) and term.name not in places:
            places[term.name] = place
        else:
            conditions.append(f"{place} = {_value(term, places)}")
    return conditions


def _value(term: Term, places: Mapping[str, str]) -> str:
    match term:
        case Variable(name=name) if name in places:
            return places[name]
        case Constant(value=int() as value):
            return str(value)
        case Constant(value=str() as value):
            return "'" + value.replace("'", "''") + "'"
    raise Untranslatable(f"{term} is not translated")
