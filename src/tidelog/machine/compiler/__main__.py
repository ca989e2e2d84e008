"""A process that compiles: `python -m tidelog.machine.compiler`, which `machine.kernels.workers` starts.

Each line of its input names a unit of kernels. For each it answers with a line that gives the size of the object code,
and the object code.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from types import ModuleType
from typing import Any


def _module(name: str, file: str | None) -> ModuleType:
    """A module with kernels: one of tidelog, or that of a file."""
    if file is None:
        return importlib.import_module(name)
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None or spec.loader is None:
            raise ImportError(f"{file} is no module")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def _compiled(unit: Mapping[str, Any]) -> bytes:
    from tidelog.machine.compiler.functions import object_code

    return object_code(getattr(_module(module, file), name) for module, file, name in unit["kernels"])


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The process that started this one ends it.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Whatever is printed here is no answer.
    for line in sys.stdin.buffer:
        code, problem = b"", None
        try:
            code = _compiled(json.loads(line))
        except Exception:
            problem = traceback.format_exc()
        try:
            answers.write(json.dumps({"size": len(code), "problem": problem}).encode() + b"\n" + code)
            answers.flush()
        except BrokenPipeError:
            os._exit(1)  # Nobody waits for it any more.


if __name__ == "__main__":
    main()
