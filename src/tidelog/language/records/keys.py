"""Keys: `@key edge(from, to).` says that no two facts of a predicate agree in these columns and differ in another.

It is short for a constraint, `:- edge(From, To, Weight), edge(From, To, OtherWeight), Weight != OtherWeight.`, and
is kept, printed and removed as that. So it holds for explicit facts and for derived ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tidelog.language.checks import Spellings
from tidelog.language.names import is_variable_name
from tidelog.language.parse_messages import Source
from tidelog.language.syntax import (
    CONSTRAINT,
    Atom,
    Column,
    Comparison,
    Disjunction,
    Place,
    Rule,
    Signature,
    Variable,
    WrittenItem,
)


def constraint_of_key(key: Signature, declared: Iterable[Signature], source: Source) -> Rule:
    """The constraint that a key is short for. Its predicate has been declared with the names of its columns."""
    place = key.place or Place(1, 1)
    signature = next((each for each in declared if each.predicate == key.predicate and each.columns), None)
    if signature is None:
        hint = f"declare them: `@predicate {key.predicate}(from, to: string).`"
        raise source.error(*place, f"the columns of `{key.predicate}` have no names", hint)
    names = [column.name for column in signature.columns]
    for column in key.columns:
        if column.name not in names:
            close = Spellings(names).closest(column.name)
            hint = f"did you mean `{close}`?" if close else f"the columns are {', '.join(names)}"
            raise source.error(*(column.place or place), f"there is no column `{column.name}`", hint)
    own = {column.name for column in key.columns}
    if len(own) == len(names):
        raise source.error(*place, "a key of all columns says nothing", "leave out the columns that depend on others")
    return _constraint(key.predicate, signature.columns, own, place)


def _constraint(predicate: str, columns: Sequence[Column], own: set[str], place: Place) -> Rule:
    variables = list(_variables(columns))
    first, others = variables[: len(columns)], variables[len(columns) :]
    different = [column.name not in own for column in columns]
    second = [other if differs else one for one, other, differs in zip(first, others, different, strict=True)]
    pairs = [(one, other) for one, other in zip(first, second, strict=True) if one is not other]
    tests = [Comparison("!=", one, other, place) for one, other in pairs]
    differ: WrittenItem = tests[0] if len(tests) == 1 else Disjunction(tuple((test,) for test in tests), place)
    atoms = (Atom(predicate, tuple(first), place), Atom(predicate, tuple(second), place))
    return Rule(Atom(CONSTRAINT), (*atoms, differ), place)  # type: ignore[arg-type]


def _variables(columns: Sequence[Column]) -> Iterator[Variable]:
    """A variable for each column, named after it, and then others for each."""
    taken: set[str] = set()
    for stem in ("", "Other"):
        for number, column in enumerate(columns):
            name = stem + column.name[0].upper() + column.name[1:]
            name = name if is_variable_name(name) and name[0] != "_" else f"{stem}C{number}"
            while name in taken:
                name += "_"
            taken.add(name)
            yield Variable(name)
