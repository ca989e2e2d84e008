"""The normal form of a rule: what planning starts from, for the kernels and for Spark alike.

Arguments of atoms are variables and constants only; an expression there becomes a fresh variable and an `=`. A call of
a function that is not plain arithmetic gets an `=` of its own, with variables and constants as arguments, because an
engine may have to leave its fast path for it. Aggregates range over variables.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.language import syntax
from tidelog.language.names import is_single_value
from tidelog.language.syntax import Aggregate, Atom, Call, Comparison, Expression, Node, Rule, Term, Variable, variables

ARITHMETIC = frozenset(
    ("+", "-", "*", "/", "%", "neg", "abs", "min2", "max2", "floor", "ceil", "round", "sqrt", "log", "exp")
) | {"div", "mod", "band", "bor", "bxor", "shl", "shr", "**"}


@dataclass(frozen=True, slots=True)
class Definition:
    """`variable = expression` where nothing else binds the variable: it *is* that constant, of exactly that type."""

    variable: Variable
    expression: Expression

    def __str__(self) -> str:
        return f"{self.variable} = {self.expression}"


@dataclass(frozen=True, slots=True)
class NormalRule:
    """`head :- positives, not negatives, definitions, conditions`, each list in the order of the text."""

    source: Rule
    head: Atom
    positives: tuple[Atom, ...]
    negatives: tuple[Atom, ...]
    definitions: tuple[Definition, ...]
    conditions: tuple[Comparison, ...]
    aggregates: tuple[Aggregate, ...]

    @property
    def group(self) -> tuple[Term, ...]:
        """The head's arguments that are no aggregates."""
        return tuple(term for term in self.head.arguments if not isinstance(term, Aggregate))

    @property
    def computes(self) -> bool:
        """Whether it needs the values of its terms, and not only whether they are the same."""
        return bool(self.definitions or self.conditions)

    @property
    def negated_only(self) -> frozenset[Variable]:
        """The variables that occur in negated atoms only: each means "there is none"."""
        if not self.negatives:
            return frozenset()
        elsewhere = {variable for item in self.positives + self.conditions for variable in variables(item)}
        elsewhere.update(definition.variable for definition in self.definitions)
        return frozenset(variable for atom in self.negatives for variable in variables(atom)) - elsewhere


class _Normaliser:
    def __init__(self) -> None:
        self._positives: list[Atom] = []
        self._negatives: list[Atom] = []
        self._definitions: list[Definition] = []
        self._comparisons: list[Comparison] = []
        self._fresh = 0
        self._needed: dict[Variable, frozenset[Variable]] = {}  # by a variable that stands for a call

    def normalise(self, rule: Rule) -> NormalRule:
        for item in rule.body:
            match item:
                case Atom():
                    self._positives.append(self._flat_atom(item))
                case syntax.Negation(atom=atom):
                    self._negatives.append(self._flat_atom(atom))
                case Comparison(operator=operator, left=left, right=right, place=place):
                    self._comparisons.append(Comparison(operator, self._pure(left), self._pure(right), place))
        head = Atom(rule.head.predicate, tuple(map(self._head_term, rule.head.arguments)), rule.head.place)
        aggregates = tuple(term for term in head.arguments if isinstance(term, Aggregate))
        conditions = self._split_comparisons()
        return NormalRule(
            rule, head, tuple(self._positives), tuple(self._negatives), tuple(self._definitions), conditions, aggregates
        )

    def _split_comparisons(self) -> tuple[Comparison, ...]:
        """Separate equations that bind from those that compare. In the order of the text, the first `=` that can bind a
        variable does.
        """
        bound = {variable for atom in self._positives for variable in self._needs(atom)}
        if not any(self._unknown(side, bound) for item in self._comparisons for side in (item.left, item.right)):
            return tuple(self._comparisons)
        pending = list(self._comparisons)
        tests = []
        while ready := next((item for item in pending if self._ready(item, bound)), None):
            pending.remove(ready)
            definition = self._definition(ready, bound)
            if definition is None:
                tests.append(ready)
            else:
                self._definitions.append(definition)
                bound.add(definition.variable)
        return tuple(sorted(tests, key=self._comparisons.index))

    def _needs(self, node: Node) -> frozenset[Variable]:
        """The variables of a part of the rule, and those of calls in the place of what stands for them."""
        return frozenset(needed for variable in variables(node) for needed in self._needed.get(variable, {variable}))

    def _unknown(self, expression: Expression, bound: set[Variable]) -> bool:
        return not self._needs(expression) <= bound

    def _ready(self, item: Comparison, bound: set[Variable]) -> bool:
        unknown = [side for side in (item.left, item.right) if self._unknown(side, bound)]
        return not unknown or (item.operator == "=" and len(unknown) == 1 and isinstance(unknown[0], Variable))

    def _definition(self, item: Comparison, bound: set[Variable]) -> Definition | None:
        for side, other in ((item.left, item.right), (item.right, item.left)):
            if isinstance(side, Variable) and self._unknown(side, bound):
                return Definition(side, other)
        return None

    def _head_term(self, term: Term) -> Term:
        if isinstance(term, Aggregate):
            witness = None if term.witness is None else self._variable(term.witness)
            return Aggregate(term.function, self._variable(term.argument), term.distinct, term.place, witness)
        return self._simple(term)

    def _flat_atom(self, atom: Atom) -> Atom:
        if not any(isinstance(term, Call) for term in atom.arguments):
            return atom
        return Atom(atom.predicate, tuple(map(self._simple, atom.arguments)), atom.place)

    def _simple(self, term: Term) -> Variable | syntax.Constant:
        """A variable or constant with the same value."""
        assert not isinstance(term, Aggregate)
        return term if isinstance(term, syntax.Constant) else self._variable(term)

    def _variable(self, expression: Expression) -> Variable:
        """A variable with the same value, defined by arithmetic alone or by another call of simple terms."""
        if isinstance(expression, Variable):
            return expression
        self._fresh += 1
        # No text can spell this name, so it cannot clash.
        variable = Variable(f"#{self._fresh}")
        if isinstance(expression, Call):
            inner = self._simple if is_foreign(expression) else self._pure
            expression = Call(expression.function, tuple(map(inner, expression.arguments)), expression.place)
        self._needed[variable] = self._needs(expression)
        self._definitions.append(Definition(variable, expression))
        return variable

    def _pure(self, expression: Expression) -> Expression:
        """The same expression with every call that is not arithmetic taken out."""
        if not isinstance(expression, Call):
            return expression
        if is_foreign(expression):
            return self._variable(expression)
        return Call(expression.function, tuple(map(self._pure, expression.arguments)), expression.place)


def is_foreign(expression: Expression) -> bool:
    """Whether an expression calls a function that is not plain arithmetic."""
    return isinstance(expression, Call) and expression.function not in ARITHMETIC


def normalise(rule: Rule) -> NormalRule:
    """The normal form of a rule that has passed the checks of the language."""
    return _Normaliser().normalise(rule)


def unjoined_atoms(rule: Rule) -> tuple[Atom, Atom] | None:
    """Two positive atoms that share no variable, directly or through others: their join is a cross product."""
    normal = normalise(rule)
    atoms = [atom for atom in normal.positives if variables(atom) and not is_single_value(atom.predicate)]
    if len(atoms) < 2:
        return None
    linked = [set(variables(atom)) for atom in atoms]
    linked += [{definition.variable, *variables(definition.expression)} for definition in normal.definitions]
    reached = set(linked[0])
    while grown := [group for group in linked if group & reached and not group <= reached]:
        reached.update(*grown)
    return next(((atoms[0], atom) for atom in atoms if not reached.issuperset(variables(atom))), None)
