"""Which modules somebody has added, and which of them take part in the recursion of a component.

A plug-in takes part where all the rules that it declares are there, derive predicates of one component, and none of
these keeps best values. Otherwise plain rules do its work, as they do after it has met facts that it cannot take.
The predicates of the recursion that its rules mention are kept as facts, not as closures.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tidelog.engine.modules.plugin import FUNCTIONS, Module
from tidelog.errors import ModuleError
from tidelog.language.syntax import Aggregate, Negation, Rule, body_atoms, rule_key
from tidelog.program.graph import Component, RuleGraph

PLUGIN = "#module"  # no predicate has such a name


@dataclass(frozen=True, slots=True, eq=False)
class Plugin:
    """A module as it was added, with the rules that it declares."""

    name: str  # among the modules of the engine
    module: Module
    title: str  # in messages
    rules: tuple[Rule, ...]
    shown: Mapping[str, str]  # the names by which it knows its predicates

    @property
    def heads(self) -> tuple[str, ...]:
        """The predicates that it derives."""
        return tuple(dict.fromkeys(rule.head.predicate for rule in self.rules))

    @property
    def arities(self) -> dict[str, int]:
        """The predicates that its rules mention, heads first."""
        atoms = (*(rule.head for rule in self.rules), *(atom for rule in self.rules for atom in body_atoms(rule)))
        return {atom.predicate: atom.arity for atom in atoms}


@dataclass(frozen=True, slots=True)
class Part:
    """A plug-in that takes part in the recursion of a component, for the rules of these numbers."""

    plugin: Plugin
    rules: frozenset[int]


NO_PARTS: tuple[Part, ...] = ()


def check_module(module: object) -> str:
    """Refuse what is no module; the text of its rules."""
    text = getattr(module, "rules", None)
    if not isinstance(text, str):
        raise ModuleError(f"{module!r:.60} is no module: it has no `rules`, the text of the rules that it stands for")
    for name in FUNCTIONS:
        if not callable(getattr(module, name, None)):
            raise ModuleError(f"{_title(module)} has no function `{name}`; a module has {', '.join(FUNCTIONS)}")
    return text


def check_rules(rules: Iterable[Rule], render: Callable[[Rule], str]) -> tuple[Rule, ...]:
    """Refuse rules that a module cannot stand for."""
    found = tuple(rules)
    if not found:
        raise ModuleError("the module declares no rules")
    for rule in found:
        if any(isinstance(term, Aggregate) for term in rule.head.arguments):
            raise ModuleError(f"a module cannot stand for a rule with an aggregate: `{render(rule)}`")
        if any(isinstance(item, Negation) for item in rule.body):
            raise ModuleError(f"a module cannot stand for a rule with negation: `{render(rule)}`")
        if rule.head.arity == 0 or rule.is_constraint:
            raise ModuleError(f"a module cannot stand for a rule whose head has no arguments: `{render(rule)}`")
    return found


def _title(module: object) -> str:
    return type(module).__name__


class Plugins:
    """The plug-ins of an engine, and which of them the update in work has given up."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._plugins: dict[str, Plugin] = {}
        self._unfit: set[str] = set()
        self._given_up: list[str] = []  # in the update in work
        self._parts: dict[str, tuple[Component, tuple[Part, ...]]] = {}  # by the first predicate of a component
        self._next = 1

    def __contains__(self, name: str) -> bool:
        return name in self._plugins

    def declare(
        self, module: Module, rules: tuple[Rule, ...], shown: Mapping[str, str], render: Callable[[Rule], str]
    ) -> Plugin:
        """Take in a module, whose rules have been checked."""
        plugin = Plugin(f"{PLUGIN} {self._next}", module, _title(module), rules, shown)
        taken = {rule_key(rule): other for other in self._plugins.values() for rule in other.rules}
        for rule in rules:
            other = taken.get(rule_key(rule))
            if other is not None:
                raise ModuleError(f"{other.title} stands for `{render(rule)}` already")
        self._next += 1
        self._plugins[plugin.name] = plugin
        self._parts.clear()
        return plugin

    def withdraw(self, plugin: Plugin) -> None:
        """Forget a module."""
        del self._plugins[plugin.name]
        self._unfit.discard(plugin.name)
        self._parts.clear()

    # --- which take part ----------------------------------------------------------------------------------------------

    def of(self, component: Component, graph: RuleGraph) -> tuple[Part, ...]:
        """The plug-ins that take part in a component. Under an equality none does: rows then stand for more facts than
        a plug-in is given.
        """
        if not self._plugins or not self._enabled or graph.equality is not None:
            return NO_PARTS
        first = component.predicates[0]
        known = self._parts.get(first)
        if known is None or known[0] is not component:
            known = self._parts[first] = component, tuple(self._found_in(component, graph))
        return known[1]

    def _found_in(self, component: Component, graph: RuleGraph) -> Iterator[Part]:
        if component.lattices:
            return
        numbers: dict[Hashable, list[int]] = {}
        for number in component.rules:
            numbers.setdefault(rule_key(graph.rule(number)), []).append(number)
        for plugin in self._plugins.values():
            keys = [rule_key(rule) for rule in plugin.rules]
            if plugin.name not in self._unfit and all(key in numbers for key in keys):
                yield Part(plugin, frozenset(number for key in keys for number in numbers[key]))

    def mentioned(self, component: Component, graph: RuleGraph) -> set[str]:
        """The predicates that plug-ins of a component derive or read."""
        return {name for part in self.of(component, graph) for name in part.plugin.arities}

    # --- an update ----------------------------------------------------------------------------------------------------

    def give_up(self, name: str) -> Plugin:
        """A plug-in has met facts that it cannot take: it takes no part any more, unless the update fails."""
        self._unfit.add(name)
        self._given_up.append(name)
        self._parts.clear()
        return self._plugins[name]

    @contextmanager
    def apart(self) -> Iterator[None]:
        """For an update that overtakes the one in work: what it gives up is put back without that."""
        outer, self._given_up = self._given_up, []
        try:
            yield
        finally:
            self._given_up = outer

    def commit(self) -> None:
        self._given_up.clear()

    def roll_back(self) -> None:
        if self._given_up:
            self._unfit.difference_update(self._given_up)
            self._given_up.clear()
            self._parts.clear()
