"""The Datalog part of an ontology: its axioms as tables, and the rules that they stand for (Grosof et al., Description
Logic Programs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Ontology:
    """Axioms by their form; names in a text are separated by spaces.

    `subclasses` and `subproperties` list what is below each name. A definition (A, B, R, C) says A ⊒ B ⊓ ∃R.C, where B
    may be empty. `types` gives the domain of a property, `-` for none, and then its range. A property of
    `one_value` has at most one value. An existential (A, R, C) says A ⊑ ∃R.C: the upper bound takes one new constant
    for all of A (Zhou et al. 2013).
    """

    prefix: str = ""
    subclasses: Mapping[str, str] = field(default_factory=dict)
    definitions: Sequence[tuple[str, str, str, str]] = ()
    subproperties: Mapping[str, str] = field(default_factory=dict)
    inverses: Sequence[tuple[str, str]] = ()
    symmetric: str = ""
    transitive: str = ""
    types: Mapping[str, str] = field(default_factory=dict)
    one_value: str = ""
    existentials: Sequence[tuple[str, str, str]] = ()

    def rules(self) -> str:
        """The program, a rule a line."""
        return "".join(f"{rule}\n" for rule in self._rules())

    def _rules(self) -> Iterator[str]:
        yield from self._class_rules()
        yield from self._property_rules()

    def _class_rules(self) -> Iterator[str]:
        for kind, below in self.subclasses.items():
            yield from (f"{self._name(kind)}(X) :- {self._name(each)}(X)." for each in below.split())
        for kind, of, relation, target in self.definitions:
            guard = f"{self._name(of)}(X), " if of else ""
            yield f"{self._name(kind)}(X) :- {guard}{self._name(relation)}(X, Y), {self._name(target)}(Y)."

        for kind, relation, target in self.existentials:
            some = f'"some {target}"'
            yield f"{self._name(relation)}(X, {some}) :- {self._name(kind)}(X)."
            yield f"{self._name(target)}({some}) :- {self._name(kind)}(X)."

    def _property_rules(self) -> Iterator[str]:
        for relation, below in self.subproperties.items():
            yield from (f"{self._name(relation)}(X, Y) :- {self._name(each)}(X, Y)." for each in below.split())
        for relation, inverse in self.inverses:
            for one, other in ((relation, inverse), (inverse, relation)):
                yield f"{self._name(one)}(X, Y) :- {self._name(other)}(Y, X)."
        for name in map(self._name, self.symmetric.split()):
            yield f"{name}(X, Y) :- {name}(Y, X)."
        for name in map(self._name, self.transitive.split()):
            yield f"{name}(X, Z) :- {name}(X, Y), {name}(Y, Z)."
        for relation, types in self.types.items():
            domain, *ranges = types.split()
            if domain != "-":
                yield f"{self._name(domain)}(X) :- {self._name(relation)}(X, Y)."
            yield from (f"{self._name(kind)}(Y) :- {self._name(relation)}(X, Y)." for kind in ranges)
        for name in map(self._name, self.one_value.split()):
            yield f"{self._name('sameAs')}(Y, Z) :- {name}(X, Y), {name}(X, Z)."

    def _name(self, name: str) -> str:
        return self.prefix + name
