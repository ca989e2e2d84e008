"""The values that facts hold, as Python sees them: `str`, `int`, `float`, `bool`, `IRI` and RDF `Literal`.

Constants of different types are different constants (`1`, `1.0`, `"1"`, `true` are four), while Python
says `1 == 1.0 == True`. Whoever compares values as constants goes through `identity`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

INTEGER_MIN = -(2**63)
INTEGER_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, order=True)
class IRI:
    """An IRI constant; `str()` gives the IRI itself, without angle brackets."""

    value: str

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, order=True)
class Literal:
    """An RDF literal that is no plain string, integer, float or boolean: a language or a datatype of its own."""

    text: str
    datatype: str = ""
    language: str = ""

    def __str__(self) -> str:
        return self.text


Value = str | int | float | bool | IRI | Literal
Row = tuple[Value, ...]


def canonical(value: Value) -> Value:
    """The representative of a value: one zero and one NaN among the floats; all else stays."""
    if type(value) is float:
        if value == 0.0:
            return 0.0
        if math.isnan(value):
            return math.nan
    return value


def identity(value: Value) -> tuple[type, object]:
    """A key that is equal for two values exactly when they are the same constant."""
    if type(value) is float:
        return (float, "nan" if math.isnan(value) else value)
    return (type(value), value)
