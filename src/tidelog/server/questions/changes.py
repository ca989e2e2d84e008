"""Changes that are asked about: what an update would do, what takes rules back, and why a fact came or went.

All of it is for the thread that makes the updates (`commits/writer.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tidelog.engine.queries import run_query
from tidelog.errors import warnings_collected
from tidelog.explain.change_proof import ChangeProof
from tidelog.facts.questions import fact_of, query_of
from tidelog.language import parse_program, render
from tidelog.language.syntax import Atom, Query, rule_key
from tidelog.live.knowledge import Knowledge
from tidelog.proofs.wording import NO_FACT, atoms_shown
from tidelog.server import problems
from tidelog.server.commits.history import Commit
from tidelog.server.commits.store import ServedStore
from tidelog.server.listing import listed_change
from tidelog.server.problems import Problem
from tidelog.server.questions.proofs import asked_fact

# Commits that are looked through for the one that changed a fact.
MOST_COMMITS = 64


class Changes:
    """Looks at changes that were made or that could be made."""

    def __init__(self, store: ServedStore) -> None:
        self._store = store
        self._kb = store.kb
        self._knowledge: Knowledge = store.knowledge

    # --- what an update would do --------------------------------------------------------------------------------------

    def what_if(self, update: Mapping[str, Any], rows: int) -> dict[str, Any]:
        """What an update would change."""
        replaced = update.get("replace_rules")
        update = {key: part for key, part in update.items() if key not in ("alone", "replace_rules")}
        if replaced is not None:
            update = self.replacing(update, replaced)
        rules = {key: update.get(key) or "" for key in ("add_rules", "remove_rules")}
        with warnings_collected() as warnings:
            impact = self._kb.graph.plan(**rules).to_dict() if any(rules.values()) else None
            change = self._knowledge.what_if(update.get("add"), update.get("delete"), **rules, at=update.get("at"))
        touched = None if impact is None else {key: impact[key] for key in ("direct", "plan", "new", "vanished")}
        return {
            "update": self._store.number(),
            "change": listed_change(change, rows),
            "impact": touched,
            "rules": None if impact is None else {"added": impact["added"], "removed": impact["removed"]},
            "warnings": warnings,
        }

    def replacing(self, update: Mapping[str, Any], text: str) -> dict[str, Any]:
        """The update that makes the rules of a text all rules that there are."""
        catalogue, present = self._knowledge.catalogue, self._knowledge.engine.graph.rules
        program = parse_program(text, "<rules>", catalogue.prefixes, names=catalogue.names(self._knowledge.functions))
        wanted = {rule_key(rule) for rule in program.rules}
        gone = [rule for rule in present.values() if rule_key(rule) not in wanted]
        # In full names: the text to add may declare prefixes that these rules do not know.
        lasting = [each for each in self._knowledge.timing.expiries() if each not in program.expiries]
        removed = "\n".join(dict.fromkeys(render(each, {}) for each in (*gone, *lasting)))
        return {**update, "add_rules": text, "remove_rules": removed}

    def undoing(self) -> tuple[dict[str, Any], int]:
        """The update that takes back the last change of rules, and the number of that."""
        last = self._store.history.to_undo()
        if last is None:
            raise Problem(409, "conflict", "There is nothing to undo", "no change of rules is left to take back")
        added = "\n".join(dict.fromkeys(render(rule, {}) for rule in last.rules_removed))
        removed = "\n".join(dict.fromkeys(render(rule, {}) for rule in last.rules_added))
        return {"add_rules": added, "remove_rules": removed}, last.number

    # --- why a fact came or went --------------------------------------------------------------------------------------

    def explain(self, asked: Any, number: int | None) -> dict[str, Any]:
        """Why a fact came or went with a commit, or with the last one that changed it."""
        knowledge = self._knowledge
        fact = fact_of(asked_fact(asked), {}, knowledge.catalogue)
        text = render(fact, knowledge.catalogue.prefixes)
        commit = self._commit_of(fact, number)
        if commit is None:
            if number is None:
                raise problems.not_found(f"no commit within reach changed {text}")
            raise problems.not_found(f"commit {number} did not change {text}, or is out of reach")
        came = self._store.in_state(commit.number, lambda: self._holds(fact))
        before, after = commit.number - 1, commit.number
        proof_state, other_state = (after, before) if came else (before, after)
        proof = self._store.in_state(proof_state, lambda: self._prove(fact))
        texts = {step.fact for step in proof.steps() if not step.is_part}
        matched = [
            condition.removeprefix(NO_FACT)
            for step in proof.steps()
            for condition in step.conditions
            if condition.startswith(NO_FACT)
        ]
        holds = self._store.in_state(
            other_state, lambda: {each: self._matches(each) for each in dict.fromkeys((*texts, *matched))}
        )
        rules = commit.rules_added if came else commit.rules_removed
        shown = {render(rule, knowledge.catalogue.prefixes) for rule in rules}
        why_not = "" if came else str(self._store.in_state(after, lambda: self._why_not(fact)))
        found = ChangeProof.of(proof, came, lambda each: not holds[each], lambda each: holds[each], shown, why_not)
        return {
            "update": commit.number,
            "fact": text,
            "came": came,
            "proof": proof.to_dict(),
            "facts": list(found.facts),
            "leaves": list(found.leaves),
            "negations": list(found.negations),
            "rules": list(found.rules),
            "why_not": why_not,
            "text": str(found),
        }

    def _commit_of(self, fact: Atom, number: int | None) -> Commit | None:
        """The commit that changed a fact: the given one, or the last one within reach."""
        history, name = self._store.history, self._knowledge.catalogue.display(fact.predicate)
        commits = [history[number]] if number is not None else history.last(MOST_COMMITS)[::-1]
        for commit in commits:
            if commit is None or name not in commit.predicates or not history.reaches(commit.number - 1):
                continue
            before, after = (
                self._store.in_state(each, lambda: self._holds(fact)) for each in (commit.number - 1, commit.number)
            )
            if before is not after:
                return commit
        return None

    def _holds(self, fact: Atom) -> bool:
        return self._knowledge.reader.holds(fact.predicate, fact.row)

    def _matches(self, text: str) -> bool:
        """Whether a fact matches an atom, such as a proof shows it."""
        catalogue, engine = self._knowledge.catalogue, self._knowledge.engine
        return any(
            len(run_query(engine, query_of(Query((atom,)), {}, catalogue, self._knowledge.functions.keys()))[1])
            for atom in atoms_shown(text, catalogue.prefixes, engine.graph.predicates)
        )

    def _prove(self, fact: Atom) -> Any:
        cells = self._cells(fact)
        (proof,) = self._knowledge.proving.new_explainer().proofs(fact.predicate, cells, 1)
        return proof

    def _why_not(self, fact: Atom) -> str:
        arities = self._knowledge.catalogue.arities
        return self._knowledge.proving.new_explainer().why_not(fact, self._cells(fact), arities)

    def _cells(self, fact: Atom) -> Any:
        return self._knowledge.engine.store.terms.encode_values(fact.row) if fact.row else np.empty(0, np.int32)
