"""Random programs with `min` and `max` in a recursion, for streams of updates of facts and rules.

Values are kept between two bounds, so that nothing grows without end, whatever the signs of weights. Any subset of the
rules of a case is a program: without its recursive `min`, a predicate is an ordinary one.
"""

from __future__ import annotations

from generate import Case, Source
from naive import State, database, normal
from tidelog.language import parse_program
from tidelog.language.syntax import Atom, Constant, Rule
from tidelog.values import IRI, Value

# How a value may become another one. `BETTER` keeps it between bounds, also where a rule has no aggregate.
STEPS = ("D + W", "D", "D - W", "max2(D, W)", "min2(D, W)", "D + 1", "D * 2", "floor(D / 2)", "W", "3 - (W - D)")
TESTS = {"min": ("D < 3", "D <= 2", "W > D", "D + W < 4"), "max": ("D > 0", "D >= 1", "W < D", "D + W > 1")}
BETTER = {"min": "max2(min2({}, 6), -4)", "max": "min2(max2({}, -4), 6)"}
NODES: tuple[Value, ...] = ("a", "b", "c", "d", 1, 2)
LABELS: tuple[Value, ...] = (0, 1, 2, 3, 2.0, 1.5, "a", "b", IRI("http://example.org/a"))


class BestMaker:
    """Makes the rules of one case."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.functions = {name: source.pick(("min", "max")) for name in ("p", "q", "r", "h")}
        if source.chance(50):
            self.functions["q"] = self.functions["p"]

    def rules(self) -> list[Rule]:
        texts = [
            text
            for make in (self.values, self.pairs, self.witnesses, self.labels, self.booleans, self.readers)
            for text in (make() if make in (self.values, self.readers) or self.source.chance(35) else [])
        ]
        return list({normal(rule): rule for rule in parse_program("\n".join(texts)).rules}.values())

    def values(self) -> list[str]:
        """`p` and `q` hand values to each other; `near` reads them within the recursion."""
        found = [self.base(name) for name in ("p", "q") for _ in range(self.source.between(1, 2))]
        for _ in range(self.source.between(2, 5)):
            head = self.source.pick(("p", "p", "q"))
            found.append(self.step(head))
        if self.source.chance(40):
            test = self.source.pick(TESTS[self.functions["p"]][:2])
            found.append(f"near(X) :- p(X, D), {test}.")
            found.append(f"p(Y, {self.functions['p']}(W)) :- near(X), e(X, Y, W).")
        return found

    def base(self, name: str) -> str:
        value = self.source.pick((f"{self.functions[name]}(V)", "V", f"{self.functions[name]}(V + 1)"))
        return f"{name}(X, {value}) :- s(X, V)."

    def step(self, head: str) -> str:
        function = self.functions[head]
        others = [name for name in ("p", "q") if self.functions[name] == function]
        read = self.source.pick(others)
        value = BETTER[function].format(self.source.pick(STEPS))
        # A plain rule passes a value on within its own predicate: any other one might have to keep it, too.
        if read != head or self.source.chance(70):
            value = f"{function}({value})"
        body = [f"{read}(X, D)", "e(X, Y, W)"]
        if self.source.chance(25):
            body.append(self.source.pick(TESTS[function]))
        if self.source.chance(15):
            body.append("not b(Y)")
        if self.source.chance(15):
            body.append(f"{self.source.pick(others)}(Y, _)")
        if self.source.chance(15):
            body.reverse()
        return f"{head}(Y, {value}) :- {', '.join(body)}."

    def pairs(self) -> list[str]:
        """Groups of two columns, and a rule that reads the recursion twice."""
        function = self.functions["r"]
        joined = BETTER[function].format(self.source.pick(("A + B", "max2(A, B)", "min2(A, B)", "A")))
        step = BETTER[function].format("A + W")
        return [
            f"r(X, Y, {function}(W)) :- e(X, Y, W).",
            self.source.pick((
                f"r(X, Z, {function}({joined})) :- r(X, Y, A), r(Y, Z, B).",
                f"r(X, Z, {function}({step})) :- r(X, Y, A), e(Y, Z, W).",
            )),
        ]  # fmt: skip

    def witnesses(self) -> list[str]:
        """A value, and where it came from or what it began with. Each step makes it worse, and it has a limit."""
        function = self.functions["h"]
        sign, test = ("+", "E < 9") if function == "min" else ("-", "E > -9")
        beside = self.source.pick(("X", "H"))
        return [
            f"h(X, {function}(V), {function}(V, X)) :- s(X, V).",
            f"h(Y, {function}(E), {function}(E, {beside})) :- h(X, D, H), e(X, Y, W), E = D {sign} 1, {test}, b(Y).",
            f"h(Y, {function}(E), {function}(E, {beside})) :- h(X, D, H), e(X, Y, _), E = D {sign} 2, {test}.",
        ]

    def labels(self) -> list[str]:
        """Components by their least label, which may be of any type."""
        function = self.source.pick(("min", "max"))
        return [
            f"l(X, {function}(V)) :- n(X, V).",
            f"l(Y, {function}(V)) :- l(X, V), e(X, Y, _).",
            "l(Y, V) :- l(X, V), e(Y, X, _).",
        ]

    def booleans(self) -> list[str]:
        best = self.source.pick(("any", "all"))
        value = "true" if best == "any" else "false"
        return [
            f"o(X, {best}({value})) :- b(X).",
            f"o(X, {best}(V)) :- n(X, V).",
            f"o(Y, {best}(V)) :- o(X, V), e(X, Y, _).",
            f"o(Y, {best}({value})) :- o(X, {value}), e(Y, X, 1).",
        ]

    def readers(self) -> list[str]:
        """Rules above the recursion: plain ones, negation and aggregates."""
        return self.source.some(
            [
                "above(X, D) :- p(X, D), not q(X, D).",
                "best(min(D), min(D, X)) :- p(X, D).",
                "number(count(X)) :- p(X, _).",
                "total(sum(D)) :- q(_, D).",
                "linked(X, Y) :- p(X, D), p(Y, D).",
                "linked(X, Z) :- linked(X, Y), linked(Y, Z).",
            ],
            50,
        )


def best_case(source: Source) -> Case:
    """Rules and facts; some facts are explicit values of the recursion's own predicates."""
    rules = BestMaker(source).rules()
    nodes = [Constant(node) for node in NODES[: source.between(3, len(NODES))]]
    arities: dict[str, int] = {}
    for rule in rules:
        for item in (rule.head, *(item for item in rule.body if isinstance(item, Atom))):
            arities[item.predicate] = item.arity
    facts = []

    def add(name: str, count: int, *columns: tuple[Value, ...]) -> None:
        for _ in range(count):
            row = tuple(Constant(source.pick(values)) for values in columns)
            facts.append((name, (source.pick(nodes), *row)))

    ends = tuple(node.value for node in nodes)
    weights: tuple[Value, ...] = (0, 1, 2, 3, 1.5) if source.chance(60) else (-2, -1, 0, 1, 2)
    add("e", source.between(5, 16), ends, weights)
    add("s", source.between(1, 4), (0, 1, 2, 1.0))
    add("n", source.between(1, 4), (*LABELS, True, False) if source.chance(50) else (True, False))
    add("b", source.between(0, 3))
    for name, columns in (("p", ((0, 1, 3),)), ("q", ((0, 2, 2.0),)), ("r", (ends, (0, 1))), ("l", (LABELS,)),
                          ("h", ((0, 1), ends)), ("o", ((True, False),)), ("near", ())):  # fmt: skip
        if arities.get(name) == 1 + len(columns):
            add(name, source.below(3), *columns)
    facts = list(dict.fromkeys(facts))
    state = State(tuple(source.some(rules, 85)), database([Atom(name, row) for name, row in source.some(facts, 65)]))
    return Case(state, tuple(rules), tuple(facts))
