"""Compiling on all cores: processes that turn units of kernels into object code, one unit after the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from importlib.util import find_spec
from queue import Empty, SimpleQueue
from typing import IO

from tidelog.errors import CompilationError
from tidelog.machine.kernels.progress import Progress
from tidelog.machine.kernels.sources import PACKAGE
from tidelog.machine.kernels.targets import Target
from tidelog.machine.kernels.units import Unit

_GLANCE = 0.5  # seconds between two looks at the clock


def object_code(units: Sequence[Unit], target: Target, progress: Progress) -> list[bytes]:
    """Compile units of kernels, in this order; returns their object code."""
    _check_compiler(target)
    waiting: SimpleQueue[Unit] = SimpleQueue()
    finished: SimpleQueue[Unit] = SimpleQueue()
    for unit in units:
        waiting.put(unit)
    workers: list[_Worker] = []

    def work(worker: _Worker) -> list[bytes]:
        done: list[bytes] = []
        with suppress(Empty):
            while True:
                unit = waiting.get_nowait()
                done.append(worker.compile(unit))
                finished.put(unit)
        return done

    try:
        for _ in range(min(len(units), _cores())):
            workers.append(_Worker(target))
        with ThreadPoolExecutor(len(workers)) as threads:
            running = [threads.submit(work, worker) for worker in workers]
            try:
                while wait(running, _GLANCE, FIRST_EXCEPTION).not_done:
                    for each in running:
                        if each.done():
                            each.result()  # What it raises ends the others, which would not say why.
                    while not finished.empty():
                        progress.advance(finished.get().work)
                    progress.draw()
            finally:
                for worker in workers:
                    worker.kill()  # Its thread sees that, and ends.
    finally:
        for worker in workers:
            worker.close()
    return [code for each in running for code in each.result()]


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_compiler(target: Target) -> None:
    if find_spec("numba") is None:
        raise CompilationError(
            f"this installation has no compiled kernels for {target.title} that match its sources, and Numba, which "
            "would compile them, is not installed; install a wheel of tidelog for this machine, or "
            "`pip install 'tidelog[compile]'`"
        )
    if not sys.executable:
        raise CompilationError("kernels have to be compiled, and Python does not know its own program to do it with")


class _Worker:
    """A process that compiles for a target."""

    def __init__(self, target: Target) -> None:
        # What is kept for every process does not depend on the settings of one.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
        environment["TIDELOG_COMPILE_FOR"] = target.processor
        environment["PYTHONPATH"] = os.pathsep.join([str(PACKAGE.parent), *(path or "." for path in sys.path)])
        command = [sys.executable, "-P", "-m", "tidelog.machine.compiler"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._requests: IO[bytes] = self._process.stdin  # type: ignore[assignment]
        self._answers: IO[bytes] = self._process.stdout  # type: ignore[assignment]

    def compile(self, unit: Unit) -> bytes:
        request = {"kernels": [(kernel.module, kernel.file, kernel.name) for kernel in unit.kernels]}
        try:
            self._requests.write(json.dumps(request).encode() + b"\n")
            self._requests.flush()
            answer = json.loads(self._answers.readline() or "{}")
            code = self._answers.read(answer.get("size", 0))
        except OSError:
            answer = {}
        if not answer:
            raise CompilationError("the process that compiles kernels has ended; there may be too little memory")
        if answer["problem"]:
            raise CompilationError(f"kernels cannot be compiled:\n{answer['problem']}")
        return code

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        with suppress(BrokenPipeError), self._process:  # which closes its pipes
            self._process.kill()
