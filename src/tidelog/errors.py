"""The errors and warnings of tidelog. All errors derive from `TidelogError`; each message says where, what, and what to
do.
"""

from __future__ import annotations

import sys
import warnings
from typing import NamedTuple


class Mistake(NamedTuple):
    """What is wrong at a place of a text, and what to do about it; line and column count from 1."""

    line: int
    column: int
    what: str
    hint: str


class TidelogError(Exception):
    """The base class of all errors of tidelog. One about a statement knows the `mistake`, so that whoever has the text
    can show the line.
    """

    mistake: Mistake | None = None


class ParseError(TidelogError):
    """A text that is not a program. `line` and `column` count from 1; the message shows the line and a hint.

    `unfinished` means that the text is correct as far as it goes, but stops in the middle of a statement.
    """

    unfinished = False

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class UnsafeRuleError(TidelogError):
    """A variable of the head, a comparison or an expression that nothing binds."""


class ConversionError(TidelogError):
    """A statement that another syntax cannot say; the message gives its place and what it is."""


class StratificationError(TidelogError):
    """Negation or aggregation through recursion; the message spells out the cycle rule by rule."""


class ArityError(TidelogError):
    """A predicate used with two different numbers of arguments, or a row of the wrong length."""


class UnknownRuleError(TidelogError):
    """A rule to remove that is not in the program."""


class EvaluationError(TidelogError):
    """Rule instances that failed because an expression had no value, where `on_error="raise"` refuses them. `failures`
    counts them, and holds the first ones.
    """

    def __init__(self, message: str, failures: int) -> None:
        super().__init__(message)
        self.failures = failures


class LimitError(TidelogError):
    """`max_facts` or `timeout` was exceeded, and the message names the rule that ran away; or there are more facts of a
    predicate, or more constants, than 32-bit numbers can count.
    """


class DataError(TidelogError):
    """Facts that cannot be read: a malformed file or row, a value of a type that facts cannot hold."""


class StorageError(TidelogError):
    """A saved knowledge base that cannot be read, written or locked."""


class MissingPackageError(TidelogError, ImportError):
    """Something needs a package that is not installed; the message names the extra of tidelog that brings it."""


class CompilationError(TidelogError):
    """Kernels that have to be compiled on this machine, and cannot be; the message says what is missing."""


class BrokenError(TidelogError):
    """Memory ran out even while a failed update was rolled back: the knowledge base can no longer be used."""


class CrossProductWarning(UserWarning):
    """A rule with atoms that share no variable, directly or through others."""


class UnknownPredicateWarning(UserWarning):
    """A question about a predicate that no fact, no rule and no declaration mentions."""


class StorageWarning(UserWarning):
    """Something that the user of a saved knowledge base should know, although it could be opened."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line that called tidelog, however many of our own functions are in between."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "tidelog":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
