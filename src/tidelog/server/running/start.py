"""From the options of `tidelog serve` to a server."""

from __future__ import annotations

import os
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

from tidelog.errors import TidelogError
from tidelog.server.running.process import serve
from tidelog.server.settings import DEFAULT_LISTEN, Limits, Settings
from tidelog.server.tokens import Tokens, read_tokens

DEFAULT_TIMEOUT = 30.0


def run(options: Namespace) -> int:
    """Serve as the options say; the exit code."""
    given = {field.name: getattr(options, field.name, None) for field in fields(Limits)}
    settings = Settings(
        store=Path(options.store),
        program=options.program,
        listen=options.listen or DEFAULT_LISTEN,
        tokens=Tokens() if options.tokens is None else read_tokens(Path(options.tokens)),
        certificate=_path(options.tls_certificate),
        key=_path(options.tls_key),
        insecure=options.insecure,
        json_logs=options.json_logs,
        max_facts=options.max_facts,
        timeout=options.timeout or DEFAULT_TIMEOUT,
        limits=Limits(**{name: value for name, value in given.items() if value is not None}),
        functions={} if options.functions is None else functions_of(options.functions),
    )
    return serve(settings)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _told(problem: Exception) -> str:
    """What went wrong in an import, and where."""
    if isinstance(problem, ImportError | SyntaxError):
        return str(problem)  # which names the module, or the place
    last = traceback.extract_tb(problem.__traceback__)[-1]
    return f"{type(problem).__name__}: {problem} ({last.filename}, line {last.lineno})"


def functions_of(module: str) -> Mapping[str, Callable[..., Any]]:
    """The functions that a module offers to rules: its mapping `functions`. It may lie in the present folder."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = import_module(module)
    except Exception as problem:  # Whatever the module does runs here.
        raise TidelogError(f"cannot import {module}: {_told(problem)}") from problem
    functions = getattr(found, "functions", None)
    if not isinstance(functions, Mapping):
        raise TidelogError(f"{module} has no mapping `functions`, such as functions = {{'distance': distance}}")
    return functions
