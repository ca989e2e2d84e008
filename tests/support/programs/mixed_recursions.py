"""Random programs with closures beside other rules of one recursion, and streams of updates of facts and rules."""

from __future__ import annotations

import random
from collections.abc import Sequence

from naive import Database, State, Update, database
from tidelog.language import parse_rules
from tidelog.language.syntax import EQUALITY, Atom, Rule

# Closures of all kinds that feed each other and are fed by what reads them; twins; rules by which these begin and end.
RULES = parse_rules(
    """
    p(X, Z) :- p(X, Y), p(Y, Z).      p(X, Y) :- p(Y, X).               q(X, Y) :- p(Y, X), f(X, _).
    p(X, Y) :- q(X, Y).               p(X, Y) :- e(X, Y).               p(X, Y) :- s(Y, X).
    s(X, Y) :- p(Y, X).               s(X, Z) :- s(X, Y), s(Y, Z).      q(X, Y) :- s(X, Y), e(_, X).
    s(X, Y) :- g(X, Y).               p(X, Y) :- q(Y, X), p(X, X).      q(X, Y) :- e(X, Y), not f(X, Y).
    e(X, Y) :- g(Y, X).               far(Y) :- p(1, Y), not q(1, Y).   n(X, count(Y)) :- s(X, Y).
    q(X, Z) :- q(X, Y), q(Y, Z), X != Z.                                s(X, Z) :- s(X, Y), s(Y, Z), X != Z.
    q(X, Z) :- p(X, Y), s(Y, Z).      s(X, Y) :- q(X, Y), not g(Y, X).  p(X, Y) :- p(X, Z), p(Z, W), f(W, Y).
    l(X, Y) :- q(X, Y).               l(X, Z) :- l(X, Y), q(Y, Z).      l(X, Z) :- q(X, Y), l(Y, Z), X != Z.
    p(X, Y) :- l(X, Y), f(Y, X).      u(X) :- p(X, X), q(X, _).         p(X, Y) :- u(X), u(Y), f(X, Y).
    """,
    {},
)

# The same where all that reads a closure joins it with relations that are no closures.
JOINED = parse_rules(
    """
    p(X, Z) :- p(X, Y), p(Y, Z).      p(X, Y) :- e(X, Y).               q(X, Y) :- p(X, Y), f(X, _).
    p(X, Y) :- q(Y, X).               s(X, Y) :- p(X, Y), g(_, Y).      p(X, Y) :- s(Y, X), f(X, X).
    s(X, Z) :- s(X, Y), s(Y, Z).      s(X, Y) :- s(Y, X).               q(X, Z) :- p(X, Y), s(Y, Z), f(X, _), g(Z, _).
    l(X, Y) :- p(Y, X).               p(X, Y) :- l(X, Y).               q(X, Y) :- p(1, X), f(X, Y).
    u(X) :- s(X, Y), f(Y, X).         u(X) :- f(X, X).                  p(X, Y) :- u(X), p(X, Z), g(Z, Y).
    n(X, count(Y)) :- p(X, Y).        far(X) :- f(X, _), not p(X, 1).   p(X, Y) :- l(X, Z), g(Z, Y), u(Y).
    """,
    {},
)

# Equality that what it applies to derives, by closures and without them.
EQUAL = parse_rules(
    """
    same(X, Y) :- p(X, Y), u(X).      same(X, Y) :- s(X, Y), g(Y, X).   same(X, Y) :- f(X, Z), f(Y, Z), p(Z, Z).
    p(X, Y) :- same(X, Y), e(X, _).   q(X, Y) :- same(X, Z), g(Z, Y).   u(X) :- same(X, Y), p(Y, X).
    """,
    {},
)


def recursions(seed: int, length: int = 5, rules_from: Sequence[Rule] = RULES) -> tuple[State, list[Update]]:
    """A program with closures in a larger recursion, and updates in which facts and rules come and go."""
    dice = random.Random(seed)
    values = [0, 1, 2, 3, 4] if seed % 4 else [0, 1, 2, 1.0, 2.5]

    def facts(chance: float) -> Database:
        chosen = [name for name in "efgpqsl" if dice.random() < chance]
        return database({name: {(dice.choice(values), dice.choice(values)) for _ in range(3)} for name in chosen})

    around = (rules_from[0], *rules_from[2:4]) if dice.random() < 0.6 else ()
    rules = list(dict.fromkeys((*around, *dice.sample(rules_from, dice.randint(3, 14)))))
    state, stream = State(tuple(rules), facts(0.6)), []
    for _ in range(length):
        gone, come = (
            dice.sample(choices, min(dice.choice((0, 0, 1)), len(choices)))
            for choices in (rules, [rule for rule in rules_from if rule not in rules])
        )
        rules = [rule for rule in rules if rule not in gone] + come
        stream.append(Update(facts(0.4), facts(0.4), tuple(come), tuple(gone)))
    return state, stream


def with_equality(seed: int, length: int = 4) -> tuple[State, list[Update]]:
    """The same with an equality in the recursion. Each update must be tried: some programs have none."""
    dice = random.Random(f"equality {seed}")
    state, stream = recursions(seed, length)
    declared = [
        Rule(Atom(EQUALITY), tuple(map(Atom, ("same", *dice.sample("efgpqsl", dice.randint(1, 5)))))) for _ in range(2)
    ]
    rules = (*state.rules, *dice.sample(EQUAL, dice.randint(2, 4)), declared[0])
    place = dice.randrange(length)
    update = stream[place]
    stream[place] = Update(
        update.add, update.delete, (*update.add_rules, declared[1]), (*update.remove_rules, declared[0])
    )
    return State(rules, state.explicit), stream
