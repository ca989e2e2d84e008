"""tidelog: a Datalog engine whose conclusions stay true while facts and rules change."""

from tidelog.errors import (
    ArityError,
    DataError,
    LimitError,
    ParseError,
    StorageError,
    StratificationError,
    TidelogError,
    UnknownRuleError,
    UnsafeRuleError,
)
from tidelog.values import IRI, Literal

__all__ = [
    "IRI",
    "ArityError",
    "DataError",
    "LimitError",
    "Literal",
    "ParseError",
    "StorageError",
    "StratificationError",
    "TidelogError",
    "UnknownRuleError",
    "UnsafeRuleError",
]
