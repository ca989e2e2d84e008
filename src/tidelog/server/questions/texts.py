"""What a text is worth, for an editor: its mistakes with their places. Nothing is done with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidelog.errors import TidelogError, warnings_collected
from tidelog.facts.questions import fact_of, query_of
from tidelog.language import parse_program
from tidelog.language.checks import check_arities, check_rule
from tidelog.language.parse_messages import told_of
from tidelog.language.syntax import Rule, rule_key
from tidelog.live.knowledge import Knowledge
from tidelog.program.catalogue import Catalogue
from tidelog.program.graph import RuleGraph
from tidelog.server import problems
from tidelog.server.commits.store import ServedStore

KINDS = ("program", "rules", "query", "fact")


class Texts:
    """Looks at texts."""

    def __init__(self, store: ServedStore) -> None:
        self._knowledge: Knowledge = store.knowledge

    def check(self, text: str, kind: str, replace: bool) -> dict[str, Any]:
        """What is wrong with a text, for an editor: nothing is done with it."""
        if kind not in KINDS:
            raise problems.bad_request(f"`as` is one of {', '.join(KINDS)}")
        found: dict[str, Any] = {"ok": True, "mistakes": [], "rules": 0, "facts": 0}
        with warnings_collected() as warnings:
            try:
                with self._knowledge.lock:
                    catalogue = self._knowledge.catalogue
                    known = Catalogue(catalogue.prefixes, catalogue.arities, declared=catalogue.declared)
                    present = tuple(self._knowledge.engine.graph.rules.values())
                if kind == "query":
                    query_of(text, _AnyValue(), known, self._knowledge.functions.keys())
                elif kind == "fact":
                    fact_of(text, _AnyValue(), known)
                else:
                    found["rules"], found["facts"] = self._check_program(text, known, () if replace else present)
            except TidelogError as error:
                found["ok"], found["mistakes"] = False, list(_mistakes(error))
        for warning in warnings:
            found["mistakes"].append({"line": 1, "column": 1, "message": warning, "hint": "", "severity": "warning"})
        return found

    def _check_program(self, text: str, known: Catalogue, present: tuple[Rule, ...]) -> tuple[int, int]:
        functions = self._knowledge.functions.keys()
        program = parse_program(text, "<program>", known.prefixes, names=known.names(functions))
        with told_of(text, "<program>"):
            prefixes = {**known.prefixes, **dict(program.prefixes)}
            for rule in program.rules:
                check_rule(rule, functions, prefixes)
            check_arities((*program.predicates, *program.facts, *program.rules), known.arities, prefixes)
            keys = {rule_key(rule) for rule in present}
            fresh = tuple({rule_key(rule): rule for rule in program.rules if rule_key(rule) not in keys}.values())
            RuleGraph((*present, *fresh))
        return len({rule.written for rule in program.rules}), len(program.facts)


class _AnyValue(dict[str, object]):
    """A value for every parameter, where a text is only looked at."""

    def __contains__(self, name: object) -> bool:
        return True

    def __getitem__(self, name: str) -> object:
        return "value"


def _mistakes(error: TidelogError) -> Iterator[dict[str, Any]]:
    """What is wrong with a text, for an editor."""
    found = problems.mistakes_of(error) or [{"line": 1, "column": 1, "message": str(error), "hint": ""}]
    for item in found:
        yield {**item, "severity": "error"}
