"""What must hold of an update before the engine sees it, beyond what the catalogue knows: facts that fit their columns,
and names that are not a function in one place and a predicate in another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from tidelog.engine.engine import Engine
from tidelog.engine.update.deltas import Request
from tidelog.errors import ArityError, CrossProductWarning, DataError, ParseError, warn
from tidelog.facts.encoding import row_keys
from tidelog.facts.reading import Reader
from tidelog.facts.typed_rows import check_facts, check_rows_of
from tidelog.formats.display import counted
from tidelog.language import render
from tidelog.language.checks import MOST_ARGUMENTS, too_many_arguments
from tidelog.language.names import CONDITIONS
from tidelog.language.parse_messages import mistake
from tidelog.language.records.types import Declared, is_typed
from tidelog.language.syntax import Rule
from tidelog.language.written.conditions import is_condition_of
from tidelog.program.catalogue import Catalogue, RuleUpdate
from tidelog.program.equality import Equality
from tidelog.program.normal_form import unjoined_atoms
from tidelog.store.relation_parts import Cells

if TYPE_CHECKING:
    from tidelog.formats.batch import FactBatch


class UpdateChecks:
    """Refuses what cannot be, with an error that says where it is. It knows the state that an update meets."""

    def __init__(self, engine: Engine, catalogue: Catalogue, reader: Reader, functions: Collection[str]) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._reader = reader
        self._functions = functions

    def check_columns(self, batch: FactBatch, predicate: str, arities: dict[str, int]) -> None:
        """Refuse facts of a file that have more or fewer columns than their predicate has arguments."""
        known = arities.setdefault(predicate, len(batch.columns))
        if known > MOST_ARGUMENTS:
            raise too_many_arguments(self._catalogue.display(predicate), known)
        if known != len(batch.columns):
            raise ArityError(
                f"{batch.source}, line {batch.first_line}: {counted(len(batch.columns), 'column')}, but "
                f"`{self._catalogue.display(predicate)}` has {counted(known, 'argument')}"
            )

    def check_batch(self, batch: FactBatch, predicate: str, rows: Cells) -> None:
        """Refuse facts of a file that do not fit their columns."""
        signature = self._catalogue.declared.get(predicate)
        if signature is not None and is_typed(signature):
            place = f"{batch.source}, from line {batch.first_line} on, row "
            table = self._engine.store.terms.table
            check_rows_of(rows, signature, self._catalogue.declared, table, lambda row: f"{place}{row + 1}")

    def refuse_facts_of_function(self, predicate: str, added: Iterable[Rule] = ()) -> None:
        """Facts of a predicate change nothing for rules that take its name for a function."""
        if (predicate not in CONDITIONS and predicate not in self._functions) or predicate in self._catalogue.arities:
            return
        for rule in (*self._engine.graph.rules.values(), *added):
            if is_condition_of(rule, predicate):
                arity = CONDITIONS.get(predicate, "N")
                raise DataError(
                    f"`{predicate}` is a function in `{render(rule, self._catalogue.prefixes)}`, and gets facts here; "
                    f"declare `@predicate {predicate}/{arity}.` with the rules for which it is a predicate"
                )

    def warn_of_cross_product(self, rule: Rule) -> None:
        """Say so if a rule asks for a product."""
        unjoined = unjoined_atoms(rule)
        if unjoined is not None:
            prefixes = self._catalogue.prefixes
            first, second = (render(atom, prefixes) for atom in unjoined)
            warn(
                f"`{render(rule, prefixes)}` matches every {first} with every {second}: "
                "they have no variable in common",
                CrossProductWarning,
            )

    def check_types(self, request: Request, update: RuleUpdate) -> None:
        """Refuse facts that do not fit their columns, and declarations that facts do not fit which stay."""
        declared = {**self._catalogue.declared, **update.declared}
        self.check_rows(request.add, declared)
        new = [name for name, signature in update.declared.items() if is_typed(signature)]
        for name in new:
            rows = self._reader.rows(name, explicit=True).cells
            if name in request.delete and len(rows):
                rows = rows[~np.isin(row_keys(rows), row_keys(request.delete[name]))]
            self.check_rows({name: rows}, declared)

    def check_rows(self, facts: Mapping[str, Cells], declared: Declared | None = None) -> None:
        """Refuse facts that do not fit the columns that are declared."""
        known = self._catalogue.declared if declared is None else declared
        if known:
            check_facts(facts, known, self._engine.store.terms.table, self._catalogue.display)

    def refuse_followed(self, equality: Equality) -> None:
        """Refuse an equality that applies to what subscriptions read."""
        followed = next(filter(equality.applies_to, self._engine.watches.predicates), None)
        if followed is not None:
            what = f"a subscription follows `{self._catalogue.display(followed)}`, to which the equality would apply"
            hint = "close it first, or list the predicates that the equality applies to"
            shown = render(equality.written, self._catalogue.prefixes)
            raise mistake(ParseError, equality.written.place, what, shown, hint)
