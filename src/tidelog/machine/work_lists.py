"""Work lists: what the algorithms still have to look at, or have found, in arrays that grow. Kernels import it as `L`.

A list is known by the first of its three registers: its address, how many entries it has, and how many fit. Most
entries are facts, each as relation << 32 | fact. Every list is named here, once. Kernels use the functions below;
Python uses `WorkLists`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidelog.machine import registers as M
from tidelog.machine.array_memory import Spare
from tidelog.machine.growth import grown
from tidelog.machine.jit import address, inlined, load_i64, store_i64
from tidelog.machine.status import DONE, FULL_LIST

# The registers of a list.
ADDRESS, COUNT, CAPACITY = 0, 1, 2

_first_registers = iter(range(M.LISTS, M.STATE, M.LIST_REGISTERS))


def _list() -> int:
    return next(_first_registers)


# Facts of a component, as the papers name the sets.
D = _list()  # examined or overdeleted
C = _list()  # checked
P = _list()  # proved; in deletion by ranks, what may come back

# Recursive counting.
MOVES = _list()  # facts whose level may change
AIMS = _list()  # for each of them, the level that it is to have << 32 | how many instances it has there
DUE = _list()  # a heap: when they leave their level or arrive at another

# Best values.
OFFERS = _list()  # a heap: a key by which offers are taken in turn, and the fact
ASIDE = _list()  # offers that are for later, in the order of their keys: a key, and what is in OFFERS
SPREADING = _list()  # the fact whose consequences are looked for
REPLACED = _list()  # facts that have spread, and in whose groups there is a better one now

# Marks.
EXPECTED = _list()  # facts that earlier updates marked for this one
LATER = _list()  # marks for updates after the next one: a fact, and the flags that say for which
MARKED = _list()  # facts that are marked while this update is in work, once for each mark
MARKED_PLACES = _list()  # in the buffer of heads: where marked ones begin; where they end, and << 32 for which update

ALL = tuple(range(M.LISTS, M.STATE, M.LIST_REGISTERS))


@inlined
def entry_of(relation, fact):
    return (relation << 32) | fact


@inlined
def relation_of(entry):
    return entry >> 32


@inlined
def fact_of(entry):
    return entry & 0xFFFFFFFF


@inlined
def count(m, which):
    """How many entries a list has."""
    return m[which + COUNT]


@inlined
def entry(m, which, position):
    return load_i64(m[which] + 8 * position)


@inlined
def put(m, which, position, value):
    """Write an entry where one is, or where there is room."""
    store_i64(m[which] + 8 * position, value)


@inlined
def push(m, which, value):
    """Append an entry; the caller has made room."""
    store_i64(m[which] + 8 * m[which + COUNT], value)
    m[which + COUNT] += 1


@inlined
def cut(m, which, length):
    """Let a list have so many entries."""
    m[which + COUNT] = length


@inlined
def has_room(m, which, more):
    """Whether so many more entries fit."""
    return m[which + COUNT] + more <= m[which + CAPACITY]


@inlined
def room(m, which, more):
    """DONE, or FULL_LIST where so many more entries do not fit."""
    if has_room(m, which, more):
        return DONE
    m[M.FULL] = which
    m[M.STAGED] = m[which + COUNT] + more
    return FULL_LIST


class WorkLists:
    """The arrays of all work lists, and their registers as Python sees them."""

    def __init__(self, machine: npt.NDArray[np.int64], capacity: int, spare: Spare) -> None:
        self._machine = machine
        self._spare = spare
        self._arrays = {which: np.zeros(capacity, np.int64) for which in ALL}
        self.publish()

    def publish(self) -> None:
        """Let kernels work on these lists."""
        for which in ALL:
            self._publish(which)

    def _publish(self, which: int) -> None:
        array = self._arrays[which]
        self._machine[which] = address(array)
        self._machine[which + CAPACITY] = len(array)

    def count(self, which: int) -> int:
        return int(self._machine[which + COUNT])

    def entries(self, which: int) -> npt.NDArray[np.int64]:
        """The entries of a list, where they lie."""
        return self._arrays[which][: self._machine[which + COUNT]]

    def clear(self, which: int) -> None:
        self._machine[which + COUNT] = 0

    def fill(self, which: int, entries: npt.NDArray[np.int64]) -> None:
        """Let a list have these entries."""
        self.clear(which)
        self.reserve(which, len(entries))
        self._machine[which + COUNT] = len(entries)
        self.entries(which)[:] = entries

    def reserve(self, which: int, entries: int) -> None:
        """Make room for so many entries in all."""
        length = len(self._arrays[which])
        if entries > length:
            while length < entries:
                length *= 2
            self._arrays[which] = grown(self._arrays[which], length, spare=self._spare)
            self._publish(which)

    def move(self, source: int, target: int) -> int:
        """Let one list have what another has, and that one be empty; how many entries there are."""
        entries = self.entries(source)
        self.clear(source)
        self.fill(target, entries)
        return len(entries)
