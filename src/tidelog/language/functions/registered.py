"""What Python programs register beside plain functions: lattices, and functions that keep the order of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Lattice:
    """Values with a join: the least value that is above both. `order(one, other)` says whether `other` is above `one`,
    or the same; without it, it is where the join of both is `other`.

    Examples:
        >>> import tidelog
        >>> hull = tidelog.Lattice(lambda one, other: [min(one[0], other[0]), max(one[1], other[1])])
        >>> hull(tidelog.Record(1, 3), tidelog.Record(2, 5))
        [1, 5]
    """

    join: Callable[[Any, Any], Any]
    order: Callable[[Any, Any], Any] | None = None

    def __call__(self, one: Any, other: Any) -> Any:
        """The join of two values."""
        return self.join(one, other)


@dataclass(frozen=True)
class Monotone:
    """A function whose result gets greater, or stays the same, where its arguments do.

    Examples:
        >>> import tidelog
        >>> tidelog.Monotone(abs)(-3)
        3
    """

    function: Callable[..., Any]

    def __call__(self, *arguments: Any) -> Any:
        """The result of the function."""
        return self.function(*arguments)


def is_monotone(functions: Mapping[str, Callable[..., Any]], name: str) -> bool:
    """Whether a registered function is known to keep the order of values; the join of a lattice does."""
    return isinstance(_given(functions, name), Monotone | Lattice)


def lattice_of(functions: Mapping[str, Callable[..., Any]], name: str) -> Lattice | None:
    """The lattice that is registered under a name."""
    found = _given(functions, name)
    return found if isinstance(found, Lattice) else None


def _given(functions: Mapping[str, Callable[..., Any]], name: str) -> object:
    """What has been registered: knowledge bases wrap it."""
    function = functions.get(name)
    return getattr(function, "__wrapped__", function)
