"""Closures are recognised however they are written; their closed forms hold for every set of pairs on four nodes."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tidelog.language import parse_program
from tidelog.language.syntax import Atom, BodyItem, Comparison, Rule, Term, Variable
from tidelog.program.graph import RuleGraph
from tidelog.program.modules import Diagonal, Kind, Module, recognise, recognise_whole
from tidelog.program.twins import Twin

TRANSITIVE = "r(X, Z) :- r(X, Y), r(Y, Z)."
TRANSITIVE_APART = "r(X, Z) :- r(X, Y), r(Y, Z), X != Z."
MIRROR = "r(Y, X) :- r(X, Y)."
MIRROR_APART = "r(Y, X) :- r(X, Y), X != Y."
BASE = "p(X, Y) :- e(X, Y)."
BASE_APART = "p(X, Y) :- e(X, Y), X != Y."
RIGHT = "p(X, Z) :- e(X, Y), p(Y, Z)."
RIGHT_APART = "p(X, Z) :- e(X, Y), p(Y, Z), X != Z."
LEFT = "p(X, Z) :- p(X, Y), e(Y, Z)."
LEFT_APART = "p(X, Z) :- p(X, Y), e(Y, Z), X != Z."
INVERSE_BASE = "p(X, Y) :- e(Y, X)."
INVERSE_RIGHT = "p(X, Z) :- e(Y, X), p(Y, Z)."

MODULES = {
    TRANSITIVE: (Kind.TRANSITIVE, Diagonal.CLOSURE),
    TRANSITIVE_APART: (Kind.TRANSITIVE, Diagonal.GIVEN),
    TRANSITIVE + TRANSITIVE_APART: (Kind.TRANSITIVE, Diagonal.CLOSURE),
    MIRROR + TRANSITIVE: (Kind.SYMMETRIC_TRANSITIVE, Diagonal.CLOSURE),
    MIRROR + TRANSITIVE_APART: (Kind.SYMMETRIC_TRANSITIVE, Diagonal.GIVEN),
    MIRROR_APART + TRANSITIVE: (Kind.SYMMETRIC_TRANSITIVE, Diagonal.CLOSURE),
    MIRROR_APART + TRANSITIVE_APART: (Kind.SYMMETRIC_TRANSITIVE, Diagonal.GIVEN),
    # Next to the mirror rule the atoms of the transitive rule may point anywhere.
    MIRROR + "r(X, Z) :- r(X, Y), r(Z, Y).": (Kind.SYMMETRIC_TRANSITIVE, Diagonal.CLOSURE),
    MIRROR + "r(Z, X) :- r(X, Y), r(Y, Z).": (Kind.SYMMETRIC_TRANSITIVE, Diagonal.CLOSURE),
    MIRROR + "r(X, Z) :- r(Y, X), r(Y, Z), Z != X.": (Kind.SYMMETRIC_TRANSITIVE, Diagonal.GIVEN),
    BASE + RIGHT: (Kind.LINEAR, Diagonal.CLOSURE),
    BASE + LEFT: (Kind.LINEAR, Diagonal.CLOSURE),
    BASE + LEFT + RIGHT: (Kind.LINEAR, Diagonal.CLOSURE),
    BASE + RIGHT_APART: (Kind.LINEAR, Diagonal.GIVEN),
    BASE + LEFT_APART: (Kind.LINEAR, Diagonal.GIVEN),
    BASE + LEFT_APART + RIGHT_APART: (Kind.LINEAR, Diagonal.GIVEN),
    BASE + RIGHT_APART + LEFT: (Kind.LINEAR, Diagonal.CLOSURE),
    BASE_APART + RIGHT_APART: (Kind.LINEAR, Diagonal.NONE),
    BASE_APART + LEFT_APART: (Kind.LINEAR, Diagonal.NONE),
    BASE_APART + BASE + RIGHT_APART: (Kind.LINEAR, Diagonal.GIVEN),
    INVERSE_BASE + INVERSE_RIGHT: (Kind.LINEAR, Diagonal.CLOSURE),
    INVERSE_BASE + "p(X, Z) :- p(X, Y), e(Z, Y), X != Z.": (Kind.LINEAR, Diagonal.GIVEN),
}

LOOK_ALIKES = {
    "the mirror rule alone": MIRROR,
    "head turned round": "r(Z, X) :- r(X, Y), r(Y, Z).",
    "atoms that meet in their second arguments": "r(X, Z) :- r(X, Y), r(Z, Y).",
    "a constant": "r(X, Z) :- r(X, a), r(a, Z).",
    "a repeated variable": "r(X, X) :- r(X, Y), r(Y, X).",
    "a repeated variable in the body": "r(X, Z) :- r(X, X), r(X, Z).",
    "a third atom": "r(X, Z) :- r(X, Y), r(Y, Z), good(Y).",
    "a negated atom": "r(X, Z) :- r(X, Y), r(Y, Z), not bad(X, Z).",
    "another comparison": "r(X, Z) :- r(X, Y), r(Y, Z), X < Z.",
    "a comparison of other variables": "r(X, Z) :- r(X, Y), r(Y, Z), X != Y.",
    "a comparison with a constant": "r(X, Z) :- r(X, Y), r(Y, Z), X != a.",
    "a second comparison": "r(X, Z) :- r(X, Y), r(Y, Z), X != Z, X != Y.",
    "an expression": "r(X, Z + 0) :- r(X, Y), r(Y, Z).",
    "three arguments": "r(X, Z, W) :- r(X, Y, W), r(Y, Z, W).",
    "two relations": "r(X, Z) :- r(X, Y), s(Y, Z). s(X, Y) :- r(X, Y), s(X, Y).",
    "only the base rule compares": BASE_APART + RIGHT,
    "base and step point different ways": BASE + INVERSE_RIGHT,
    "two base predicates": BASE + "p(X, Z) :- f(X, Y), p(Y, Z).",
    "a second base rule": BASE + RIGHT + "p(X, Y) :- f(X, Y).",
    "no base rule": RIGHT,
    "no step": BASE,
}


def rules(text: str) -> dict[int, Rule]:
    return dict(enumerate(parse_program(text).rules, start=1))


@pytest.mark.parametrize("text", MODULES)
def test_recognised(text: str) -> None:
    program = rules(text)
    (module,), rest = recognise(program)
    assert (module.kind, module.diagonal) == MODULES[text]
    assert module.rules == tuple(program)
    assert rest == ()
    assert module.inverse == (INVERSE_BASE in text)
    assert module.base == ("e" if module.kind is Kind.LINEAR else None)
    assert module.needs_no_explicit_facts == (module.kind is Kind.LINEAR)
    mirror_compares = MIRROR_APART in text and MIRROR not in text
    assert module.needs_distinct_values == (mirror_compares or module.diagonal is not Diagonal.CLOSURE)


@pytest.mark.parametrize("text", LOOK_ALIKES.values(), ids=LOOK_ALIKES)
def test_not_taken_for_a_closure(text: str) -> None:
    program = rules(text)
    assert recognise(program) == ((), tuple(program))


def test_other_rules_of_the_component_remain() -> None:
    program = rules("r(X, Y) :- e(X, Y)." + TRANSITIVE + "s(X, Y) :- r(X, Y), good(X). r(X, Y) :- s(Y, X)." + MIRROR)
    (module,), rest = recognise(program)
    assert (module.predicate, module.rules, rest) == ("r", (2, 5), (1, 3, 4))


def test_two_closures_in_one_component() -> None:
    program = rules(TRANSITIVE + TRANSITIVE.replace("r(", "s(") + "r(X, Y) :- s(Y, X). s(X, Y) :- r(X, Y).")
    modules, rest = recognise(program)
    assert [module.predicate for module in modules] == ["r", "s"]
    assert rest == (3, 4)


INVERSES = "r(X, Y) :- s(Y, X). s(X, Y) :- r(Y, X)."
TWINS = {
    INVERSES + TRANSITIVE: (Kind.TRANSITIVE, Diagonal.CLOSURE, (Twin("s", True, 1),)),
    INVERSES + TRANSITIVE.replace("r(", "s("): (Kind.TRANSITIVE, Diagonal.CLOSURE, (Twin("s", True, 1),)),
    INVERSES + TRANSITIVE_APART: (Kind.TRANSITIVE, Diagonal.GIVEN, (Twin("s", True, 1),)),
    INVERSES + "r(X, Z) :- s(Y, X), r(Y, Z).": (Kind.TRANSITIVE, Diagonal.CLOSURE, (Twin("s", True, 1),)),
    INVERSES + MIRROR + TRANSITIVE: (Kind.SYMMETRIC_TRANSITIVE, Diagonal.CLOSURE, (Twin("s", True, 1),)),
    # Copies that disagree on the direction make it symmetric.
    "r(X, Y) :- s(Y, X). s(X, Y) :- r(X, Y)." + TRANSITIVE: (
        Kind.SYMMETRIC_TRANSITIVE,
        Diagonal.CLOSURE,
        (Twin("s", True, 1),),
    ),
    "r(X, Y) :- s(X, Y). s(X, Y) :- t(Y, X). t(X, Y) :- r(Y, X)." + TRANSITIVE: (
        Kind.TRANSITIVE,
        Diagonal.CLOSURE,
        (Twin("s", False, 1), Twin("t", True, 2)),
    ),
    "p(X, Y) :- q(Y, X). q(X, Y) :- p(Y, X)." + BASE + RIGHT: (
        Kind.LINEAR,
        Diagonal.CLOSURE,
        (Twin("q", True, 1),),
    ),
}
NO_TWINS = {
    "copied one way only, and back by more than a copy": "r(X, Y) :- s(Y, X). s(X, Y) :- r(Y, X), good(X)."
    + TRANSITIVE,
    "back by a copy that compares": "r(X, Y) :- s(Y, X). s(X, Y) :- r(Y, X), X != Y." + TRANSITIVE,
    "a third predicate": INVERSES + TRANSITIVE + "r(X, Y) :- t(X, Y), good(X). t(X, Y) :- s(X, Y).",
    "another recursion": INVERSES + TRANSITIVE + "s(X, Y) :- r(X, X), good(Y).",
    "no closure": INVERSES,
}


def whole_module(text: str) -> Module | None:
    graph = RuleGraph()
    graph.update(parse_program(text).rules)
    head = graph.rule(1).head.predicate
    return recognise_whole(graph.component(head), graph.rules)


@pytest.mark.parametrize("text", TWINS)
def test_twins_are_one_closure(text: str) -> None:
    module = whole_module(text + "r(X, Y) :- given(X, Y)." * ("p(" not in text))
    assert module is not None
    assert (module.kind, module.diagonal, module.twins) == TWINS[text]
    assert module.rules == tuple(rules(text))


@pytest.mark.parametrize("text", NO_TWINS.values(), ids=NO_TWINS)
def test_not_taken_for_twins(text: str) -> None:
    assert whole_module(text) is None


@given(text=st.sampled_from(list(MODULES)), data=st.data())
def test_recognised_under_any_names_and_order(text: str, data: st.DataObject) -> None:
    program = rules(text)
    order = data.draw(st.permutations(list(program)))
    shuffled = {number: _rewritten(program[number], data) for number in order}
    ((module,), rest), ((other,), _) = recognise(shuffled), recognise(program)
    assert module == other
    assert rest == ()


def _rewritten(rule: Rule, data: st.DataObject) -> Rule:
    names = data.draw(st.sampled_from(list(permutations(["X", "Y", "Z", "?w", "Long"], 3))))
    renamed = dict(zip("XYZ", names, strict=True))

    def term(old: Term) -> Variable:
        assert isinstance(old, Variable)
        return Variable(renamed[old.name])

    def item(old: BodyItem) -> BodyItem:
        if isinstance(old, Comparison):
            left, right = data.draw(st.permutations([term(old.left), term(old.right)]))
            return Comparison("!=", left, right)
        assert isinstance(old, Atom)
        return Atom(old.predicate, tuple(map(term, old.arguments)))

    body = data.draw(st.permutations([item(old) for old in rule.body]))
    return Rule(Atom(rule.head.predicate, tuple(map(term, rule.head.arguments))), tuple(body))


# ── the proof: all 65,536 sets of pairs on four nodes at once ────────────────────────────────────────────────────

Relations = NDArray[np.bool_]

NODES = 4
DIAGONAL = np.eye(NODES, dtype=bool)
EVERY = ((np.arange(2 ** (NODES * NODES))[:, None] >> np.arange(NODES * NODES)) & 1).astype(bool)
EVERY = EVERY.reshape(-1, NODES, NODES)


def least_model(program: dict[int, Rule], predicate: str, facts: dict[str, Relations]) -> Relations:
    """What the rules derive for a predicate, for each set of facts: every rule on everything until nothing is new."""
    model = {name: relations.copy() for name, relations in facts.items()}
    model.setdefault(predicate, np.zeros_like(EVERY))
    while True:
        before = model[predicate].copy()
        for rule in program.values():
            model[predicate] |= heads(rule, model)
        if (before == model[predicate]).all():
            return before


def heads(rule: Rule, model: dict[str, Relations]) -> Relations:
    operands, subscripts = [], []
    for item in rule.body:
        if isinstance(item, Comparison):
            operands.append((~DIAGONAL).astype(np.uint8))
            subscripts.append("".join(letter(side) for side in (item.left, item.right)))
        else:
            assert isinstance(item, Atom)
            operands.append(model[item.predicate].astype(np.uint8))
            subscripts.append("g" + "".join(map(letter, item.arguments)))
    head = "g" + "".join(map(letter, rule.head.arguments))
    return np.asarray(np.einsum(",".join(subscripts) + "->" + head, *operands) > 0)


def letter(term: Term) -> str:
    assert isinstance(term, Variable)
    return term.name.lower()


def closed_form(module: Module, pairs: Relations) -> Relations:
    """The table at the head of modules.py, the closure by Warshall's algorithm."""
    start = pairs.transpose(0, 2, 1) if module.inverse else pairs
    closure = start.copy()
    if module.kind is Kind.SYMMETRIC_TRANSITIVE:
        closure |= start.transpose(0, 2, 1)
    for middle in range(NODES):
        closure |= closure[:, :, middle, None] & closure[:, None, middle, :]
    match module.diagonal:
        case Diagonal.CLOSURE:
            return closure
        case Diagonal.GIVEN:
            return (closure & ~DIAGONAL) | (start & DIAGONAL)
        case Diagonal.NONE:
            return closure & ~DIAGONAL


@pytest.mark.parametrize("text", MODULES)
def test_the_closed_form_is_exact(text: str) -> None:
    program = rules(text)
    (module,), _ = recognise(program)
    model = least_model(program, module.predicate, {module.base or module.predicate: EVERY})
    assert (model == closed_form(module, EVERY)).all()


NO_CLOSED_FORM = {
    "head turned round": (LOOK_ALIKES["head turned round"], "r"),
    "atoms that meet in their second arguments": (LOOK_ALIKES["atoms that meet in their second arguments"], "r"),
    "only the base rule compares": (BASE_APART + RIGHT, "e"),
    "base and step point different ways": (BASE + INVERSE_RIGHT, "e"),
}


@pytest.mark.parametrize(("text", "start"), NO_CLOSED_FORM.values(), ids=NO_CLOSED_FORM)
def test_what_is_left_out_has_none_of_the_forms(text: str, start: str) -> None:
    program = rules(text)
    model = least_model(program, program[1].head.predicate, {start: EVERY})
    forms = [
        closed_form(Module(kind, "r", diagonal, (), inverse=inverse), EVERY)
        for kind in (Kind.TRANSITIVE, Kind.SYMMETRIC_TRANSITIVE)
        for diagonal in Diagonal
        for inverse in (False, True)
    ]
    assert not any((model == form).all() for form in forms)


def test_a_linear_pair_is_no_closure_of_explicit_facts() -> None:
    """Why `needs_no_explicit_facts`: the step extends a given p(c, d) to the left only."""
    program = rules(BASE + RIGHT)
    (module,), _ = recognise(program)
    edge, given = np.zeros_like(EVERY[:1]), np.zeros_like(EVERY[:1])
    edge[0, 3, 0] = given[0, 2, 3] = True
    model = least_model(program, "p", {"e": edge, "p": given})
    assert (model == edge | given).all()
    assert (model != closed_form(module, edge | given)).any()
