"""The store: all that kernels reach, which is registers, terms, relations, indexes, plans, buffers and work lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import NamedTuple

import numpy as np

from tidelog.joins.code import Code
from tidelog.language.literals import render_value
from tidelog.language.syntax import Atom, Term
from tidelog.machine import flags as F
from tidelog.machine import index_fields as X
from tidelog.machine import registers as M
from tidelog.machine import relation_fields as R
from tidelog.machine.array_memory import Spare
from tidelog.machine.growth import grown, no_pause
from tidelog.machine.jit import address, new_registers
from tidelog.machine.work_lists import WorkLists
from tidelog.program.plan import Plan
from tidelog.runtime.thread_locks import Readers
from tidelog.store.assembler import Assembler
from tidelog.store.indexes import NO_SLOTS, Index
from tidelog.store.relation import Relation
from tidelog.store.relation_kernels import find_old, find_rows
from tidelog.store.relation_parts import Cells, Records, Row
from tidelog.store.terms import Terms
from tidelog.values import Value, identity

# Initial sizes. Tests make both tiny, so that everything has to grow.
INITIAL_CAPACITY = 256
# Heads are absorbed in batches of this size: they fit the cache, and calls cost nothing.
HEAD_CELLS = 16384
# Words of notes on rule instances that failed: some dozens of instances.
NOTE_WORDS = 512
# Calls of functions that failed, with the reasons, to be told when an instance fails because of them.
MOST_PROBLEMS = 1000


class UpdateHooks(NamedTuple):
    """What the update in work wants to be called for; it installs them when it begins."""

    between_pieces: Callable[[], None] = no_pause
    """In long work that cannot be left half done: may take new updates in, and must not raise."""
    using_terms: Callable[[], AbstractContextManager[None]] = nullcontext
    """Around each use of terms within the update."""
    before_plan: Callable[[], None] = no_pause
    """Before each plan that is made; may raise to end the update."""


NO_HOOKS = UpdateHooks()


def _twice_as_long(table: Row) -> Row:
    """The same table with as many more rows, of zeros."""
    longer = np.zeros((2 * len(table), table.shape[1]), np.int64)
    longer[: len(table)] = table
    return longer


class KernelArrays:
    """The arrays that belong to no relation: frames, buffers, the undo log, counts by rule."""

    def __init__(self, machine: Row, spare: Spare) -> None:
        self._machine = machine
        self._spare = spare
        self._scratch: Row = np.zeros(256, np.int64)
        self._frames: Row = np.zeros(1024, np.int64)
        self._heads: Cells = np.zeros(HEAD_CELLS, np.int32)
        self._buckets: Row = np.zeros(M.SORT_BUCKETS + 1, np.int64)
        self.log: Row = np.zeros((max(INITIAL_CAPACITY, 4), R.LOG_FIELDS), np.int64)
        self.notes: Row = np.zeros(NOTE_WORDS, np.int64)
        self.requests: Cells = np.zeros(max(4 * INITIAL_CAPACITY, 64), np.int32)
        # By the number of a rule: applications, facts that it derived first, and nanoseconds.
        self.rule_work: Row = np.zeros(64, np.int64)
        self.rule_facts: Row = np.zeros(64, np.int64)
        self.rule_time: Row = np.zeros(64, np.int64)
        self._publish()

    def _publish(self) -> None:
        machine = self._machine
        machine[M.SCRATCH] = address(self._scratch)
        machine[M.BUCKETS] = address(self._buckets)
        machine[M.FRAMES], machine[M.FRAMES_SIZE] = address(self._frames), self._frames.nbytes
        machine[M.HEADS], machine[M.HEADS_CAPACITY] = address(self._heads), len(self._heads)
        machine[M.LOG], machine[M.LOG_CAPACITY] = address(self.log), len(self.log)
        machine[M.REQUESTS], machine[M.REQUEST_CAPACITY] = address(self.requests), len(self.requests)
        machine[M.NOTES], machine[M.NOTES_SIZE] = address(self.notes), len(self.notes)
        machine[M.RULE_WORK] = address(self.rule_work)
        machine[M.RULE_FACTS] = address(self.rule_facts)
        machine[M.RULE_TIME] = address(self.rule_time)

    def ensure_frame(self, size: int) -> None:
        """Make room for a frame of that many bytes at the bottom of the stack of frames."""
        self._machine[M.FRAME_BASE] = max(int(self._machine[M.FRAME_BASE]), size)
        if 2 * size > self._frames.nbytes:
            self.grow_frames(2 * size)

    def grow_frames(self, size: int = 0) -> None:
        self._frames = grown(self._frames, max(2 * len(self._frames), size // 8 + 1), spare=self._spare)
        self._publish()

    def ensure_scratch(self, operands: int) -> None:
        """Make room for expressions with so many operands."""
        if 2 * operands + 16 > len(self._scratch):
            self._scratch = np.zeros(4 * operands + 16, np.int64)
            self._publish()

    def ensure_row(self, arity: int) -> None:
        """Make room for rows, which are put together in the scratch memory and in the buffer of heads."""
        if arity > len(self._scratch):
            self._scratch = np.zeros(2 * arity, np.int64)
        if 4 * arity > len(self._heads):
            self._heads = np.zeros(8 * arity, np.int32)
        self._publish()

    def grow_log(self, needed: int) -> None:
        self.log = grown(self.log, max(needed, 2 * len(self.log)), spare=self._spare)
        self._publish()

    def grow_requests(self) -> None:
        self.requests = grown(self.requests, 2 * len(self.requests), spare=self._spare)
        self._publish()

    def ensure_rules(self, count: int) -> None:
        """Make room for the counts of so many rules."""
        if count > len(self.rule_work):
            # All or none: the memory may run out in between. What is not written to costs none.
            wider = [np.zeros(2 * count, np.int64) for _ in range(3)]
            for array, former in zip(wider, (self.rule_work, self.rule_facts, self.rule_time), strict=True):
                array[: len(former)] = former
            self.rule_work, self.rule_facts, self.rule_time = wider
            self._publish()


class Store:
    """Everything that kernels reach."""

    def __init__(self) -> None:
        capacity = INITIAL_CAPACITY
        self.machine = new_registers(M.SIZE)
        self._capacity = capacity
        self.spare = Spare()
        self.readers = Readers()  # of what updates change, without the lock of the knowledge base
        self.relation_table: Row = np.zeros((8, R.FIELDS), np.int64)
        self._index_table: Row = np.zeros((8, X.FIELDS), np.int64)
        self.relations: list[Relation] = []
        self._indexes: dict[int, Index] = {}  # by number
        self._by_name: dict[str, Relation] = {}
        self._made: list[Relation] = []  # since `begin_relations`
        # Numbers of relations and of indexes that are free.
        self._spare: list[int] = []
        self._spare_indexes: list[int] = []
        self.hooks = NO_HOOKS
        self.postponed: set[Relation] = set()  # those whose hash tables do not hold all facts
        self._memos: dict[tuple[str, int], Relation] = {}
        self.memo_functions: dict[int, str] = {}
        self._problems: dict[tuple[str, tuple[object, ...]], str] = {}  # why calls of functions gave no value
        self.terms = Terms(self.machine, capacity)
        self.code = Code(self.machine)
        self.arrays = KernelArrays(self.machine, self.spare)
        self.lists = WorkLists(self.machine, max(capacity, 4), self.spare)
        self._publish()

    def _publish(self) -> None:
        self.machine[M.RELATIONS] = address(self.relation_table)
        self.machine[M.INDEXES] = address(self._index_table)

    # --- relations ----------------------------------------------------------------------------------------------------

    def relation(self, name: str, arity: int) -> Relation:
        """The relation of a predicate; an empty one if it is new."""
        found = self._by_name.get(name)
        if found is None:
            self.arrays.ensure_row(arity)
            found = self.new_relation(name, arity)
            self._by_name[name] = found
        return found

    def fact_count(self) -> int:
        """How many facts all predicates have."""
        return sum(len(relation) for name, relation in self._by_name.items() if not name.startswith("#"))

    def pair_count(self) -> int:
        """How many pairs all closures have, which are in no records."""
        return sum(len(relation.closure) for relation in self.relations if relation.closure is not None)

    def find(self, name: str) -> Relation | None:
        return self._by_name.get(name)

    def is_closure(self, name: str) -> bool:
        """Whether the facts of a predicate are those of a closure instead of records."""
        relation = self._by_name.get(name)
        return relation is not None and relation.closure is not None

    def named(self) -> dict[str, Relation]:
        """The relations that have a name, by name."""
        return self._by_name

    def new_relation(self, name: str, arity: int) -> Relation:
        """A relation that is not found by its name; for groups of aggregates and the like."""
        number = self._spare[-1] if self._spare else len(self.relations)
        if number == len(self.relation_table):
            self.relation_table = _twice_as_long(self.relation_table)
            self._publish()
        created = Relation(self, number, name, arity, self._capacity)
        if self._spare:
            self.relations[self._spare.pop()] = created
        else:
            self.relations.append(created)
        self._made.append(created)
        return created

    def retire(self, relation: Relation) -> None:
        """Free a relation's memory and its number. No plan that is still used may refer to it."""
        self._by_name.pop(relation.name, None)
        self.memo_functions.pop(relation.number, None)
        self.postponed.discard(relation)
        relation.clear()
        with suppress(MemoryError):  # Without memory for an empty one it stays, unused.
            self.relations[relation.number] = Relation(self, relation.number, "#unused", 0, 0)
            self._spare.append(relation.number)
            for index in relation.indexes:
                index.slots = NO_SLOTS
                self._spare_indexes.append(index.number)

    def begin_relations(self) -> None:
        """Remember which relations are new from now on."""
        self._made.clear()

    def retire_new_relations(self) -> None:
        """Retire them: their purpose has failed, or is done. No plan that is still used may refer to them."""
        made, self._made = self._made, []
        self._memos = {key: memo for key, memo in self._memos.items() if memo not in made}
        for relation in made:
            self.retire(relation)

    @contextmanager
    def borrowed(self) -> Iterator[None]:
        """Plans and relations that are made within are used only there."""
        outer, self._made = self._made, []
        with self.code.borrowed():
            try:
                yield
            finally:
                self.retire_new_relations()
                self._made = outer

    def new_index(self, columns: tuple[int, ...]) -> Index:
        number = self._spare_indexes.pop() if self._spare_indexes else len(self._indexes)
        if number == len(self._index_table):
            self._index_table = _twice_as_long(self._index_table)
            for index in self._indexes.values():
                index.fields = self._index_table[index.number]
            self._publish()
        self._index_table[number] = 0
        self._indexes[number] = Index(number, columns, self._index_table[number])
        return self._indexes[number]

    def memo(self, function: str, arguments: int) -> Relation:
        """The relation that remembers the results of a function: its arguments and its result."""
        key = (function, arguments)
        if key not in self._memos:
            memo = self.new_relation(f"{function}/{arguments}", arguments + 1)
            memo.index_on(tuple(range(arguments)))
            self._memos[key] = memo
            self.memo_functions[memo.number] = function
        return self._memos[key]

    def note_problem(self, function: str, arguments: Sequence[Value], reason: str) -> None:
        """A call of a function gave no value."""
        if len(self._problems) < MOST_PROBLEMS:
            self._problems[function, tuple(map(identity, arguments))] = reason

    def call_problem(self, function: str, arguments: Sequence[Value]) -> str:
        """Why a call of a function gave no value."""
        known = self._problems.get((function, tuple(map(identity, arguments))))
        return f"{function}({', '.join(map(render_value, arguments))}) {known or 'has no value'}"

    def forget_function(self, function: str) -> None:
        """Forget the results of a function that has been registered again."""
        self._problems = {call: reason for call, reason in self._problems.items() if call[0] != function}
        for (name, _), memo in self._memos.items():
            if name == function:
                memo.flags[:] = 0
                memo.compact()

    # --- plans --------------------------------------------------------------------------------------------------------

    def assemble(self, plan: Plan, target: Relation | None, head: tuple[Term, ...], rule_number: int) -> int:
        """Put a plan into the code; `head` is what each match yields into `target`. Returns its offset."""
        return Assembler(self, plan, -1 if target is None else target.number, head, rule_number).assemble()

    def estimate(self, atom: Atom, bound: tuple[int, ...]) -> float:
        """About how many facts match an atom when the given columns are bound, according to the indexes."""
        relation = self._by_name.get(atom.predicate)
        if relation is None:
            return 0.0
        # The pairs of a closure are in no records, and in no index.
        virtual = relation.closure is not None
        count = len(relation) if virtual else relation.count
        if not bound:
            return float(count)
        for index in relation.indexes:
            if index.columns == bound and not virtual:
                return count / max(1, index.distinct)
        # No index yet: each bound column is assumed to reduce the facts by an equal factor.
        return float(count) ** (1.0 - len(bound) / max(1, relation.arity))

    def complete_tables(self) -> None:
        """Make every fact findable by its hash table."""
        for relation in tuple(self.postponed):
            relation.table.complete()

    # --- rows ---------------------------------------------------------------------------------------------------------

    def find_facts(self, relation: Relation, rows: Cells) -> Cells:
        """The fact numbers of rows, -1 for those that are not there."""
        relation.table.complete()
        rows = np.ascontiguousarray(rows, np.int32)
        result = np.empty(len(rows), np.int32)
        find_rows(self.machine, relation.number, address(rows), len(rows), address(result))
        return result

    def find_old(self, relation: Relation, former: Records) -> Cells:
        """For each former record its fact now: -1 if there is none, -2 if it was not in I before the update."""
        cells = former.cells
        result = np.empty(former.count, np.int32)
        try:
            # Many lookups fail, which takes long in a full table and almost nothing with bits.
            relation.bits.keep()
            relation.table.complete(0 if relation.bits.kept else former.count)
            find_old(self.machine, relation.number, address(cells), 4 * cells.shape[1], former.count, address(result))
        finally:
            relation.bits.forget()
        return result

    def remember(self, memo: Relation, rows: Cells) -> None:
        """Add rows to a memo, permanently."""
        memo.load(rows, F.IN | F.OLD)

    @property
    def nbytes(self) -> int:
        return sum(relation.nbytes for relation in self.relations) + self.terms.nbytes + self.spare.nbytes
