"""`check_module`: a module held against Definitions 3, 5, 6 and 7 of Modular Materialisation, on random inputs.

The inputs are those that Algorithms 2 and 3 give to modules. I, without what is new, is closed under the rules; what
was overdeleted earlier is so with all that follows from it. What the definitions want is found from all rule instances,
by plain sets. The smallest input on which a module fails is found by leaving out facts one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from tidelog.api.knowledge_base import KnowledgeBase
from tidelog.engine.modules.plugin import FUNCTIONS, Dataset, Module, derived_rows
from tidelog.engine.modules.plugin_registry import check_module as check_functions
from tidelog.engine.modules.plugin_registry import check_rules
from tidelog.errors import ModuleError, UnfitError
from tidelog.facts.rule_instances import read_state
from tidelog.language import parse_rules
from tidelog.language.syntax import Atom, Constant, Rule, body_atoms
from tidelog.machine import registers as M
from tidelog.papers.instances import Fact, Instance
from tidelog.values import Value

Rows = Mapping[str, Iterable[Sequence[Value]]]
Facts = frozenset[Fact]
NONE: Facts = frozenset()

# Random facts have these values, so many of them for each predicate at most.
VALUES, MOST_FACTS = range(5), 5


@dataclass(frozen=True, slots=True)
class Case:
    """What an input is made from: facts that hold with all that follows, and those that the definition is about."""

    base: Facts
    chosen: Facts
    earlier: Facts = NONE  # those that were overdeleted before
    safe: Facts = NONE

    def smaller(self) -> Iterator[Case]:
        """The same with one fact less."""
        for field in ("base", "chosen", "earlier", "safe"):
            facts = getattr(self, field)
            yield from (replace(self, **{field: facts - {fact}}) for fact in sorted(facts, key=str))


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a function: its datasets by the names of its parameters, and the least and most it may return."""

    given: Mapping[str, Facts]
    least: Facts
    most: Facts


class Instances:
    """The rule instances that facts have, with all that follows from them."""

    def __init__(self, rules: str, facts: Facts) -> None:
        self.kb = KnowledgeBase(rules, modules=False)
        rows: dict[str, list[tuple[Value, ...]]] = {}
        for fact in facts:
            rows.setdefault(fact.predicate, []).append(_values(fact))
        self.kb.update(add=rows)
        self._all: list[Instance] = [each for found in read_state(self.kb._engine).instances.values() for each in found]

    def heads(self, facts: Facts, delta: Facts | None = None) -> Facts:
        """Π[facts : delta], or Π[facts]."""
        return frozenset(
            each.head
            for each in self._all
            if facts.issuperset(each.body) and (delta is None or not delta.isdisjoint(each.body))
        )

    def closed(self, facts: Facts, delta: Facts | None = None) -> Facts:
        """The smallest J such that Π[facts ∪ J : delta ∪ J] ⊆ facts ∪ J."""
        found = NONE
        while more := self.heads(facts | found, None if delta is None else delta | found) - facts - found:
            found |= more
        return found

    def overdeleted(self, facts: Facts, delta: Facts, safe: Facts = NONE) -> Facts:
        """J_u of Definition 6, and J_l where some facts are safe."""
        found = NONE
        while more := self.heads(facts, delta | found) - delta - found - safe:
            found |= more
        return found

    def rederived(self, left: Facts, gone: Facts) -> Facts:
        """The smallest J such that Π[left ∪ J] ∩ gone ⊆ J."""
        found = NONE
        while more := (self.heads(left | found) & gone) - found:
            found |= more
        return found


# --- the definitions --------------------------------------------------------------------------------------------------


def _add(case: Case, instances: Instances, _: frozenset[str]) -> Call:
    """Definition 3."""
    facts = case.base | instances.closed(case.base) | case.chosen
    found = instances.closed(facts, case.chosen)
    return Call({"facts": facts, "new": case.chosen}, found, found)


def _difference(case: Case, instances: Instances, heads: frozenset[str]) -> Call:
    """Definition 5: what changes has no predicate of a head."""
    changed = frozenset(fact for fact in case.chosen if fact.predicate not in heads)
    facts = case.base | instances.closed(case.base) | changed
    found = instances.heads(facts, changed)
    return Call({"facts": facts, "changed": changed}, found, found)


def _delete(case: Case, instances: Instances, heads: frozenset[str]) -> Call:
    """Definition 6, after some facts were overdeleted earlier, which need not be returned once more; none was safe."""
    everything = case.base | instances.closed(case.base)
    earlier = case.earlier & everything
    facts = everything - earlier - instances.overdeleted(everything, earlier)
    gone = case.chosen & facts
    safe = frozenset(fact for fact in case.safe & facts - gone if fact.predicate in heads)
    least, most = instances.overdeleted(facts, gone, safe), instances.overdeleted(facts, gone)
    return Call({"facts": facts, "gone": gone, "safe": safe}, least & facts, most | gone)


def _rederive(case: Case, instances: Instances, _: frozenset[str]) -> Call:
    """Definition 7, after some facts were overdeleted with all that follows."""
    everything = case.base | instances.closed(case.base)
    chosen = case.chosen & everything
    gone = chosen | instances.overdeleted(everything, chosen, case.safe)
    found = instances.rederived(everything - gone, gone)
    return Call({"left": everything - gone, "gone": gone}, found, found)


_CALLS: Mapping[str, Callable[[Case, Instances, frozenset[str]], Call]] = {
    "add": _add,
    "difference": _difference,
    "delete": _delete,
    "rederive": _rederive,
}
_NAMES = {"add": "Add", "difference": "Diff", "delete": "Del", "rederive": "Red"}


# --- the check --------------------------------------------------------------------------------------------------------


def check_module(
    module: Module, facts: Callable[[Random], Rows] | None = None, cases: int = 200, seed: int = 0
) -> dict[int, int]:
    """Hold a module against the definitions of the paper; how many inputs it was tried on, by definition.

    Raises `ModuleError` with the `definition` that it breaks and the smallest input that shows it. `facts` makes random
    facts, where any would not do: for a module that refuses most of them with `UnfitError`.

    Examples:
        >>> from tidelog.testing import check_module
        >>> class Copies:
        ...     rules = "copy(X) :- original(X)."
        ...     def difference(self, facts, changed): return {"copy": changed["original"]}
        ...     def delete(self, facts, gone, safe): return {"copy": gone["original"]}
        ...     def rederive(self, left, gone): return {}
        ...     def add(self, facts, new):
        ...         return {"copy": [new["original"][0][~facts.contains("copy", new["original"])]]}
        >>> try:
        ...     check_module(Copies())
        ... except tidelog.ModuleError as error:
        ...     print(error)
        Copies breaks Definition 7 of Modular Materialisation: `rederive` (Red) has to return copy(0), for
          left: original(0)
          gone: copy(0)
    """
    return _Check(module, facts, Random(seed)).run(cases)


class _Check:
    """One module, tried on random inputs."""

    def __init__(self, module: Module, facts: Callable[[Random], Rows] | None, dice: Random) -> None:
        self._module = module
        self._title = type(module).__name__
        self._text = check_functions(module)
        self._rules: tuple[Rule, ...] = check_rules(parse_rules(self._text, {}), str)
        atoms: list[Atom] = [atom for rule in self._rules for atom in (rule.head, *body_atoms(rule))]
        self._arities = {atom.predicate: atom.arity for atom in atoms}
        self._heads = frozenset(rule.head.predicate for rule in self._rules)
        self._dice = dice
        self._make = facts or self._any_facts

    def run(self, cases: int) -> dict[int, int]:
        tried = dict.fromkeys(FUNCTIONS.values(), 0)
        for place in range(cases):
            case, instances = self._case(1 + place * MOST_FACTS // cases)
            for function, definition in FUNCTIONS.items():
                problem, fit = self._problem(function, case, instances)
                tried[definition] += fit
                if problem:
                    raise self._failure(function, case, instances, problem)
        for function, definition in FUNCTIONS.items():
            if not tried[definition]:
                advice = "pass `facts`, a function that makes facts which it takes"
                raise ModuleError(f"{self._title}: `{function}` took none of {cases} random inputs; {advice}")
        return tried

    # --- inputs ---

    def _case(self, size: int) -> tuple[Case, Instances]:
        """An input, and the rule instances of all of its facts, of which smaller inputs have some."""
        base, other = self._facts(size), self._facts(size)
        instances = Instances(self._text, base | other)
        known = base | instances.closed(base)
        return Case(base, self._some(known | other), self._some(known), self._some(known)), instances

    def _facts(self, size: int) -> Facts:
        rows = [(name, tuple(row)) for name, found in self._make(self._dice).items() for row in found]
        self._dice.shuffle(rows)
        chosen = rows[: size * len(self._arities)]
        return frozenset(Fact(name, tuple(map(Constant, row))) for name, row in chosen)

    def _any_facts(self, dice: Random) -> Rows:
        return {
            name: {tuple(dice.choice(VALUES) for _ in range(arity)) for _ in range(dice.randint(0, MOST_FACTS))}
            for name, arity in self._arities.items()
        }

    def _some(self, facts: Facts) -> Facts:
        share = self._dice.choice((0.1, 0.3, 0.6))
        return frozenset(fact for fact in sorted(facts, key=str) if self._dice.random() < share)

    # --- calls ---

    def _problem(self, function: str, case: Case, instances: Instances) -> tuple[str, bool]:
        """What is wrong with what a function returns, if anything; and whether it takes the input at all."""
        call = _CALLS[function](case, instances, self._heads)
        try:
            found = self._called(function, call, instances)
            again = self._called(function, call, instances)
        except UnfitError:
            return "", False
        except ModuleError as problem:
            return str(problem), True
        except Exception as problem:
            return f"raises {type(problem).__name__}: {problem}", True
        if found != again:
            return "returns something else when it is called again; it must depend on its arguments alone", True
        if missing := call.least - found:
            return f"has to return {_shown(missing)}", True
        if extra := found - call.most:
            return f"must not return {_shown(extra)}", True
        return "", True

    def _called(self, function: str, call: Call, instances: Instances) -> Facts:
        store = instances.kb._engine.store
        datasets = [self._dataset(facts, instances) for facts in call.given.values()]
        heads = {name: arity for name, arity in self._arities.items() if name in self._heads}
        found = getattr(self._module, function)(*datasets)
        rows = derived_rows(found, heads, int(store.machine[M.TERM_COUNT]), function)
        decode = store.terms.table.decode
        return frozenset(
            Fact(name, tuple(Constant(decode(term)) for term in row)) for name in rows for row in rows[name].tolist()
        )

    def _dataset(self, facts: Facts, instances: Instances) -> Dataset:
        terms = instances.kb._engine.store.terms
        by_predicate: dict[str, list[list[int]]] = {name: [] for name in self._arities}
        for fact in sorted(facts, key=str):
            by_predicate[fact.predicate].append(terms.encode_values(_values(fact)).tolist())
        arrays = {
            name: np.array(rows, np.int32).reshape(-1, self._arities[name]) for name, rows in by_predicate.items()
        }
        return Dataset({name: rows.copy for name, rows in arrays.items()}, terms)

    # --- failures ---

    def _failure(self, function: str, case: Case, instances: Instances, problem: str) -> ModuleError:
        case, problem = self._shrunk(function, case, instances, problem)
        call = _CALLS[function](case, instances, self._heads)
        definition = FUNCTIONS[function]
        what = f"{self._title} breaks Definition {definition} of Modular Materialisation: "
        lines = [f"{what}`{function}` ({_NAMES[function]}) {problem}, for"]
        lines += [f"  {name}: {_shown(facts)}" for name, facts in call.given.items()]
        return ModuleError("\n".join(lines), definition)

    def _shrunk(self, function: str, case: Case, instances: Instances, problem: str) -> tuple[Case, str]:
        """The smallest failing input that leaving out facts leads to."""
        while True:
            for smaller in case.smaller():
                found, _ = self._problem(function, smaller, instances)
                if found:
                    case, problem = smaller, found
                    break
            else:
                return case, problem


def _values(fact: Fact) -> tuple[Value, ...]:
    return tuple(cell.value for cell in fact.row if cell is not None)


def _shown(facts: Facts) -> str:
    return ", ".join(sorted(map(str, facts))) or "nothing"
