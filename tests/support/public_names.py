"""The public names of tidelog: what the reference of the documentation shows, with the members of its classes."""

from __future__ import annotations

import importlib
import inspect
import re
from collections import ChainMap
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from places import ROOT

PAGES = ROOT / "docs" / "reference" / "api"
SHOWN = re.compile(r"^::: (\S+)\n(?:    options:\n      members:\n((?:        - \w+\n)+))?", re.MULTILINE)
SPARK = "tidelog.spark."


def public_names() -> dict[str, Any]:
    """The names that the pages show, and what they stand for."""
    shown = [found for page in sorted(PAGES.glob("*.md")) for found in SHOWN.findall(page.read_text(encoding="utf-8"))]
    return {name: thing for entry in shown if _can_be_imported(entry[0]) for name, thing in _things(*entry)}


def _can_be_imported(name: str) -> bool:
    return not f"{name}.".startswith(SPARK) or find_spec("pyspark") is not None


def _things(name: str, members: str) -> Iterator[tuple[str, Any]]:
    if members:
        module = importlib.import_module(name)
        yield from ((f"{name}.{member}", getattr(module, member)) for member in re.findall(r"\w+", members))
    elif name == "tidelog.errors":
        kinds = inspect.getmembers(importlib.import_module(name), inspect.isclass)
        yield from ((f"tidelog.{kind}", found) for kind, found in kinds)
    else:
        module_name, _, member = name.rpartition(".")
        yield name, getattr(importlib.import_module(module_name), member)


def with_members(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """A name, and the public methods and properties of a class, those of our own classes above it, too."""
    yield name, thing
    if inspect.isclass(thing):
        ours = (vars(kind) for kind in thing.__mro__ if kind.__module__.startswith("tidelog"))
        for member, found in ChainMap(*map(dict, ours)).items():
            if not member.startswith("_") and isinstance(found, property | classmethod | staticmethod | FUNCTION):
                yield f"{name}.{member}", getattr(found, "__func__", found)


FUNCTION = type(with_members)


def example_of(thing: Any) -> str:
    """The docstring of something, which is run as a session where it has prompts."""
    return inspect.getdoc(thing) or ""
