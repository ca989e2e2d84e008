"""Proofs of what holds, and what a fact lacks that does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.errors import warnings_collected
from tidelog.facts.questions import fact_of
from tidelog.formats.files.jsonl import value_from_json
from tidelog.language import render
from tidelog.proofs.failure import WhyNot
from tidelog.server import problems
from tidelog.server.commits.store import ServedStore
from tidelog.server.questions.queries import values_of
from tidelog.server.questions.reading import Reading
from tidelog.server.tokens import Caller
from tidelog.values import Value


class Proofs:
    """Answers why, and why not."""

    def __init__(self, store: ServedStore, reading: Reading) -> None:
        self._store = store
        self._kb = store.kb
        self._reading = reading

    def explain(self, caller: Caller, fact: Any, parameters: Mapping[str, Any] | None, limit: int) -> dict[str, Any]:
        """The lowest proofs of a fact, and whether it holds, which can be asked without any."""
        asked, values = asked_fact(fact), values_of(parameters)
        self._reading.check_fact(caller, asked)
        with warnings_collected():
            proofs = self._store.knowledge.proving.proofs(asked, limit, values) if limit else []
            holds = bool(proofs) or (not limit and self._store.knowledge.questions.holds(asked, values))
        self._reading.check_proofs(caller, proofs)
        return {
            "update": self._store.number(),
            "fact": self._text(asked, values),
            "holds": holds,
            "proofs": [proof.to_dict() for proof in proofs],
        }

    def why_not(self, caller: Caller, fact: Any, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
        """What a fact lacks."""
        asked, values = asked_fact(fact), values_of(parameters)
        found: WhyNot = self._kb.why_not(asked, **values)
        text = self._text(asked, values)
        return {
            "update": self._store.number(),
            "fact": text,
            "holds": text in self._kb,
            "text": str(found),
            "missing": list(found.missing),
            "in_the_way": list(found.in_the_way),
        }

    def _text(self, asked: Any, values: Mapping[str, Value]) -> str:
        catalogue = self._store.knowledge.catalogue
        return render(fact_of(asked, values, catalogue), catalogue.prefixes)


def asked_fact(fact: Any) -> Any:
    """A fact that a body names: a text, or an array of a predicate and its values."""
    if isinstance(fact, list):
        if not fact or not isinstance(fact[0], str):
            raise problems.bad_request('a fact is a text, or an array: ["path", "a", "c"]')
        return (fact[0], *map(value_from_json, fact[1:]))
    return fact
