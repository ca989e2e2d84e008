"""What expires: facts of a predicate by `@expire`, and those of windows; and what a program must not ask of time.

The time of a knowledge base, what expires and when facts came in are explicit facts of hidden predicates. So they are
saved, written to the journal, rolled back and followed by readers like all others, and the engine knows nothing of
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tidelog.errors import DataError, ParseError, StorageError
from tidelog.language.names import AUXILIARY, bracketed
from tidelog.language.parse_messages import mistake
from tidelog.language.printer import render
from tidelog.language.syntax import Expiry, Rule
from tidelog.language.written.windows import Age, age_of, windows_in
from tidelog.moments import microseconds
from tidelog.program.equality import equality_of
from tidelog.values import Literal, Value

_TIME = f"{AUXILIARY}time-"
NOW = bracketed(f"{_TIME}now/")
"""The time, in microseconds since 1970."""
EXPIRES = bracketed(f"{_TIME}expires/")
"""What expires: a predicate, the age as it is written, the place of the argument that it is counted from (from 1 on, 0
for none), and the number of arguments (0 where nobody said it).
"""

_NOT_GIVEN = "a window is over a predicate whose facts are given; write the window in the rules that derive this one"
_NOT_EQUAL = "leave the predicate out of the equality, or the window out of the rule"
_TWICE = "remove the one before by `remove_rules`, in the same update or an earlier one"


class Lifetime(NamedTuple):
    """Facts of `holder`, which is `given` or a window of it, go when they are so old, in microseconds: counted from an
    argument, or from when they came in.
    """

    holder: str
    given: str
    length: int
    argument: int | None

    @property
    def ends_facts(self) -> bool:
        """Whether facts go, and not only from a window."""
        return self.holder == self.given


def arrived(predicate: str) -> str:
    """The hidden predicate of when facts of a predicate came in: its arguments, and the time."""
    return bracketed(f"{_TIME}arrived/{predicate}")


def is_of_time(predicate: str) -> bool:
    """Whether a predicate holds what is known of time."""
    return predicate.startswith(f"<{_TIME}")


def has_windows(rules: Iterable[Rule]) -> bool:
    return any(windows_in(rule.body) for rule in rules)


def lifetimes_of(expiries: Iterable[Expiry], rules: Iterable[Rule]) -> dict[str, list[Lifetime]]:
    """All lifetimes, by the predicate whose facts are given."""
    found = {each.predicate: [Lifetime(each.predicate, *_measures(each))] for each in expiries}
    windows = {atom.predicate: window for rule in rules for atom, window in windows_in(rule.body)}
    for holder, window in windows.items():
        lifetime = Lifetime(holder, window.predicate, window.length, window.argument)
        found.setdefault(window.predicate, []).append(lifetime)
    return found


def _measures(expiry: Expiry) -> tuple[str, int, int | None]:
    return expiry.predicate, expiry.length, expiry.argument


def row_of(expiry: Expiry) -> tuple[object, ...]:
    """The fact that says what expires."""
    place = 0 if expiry.argument is None else expiry.argument + 1
    return expiry.predicate, expiry.written, place, expiry.arity or 0


def expiry_of(predicate: object, written: object, place: object, arity: object) -> Expiry:
    """What such a fact says."""
    age = age_of(str(written))
    if isinstance(age, Age) and type(place) is int and type(arity) is int and 0 <= place <= max(arity, 0):
        return Expiry(str(predicate), age.written, age.length, place - 1 if place else None, arity or None)
    raise StorageError(f"nothing expires by {(predicate, written, place, arity)!r:.80}")


def time_in(value: object) -> int:
    """The time that a hidden fact holds."""
    if type(value) is int:
        return value
    raise StorageError(f"{value!r:.60} is no time")


def check_expiries(before: Mapping[str, Expiry], gone: Iterable[Expiry], come: Iterable[Expiry]) -> dict[str, Expiry]:
    """What expires after an update, by predicate."""
    after = dict(before)
    for expiry in gone:
        if after.pop(expiry.predicate, None) != expiry:
            hint = "`kb.expiries` lists what expires"
            raise mistake(ParseError, expiry.place, "nothing expires in this way", render(expiry), hint)
    for expiry in come:
        known = after.setdefault(expiry.predicate, expiry)
        if known != expiry:
            what = f"the facts of this predicate expire already: `{render(known)}`"
            raise mistake(ParseError, expiry.place, what, render(expiry), _TWICE)
    return after


def check_windows(rules: Iterable[Rule]) -> None:
    """Refuse windows over derived predicates, and over those that get facts by an equality: nobody says when these came
    in.
    """
    known = list(rules)
    heads, equality = {rule.head.predicate: rule for rule in known}, equality_of(known)
    for rule in known:
        for atom, window in windows_in(rule.body):
            if window.predicate in heads:
                what = f"`{render(atom)}` is a window over a derived predicate: `{render(heads[window.predicate])}`"
                raise mistake(ParseError, atom.place, what, render(rule), _NOT_GIVEN)
            if equality is not None and equality.applies_to(window.predicate):
                what = f"`{render(atom)}` is a window over a predicate that `{render(equality.written)}` applies to"
                raise mistake(ParseError, atom.place, what, render(rule), _NOT_EQUAL)


def times_of(values: Iterable[Value], lifetime: Lifetime, name: str) -> Iterator[int]:
    """The times that values of an argument stand for, in microseconds."""
    for value in values:
        time = microseconds(value.value if isinstance(value, Literal) else value)
        if time is None:
            assert lifetime.argument is not None
            raise DataError(
                f"the age of `{name}` is counted from argument {lifetime.argument + 1}, and {value!r:.60} is no time; "
                "give a date and time, or a number of seconds"
            )
        yield time
