"""Time in programs: ages such as `60 s`, and atoms that count young facts alone, `reading(S, V) in last 60 s`.

Such an atom is one of a predicate of its own, the *window*, whose explicit facts are those of the predicate that are
young enough; `live.expiring` keeps them. The name of a window says all of that: the predicate, the age, and the
argument that the age is counted from, if any. So rules with windows are plain rules to everybody else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from tidelog.language.names import AUXILIARY, blank, bracketed, unescape_iri
from tidelog.language.syntax import Atom, BodyItem, Negation, Variable

MICROSECONDS = {"ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
UNITS = ", ".join(f"`{unit}`" for unit in MICROSECONDS)

_AGE = re.compile(r"([0-9]+(?:\.[0-9]+)?)[ \t]*([^\W\d]\w*)?(?:\s+by\s+(\S+))?")
_WINDOW = f"<{AUXILIARY}window-"
_NAME = re.compile(rf"{re.escape(_WINDOW[1:])}([0-9]+)-([0-9]+)/(.+?)(?:\((\x1f.*)\))? in last (\S+ [a-z]+)(?: by .*)?")

# A century, which leaves microseconds since 1970 room in 64 bits.
LONGEST = 100 * 366 * MICROSECONDS["d"]


class Age(NamedTuple):
    """How old facts may become: as it is written, in microseconds, and the name of the argument to count from."""

    written: str
    length: int
    by: str


class Window(NamedTuple):
    """What a window is of: a predicate, how old its facts may become (in microseconds, and as it is written), and the
    place of the argument that this is counted from, or None for when they came in. Both have this many arguments.
    """

    predicate: str
    arity: int
    length: int
    argument: int | None
    written: str


def age_of(text: str) -> Age | str:
    """An age as it is written, or what is wrong with it."""
    found = _AGE.fullmatch(text)
    if found is None or found[2] is None:
        return f"an age is a number and a unit: {UNITS}"
    number, unit, by = found.groups()
    if unit not in MICROSECONDS:
        return f"`{unit}` is no unit of time; there are {UNITS}"
    length = round(float(number) * MICROSECONDS[unit])
    if not 0 < length <= LONGEST:
        return "an age is longer than no time, and shorter than a century"
    return Age(f"{number} {unit}", length, by or "")


def argument_named(atom: Atom, name: str) -> int | None:
    """The place of the first argument that is a variable of this name."""
    named = (place for place, term in enumerate(atom.arguments) if isinstance(term, Variable) and term.name == name)
    return next(named, None)


def windowed(atom: Atom, age: Age, argument: int | None) -> Atom:
    """An atom that counts young facts alone."""
    blanks = ", ".join(map(blank, range(atom.arity)))
    by = "" if argument is None else f" by {blank(argument)}"
    text = f"{atom.predicate}{f'({blanks})' if blanks else ''} in last {age.written}{by}"
    place = 0 if argument is None else argument + 1
    return Atom(bracketed(f"{_WINDOW[1:]}{age.length}-{place}/{text}"), atom.arguments, atom.place)


@lru_cache(maxsize=1000)
def window_of(predicate: str) -> Window | None:
    """What a predicate is a window of, if it is one."""
    found = _NAME.fullmatch(unescape_iri(predicate[1:-1])) if predicate.startswith(_WINDOW) else None
    if found is None:
        return None
    length, place, of, blanks, written = found.groups()
    arity, argument = (blanks or "").count("\x1f"), int(place) - 1
    return Window(of, arity, int(length), None if argument < 0 else argument, written) if argument < arity else None


def window_at(atom: Atom) -> Window | None:
    """The window that an atom asks for, if it asks for one."""
    window = window_of(atom.predicate)
    return window if window is not None and window.arity == atom.arity else None


def given_predicate(predicate: str) -> str:
    """The predicate whose facts an atom asks for: of a window, the one that it is of."""
    window = window_of(predicate)
    return predicate if window is None else window.predicate


def windows_in(body: Iterable[BodyItem]) -> list[tuple[Atom, Window]]:
    """The atoms of a plain body that count young facts alone, negated ones included."""
    atoms = [item.atom if isinstance(item, Negation) else item for item in body]
    return [(atom, found) for atom in atoms if isinstance(atom, Atom) and (found := window_at(atom))]
