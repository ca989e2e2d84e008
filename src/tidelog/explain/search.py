"""The search for proofs: the cone of a fact, discovered by kernels as far as a lowest proof can need it.

A proof of height h lies within h steps of its fact. So the cone is discovered breadth first, and each time that it has
grown by half its heights are measured: once the fact has a proof that is no higher than the depth that is complete, no
lower one can exist. Nothing is noted during materialisation. All that is kept between two searches are plans, and
relations to find facts in. A pair of a large closure is not looked behind: its height comes from `explain.closed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelog.engine.modules.closure_node import ClosureNode
from tidelog.engine.propagation.match_sets import HOLDING
from tidelog.errors import LimitError
from tidelog.explain.backwards import Backward, Backwards
from tidelog.explain.closed import ClosedPairs
from tidelog.explain.cone import (
    C_CAPACITY,
    C_DEPTH,
    C_GIVEN,
    C_GIVEN_COUNT,
    C_JOINING,
    C_NEXT,
    C_NODE_CAPACITY,
    C_NODE_COUNT,
    C_NODES,
    C_PLAN,
    C_PLANS,
    C_PREDICATES,
    C_PREMISES,
    C_QUEUE,
    C_RECORDS,
    C_ROW,
    C_SIZE,
    C_STOP,
    C_THOROUGH,
    C_USED,
    CLOSED,
    HEADER,
    I_ENABLED,
    I_MATCHES,
    I_NEXT,
    I_PLAN,
    NEED_HEIGHT,
    NEED_NODES,
    NEED_PLANS,
    NEED_RECORDS,
    NODE_BYTES,
    UNPLANNED,
    USE,
    discover_goals,
    expand,
    measure,
)
from tidelog.explain.copies import PairFact
from tidelog.machine.growth import grown
from tidelog.machine.jit import address
from tidelog.machine.status import DONE, PAUSED
from tidelog.store.relation_parts import Cells

# A node's fields as columns.
PREDICATE, FACT, DEPTH, EXPLICIT, _, INSTANCES, HEIGHT, CHOICE, LEAF, GIVEN = range(NODE_BYTES // 4)
NODE_FIELDS = NODE_BYTES // 4
FIRST_CELLS = 1024
MOST_CELLS = 2**31 - 1  # places in them are numbers of 32 bits


@dataclass(frozen=True, slots=True)
class Instance:
    """A rule instance: for each match, the nodes of its premises and the terms of its definitions."""

    rule: Backward
    matches: list[tuple[list[int], list[int]]]

    @property
    def premises(self) -> list[int]:
        """Each node once, in the order of the body."""
        return list(dict.fromkeys(node for nodes, _ in self.matches for node in nodes))


class Table:
    """Rows of numbers that kernels read."""

    def __init__(self, columns: int) -> None:
        self.cells: Cells = np.zeros((16, columns), np.int32)
        self.count = 0

    def append(self, row: list[int]) -> None:
        if self.count == len(self.cells):
            self.cells = grown(self.cells, 2 * self.count)
        self.cells[self.count] = row
        self.count += 1


class Cone:
    """What lies behind some facts of a predicate, which are the first nodes; mostly behind one."""

    def __init__(self, backwards: Backwards, predicate: str, rows: Cells) -> None:
        self.backwards = backwards
        self._engine = backwards.engine
        self._registers: npt.NDArray[np.int64] = np.zeros(C_SIZE, np.int64)
        self.goals = len(rows)
        self._nodes: Cells = np.zeros((max(64, self.goals), NODE_FIELDS), np.int32)
        self._queue: Cells = np.zeros(len(self._nodes), np.int32)
        self._closed: dict[ClosureNode, ClosedPairs] = {}
        self._needs_height = False
        self.along_paths = False  # whether there is a large closure among the predicates
        self._records: Cells = np.zeros(FIRST_CELLS, np.int32)
        self._row: Cells = np.zeros(16, np.int32)
        self._instances: dict[int, Instance] = {}
        self.predicates: list[str] = []
        self._places: dict[str, int] = {}
        self._predicate_table = Table(4)
        self._plans: list[Backward] = []
        self._plan_table = Table(5)
        self._premise_table = Table(1)
        self._engine.store.complete_tables()
        self._runner = self._engine.runner()
        place = self._place(predicate, rows.shape[1])
        self._publish()
        backwards.shadow(predicate, rows.shape[1]).reserve(self.goals)
        rows = np.ascontiguousarray(rows, np.int32)
        discover_goals(self._engine.store.machine, self._registers, place, address(rows), self.goals)

    # --- tables that kernels read -----------------------------------------------------------------------------------

    def _place(self, predicate: str, arity: int) -> int:
        """The place of a predicate in the table; its plans are made when one of its facts is expanded."""
        if predicate not in self._places:
            self._places[predicate] = len(self.predicates)
            self.predicates.append(predicate)
            explicit = self._engine.explicit_relation(predicate) or self._engine.store.relation(predicate, arity)
            shadow = self.backwards.shadow(predicate, arity)
            self._predicate_table.append([explicit.number, shadow.number, UNPLANNED, 0])
        return self._places[predicate]

    def _add_plans(self, place: int) -> None:
        closure = self.backwards.large_closure(self.predicates[place])
        if closure is not None:
            self.along_paths = True
            if not self._registers[C_THOROUGH]:
                self._predicate_table.cells[place, 2] = CLOSED
                # Twins have it together.
                self._closed.setdefault(closure, ClosedPairs(self.backwards, closure, heights_of))
                return
        rules = self.backwards.rules_for(self.predicates[place])
        self._predicate_table.cells[place, 2:] = len(self._plans), len(rules)
        for rule in rules:
            counts = [len(rule.premises), len(rule.extras), int(rule.grouping)]
            self._plan_table.append([rule.offset, self._premise_table.count, *counts])
            for atom in rule.premises:
                self._premise_table.append([self._place(atom.predicate, atom.arity)])
            self._plans.append(rule)
            if rule.width > len(self._row):
                self._row = np.zeros(2 * rule.width, np.int32)

    def _publish(self) -> None:
        registers = self._registers
        registers[C_PREDICATES] = address(self._predicate_table.cells)
        registers[C_PLANS] = address(self._plan_table.cells)
        registers[C_PREMISES] = address(self._premise_table.cells)
        registers[C_NODES], registers[C_NODE_CAPACITY] = address(self._nodes), len(self._nodes)
        registers[C_RECORDS], registers[C_CAPACITY] = address(self._records), len(self._records)
        registers[C_QUEUE], registers[C_ROW] = address(self._queue), address(self._row)

    # --- discovery --------------------------------------------------------------------------------------------------

    def find_lowest(self) -> int:
        """Discover as much as a lowest proof needs, and measure it. Its height, or -1."""
        registers = self._registers
        registers[C_DEPTH] = np.iinfo(np.int64).max
        while True:
            registers[C_STOP] = 3 * registers[C_USED] // 2 + FIRST_CELLS
            self._expand()
            height = self.measure()
            if self.exhausted or 0 <= height <= self._complete_depth() + 1:
                return height
            if height > 0:
                registers[C_DEPTH] = height - 1

    def find_each(self) -> None:
        """Discover as much as the lowest proofs of all first nodes need, and measure it."""
        self._registers[C_DEPTH] = self._registers[C_STOP] = np.iinfo(np.int64).max
        self._expand()
        self.measure()

    def find_all(self) -> int:
        """Discover everything. The height of a lowest proof, or -1."""
        self._registers[C_THOROUGH] = 1
        self.find_each()
        return self.height(0)

    def measure(self) -> int:
        """Find the heights of the first nodes; that of node 0, or -1."""
        heights = self._nodes[: self._registers[C_NODE_COUNT], GIVEN]
        given = np.flatnonzero(heights >= 0)
        given = given[np.argsort(heights[given])].astype(np.int32)
        self._registers[C_GIVEN], self._registers[C_GIVEN_COUNT] = address(given), len(given)
        return int(measure(self._registers, self.goals))

    def height(self, node: int) -> int:
        return int(self._nodes[node, HEIGHT])

    @property
    def exhausted(self) -> bool:
        return bool(self._registers[C_NEXT] == self._registers[C_NODE_COUNT])

    def _complete_depth(self) -> int:
        """All nodes above this depth have been expanded."""
        return int(self._nodes[self._registers[C_NEXT], DEPTH])

    def _expand(self) -> None:
        while True:
            HOLDING.install(self._runner.machine)
            self._runner.run(self._step)
            if not self._needs_height:
                return
            # Between two runs, since another search may be needed for it.
            node = int(self._registers[C_NEXT])
            predicate, (first, second) = self.fact(node)
            self._nodes[node, GIVEN] = self.closed_pairs(predicate).height(PairFact(predicate, (first, second)))
            self._registers[C_NEXT] += 1
            self._registers[C_PLAN] = self._registers[C_JOINING] = 0

    def _step(self, machine: npt.NDArray[np.int64]) -> int:
        status = int(expand(machine, self._registers))
        self._needs_height = status == NEED_HEIGHT
        if self._needs_height:
            return DONE
        if status == NEED_PLANS:
            self._add_plans(int(self._nodes[self._registers[C_NEXT], PREDICATE]))
        elif status == NEED_NODES:
            self._nodes = grown(self._nodes, 2 * len(self._nodes) + self._widest())
            self._queue = grown(self._queue, len(self._nodes))
        elif status == NEED_RECORDS:
            self._grow_records()
        else:
            return status
        self._publish()
        return PAUSED

    def _grow_records(self) -> None:
        size = 2 * len(self._records) + USE * self._widest()
        if size > MOST_CELLS:
            raise LimitError("there are too many ways to derive this fact to find the lowest proof among them")
        self._records = grown(self._records, size)

    def _widest(self) -> int:
        return max((rule.width + HEADER for rule in self._plans), default=0)

    # --- reading ----------------------------------------------------------------------------------------------------

    def choice(self, node: int) -> int:
        """The instance at the top of the node's lowest proof, AS_EXPLICIT or AS_GIVEN."""
        return int(self._nodes[node, CHOICE])

    def instance(self, owner: int) -> Instance:
        if owner not in self._instances:
            self._instances[owner] = self._decoded(owner)
        return self._instances[owner]

    def _decoded(self, owner: int) -> Instance:
        records = self._records
        rule = self._plans[records[owner + I_PLAN]]
        premises, extras = len(rule.premises), len(rule.extras)
        size = USE * premises + extras
        matches = []
        for number in range(records[owner + I_MATCHES]):
            cells = records[owner + HEADER + number * size :][:size].tolist()
            matches.append((cells[: USE * premises : USE], cells[USE * premises :]))
        return Instance(rule, matches)

    def fact(self, node: int) -> tuple[str, list[int]]:
        """The predicate and the terms of a node."""
        predicate = self.predicates[self._nodes[node, PREDICATE]]
        shadow = self.backwards.shadow(predicate, 0)
        row: list[int] = shadow.cells[self._nodes[node, FACT], : shadow.arity].tolist()
        return predicate, row

    def closed_pairs(self, predicate: str) -> ClosedPairs:
        """What is known of a closure whose pairs are not looked behind."""
        closure = self._engine.closures.get(predicate)
        assert closure is not None
        return self._closed[closure]

    def is_explicit(self, node: int) -> bool:
        return bool(self._nodes[node, EXPLICIT])

    def instances(self, node: int) -> Iterator[int]:
        """All instances that have been discovered for a node."""
        owner = int(self._nodes[node, INSTANCES])
        while owner >= 0:
            yield owner
            owner = int(self._records[owner + I_NEXT])

    def enable(self, owner: int, enabled: bool) -> None:
        """Whether `measure` may use an instance."""
        self._records[owner + I_ENABLED] = enabled

    def enable_leaf(self, node: int, enabled: bool) -> None:
        """Whether `measure` may take a node as explicit, if it is."""
        self._nodes[node, LEAF] = enabled


def heights_of(backwards: Backwards, predicate: str, rows: Cells) -> list[int]:
    """The heights of the lowest proofs of some facts."""
    cone = Cone(backwards, predicate, rows)
    cone.find_each()
    return [cone.height(node) for node in range(len(rows))]
