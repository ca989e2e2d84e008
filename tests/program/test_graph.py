"""The rule dependency graph: any sequence of updates against a graph built afresh. The paper's own figures are in
`tests/papers`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_util import FIGURE_1, R3, RULE_8, hyper_edges, partition, rules
from tidelog.errors import StratificationError, UnknownRuleError
from tidelog.language.syntax import Aggregate, Atom, Negation, Rule, Variable
from tidelog.program import condensation
from tidelog.program.graph import Impact, RuleGraph

# ── components ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_component_has_the_base_rule_that_is_a_hyper_node_of_its_own() -> None:
    graph = RuleGraph(rules("path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z). far(X) :- path(X, Y)."))
    assert partition(graph) == [(1,), (2,), (3,)]
    path, far = graph.components_in_order()
    assert (path.predicates, path.rules, path.recursive_rules) == (("path",), (1, 2), (2,))
    assert (far.rules, far.recursive) == ((3,), False)
    assert sorted(graph.readers("edge")) == [1, 2]
    assert sorted(graph.producers("path")) == [1, 2]
    assert graph.readers("nothing") == ()


def test_components_in_order_of_what_was_touched() -> None:
    graph = RuleGraph(rules("b(X) :- a(X). c(X) :- b(X). d(X) :- e(X). f(X) :- d(X), c(X)."))
    assert [component.predicates for component in graph.components_in_order({"e"})] == [("d",), ("f",)]
    assert [component.predicates for component in graph.components_in_order({"b"})] == [("b",), ("c",), ("f",)]
    assert graph.components_in_order({"unheard_of"}) == []
    assert graph.component("unheard_of").rules == ()


def test_an_impact_tells_which_rules_became_recursive() -> None:
    graph = RuleGraph(rules("b(X) :- a(X). c(X) :- b(X)."))
    impact = graph.update(rules("b(X) :- c(X)."))
    assert impact.now_recursive == {2}
    assert graph.update(remove=[3]).no_longer_recursive == {2}


def test_predicates_that_no_rule_mentions_any_more_are_forgotten() -> None:
    graph = RuleGraph(rules("b(X) :- a(X). c(X) :- b(X)."))
    graph.update(remove=[1])
    assert sorted(graph.predicates) == ["b", "c"]


def test_numbers_are_never_used_twice() -> None:
    graph = RuleGraph(rules("b(X) :- a(X)."))
    graph.update(remove=[1])
    assert graph.update(rules("b(X) :- a(X).")).added == (2,)
    with pytest.raises(UnknownRuleError, match="no rule number 1"):
        graph.update(remove=[1])


# ── stratification ───────────────────────────────────────────────────────────────────────────────────────────────


def test_negation_through_recursion_is_told_rule_by_rule() -> None:
    graph = RuleGraph(rules("q(X) :- r(X). r(X) :- p(X)."))
    with pytest.raises(StratificationError) as caught:
        graph.update(rules("p(X) :- n(X), not q(X)."))
    assert str(caught.value) == (
        "negation through recursion: p depends on its own negation.\n"
        "The cycle, rule by rule:\n"
        "  p needs not q   in   p(X) :- n(X), not q(X).   (line 1)\n"
        "  q needs r       in   q(X) :- r(X).   (line 1)\n"
        "  r needs p       in   r(X) :- p(X).   (line 1)\n"
        "Break it: leave out one of these rules, or let it read a predicate that does not depend on p."
    )
    assert partition(graph) == [(1,), (2,)]
    assert sorted(graph.predicates) == ["p", "q", "r"]


def test_a_cycle_with_two_negations_is_told_in_the_same_words_each_time() -> None:
    """Sets of objects would have an order of their own in each graph; the graphs are kept so that addresses differ."""
    graphs, messages = [], set()
    for _ in range(60):
        graphs.append(
            RuleGraph(rules("path(X) :- edge(X). path(X) :- path(X), edge(X). far(X) :- path(X), not edge(X)."))
        )
        with pytest.raises(StratificationError) as caught:
            graphs[-1].update(rules("edge(X) :- path(X), not far(X)."))
        messages.add(str(caught.value))
    assert len(messages) == 1


def test_aggregation_through_recursion_is_refused() -> None:
    with pytest.raises(StratificationError, match=r"aggregation through recursion: total depends on an aggregate over"):
        RuleGraph(rules("total(X, sum(N)) :- part(X, Y), total(Y, N)."))


def test_a_refused_update_gives_back_what_it_removed() -> None:
    graph = RuleGraph(rules(FIGURE_1 + RULE_8))
    before = graph.hyper_nodes, hyper_edges(graph), graph.components_in_order()
    with pytest.raises(StratificationError):
        graph.update(add=rules("p0(X, Y) :- p5(X, Y)."), remove=[R3])
    assert (graph.hyper_nodes, hyper_edges(graph), graph.components_in_order()) == before
    assert list(graph.rules) == list(range(1, 9))
    assert graph.update(rules("s(X) :- p7(X, Y).")).added == (9,)


# ── any sequence of updates ──────────────────────────────────────────────────────────────────────────────────────

X = Variable("X")
N = TypeVar("N")
NAMES = [f"p{number}" for number in range(7)]


@st.composite
def some_rules(draw: st.DrawFn) -> Rule:
    body = draw(st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 7)), min_size=1, max_size=3))
    items = tuple(Negation(Atom(name, (X,))) if kind == 0 else Atom(name, (X,)) for name, kind in body)
    head = Aggregate("count", X) if draw(st.integers(0, 9)) == 0 else X
    return Rule(Atom(draw(st.sampled_from(NAMES)), (head,)), items)


updates = st.lists(
    st.tuples(st.lists(some_rules(), max_size=6), st.lists(st.integers(0, 30), max_size=4)), min_size=1, max_size=12
)


def closure(pairs: set[tuple[N, N]]) -> set[tuple[N, N]]:
    reach = set(pairs)
    for middle in {node for pair in pairs for node in pair}:
        into = [a for a, b in reach if b == middle]
        out = [b for a, b in reach if a == middle]
        reach.update((a, b) for a in into for b in out)
    return reach


class Naive:
    """The definitions of §2.1 and §4.2, by brute force over a set of rules."""

    def __init__(self, program: dict[int, Rule]) -> None:
        self.positive: set[tuple[int, int]] = set()
        self.strict: set[tuple[int, int]] = set()
        for source, rule in program.items():
            for target, reader in program.items():
                aggregates = isinstance(reader.head.arguments[0], Aggregate)
                for item in reader.body:
                    negated = isinstance(item, Negation)
                    atom = item.atom if isinstance(item, Negation) else item
                    if isinstance(atom, Atom) and atom.predicate == rule.head.predicate:
                        (self.strict if negated or aggregates else self.positive).add((source, target))
        reach = closure(self.positive | self.strict)
        self.name = {
            rule: min(other for other in program if other == rule or {(rule, other), (other, rule)} <= reach)
            for rule in program
        }
        self.recursive = {rule for rule in program if (rule, rule) in reach}
        self.stratified = all(self.name[a] != self.name[b] for a, b in self.strict)

    def hyper(self, edges: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
        named = {(self.name[a], self.name[b]) for a, b in edges}
        return {(a, b) for a, b in named if a != b}

    def groups(self) -> dict[int, set[int]]:
        return {name: {rule for rule in self.name if self.name[rule] == name} for name in self.name.values()}


def expected_direct(old: Naive, new: Naive, added: set[int]) -> set[int]:
    direct = {new.name[rule] for rule in added}
    for name, members in old.groups().items():
        pieces = {new.name[rule] for rule in members if rule in new.name}
        if any(new.groups()[piece] != members for piece in pieces):
            direct |= pieces
        if len(pieces) != 1:
            successors = {b for a, b in old.positive | old.strict if old.name[a] == name}
            direct |= {new.name[rule] for rule in successors if rule in new.name}
    return direct


def check_equals_naive(graph: RuleGraph, naive: Naive) -> None:
    assert {rule: graph.hyper_node(rule).id for rule in graph.rules} == naive.name
    assert hyper_edges(graph) == (naive.hyper(naive.positive), naive.hyper(naive.strict))
    assert {rule for rule in graph.rules if graph.recursive(rule)} == naive.recursive
    place = {node.id: index for index, node in enumerate(graph.hyper_nodes)}
    assert all(place[a] < place[b] for a, b in naive.hyper(naive.positive | naive.strict))


def check_components(graph: RuleGraph) -> None:
    components = graph.components_in_order()
    bodies = {number: (*graph.reads(number).positive, *graph.reads(number).strict) for number in graph.rules}
    reach = closure({(name, rule.head.predicate) for number, rule in graph.rules.items() for name in bodies[number]})
    mentioned = {name for number, rule in graph.rules.items() for name in (rule.head.predicate, *bodies[number])}
    assert set(graph.predicates) == mentioned
    for name in mentioned:
        mutual = {other for other in mentioned if (name, other) in reach and (other, name) in reach}
        assert set(graph.component(name).predicates) == mutual | {name}
    place = {name: index for index, component in enumerate(components) for name in component.predicates}
    assert sorted(rule for component in components for rule in component.rules) == sorted(graph.rules)
    for component in components:
        for number in component.rules:
            assert graph.rule(number).head.predicate in component.predicates
            reads = graph.reads(number)
            assert (number in component.recursive_rules) == any(n in component.predicates for n in reads.positive)
            for name in (*reads.positive, *reads.strict):
                assert place.get(name, -1) <= place[component.predicates[0]]
                assert name in component.predicates or graph.position(name) < graph.position(component.predicates[0])


def check_impact(impact: Impact, old: Naive, new: Naive) -> None:
    before, after = old.groups(), new.groups()
    assert set(impact.vanished) == {name for name, members in before.items() if not members & new.name.keys()}
    assert set(impact.new) == {name for name, members in after.items() if not members & old.name.keys()}
    for name, members in before.items():
        pieces = tuple(sorted({new.name[rule] for rule in members if rule in new.name}))
        assert impact.split.get(name, pieces) == pieces
        if pieces and (len(pieces) > 1 or not members <= after[pieces[0]]):
            assert name in impact.split
    for name, members in after.items():
        sources = tuple(sorted({old.name[rule] for rule in members if rule in old.name}))
        assert impact.merged.get(name, sources) == sources
        if sources and (len(sources) > 1 or not members <= before[sources[0]]):
            assert name in impact.merged
    assert impact.direct == expected_direct(old, new, set(impact.added))
    stayed = old.name.keys() & new.name.keys()
    assert impact.now_recursive == stayed & (new.recursive - old.recursive)
    assert impact.no_longer_recursive == stayed & (old.recursive - new.recursive)


@pytest.mark.parametrize(
    ("gap", "small_batch"), [(1 << 48, 4), (1 << 48, 0), (1, 0)], ids=["usual", "one by one", "crowded"]
)
@given(steps=updates)
def test_a_maintained_graph_is_one_built_afresh(
    gap: int, small_batch: int, steps: list[tuple[list[Rule], list[int]]]
) -> None:
    """Also where every batch takes the incremental path, and where positions run out all the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(condensation, "_GAP", gap)
        patch.setattr(condensation, "_SMALL_BATCH", small_batch)
        run_updates(steps)


def run_updates(steps: list[tuple[list[Rule], list[int]]]) -> None:
    graph = RuleGraph()
    program: dict[int, Rule] = {}
    for arriving, picks in steps:
        leaving = {sorted(program)[pick % len(program)] for pick in picks} if program else set()
        numbers = iter(range(max([0, *program]) + 1, 1000))
        old = Naive(program)
        kept = {number: rule for number, rule in program.items() if number not in leaving}
        try:
            impact = graph.update(arriving, leaving)
        except StratificationError:
            wanted = kept | dict(zip(numbers, arriving, strict=False))
            assert not Naive(wanted).stratified
            check_equals_naive(graph, old)
            check_components(graph)
            continue
        program = kept | dict(zip(impact.added, arriving, strict=True))
        new = Naive(program)
        assert new.stratified
        assert dict(graph.rules) == program
        check_equals_naive(graph, new)
        check_components(graph)
        check_impact(impact, old, new)


def test_many_rules_on_one_predicate_do_not_multiply() -> None:
    """A thousand producers and a thousand consumers are two thousand arcs, not a million: this ends at once."""
    producers = [Rule(Atom("hub", (X,)), (Atom(f"in{number}", (X,)),)) for number in range(1000)]
    consumers = [Rule(Atom(f"out{number}", (X,)), (Atom("hub", (X,)),)) for number in range(1000)]
    graph = RuleGraph(producers + consumers)
    arcs = sum(len(graph.readers(name)) + len(graph.producers(name)) for name in graph.predicates)
    assert arcs == 4000
    assert len(graph.execution_plan([1])) == 1001


def test_long_chains_do_not_need_the_python_stack() -> None:
    chain = [Rule(Atom(f"p{number + 1}", (X,)), (Atom(f"p{number}", (X,)),)) for number in range(5000)]
    random.Random(1).shuffle(chain)
    graph = RuleGraph(chain)
    assert len(graph.hyper_nodes) == 5000
    graph.update([Rule(Atom("p0", (X,)), (Atom("p5000", (X,)),))])
    assert [len(node.rules) for node in graph.hyper_nodes] == [5001]
    graph.update(remove=[5001])
    assert len(graph.hyper_nodes) == 5000
