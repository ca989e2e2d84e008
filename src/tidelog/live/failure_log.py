"""Matches that failed because an expression had no value, in updates and in questions: counted, or refused."""

from __future__ import annotations

from tidelog.engine.update.failures import NO_FAILURES, Failures
from tidelog.errors import EvaluationError
from tidelog.facts.arguments import check_on_error

_ON_ERROR_HINT = 'mend the function, or test its arguments in the rule; `on_error="count"` would leave these out'


class FailureLog:
    """All failures so far. `on_error` is what the user wants done with them: `count` or `raise`."""

    def __init__(self, on_error: str) -> None:
        check_on_error(on_error)
        self.on_error = on_error
        self.seen = NO_FAILURES

    def note(self, failures: Failures) -> None:
        """Count what failed in a question, or refuse it."""
        self.seen += failures
        self.refuse(failures)

    def refuse(self, failures: Failures) -> None:
        """Raise where rule instances failed, if the user wants it so."""
        if failures and self.on_error == "raise":
            first = "\n".join(f"  {failure}" for failure in failures.first)
            raise EvaluationError(f"{failures.summary()}\n{first}\nhint: {_ON_ERROR_HINT}", failures)
