"""The oracle: materialisation and maintenance by the definitions, slow and plain, for every engine to be held against.

It shares nothing with the engine but the syntax tree. Facts are rows of `Constant`, which are equal only with the same
type. A *match* of a body is an assignment of its variables: positive atoms bind first, then `=` binds what is still
free (in the order of the text), then the rest is tested. So the order of a body never decides whether it matches.
A match fails by *error* when an expression has no value and no other comparison rejects it anyway.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

from naive_functions import Failure, Functions, aggregate, better, call, compare, witness
from naive_written import Written, is_special
from tidelog.errors import StratificationError, UnknownRuleError, UnsafeRuleError
from tidelog.language.syntax import (
    CONSTRAINT,
    WARNING,
    Aggregate,
    Atom,
    BodyItem,
    Call,
    Comparison,
    Constant,
    Disjunction,
    Expression,
    Negation,
    Query,
    Rule,
    Term,
    Variable,
    joined_by,
    nodes,
    rebuilt,
    variables,
)
from tidelog.values import XSD, Literal, Value

Row = tuple[Constant, ...]
Database = dict[str, set[Row]]
Fact = tuple[str, Row]
Assignment = dict[str, Constant]
NO_FUNCTIONS: Functions = {}


@dataclass(frozen=True)
class Derivation:
    """One rule instance: the fact that it yields and the facts that its positive atoms (of a whole group) matched."""

    head: Fact
    premises: frozenset[Fact]


# Facts


def constant(value: Value | Constant) -> Constant:
    return value if isinstance(value, Constant) else Constant(value)


def database(facts: Mapping[str, Iterable[Iterable[Value | Constant]]] | Iterable[Atom]) -> Database:
    """Facts as the oracle holds them; from rows by predicate, or from ground atoms. Predicates without facts go."""
    if isinstance(facts, Mapping):
        pairs = [(predicate, tuple(map(constant, row))) for predicate, rows in facts.items() for row in rows]
    else:
        pairs = [ground(atom, {}, NO_FUNCTIONS) for atom in facts]
    result: defaultdict[str, set[Row]] = defaultdict(set)
    for predicate, row in pairs:
        result[predicate].add(row)
    return dict(result)


def plain(facts: Database) -> dict[str, list[tuple[Value, ...]]]:
    """The same facts as Python values, as the API takes them; lists, since Python's sets mix up `1` and `1.0`."""
    return {predicate: [tuple(cell.value for cell in row) for row in rows] for predicate, rows in facts.items()}


def union(left: Database, right: Database) -> Database:
    return without_empty({name: left.get(name, set()) | right.get(name, set()) for name in [*left, *right]})


def minus(left: Database, right: Database) -> Database:
    return without_empty({name: rows - right.get(name, set()) for name, rows in left.items()})


def without_empty(facts: Database) -> Database:
    return {predicate: rows for predicate, rows in facts.items() if rows}


# Matches of a body


def evaluate(expression: Expression, assignment: Assignment, functions: Functions) -> Constant:
    if isinstance(expression, Variable):
        return assignment[expression.name]
    if isinstance(expression, Constant):
        return expression
    values = [evaluate(argument, assignment, functions).value for argument in expression.arguments]
    return Constant(call(expression.function, values, functions))


def ground(atom: Atom, assignment: Assignment, functions: Functions) -> Fact:
    row = []
    for argument in atom.arguments:
        if isinstance(argument, Aggregate):
            raise ValueError(f"an aggregate cannot stand in {atom.predicate} here")
        row.append(evaluate(argument, assignment, functions))
    return atom.predicate, tuple(row)


def unify(arguments: Sequence[Term], row: Row, assignment: Assignment) -> Assignment | None:
    """The assignment that also makes the arguments (variables and constants) equal to the row, if there is one."""
    result = dict(assignment)
    for argument, cell in zip(arguments, row, strict=True):
        wanted = result.setdefault(argument.name, cell) if isinstance(argument, Variable) else argument
        if wanted is not cell and wanted != cell:
            return None
    return result


def join(assignments: list[Assignment], atom: Atom, rows: Iterable[Row]) -> list[Assignment]:
    """Every way to extend one of the assignments (all of the same variables) so that the atom is one of the rows."""
    bound = assignments[0].keys() if assignments else set()
    known = [i for i, term in enumerate(atom.arguments) if not isinstance(term, Variable) or term.name in bound]
    index: defaultdict[Row, list[Row]] = defaultdict(list)
    for row in rows:
        index[tuple(row[i] for i in known)].append(row)
    result: list[Assignment] = []
    for assignment in assignments:
        key = tuple(_lookup(atom.arguments[i], assignment) for i in known)
        extended = (unify(atom.arguments, row, assignment) for row in index.get(key, ()))
        result.extend(found for found in extended if found is not None)
    return result


def _lookup(term: Term, assignment: Assignment) -> Constant:
    if isinstance(term, Variable):
        return assignment[term.name]
    assert isinstance(term, Constant)
    return term


@dataclass
class Body:
    """A body sorted by kind. An expression within a positive atom becomes a variable of its own and a wanted value."""

    atoms: list[Atom] = field(default_factory=list)
    wanted: list[tuple[Call, str]] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    negated: list[Atom] = field(default_factory=list)

    @classmethod
    def of(cls, items: Iterable[BodyItem]) -> Body:
        body = cls()
        for item in items:
            match item:
                case Atom():
                    body.atoms.append(replace(item, arguments=tuple(map(body._name, item.arguments))))
                case Comparison():
                    body.comparisons.append(item)
                case Negation(atom=atom):
                    body.negated.append(atom)
        return body

    def _name(self, term: Term) -> Term:
        if not isinstance(term, Call):
            return term
        name = f"value {len(self.wanted)}"
        self.wanted.append((term, name))
        return Variable(name)


def matches(
    items: Iterable[BodyItem], facts: Database, functions: Functions, head: Sequence[Term] = ()
) -> Iterator[Assignment | None]:
    """Every match of a body once, and None for every one that fails by error (but for bodies as they are written)."""
    items = list(items)
    if any(map(is_special, items)):
        yield from Written(lambda name: facts.get(name, ()), evaluate, functions).matches(head, items, {})
        return
    body = Body.of(items)
    assignments: list[Assignment] = [{}]
    for atom in body.atoms:
        assignments = join(assignments, atom, facts.get(atom.predicate, ()))
    for assignment in assignments:
        verdict = complete(body, assignment, facts, functions)
        if verdict is not False:
            yield assignment if verdict else None


def complete(body: Body, assignment: Assignment, facts: Database, functions: Functions) -> bool | None:
    """Bind what `=` binds, in place, and test the rest: True for a match, False for none, None for an error."""
    erred = False
    pending = list(body.comparisons)
    while ready := next((item for item in pending if _is_ready(item, assignment)), None):
        pending.remove(ready)
        try:
            if not _bind_or_test(ready, assignment, functions):
                return False
        except Failure:
            erred = True
    if erred:
        return None
    if pending:
        raise UnsafeRuleError(f"nothing binds the variables of {pending[0]!r}")
    try:
        return _has_wanted_values(body, assignment, functions) and _negations_hold(body, assignment, facts, functions)
    except Failure:
        return None


def _free(expression: Expression, assignment: Assignment) -> bool:
    return any(variable.name not in assignment for variable in variables(expression))


def _is_ready(item: Comparison, assignment: Assignment) -> bool:
    free = [side for side in (item.left, item.right) if _free(side, assignment)]
    return not free or (item.operator == "=" and len(free) == 1 and isinstance(free[0], Variable))


def _bind_or_test(item: Comparison, assignment: Assignment, functions: Functions) -> bool:
    for side, other in ((item.left, item.right), (item.right, item.left)):
        if isinstance(side, Variable) and side.name not in assignment:
            assignment[side.name] = evaluate(other, assignment, functions)
            return True
    left, right = (evaluate(side, assignment, functions) for side in (item.left, item.right))
    return compare(item.operator, left.value, right.value)


def _has_wanted_values(body: Body, assignment: Assignment, functions: Functions) -> bool:
    return all(evaluate(call, assignment, functions) == assignment[name] for call, name in body.wanted)


def _negations_hold(body: Body, assignment: Assignment, facts: Database, functions: Functions) -> bool:
    return not any(_has_fact(atom, assignment, facts, functions) for atom in body.negated)


def _has_fact(atom: Atom, assignment: Assignment, facts: Database, functions: Functions) -> bool:
    """Whether some fact fits the atom, whatever its variables without a value stand for."""
    pattern = [evaluate(term, assignment, functions) if isinstance(term, Call) else term for term in atom.arguments]
    return any(unify(pattern, row, assignment) is not None for row in facts.get(atom.predicate, ()))


# Rules


def derivations(rule: Rule, facts: Database, functions: Functions = NO_FUNCTIONS) -> Iterator[Derivation | None]:
    """Every instance of a rule in the facts, and None for every instance or aggregate's group that fails by error."""
    if is_aggregate(rule):
        yield from _groups(rule, facts, functions)
        return
    for assignment in matches(rule.body, facts, functions, rule.head.arguments):
        head = _head(rule, assignment, functions)
        if assignment is None or head is None:
            yield None
        else:
            yield Derivation(head, premises(rule.body, assignment, functions))


def heads(rule: Rule, facts: Database, functions: Functions = NO_FUNCTIONS) -> Iterator[Fact | None]:
    """The head of every one of the `derivations`; premises take most of their time, and few callers look at them."""
    if is_aggregate(rule):
        yield from (found and found.head for found in _groups(rule, facts, functions))
        return
    for assignment in matches(rule.body, facts, functions, rule.head.arguments):
        yield _head(rule, assignment, functions)


def _head(rule: Rule, assignment: Assignment | None, functions: Functions) -> Fact | None:
    try:
        return None if assignment is None else ground(rule.head, assignment, functions)
    except Failure:
        return None


def is_aggregate(rule: Rule) -> bool:
    return any(isinstance(argument, Aggregate) for argument in rule.head.arguments)


def as_written(rules: Iterable[Rule]) -> list[Rule]:
    """The rules as they are written, one for each head, with equations for the aggregates with bodies in the head."""
    found = []
    for rule in dict.fromkeys(rule.written for rule in rules):
        for head in (rule.head, *rule.also):
            named: list[Comparison] = []

            def name(node: Any, named: list[Comparison] = named) -> Variable | None:
                if not (isinstance(node, Aggregate) and node.body is not None):
                    return None
                named.append(Comparison("=", Variable(f"value of aggregate {len(named)}"), node))  # type: ignore
                return named[-1].left  # type: ignore[return-value]

            plain_head = rebuilt(head, name)
            found.append(replace(rule, head=plain_head, also=(), body=(*rule.body, *named)))
    return found


def with_replacement(rules: Sequence[Rule], facts: Database) -> list[Rule]:
    """Rules with an equality, if there is one, as rules: symmetric, transitive, and a rule for each place of each
    predicate that it applies to, in which it replaces a constant by an equal one.
    """
    found = [rule for rule in rules if rule.is_equality]
    plain = [rule for rule in rules if not rule.is_equality]
    if not found:
        return plain
    same, *listed = (atom.predicate for atom in found[0].body)
    arities = {name: len(row) for name, rows in facts.items() for row in rows}
    arities |= {atom.predicate: atom.arity for rule in plain for atom in nodes(rule) if isinstance(atom, Atom)}
    x, y, z = map(Variable, "XYZ")
    pairs = [Rule(Atom(same, (x, y)), (Atom(same, (y, x)),))]
    pairs += [Rule(Atom(same, (x, z)), (Atom(same, (x, y)), Atom(same, (y, z))))]
    for name in listed or arities:
        if name != same and name not in (CONSTRAINT, WARNING):
            row = [Variable(f"V{place}") for place in range(arities.get(name, 0))]
            for place, old in enumerate(row):
                changed = (*row[:place], x, *row[place + 1 :])
                pairs.append(Rule(Atom(name, changed), (Atom(name, tuple(row)), Atom(same, (old, x)))))
    return [*plain, *pairs]


def premises(body: Iterable[BodyItem], assignment: Assignment, functions: Functions) -> frozenset[Fact]:
    return frozenset(ground(item, assignment, functions) for item in body if isinstance(item, Atom))


def _groups(rule: Rule, facts: Database, functions: Functions) -> Iterator[Derivation | None]:
    """Each match is a row: the value of each argument of the head, before aggregation. Equal group terms, one group."""
    rows: defaultdict[Row, list[Row]] = defaultdict(list)
    support: defaultdict[Row, set[Fact]] = defaultdict(set)
    for assignment in matches(rule.body, facts, functions, rule.head.arguments):
        try:
            if assignment is None:
                raise Failure
            row = tuple(_cell(term, assignment, functions) for term in rule.head.arguments)
        except Failure:
            yield None
            continue
        group = tuple(
            cell for cell, term in zip(row, rule.head.arguments, strict=True) if not isinstance(term, Aggregate)
        )
        rows[group].append(row)
        support[group] |= premises(rule.body, assignment, functions)
    for group, members in rows.items():
        try:
            head = tuple(
                _column(term, column, functions) for term, *column in zip(rule.head.arguments, *members, strict=True)
            )
        except Failure:
            yield None
        else:
            yield Derivation((rule.head.predicate, head), frozenset(support[group]))


def _cell(term: Term, assignment: Assignment, functions: Functions) -> Any:
    """What a match gives for an argument of the head: a constant, and for a witness also the value it goes with."""
    if not isinstance(term, Aggregate):
        return evaluate(term, assignment, functions)
    value = evaluate(term.argument, assignment, functions)
    return value if term.witness is None else (value, evaluate(term.witness, assignment, functions))


def _column(term: Term, cells: Sequence[Any], functions: Functions) -> Constant:
    if not isinstance(term, Aggregate):
        return cells[0]
    lattice = joined_by(term.function)
    if lattice is not None:
        return reduce(partial(_join, lattice, functions), cells)
    if term.witness is None:
        return Constant(aggregate(term.function, [cell.value for cell in cells], term.distinct))
    values, beside = zip(*cells, strict=True)
    return Constant(witness(term.function, [cell.value for cell in values], [cell.value for cell in beside]))


def _join(lattice: str, functions: Functions, one: Constant, other: Constant) -> Constant:
    """The join of two values by a lattice of the user's own."""
    return one if one == other else Constant(call(lattice, [one.value, other.value], functions))


# Best values: `min` and `max` within a recursion, and joins by lattices


# Values that texts do not order.
NO_TEXT_ORDER = frozenset(f"{XSD}{name}" for name in ("dayTimeDuration", "precisionDecimal", "integer"))


@dataclass(frozen=True)
class Kept:
    """Which argument of a predicate is its value, which way that gets better, and where its witness is."""

    function: str
    column: int
    witness: int | None

    def better(self, row: Row, other: Row) -> bool:
        if row[self.column] != other[self.column]:
            return better(row[self.column].value, other[self.column].value, self.function in ("max", "any"))
        if self.witness is None or row[self.witness] == other[self.witness]:
            return False
        return better(row[self.witness].value, other[self.witness].value, rising=False)

    def best(self, rows: Iterable[Row], functions: Functions) -> set[Row]:
        """The best row of each group, or its rows joined to one."""
        found: dict[Row, Row] = {}
        lattice = joined_by(self.function)
        for row in rows:
            value = row[self.column].value
            if value != value or (self.function in ("any", "all") and not isinstance(value, bool)):
                continue
            if lattice is None and isinstance(value, Literal) and value.datatype in NO_TEXT_ORDER:
                continue
            group = tuple(cell for column, cell in enumerate(row) if column not in (self.column, self.witness))
            if lattice is not None and group in found:
                value = _join(lattice, functions, found[group][self.column], row[self.column])
                found[group] = (*row[: self.column], value, *row[self.column + 1 :])
            elif group not in found or self.better(row, found[group]):
                found[group] = row
        return set(found.values())


def _needs(rules: Iterable[Rule]) -> Mapping[str, set[str]]:
    """All that each predicate depends on."""
    needs: defaultdict[str, set[str]] = defaultdict(set)
    for rule in rules:
        needs[rule.head.predicate] |= {name for name, _ in _uses(rule)}
    grown = True
    while grown:
        grown = False
        for name in list(needs):
            more = set().union(*(needs[other] for other in list(needs[name]) if other in needs)) - needs[name]
            needs[name] |= more
            grown = grown or bool(more)
    return needs


def kept_values(rules: Iterable[Rule]) -> dict[str, Kept]:
    """The predicates that a rule derives by an aggregate from what depends on them."""
    rules = list(rules)
    needs = _needs(rules)
    return {
        rule.head.predicate: _kept(rule)
        for rule in rules
        if _has_best(rule) and any(rule.head.predicate in needs.get(name, set()) | {name} for name, _ in _uses(rule))
    }


def _has_best(rule: Rule) -> bool:
    """Whether a rule has aggregates, all of which choose among values."""
    functions = {term.function for term in rule.head.arguments if isinstance(term, Aggregate)}
    return bool(functions) and all(
        name in {"min", "max", "any", "all"} or joined_by(name) is not None for name in functions
    )


def _kept(rule: Rule) -> Kept:
    terms = {column: term for column, term in enumerate(rule.head.arguments) if isinstance(term, Aggregate)}
    (value,) = (column for column, term in terms.items() if term.witness is None)
    return Kept(terms[value].function, value, next((column for column in terms if column != value), None))


def offering(rule: Rule) -> Rule:
    """A rule of a predicate that keeps its best values: each match offers one."""
    arguments = [
        term if not isinstance(term, Aggregate) else term.argument if term.witness is None else term.witness
        for term in rule.head.arguments
    ]
    return replace(rule, head=replace(rule.head, arguments=tuple(arguments)))


def resolved(rules: Iterable[Rule]) -> tuple[list[Rule], dict[str, Kept]]:
    """The rules, those of predicates that keep their best values as offers; and these predicates."""
    rules = list(rules)
    kept = kept_values(rules)
    return [offering(rule) if rule.head.predicate in kept else rule for rule in rules], kept


def strata(rules: Iterable[Rule], kept: Collection[str] = ()) -> list[list[Rule]]:
    """The rules in layers: a layer negates and aggregates only what the layers before it derive, and reads the values
    that predicates keep only from those, unless the two depend on each other.
    """
    rules = list(rules)
    needs = _needs(rules)
    level: defaultdict[str, int] = defaultdict(int)
    changed = True
    while changed:
        changed = False
        for rule in rules:
            head = rule.head.predicate
            uses = [
                (name, strict or (name in kept and head not in needs.get(name, set()) | {name}))
                for name, strict in _uses(rule)
            ]
            needed = max((level[name] + strict for name, strict in uses), default=0)
            if needed > len(rules):
                raise StratificationError(f"{rule.head.predicate} depends on its own negation or aggregate")
            if needed > level[rule.head.predicate]:
                level[rule.head.predicate] = needed
                changed = True
    layers = sorted({level[rule.head.predicate] for rule in rules})
    return [[rule for rule in rules if level[rule.head.predicate] == layer] for layer in layers]


def _uses(rule: Rule) -> Iterator[tuple[str, bool]]:
    """The predicates of a body, and whether they must be complete before the rule can be evaluated."""
    yield from _read_by(rule.body, is_aggregate(rule))


def _read_by(items: Iterable[Any], strict: bool) -> Iterator[tuple[str, bool]]:
    for item in items:
        if isinstance(item, Atom):
            yield item.predicate, strict
        elif isinstance(item, Negation):
            yield item.atom.predicate, True
        elif isinstance(item, Disjunction):
            yield from (use for alternative in item.alternatives for use in _read_by(alternative, strict))
        for node in () if isinstance(item, Disjunction) else nodes(item):
            if isinstance(node, Aggregate):
                yield from _read_by(node.body or (), True)


def materialise(
    rules: Iterable[Rule],
    facts: Mapping[str, Iterable[Iterable[Value | Constant]]] | Iterable[Atom],
    functions: Functions = NO_FUNCTIONS,
) -> Database:
    """I: the facts and all that the rules derive from them. Every rule, over and over, until nothing is new."""
    result = database(facts)
    offers, kept = resolved(with_replacement(as_written(rules), result))
    for layer in strata(offers, kept):
        if kept.keys() & {rule.head.predicate for rule in layer}:
            result = _settled(layer, result, kept, functions)
            continue
        while new := minus(_consequences(layer, result, functions), result):
            result = union(result, new)
    return result


def _settled(rules: list[Rule], given: Database, kept: Mapping[str, Kept], functions: Functions) -> Database:
    """The least fixpoint: of each group the best of what is given and what the rules offer, over and over, until
    nothing changes.
    """
    own = kept.keys() & {rule.head.predicate for rule in rules}
    present: Database = {
        name: kept[name].best(rows, functions) if name in own else rows for name, rows in given.items()
    }
    while True:
        offered = union(given, _consequences(rules, present, functions))
        following = {name: kept[name].best(rows, functions) if name in own else rows for name, rows in offered.items()}
        following = union(following, {name: rows for name, rows in present.items() if name not in own})
        if following == without_empty(present):
            return following
        present = following


def _consequences(rules: Iterable[Rule], facts: Database, functions: Functions) -> Database:
    result: defaultdict[str, set[Row]] = defaultdict(set)
    for rule in rules:
        for head in heads(rule, facts, functions):
            if head is not None:
                predicate, row = head
                result[predicate].add(row)
    return result


def errors(rules: Iterable[Rule], materialisation: Database, functions: Functions = NO_FUNCTIONS) -> int:
    """How many rule instances (and groups) of a complete materialisation fail by error."""
    return sum(head is None for rule in resolved(rules)[0] for head in heads(rule, materialisation, functions))


def proof_heights(
    rules: Iterable[Rule],
    facts: Mapping[str, Iterable[Iterable[Value | Constant]]],
    functions: Functions = NO_FUNCTIONS,
) -> dict[Fact, int]:
    """The height of the lowest proof of every fact: 0 for an explicit one, else one more than its highest premise."""
    complete_facts = materialise(rules, facts, functions)
    rules, _ = resolved(rules)
    found = [item for rule in rules for item in derivations(rule, complete_facts, functions) if item is not None]
    holding = {(name, row) for name, rows in complete_facts.items() for row in rows}
    heights = {(name, row): 0 for name, rows in database(facts).items() for row in rows if (name, row) in holding}
    found = [item for item in found if item.head in holding]
    changed = True
    while changed:
        changed = False
        for derivation in found:
            if not derivation.premises <= heights.keys():
                continue
            height = 1 + max((heights[premise] for premise in derivation.premises), default=0)
            if height < heights.get(derivation.head, height + 1):
                heights[derivation.head] = height
                changed = True
    return heights


def answers(query: Query, facts: Database, functions: Functions = NO_FUNCTIONS) -> list[Assignment]:
    """The distinct answers of a query over a materialisation: its named variables, in the order of the text."""
    found: dict[tuple[tuple[str, Constant], ...], None] = {}
    names = dict.fromkeys(v.name for item in query.body for v in variables(item) if not v.anonymous)
    for assignment in matches(query.body, facts, functions):
        if assignment is not None:
            found[tuple((name, assignment[name]) for name in names if name in assignment)] = None
    return [dict(answer) for answer in found]


# Updates


class Readable:
    """What Hypothesis shows as its text, and not field by field."""

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


def fact_lines(facts: Database) -> list[str]:
    return sorted(f"{Atom(predicate, row)}." for predicate, rows in facts.items() for row in rows)


@dataclass(frozen=True, repr=False)
class Update(Readable):
    """One transaction, as the API knows it: deletions before additions, of facts and of rules."""

    add: Database = field(default_factory=dict)
    delete: Database = field(default_factory=dict)
    add_rules: tuple[Rule, ...] = ()
    remove_rules: tuple[Rule, ...] = ()

    def mapping(self) -> dict[str, object]:
        """The update as `KnowledgeBase.update(**mapping)` and `stream` take it."""
        return {
            "add": plain(self.add),
            "delete": plain(self.delete),
            "add_rules": "\n".join(map(str, self.add_rules)),
            "remove_rules": "\n".join(map(str, self.remove_rules)),
        }

    def __repr__(self) -> str:
        gone = [f"- {line}" for line in (*fact_lines(self.delete), *map(str, self.remove_rules))]
        new = [f"+ {line}" for line in (*fact_lines(self.add), *map(str, self.add_rules))]
        return "\n".join(["", *gone, *new, ""])


@dataclass(frozen=True, repr=False)
class State(Readable):
    """What an update changes: the rules (no two the same but for the names of variables) and the explicit facts."""

    rules: tuple[Rule, ...] = ()
    explicit: Database = field(default_factory=dict)

    def __repr__(self) -> str:
        return "\n".join(["", *map(str, self.rules), *fact_lines(self.explicit), ""])

    def materialise(self, functions: Functions = NO_FUNCTIONS) -> Database:
        return materialise(self.rules, self.explicit, functions)

    def apply(self, update: Update) -> State:
        """The state after the update; an unknown rule to remove raises and nothing has happened."""
        rules = {normal(rule): rule for rule in self.rules}
        for rule in update.remove_rules:
            if normal(rule) not in rules:
                raise UnknownRuleError(f"no rule {rule} to remove")
        for rule in update.remove_rules:
            rules.pop(normal(rule), None)
        for rule in update.add_rules:
            rules.setdefault(normal(rule), rule)
        return State(tuple(rules.values()), union(minus(self.explicit, update.delete), update.add))


def normal(rule: Rule) -> Rule:
    """The rule with its variables numbered by first occurrence: equal for two rules that differ in names only."""
    names: dict[str, str] = {}
    for variable in variables(rule):
        names.setdefault(variable.name, f"V{len(names)}")
    return renamed(rule, names)


def renamed(rule: Rule, names: Mapping[str, str]) -> Rule:
    """The rule with other names for its variables."""
    return Rule(_renamed_atom(rule.head, names), tuple(_renamed_item(item, names) for item in rule.body))


def _renamed_item(item: BodyItem, names: Mapping[str, str]) -> BodyItem:
    match item:
        case Atom():
            return _renamed_atom(item, names)
        case Negation(atom=atom):
            return Negation(_renamed_atom(atom, names))
        case Comparison(operator=operator, left=left, right=right):
            return Comparison(operator, _renamed(left, names), _renamed(right, names))


def _renamed_atom(atom: Atom, names: Mapping[str, str]) -> Atom:
    return Atom(atom.predicate, tuple(_renamed_term(term, names) for term in atom.arguments))


def _renamed_term(term: Term, names: Mapping[str, str]) -> Term:
    if isinstance(term, Aggregate):
        beside = None if term.witness is None else _renamed(term.witness, names)
        return replace(term, argument=_renamed(term.argument, names), witness=beside)
    return _renamed(term, names)


def _renamed(expression: Expression, names: Mapping[str, str]) -> Expression:
    match expression:
        case Variable(name=name):
            return Variable(names[name])
        case Call(function=function, arguments=arguments):
            return Call(function, tuple(_renamed(argument, names) for argument in arguments))
        case Constant():
            return expression


def change(before: Database, after: Database) -> tuple[Database, Database]:
    """What appeared and what vanished between two materialisations; only predicates that changed."""
    return minus(after, before), minus(before, after)
