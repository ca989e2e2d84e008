"""`min`, `max`, `any` and `all` in a recursion: which predicates keep one value for each group, and whether the rules
of their component use these values monotonically.

In `dist(Y, min(D + W)) :- dist(X, D), edge(X, Y, W).` the predicate keeps one value for each Y: the best of all that
its rules and explicit facts offer. That is well defined, as the least fixpoint, if a better value never takes away what
a worse one gave. So each variable of a body is followed on its way: it stays *still*, or it can only fall or only rise
while values get better (as those of `min` and `max` do), or it may become anything. Where that could make a match fail
that held, or a head worse, the rule is refused with the part that does it.

A predicate may also keep the join of all values by a lattice of the user's own. Such a value only grows, and may be
passed on to its own lattice, joined, and given to functions that are known to be monotone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidelog.errors import StratificationError
from tidelog.language.checks import BUILTIN_FUNCTIONS, OPERATORS, VARIADIC, bound_by
from tidelog.language.names import is_auxiliary
from tidelog.language.parse_messages import mistake
from tidelog.language.printer import render
from tidelog.language.records.patterns import FIELD, as_written
from tidelog.language.syntax import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Expression,
    Negation,
    Node,
    Place,
    Rule,
    Term,
    Variable,
    joined_by,
    nodes,
    variables,
)

# How a value moves while those that it depends on get better.
FALLS, STILL, RISES, ANYHOW = -1, 0, 1, 2
# In a lattice of the user's own; and as a monotone function makes of it, in whatever order the result is compared.
GROWS, GREATER = 3, 4

IsMonotone = Callable[[str], bool]
"""Whether a registered function is known to be monotone."""

_DIRECTIONS: Mapping[str, int] = {"min": FALLS, "all": FALLS, "max": RISES, "any": RISES}
_BEST: Mapping[str, bool] = {"any": True, "all": False}

FUNCTIONS = frozenset(_DIRECTIONS)
"""The aggregates that may be in a recursion."""

_BETTER = {FALLS: "smaller", RISES: "larger", ANYHOW: "different", GROWS: "greater", GREATER: "greater"}


@dataclass(frozen=True, slots=True)
class Lattice:
    """How a predicate keeps one value for each group: by which aggregate, in which column, and where its witness is."""

    function: str
    column: int
    witness: int | None = None

    @property
    def direction(self) -> int:
        """Whether values fall or rise when they get better, or grow in a lattice of the user's own."""
        return _DIRECTIONS.get(self.function, GROWS)

    @property
    def join(self) -> str | None:
        """The lattice of the user's own that values are joined by, instead of keeping the best one."""
        return joined_by(self.function)

    @property
    def shown(self) -> str:
        """The aggregate as rules have it."""
        return self.join or self.function

    @property
    def booleans(self) -> bool:
        """Whether only booleans are values."""
        return self.function in _BEST

    def group(self, arity: int) -> tuple[int, ...]:
        """The columns that tell groups apart."""
        return tuple(column for column in range(arity) if column not in (self.column, self.witness))


def plain_rule(rule: Rule) -> Rule:
    """A rule of a predicate that keeps one value: each match offers what its aggregates are of."""
    arguments = tuple(map(_offered, rule.head.arguments))
    return replace(rule, head=replace(rule.head, arguments=arguments))


def _offered(term: Term) -> Expression:
    if not isinstance(term, Aggregate):
        return term
    return term.argument if term.witness is None else term.witness


def aggregates(rule: Rule) -> bool:
    """Whether a rule has aggregates in its head."""
    return any(isinstance(term, Aggregate) for term in rule.head.arguments)


def lattices_of(recursive: Iterable[Rule]) -> dict[str, Lattice]:
    """The predicates of a component that keep one value for each group, by its recursive rules, which were checked."""
    return {rule.head.predicate: _lattice(rule) for rule in recursive if aggregates(rule)}


def is_lattice_rule(rule: Rule) -> bool:
    """Whether all aggregates of a rule, which has some, may be in a recursion."""
    return all(
        term.function in FUNCTIONS or joined_by(term.function)
        for term in rule.head.arguments
        if isinstance(term, Aggregate)
    )


def _lattice(rule: Rule) -> Lattice:
    """What the aggregates in the head of a rule say."""
    values = [place for place, term in _aggregated(rule) if term.witness is None]
    witnesses = [(place, term) for place, term in _aggregated(rule) if term.witness is not None]
    if len(values) != 1:
        raise _refused(
            rule,
            rule.head,
            f"a recursive rule has one `min`, `max`, `any` or `all` in its head, and this one has {len(values)}",
            "write a predicate for each of them, with the value of the other one read outside of the recursion",
        )
    value = rule.head.arguments[values[0]]
    assert isinstance(value, Aggregate)
    for _, term in witnesses[1:]:
        raise _refused(rule, term, "a recursive rule has one witness", "keep the other one in a predicate of its own")
    for _, term in witnesses:
        if term.function != value.function or term.argument != value.argument:
            hint = f"write `{value.function}({render(value.argument)}, {render(term.witness)})`"  # type: ignore[arg-type]
            what = f"the witness `{render(term)}` goes with another value than `{render(value)}`"
            raise _refused(rule, term, what, hint)
    return Lattice(value.function, values[0], witnesses[0][0] if witnesses else None)


def _aggregated(rule: Rule) -> Iterator[tuple[int, Aggregate]]:
    return ((place, term) for place, term in enumerate(rule.head.arguments) if isinstance(term, Aggregate))


def check_component(
    recursive: Iterable[Rule], others: Iterable[Rule], predicates: Collection[str], monotone: IsMonotone
) -> None:
    """Refuse a component in which a value is not used monotonically. `predicates` are its own, `others` the rules that
    derive them and are not recursive.
    """
    recursive, others = list(recursive), list(others)
    lattices: dict[str, Lattice] = {}
    for rule in recursive:
        if aggregates(rule):
            _check_same(rule, lattices.setdefault(rule.head.predicate, _lattice(rule)))
    for rule in others:
        if aggregates(rule) and rule.head.predicate in lattices:
            _check_same(rule, lattices[rule.head.predicate])
    for rule in recursive:
        _Flow(rule, lattices, predicates, monotone).check()


def _check_same(rule: Rule, lattice: Lattice) -> None:
    """Two rules of a predicate must keep the same value."""
    if not is_lattice_rule(rule) or _lattice(rule) != lattice:
        name = rule.head.predicate
        raise _refused(
            rule,
            next(term for _, term in _aggregated(rule)),
            f"another rule of `{name}` is recursive through `{lattice.shown}` in argument {lattice.column + 1}, "
            "and this one aggregates otherwise",
            f"all rules of `{name}` keep one value: let them agree, or derive another predicate here",
        )


class _Flow:
    """How the variables of one rule move while the values of its component get better."""

    def __init__(
        self, rule: Rule, lattices: Mapping[str, Lattice], own: Collection[str], is_monotone: IsMonotone
    ) -> None:
        self._rule = rule
        self._is_monotone = is_monotone
        self._lattices = lattices
        self._own = own
        self._moves: dict[str, int] = {}
        self._from: dict[str, str] = {}  # the predicate whose value moves a variable
        self._joined: dict[str, str] = {}  # a value that grows, to the lattice that it is of
        self._beside: dict[str, str] = {}  # a witness, to the value that it goes with
        self._defined: dict[str, Expression] = {}  # what `=` gives a variable
        self._tests: list[Comparison] = []

    def check(self) -> None:
        for item in self._rule.body:
            if isinstance(item, Atom) and item.predicate in self._lattices:
                self._take_value(item, self._lattices[item.predicate])
        if self._moves:
            self._check_atoms()
            self._define()
            for test in self._tests:
                self._check_test(test)
        self._check_head()

    # --- atoms --------------------------------------------------------------------------------------------------------

    def _take_value(self, atom: Atom, lattice: Lattice) -> None:
        value = atom.arguments[lattice.column]
        if isinstance(value, Variable):
            self._move(atom, value, lattice.direction)
            if lattice.join is not None:
                self._joined[value.name] = lattice.join
        elif not (isinstance(value, Constant) and lattice.booleans and value.value is _BEST[lattice.function]):
            name, function = atom.predicate, lattice.function
            hint = f"bind the value to a variable, and compare it by `{'<=' if lattice.direction == FALLS else '>='}`"
            if lattice.join is not None:
                hint = "bind the value to a variable, and test it by a function that is registered with `monotone=True`"
            if lattice.booleans:
                hint = f"ask for `{render(Constant(_BEST[function]))}`, which is the best that `{function}` can give"
            what = f"`{render(atom)}` asks for one value of `{name}`, which may get better"
            raise _refused(self._rule, value, what, hint, atom)
        if lattice.witness is not None:
            witness = atom.arguments[lattice.witness]
            if not isinstance(witness, Variable):
                what = f"`{render(atom)}` asks for one witness of `{atom.predicate}`, which changes with the value"
                raise _refused(self._rule, witness, what, _OUTSIDE, atom)
            self._move(atom, witness, ANYHOW)
            if isinstance(value, Variable):
                self._beside[witness.name] = value.name

    def _move(self, atom: Atom, variable: Variable, move: int) -> None:
        if variable.name in self._moves:
            raise self._matched(atom, variable)
        self._moves[variable.name] = move
        self._from[variable.name] = atom.predicate

    def _matched(self, atom: Atom, variable: Variable) -> StratificationError:
        name, source = variable.shown, self._from[variable.name]
        what = f"`{render(atom)}` has to match the value `{name}` of `{source}`, which may get better"
        hint = (
            "use a variable of its own in each atom, and compare them by `<=` or `>=`, or do it outside the recursion"
        )
        return _refused(self._rule, variable, what, hint, atom)

    def _check_atoms(self) -> None:
        """No atom may have to match a value that moves."""
        for item in self._rule.body:
            atom = item.atom if isinstance(item, Negation) else item
            if not isinstance(atom, Atom):
                continue
            lattice = self._lattices.get(atom.predicate) if atom is item else None
            values = () if lattice is None else (lattice.column, lattice.witness)
            for column, term in enumerate(atom.arguments):
                if column not in values:
                    for variable in variables(term):
                        if variable.name in self._moves:
                            raise self._matched(atom, variable)

    # --- expressions --------------------------------------------------------------------------------------------------

    def _define(self) -> None:
        """Follow variables through `=`; what is left of the comparisons tests."""
        atoms = (item for item in self._rule.body if isinstance(item, Atom))
        bound = {variable.name for atom in atoms for variable in variables(atom)}
        pending = [item for item in self._rule.body if isinstance(item, Comparison)]
        while ready := next((item for item in pending if item.operator == "=" and bound_by(item, bound)), None):
            (name,) = bound_by(ready, bound)
            bound.add(name)
            pending.remove(ready)
            on_left = isinstance(ready.left, Variable) and ready.left.name == name
            value = ready.right if on_left else ready.left
            self._defined[name] = value
            self._moves[name] = self._movement(value)
            self._from[name] = self._source(value)
            if isinstance(value, Variable) and value.name in self._beside:
                self._beside[name] = self._beside[value.name]
            lattice = self._lattice_of(value)
            if lattice is not None:
                self._joined[name] = lattice
        self._tests = pending

    def _source(self, expression: Expression) -> str:
        """The predicate whose value moves an expression."""
        moved = (self._from[v.name] for v in variables(expression) if self._moves.get(v.name, STILL) != STILL)
        return next(moved, self._rule.head.predicate)

    def _movement(self, expression: Expression) -> int:
        if isinstance(expression, Variable):
            return self._moves.get(expression.name, STILL)
        if isinstance(expression, Constant):
            return STILL
        moves = [self._movement(argument) for argument in expression.arguments]
        if not any(moves):
            return STILL
        if ANYHOW in moves:
            raise self._not_monotone(expression)
        if _is_registered(expression):
            return self._by_registered(expression, moves)
        if GROWS in moves:
            raise self._not_monotone(expression)
        moves = [RISES if move == GREATER else move for move in moves]
        match expression.function:
            case "+" | "min2" | "max2" | "floor" | "ceil" | "round":
                return self._together(expression, moves)
            case "-":
                return self._together(expression, [moves[0], -moves[1]])
            case "neg":
                return -moves[0]
            case "*":
                return self._product(expression, moves)
            case "/" if moves[1] == STILL:
                return moves[0] * self._sign(expression, expression.arguments[1])
            case "sqrt" | "log" if moves[0] == RISES:
                return RISES
            case "exp" if moves[0] == FALLS:
                return FALLS
        raise self._not_monotone(expression)

    def _by_registered(self, expression: Call, moves: Sequence[int]) -> int:
        """How the result of a registered function moves. One that is a lattice joins values of it alone."""
        if not self._is_monotone(expression.function):
            raise self._not_monotone(expression)
        joined = expression.function if self._is_lattice(expression.function) else None
        for argument, move in zip(expression.arguments, moves, strict=True):
            if joined is not None and move == GROWS and self._lattice_of(argument) != joined:
                raise self._not_monotone(expression)
        found = {min(move, RISES) for move in moves if move != STILL}
        if len(found) > 1:
            return self._together(expression, found)
        if joined is not None and found == {RISES}:
            return GROWS
        return FALLS if found == {FALLS} else GREATER

    def _is_lattice(self, function: str) -> bool:
        return any(lattice.join == function for lattice in self._lattices.values())

    def _lattice_of(self, expression: Expression) -> str | None:
        """The lattice of the user's own that an expression is a value of, as far as that is known."""
        if isinstance(expression, Variable):
            return self._joined.get(expression.name)
        if isinstance(expression, Call) and self._is_lattice(expression.function):
            return expression.function
        return None

    def _together(self, expression: Call, moves: Iterable[int]) -> int:
        found = {move for move in moves if move != STILL}
        if len(found) > 1:
            what = f"`{render(expression)}` mixes a value that may fall with one that may rise"
            raise _refused(self._rule, expression, what, _OUTSIDE)
        return found.pop()

    def _product(self, expression: Call, moves: list[int]) -> int:
        """A factor that moves turns round with the sign of the other one, which must be known."""
        left, right = expression.arguments
        parts = [move * self._sign(expression, other) for move, other in zip(moves, (right, left), strict=True) if move]
        return self._together(expression, parts)

    def _sign(self, expression: Call, factor: Expression) -> int:
        if isinstance(factor, Constant) and type(factor.value) in (int, float):
            return -1 if factor.value < 0 else 1  # type: ignore[operator]
        if self._is_positive(factor):
            return 1
        named = f"`{render(factor)} > 0`" if isinstance(factor, Variable) else f"`X = {render(factor)}, X > 0`"
        what = f"whether `{render(expression)}` falls or rises depends on the sign of `{render(factor)}`"
        raise _refused(self._rule, expression, what, f"say that it is positive: add {named} to the body")

    def _is_positive(self, factor: Expression) -> bool:
        """Whether a comparison of the body says that a factor is not negative."""
        if isinstance(factor, Call):
            return factor.function in ("abs", "exp", "sqrt")
        for item in self._rule.body:
            if isinstance(item, Comparison):
                for side, other, operators in (
                    (item.left, item.right, (">", ">=")),
                    (item.right, item.left, ("<", "<=")),
                ):
                    if side == factor and item.operator in operators and _is_natural(other):
                        return True
        return False

    def _not_monotone(self, expression: Call) -> StratificationError:
        moved = next(v for v in variables(expression) if self._moves.get(v.name, STILL) != STILL)
        better = _BETTER[self._moves[moved.name]]
        source = self._from[moved.name]
        if expression.function == FIELD:
            what = f"a record that is a value of `{source}` is taken apart, and may get better"
            return _refused(self._rule, expression, what, "keep its fields in columns of their own, one as the value")
        shown = render(as_written(expression))
        what = f"`{shown}` may become anything when `{moved.shown}` of `{source}` gets {better}"
        hint = "in a recursion, values may be passed on, added, multiplied by what is positive, and taken to `min2`, "
        hint += "`max2`, `floor`, `ceil` and `round`"
        if _is_registered(expression) or self._moves[moved.name] in (GROWS, GREATER):
            hint = "in a recursion, values may be given to functions that are registered with `monotone=True`"
        return _refused(self._rule, expression, what, f"{hint}; or {_OUTSIDE}")

    # --- comparisons and heads ----------------------------------------------------------------------------------------

    def _check_test(self, test: Comparison) -> None:
        left, right = self._movement(test.left), self._movement(test.right)
        if left == right == STILL:
            return
        falls, rises = (FALLS, STILL), (STILL, RISES, GREATER)
        is_condition = test.operator == "=" and isinstance(test.right, Constant) and test.right.value is True
        if is_condition and isinstance(test.left, Call) and _is_registered(test.left) and left == GREATER:
            return
        if test.operator in ("<", "<=") and left in falls and right in rises:
            return
        if test.operator in (">", ">=") and left in rises and right in falls:
            return
        moved = next(v for v in variables(test) if self._moves.get(v.name, STILL) != STILL)
        move, source = self._moves[moved.name], self._from[moved.name]
        what = f"`{render(test)}` may cease to hold when `{moved.shown}` of `{source}` gets {_BETTER[move]}"
        turned = {FALLS: "an upper bound, as in `D < 10`, cannot", RISES: "a lower bound, as in `D > 10`, cannot"}.get(
            move
        )
        hint = _OUTSIDE if turned is None else f"{turned}; or {_OUTSIDE}"
        raise _refused(self._rule, test, what, hint)

    def _check_head(self) -> None:
        head, lattice = self._rule.head, self._lattices.get(self._rule.head.predicate)
        for column, term in enumerate(head.arguments):
            if lattice is not None and column == lattice.column:
                self._check_value(term.argument if isinstance(term, Aggregate) else term, lattice)
            elif lattice is not None and column == lattice.witness:
                self._check_witness(_offered(term), lattice)
            else:
                self._check_still(term, lattice)

    def _check_still(self, term: Term, lattice: Lattice | None) -> None:
        """A column that tells facts apart must not move."""
        for variable in variables(term):
            if self._moves.get(variable.name, STILL) != STILL:
                name, source = self._rule.head.predicate, self._from[variable.name]
                if is_auxiliary(name):
                    what = f"the value `{variable.shown}` of `{source}` goes through alternatives, a range or braces"
                    hint = "give each alternative a rule of its own, and have a range and what is in braces without it"
                    raise _refused(self._rule, variable, what, hint)
                what = f"the value `{variable.shown}` of `{source}` becomes part of what `{name}` is derived for"
                function = self._lattices[source].shown if source in self._lattices else "min"
                hint = f"let `{name}` keep the best one as well, by `{function}({variable.shown})` in this head"
                raise _refused(self._rule, term, what, hint if lattice is None else _OUTSIDE)

    def _check_value(self, value: Expression, lattice: Lattice) -> None:
        move = self._movement(value)
        if move == GROWS == lattice.direction:
            same = self._lattice_of(value) == lattice.join
        else:
            same = move in (STILL, lattice.direction) or (move == GREATER and lattice.direction in (RISES, GROWS))
        if not same:
            moved = next(v for v in variables(value) if self._moves.get(v.name, STILL) != STILL)
            source = self._from[moved.name]
            if lattice.join is not None:
                what = f"`{render(value)}` need not get greater in `{lattice.shown}`"
                what += f" when `{moved.shown}` of `{source}` gets {_BETTER[self._moves[moved.name]]}"
                hint = f"give it to a function that is registered with `monotone=True`; or {_OUTSIDE}"
                raise _refused(self._rule, value, what, hint)
            what = (
                f"`{render(value)}` gets worse for `{lattice.function}` when `{moved.shown}` of `{source}` gets better"
            )
            raise _refused(self._rule, value, what, _OUTSIDE)

    def _check_witness(self, witness: Expression, lattice: Lattice) -> None:
        """A witness may be passed on with its own value, where a better value always gives a better one."""
        moved = [v for v in variables(witness) if self._moves.get(v.name, STILL) != STILL]
        if not moved:
            return
        term = self._rule.head.arguments[lattice.column]
        value = term.argument if isinstance(term, Aggregate) else term
        passed = isinstance(witness, Variable) and witness.name in self._beside
        if not passed or not self._is_strict(value, self._beside[witness.name]):  # type: ignore[union-attr]
            what = f"the witness `{render(as_written(witness))}` may change without `{render(value)}` getting better"
            hint = "a witness of the recursion can be passed on alone, together with its own value plus something"
            raise _refused(self._rule, witness, what, hint)

    def _is_strict(self, value: Expression, name: str) -> bool:
        """Whether an expression gets better whenever a variable does: that, plus or minus what stays."""
        if isinstance(value, Variable):
            return value.name == name or (
                value.name in self._defined and self._is_strict(self._defined[value.name], name)
            )
        if not isinstance(value, Call) or value.function not in ("+", "-"):
            return False
        left, right = value.arguments
        if self._movement(right) == STILL:
            return self._is_strict(left, name)
        return value.function == "+" and self._movement(left) == STILL and self._is_strict(right, name)


def _is_registered(call: Call) -> bool:
    """Whether a call is one of a function that has been registered."""
    known: tuple[Container[str], ...] = (BUILTIN_FUNCTIONS, OPERATORS, VARIADIC)
    return not any(call.function in names for names in known)


_OUTSIDE = "do it in a rule outside of the recursion, which reads what this one derives"


def _is_natural(expression: Expression) -> bool:
    """Whether an expression is a number that is not negative."""
    value = expression.value if isinstance(expression, Constant) else None
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _refused(rule: Rule, node: Node, what: str, hint: str, beside: Node | None = None) -> StratificationError:
    """The error for a part of a rule, or for the part that it stands in if its own place is not known."""
    found = (_place(part) for part in (node, beside, rule) if part is not None)
    place = next((place for place in found if place is not None), None)
    return mistake(StratificationError, place, what, render(rule), hint)


def _place(node: Node) -> Place | None:
    """Where a node, or the first part of it that has a place, begins."""
    places = (getattr(part, "place", None) for part in nodes(node))
    return min((place for place in places if place is not None), default=None)
