"""The store: the machine with its registers, the terms, the relations and the code, and what keeps their addresses
true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

import numpy as np
import numpy.typing as npt

from tidelog.joins.assembler import Assembler, Code
from tidelog.language.syntax import Atom, Term
from tidelog.machine import flags as F
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine.array_memory import Spare
from tidelog.machine.growth import Breathe, grown, no_breath
from tidelog.machine.jit import address
from tidelog.machine.work_lists import WorkLists
from tidelog.program.plan import Plan
from tidelog.runtime.thread_locks import Readers
from tidelog.store.relation import Relation, index_fields, relation_fields
from tidelog.store.relation_kernels import find_old, find_rows
from tidelog.store.relation_parts import Cells, Index, Records
from tidelog.store.terms import Terms
from tidelog.store.update_kernels import load_rows

# Where arrays begin. Tests make both sizes tiny, so that everything has to grow.
INITIAL_CAPACITY = 256
# A batch of heads small enough for the cache, large enough that the call costs nothing.
HEAD_CELLS = 16384


class Store:
    """Everything that kernels reach."""

    def __init__(self) -> None:
        capacity = INITIAL_CAPACITY
        self.machine: npt.NDArray[np.int64] = np.zeros(M.SIZE, np.int64)
        self._capacity = capacity
        self.spare = Spare()
        self.readers = Readers()  # of what updates change, without the lock of the knowledge base
        self.relation_table = relation_fields(8)
        self._index_table = index_fields(8)
        self.relations: list[Relation] = []
        self._indexes: list[Index] = []
        self._by_name: dict[str, Relation] = {}
        self._made: list[Relation] = []  # those that are new, since somebody wished to know
        # Numbers of relations and of indexes that serve nobody any more.
        self._spare: list[int] = []
        self._spare_indexes: list[int] = []
        self.breathe: Breathe = no_breath  # while something long is done in one piece
        self.alone: Callable[[], AbstractContextManager[None]] = nullcontext  # while terms are used within an update
        self.look: Callable[[], None] = no_breath  # before each plan that an update makes; may raise, to end it
        self.postponed: set[Relation] = set()  # those whose hash tables do not hold all facts
        self._memos: dict[tuple[str, int], Relation] = {}
        self.memo_functions: dict[int, str] = {}
        self.terms = Terms(self.machine, capacity, capacity)
        self.code = Code(self.machine)
        self._scratch = np.zeros(256, np.int64)
        self._frames = np.zeros(1024, np.int64)
        self._heads = np.zeros(HEAD_CELLS, np.int32)
        self._log = np.zeros((max(capacity, 4), R.LOG_FIELDS), np.int64)
        self.requests = np.zeros(max(4 * capacity, 64), np.int32)
        self.lists = WorkLists(self.machine, max(capacity, 4), self.spare)
        self.rule_work = np.zeros(64, np.int64)
        self.rule_facts = np.zeros(64, np.int64)
        self.rule_time = np.zeros(64, np.int64)
        self._buckets = np.zeros(M.SORT_BUCKETS + 1, np.int64)
        self._publish()

    def _publish(self) -> None:
        machine = self.machine
        machine[M.RELATIONS] = address(self.relation_table)
        machine[M.INDEXES] = address(self._index_table)
        machine[M.SCRATCH] = address(self._scratch)
        machine[M.FRAMES] = address(self._frames)
        machine[M.FRAMES_SIZE] = self._frames.nbytes
        machine[M.HEADS] = address(self._heads)
        machine[M.HEADS_CAPACITY] = len(self._heads)
        machine[M.LOG] = address(self._log)
        machine[M.LOG_CAPACITY] = len(self._log)
        machine[M.REQUESTS] = address(self.requests)
        machine[M.REQUEST_CAPACITY] = len(self.requests)
        machine[M.RULE_WORK] = address(self.rule_work)
        machine[M.RULE_FACTS] = address(self.rule_facts)
        machine[M.RULE_TIME] = address(self.rule_time)
        machine[M.BUCKETS] = address(self._buckets)

    # --- relations ----------------------------------------------------------------------------------------------------

    def relation(self, name: str, arity: int) -> Relation:
        """The relation of a predicate; an empty one where it is new."""
        found = self._by_name.get(name)
        if found is None:
            self.ensure_row(arity)
            found = self.new_relation(name, arity)
            self._by_name[name] = found
        return found

    def fact_count(self) -> int:
        """All facts of predicates."""
        return sum(len(relation) for name, relation in self._by_name.items() if not name.startswith("#"))

    def pair_count(self) -> int:
        """All pairs of closures, which lie in no records."""
        return sum(len(relation.closure) for relation in self.relations if relation.closure is not None)

    def find(self, name: str) -> Relation | None:
        return self._by_name.get(name)

    def is_closure(self, name: str) -> bool:
        """Whether a predicate's facts follow from a closure instead of lying in records."""
        relation = self._by_name.get(name)
        return relation is not None and relation.closure is not None

    def named(self) -> dict[str, Relation]:
        """The relations of predicates, without the internal ones."""
        return self._by_name

    def new_relation(self, name: str, arity: int, counters: bool = False) -> Relation:
        """A relation that no predicate names; for groups of aggregates and the like."""
        number = self._spare[-1] if self._spare else self._next_number()
        created = Relation(self, number, name, arity, counters, self._capacity)
        if self._spare:
            self.relations[self._spare.pop()] = created
        else:
            self.relations.append(created)
        self._made.append(created)
        return created

    def _next_number(self) -> int:
        number = len(self.relations)
        if number == len(self.relation_table):
            wider = relation_fields(2 * number)
            wider[:number] = self.relation_table
            self.relation_table = wider
            self._publish()
        return number

    def retire(self, relation: Relation) -> None:
        """Give a relation's memory back, and its number to the next one. No plan that is still used may refer to it."""
        self._by_name.pop(relation.name, None)
        self.memo_functions.pop(relation.number, None)
        self.postponed.discard(relation)
        relation.clear()
        with suppress(MemoryError):  # Without memory for an empty one it stays as it is, and nobody uses it.
            self.relations[relation.number] = Relation(self, relation.number, "#unused", 0, False, 0)
            self._spare.append(relation.number)
            self._spare_indexes.extend(index.give_back() for index in relation.indexes)

    def begin_relations(self) -> None:
        """From now on it is remembered which relations are new."""
        self._made.clear()

    def retire_new_relations(self) -> None:
        """What they were made for has failed, or is done. No plan that is still used may refer to them."""
        made, self._made = self._made, []
        self._memos = {key: memo for key, memo in self._memos.items() if memo not in made}
        for relation in made:
            self.retire(relation)

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """Plans and relations that are made within serve only there."""
        outer, self._made = self._made, []
        with self.code.borrowed():
            try:
                yield
            finally:
                self.retire_new_relations()
                self._made = outer

    def new_index(self, columns: tuple[int, ...]) -> Index:
        if self._spare_indexes:
            number = self._spare_indexes.pop()
            self._index_table[number] = 0
            self._indexes[number] = Index(number, columns, self._index_table[number])
            return self._indexes[number]
        number = len(self._indexes)
        if number == len(self._index_table):
            wider = index_fields(2 * number)
            wider[:number] = self._index_table
            self._index_table = wider
            for index in self._indexes:
                index.fields = wider[index.number]
            self._publish()
        index = Index(number, columns, self._index_table[number])
        self._indexes.append(index)
        return index

    def memo(self, function: str, arguments: int) -> Relation:
        """The relation that remembers what a function gave: its arguments and its result."""
        key = (function, arguments)
        if key not in self._memos:
            memo = self.new_relation(f"{function}/{arguments}", arguments + 1)
            memo.index_on(tuple(range(arguments)))
            self._memos[key] = memo
            self.memo_functions[memo.number] = function
        return self._memos[key]

    def forget_function(self, function: str) -> None:
        """Drop what is remembered of a function: it has been registered anew."""
        for (name, _), memo in self._memos.items():
            if name == function:
                memo.cells[: memo.count, memo.flags_column] = 0
                memo.compact()

    # --- plans --------------------------------------------------------------------------------------------------------

    def assemble(self, plan: Plan, target: Relation | None, head: tuple[Term, ...], rule_number: int) -> int:
        """Put a plan into the code; `head` is what each match delivers into `target`. Its offset."""
        return Assembler(self, plan, -1 if target is None else target.number, head, rule_number).assemble()

    def estimate(self, atom: Atom, bound: tuple[int, ...]) -> float:
        """How many facts match an atom when the given columns are bound, by what the indexes know."""
        relation = self._by_name.get(atom.predicate)
        if relation is None:
            return 0.0
        # The pairs of a closure lie in no records, and no index knows them.
        virtual = relation.closure is not None
        count = len(relation) if virtual else relation.count
        if not bound:
            return float(count)
        for index in relation.indexes:
            if index.columns == bound and not virtual:
                return count / max(1, index.distinct)
        # No index yet: each bound column is taken to cut as a square root would.
        return float(count) ** (1.0 - len(bound) / max(1, relation.arity))

    # --- room ---------------------------------------------------------------------------------------------------------

    def ensure_frame(self, size: int) -> None:
        """Make room for a frame of that many bytes at the bottom of the stack of frames."""
        self.machine[M.FRAME_BASE] = max(int(self.machine[M.FRAME_BASE]), size)
        if 2 * size > self._frames.nbytes:
            self.grow_frames(2 * size)

    def grow_frames(self, size: int = 0) -> None:
        self._frames = grown(self._frames, max(2 * len(self._frames), size // 8 + 1), spare=self.spare)
        self._publish()

    def ensure_scratch(self, operands: int) -> None:
        if 2 * operands + 16 > len(self._scratch):
            self._scratch = np.zeros(4 * operands + 16, np.int64)
            self._publish()

    def ensure_row(self, arity: int) -> None:
        """Rows are put together in scratch memory and in the buffer of heads: both hold at least a few."""
        if arity > len(self._scratch):
            self._scratch = np.zeros(2 * arity, np.int64)
        if 4 * arity > len(self._heads):
            self._heads = np.zeros(8 * arity, np.int32)
        self._publish()

    def grow_log(self, needed: int) -> None:
        self._log = grown(self._log, max(needed, 2 * len(self._log)), spare=self.spare)
        self._publish()

    def grow_requests(self) -> None:
        self.requests = grown(self.requests, 2 * len(self.requests), spare=self.spare)
        self._publish()

    def ensure_rules(self, count: int) -> None:
        if count > len(self.rule_work):
            # All or none: the memory may run out in between. What is not written to costs none.
            wider = [np.zeros(2 * count, np.int64) for _ in range(3)]
            for array, former in zip(wider, (self.rule_work, self.rule_facts, self.rule_time), strict=True):
                array[: len(former)] = former
            self.rule_work, self.rule_facts, self.rule_time = wider
            self._publish()

    def log(self) -> npt.NDArray[np.int64]:
        return self._log

    def complete_tables(self) -> None:
        """From now on single facts are looked for anywhere."""
        for relation in tuple(self.postponed):
            relation.complete_table()

    # --- rows ---------------------------------------------------------------------------------------------------------

    def find_facts(self, relation: Relation, rows: Cells) -> Cells:
        """The fact numbers of rows, -1 where there is none."""
        relation.complete_table()
        rows = np.ascontiguousarray(rows, np.int32)
        result = np.empty(len(rows), np.int32)
        find_rows(self.machine, relation.number, address(rows), len(rows), address(result))
        return result

    def find_old(self, relation: Relation, former: Records) -> Cells:
        """For each former record of a relation its fact now: -1 where there is none, -2 where it was none before."""
        cells = former.cells
        result = np.empty(former.count, np.int32)
        try:
            # Many of them are looked for in vain, which takes long in a full table and next to nothing by bits.
            relation.bits.keep()
            relation.complete_table(0 if relation.bits.kept else former.count)
            find_old(self.machine, relation.number, address(cells), 4 * cells.shape[1], former.count, address(result))
        finally:
            relation.bits.forget()
        return result

    def remember(self, memo: Relation, rows: Cells) -> None:
        """Add rows to a memo; they are there for good."""
        memo.reserve(len(rows))
        load_rows(self.machine, memo.number, address(np.ascontiguousarray(rows)), len(rows), F.IN | F.OLD)

    @property
    def nbytes(self) -> int:
        return sum(relation.nbytes for relation in self.relations) + self.terms.nbytes + self.spare.nbytes
