"""What somebody may read who may read some predicates alone: queries, proofs and the changes of updates.

A predicate may be read if it is named by his token. What rests on others may be read as well: whoever lets somebody
read `may` lets him see what the rules say of it, and not why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from tidelog.errors import TidelogError
from tidelog.language import DLOG, parse_atom, parse_program, parse_query
from tidelog.language.syntax import EQUALITY, Atom, Node, nodes
from tidelog.language.written.conditions import names_of_printed
from tidelog.language.written.windows import window_of
from tidelog.live.knowledge import Knowledge
from tidelog.proofs.proof import Proof
from tidelog.server import problems
from tidelog.server.tokens import Caller


def predicates_in(node: Node) -> set[str]:
    """All predicates that a query or a rule names, wherever they stand in it; a window is one of its predicate."""
    found = {part.predicate for part in nodes(node) if isinstance(part, Atom)} - {EQUALITY}
    return {name if (window := window_of(name)) is None else window.predicate for name in found}


class Reading:
    """Refuses what somebody may not read."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge

    def check_query(self, caller: Caller, text: str) -> None:
        """Refuse a query about what somebody may not read."""
        if caller.predicates is not None:
            catalogue = self._knowledge.catalogue
            names = catalogue.names(self._knowledge.functions)
            self.check(caller, predicates_in(parse_query(text, catalogue.prefixes, "<query>", DLOG, names)))

    def check_fact(self, caller: Caller, asked: Any) -> None:
        """Refuse a question about a fact, whether it holds or not."""
        if caller.predicates is not None:
            catalogue = self._knowledge.catalogue
            is_text = isinstance(asked, str)
            predicate = parse_atom(asked, catalogue.prefixes).predicate if is_text else catalogue.resolve(asked[0])
            self.check(caller, {predicate})

    def check_proofs(self, caller: Caller, proofs: Iterable[Proof]) -> None:
        """Refuse proofs with rules that name what somebody may not read: that is what premises and conditions are of.
        An equality names those that it applies to.
        """
        if caller.predicates is not None:
            catalogue = self._knowledge.catalogue
            names = names_of_printed(catalogue.lattices)
            texts = {step.rule for proof in proofs for step in proof.steps() if step.rule is not None}
            for text in sorted(texts):
                for rule in parse_program(text, "<rule>", catalogue.prefixes, names=names).rules:
                    if self._hidden(caller, predicates_in(rule.written)):
                        raise problems.forbidden("its proofs name what this token may not read")

    def check(self, caller: Caller, predicates: set[str]) -> None:
        """Refuse predicates, as the engine names them, that somebody may not read; he has named them himself."""
        for predicate in sorted(self._hidden(caller, predicates)):
            raise problems.forbidden(f"this token may not read `{self._knowledge.catalogue.display(predicate)}`")

    def may_know_mistakes(self, caller: Caller, update: Mapping[str, Any]) -> bool:
        """Whether somebody may be told what is wrong with his update: that of a predicate tells how wide it is, and
        what its columns are.
        """
        return not self._hidden(caller, self._named(update))

    def _hidden(self, caller: Caller, predicates: set[str]) -> set[str]:
        readable = caller.readable(self._knowledge.catalogue.resolve)
        return set() if readable is None else predicates - readable

    def _named(self, update: Mapping[str, Any]) -> set[str]:
        """The predicates that an update names; what is no name, or no text of the language, names none."""
        catalogue, found = self._knowledge.catalogue, set[str]()
        names = catalogue.names(self._knowledge.functions)
        for part in filter(None, map(update.get, ("add", "delete", "add_rules", "remove_rules"))):
            with suppress(TidelogError):
                if isinstance(part, str):
                    program = parse_program(part, "<update>", catalogue.prefixes, names=names)
                    found |= {fact.predicate for fact in program.facts}
                    found = found.union(*(predicates_in(rule.written) for rule in program.rules))
                else:
                    found |= set(map(catalogue.resolve, part))
        return found
