"""Running a test of rules: a fresh knowledge base, the steps of the test in their order, and what was not as expected.

A check that fails does not end its test, since checks change nothing. An update that fails does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatchmethod
from typing import Any

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.errors import TidelogError
from tidelog.facts.results import row_identity
from tidelog.formats.columns.order import sorted_rows
from tidelog.formats.display import counted, row_text
from tidelog.language import render
from tidelog.language.printer import declaration
from tidelog.language.syntax import Atom, Constant, Program, Query, Variable
from tidelog.testing.rule_tests import Expect, Holds, Rests, RuleTest, Step, Update
from tidelog.values import Row

MOST_ROWS = 20


@dataclass(frozen=True)
class Failure:
    """A step that did not go as expected, and what happened instead."""

    line: int
    text: str
    told: str

    def __str__(self) -> str:
        return "\n".join([self.text, *(f"    {line}" if line else "" for line in self.told.split("\n"))])


def run(test: RuleTest) -> list[Failure]:
    """Run a test; what failed."""
    kb = KnowledgeBase()
    failures: list[Failure] = []
    step = Step(test.line or 1, "what the test starts with")
    try:
        for path, header in test.given.files:
            kb.load(path, header=header)
        kb.update(**_changes(test.given.programs, test.given.prefixes, "add"))
        checks = _Checks(kb)
        for step in test.steps:
            told = checks.take(step)
            if told:
                failures.append(Failure(step.line, step.text, told))
    except TidelogError as error:
        failures.append(Failure(step.line, step.text, f"error: {error}"))
    return failures


def _changes(programs: list[Program], prefixes: dict[str, str], verb: str) -> dict[str, Any]:
    """The update that adds or deletes the facts and rules of programs."""
    rows: dict[str, list[Row]] = {}
    for program in programs:
        for predicate, found in program.rows.items():
            rows.setdefault(predicate, []).extend(found)
    rules = [str(each) for program in programs for each in (*program.expiries, *program.rules)]
    if verb == "delete":
        return {"delete": rows, "remove_rules": "\n".join(rules)}
    declared = [f"@prefix {name}: <{namespace}> ." for name, namespace in prefixes.items()]
    declared += [declaration(signature) for program in programs for signature in program.predicates]
    return {"add": rows, "add_rules": "\n".join([*declared, *rules])}


class _Checks:
    """Takes steps one after the other; what a step tells is a failure, and nothing is well."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._kb = kb

    @singledispatchmethod
    def take(self, step: Step) -> str:
        raise AssertionError(f"a step of an unknown kind: {step}")

    @take.register
    def _(self, step: Update) -> str:
        self._kb.update(**_changes([step.program], {}, "delete" if step.deletes else "add"))
        return ""

    @take.register
    def _(self, step: Expect) -> str:
        answers = self._kb.query(str(step.query))
        width = len(answers.variables)
        for row in step.rows:
            if len(row) != width:
                asked = ", ".join(answers.variables) or "no variable"
                return f"{row_text(row)} has {counted(len(row), 'value')}, and the query asks for {asked}"
        found = {row_identity(row): row for row in answers.rows()}
        expected = {row_identity(row): row for row in step.rows}
        missing = [row for key, row in expected.items() if key not in found]
        surplus = [row for key, row in found.items() if key not in expected]
        lines = [*self._signed("-", missing, "is expected"), *self._signed("+", surplus, "is not expected")]
        if missing:
            lines += self._why_not(_instance(step.query, answers.variables, sorted_rows(missing)[0]))
        return "\n".join(lines)

    def _signed(self, sign: str, rows: list[Row], remark: str) -> Iterator[str]:
        texts = [self._row_text(row) for row in sorted_rows(rows)[:MOST_ROWS]]
        width = max(map(len, texts), default=0)
        yield from (f"{sign} {text:{width}}  {remark}" for text in texts)
        if len(rows) > MOST_ROWS:
            yield f"{sign} … {len(rows) - MOST_ROWS:,} more"

    def _row_text(self, row: Row) -> str:
        return f"({', '.join(render(Constant(value), self._kb.prefixes) for value in row)})"

    @take.register
    def _(self, step: Holds) -> str:
        answers = self._kb.query(str(step.query))
        if bool(len(answers)) == step.holds:
            return ""
        fact = _fact(step.query)
        if step.holds:
            return "\n".join(["it does not hold", *self._why_not(fact)])
        if fact is not None:
            return f"it holds:\n{self._kb.explain(render(fact))}"
        rows = sorted_rows(answers.rows())
        shown = "\n".join(self._signed("+", rows, "")) if answers.variables else ""
        return f"it has {counted(len(rows), 'answer')}\n{shown}".rstrip()

    @take.register
    def _(self, step: Rests) -> str:
        proof = self._kb.explain(render(step.fact))
        if proof is None:
            return "\n".join(["it has no proof", *self._why_not(step.fact)])
        prefixes = self._kb.prefixes
        used = {part.fact for part in proof.steps()}
        lines = [f"- {fact}  is not used" for atom in step.on if (fact := render(atom, prefixes)) not in used]
        lines += [f"+ {fact}  is used" for atom in step.not_on if (fact := render(atom, prefixes)) in used]
        return "\n".join([*lines, "the proof:", str(proof)]) if lines else ""

    def _why_not(self, fact: Atom | None) -> Iterator[str]:
        if fact is not None:
            yield from self._kb.why_not(render(fact)).split("\n")


def _fact(query: Query) -> Atom | None:
    """The fact that a query asks for, if it asks for nothing else."""
    match query.body:
        case (Atom() as atom,) if all(isinstance(term, Constant) for term in atom.arguments):
            return atom
    return None


def _instance(query: Query, names: tuple[str, ...], row: Row) -> Atom | None:
    """The fact that would give an answer, if the query is a single atom."""
    if len(query.body) != 1 or not isinstance(query.body[0], Atom):
        return None
    values = dict(zip(names, row, strict=True))
    terms: list[Constant] = []
    for term in query.body[0].arguments:
        if isinstance(term, Constant):
            terms.append(term)
        elif isinstance(term, Variable) and term.name.removeprefix("?") in values:
            terms.append(Constant(values[term.name.removeprefix("?")]))
        else:
            return None
    return Atom(query.body[0].predicate, tuple(terms))
