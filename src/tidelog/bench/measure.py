"""Measuring: CPU time and memory of one piece of work, in a process of its own so that both are its own."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "PATHWAY_THREADS")


@dataclass(frozen=True)
class Measured:
    """What a piece of work took: seconds of CPU time and of wall time, megabytes at its peak above what was there
    before."""

    cpu: float
    wall: float
    memory: float
    value: Any = None


@dataclass(frozen=True)
class Failed:
    """Why there is no figure."""

    reason: str
    is_timeout: bool = False


def measure(work: Callable[[], Any]) -> Measured:
    """Run a piece of work in this process."""
    before = _reset_peak()
    cpu, wall = time.process_time(), time.perf_counter()
    value = work()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Measured(cpu, wall, max(0.0, _status("VmHWM") - before), value)


def measure_command(command: list[str], folder: str) -> Measured:
    """Run a program; `value` is what it prints."""
    wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr.strip()[-300:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(cpu, time.perf_counter() - wall, after.ru_maxrss / 1024, done.stdout)


def isolated(function: Callable[..., Any], *arguments: Any, timeout: float = 600) -> Any:
    """What a function of a module returns when a fresh process runs it; `Failed` if it raises or takes too long."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    saved = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    process = context.Process(target=_run, args=(sender, function, arguments), daemon=True)
    try:
        process.start()
        sender.close()
        return _await(process, receiver, timeout)
    finally:
        _end(process)
        for name, value in saved.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _end(process: Any) -> None:
    """End a process and what it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()


def _await(process: Any, receiver: Connection, timeout: float) -> Any:
    if not receiver.poll(timeout):
        return Failed(f"> {timeout:g} s", is_timeout=True)
    try:
        return receiver.recv()
    except EOFError:
        process.join()
        return Failed(f"ended with code {process.exitcode}")


def _run(sender: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    os.setsid()  # Whatever it starts ends with it.
    try:
        result = function(*arguments)
    except Exception as problem:
        result = Failed(f"{type(problem).__name__}: {problem}")
    with contextlib.suppress(BrokenPipeError):  # Nobody waits any more.
        sender.send(result)
    sender.close()


def tree_cpu() -> float:
    """Seconds of CPU time of this process and of all that it started, and that these started, and so on (Linux)."""
    return sum(ticks for ticks in _tree().values()) / os.sysconf("SC_CLK_TCK")


def tree_peak() -> float:
    """The most memory that a process which this one started ever took, in megabytes (Linux)."""
    return max((_status("VmHWM", process) for process in _tree() if process != os.getpid()), default=0.0)


def _tree() -> dict[int, int]:
    """This process and its descendants, with the ticks of the clock that each has worked."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for process in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(OSError):  # It may end while one looks.
            cells = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            parents[process] = int(cells[1])
            ticks[process] = sum(map(int, cells[11:15]))
    tree = {os.getpid()}
    while grown := {process for process, parent in parents.items() if parent in tree} - tree:
        tree |= grown
    return {process: ticks.get(process, 0) for process in tree}


def _reset_peak() -> float:
    """Let the peak begin at what is in memory now, and give that, in megabytes."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return _status("VmHWM")  # Not to be reset here: only what goes beyond the peak so far will count.
    return _status("VmRSS")


def _status(key: str, process: int | str = "self") -> float:
    """A line of a process's status in megabytes; elsewhere than on Linux the peak of this process."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    # A process that has ended and that nobody has waited for yet has no memory any more.
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(key)), 0.0)
