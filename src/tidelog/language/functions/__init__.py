"""The functions of the language that are no plain arithmetic, as Python computes them, for every engine.

Kernels compute most of them by themselves for arguments of usual forms, with the same results (`joins.functions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidelog.language.functions import conversions, json_paths, moments, numbers, records, regular, texts
from tidelog.language.functions.failing import CallFailed as CallFailed
from tidelog.values import Value

BUILT_IN: Mapping[str, Callable[..., Value]] = {
    **texts.FUNCTIONS,
    **conversions.FUNCTIONS,
    **numbers.FUNCTIONS,
    **regular.FUNCTIONS,
    **json_paths.FUNCTIONS,
    **moments.FUNCTIONS,
    **records.FUNCTIONS,
}

COMPUTED: Mapping[str, Callable[..., Value]] = {**BUILT_IN, **moments.OPERATIONS}
"""All that Python computes for kernels: these, and operations on literals."""
