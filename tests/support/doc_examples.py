"""Runs examples: sessions with prompts and their output, and programs without."""

from __future__ import annotations

import ast
import asyncio
import doctest
import inspect

Names = dict[str, object]


def run_example(code: str, name: str, line: int, names: Names) -> None:
    """Run an example that begins in a line of a file. Names that it makes are in `names` afterwards."""
    (_run_session if ">>>" in code else _run_program)(code, name, line, names)


def _run_session(code: str, name: str, line: int, names: Names) -> None:
    test = doctest.DocTestParser().get_doctest(code, names, name, name, line - 1)
    # `get_doctest` copies the names; examples share them.
    test.globs = names
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    told: list[str] = []
    assert not runner.run(test, out=told.append, clear_globs=False).failed, "".join(told)


def _run_program(code: str, name: str, line: int, names: Names) -> None:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    compiled = compile("\n" * (line - 1) + code, name, "exec", flags, dont_inherit=True)
    result = eval(compiled, names)
    if inspect.iscoroutine(result):
        asyncio.run(result)
