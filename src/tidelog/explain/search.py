"""The search for proofs: the cone of a fact, discovered by kernels as far as a lowest proof can need it.

A proof of height h lies within h steps of its fact, or within 2 h where rules have parts that are checked once: those
are steps, but not of the proof, whose rule shows what its parts rest on. So the cone is discovered breadth first, and
each time that it has grown by half, heights are measured: once the fact has a proof no higher than the depth that is
complete, there can be no lower one. Nothing is noted during materialisation. All that is kept between two searches is
plans, and relations to find facts in. Pairs of a large closure are not expanded: their heights come from
`closure_proofs`; and those of facts of a recursion with joins, from `join_proofs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelog.engine.modules.closure_node import ClosureNode
from tidelog.engine.propagation.match_sets import SHOWN
from tidelog.errors import LimitError, TidelogError
from tidelog.explain import cone_registers as E
from tidelog.explain.backwards import BackwardRule, BackwardRules
from tidelog.explain.closure_proofs import ClosureProofs
from tidelog.explain.closure_rules import PairFact
from tidelog.explain.cone import discover_goals, expand, measure
from tidelog.explain.join_proofs import JoinProofs
from tidelog.language.names import is_checked_once, is_evident
from tidelog.machine.growth import grown
from tidelog.machine.jit import address
from tidelog.machine.status import DONE, PAUSED
from tidelog.program.graph import Component
from tidelog.store.relation_parts import Cells

FIRST_CELLS = 1024
MOST_CELLS = 2**31 - 1  # offsets are numbers of 32 bits

Choices = dict[int, int]
"""For each node of a proof, in the order of the drawing: the instance that derives it, AS_EXPLICIT or AS_GIVEN."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A rule instance: for each match, the nodes of its premises and the terms of its definitions."""

    rule: BackwardRule
    matches: list[tuple[list[int], list[int]]]

    @property
    def premises(self) -> list[int]:
        """The nodes of all premises, each once, in the order of the body."""
        return list(dict.fromkeys(node for nodes, _ in self.matches for node in nodes))


class Cone:
    """What lies behind some facts of a predicate, mostly one, which are the first nodes."""

    def __init__(self, backwards: BackwardRules, predicate: str, rows: Cells) -> None:
        self.backwards = backwards
        self._engine = backwards.engine
        self._registers: npt.NDArray[np.int64] = np.zeros(E.SIZE, np.int64)
        self.goals = len(rows)
        self._nodes: Cells = np.zeros((max(64, self.goals), E.NODE_CELLS), np.int32)
        self._queue: Cells = np.zeros(len(self._nodes), np.int32)
        self._closed: dict[ClosureNode, ClosureProofs] = {}
        self._joined: dict[Component, JoinProofs] = {}
        self._needs_height = False
        self.along_paths = False  # whether one of the predicates is a large closure
        self._has_parts = False  # whether a rule has parts that are checked once
        self._cells: Cells = np.zeros(FIRST_CELLS, np.int32)
        self._row: Cells = np.zeros(16, np.int32)
        self._instances: dict[int, Instance] = {}
        self._predicates: list[str] = []
        self._places: dict[str, int] = {}
        self._plans: list[BackwardRule] = []
        # Tables that kernels read, from what `_publish` last found in the lists.
        self._predicate_rows: list[list[int]] = []
        self._plan_rows: list[list[int]] = []
        self._premise_places: list[int] = []
        self._tables: list[Cells] = []
        self._runner = backwards.runner()
        place = self._place(predicate, rows.shape[1])
        self._publish()
        backwards.shadow(predicate, rows.shape[1]).reserve(self.goals)
        rows = np.ascontiguousarray(rows, np.int32)
        discover_goals(self._engine.store.machine, self._registers, place, address(rows), self.goals)

    # --- tables that kernels read -----------------------------------------------------------------------------------

    def _place(self, predicate: str, arity: int) -> int:
        """The place of a predicate in the table. Its plans are made when one of its facts is expanded."""
        if predicate not in self._places:
            self._places[predicate] = len(self._predicates)
            self._predicates.append(predicate)
            explicit = self._engine.explicit_relation(predicate) or self._engine.store.relation(predicate, arity)
            shadow = self.backwards.shadow(predicate, arity)
            self._predicate_rows.append([explicit.number, shadow.number, E.UNPLANNED, 0, int(is_evident(predicate))])
        return self._places[predicate]

    def _add_plans(self, place: int) -> None:
        joined = self.backwards.joined_component(self._predicates[place])
        if joined is not None:
            self._predicate_rows[place][E.PREDICATE_FIRST] = E.CLOSED
            self._joined.setdefault(joined, JoinProofs(self.backwards, joined, heights_of))
            return
        closure = self.backwards.large_closure(self._predicates[place])
        if closure is not None:
            self.along_paths = True
            if not self._registers[E.THOROUGH]:
                self._predicate_rows[place][E.PREDICATE_FIRST] = E.CLOSED
                # Twins share it.
                self._closed.setdefault(closure, ClosureProofs(self.backwards, closure, heights_of))
                return
        is_part = is_checked_once(self._predicates[place])
        self._has_parts |= is_part
        rules = [] if is_evident(self._predicates[place]) else self.backwards.rules_for(self._predicates[place])
        self._predicate_rows[place][E.PREDICATE_FIRST : E.PREDICATE_COUNT + 1] = len(self._plans), len(rules)
        for rule in rules:
            counts = [len(rule.premises), len(rule.extras), int(rule.grouping), int(not is_part)]
            self._plan_rows.append([rule.offset, len(self._premise_places), *counts])
            self._premise_places += [self._place(atom.predicate, atom.arity) for atom in rule.premises]
            self._plans.append(rule)
            if rule.width > len(self._row):
                self._row = np.zeros(2 * rule.width, np.int32)

    def _publish(self) -> None:
        registers = self._registers
        lists = (self._predicate_rows, self._plan_rows, self._premise_places)
        self._tables = [np.array(rows, np.int32) for rows in lists]
        registers[[E.PREDICATES, E.PLANS, E.PREMISES]] = [address(table) for table in self._tables]
        registers[E.NODES], registers[E.NODE_CAPACITY] = address(self._nodes), len(self._nodes)
        registers[E.INSTANCES], registers[E.CAPACITY] = address(self._cells), len(self._cells)
        registers[E.QUEUE], registers[E.ROW] = address(self._queue), address(self._row)

    # --- discovery --------------------------------------------------------------------------------------------------

    def find_lowest(self) -> None:
        """Discover as much as a lowest proof needs, and measure it."""
        registers = self._registers
        registers[E.DEPTH] = np.iinfo(np.int64).max
        while True:
            registers[E.STOP] = 3 * registers[E.USED] // 2 + FIRST_CELLS
            self._expand()
            height = self.measure()
            at = int(registers[E.AT_NODE])  # all nodes of lower depth than this one have been expanded
            if at == registers[E.NODE_COUNT] or 0 <= height <= self._least_height(self._nodes[at, E.NODE_DEPTH]):
                return
            if height > 0:
                registers[E.DEPTH] = 2 * height - 1 if self._has_parts else height - 1

    def _least_height(self, depth: int) -> int:
        """The least height of proofs that use a fact at some depth which is not explicit."""
        return (depth + 1) // 2 if self._has_parts else depth + 1

    def find_each(self) -> list[int]:
        """Discover as much as the lowest proofs of all first nodes need, and measure it. Returns their heights."""
        self._registers[E.DEPTH] = self._registers[E.STOP] = np.iinfo(np.int64).max
        self._expand()
        self.measure()
        heights: list[int] = self._nodes[: self.goals, E.NODE_HEIGHT].tolist()
        return heights

    def find_all(self) -> int:
        """Discover everything, and measure it. Returns the height of the first node."""
        self._registers[E.THOROUGH] = 1
        return self.find_each()[0]

    def measure(self) -> int:
        """Find the heights of the first nodes. Returns that of node 0, or -1."""
        heights = self._nodes[: self._registers[E.NODE_COUNT], E.NODE_GIVEN]
        given = np.flatnonzero(heights >= 0)
        given = given[np.argsort(heights[given])].astype(np.int32)
        self._registers[E.GIVEN], self._registers[E.GIVEN_COUNT] = address(given), len(given)
        return int(measure(self._registers, self.goals))

    def _expand(self) -> None:
        while True:
            SHOWN[self._engine.store.shown].install(self._runner.machine)
            self._runner.run(self._step)
            if not self._needs_height:
                return
            # Between two runs, since this may need another search.
            node = int(self._registers[E.AT_NODE])
            self._nodes[node, E.NODE_GIVEN] = self._height(*self.fact(node))
            self._registers[E.AT_NODE] += 1
            self._registers[E.AT_PLAN] = self._registers[E.AT_JOINING] = 0

    def _height(self, predicate: str, row: list[int]) -> int:
        """The height of a proof of a fact that is not expanded."""
        joined = self.join_proofs(predicate)
        if joined is not None:
            return joined.height((predicate, tuple(row)))
        first, second = row
        return self.closure_proofs(predicate).height(PairFact(predicate, (first, second)))

    def _step(self, machine: npt.NDArray[np.int64]) -> int:
        status = int(expand(machine, self._registers))
        self._needs_height = status == E.NEED_HEIGHT
        if self._needs_height:
            return DONE
        if status == E.NEED_PLANS:
            self._add_plans(int(self._nodes[self._registers[E.AT_NODE], E.NODE_PREDICATE]))
        elif status == E.NEED_NODES:
            self._nodes = grown(self._nodes, 2 * len(self._nodes) + self._widest())
            self._queue = grown(self._queue, len(self._nodes))
        elif status == E.NEED_INSTANCES:
            size = 2 * len(self._cells) + E.USE_CELLS * self._widest()
            if size > MOST_CELLS:
                raise LimitError("there are too many ways to derive this fact to find the lowest proof among them")
            self._cells = grown(self._cells, size)
        else:
            return status
        self._publish()
        return PAUSED

    def _widest(self) -> int:
        return max((rule.width + E.INSTANCE_CELLS for rule in self._plans), default=0)

    # --- reading ----------------------------------------------------------------------------------------------------

    def choices(self, goal: int = 0) -> Choices:
        """What the last measurement chose for a node and for all that its proof uses."""
        if self._nodes[goal, E.NODE_HEIGHT] < 0:
            # Among the facts that hold, a best value that improves itself around a circle rests on itself alone.
            raise TidelogError(
                "every proof of this fact uses values that better ones have replaced, and these are not kept: a rule "
                "improves the value that it starts from, around a circle"
            )
        chosen: Choices = {}
        waiting = [goal]
        while waiting:
            node = waiting.pop()
            if node not in chosen:
                chosen[node] = int(self._nodes[node, E.NODE_CHOICE])
                if chosen[node] >= 0:
                    waiting += reversed(self.instance(chosen[node]).premises)
        return chosen

    def instance(self, offset: int) -> Instance:
        if offset not in self._instances:
            first = offset + E.INSTANCE_CELLS
            header = self._cells[offset:first].tolist()
            rule = self._plans[header[E.INSTANCE_PLAN]]
            uses = E.USE_CELLS * len(rule.premises)
            size = uses + len(rule.extras)
            matches = []
            for number in range(header[E.INSTANCE_MATCHES]):
                match = self._cells[first + number * size :][:size].tolist()
                matches.append((match[: uses : E.USE_CELLS], match[uses:]))
            self._instances[offset] = Instance(rule, matches)
        return self._instances[offset]

    def fact(self, node: int) -> tuple[str, list[int]]:
        """The predicate and the terms of a node."""
        predicate = self._predicates[self._nodes[node, E.NODE_PREDICATE]]
        shadow = self.backwards.shadow(predicate, 0)
        row: list[int] = shadow.cells[self._nodes[node, E.NODE_FACT], : shadow.arity].tolist()
        return predicate, row

    def closure_proofs(self, predicate: str) -> ClosureProofs:
        """Proofs of the pairs of a large closure, which are not expanded."""
        return self._closed[self.backwards.closure(predicate)]

    def join_proofs(self, predicate: str) -> JoinProofs | None:
        """Proofs of the facts of a recursion with joins; None for any other predicate."""
        component = self.backwards.joined_component(predicate)
        return None if component is None else self._joined[component]

    def ways(self, node: int) -> Iterator[int]:
        """All choices for a node: the instances that were discovered for it, and AS_EXPLICIT."""
        if self._nodes[node, E.NODE_EXPLICIT]:
            yield E.AS_EXPLICIT
        offset = int(self._nodes[node, E.NODE_INSTANCES])
        while offset >= 0:
            yield offset
            offset = int(self._cells[offset + E.INSTANCE_NEXT])

    @contextmanager
    def without(self, choices: list[tuple[int, int]]) -> Iterator[None]:
        """Let `measure` not make some choices, each with its node."""
        nodes = [node for node, choice in choices if choice == E.AS_EXPLICIT]
        instances = [choice + E.INSTANCE_ENABLED for _, choice in choices if choice != E.AS_EXPLICIT]
        self._nodes[nodes, E.NODE_LEAF] = self._cells[instances] = 0
        yield
        self._nodes[nodes, E.NODE_LEAF] = self._cells[instances] = 1


def heights_of(backwards: BackwardRules, predicate: str, rows: Cells) -> list[int]:
    """The heights of the lowest proofs of some facts."""
    return Cone(backwards, predicate, rows).find_each()
