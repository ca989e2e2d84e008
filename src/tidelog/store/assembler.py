"""The assembler: translates plans from dataclasses into flat 32-bit words that the executor reads.

Words are appended, so a plan keeps its offset until all plans are forgotten, unless it was only borrowed for a query.
New rules cost no compilation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.joins.code import Computing
from tidelog.joins.expressions import COMPARISONS, OPERATORS
from tidelog.joins.functions.numbering import number_of
from tidelog.language.syntax import Atom, Call, Constant, Expression, Term, Variable, variables
from tidelog.machine import plan_words as P
from tidelog.program.normal_form import is_foreign
from tidelog.program.plan import Absent, Compare, Define, Match, Plan, Side, Start, Step, Take

if TYPE_CHECKING:
    from tidelog.store.store import Store

# The operations of plans in sum form: all of two operands.
SUMMED = ("+", "-", "min2", "max2")

_ABSENT_ROLES = {Side.BEFORE: P.ABSENT_BEFORE, Side.AFTER: P.ABSENT_AFTER, Side.PIVOT: P.ABSENT_PIVOT}
_ROLES = {
    (Side.BEFORE, False): P.ROLE_LOWER_BEFORE,
    (Side.AFTER, False): P.ROLE_LOWER_AFTER,
    (Side.BEFORE, True): P.ROLE_OWN_BEFORE,
    (Side.AFTER, True): P.ROLE_OWN_AFTER,
}


def _distinct_columns(atom: Atom, without: tuple[int, ...] = ()) -> dict[Variable, int] | None:
    """The column of each variable, or None if there is more to check: a constant, or a variable twice."""
    columns: dict[Variable, int] = {}
    for column, term in enumerate(atom.arguments):
        if column in without:
            continue
        if not isinstance(term, Variable) or term in columns:
            return None
        columns[term] = column
    return columns


class Assembler:
    """Translates one plan. `head` are the terms that each match yields, into relation `target`."""

    def __init__(self, store: Store, plan: Plan, target: int, head: tuple[Term, ...], rule_number: int) -> None:
        self._store = store
        self._plan = plan
        self._target = target
        self._head = head
        self._rule_number = rule_number
        self._slots: dict[Variable, int] = {}
        self._words: list[int] = []
        self._first = store.code.size  # where the words will lie

    def assemble(self) -> int:
        """The offset of the plan in the code."""
        offsets = [self._put(self._step(step)) for step in self._plan.steps]
        head = self._put([self._source(term) for term in self._head])
        count = len(self._slots)
        short = self._short_form()
        header = [len(offsets), count, self._target, head, self._rule_number, len(self._head), short, self._sum_form()]
        self._store.arrays.ensure_frame(8 * (P.FRAME_VARIABLES + count + 2 * len(offsets)))
        offset = self._put(header + offsets)
        self._store.code.append(self._words)
        if any(isinstance(step, Compare | Define) for step in self._plan.steps):
            self._store.code.computing[offset] = Computing(self._plan, tuple(self._slots))
        return offset

    def _put(self, words: list[int]) -> int:
        """Add words to the plan; their offset in the code."""
        offset = self._first + len(self._words)
        self._words += words
        return offset

    def _short_form(self) -> int:
        """The offset of the plan's short form, or 0 if it has none."""
        if self._plan.pivot.start not in (Start.POSITIVE, Start.ALL) or not 1 <= len(self._plan.steps) <= 3:
            return 0
        store, (first, *others) = self._store, self._plan.steps
        if isinstance(first, Take):
            scanned = 0, 0
        elif isinstance(first, Match) and not first.bound and not store.is_closure(first.atom.predicate):
            scanned = store.relation(first.atom.predicate, first.atom.arity).number, _ROLES[first.side, first.own]
        else:
            return 0
        pivot = _distinct_columns(first.atom)
        if pivot is None:
            return 0
        cells = {variable: (P.FROM_PIVOT, column) for variable, column in pivot.items()}
        atoms: list[int] = []
        for place, step in enumerate(others):
            if not isinstance(step, Match) or len(step.bound) != 1 or store.is_closure(step.atom.predicate):
                return 0
            free = _distinct_columns(step.atom, without=step.bound)
            if not free:
                return 0
            relation = store.relation(step.atom.predicate, step.atom.arity)
            key = self._short_cell(step.atom.arguments[step.bound[0]], cells)
            atoms = [relation.number, _ROLES[step.side, step.own], relation.index_on(step.bound).number, *key, *atoms]
            origin = P.FROM_LAST if place == len(others) - 1 else P.FROM_MIDDLE
            cells |= {variable: (origin, column) for variable, column in free.items()}
        words = [len(others), *atoms, *[0] * (P.SHORT_SCANNED - P.SHORT_LAST - len(atoms)), *scanned]
        in_head = {term for term in self._head if isinstance(term, Variable)}
        words.append(int(len(others) <= 1 and pivot.keys() == in_head))
        for term in self._head:
            words += self._short_cell(term, cells)
        return self._put(words)

    def _sum_form(self) -> int:
        """The offset of the plan's sum form, or 0 if it has none."""
        match self._plan.steps:
            case (Take(atom=pivot), Match(bound=(column,)) as step, Define(binds=True, definition=definition)):
                operation = definition.expression
            case _:
                return 0
        columns, free = _distinct_columns(pivot), _distinct_columns(step.atom, without=step.bound)
        key, value = step.atom.arguments[column], definition.variable
        if self._plan.pivot.start is not Start.POSITIVE or columns is None or free is None or key not in columns:
            return 0
        if self._store.is_closure(step.atom.predicate) or self._head.count(value) != 1:
            return 0
        cells = {variable: (P.FROM_PIVOT, place) for variable, place in columns.items()}
        cells |= {variable: (P.FROM_LAST, place) for variable, place in free.items()}
        if not isinstance(operation, Call) or operation.function not in SUMMED:
            return 0
        if any(isinstance(operand, Call) for operand in operation.arguments):
            return 0
        relation = self._store.relation(step.atom.predicate, step.atom.arity)
        words = [relation.number, _ROLES[step.side, step.own], relation.index_on(step.bound).number]
        words += [columns[key], OPERATORS.index(operation.function)]  # type: ignore[index]
        for operand in operation.arguments:
            words += self._short_cell(operand, cells)
        words.append(self._head.index(value))
        for term in self._head:
            words += (P.FROM_CONSTANT, 0) if term == value else self._short_cell(term, cells)
        return self._put(words)

    def _short_cell(self, term: Term, cells: dict[Variable, tuple[int, int]]) -> tuple[int, int]:
        return cells[term] if isinstance(term, Variable) else (P.FROM_CONSTANT, -1 - self._source(term))

    def _slot(self, variable: Variable) -> int:
        return self._slots.setdefault(variable, len(self._slots))

    def _source(self, term: Term) -> int:
        if isinstance(term, Variable):
            return self._slot(term)
        assert isinstance(term, Constant)
        return -1 - self._constant(term)

    def _constant(self, constant: Constant) -> int:
        with self._store.hooks.using_terms():
            term = self._store.terms.encode(constant.value)
        self._store.code.constants.add(term)
        return term

    def _step(self, step: Step) -> list[int]:
        match step:
            case Take(atom=atom):
                return self._take(atom)
            case Match():
                return self._lookup(step, P.STEP_PROBE, P.STEP_CLOSURE_PROBE, _ROLES[step.side, step.own])
            case Absent():
                role = _ABSENT_ROLES[step.side]
                return self._lookup(step, P.STEP_ABSENT_PROBE, P.STEP_ABSENT_CLOSURE_PROBE, role)
            case Compare(comparison=comparison):
                left, right = self._expression(comparison.left), self._expression(comparison.right)
                return [P.STEP_COMPARE, COMPARISONS.index(comparison.operator), left, right]
            case Define():
                return self._define(step)

    def _take(self, atom: Atom) -> list[int]:
        head = self._plan.pivot.start is Start.HEAD
        relation = self._target if head else self._store.relation(atom.predicate, atom.arity).number
        keys: list[int] = []
        outputs: list[int] = []
        checks: list[int] = []
        seen: set[Variable] = set()
        for column, term in enumerate(atom.arguments):
            if isinstance(term, Constant):
                keys += [column, self._source(term)]
            elif isinstance(term, Variable):
                (checks if term in seen else outputs).extend((column, self._slot(term)))
                seen.add(term)
        counts = [len(keys) // 2, len(outputs) // 2, len(checks) // 2]
        return [P.STEP_PIVOT, relation, 0, 0, *counts, *keys, *outputs, *checks]

    def _lookup(self, step: Match | Absent, stored: int, virtual: int, role: int) -> list[int]:
        """A step that probes, follows an index or scans: their kinds are numbered in that order."""
        atom, bound, binds = step.atom, step.bound, isinstance(step, Match)
        relation = self._store.relation(atom.predicate, atom.arity)
        kind, index = stored if relation.closure is None else virtual, 0
        if len(bound) == atom.arity:
            relation.table.complete()
            relation.table.probed = True
        elif bound:
            kind, index = kind + 1, relation.index_on(bound).number
        else:
            kind += 2
        keys = [self._source(atom.arguments[column]) for column in bound]
        outputs: list[int] = []
        checks: list[int] = []
        first: dict[Variable, int] = {}
        for column, term in enumerate(atom.arguments):
            if column in bound or not isinstance(term, Variable):
                continue
            if term not in first:
                first[term] = column
                if binds:
                    outputs += [column, self._slot(term)]
            else:
                # A variable that occurs only in a negated atom has no slot: its columns are compared.
                checks += [column, self._slot(term) if binds else first[term]]
        counts = [len(keys), len(outputs) // 2, len(checks) // 2]
        return [kind, relation.number, role, index, *counts, *keys, *outputs, *checks]

    def _define(self, step: Define) -> list[int]:
        expression = step.definition.expression
        slot = self._slot(step.definition.variable)
        target = slot if step.binds else -1 - slot
        if not is_foreign(expression):
            return [P.STEP_ASSIGN, target, self._expression(expression)]
        assert isinstance(expression, Call)
        sources = [self._source(argument) for argument in expression.arguments]
        memo = self._store.memo(expression.function, len(sources))
        index = memo.index_on(tuple(range(len(sources))))
        kernel = number_of(expression.function, len(sources))
        return [P.STEP_CALL, memo.number, index.number, len(sources), target, kernel, *sources]

    def _expression(self, expression: Expression) -> int:
        self._store.arrays.ensure_scratch(len(variables(expression)) + 8)
        return self._put([*self._postfix(expression), P.E_END, 0])

    def _postfix(self, expression: Expression) -> list[int]:
        if isinstance(expression, Variable):
            return [P.E_VARIABLE, self._slot(expression)]
        if isinstance(expression, Constant):
            return [P.E_CONSTANT, self._constant(expression)]
        words = [word for argument in expression.arguments for word in self._postfix(argument)]
        return [*words, P.E_CALL, OPERATORS.index(expression.function)]
