"""What somebody may read who may read some predicates alone: queries, proofs and the changes of updates.

A predicate may be read if it is named by his token. What rests on others may be read as well: whoever lets somebody
read `may` lets him see what the rules say of it, and not why.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
                    self.check(caller, predicates_in(rule.written))

    def check(self, caller: Caller, predicates: set[str]) -> None:
        """Refuse predicates, as the engine names them, that somebody may not read."""
        catalogue = self._knowledge.catalogue
        readable = caller.readable(catalogue.resolve)
        if readable is not None:
            for predicate in sorted(predicates - readable):
                raise problems.forbidden(f"this token may not read `{catalogue.display(predicate)}`")
