"""Recursive rules with an algorithm of their own: closures, recognised only where a closed form says what they yield.

After "Modular Materialisation of Datalog Programs" (Hu, Motik and Horrocks), §5 and §6: the transitive closure

    R(x, z) :- R(x, y), R(y, z).

the symmetric-transitive closure, which has `R(y, x) :- R(x, y).` as well, and the linear pair

    P(x, y) :- E(x, y).        P(x, z) :- E(x, y), P(y, z).     (or P(x, y), E(y, z))

Each may carry `x != z`. Let G be the pairs that a closure starts from: for R, its explicit facts and what other rules
derive; for P, the pairs of E (turned round where `inverse`). Let G+ be the transitive closure of G, in the
symmetric module that of G and its mirror image. With D for the pairs (x, x), a module yields, by its `diagonal`,

    closure    G+                       no recursive rule compares
    given      (G+ - D) | (G & D)       the recursive rule compares
    none       G+ - D                   both rules of the linear pair compare

because x reaches z along a path without repetition, and no pair from x or to z on it fails the comparison. The tests
prove it over all sets of pairs on four nodes. Similar rules have no such form and are left to the general algorithms:
a linear pair of which only the base rule compares, constants, repeated variables, other comparisons, other atoms.
Beside the symmetric rule, the orientation of the transitive rule's atoms makes no difference.

A closure may have several names: `program.twins` finds predicates that are one relation, and `recognise_whole` reads
the rules of all of them as rules of one. G is then what is given for any of them, each pair in the leader's direction.

A component may have any number of closures beside other recursive rules (`recognise_modules`; Modular, section 4). What
those rules derive for a closure are more pairs of G. A linear pair then has its base E in the same recursion, and is
the transitive closure of the pairs that its base rule gives it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b

from tidelog.language.syntax import Rule
from tidelog.program.graph import Component
from tidelog.program.twins import Copies, Pair, Shape, Twin, as_rule_of_leader, directions, shape_of

MANY_TWINS = 256


class Kind(StrEnum):
    TRANSITIVE = "transitive"
    SYMMETRIC_TRANSITIVE = "symmetric-transitive"
    LINEAR = "linear"


class Diagonal(StrEnum):
    """Which pairs (x, x) a module yields."""

    CLOSURE = "closure"
    GIVEN = "given"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Module:
    """A closure: the rules that it stands for, and what they yield (the table at the head of this file)."""

    kind: Kind
    predicate: str
    diagonal: Diagonal
    rules: tuple[int, ...]
    base: str | None = None
    inverse: bool = False
    mirror_compares: bool = False  # whether every rule that turns pairs round asks for `x != y`
    linear: bool = False  # whether its steps add to a path on one side only; always, where it is of that kind
    twins: tuple[Twin, ...] = ()  # the other predicates that hold its pairs
    copies: tuple[str, ...] = field(default=(), compare=False)  # tells these twins from others in names of relations

    @property
    def predicates(self) -> tuple[str, ...]:
        """All predicates that hold its pairs: the leader, then its twins."""
        return (self.predicate, *(twin.predicate for twin in self.twins))

    @property
    def needs_no_explicit_facts(self) -> bool:
        """Whether the form holds only without explicit facts: a linear pair extends those on one side alone."""
        return self.linear

    @property
    def needs_distinct_values(self) -> bool:
        """Whether the form holds only while `!=` tells every two constants apart, and none from itself.

        Numbers compare by value: it fails where both 1 and 1.0 occur in the pairs, or NaN."""
        return self.diagonal is not Diagonal.CLOSURE or self.mirror_compares


def recognise(rules: Mapping[int, Rule]) -> tuple[tuple[Module, ...], tuple[int, ...]]:
    """The closures among all the rules of one component, and the numbers of the rules that are in none."""
    shapes = {number: shape_of(rule) for number, rule in rules.items()}
    linear = _linear(shapes)
    if linear is not None:
        return (linear,), ()
    predicates = dict.fromkeys(rule.head.predicate for rule in rules.values())
    modules = tuple(filter(None, (_closure(predicate, shapes) for predicate in predicates)))
    taken = {number for module in modules for number in module.rules}
    return modules, tuple(number for number in rules if number not in taken)


def recognise_whole(component: Component, rules: Mapping[int, Rule]) -> Module | None:
    """The closure that all the recursion of a component is, if it is one."""
    if not component.recursive_rules:
        return None
    leader, *others = component.predicates
    shapes = {number: shape_of(rules[number]) for number in component.rules}
    twins = Copies(component.predicates, shapes).twins_of(leader)
    module = _closure_of_twins(leader, twins, shapes) if len(twins) == len(others) else None
    return module if module and set(module.rules).issuperset(component.recursive_rules) else None


def recognise_modules(component: Component, rules: Mapping[int, Rule]) -> tuple[Module, ...]:
    """The closures in the recursion of a component; the only one may be all of it."""
    if component.lattices or not component.recursive_rules:
        return ()
    whole = recognise_whole(component, rules)
    return (whole,) if whole else tuple(_recognise_parts(component, rules))


def _recognise_parts(component: Component, rules: Mapping[int, Rule]) -> Iterator[Module]:
    """The closures of a component that has other recursion as well."""
    by_head: dict[str, dict[int, Shape | None]] = {predicate: {} for predicate in component.predicates}
    shapes = {number: shape_of(rules[number]) for number in component.rules}
    for number, shape in shapes.items():
        by_head[rules[number].head.predicate][number] = shape
    copies = Copies(component.predicates, shapes)
    known: set[str] = set()
    for leader in component.predicates:
        if leader not in known:
            twins = copies.twins_of(leader)
            own = {leader, *(twin.predicate for twin in twins)}
            known |= own
            module = _closure_of_twins(leader, twins, {n: s for name in own for n, s in by_head[name].items()})
            if module is not None:
                yield _fed_from_within(module, shapes) if module.kind is Kind.LINEAR else module


def _fed_from_within(module: Module, shapes: Mapping[int, Shape | None]) -> Module:
    """A linear closure whose base is in the same recursion, as the transitive one of what its base rules derive. Those
    leave out what they compare, so that no pair (x, x) is given where the module yields none.
    """
    steps = tuple(number for number in module.rules if not _is_base_rule(shapes[number], module))
    diagonal = Diagonal.GIVEN if module.diagonal is Diagonal.NONE else module.diagonal
    # Its base is none that a transitive closure of the predicate would have.
    return replace(
        module,
        kind=Kind.TRANSITIVE,
        diagonal=diagonal,
        rules=steps,
        base=None,
        inverse=False,
        copies=("0", *module.copies),
    )


def _is_base_rule(shape: Shape | None, module: Module) -> bool:
    return shape is not None and len(shape.body) == 1 and shape.body[0].predicate == module.base


def _closure_of_twins(leader: str, twins: tuple[Twin, ...], shapes: Mapping[int, Shape | None]) -> Module | None:
    """The closure that the rules of twins make, whatever other rules they have."""
    turned = directions(leader, twins)
    renamed = {number: shape and as_rule_of_leader(shape, leader, turned) for number, shape in shapes.items()}
    idle = {number for number, shape in renamed.items() if shape and shape.body == (shape.head,)}
    working = {number: shape for number, shape in renamed.items() if number not in idle}
    module = _linear(working) or _closure(leader, working)
    rules = (*idle, *module.rules) if module else ()
    # The numbers of the rules that make predicates twins, or a digest of very many.
    copies = tuple(str(twin.copy) for twin in twins)
    if len(copies) > MANY_TWINS:
        copies = (blake2b(" ".join(copies).encode(), digest_size=16).hexdigest(),)
    return module and replace(module, rules=tuple(sorted(rules)), twins=twins, copies=copies)


def _closure(predicate: str, shapes: Mapping[int, Shape | None]) -> Module | None:
    """The transitive or symmetric-transitive closure of a predicate. A rule without `!=` makes those with it idle."""
    own = {n: s for n, s in shapes.items() if s and all(pair.predicate == predicate for pair in (s.head, *s.body))}
    mirrors = [number for number, shape in own.items() if _is_mirror(shape)]
    fits = _is_transitive_up_to_orientation if mirrors else _is_transitive
    steps = {number: shape for number, shape in own.items() if fits(shape)}
    if not steps:
        return None
    return Module(
        kind=Kind.SYMMETRIC_TRANSITIVE if mirrors else Kind.TRANSITIVE,
        predicate=predicate,
        diagonal=Diagonal.GIVEN if all(shape.compares for shape in steps.values()) else Diagonal.CLOSURE,
        rules=tuple(sorted((*mirrors, *steps))),
        mirror_compares=bool(mirrors) and all(own[number].compares for number in mirrors),
    )


def _linear(shapes: Mapping[int, Shape | None]) -> Module | None:
    """A linear closure, if the rules are nothing else."""
    known = [shape for shape in shapes.values() if shape]
    bases = [shape for shape in known if len(shape.body) == 1]
    steps = [shape for shape in known if len(shape.body) == 2]
    if not bases or not steps or len(bases) + len(steps) < len(shapes):
        return None
    path, base = bases[0].head.predicate, bases[0].body[0].predicate
    inverse = bases[0].body[0].first != bases[0].head.first
    compare = all(shape.compares for shape in bases), all(shape.compares for shape in steps)
    exact = (
        path != base
        and compare in _LINEAR_DIAGONALS
        and all(_is_base(shape, path, base, inverse) for shape in bases)
        and all(_is_linear_step(shape, path, base, inverse) for shape in steps)
    )
    if not exact:
        return None
    rules = tuple(sorted(shapes))
    return Module(Kind.LINEAR, path, _LINEAR_DIAGONALS[compare], rules, base, inverse, linear=True)


# By whether all base rules and all steps compare. Where the bases alone do, there is no closed form.
_LINEAR_DIAGONALS = {
    (False, False): Diagonal.CLOSURE,
    (False, True): Diagonal.GIVEN,
    (True, True): Diagonal.NONE,
}


def _is_mirror(shape: Shape) -> bool:
    """R(y, x) :- R(x, y); `x != y` changes nothing, as (x, x) is its own mirror image, except between 1 and 1.0."""
    return shape.body == (shape.head.turned(),)


def _is_transitive(shape: Shape) -> bool:
    return len(shape.body) == 2 and any(_chains(shape.head, *pairs) for pairs in (shape.body, shape.body[::-1]))


def _is_transitive_up_to_orientation(shape: Shape) -> bool:
    """Two pairs that meet in one variable, and whose other ends are those of the head."""
    return len(shape.body) == 2 and shape.body[0].ends ^ shape.body[1].ends == shape.head.ends


def _chains(head: Pair, left: Pair, right: Pair) -> bool:
    """(x, z) from (x, y) and (y, z)."""
    return left.second == right.first and (left.first, right.second) == (head.first, head.second)


def _is_base(shape: Shape, path: str, base: str, inverse: bool) -> bool:
    """P(x, y) :- E(x, y), or of E(y, x) where inverse."""
    pair = _oriented(shape.body[0], base, inverse)
    return shape.head.predicate == path and pair == Pair(base, shape.head.first, shape.head.second)


def _is_linear_step(shape: Shape, path: str, base: str, inverse: bool) -> bool:
    """P(x, z) :- E(x, y), P(y, z), or of P(x, y), E(y, z), with E turned round where inverse."""
    left, right = (_oriented(pair, base, inverse) for pair in shape.body)
    return (
        shape.head.predicate == path
        and {left.predicate, right.predicate} == {path, base}
        and (_chains(shape.head, left, right) or _chains(shape.head, right, left))
    )


def _oriented(pair: Pair, base: str, inverse: bool) -> Pair:
    return pair.turned() if inverse and pair.predicate == base else pair
