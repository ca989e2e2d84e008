"""The errors and warnings of tidelog. All errors derive from `TidelogError`; each message says where, what, and what to
do.
"""

from __future__ import annotations

import contextvars
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any


class Mistake(NamedTuple):
    """What is wrong at a place of a text, and what to do about it; line and column count from 1.

    Examples:
        >>> try:
        ...     tidelog.KnowledgeBase("path(X, Z) :- edge(X, Y).")
        ... except tidelog.UnsafeRuleError as error:
        ...     print(error.mistake.line)
        1
    """

    line: int
    column: int
    what: str
    hint: str


class TidelogError(Exception):
    """The base class of all errors of tidelog. One about a statement knows the `mistake`, so that whoever has the text
    can show the line.

    Examples:
        >>> try:
        ...     tidelog.KnowledgeBase("path(X, Y) :- edge(X).")
        ... except tidelog.TidelogError as error:
        ...     print(type(error).__name__)
        UnsafeRuleError
    """

    mistake: Mistake | None = None

    # Whether the message may name predicates that whoever asked has not named.
    names_others = False

    def __reduce__(self) -> tuple[Any, ...]:
        """How errors come from other processes: with all that they know, whatever their constructors ask for."""
        return _remade, (type(self), self.args), self.__dict__


def _remade(kind: type[TidelogError], arguments: tuple[Any, ...]) -> TidelogError:
    error = kind.__new__(kind, *arguments)
    super(TidelogError, error).__init__(*arguments)
    return error


class ParseError(TidelogError):
    """A text that is not a program. `line` and `column` count from 1; the message shows the line and a hint.

    `unfinished` means that the text is correct as far as it goes, but stops in the middle of a statement.

    Examples:
        >>> try:
        ...     tidelog.KnowledgeBase("edge(a, b")
        ... except tidelog.ParseError as error:
        ...     print(error.line, error.column)
        1 10
    """

    unfinished = False

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class ModuleError(TidelogError):
    """A module that cannot be added, or whose functions do not do what they have to. `definition` is the number of the
    definition of *Modular Materialisation* that it breaks, where that is known.

    Examples:
        >>> try:
        ...     tidelog.KnowledgeBase().add_module("no module")
        ... except tidelog.ModuleError as error:
        ...     print(error)
        'no module' is no module: it has no `rules`, the text of the rules that it stands for
    """

    def __init__(self, message: str, definition: int | None = None) -> None:
        super().__init__(message)
        self.definition = definition


class UnfitError(TidelogError):
    """What a module raises where its algorithm cannot take the facts: plain rules take its place from then on.

    Examples:
        >>> class Small:
        ...     rules = "copy(X) :- original(X)."
        ...     def difference(self, facts, changed):
        ...         if facts.count("original") > 1:
        ...             raise tidelog.UnfitError("too many")
        ...         return {"copy": changed["original"]}
        ...     def delete(self, facts, gone, safe): return {}
        ...     def rederive(self, left, gone): return {}
        ...     def add(self, facts, new): return {}
        >>> kb = tidelog.KnowledgeBase(Small.rules)
        >>> kb.add_module(Small())
        >>> kb.update(add={"original": [(1,), (2,)]})
        <Change: + original: 2, + copy: 2>
    """


class UnsafeRuleError(TidelogError):
    """A variable of the head, a comparison or an expression that nothing binds.

    Examples:
        >>> try:
        ...     tidelog.KnowledgeBase("path(X, Z) :- edge(X, Y).")
        ... except tidelog.UnsafeRuleError as error:
        ...     print("Z" in str(error))
        True
    """


class ConversionError(TidelogError):
    """A statement that another syntax cannot say; the message gives its place and what it is.

    Examples:
        >>> from tidelog.language import convert, parse_program
        >>> try:
        ...     convert(parse_program("p(X) :- q(X), not r(X, _)."), "zodiac")
        ... except tidelog.ConversionError as error:
        ...     print(type(error).__name__)
        ConversionError
    """


class StratificationError(TidelogError):
    """Negation or aggregation through recursion; the message spells out the cycle rule by rule.

    Examples:
        >>> try:
        ...     tidelog.KnowledgeBase("p(X) :- q(X), not p(X).")
        ... except tidelog.StratificationError as error:
        ...     print(type(error).__name__)
        StratificationError
    """


class ArityError(TidelogError):
    """A predicate used with two different numbers of arguments, or a row of the wrong length.

    Examples:
        >>> kb = tidelog.KnowledgeBase("edge(a, b).")
        >>> try:
        ...     kb.update(add={"edge": [("a", "b", "c")]})
        ... except tidelog.ArityError as error:
        ...     print(type(error).__name__)
        ArityError
    """


class UnknownRuleError(TidelogError):
    """A rule to remove that is not in the program.

    Examples:
        >>> try:
        ...     tidelog.KnowledgeBase().remove_rules("p(X) :- q(X).")
        ... except tidelog.UnknownRuleError as error:
        ...     print(type(error).__name__)
        UnknownRuleError
    """


class EvaluationError(TidelogError):
    """Rule instances that failed because an expression had no value, where `on_error="raise"` refuses them. `failures`
    counts them, and holds the first ones.

    Examples:
        >>> kb = tidelog.KnowledgeBase("part(X, 1 / N) :- share(X, N).", on_error="raise")
        >>> try:
        ...     kb.update(add={"share": [("a", 0)]})
        ... except tidelog.EvaluationError as error:
        ...     print(int(error.failures))
        1
    """

    def __init__(self, message: str, failures: int) -> None:
        super().__init__(message)
        self.failures = failures


class LatticeError(TidelogError):
    """The functions of a lattice of your own are none of a lattice, or fail within a recursion.

    Examples:
        >>> kb = tidelog.KnowledgeBase("reading(hall, 3).  reading(hall, 4).")
        >>> kb.register_lattice("total", lambda a, b: a + b)
        >>> try:
        ...     kb.add_rules("sum(R, total(V)) :- reading(R, V).")
        ... except tidelog.LatticeError as error:
        ...     print(str(error).partition(":")[0])
        the join of the lattice `total` is not above what it joins
    """


class LimitError(TidelogError):
    """`max_facts` or `timeout` was exceeded, and the message names the rule that ran away; or there are more facts of a
    predicate, or more constants, than 32-bit numbers can count. `limit` is which limit it was: `max_facts`, `timeout`,
    `max_matches`, or `capacity` for what no option allows more of.

    Examples:
        >>> kb = tidelog.KnowledgeBase("n(X + 1) :- n(X).", max_facts=1000)
        >>> try:
        ...     kb.update(add={"n": [(0,)]})
        ... except tidelog.LimitError as error:
        ...     print(error.limit, "n(X + 1) :- n(X)." in str(error))
        max_facts True
    """

    names_others = True

    def __init__(self, message: str, limit: str = "capacity") -> None:
        super().__init__(message)
        self.limit = limit


class DataError(TidelogError):
    """Facts that cannot be read: a malformed file or row, a value of a type that facts cannot hold.

    Examples:
        >>> try:
        ...     tidelog.KnowledgeBase().update(add={"edge": [("a", None)]})
        ... except tidelog.DataError as error:
        ...     print(type(error).__name__)
        DataError
    """


class StorageError(TidelogError):
    """A saved knowledge base that cannot be read, written or locked.

    Examples:
        >>> try:
        ...     tidelog.KnowledgeBase.open("nowhere")
        ... except tidelog.StorageError as error:
        ...     print(type(error).__name__)
        StorageError
    """


class ServerError(TidelogError):
    """A server that cannot be reached, or that refuses something. `problem` is its problem document, which is empty
    where it gave none.

    Examples:
        >>> tidelog.ServerError("no", {"status": 403}).problem["status"]
        403
    """

    def __init__(self, message: str, problem: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.problem = dict(problem)


class MissingPackageError(TidelogError, ImportError):
    """Something needs a package that is not installed; the message names the extra of tidelog that brings it.

    Examples:
        >>> issubclass(tidelog.MissingPackageError, tidelog.TidelogError)
        True
    """


class CompilationError(TidelogError):
    """Kernels that have to be compiled on this machine, and cannot be; the message says what is missing.

    Examples:
        >>> issubclass(tidelog.CompilationError, tidelog.TidelogError)
        True
    """


class BrokenError(TidelogError):
    """Memory ran out even while a failed update was rolled back: the knowledge base can no longer be used.

    Examples:
        >>> issubclass(tidelog.BrokenError, tidelog.TidelogError)
        True
    """


class ConstraintError(TidelogError):
    """An update that would violate a constraint; nothing of it has been applied. `violations` are proofs, one for each
    match of a constraint that was looked at.

    Examples:
        >>> kb = tidelog.KnowledgeBase(":- may(X, write), suspended(X).  suspended(ann).")
        >>> try:
        ...     kb.update(add={"may": [("ann", "write")]})
        ... except tidelog.ConstraintError as error:
        ...     print(error.violations[0].fact)
        :- may(ann, write), suspended(ann)
    """

    def __init__(self, message: str, violations: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.violations = tuple(violations)


class CrossProductWarning(UserWarning):
    """A rule with atoms that share no variable, directly or through others.

    Examples:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as found:
        ...     warnings.simplefilter("always")
        ...     kb = tidelog.KnowledgeBase("pair(X, Y) :- left(X), right(Y).")
        >>> found[0].category.__name__
        'CrossProductWarning'
    """


class UnknownPredicateWarning(UserWarning):
    """A question about a predicate that no fact, no rule and no declaration mentions.

    Examples:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as found:
        ...     warnings.simplefilter("always")
        ...     facts = tidelog.KnowledgeBase("edge(a, b).").facts("egde")
        >>> found[0].category.__name__
        'UnknownPredicateWarning'
    """


class SubscriptionWarning(UserWarning):
    """A subscription has ended because of an error, which is its `error` from then on.

    Examples:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as found:
        ...     warnings.simplefilter("always")
        ...     subscription = tidelog.KnowledgeBase("edge(a, b).").subscribe("edge(a, X)", lambda change: 1 / 0)
        >>> found[0].category.__name__, subscription.error, subscription.closed
        ('SubscriptionWarning', ZeroDivisionError('division by zero'), True)
    """


class StorageWarning(UserWarning):
    """Something that the user of a saved knowledge base should know, although it could be opened.

    Examples:
        >>> import warnings
        >>> kb = tidelog.KnowledgeBase()
        >>> kb.register("twice", lambda number: 2 * number)
        >>> _ = kb.add_rules("double(X, Y) :- n(X), Y = twice(X).")
        >>> kb.save("with_a_function")
        >>> with warnings.catch_warnings(record=True) as found:
        ...     warnings.simplefilter("always")
        ...     kb = tidelog.KnowledgeBase.open("with_a_function")
        >>> found[0].category.__name__, kb.missing_functions
        ('StorageWarning', ['twice'])
    """


_collected: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar("collected", default=None)


@contextmanager
def warnings_collected() -> Iterator[list[str]]:
    """Within, this thread's warnings are put into a list, for whoever has asked from elsewhere."""
    found: list[str] = []
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line that called tidelog, however many of our own functions are in between."""
    collected = _collected.get()
    if collected is not None:
        collected.append(message)
        return
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "tidelog":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
